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

# Price of a number fitted per dimension, in units of log(n)/n, and how far misfit that no
# candidate removes raises it: where the shift is not affine, likelihood flatters freedom.
PRICE, OVERDISPERSION = 1.5, 0.01
# Nats a row and dimension that a rotation must gain to be believed against columns that correspond.
UNBOUND = 0.25
# A difference in score that makes one candidate e times as credible as another, with rows without
# end, and the most that scores alone may claim (in nats): labels must be able to overrule them.
SCORE_UNIT, SCORE_CAP = 0.02, 3.0
# Nats a row and dimension above which nothing fits: likelihoods of rows where the source has none
# say little, and candidates are believed by how far the others agree with them, this share a nat.
NOTHING_FITS, AGREEMENT_UNIT = 0.4, 0.05
# A right candidate errs on a label this often: one label more that it gets right speaks for it
# with log(7/3) nats, so that four are needed against all that scores may claim.
DOUBT = 0.3


@dataclass(frozen=True, eq=False)
class Candidate:
    """One alignment: the maps of both domains into a shared space, and what speaks for it.

    ``kind`` names where it came from; ``rotation`` is ``R`` (p, p), None where nothing is rotated.
    ``mmd2`` is measured in the source's whitened space, with one bandwidth for all candidates.
    ``displacement`` is the mean squared distance there by which it moves target rows from where
    'no adaptation' leaves them (0 where columns do not correspond and nothing can be compared).
    ``starts`` counts the descents that met here. ``error`` is the mean error on ``n_labelled``
    labelled target rows of a predictor trained on the source, NaN without labels, and ``support``
    their log-likelihood. ``unbound`` is True where columns correspond but the rotation was sought
    without regard to it. ``freedom`` is how many numbers it fits per dimension, ``misfit`` how
    badly the source's mixture of classes accounts for the target rows (nats a row and dimension),
    and ``weight`` the share of belief that all evidence together gives it. ``balance`` holds the
    class proportions (c,) under which the target's rows are most likely, in the classes' order.
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
    unbound: bool = False
    support: float = 0.0
    freedom: float = 0.0
    misfit: float = float("nan")
    weight: float = float("nan")
    balance: tuple[float, ...] = ()

    def __repr__(self) -> str:
        """One line: kind, MMD², weight, starts, error."""
        error = f", error {self.error:.3g} on {self.n_labelled} labels" if self.n_labelled else ""
        return (
            f"<Candidate {self.kind!r}: weight {self.weight:.2f}, MMD² {self.mmd2:.4g}, "
            f"{self.starts} starts{error}>"
        )


def judge(
    candidates: Sequence[Candidate],
    source: tuple[Matrix, Array],
    target: tuple[Matrix, Array],
    task: str,
    estimator: Any,
) -> list[Candidate]:
    """Candidates with what a predictor trained on the source makes of the labelled target rows.

    ``source`` and ``target`` hold rows of features and their labels. One predictor serves all
    candidates that map the source alike: rotations act on the target.
    """
    fitted: dict[int, Any] = {}
    gaps, judged = [], []
    for candidate in candidates:
        key = id(candidate.source)
        if key not in fitted:
            fitted[key] = fit_estimator(estimator, candidate.source(source[0]), source[1], None)
        gaps.append(errors(fitted[key].predict(candidate.target(target[0])), target[1], task))
    supports = _supports(np.stack(gaps), task)
    for candidate, gap, support in zip(candidates, gaps, supports, strict=True):
        judged.append(
            replace(
                candidate,
                error=float(gap.mean()),
                n_labelled=gap.size,
                support=float(support),
            )
        )
    return judged


def _supports(gaps: Matrix, task: str) -> Vector:
    """Log-likelihood of the labels under each candidate (c,) from their errors (c, n).

    A class is right with probability ``1 − DOUBT``; a number errs normally, with the variance that
    the best candidate shows, and at most ten times as unlikely as at its mean.
    """
    if task == "classification":
        likely: Vector = np.sum(np.where(gaps > 0, np.log(DOUBT), np.log(1.0 - DOUBT)), axis=1)
        return likely
    variance = max(float(np.median(gaps, axis=1).min()) / 0.45, np.finfo(np.float64).tiny)
    numbers: Vector = -np.minimum(0.5 * gaps / variance, np.log(10.0)).sum(axis=1)
    return numbers


def scores(candidates: Sequence[Candidate], rows: float, unbound: float = UNBOUND) -> Vector:
    """Credit of each candidate without labels (c,), in nats a row and dimension.

    ``−misfit − freedom · log n · (PRICE / n + OVERDISPERSION · least misfit)``: a criterion of
    Schwarz's kind, with its penalty inflated as quasi-likelihood does where nothing fits, and a
    fixed price for rotations that leave aside that columns correspond.
    """
    misfits = np.array([candidate.misfit for candidate in candidates])
    freedom = np.array([candidate.freedom for candidate in candidates])
    left = max(0.0, float(misfits.min()))
    turned = np.array([candidate.unbound for candidate in candidates])
    price = freedom * np.log(rows) * (PRICE / rows + OVERDISPERSION * left)
    credit: Vector = -misfits - price - unbound * turned
    return credit


def nothing_fits(candidates: Sequence[Candidate]) -> bool:
    """Whether the best map still leaves the target unlike the source."""
    return min(c.misfit + UNBOUND * c.unbound for c in candidates) > NOTHING_FITS


def agreement_credit(candidates: Sequence[Candidate], agreement: Matrix) -> Vector:
    """Credit of each candidate (c,), in nats, by its mean agreement (c, c) with the others.

    Rotations sought without regard to the columns neither vote nor stand.
    """
    bound = np.array([not candidate.unbound for candidate in candidates])
    votes = agreement[:, bound].sum(axis=1) - bound  # without its own
    mean: Vector = votes / max(1, int(bound.sum()) - 1)
    credit: Vector = (mean - ~bound) / AGREEMENT_UNIT
    return credit


def weigh(candidates: Sequence[Candidate], credit: Vector) -> list[Candidate]:
    """Candidates with their share of belief: capped credit in nats (c,), and labels' support."""
    behind = np.minimum(credit.max() - credit, SCORE_CAP)
    belief = np.array([candidate.support for candidate in candidates]) - behind
    share = np.exp(belief - belief.max())
    share /= share.sum()
    return [replace(c, weight=float(w)) for c, w in zip(candidates, share, strict=True)]


def rank(candidates: Sequence[Candidate], choice: str, credit: Vector) -> list[int]:
    """Positions of the weighed candidates, best first.

    "paper": with labels by error, ties by less adaptation, then MMD²; without by MMD² alone.
    "auto": by weight with labels, and by credit (c,), in nats, without; ties favour less
    adaptation.
    """
    labelled = any(candidate.n_labelled for candidate in candidates)
    if choice == "paper":
        first = [c.error if labelled else c.mmd2 for c in candidates]
    elif labelled:
        first = [-round(c.weight, 9) for c in candidates]
    else:
        first = [-float(value) for value in credit]
    return sorted(
        range(len(candidates)),
        key=lambda i: (first[i], candidates[i].displacement, candidates[i].mmd2),
    )
