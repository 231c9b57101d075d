"""From a shared space of two domains to its candidates, and what the choice among them goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .affine import AffineMap
from .choice import ANCHOR, NO_ADAPTATION, Candidate
from .domain import Domain, draw_rows
from .joint import refine_jointly
from .labels import Labels
from .mmd import ExactMMD
from .search import Found
from .space import SharedSpace

Matrix = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

# A joint refinement starts from this many of the best rotations.
JOINT_STARTS = 4


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of features with labels: source rows to train on, target rows to judge by."""

    rows: Array
    labels: Array


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the choice goes by, in samples of rows: what ``update`` needs, and nothing more."""

    space: SharedSpace
    trained: Examples | None
    labelled: Examples | None
    task: str
    estimator: Any
    choice: str
    chance: float

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
    exact = ExactMMD(*space.samples, space.sigma)
    return [
        replace(f, rotation=m.rotation, mmd2=exact.value(m.rotation))
        for f, m in zip(starts, minima, strict=True)
    ]


def candidates_of(space: SharedSpace, found: Sequence[Found]) -> list[Candidate]:
    """Candidates of the rotations found and, where columns correspond, 'no adaptation'."""
    source, back = space.to_shared(0), space.to_source()
    unadapted = space.unadapted(1) if space.correspond[1] else None
    candidates = []
    for f in found:
        target = space.to_shared(1, f.rotation)
        moved = 0.0
        if unadapted is not None:
            gaps = space.samples[1] @ f.rotation.T - unadapted
            moved = float(np.mean(np.sum(gaps**2, axis=1)))
        candidates.append(
            Candidate(
                f.kind, source, target, target.then(back), f.rotation, f.mmd2, moved, f.starts
            )
        )
    if unadapted is not None:
        exact = ExactMMD(space.samples[0], unadapted, space.sigma)
        candidates.append(replace(no_adaptation(space), mmd2=exact.value(np.eye(space.p))))
    return candidates


def no_adaptation(space: SharedSpace) -> Candidate:
    """Raw features as they are, under the source's names; its MMD² is for the caller to say."""
    source, target = (domain.names for domain in space.domains)
    width = space.domains[0].rows.shape[1]
    keep = AffineMap.identity(width, source, source)
    same = keep if target == source else keep.renamed(target, source)
    return Candidate(NO_ADAPTATION, keep, same, same, None, 0.0)
