"""The minima of MMD² over O(p) that are known so far, and the moves that find better ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed

from . import stiefel
from .descent import SHORT_STEP, STEP, alone, descend
from .invariants import Invariants, reflections, turns
from .mmd import ExactMMD
from .stiefel import ValueAndGradient

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]

MOVE = "move"
# Rows of each domain that the invariants, the screening of moves and the descents look at. A block
# of so many rows costs less than as many frequencies as the p(p − 1)/2 angles ask for.
START_ROWS, SCREEN_ROWS, DESCENT_ROWS = 4000, 500, 1500
DESCENT_STEPS, SCREEN_STEPS = 30, 6
# The descents' σ is that of the answer within this factor of √p, the scale of whitened rows: below
# it every row is a minimum of its own
SMOOTH = 2.0
# Rotations closer than this (root mean square angle in radians) are one minimum; those closer
# than the second are one point, from which moves need be tried once only
SAME, IDENTICAL = 0.2, 0.05
# Minima of a round that moves are tried from; the moves from each that are descended, by their
# place in the order of consistency and by their value after a few steps
IMPROVED, BY_PLACE, BY_VALUE = 1, 2, 3
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
    """Minima of the exact MMD² of a sample, with the starts that led to them.

    All starts see the same sample, so that values compare. ``roots`` holds for each minimum the
    start from which it was reached, at once or by moves: starts that met are counted by it.
    """

    def __init__(
        self,
        Z_source: Matrix,
        Z_target: Matrix,
        sigma: float,
        rng: np.random.Generator,
        parallel: Parallel,
    ) -> None:
        self.p = Z_source.shape[1]
        self.sigma, self.rng, self.parallel = sigma, rng, parallel
        self.source, self.target = Z_source.astype(np.float32), Z_target.astype(np.float32)
        self.rough = self._objective(SCREEN_ROWS)
        self.objective = self._objective(DESCENT_ROWS)
        self.kinds: list[str] = []
        self.roots: list[int] = []
        self.R, self.values = np.empty((0, self.p, self.p)), np.empty(0)
        self.drawn = self.evaluations = 0
        self.settled = np.empty((0, self.p, self.p))

    @cached_property
    def invariants(self) -> Invariants:
        """Of a sample of the rows: built for the first start that is drawn."""
        seen = [_sample(Z, START_ROWS, self.rng) for Z in (self.source, self.target)]
        return Invariants(seen[0], seen[1])

    def _objective(self, rows: int) -> ValueAndGradient:
        root = np.sqrt(self.p)
        sigma = float(np.clip(self.sigma, root / SMOOTH, root * SMOOTH))
        source, target = (_sample(Z, rows, self.rng) for Z in (self.source, self.target))
        return ExactMMD(source, target, sigma).value_and_gradient

    def draw(self, count: int) -> None:
        """Descend ``count`` starts from the invariants, and random ones; then move on from these.

        Of random ones there are more in few dimensions, where they find minima.
        """
        first = len(self.kinds)
        invariants, children = self.invariants, self.rng.spawn(count)
        proposed = self.parallel(delayed(alone)(invariants.propose, child) for child in children)
        random = stiefel.random_orthogonal(self.p, self.rng, size=max(1, 12 // self.p))
        kinds = ["invariants"] * count + ["random"] * len(random)
        self.drawn += count
        self.descend(kinds, np.concatenate([np.stack(proposed), random]))
        self._move(first)

    def descend_given(self, kinds: Sequence[str], R: Matrix) -> None:
        """Add the minima nearest to starts (B, p, p) that mean something where they are."""
        self.add(kinds, *self._through(self.objective, R, DESCENT_STEPS, SHORT_STEP))

    def descend(self, kinds: Sequence[str], R: Matrix, root: int | None = None) -> None:
        """Add the minima that the starts (B, p, p) lead to, of ``root`` where they come from it."""
        self.add(kinds, *self._through(self.objective, R, DESCENT_STEPS), root)

    def add(
        self, kinds: Sequence[str], R: Matrix, values: Vector | None = None, root: int | None = None
    ) -> None:
        """Add rotations that are minima already."""
        if values is None:
            _, values = self._through(self.objective, R, 0)
        at = len(self.kinds)
        self.roots += range(at, at + len(R)) if root is None else [root] * len(R)
        self.kinds += kinds
        self.R = np.concatenate([self.R, R])
        self.values = np.concatenate([self.values, values])

    def _move(self, first: int, rounds: int = 4) -> None:
        """Move on from the best minima since ``first``, while that leads to new ones.

        A round knows nothing of those before it, so that meeting them says something; but from a
        minimum where no move helped none need be tried again.
        """
        tried = self.settled
        for _ in range(rounds):
            groups = merged(self.R[first:], self.values[first:])
            best = [first + group[0] for group in groups[:IMPROVED]]
            new = [at for at in best if all(_apart(self.R[at], R) > IDENTICAL for R in tried)]
            if not new:
                break
            tried = np.concatenate([tried, self.R[new]])
            for at in new:
                N = self.invariants.consistency(self.R[at], self.rng)
                candidates = np.concatenate(
                    [reflections(self.R[at], N), turns(self.R[at], N, self.rng)]
                )
                _, values = self._through(self.rough, candidates, SCREEN_STEPS)
                order = np.argsort(values, kind="stable")[:BY_VALUE]
                kept = np.union1d(order, np.arange(min(BY_PLACE, len(candidates))))
                self.descend([MOVE] * len(kept), candidates[kept], self.roots[at])
        lowest = self.R[np.argmin(self.values)]
        self.settled = np.stack([R for R in tried if _apart(R, lowest) < IDENTICAL] or [lowest])

    def met(self) -> int:
        """How many starts led to the best minimum."""
        return self._starts(merged(self.R, self.values)[0])

    def _starts(self, members: Sequence[int]) -> int:
        return len({self.roots[at] for at in members})

    def polished(self, reported: int) -> tuple[Found, ...]:
        """Distinct minima with their exact MMD² on all rows, lowest first.

        The best are polished to the end; those of the first ``reported`` starts are among them,
        and keep the kind of that start.
        """
        exact = ExactMMD(self.source, self.target, self.sigma)
        groups = [
            group
            for place, group in enumerate(merged(self.R, self.values))
            if place < POLISHED or min(group) < reported
        ]
        steps = [POLISH_STEPS if place < POLISHED else REPORT_STEPS for place in range(len(groups))]
        done = self.parallel(
            delayed(descend)(exact.value_and_gradient, self.R[group[:1]], most)
            for group, most in zip(groups, steps, strict=True)
        )
        minima = [minimum for task in done for minimum in task]
        self.evaluations += sum(minimum.evaluations for minimum in minima)
        return self._found(
            groups,
            np.stack([minimum.point for minimum in minima]),
            np.array([minimum.value for minimum in minima]),
            reported,
        )

    def unpolished(self, reported: int) -> tuple[Found, ...]:
        """The best minima as they are, with their exact MMD²: what an interrupt leaves time for."""
        exact = ExactMMD(self.source, self.target, self.sigma)
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
            kind = self.kinds[max(given) if given else self.roots[members[0]]]
            best = places[0]
            found.append(Found(R[best], float(values[best]), kind, self._starts(members)))
        return tuple(found)

    def _through(
        self, objective: ValueAndGradient, R: Matrix, max_iter: int, step: float = STEP
    ) -> tuple[Matrix, Vector]:
        blocks = [R[at : at + PER_TASK] for at in range(0, len(R), PER_TASK)]
        done = self.parallel(delayed(descend)(objective, block, max_iter, step) for block in blocks)
        minima = [minimum for task in done for minimum in task]
        self.evaluations += sum(minimum.evaluations for minimum in minima)
        return np.stack([m.point for m in minima]), np.array([m.value for m in minima])


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
