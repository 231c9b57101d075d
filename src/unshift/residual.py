"""What an alignment leaves, tested so that having fitted the map does not flatter it.

A permutation test of aligned rows is far too kind: the map was chosen to make them alike. Here the
characteristic functions are compared only where no affine map and no other balance of the classes
could change them, to first order; what was fitted, and how, then no longer matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .spectral import orthogonal_frequencies

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

# Frequencies at which the domains are compared, and exchanges of rows between them.
FREQUENCIES, EXCHANGES = 256, 199
# Directions of the tangent space count above this share of the largest.
NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class Residual:
    """``mmd2`` that no affine map takes away, ``z`` its deviations above chance, ``p`` its level.

    ``p`` is the share of exchanges of rows between the domains that leave as much: an affine shift
    gives at most .05 about once in twenty times.
    """

    mmd2: float
    z: float
    p: float


def residual_test(
    X: Matrix, Y: Matrix, labels: npt.NDArray[Any] | None, sigma: float, seed: int
) -> Residual:
    """Test that aligned rows X (m, q) and Y (n, q) differ by no more than an affine map.

    With features ``f(z)`` (cosines and sines of ``ω·z``), ``T = |Q (mean f(X) − mean f(Y))|²``,
    where ``Q`` takes out the span of ``E ∂f/∂z_a`` and ``E z_b ∂f/∂z_a`` (shifts and linear maps)
    and of the differences between the ``E[f | class]`` of the source's ``labels`` (m,). An error
    of order ``n^{-1/2}`` in the map then changes ``T`` in second order only, so that exchanging
    rows between the domains gives its distribution although the map was fitted on them.
    """
    rng = np.random.default_rng(seed)
    omega = orthogonal_frequencies(X.shape[1], FREQUENCIES, sigma, rng)
    m, n = X.shape[0], Y.shape[0]
    rows = np.concatenate([X, Y])
    pooled = _features(rows, omega)
    tangents = [_affine_tangents(rows, pooled, omega)]
    if labels is not None:
        overall = pooled[:m].mean(axis=0)
        means = [pooled[:m][labels == name].mean(axis=0) - overall for name in np.unique(labels)]
        tangents.append(np.stack(means, axis=1))
    basis = _span(np.hstack(tangents))
    pooled -= pooled.mean(axis=0)
    pooled -= (pooled @ basis) @ basis.T
    signs = np.concatenate([np.full(m, 1.0 / m), np.full(n, -1.0 / n)])
    draws = np.stack([signs, *(rng.permutation(signs) for _ in range(EXCHANGES))])
    gaps = draws @ pooled
    values = np.einsum("ij,ij->i", gaps, gaps)
    observed, chance = float(values[0]), values[1:]
    spread = float(chance.std()) or 1.0
    return Residual(
        observed,
        (observed - float(chance.mean())) / spread,
        float((1 + np.sum(chance >= observed)) / (1 + chance.size)),
    )


def _features(Z: Matrix, omega: Matrix) -> Matrix:
    """``f(z)`` (n, 2D), scaled so that squared distances of means are MMD²."""
    D = omega.shape[0]
    features = np.empty((Z.shape[0], 2 * D))
    np.matmul(Z, omega.T, out=features[:, :D])
    np.sin(features[:, :D], out=features[:, D:])
    np.cos(features[:, :D], out=features[:, :D])
    features /= np.sqrt(D)
    return features


def _affine_tangents(Z: Matrix, features: Matrix, omega: Matrix) -> Matrix:
    """``E ∂f/∂z_a`` and ``E z_b ∂f/∂z_a`` (2D, q + q²): what a small affine map changes."""
    n, q = Z.shape
    D = omega.shape[0]
    # mean of (1, z_b) times each feature (q + 1, 2D)
    moments = np.hstack([np.ones((n, 1)), Z]).T @ features / n
    cosines, sines = moments[:, :D], moments[:, D:]
    # ∂ cos(ω·z)/∂z_a = −ω_a sin(ω·z), ∂ sin(ω·z)/∂z_a = ω_a cos(ω·z)
    changes = np.concatenate(
        [-sines[:, :, None] * omega, cosines[:, :, None] * omega], axis=1
    )  # (q + 1, 2D, q)
    return np.moveaxis(changes, 1, 0).reshape(2 * D, (q + 1) * q)


def _span(columns: Matrix) -> Matrix:
    """Orthonormal basis of the columns' span, without directions that are next to nothing."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    if not sizes.size or sizes[0] == 0.0:
        return left[:, :0]
    basis: Matrix = left[:, sizes > NEGLIGIBLE * sizes[0]]
    return basis
