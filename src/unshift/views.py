"""How the candidates see the target: predictions under each, where they differ, what to expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from .choice import Candidate
from .domain import evenly
from .evidence import COMPARED, Evidence
from .predictors import default_estimator, errors

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

# Parts into which source rows are cut to see how well the predictor does on rows it has not seen.
FOLDS = 3


@dataclass(frozen=True, eq=False)
class Views:
    """Linear predictors trained on the source, one for each way the candidates map it.

    ``predictors`` holds that of each candidate; ``own_error`` the mean error of the first one's
    on source rows held out (the share wrong, or the mean squared distance).
    """

    candidates: tuple[Candidate, ...]
    predictors: tuple[Any, ...]
    task: str
    own_error: float

    def of(self, rows: Matrix) -> Array:
        """Predictions for target rows (n, d) under each candidate (c, n)."""
        views = zip(self.candidates, self.predictors, strict=True)
        return np.stack([p.predict(c.target.plain(rows)) for c, p in views])

    def apart(self, seen: Array) -> Vector:
        """How much each view (c, n) differs from the first (c,).

        The share of rows classed otherwise; for numbers the squared difference over the spread.
        """
        if self.task == "classification":
            shares: Vector = np.mean(seen != seen[0], axis=1)
            return shares
        spread = float(np.var(seen[0])) or 1.0
        gaps: Vector = np.mean((seen - seen[0]) ** 2, axis=1) / spread
        return np.minimum(1.0, gaps)

    def expected_accuracy(self, apart: Vector) -> float:
        """Share of target rows that the first candidate should get right; NaN for numbers.

        What its predictor gets right of the source, times how far all candidates, by their
        weights, agree with it: predictions that hang on the map chosen are not to be trusted.
        """
        if self.task != "classification":
            return float("nan")
        weights = np.array([candidate.weight for candidate in self.candidates])
        return float((1.0 - self.own_error) * (weights @ (1.0 - apart)))


def see(candidates: Sequence[Candidate], evidence: Evidence) -> Views | None:
    """Views of the candidates; None without source labels, or with one class only."""
    if evidence.trained is None:
        return None
    X, y = (evenly(part, COMPARED) for part in (evidence.trained.rows, evidence.trained.labels))
    if np.unique(y).size < 2:
        return None
    model = default_estimator(evidence.task)
    fitted: dict[int, Any] = {}
    predictors = []
    for candidate in candidates:
        key = id(candidate.source)
        if key not in fitted:
            fitted[key] = clone(model).fit(candidate.source.plain(X), y)
        predictors.append(fitted[key])
    Z = candidates[0].source.plain(X)
    return Views(
        tuple(candidates), tuple(predictors), evidence.task, _held_out_error(model, Z, y, evidence)
    )


def _held_out_error(model: Any, Z: Matrix, y: Array, evidence: Evidence) -> float:
    """Mean error over rows held out in turn, dealt at random; NaN where one class would be left."""
    parts = np.random.default_rng(evidence.seed).permutation(y.size) % FOLDS
    gaps = []
    for part in range(FOLDS):
        train, test = parts != part, parts == part
        if np.unique(y[train]).size < 2 or not test.any():
            continue
        predicted = clone(model).fit(Z[train], y[train]).predict(Z[test])
        gaps.append(errors(predicted, y[test], evidence.task))
    return float(np.concatenate(gaps).mean()) if gaps else float("nan")


def places_apart(candidates: Sequence[Candidate], evidence: Evidence) -> Vector:
    """Without labels, how differently candidates place the target's rows (c,).

    The squared distance between a row's places in the shared space, over that of unrelated rows.
    """
    space = evidence.space
    placed = [space.placed(candidate.target_to_source) for candidate in candidates]
    apart = [np.mean(np.sum((rows - placed[0]) ** 2, axis=1)) for rows in placed]
    return np.array(apart) / (2.0 * space.p)
