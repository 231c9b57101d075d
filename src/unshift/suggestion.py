"""Which target rows to label: those on which the standing candidates disagree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .choice import DOUBT
from .views import Views

Vector = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Array = npt.NDArray[Any]

# Rounds of imagined labelling behind the estimate of how far the labels would settle it.
ROUNDS = 400


@dataclass(frozen=True, eq=False)
class Suggestion:
    """Rows worth labelling, most telling first, and what their labels would do.

    ``rows`` (k,) are positions in the rows given; use it as an index. ``belief_now`` is the share
    of belief in the leading view of the target, ``belief_then`` what the right one is expected to
    have once these rows are labelled.
    """

    rows: Rows
    belief_now: float
    belief_then: float

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The rows' positions."""
        return np.array(self.rows, dtype=dtype)

    def __len__(self) -> int:
        """How many rows."""
        return int(self.rows.size)

    def __iter__(self) -> Iterator[int]:
        """Positions, most telling first."""
        return iter(self.rows.tolist())

    def __str__(self) -> str:
        """A sentence."""
        if not self.rows.size or self.belief_now > 1.0 - 1e-9:
            return "All candidates see these rows alike: labels would not change the choice."
        return (
            f"Labels of rows {self.rows.tolist()} are expected to raise the belief in the right "
            f"view of the target from {self.belief_now:.2f} to {self.belief_then:.2f}."
        )


def suggest(views: Views, rows: Array, k: int, seed: int) -> Suggestion:
    """The k rows (of n) whose labels best separate the candidates, by their present weights.

    A label tells two candidates apart with Bhattacharyya's coefficient ``ρ``: ``2 √(ε(1 − ε))``
    where they class the row differently and ``ε`` is the chance that the right one errs, 1 where
    not. The chance of confusion is bounded by ``Σ w_a w_b Π ρ``, a function with diminishing
    returns: taking the row that lowers it most, again and again, is within 1 − 1/e of the best.
    """
    if not 1 <= k <= rows.shape[0]:
        raise ValueError(
            f"k should be a whole number from 1 to the {rows.shape[0]} rows given; got {k!r}."
        )
    seen = views.of(rows)
    weights = np.array([candidate.weight for candidate in views.candidates])
    logs = _separations(views, seen)
    pairs = np.outer(weights, weights)
    chosen: list[int] = []
    open_rows = np.ones(rows.shape[0], dtype=np.bool_)
    for _ in range(k):
        confusion = np.array([np.sum(pairs * np.exp(log)) for log in logs])
        confusion[~open_rows] = np.inf
        best = int(confusion.argmin())
        chosen.append(best)
        open_rows[best] = False
        pairs = pairs * np.exp(logs[best])
    same = views.apart(seen) < 1e-9
    now = float(weights[same].sum())
    return Suggestion(
        np.array(chosen, dtype=np.intp), now, _belief_then(views, seen[:, chosen], weights, seed)
    )


def _separations(views: Views, seen: Array) -> npt.NDArray[np.float64]:
    """``log ρ`` of each row for each pair of candidates (n, c, c)."""
    if views.task == "classification":
        rho = np.log(2.0 * np.sqrt(DOUBT * (1.0 - DOUBT)))
        differ = seen.T[:, :, None] != seen.T[:, None, :]
        return np.where(differ, rho, 0.0)
    # two normals of equal variance: −Δ²/(8 s²)
    gaps = (seen.T[:, :, None] - seen.T[:, None, :]) ** 2
    logs: npt.NDArray[np.float64] = -gaps / (8.0 * max(views.own_error, 1e-300))
    return np.maximum(logs, -2.0)


def _belief_then(views: Views, seen: Array, weights: Vector, seed: int) -> float:
    """Expected share of belief in the right view of these rows, over imagined labels."""
    rng = np.random.default_rng(seed)
    logs = _separations(views, seen)
    total = 0.0
    for truth in rng.choice(weights.size, size=ROUNDS, p=weights):
        if views.task == "classification":
            right = rng.uniform(size=seen.shape[1]) > DOUBT
            labels = np.where(right, seen[truth], None)  # an error agrees with no candidate
            hits = np.sum(seen == labels, axis=1)
            belief = np.log(weights + 1e-300) + hits * np.log((1.0 - DOUBT) / DOUBT)
        else:
            noise = rng.normal(size=seen.shape[1]) * np.sqrt(views.own_error)
            gaps = (seen - seen[truth] - noise) ** 2 / max(views.own_error, 1e-300)
            belief = np.log(weights + 1e-300) - np.minimum(0.5 * gaps, np.log(10.0)).sum(axis=1)
        share = np.exp(belief - belief.max())
        alike = np.all(logs[:, truth, :] > -1e-9, axis=0)
        total += float(share[alike].sum() / share.sum())
    return total / ROUNDS
