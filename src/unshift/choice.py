"""Candidates, the evidence about each, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .affine import AffineMap
from .predictors import errors, fit_estimator

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

NO_ADAPTATION = "no adaptation"
ANCHOR = "anchor"


@dataclass(frozen=True, eq=False)
class Candidate:
    """One alignment: the maps of both domains into a shared space, and what speaks for it.

    ``kind`` names where it came from; ``rotation`` is ``R`` (p, p), None where nothing is rotated.
    ``mmd2`` is measured in the source's whitened space, with one bandwidth for all candidates.
    ``displacement`` is the mean squared distance there by which it moves target rows from where
    'no adaptation' leaves them (0 where columns do not correspond and nothing can be compared).
    ``starts`` counts the descents that met here. ``error`` is the mean error on ``n_labelled``
    labelled target rows of a predictor trained on the source, NaN without labels.
    """

    kind: str
    source: AffineMap
    target: AffineMap
    target_to_source: AffineMap
    rotation: Matrix | None
    mmd2: float
    displacement: float = 0.0
    starts: int = 1
    error: float = float("nan")
    n_labelled: int = 0

    def __repr__(self) -> str:
        """One line: kind, MMD², starts, error."""
        error = f", error {self.error:.3g} on {self.n_labelled} labels" if self.n_labelled else ""
        return f"<Candidate {self.kind!r}: MMD² {self.mmd2:.4g}, {self.starts} starts{error}>"


def judge(
    candidates: Sequence[Candidate],
    source: tuple[Matrix, Array],
    target: tuple[Matrix, Array],
    task: str,
    estimator: Any,
) -> list[Candidate]:
    """Candidates with the error on the labelled target rows of a predictor trained on the source.

    ``source`` and ``target`` hold rows of features and their labels. One predictor serves all
    candidates that map the source alike: rotations act on the target.
    """
    fitted: dict[int, Any] = {}
    judged = []
    for candidate in candidates:
        key = id(candidate.source)
        if key not in fitted:
            fitted[key] = fit_estimator(estimator, candidate.source(source[0]), source[1], None)
        wrong = errors(fitted[key].predict(candidate.target(target[0])), target[1], task)
        judged.append(replace(candidate, error=float(wrong.mean()), n_labelled=wrong.size))
    return judged


def rank(candidates: Sequence[Candidate], choice: str) -> tuple[Candidate, ...]:
    """Candidates, best first.

    With labels: by error, ties by less adaptation, then MMD² (the paper's semi-supervised rule).
    Without: "paper" goes by MMD² alone. "auto" does so only where columns do not correspond;
    where they do, a lower MMD² is not a better alignment, and the descent from the feature
    anchor, which moves features least, comes first, unless 'no adaptation' has no larger MMD².
    """
    if any(candidate.n_labelled for candidate in candidates):
        return tuple(sorted(candidates, key=lambda c: (c.error, c.displacement, c.mmd2)))
    by_mmd = sorted(candidates, key=lambda c: (c.mmd2, c.displacement))
    none = next((c for c in candidates if c.kind == NO_ADAPTATION), None)
    if choice == "paper" or none is None:
        return tuple(by_mmd)
    anchored = [c for c in by_mmd if c.kind == ANCHOR]
    if anchored and none.mmd2 <= anchored[0].mmd2:
        anchored = [none, *anchored]
    return (*anchored, *(c for c in by_mmd if c not in anchored))
