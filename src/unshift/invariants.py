"""Rotations in closed form: what is known of a row however it is turned predicts how it is turned.

A function ``h(z)`` of a row and its surroundings that a rotation leaves as it is (its length, the
density about it, the pull of its neighbours) has cross moments ``C = E[h(z) zᵀ]`` that turn with
the domain: ``C_B = C_A R``. So the polar factor of ``C_Aᵀ C_B = (C_AᵀC_A) R`` is the rotation, to
within the noise of the directions that ``h`` does not predict. With ``h`` white, the singular
values are squared canonical correlations of ``h`` with the coordinates. Coordinates that are
resolved have become invariants themselves and predict others: the estimate grows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ._blocks import row_blocks

Matrix = npt.NDArray[np.float64]

# Widths of the kernels that describe a row's surroundings, in units of the typical distance √(2p)
SCALES = (0.2, 0.35, 0.5, 0.7)
# Squared canonical correlation from which on a direction counts as resolved
RESOLVED = 0.15
# Random functions of the invariants, and of the coordinates resolved so far
FUNCTIONS, GROWN_FUNCTIONS = 100, 150
ROUNDS = 6


def surroundings(Z: Matrix, scales: Sequence[float] = SCALES) -> Matrix:
    """Rotation-invariant description (n, 1 + 3 len(scales)) of each whitened row (n, p).

    The length ``|z|``, and for the kernels ``k(z, z') = exp(−|z − z'|²/2s²)``, ``s² = 2p scale²``:
    the density ``Σ_j k(z, z_j)``, and ``|m|²`` and ``m·z`` of the local mean
    ``m = Σ_j k z_j / Σ_j k``.
    """
    n, p = Z.shape
    squares = np.einsum("ij,ij->i", Z, Z)
    found = np.empty((n, 1 + 3 * len(scales)))
    found[:, 0] = np.sqrt(squares)
    for rows in row_blocks(n, 2 * 8 * n, 1 << 21):
        distances = squares[rows, None] + squares - 2.0 * Z[rows] @ Z.T
        np.maximum(distances, 0.0, out=distances)
        for at, scale in enumerate(scales):
            kernel = np.exp(distances / (-4.0 * p * scale**2))
            density = kernel.sum(axis=1)
            local = kernel @ Z / density[:, None]
            found[rows, 1 + 3 * at] = density
            found[rows, 2 + 3 * at] = np.einsum("ij,ij->i", local, local)
            found[rows, 3 + 3 * at] = np.einsum("ij,ij->i", local, Z[rows])
    return found


class InvariantStarts:
    """Draws of rotations from the invariants of two domains, each from other rows and functions."""

    def __init__(self, Z_source: Matrix, Z_target: Matrix) -> None:
        self.Z = (Z_source, Z_target)
        ranked = _pooled_ranks(surroundings(Z_source), surroundings(Z_target))
        self.invariants = tuple(np.clip(h, -3.0, 3.0) for h in _pooled_white(*ranked))

    def draw(self, rng: np.random.Generator) -> Matrix:
        """One rotation (p, p), from seven tenths of the rows and of the invariants."""
        kept = [rng.random(Z.shape[0]) < 0.7 for Z in self.Z]
        columns = rng.random(self.invariants[0].shape[1]) < 0.7
        columns[rng.integers(columns.size)] = True
        A, B = (Z[rows] for Z, rows in zip(self.Z, kept, strict=True))
        h_A, h_B = (h[rows][:, columns] for h, rows in zip(self.invariants, kept, strict=True))
        low, high = np.sort(rng.uniform(0.1, 1.5, 2))
        left, values, right = _polar_parts(
            A, B, *random_functions(h_A, h_B, FUNCTIONS, (low, high), rng)
        )
        for _ in range(ROUNDS):
            k = max(min(2, A.shape[1]), int(np.sum(values > RESOLVED)))
            c_A, c_B = (2.0 * np.tanh(0.5 * c) for c in (A @ left[:, :k], B @ right[:k].T))
            scale = np.sqrt(2.0 / k)
            grown = random_functions(c_A * scale, c_B * scale, GROWN_FUNCTIONS, (0.5, 1.5), rng)
            again = random_functions(h_A, h_B, FUNCTIONS, (0.3, 1.2), rng)
            features = (np.hstack(pair) for pair in zip(grown, again, strict=True))
            left, values, right = _polar_parts(A, B, *features)
        return left @ right


def random_functions(
    h_A: Matrix, h_B: Matrix, count: int, widths: tuple[float, float], rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """``cos(ω·h + b)`` with the same random ``ω`` and ``b`` in both: (n_A, count), (n_B, count)."""
    omega = rng.standard_normal((h_A.shape[1], count)) * rng.uniform(*widths, count)
    phase = rng.uniform(0.0, 2.0 * np.pi, count)
    return np.cos(h_A @ omega + phase), np.cos(h_B @ omega + phase)


def _polar_parts(A: Matrix, B: Matrix, f_A: Matrix, f_B: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Singular value decomposition of ``C_AᵀC_B`` for features whitened together."""
    h_A, h_B = _pooled_white(f_A, f_B)
    C_A, C_B = h_A.T @ A / A.shape[0], h_B.T @ B / B.shape[0]
    left, values, right = np.linalg.svd(C_A.T @ C_B)
    return left, values, right


def _pooled_ranks(f_A: Matrix, f_B: Matrix) -> tuple[Matrix, Matrix]:
    """Each feature by its rank among both domains' rows: uniform, of about unit variance."""
    both = np.vstack([f_A, f_B])
    ranks = both.argsort(axis=0).argsort(axis=0)
    uniform = np.sqrt(3.0) * ((2.0 * ranks + 1.0) / both.shape[0] - 1.0)
    return uniform[: f_A.shape[0]], uniform[f_A.shape[0] :]


def _pooled_white(f_A: Matrix, f_B: Matrix, smallest: float = 1e-3) -> tuple[Matrix, Matrix]:
    """Both domains' features in one basis, where taken together they are white."""
    both = np.vstack([f_A, f_B])
    mean = both.mean(axis=0)
    both -= mean
    values, vectors = np.linalg.eigh(both.T @ both / both.shape[0])
    kept = values > smallest * values[-1]
    basis = vectors[:, kept] / np.sqrt(values[kept])
    return (f_A - mean) @ basis, (f_B - mean) @ basis
