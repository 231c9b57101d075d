"""From a shared space of two domains to its candidates, and what the choice among them goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .affine import AffineMap
from .balance import balanced_strengths
from .choice import (
    ANCHOR,
    BLEND,
    NO_ADAPTATION,
    SCORE_UNIT,
    UNBOUND,
    Candidate,
    concord_scores,
    misfit_scores,
)
from .contrast import kernel_means, standard_errors_apart, whitened_functions
from .domain import ROWS_PER_DIMENSION, Domain, draw_rows, evenly, feature_anchor
from .joint import refine_jointly
from .labels import Labels
from .mixture import SourceMixture, fit_mixture
from .mmd import ExactMMD
from .search import Found
from .space import SharedSpace, within_sight
from .strengths import Strength, strengths

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

# Leading dimensions in which the source's mixture of classes is compared with the target.
MIXTURE_DIMENSIONS = 15
# Mean log-likelihood of a standard normal variable under its own density, less ½ log variance.
NORMAL_LIKELIHOOD = -0.5 * float(np.log(2.0 * np.pi * np.e))
# Nats a row and dimension below which target rows fit without any map.
FITS_AS_IT_IS = 0.1
# Sampling error of a difference in concord, in deviations of a row.
CONCORD_ERROR = 0.25
# Share of belief in one rotation from which on it is taken alone; else, in nats, what the mean of
# all is ahead of the best of them.
SURE, BLEND_LEAD = 0.95, 0.5
# Share that rotations keep in it where rows are as few as can be.
LEAST_ENOUGH = 0.1
# Rows a side, at most, on which candidates are compared with each other.
COMPARED = 2000
# A joint refinement starts from this many of the best rotations.
JOINT_STARTS = 4


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of features with labels: source rows to train on, target rows to judge by."""

    rows: Array
    labels: Array


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the choice goes by, in samples of rows: what ``update`` and pictures need, no more.

    ``descents`` are the kinds of the starts and the MMD² at which each of them ended.
    """

    space: SharedSpace
    trained: Examples | None
    labelled: Examples | None
    task: str
    estimator: Any
    choice: str
    chance: float
    seed: int = 0
    descents: tuple[tuple[str, float], ...] = ()

    @property
    def assumed(self) -> bool:
        """Whether columns were taken to correspond for no other reason than their number."""
        named = self.space.domains[1].names is not None
        return (
            self.space.correspond[1] and self.space.settings.same_features == "auto" and not named
        )

    def class_labels(self) -> Array | None:
        """Classes of the rows trained on; None for regression, and where classes are too many."""
        if self.trained is None or self.task != "classification":
            return None
        labels = self.trained.labels
        few = np.unique(labels).size <= labels.size // ROWS_PER_DIMENSION
        return labels if few else None

    @cached_property
    def mixtures(self) -> Mixtures:
        """Mixtures of the source's rows, by dimension."""
        labels = self.class_labels()
        if labels is None or self.trained is None:
            return Mixtures(self.space, self.space.domains[0].sampled(), None, self.seed)
        return Mixtures(self.space, self.trained.rows.astype(np.float64), labels, self.seed)

    def class_means(self) -> tuple[Matrix, Matrix] | None:
        """Whitened means (k, p) of the classes that have labelled target rows, in both domains."""
        trained, labelled = self.trained, self.labelled
        if trained is None or labelled is None or self.task != "classification":
            return None
        classes = np.unique(labelled.labels)
        if classes.size < 2:
            return None
        source = self.space.to_shared(0)(trained.rows)
        target = self.space.to_shared(1)(labelled.rows)
        return (
            np.stack([source[trained.labels == c].mean(axis=0) for c in classes]),
            np.stack([target[labelled.labels == c].mean(axis=0) for c in classes]),
        )


def draw_examples(
    domain: Domain, labels: Labels | None, rng: np.random.Generator
) -> Examples | None:
    """A sample of the labelled rows, a row of weight k as k rows."""
    if labels is None:
        return None
    mask = labels.known.astype(np.float64)
    weights = mask if domain.weights is None else mask * domain.weights
    rows = draw_rows(labels.known.size, weights, rng)
    return Examples(domain.rows[rows], labels.values[rows])


def jointly_refined(
    evidence: Evidence,
    found: Sequence[Found],
    weights: tuple[float, float] | str,
    rng: np.random.Generator,
) -> list[Found]:
    """The best rotations and the anchored one, descended on in the joint loss."""
    space, trained, labelled = evidence.space, evidence.trained, evidence.labelled
    assert trained is not None, "align refuses the joint loss without source labels"
    starts = [f for i, f in enumerate(found) if i < JOINT_STARTS or f.kind == ANCHOR]
    whitener = space.whitenings[1].whitener(space.p)
    minima = refine_jointly(
        space.to_shared(0)(trained.rows).astype(np.float64),
        trained.labels,
        space.samples[1],
        np.empty((0, space.p)) if labelled is None else whitener(labelled.rows.astype(np.float64)),
        np.empty(0) if labelled is None else labelled.labels,
        [f.rotation for f in starts],
        sigma=space.sigma,
        task=evidence.task,
        weights=weights,
        rng=rng,
    )
    # The rotations of MMD² alone stay: where they are right, few labels can only disturb them.
    refined = [
        replace(f, rotation=m.rotation, mmd2=m.mmd2, kind=f"joint, from {f.kind}")
        for f, m in zip(starts, minima, strict=True)
    ]
    return [*refined, *found]


def candidates_of(evidence: Evidence, found: Sequence[Found]) -> list[Candidate]:
    """Candidates of the rotations found and, where columns correspond, maps of every strength.

    ``choice="paper"`` has the rotations and 'no adaptation' only.
    """
    space = evidence.space
    source, back = space.to_shared(0), space.to_source()
    candidates = []
    for f in found:
        target = space.to_shared(1, f.rotation)
        freedom = 1.0 + space.p  # mean, covariance and rotation, per dimension
        candidates.append(
            Candidate(
                f.kind,
                source,
                target,
                target.then(back),
                f.rotation,
                f.mmd2,
                starts=f.starts,
                freedom=freedom,
                unbound=space.correspond[1],
            )
        )
    if not space.correspond[1]:
        return candidates
    unadapted = space.unadapted(1)
    moved = [
        replace(c, displacement=_apart(space.placed(c.target_to_source), unadapted))
        for c in candidates
    ]
    none = no_adaptation(space)
    fixed = [none]
    if evidence.choice != "paper":
        matched = strengths(space.domains[0].moments, space.domains[1].moments)
        fixed += _of_strengths(space, none.source, [*matched, *_balanced(evidence)])
        fixed += _anchors(space)
    for candidate in fixed:
        placed = space.placed(candidate.target_to_source)
        moved.append(
            replace(
                candidate,
                mmd2=ExactMMD(space.samples[0], placed, space.sigma).value(np.eye(space.p)),
                displacement=_apart(placed, unadapted),
            )
        )
    return moved


def _apart(placed: Matrix, unadapted: Matrix) -> float:
    """Mean squared distance between rows."""
    return float(np.mean(np.sum((placed - unadapted) ** 2, axis=1)))


def no_adaptation(space: SharedSpace) -> Candidate:
    """Raw features as they are, under the source's names; its MMD² is for the caller to say."""
    source, target = (domain.names for domain in space.domains)
    keep = AffineMap.identity(space.domains[0].rows.shape[1], source, source)
    same = keep if target == source else keep.renamed(target, source)
    return Candidate(NO_ADAPTATION, keep, same, same, None, 0.0)


def _of_strengths(
    space: SharedSpace, keep: AffineMap, found: Sequence[Strength]
) -> list[Candidate]:
    """Maps that bring target features to source features, on which the source stays as it is."""
    candidates = []
    for strength in found:
        map_ = strength.map.renamed(space.domains[1].names, space.domains[0].names)
        candidates.append(
            Candidate(strength.kind, keep, map_, map_, None, 0.0, freedom=strength.freedom)
        )
    return candidates


def _balanced(evidence: Evidence) -> list[Strength]:
    """The same maps with the balance of the classes taken out; none without classes."""
    mixtures, space = evidence.mixtures, evidence.space
    if mixtures.labels is None:
        return []
    return balanced_strengths(
        mixtures.rows,
        mixtures.labels,
        space.domains[1].moments,
        evenly(space.domains[1].sampled(), COMPARED),
        mixtures.of(mixtures.most),
        space.whitenings[0].whitener(mixtures.most),
    )


def _anchors(space: SharedSpace) -> list[Candidate]:
    """Whitening at several sizes with the rotation that moves the features least."""
    candidates = []
    for p in space.anchor_sizes:
        rotation = feature_anchor(space.whitenings[0], space.whitenings[1], p)
        target = space.to_shared(1, rotation, p)
        candidates.append(
            Candidate(
                f"{ANCHOR}, {p} components",
                space.to_shared(0, None, p),
                target,
                target.then(space.to_source(p)),
                rotation,
                0.0,
                freedom=1.0 + 0.5 * (p + 1),
            )
        )
    return candidates


def with_misfits(candidates: Sequence[Candidate], evidence: Evidence) -> list[Candidate]:
    """Candidates with the misfit of their target rows to the source's mixture of classes.

    Measured in the leading dimensions of the source's whitened space, at most MIXTURE_DIMENSIONS
    and a tenth of the rows. A candidate with fewer components is measured in those it has.
    """
    space, mixtures = evidence.space, evidence.mixtures
    most = mixtures.most
    target = space.domains[1].sampled()
    full = mixtures.of(most)
    measured = []
    for candidate in candidates:
        if candidate.rotation is None:
            q = most
            rows = space.whitenings[0].whitener(q)(candidate.target_to_source.plain(target))
            placed = within_sight(rows, space.sigma)
        else:
            q = min(most, candidate.rotation.shape[0])
            placed = np.asarray(candidate.target.plain(target)[:, :q], dtype=np.float64)
        mixture = mixtures.of(q)
        fit = mixture.misfit(placed)
        # Dimensions that a candidate leaves out count as noise: it pays for what they told.
        forgone = full.own - mixture.own - (most - q) * NORMAL_LIKELIHOOD
        misfit = (fit.misfit * q + forgone) / most
        shares = () if mixtures.labels is None else tuple(fit.balance.tolist())
        measured.append(replace(candidate, misfit=misfit, balance=shares, outside=fit.outside))
    return measured


class Mixtures:
    """The source's mixture in its q leading whitened dimensions, fitted once for each q asked for.

    ``most`` is the largest q: MIXTURE_DIMENSIONS at most, and a tenth of the rows.
    """

    def __init__(self, space: SharedSpace, rows: Matrix, labels: Array | None, seed: int) -> None:
        self.whitening = space.whitenings[0]
        self.rows, self.labels, self.seed = rows, labels, seed
        self.most = min(MIXTURE_DIMENSIONS, self.whitening.rank, max(1, rows.shape[0] // 10))
        self._known: dict[int, SourceMixture] = {}

    def of(self, q: int) -> SourceMixture:
        """The mixture in q dimensions."""
        if q not in self._known:
            Z = self.whitening.whitener(q)(self.rows)
            self._known[q] = fit_mixture(Z, self.labels, self.seed)
        return self._known[q]


def search_needed(evidence: Evidence) -> bool:
    """Whether rotations must be sought: not where corresponding columns fit as they are."""
    space = evidence.space
    if not space.correspond[1] or evidence.choice == "paper":
        return True
    none = with_misfits([no_adaptation(space)], evidence)[0]
    return none.misfit > FITS_AS_IT_IS


def credit_of(
    candidates: Sequence[Candidate], evidence: Evidence, unbound: float = UNBOUND
) -> Vector:
    """Credit of each candidate without labels (c,), in nats of belief.

    Where columns correspond and maps of every strength compete, by the concord of predictors, or
    by misfit where the source has no labels; one unit is SCORE_UNIT, or the score's own sampling
    error where rows are few. Where only rotations compete, all equally free, by MMD²: ``z²/2``
    for ``z`` standard errors above the lowest.
    """
    space = evidence.space
    if space.correspond[1]:
        n = float(space.samples[1].shape[0])
        if all(np.isfinite(candidate.discord) for candidate in candidates):
            mixtures = evidence.mixtures
            classes = None if mixtures.labels is None else mixtures.of(mixtures.most).balance
            scores = concord_scores(candidates, n, evidence.task, classes, unbound)
            unit = max(SCORE_UNIT, CONCORD_ERROR / np.sqrt(n))
        else:
            q = min(MIXTURE_DIMENSIONS, space.whitenings[0].rank)
            scores = misfit_scores(candidates, n, unbound)
            unit = max(SCORE_UNIT, 1.0 / np.sqrt(n * q))
        credit: Vector = scores / unit
        return credit
    source, target = (evenly(sample, COMPARED) for sample in space.samples)
    turned = [i for i, candidate in enumerate(candidates) if candidate.rotation is not None]
    means = {
        i: kernel_means(source, target @ candidates[i].rotation.T, space.sigma)  # type: ignore[union-attr]
        for i in turned
    }
    best = min(turned, key=lambda i: candidates[i].mmd2)
    fixed = (whitened_functions(source), whitened_functions(target))
    behind: Vector = np.full(len(candidates), BLEND_LEAD)
    for i in turned:
        behind[i] = -0.5 * standard_errors_apart(means[best], means[i], fixed) ** 2
    return behind


def with_blend(candidates: list[Candidate], evidence: Evidence) -> list[Candidate]:
    """Rotations with their mean by belief, where numbers are asked for and no rotation is sure.

    ``z -> z Σ w_c R_cᵀ``: a linear predictor then says the mean of what it says under each, and
    where they contradict each other that is close to the source's mean. Of all predictions this one
    has the least expected squared error; a single rotation can do far worse than none. That none of
    those found is right counts like all of them, more the fewer rows a dimension there are, and
    says the source's mean.
    """
    if evidence.space.correspond[1] or evidence.task != "regression" or evidence.choice == "paper":
        return candidates
    belief = np.exp(credit_of(candidates, evidence))
    weights = belief / belief.sum()
    if weights.max() > SURE:
        return candidates
    rows = min(domain.effective for domain in evidence.space.domains)
    enough = 1.0 - ROWS_PER_DIMENSION * evidence.space.p / rows
    weights *= 0.5 * max(LEAST_ENOUGH, enough)
    first, space = candidates[0], evidence.space
    mean = sum(w * c.rotation for w, c in zip(weights, candidates, strict=True))
    target = space.to_shared(1, np.asarray(mean))
    map_ = target.then(space.to_source())
    mmd2 = ExactMMD(space.samples[0], space.placed(map_), space.sigma).value(np.eye(space.p))
    blend = replace(first, kind=BLEND, target=target, target_to_source=map_, rotation=None)
    return [*candidates, replace(blend, mmd2=mmd2, starts=1)]
