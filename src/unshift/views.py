"""How the candidates see the target: predictions under each, where they differ, what to expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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

    ``predictors`` holds that of each candidate, trained on ``rows`` with ``labels``.
    """

    candidates: tuple[Candidate, ...]
    predictors: tuple[Any, ...]
    task: str
    rows: Array
    labels: Array
    seed: int

    @cached_property
    def own_error(self) -> float:
        """Mean error of the first candidate's predictor on source rows held out.

        The share wrong, or the mean squared distance; NaN where a class would be left alone.
        """
        Z, y = self.candidates[0].source.plain(self.rows), self.labels
        parts = np.random.default_rng(self.seed).permutation(y.size) % FOLDS
        gaps = []
        for part in range(FOLDS):
            train, test = parts != part, parts == part
            if np.unique(y[train]).size < 2 or not test.any():
                continue
            predicted = default_estimator(self.task).fit(Z[train], y[train]).predict(Z[test])
            gaps.append(errors(predicted, y[test], self.task))
        return float(np.concatenate(gaps).mean()) if gaps else float("nan")

    def ordered(self, candidates: Sequence[Candidate], order: Sequence[int]) -> Views:
        """The views of the same candidates in another order."""
        predictors = tuple(self.predictors[i] for i in order)
        return replace(self, candidates=tuple(candidates), predictors=predictors)

    def of(self, rows: Matrix) -> Array:
        """Predictions for target rows (n, d) under each candidate (c, n)."""
        views = zip(self.candidates, self.predictors, strict=True)
        return np.stack([p.predict(c.target.plain(rows)) for c, p in views])

    def apart(self, seen: Array, i: int = 0) -> Vector:
        """How much each view (c, n) differs from the i-th (c,).

        The share of rows classed otherwise; for numbers the squared difference over the spread.
        """
        if self.task == "classification":
            shares: Vector = np.mean(seen != seen[i], axis=1)
            return shares
        spread = float(np.var(seen[i])) or 1.0
        gaps: Vector = np.mean((seen - seen[i]) ** 2, axis=1) / spread
        return np.minimum(1.0, gaps)

    def agreement(self, seen: Array) -> Matrix:
        """How far each two views (c, n) agree (c, c)."""
        return 1.0 - np.stack([self.apart(seen, i) for i in range(len(seen))])

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
    return Views(tuple(candidates), tuple(predictors), evidence.task, X, y, evidence.seed)


def places_apart(candidates: Sequence[Candidate], evidence: Evidence) -> Vector:
    """Without labels, how differently candidates place the target's rows (c,).

    The squared distance between a row's places in the shared space, over that of unrelated rows.
    """
    space = evidence.space
    placed = [space.placed(candidate.target_to_source) for candidate in candidates]
    apart = [np.mean(np.sum((rows - placed[0]) ** 2, axis=1)) for rows in placed]
    return np.array(apart) / (2.0 * space.p)
