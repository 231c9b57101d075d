"""The minima of MMD² over O(p) that are known so far, and the moves that find better ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed

from . import stiefel
from .descent import ValuesAndGradients, descend
from .invariants import Invariants, reflections
from .mmd import ExactMMD
from .spectral import SpectralMMD, orthogonal_frequencies

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]

REFLECTION = "reflection"
# Rows of each domain that the starts look at, and of the target that screening and descents do
START_ROWS, SCREEN_ROWS, DESCENT_ROWS = 4000, 1000, 1500
DESCENT_STEPS, SCREEN_STEPS = 40, 8
# Frequencies for screening, half as many as for descents: p² within 256 and this
MOST_FREQUENCIES = 1024
# Rotations closer than this (root mean square angle in radians) are one minimum; those closer
# than the second are one point, from which moves need be tried once only
SAME, IDENTICAL = 0.2, 0.05
# Minima that moves are tried from; the reflections of each that are descended, by their place in
# the order of consistency and by their value after a few steps
IMPROVED, BY_PLACE, BY_VALUE = 2, 3, 3
# Minima that are polished to the end, and steps for those and for others that are reported
POLISHED, POLISH_STEPS, REPORT_STEPS = 3, 15, 4
# Rotations per task of a descent: few, so that tasks spread over cores
PER_TASK = 2


@dataclass(frozen=True, eq=False)
class Found:
    """A distinct minimum: rotation (p, p), exact MMD², the kind of start and how many met there."""

    rotation: Matrix
    mmd2: float
    kind: str
    starts: int


class Minima:
    """Minima of the spectral objective at σ² = p, with the kinds of start that led to them.

    Frequencies and target rows are the same for all starts, so that values compare. They are many:
    to a fixed set of fewer than the p(p − 1)/2 angles a descent fits without end, all the more
    where a coarser bandwidth leaves less to fit.
    """

    def __init__(
        self, Z_source: Matrix, Z_target: Matrix, rng: np.random.Generator, parallel: Parallel
    ) -> None:
        self.p = Z_source.shape[1]
        self.rng, self.parallel = rng, parallel
        self.source, self.target = Z_source.astype(np.float32), Z_target.astype(np.float32)
        frequencies = min(max(256, self.p**2), MOST_FREQUENCIES)
        self.rough = self._objective(frequencies, SCREEN_ROWS)
        self.objective = self._objective(2 * frequencies, DESCENT_ROWS)
        self.kinds: list[str] = []
        self.R, self.values = np.empty((0, self.p, self.p)), np.empty(0)
        self.tried = np.empty((0, self.p, self.p))
        self.drawn = self.evaluations = 0

    @cached_property
    def invariants(self) -> Invariants:
        """Of a sample of the rows: built for the first start that is drawn."""
        seen = [_sample(Z, START_ROWS, self.rng) for Z in (self.source, self.target)]
        return Invariants(seen[0], seen[1])

    def _objective(self, frequencies: int, rows: int) -> ValuesAndGradients:
        omega = orthogonal_frequencies(self.p, frequencies, np.sqrt(self.p), self.rng)
        spectral = SpectralMMD(self.source, omega)
        return partial(spectral.values_and_gradients, _sample(self.target, rows, self.rng))

    def draw(self, count: int, keep: int) -> None:
        """Descend the ``keep`` lowest of ``count`` starts from the invariants, and random ones.

        Of the latter there are more in few dimensions, where they find minima.
        """
        invariants, children = self.invariants, self.rng.spawn(count)
        drawn = self.parallel(delayed(invariants.propose)(child) for child in children)
        proposed = np.stack(drawn)
        self.drawn += count
        _, values = self._through(self.rough, proposed, 0)
        kept = proposed[np.argsort(values, kind="stable")[:keep]]
        random = stiefel.random_orthogonal(self.p, self.rng, size=max(1, 12 // self.p))
        kinds = ["invariants"] * len(kept) + ["random"] * len(random)
        self.descend(kinds, np.concatenate([kept, random]))

    def descend(self, kinds: Sequence[str], R: Matrix) -> None:
        """Add the minima that the starts (B, p, p) lead to."""
        self.add(kinds, *self._through(self.objective, R, DESCENT_STEPS))

    def add(self, kinds: Sequence[str], R: Matrix, values: Vector | None = None) -> None:
        """Add rotations that are minima already."""
        if values is None:
            _, values = self._through(self.objective, R, 0)
        self.kinds += kinds
        self.R = np.concatenate([self.R, R])
        self.values = np.concatenate([self.values, values])

    def improve(self, rounds: int = 4) -> None:
        """Reflect the best minima in one direction or two, while that leads to new ones."""
        for _ in range(rounds):
            best = [self.R[group[0]] for group in merged(self.R, self.values)[:IMPROVED]]
            new = [R for R in best if all(_apart(R, old) > IDENTICAL for old in self.tried)]
            if not new:
                return
            self.tried = np.concatenate([self.tried, new])
            for R in new:
                candidates = reflections(R, self.invariants.consistency(R, self.rng))
                _, values = self._through(self.rough, candidates, SCREEN_STEPS)
                first = np.argsort(values, kind="stable")[:BY_VALUE]
                kept = np.union1d(first, np.arange(min(BY_PLACE, len(candidates))))
                self.descend([REFLECTION] * len(kept), candidates[kept])

    def met(self) -> int:
        """How many descents led to the best minimum."""
        return len(merged(self.R, self.values)[0])

    def polished(self, sigma: float, reported: int) -> tuple[Found, ...]:
        """Distinct minima with their exact MMD² at ``sigma``, lowest first.

        The best are polished on the exact objective; those of the first ``reported`` starts are
        among them, and keep the kind of that start.
        """
        exact = ExactMMD(self.source, self.target, sigma)
        groups = [
            group
            for place, group in enumerate(merged(self.R, self.values))
            if place < POLISHED or min(group) < reported
        ]
        steps = [POLISH_STEPS if place < POLISHED else REPORT_STEPS for place in range(len(groups))]
        minima = self.parallel(
            delayed(stiefel.minimize)(
                exact.value_and_gradient, self.R[group[0]], max_iter=most, tol=1e-3
            )
            for group, most in zip(groups, steps, strict=True)
        )
        self.evaluations += sum(minimum.evaluations for minimum in minima)
        return self._found(
            groups,
            np.stack([minimum.point for minimum in minima]),
            np.array([minimum.value for minimum in minima]),
            reported,
        )

    def unpolished(self, sigma: float, reported: int) -> tuple[Found, ...]:
        """The best minima as they are, with their exact MMD²: what an interrupt leaves time for."""
        exact = ExactMMD(self.source, self.target, sigma)
        groups = merged(self.R, self.values)[:POLISHED]
        R = np.stack([self.R[group[0]] for group in groups])
        return self._found(groups, R, np.array([exact.value(r) for r in R]), reported)

    def _found(
        self, groups: list[list[int]], R: Matrix, values: Vector, reported: int
    ) -> tuple[Found, ...]:
        found = []
        for places in merged(R, values):
            members = [at for place in places for at in groups[place]]
            given = [at for at in members if at < reported]
            # the most specific of the given starts comes last
            kind = self.kinds[max(given) if given else members[0]]
            best = places[0]
            found.append(Found(R[best], float(values[best]), kind, len(members)))
        return tuple(found)

    def _through(
        self, objective: ValuesAndGradients, R: Matrix, max_iter: int
    ) -> tuple[Matrix, Vector]:
        blocks = [R[at : at + PER_TASK] for at in range(0, len(R), PER_TASK)]
        done = self.parallel(delayed(descend)(objective, block, max_iter) for block in blocks)
        points, values, spent = zip(*done, strict=True)
        self.evaluations += sum(spent)
        return np.concatenate(points), np.concatenate(values)


def merged(R: Matrix, values: Vector) -> list[list[int]]:
    """Indices of rotations that coincide, lowest value first within and between groups."""
    groups: list[list[int]] = []
    for at in np.argsort(values, kind="stable"):
        for group in groups:
            if _apart(R[at], R[group[0]]) < SAME:
                group.append(int(at))
                break
        else:
            groups.append([int(at)])
    return groups


def _apart(first: Matrix, second: Matrix) -> float:
    """``‖R₁ − R₂‖_F / √p``: how far the typical row is moved, relative to its length."""
    return float(np.linalg.norm(first - second) / np.sqrt(first.shape[0]))


def _sample(Z: Rows, rows: int, rng: np.random.Generator) -> Rows:
    return Z if Z.shape[0] <= rows else Z[rng.choice(Z.shape[0], rows, replace=False)]
