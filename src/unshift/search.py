"""Starts of several kinds, descended together: the distinct minima of MMD² over O(p).

``MMD²(Z_A, Z_B Rᵀ)`` has many local minima in both components of O(p). Starts are proposed, scored
in one batch by the spectral objective, the promising ones descended with the bandwidth from coarse
to fine, minima that coincide merged, and each reported with its exact MMD².
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from . import stiefel
from .descent import descend
from .invariants import InvariantStarts
from .mmd import ExactMMD
from .spectral import SpectralMMD, orthogonal_frequencies

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

FINISHED = "Finished: every start was used."
INTERRUPTED = "Interrupted: these are the best rotations so far."

# Bandwidths of the descent, as multiples of √p, until the one asked for
COARSE = (2.0, np.sqrt(2.0), 1.0)
# Rows of each domain that the starts and the descents look at
START_ROWS, DESCENT_ROWS = 2000, 1500
# Rotations closer than this (root mean square angle in radians) are one minimum
SAME = 0.15
# Minima that are polished on the exact objective
POLISHED = 6


@dataclass(frozen=True, eq=False)
class Found:
    """A distinct minimum: rotation (p, p), exact MMD², the kind of start and how many met there."""

    rotation: Matrix
    mmd2: float
    kind: str
    starts: int


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The distinct minima, lowest MMD² first, and what it took to find them."""

    found: tuple[Found, ...]
    n_starts: int
    n_evaluations: int
    status: str


@dataclass(frozen=True, eq=False)
class _Start:
    kind: str
    rotation: Matrix


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
    callback: Callable[[str, int, int], object] | None = None,
) -> SearchResult:
    """Minima of ``MMD²(Z_source, Z_target Rᵀ)`` over O(p), for whitened rows (n_A, p), (n_B, p).

    ``anchor`` (p, p) is a rotation to start from, ``class_means`` are the labelled means of both
    domains, (k, p) each. Starts that are given (anchor, class means, the paper's +I and −I) are
    always descended and reported; of the ``n_starts`` that are drawn, the most promising are.
    ``callback(stage, done, total)`` is told of the progress. Results do not depend on ``n_jobs``.
    """
    p = Z_source.shape[1]
    count = 8 + 2 * p if n_starts == "auto" else int(n_starts)
    with threadpool_limits(1):
        given = _given_starts(p, anchor, class_means)
        drawn = _drawn_starts(Z_source, Z_target, count, rng, n_jobs)
        starts = given + _promising(Z_source, Z_target, drawn, 4 + p // 2, rng)
        if callback is not None:
            callback("starts", len(drawn), len(drawn))
        R, evaluations = _descend_all(Z_source, Z_target, starts, sigma, rng, n_jobs)
        if callback is not None:
            callback("descent", len(starts), len(starts))
        exact = ExactMMD(_float32(Z_source), _float32(Z_target), sigma)
        found, polish_evaluations = _polished(exact, R, [s.kind for s in starts], len(given))
    return SearchResult(found, len(given) + count, evaluations + polish_evaluations, FINISHED)


def _float32(Z: Matrix) -> npt.NDArray[np.float32]:
    return Z.astype(np.float32)


def _given_starts(
    p: int, anchor: Matrix | None, class_means: tuple[Matrix, Matrix] | None
) -> list[_Start]:
    mirror = np.eye(p)
    mirror[0, 0] = -1.0
    starts = [_Start("identity", np.eye(p)), _Start("mirror", mirror)]
    if anchor is not None:
        starts.append(_Start("anchor", anchor))
    if class_means is not None:
        source, target = class_means
        starts.append(_Start("class means", stiefel.polar(source.T @ target)))
    return starts


def _drawn_starts(
    Z_source: Matrix, Z_target: Matrix, count: int, rng: np.random.Generator, n_jobs: int | None
) -> list[_Start]:
    """Starts from the invariants of the rows, and a quarter as many at random in each component."""
    p = Z_source.shape[1]
    proposer = InvariantStarts(
        _sample(Z_source, START_ROWS, rng), _sample(Z_target, START_ROWS, rng)
    )
    draws = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(proposer.draw)(child) for child in rng.spawn(count)
    )
    randoms = stiefel.random_orthogonal(p, rng, size=max(2, count // 4))
    return [_Start("invariants", R) for R in draws] + [_Start("random", R) for R in randoms]


def _sample(Z: Matrix, rows: int, rng: np.random.Generator) -> Matrix:
    return Z if Z.shape[0] <= rows else Z[rng.choice(Z.shape[0], rows, replace=False)]


def _frequency_count(p: int) -> int:
    """More than the p(p − 1)/2 angles that a descent can fit, and 256 at least."""
    return max(256, p * p)


def _promising(
    Z_source: Matrix, Z_target: Matrix, starts: list[_Start], keep: int, rng: np.random.Generator
) -> list[_Start]:
    """The starts of lowest spectral discrepancy at σ² = p."""
    p = Z_source.shape[1]
    frequencies = orthogonal_frequencies(p, _frequency_count(p), np.sqrt(p), rng)
    target = _float32(_sample(Z_target, DESCENT_ROWS, rng))
    spectral = SpectralMMD(_float32(Z_source), frequencies)
    values = [spectral.values(target, start.rotation[None])[0] for start in starts]
    return [starts[at] for at in np.argsort(values)[:keep]]


def _descend_all(
    Z_source: Matrix,
    Z_target: Matrix,
    starts: list[_Start],
    sigma: float,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> tuple[Matrix, int]:
    """All starts through the bandwidths from coarse to fine."""
    p = Z_source.shape[1]
    R = np.stack([start.rotation for start in starts])
    widths = [w * np.sqrt(p) for w in COARSE if w * np.sqrt(p) > 1.05 * sigma] + [sigma]
    evaluations = 0
    for width in widths:
        frequencies = orthogonal_frequencies(p, 2 * _frequency_count(p), width, rng)
        spectral = SpectralMMD(_float32(Z_source), frequencies)
        target = _float32(_sample(Z_target, DESCENT_ROWS, rng))

        objective = partial(spectral.values_and_gradients, target)
        done = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(descend)(objective, R[at : at + 2], 30) for at in range(0, len(R), 2)
        )
        R = np.concatenate([points for points, _, _ in done])
        evaluations += sum(spent for _, _, spent in done)
    return R, evaluations


def _polished(
    exact: ExactMMD, R: Matrix, kinds: list[str], n_given: int
) -> tuple[tuple[Found, ...], int]:
    """Distinct minima after a descent of the exact objective, the given starts' among them."""
    values = np.array([exact.value(rotation) for rotation in R])
    groups = _groups(R, values)
    best = {group[0] for group in groups[:POLISHED]}
    evaluations = len(values)
    polished, final, starts = [], [], []
    for group in groups:
        at = group[0]
        if at in best or min(group) < n_given:
            minimum = stiefel.minimize(exact.value_and_gradient, R[at], max_iter=40, tol=1e-3)
            evaluations += minimum.evaluations
            polished.append(minimum.point)
            final.append(minimum.value)
            starts.append(group)
    again = _groups(np.stack(polished), np.array(final))
    found = []
    for group in again:
        members = [at for g in group for at in starts[g]]
        kind = kinds[starts[group[0]][0]]
        found.append(Found(polished[group[0]], final[group[0]], kind, len(members)))
    return tuple(found), evaluations


def _groups(R: Matrix, values: Vector) -> list[list[int]]:
    """Indices of rotations that coincide, lowest value first within and between groups."""
    groups: list[list[int]] = []
    for at in np.argsort(values, kind="stable"):
        for group in groups:
            if _angle(R[at], R[group[0]]) < SAME:
                group.append(int(at))
                break
        else:
            groups.append([int(at)])
    return groups


def _angle(first: Matrix, second: Matrix) -> float:
    """``‖R₁ − R₂‖_F / √p``: how far the typical row is moved, relative to its length."""
    return float(np.linalg.norm(first - second) / np.sqrt(first.shape[0]))
