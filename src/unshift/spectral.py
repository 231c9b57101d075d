"""The same discrepancy in frequencies: a batch of rotations at a cost that is linear in the rows.

By Bochner's theorem ``MMD²(Z_A, Z_B Rᵀ) = E_ω |φ_A(ω) − φ_B(Rᵀω)|²`` with ``ω ~ N(0, I/σ²)`` and
``φ(ω) = mean exp(i ω·z)``, the empirical characteristic function. ``φ_A`` is computed once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from ._blocks import row_blocks
from .stiefel import random_orthogonal

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

# Bytes that the cosines and sines of one block of rows may take.
BLOCK_BYTES = 1 << 20


def orthogonal_frequencies(p: int, count: int, sigma: float, rng: np.random.Generator) -> Matrix:
    """``count`` draws of ``ω ~ N(0, I/σ²)`` (count, p), orthogonal to each other in groups of p.

    Each is exactly normal; being orthogonal, a group covers the directions evenly and the mean
    over them varies less than over independent draws (Yu et al., 2016).
    """
    groups = -(-count // p)
    directions = random_orthogonal(p, rng, size=groups).reshape(-1, p)[:count]
    lengths = np.sqrt(rng.chisquare(p, size=count))
    return directions * (lengths / sigma)[:, None]


def characteristic(
    Z: FloatArray, frequencies: Matrix, weights: Vector | None = None
) -> npt.NDArray[np.complex128]:
    """``φ(ω) = Σ_j b_j exp(i ω·z_j)`` (D,) of rows (n, p); equal ``b`` without weights."""
    total = np.zeros(frequencies.shape[0], dtype=np.complex128)
    omega = frequencies.T.astype(Z.dtype)
    for block in row_blocks(Z.shape[0], 2 * Z.itemsize * frequencies.shape[0], BLOCK_BYTES):
        angles = Z[block] @ omega
        if weights is None:
            total += np.cos(angles).sum(axis=0) + 1j * np.sin(angles).sum(axis=0)
        else:
            b = weights[block]
            total += b @ np.cos(angles) + 1j * (b @ np.sin(angles))
    mean: npt.NDArray[np.complex128] = total / (Z.shape[0] if weights is None else weights.sum())
    return mean


class SpectralMMD:
    """``F(R) = mean_ω |φ_A(ω) − φ_B(Rᵀω)|²`` for stacks of ``R`` (B, p, p)."""

    def __init__(
        self, Z_source: FloatArray, frequencies: Matrix, weights: Vector | None = None
    ) -> None:
        self.frequencies = frequencies
        self.phi_source = characteristic(Z_source, frequencies, weights)

    def values(self, Z_target: FloatArray, R: Matrix) -> Vector:
        """``F`` at each of the stack (B,)."""
        turned = (self.frequencies @ R).reshape(-1, R.shape[-1])  # Rᵀω as rows
        phi = characteristic(Z_target, turned).reshape(R.shape[0], -1)
        gaps: Vector = np.mean(np.abs(phi - self.phi_source) ** 2, axis=1)
        return gaps

    def values_and_gradients(self, Z_target: FloatArray, R: Matrix) -> tuple[Vector, Matrix]:
        """``F`` (B,) and ``∂F/∂R`` (B, p, p).

        With ``δ = φ_B(Rᵀω) − φ_A(ω) = u + iv`` and ``m = mean y exp(i ω·Ry) = c + is``,
        ``∂F/∂R = 2 mean_ω ω (v c − u s)ᵀ``.
        """
        count, p = R.shape[0], R.shape[-1]
        turned = (self.frequencies @ R).reshape(-1, p)
        phi, c, s = _first_moments(Z_target, turned)
        gap = phi.reshape(count, -1) - self.phi_source
        u, v = gap.real.reshape(-1, 1), gap.imag.reshape(-1, 1)
        pull = (v * c - u * s).reshape(count, -1, p)
        D = self.frequencies.shape[0]
        gradients: Matrix = 2.0 / D * (self.frequencies.T @ pull)
        return np.mean(np.abs(gap) ** 2, axis=1), gradients


def _first_moments(
    Z: FloatArray, frequencies: Matrix
) -> tuple[npt.NDArray[np.complex128], Matrix, Matrix]:
    """``mean exp(i ω·y)`` (D,), and real and imaginary parts (D, p) of ``mean y exp(i ω·y)``."""
    D, p = frequencies.shape
    phi = np.zeros(D, dtype=np.complex128)
    c, s = np.zeros((D, p)), np.zeros((D, p))
    omega = frequencies.T.astype(Z.dtype)
    for block in row_blocks(Z.shape[0], 2 * Z.itemsize * D, BLOCK_BYTES):
        rows = Z[block]
        angles = rows @ omega
        cosines = np.cos(angles)
        sines = np.sin(angles, out=angles)
        phi += cosines.sum(axis=0) + 1j * sines.sum(axis=0)
        c += cosines.T @ rows
        s += sines.T @ rows
    n = Z.shape[0]
    return phi / n, c / n, s / n
