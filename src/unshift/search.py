"""The search for the rotation: minima of ``MMD²(Z_A, Z_B Rᵀ)`` over both components of O(p).

There are many local minima. Starts are proposed in rounds (rotations in closed form from the
invariants of the rows, random ones, and those that the caller gives) and descended on a sample of
the rows. Each round moves on from its best by reflections that a descent cannot make and by turns
where the rotation is known least, of itself, so that rounds which end at one minimum vouch for it.
Minima that coincide are merged, polished on all rows, and reported with their exact MMD².
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from joblib import Parallel

from . import stiefel
from .descent import one_thread
from .minima import Found, Minima
from .plane import scan

__all__ = ["Found", "SearchResult", "search"]

Matrix = npt.NDArray[np.float64]
Progress = Callable[[str, int, int], object]

FINISHED = "Finished: all starts were used. Raise n_starts for more certainty."
SURE = "Stopped early: several starts met at the best minimum."
SCANNED = "Finished: both components were scanned."
INTERRUPTED = "Interrupted: these are the best rotations so far, not polished."

# Starts drawn in a round; rounds of "auto", one more for every three dimensions up to the limit
DRAWN = 4
FEWEST_ROUNDS, MOST_ROUNDS = 6, 12
# Starts that have to meet at the best minimum before "auto" stops
ENOUGH = 3


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The distinct minima, lowest MMD² first, and what it took to find them.

    ``ends`` holds for each descent the kind of its start and the MMD² of a sample where it ended.
    """

    found: tuple[Found, ...]
    n_starts: int
    n_evaluations: int
    status: str
    ends: tuple[tuple[str, float], ...]


def search(
    Z_source: Matrix,
    Z_target: Matrix,
    *,
    sigma: float,
    rng: np.random.Generator,
    anchor: Matrix | None = None,
    class_means: tuple[Matrix, Matrix] | None = None,
    n_starts: int | str = "auto",
    n_jobs: int | None = None,
    callback: Progress | None = None,
) -> SearchResult:
    """Minima of ``MMD²(Z_source, Z_target Rᵀ)`` over O(p), for whitened rows (n_A, p), (n_B, p).

    ``anchor`` (p, p) is a rotation to start from; ``class_means`` are the labelled means of both
    domains, (k, p) each. Starts that are given (these, and +I and −I as in the paper, or a
    reflection where −I is a rotation) are always descended and reported. ``n_starts`` others are
    drawn; "auto" draws them in rounds until several starts have met at the best minimum. For
    p <= 2 both components are scanned instead.

    ``callback("starts", done, total)`` is told of the progress. An interrupt from the keyboard
    ends the search with the best so far. ``n_jobs`` workers of joblib share the work: threads,
    unless ``joblib.parallel_config`` names another backend. Results depend on neither.
    """
    p = Z_source.shape[1]
    given = _given_starts(p, anchor, class_means)
    # one thread of linear algebra per task: results cannot depend on how many share a machine
    with one_thread(), Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
        minima = Minima(Z_source, Z_target, sigma, rng, parallel)
        reported, status = len(given), SCANNED
        if p <= 2:
            scanned = scan(minima.source, minima.target, sigma)
            minima.add(["scan"] * len(scanned), scanned)
            reported += len(scanned)
            if callback is not None:
                callback("starts", 1, 1)
        minima.descend_given(list(given), np.stack(list(given.values())))
        try:
            if p > 2:
                status = _draw_rounds(minima, n_starts, callback)
            found = minima.polished(reported)
        except KeyboardInterrupt:
            status = INTERRUPTED
            found = minima.unpolished(reported)
    ends = tuple(zip(minima.kinds, minima.values.tolist(), strict=True))
    return SearchResult(found, reported + minima.drawn, minima.evaluations, status, ends)


def _draw_rounds(minima: Minima, n_starts: int | str, callback: Progress | None) -> str:
    """Draw and improve, until all starts are used or "auto" is sure; the status."""
    rounds = min(MOST_ROUNDS, FEWEST_ROUNDS + minima.p // 3)
    total = rounds * DRAWN if n_starts == "auto" else int(n_starts)
    while minima.drawn < total:
        minima.draw(min(DRAWN, total - minima.drawn))
        if callback is not None:
            callback("starts", minima.drawn, total)
        if n_starts == "auto" and minima.met() >= ENOUGH:
            return SURE
    return FINISHED


def _given_starts(
    p: int, anchor: Matrix | None, class_means: tuple[Matrix, Matrix] | None
) -> dict[str, Matrix]:
    """Starts by kind, from the least to the most specific.

    −I is in the other component of O(p) where p is odd; where it is even, a reflection is.
    """
    mirror = -np.eye(p)
    if p % 2 == 0:
        mirror[1:, 1:] *= -1.0
    starts = {"identity": np.eye(p), "reflected identity": mirror}
    if class_means is not None:
        source, target = class_means
        starts["class means"] = stiefel.polar(source.T @ target)
    if anchor is not None:
        starts["anchor"] = anchor
    return starts
