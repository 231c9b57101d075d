"""How the candidates see the target: predictions under each, where they differ, what to expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import entropy
from sklearn.base import clone

from .choice import SCORE_CAP, Candidate
from .domain import evenly
from .evidence import COMPARED, Evidence
from .predictors import default_estimator, errors, witnesses

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

# Parts into which source rows are cut to see how well the predictor does on rows it has not seen.
FOLDS = 2


@dataclass(frozen=True, eq=False)
class Views:
    """Linear predictors trained on the source, one for each way the candidates map it.

    ``predictors`` holds that of each candidate, trained on ``rows`` with ``labels``, and
    ``witnesses`` predictors of other kinds, with what each counts: they agree with it where the
    source's rows leave no doubt, and part where a map takes rows elsewhere.
    """

    candidates: tuple[Candidate, ...]
    predictors: tuple[Any, ...]
    witnesses: tuple[tuple[tuple[Any, float], ...], ...]
    task: str
    rows: Array
    labels: Array
    seed: int

    @property
    def own_error(self) -> float:
        """Mean error of the first candidate's predictor on source rows held out."""
        return self.candidates[0].own_error

    def _among_themselves(self, i: int) -> tuple[float, float]:
        """Discord and mean error on source rows held out; NaN where a class would be alone.

        Of the predictors of candidate i. The error is the share wrong, or the mean squared
        distance.
        """
        Z, y = self.candidates[i].source.plain(self.rows), self.labels
        parts = np.random.default_rng(self.seed).permutation(y.size) % FOLDS
        found = []
        for part in range(FOLDS):
            train, test = parts != part, parts == part
            if np.unique(y[train]).size < 2 or not test.any():
                continue
            own = clone(self.predictors[i]).fit(Z[train], y[train])
            others = [
                (clone(other).fit(Z[train], y[train]), share) for other, share in self.witnesses[i]
            ]
            wrong = errors(own.predict(Z[test]), y[test], self.task).mean()
            found.append((self._dissent(own, others, Z[test]), float(wrong)))
        if not found:
            return float("nan"), float("nan")
        discord, wrong = np.mean(found, axis=0)
        return float(discord), float(wrong)

    def _dissent(self, own: Any, others: Sequence[tuple[Any, float]], placed: Array) -> float:
        """Share of rows that others class otherwise; squared difference over the spread."""
        said = own.predict(placed)
        spread = 1.0 if self.task == "classification" else float(np.var(self.labels)) or 1.0
        return sum(
            share * float(errors(other.predict(placed), said, self.task).mean()) / spread
            for other, share in others
        )

    def ordered(self, candidates: Sequence[Candidate], order: Sequence[int]) -> Views:
        """The views of the same candidates in another order."""
        predictors = tuple(self.predictors[i] for i in order)
        others = tuple(self.witnesses[i] for i in order)
        return replace(self, candidates=tuple(candidates), predictors=predictors, witnesses=others)

    def of(self, rows: Matrix) -> Array:
        """Predictions for target rows (n, d) under each candidate (c, n)."""
        views = zip(self.candidates, self.predictors, strict=True)
        return np.stack([p.predict(c.target.plain(rows)) for c, p in views])

    def with_facts(self, rows: Matrix) -> Views:
        """The views of the candidates with discord and information about rows (n, d)."""
        own: dict[int, tuple[float, float]] = {}
        found = []
        for i, candidate in enumerate(self.candidates):
            placed = candidate.target.plain(rows)
            key = id(candidate.source)
            if key not in own:
                own[key] = self._among_themselves(i)
            found.append(
                replace(
                    candidate,
                    discord=self._dissent(self.predictors[i], self.witnesses[i], placed),
                    own_discord=own[key][0],
                    own_error=own[key][1],
                    information=_information(self.predictors[i], placed)
                    if self.task == "classification"
                    else 0.0,
                )
            )
        return replace(self, candidates=tuple(found))

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

        What its predictor gets right of the source, less the discord that the map adds to the
        source's own, times how far the candidates that scores leave standing, by their weights,
        agree with it: predictions that hang on the map chosen are not to be trusted.
        """
        first = self.candidates[0]
        if self.task != "classification" or not np.isfinite(first.own_error):
            return float("nan")
        right = 1.0 - first.own_error - max(0.0, first.discord - first.own_discord)
        weights = np.array([candidate.weight for candidate in self.candidates])
        weights = weights * (weights > weights.max() * np.exp(1e-9 - SCORE_CAP))
        return float(max(0.0, right) * (weights @ (1.0 - apart)) / weights.sum())


def see(
    candidates: Sequence[Candidate], evidence: Evidence, *, heard: bool = False
) -> Views | None:
    """Views of the candidates; None without source labels, or with one class only.

    Witnesses come along only where they are to be ``heard``.
    """
    if evidence.trained is None:
        return None
    X, y = (evenly(part, COMPARED) for part in (evidence.trained.rows, evidence.trained.labels))
    if np.unique(y).size < 2:
        return None
    model = default_estimator(evidence.task)
    others = witnesses(evidence.task, y.size) if heard else ()
    fitted: dict[int, tuple[Any, tuple[tuple[Any, float], ...]]] = {}
    for candidate in candidates:
        key = id(candidate.source)
        if key not in fitted:
            placed = candidate.source.plain(X)
            fitted[key] = (
                clone(model).fit(placed, y),
                tuple((clone(other).fit(placed, y), share) for other, share in others),
            )
    pairs = [fitted[id(candidate.source)] for candidate in candidates]
    predictors, beside = zip(*pairs, strict=True)
    return Views(tuple(candidates), predictors, beside, evidence.task, X, y, evidence.seed)


def _information(model: Any, rows: Array) -> float:
    """``(H(mean p) − mean H(p)) / log c`` of the predicted probabilities of c classes."""
    p = model.predict_proba(rows)
    gain = entropy(p.mean(axis=0)) - float(np.mean(entropy(p, axis=1)))
    return float(gain / np.log(p.shape[1]))


def places_apart(candidates: Sequence[Candidate], evidence: Evidence) -> Vector:
    """Without labels, how differently candidates place the target's rows (c,).

    The squared distance between a row's places in the shared space, over that of unrelated rows.
    """
    space = evidence.space
    placed = [space.placed(candidate.target_to_source) for candidate in candidates]
    apart = [np.mean(np.sum((rows - placed[0]) ** 2, axis=1)) for rows in placed]
    return np.array(apart) / (2.0 * space.p)
