"""Moments and class proportions estimated together, where the domains' balances differ.

Under another balance of the classes the target has other moments although no feature shifted, and
matching moments would shift them. So the source's classes are weighed until the proportions that
the mapped target rows show are those behind the moments that the map matched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from .affine import AffineMap
from .choice import FITS
from .domain import evenly
from .mixture import SourceMixture
from .moments import Moments, moments
from .strengths import HALF_MEAN, LOCATION_SCALE, Strength, strengths

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

# Rounds at most, and the change of a proportion at which they end.
ROUNDS, SETTLED = 20, 2e-3
# Share of rows in other classes from which on a map of its own is worth having: this, and what
# chance makes of it, in units of n^(-1/2).
MOVED, BY_CHANCE = 0.05, 1.0
# Rows in which the balance to begin with is sought, and classes up to which each may prevail in it.
SOUGHT_IN, MOST_BEGINS = 500, 10
# What is added to a kind.
BALANCED = ", balance corrected"


def balanced_strengths(
    source: Matrix,
    labels: npt.NDArray[Any],
    target: Moments,
    rows: Matrix,
    mixture: SourceMixture,
    whitener: AffineMap,
) -> list[Strength]:
    """The maps of every strength that match the source's moments at the target's own balance.

    ``source`` (m, d) with class ``labels`` (m,), ``target`` the moments and ``rows`` (n, d) of the
    target, ``whitener`` source features to the mixture's space. Repeats
    ``μ, Σ ← Σ_c π_c E[· | c]``, ``map ← match(μ, Σ)``, ``π ← argmax Σ_i log Σ_c π_c p_c(map(x_i))``
    until the balance π settles. Maps under which it stays near the source's are left out: they are
    those without correction. So are maps under which the mixture does not account for the rows: it
    then cannot tell their classes.
    """
    codes = np.unique(labels, return_inverse=True)[1]
    classes = [moments(source[codes == code]) for code in range(mixture.balance.size)]
    kinds = [s.kind for s in strengths(_mixed(classes, np.ones(len(classes))), target)]
    pair = _Pair(classes, target, mixture, whitener)
    begin = pair.beginning(evenly(rows, SOUGHT_IN))
    found = []
    for kind in kinds:
        if kind == HALF_MEAN:
            continue
        strength, balance = pair.settled(kind, begin, rows)
        moved = 0.5 * float(np.abs(balance - mixture.balance).sum())
        by_chance = BY_CHANCE / np.sqrt(min(len(source), len(rows)))
        if strength is None or moved <= MOVED + by_chance:
            continue
        if mixture.misfit(whitener(strength.map(rows))).misfit < FITS:
            freedom = strength.freedom + (balance.size - 1) / source.shape[1]
            found.append(Strength(kind + BALANCED, strength.map, freedom))
    return found


@dataclass(frozen=True, eq=False)
class _Pair:
    """Moments of the source's classes (c) and of the target, and the mixture that tells classes."""

    classes: list[Moments]
    target: Moments
    mixture: SourceMixture
    whitener: AffineMap

    def beginning(self, rows: Matrix) -> Vector:
        """The balance (c,) to begin from: of location and scale, where that settles best.

        Under a balance far from the source's the first map is far off as well, and the repetition
        may settle elsewhere. So it is also begun at balances in which one class prevails.
        """
        own = self.mixture.balance
        begins = [own]
        if own.size <= MOST_BEGINS:
            begins += [0.4 * own + 0.6 * one for one in np.eye(own.size)]
        ends = [self.settled(LOCATION_SCALE, begin, rows) for begin in begins]
        fits = [
            np.inf if found is None else self.mixture.misfit(self.whitener(found.map(rows))).misfit
            for found, _ in ends
        ]
        return ends[int(np.argmin(fits))][1]

    def settled(self, kind: str, balance: Vector, rows: Matrix) -> tuple[Strength | None, Vector]:
        """The map of a kind and the balance (c,) that belong together, from one to begin with."""
        strength = None
        for _ in range(ROUNDS):
            stats = _mixed(self.classes, balance / self.mixture.balance)
            strength = next(iter(strengths(stats, self.target, kind)), None)
            if strength is None:
                break
            placed = self.whitener(strength.map(rows))
            before, balance = balance, self.mixture.proportions(self.mixture.log_densities(placed))
            if np.abs(balance - before).max() < SETTLED:
                break
        return strength, balance


def _mixed(classes: list[Moments], weights: Vector) -> Moments:
    """Moments of the classes (c) together, each row of a class counting as often as it weighs."""
    weighed = [
        replace(
            stats,
            count=stats.count * weight,
            root=None if stats.root is None else stats.root * np.sqrt(weight),
            scatter=None if stats.scatter is None else stats.scatter * weight,
        )
        for stats, weight in zip(classes, weights, strict=True)
    ]
    return reduce(Moments.merge, weighed)
