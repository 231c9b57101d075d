"""All rotations of the line and of the plane: no search is needed where O(p) can be scanned.

In polar coordinates of the frequencies, ``ω = r (cos θ, sin θ)``, a rotation by ``α`` shifts the
characteristic function: ``φ_B(Rᵀω) = φ_B(r, θ − α)``. So the cross term of ``MMD²(R)`` for all
``α`` at once is a circular correlation over ``θ``, summed over rings of ``r``; reflections are the
same with ``φ_B(r, −θ)``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from .spectral import characteristic

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]

# Nodes of the quadrature over the length of a frequency, and steps of a full turn
RINGS, ANGLES = 16, 512


def scan(Z_source: FloatArray, Z_target: FloatArray, sigma: float) -> Matrix:
    """Local minima (m, p, p) of MMD² in both components of O(1) or O(2)."""
    p = Z_source.shape[1]
    if p == 1:
        return np.array([[[1.0]], [[-1.0]]])
    radii, shares = _rings(sigma)
    phi_A, phi_B = (_on_circles(Z, radii) for Z in (Z_source, Z_target))
    mirrored = np.roll(phi_B[:, ::-1], 1, axis=1)
    mirror = np.diag([1.0, -1.0])
    return np.concatenate(
        [
            _turns(_agreement(phi_A, phi_B, shares)),
            _turns(_agreement(phi_A, mirrored, shares)) @ mirror,
        ]
    )


def _rings(sigma: float) -> tuple[Vector, Vector]:
    """Lengths and shares of ``|ω|`` for ``ω ~ N(0, I/σ²)``: ``σ²|ω|²/2`` is exponential."""
    nodes, shares = np.polynomial.laguerre.laggauss(RINGS)
    return np.sqrt(2.0 * nodes) / sigma, shares


def _on_circles(Z: FloatArray, radii: Vector) -> npt.NDArray[np.complex128]:
    """``φ(r, θ)`` (rings, angles); half a turn further it is the conjugate."""
    theta = 2.0 * np.pi / ANGLES * np.arange(ANGLES // 2)
    circle = np.column_stack([np.cos(theta), np.sin(theta)])
    half = characteristic(Z, (radii[:, None, None] * circle).reshape(-1, 2))
    half = half.reshape(radii.size, -1)
    return np.concatenate([half, half.conj()], axis=1)


def _agreement(
    phi_A: npt.NDArray[np.complex128], phi_B: npt.NDArray[np.complex128], shares: Vector
) -> Vector:
    """``Σ_r share_r mean_θ Re φ_A(r, θ) φ_B(r, θ − α)*`` for every step ``α`` of a turn."""
    product = np.fft.fft(phi_A, axis=1) * np.fft.fft(phi_B, axis=1).conj()
    correlation: Vector = np.fft.ifft(product, axis=1).real / ANGLES
    return shares @ correlation


def _turns(agreement: Vector) -> Matrix:
    """Rotations (m, 2, 2) by the angles at which the agreement has a local maximum."""
    top = (agreement >= np.roll(agreement, 1)) & (agreement > np.roll(agreement, -1))
    alpha = 2.0 * np.pi / ANGLES * np.flatnonzero(top)
    c, s = np.cos(alpha), np.sin(alpha)
    return np.moveaxis(np.array([[c, -s], [s, c]]), -1, 0)
