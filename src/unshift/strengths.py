"""Maps of every strength from target features to source features, where columns correspond.

From the least to the most: half the mean shift, the mean shift, location and scale of each
column, then the whole covariance, by the symmetric root (CORAL) or by optimal transport.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .affine import AffineMap
from .moments import Moments

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

HALF_MEAN = "half mean shift"
MEAN = "mean shift"
LOCATION_SCALE = "location and scale"
CORAL = "covariance"
TRANSPORT = "transport"

# Added to covariances of columns of deviation 1, so that weak directions are not blown up.
RIDGE = 0.1
# A whole covariance is matched only where the smaller domain has this many rows a column.
ROWS_PER_COLUMN = 2
# ... and where no column's deviation changes by more than this factor: else its units did.
COMPARABLE = 1e3


@dataclass(frozen=True, eq=False)
class Strength:
    """A map of target features to source features, and how many numbers a column it fits."""

    kind: str
    map: AffineMap
    freedom: float


def strengths(source: Moments, target: Moments, only: str | None = None) -> list[Strength]:
    """The maps that these two domains' moments support, weakest first; or the one of a kind."""
    d = source.width
    here, there = target.center, source.center
    eye, ones = np.eye(d), np.ones(d)
    halfway = 0.5 * (here + there)
    found = [
        # x + (there − here)/2 and x + (there − here)
        Strength(HALF_MEAN, AffineMap(here, eye, halfway), 1.0),
        Strength(MEAN, AffineMap(here, eye, there), 1.0),
    ]
    deviations = [_deviations(stats) for stats in (source, target)]
    moving = (deviations[0] > 0) & (deviations[1] > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(moving, deviations[0] / deviations[1], ones)
    found.append(Strength(LOCATION_SCALE, AffineMap(here, np.diag(ratio), there), 2.0))
    comparable = bool((np.abs(np.log(ratio)) < np.log(COMPARABLE)).all())
    whole = {CORAL: _coral, TRANSPORT: _transport}
    if only is not None and only not in whole:
        return [strength for strength in found if strength.kind == only]
    if min(source.count, target.count) >= ROWS_PER_COLUMN * d and d > 1 and comparable:
        freedom = 1.0 + 0.5 * (d + 1)
        unit = np.where(deviations[0] > 0, deviations[0], 1.0)
        A, B = (_covariance(stats, unit) + RIDGE * eye for stats in (source, target))
        for kind, match in whole.items():
            if only in (None, kind):
                scaled = match(A, B) / unit[:, None] * unit
                found.append(Strength(kind, AffineMap(here, scaled, there), freedom))
    return [strength for strength in found if only in (None, strength.kind)]


def _deviations(stats: Moments) -> Vector:
    return np.ldexp(np.sqrt(stats.variances), stats.exponent)


def _covariance(stats: Moments, unit: Vector) -> Matrix:
    """Covariance (d, d) of columns divided by ``unit``."""
    scatter = stats.root.T @ stats.root if stats.root is not None else stats.scatter
    assert scatter is not None
    factor = np.ldexp(1.0 / unit, stats.exponent)
    covariance: Matrix = scatter / stats.count * factor * factor[:, None]
    return covariance


def _coral(A: Matrix, B: Matrix) -> Matrix:
    """``B^{-1/2} A^{1/2}`` (d, d), acting on rows: covariance ``B`` becomes ``A``."""
    return np.asarray(np.linalg.solve(_root(B), _root(A)), dtype=np.float64)


def _transport(A: Matrix, B: Matrix) -> Matrix:
    """``B^{-1/2} (B^{1/2} A B^{1/2})^{1/2} B^{-1/2}``: between Gaussians, what moves rows least."""
    root = _root(B)
    half = np.linalg.solve(root, _root(root @ A @ root))
    return np.asarray(np.linalg.solve(root, half.T).T, dtype=np.float64)


def _root(S: Matrix) -> Matrix:
    """The symmetric square root."""
    values, vectors = np.linalg.eigh(S)
    root: Matrix = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
