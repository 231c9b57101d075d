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
BLEND = "blend"

# Price of a number fitted per dimension, in units of log(n)/n, and how far misfit that no
# candidate removes raises it: where the shift is not affine, likelihood flatters freedom.
PRICE, OVERDISPERSION = 1.5, 0.01
# Nats a row and dimension that a rotation must gain to be believed against columns that correspond.
UNBOUND = 0.25
# A difference in score that makes one candidate e times as credible as another, with rows without
# end, and the most that scores alone may claim (in nats): labels must be able to overrule them.
SCORE_UNIT, SCORE_CAP = 0.02, 3.0
# Nats a row and dimension of misfit above which nothing fits.
NOTHING_FITS = 0.4
# What information is worth beside concord; the price of any map, and that of the numbers it fits.
INFORMATION, STEP, FITTED = 0.2, 0.02, 0.1
# What a nat of misfit costs, up to one: no more than to tell apart what is as clear to predict.
UNLIKE = 0.02
# What another balance of the classes costs, a share of rows in other classes.
REBALANCED = 0.05
# Of numbers, discord counts by its logarithm, above this share of the variance, in this unit.
UNRELATED, LOGARITHM = 0.3, 0.02
# Of rows left as they are, as many may be where the source has few, and their discord may be this
# many times the source's own and this much more: then nothing speaks for a shift, and maps pay.
OUTSIDE, WIDER, MORE, STAY = 0.12, 1.5, 0.02, 0.1
# Nats a row and dimension of misfit below which a map fits well enough to go by its mixture: a
# rotation that leaves aside that columns correspond must, and pays; one that does not pays more
# than any score. Where nothing fits, whitening pays: what it blows up may mean something else.
FITS, TURNED, FALLEN, BLOWN_UP = 0.2, 0.03, 10.0, 0.1
# A right candidate errs on a label this often: one label more that it gets right speaks for it
# with 1.5 nats, so that two are needed against all that scores may claim.
DOUBT = 0.18


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
    and ``weight`` the share of belief that all evidence together gives it. ``discord`` is how far
    predictors of several kinds, all trained on the source, differ on the target's rows: the share
    classed otherwise, or the mean squared difference over the labels' variance; ``own_discord`` is
    theirs on source rows that they were not trained on, ``own_error`` the first's error there.
    ``outside`` is the share of target rows that lie where the source has few of its own.
    ``information`` is that of the prediction about the row, from 0 to 1; both are NaN where the
    source has no labels. ``balance`` holds the class proportions (c,) under which the target's
    rows are most likely, in the classes' order, ``residual`` what the test of what is left found.
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
    discord: float = float("nan")
    own_discord: float = float("nan")
    own_error: float = float("nan")
    outside: float = float("nan")
    information: float = float("nan")
    balance: tuple[float, ...] = ()
    residual: tuple[float, ...] = ()

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
    all_gaps = np.stack(gaps)
    supports = _supports(all_gaps, task)
    if task == "classification":
        supports -= SCORE_CAP * _no_better(candidates, all_gaps > 0)
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


def _no_better(candidates: Sequence[Candidate], wrong: npt.NDArray[np.bool_]) -> Vector:
    """1 for candidates (c,) that get no more labels right than rows left as they are, else 0.

    Of ``wrong`` (c, n) only candidates that labels tell from 'no adaptation' are concerned: they
    have not earned what their score claims for them.
    """
    none = next(
        (w for c, w in zip(candidates, wrong, strict=True) if c.kind == NO_ADAPTATION), None
    )
    if none is None:
        return np.zeros(len(candidates))
    told = (wrong != none).any(axis=1)
    return np.asarray(told & (wrong.sum(axis=1) >= none.sum()), dtype=np.float64)


def misfit_scores(candidates: Sequence[Candidate], rows: float, unbound: float = UNBOUND) -> Vector:
    """Credit of each candidate (c,) without labels of either domain, in nats a row and dimension.

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


def concord_scores(
    candidates: Sequence[Candidate],
    rows: float,
    task: str,
    classes: Vector | None = None,
    unbound: float = UNBOUND,
) -> Vector:
    """Credit of each candidate (c,) by what predictors trained on the source make of the target.

    ``−discord + INFORMATION · information − price``, the discord of numbers by its logarithm.
    Where two predictors differ one of them is wrong, so that discord bounds the sum of their errors
    from below, whatever the labels are; information keeps from maps that make all rows look alike.
    ``classes`` is the source's balance: another one costs something. Where nothing speaks for a
    shift all maps do. A rotation that leaves aside that columns correspond stands only where it
    fits, and its misfit is lower by ``unbound`` than that of the best that does not.
    """
    discord = np.array([candidate.discord for candidate in candidates])
    freedom = np.array([candidate.freedom for candidate in candidates])
    price = STEP * (freedom > 0) + FITTED * freedom * np.log(rows) / rows
    if task == "regression":
        gain = -LOGARITHM * np.log(discord + UNRELATED)
    else:
        gain = -discord + INFORMATION * np.array([c.information for c in candidates])
    if classes is not None:
        balances = np.array([candidate.balance for candidate in candidates])
        price += REBALANCED * 0.5 * np.abs(balances - classes).sum(axis=1)
    if any(no_shift(candidate) for candidate in candidates):
        price += STAY * (freedom > 0)
    misfits = np.array([candidate.misfit for candidate in candidates])
    whitened = np.array([candidate.rotation is not None for candidate in candidates])
    price += UNLIKE * np.minimum(misfits, 1.0) + BLOWN_UP * (whitened & (misfits > NOTHING_FITS))
    credit: Vector = gain - price
    turned = np.array([candidate.unbound for candidate in candidates])
    if turned.any() and not turned.all():
        rival = misfits[np.where(turned, -np.inf, credit).argmax()]
        credit -= turned * (TURNED * (unbound > 0))
        credit -= FALLEN * (turned & (misfits > min(FITS, rival - unbound)))
    return credit


def no_shift(candidate: Candidate) -> bool:
    """Whether rows left as they are lie among the source's own and are as clear to predict."""
    return bool(
        candidate.kind == NO_ADAPTATION
        and candidate.outside <= OUTSIDE
        and candidate.discord <= WIDER * candidate.own_discord + MORE
    )


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
