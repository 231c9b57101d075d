"""Which of two placements of the target has the lower MMD², and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._blocks import row_blocks

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KernelMeans:
    """Means of ``k(x_i, y_j)`` over the target (m,), one a source row, and over the source (n,)."""

    source: Vector
    target: Vector


def kernel_means(X: Matrix, Y: Matrix, sigma: float) -> KernelMeans:
    """Both kinds of mean of the Gaussian kernel between rows X (m, p) and Y (n, p)."""
    left, right = X / sigma, Y / sigma
    half = 0.5 * np.einsum("ij,ij->i", right, right)
    rows, columns = np.empty(X.shape[0]), np.zeros(Y.shape[0])
    for block in row_blocks(X.shape[0], 8 * Y.shape[0], budget=1 << 20):
        some = left[block]
        exponent = some @ right.T - half - 0.5 * np.einsum("ij,ij->i", some, some)[:, None]
        kernel = np.exp(np.minimum(exponent, 0.0))
        rows[block] = kernel.mean(axis=1)
        columns += kernel.sum(axis=0)
    return KernelMeans(rows, columns / X.shape[0])


def standard_errors_apart(
    first: KernelMeans, second: KernelMeans, moments: tuple[Matrix, Matrix]
) -> float:
    """``(MMD²_2 − MMD²_1) / se`` of two rotations of the same target rows.

    Only the cross terms differ: ``2 mean_ij (k_1 − k_2)(i, j)``. A mean over pairs, its variance is
    that of the rows' means on either side, ``4 (var_i / m + var_j / n)`` (Hoeffding's projection),
    of what is left of them once ``moments``, the rows' functions that whitening holds fixed, are
    regressed out: samples cannot differ in those.
    """
    rows, columns = first.source - second.source, first.target - second.target
    difference = 2.0 * float(rows.mean())
    variance: float = 4.0 * sum(
        _left_over(values, fixed) / values.size
        for values, fixed in zip((rows, columns), moments, strict=True)
    )
    return difference / float(np.sqrt(variance)) if variance > 0 else 0.0


def whitened_functions(Z: Matrix) -> Matrix:
    """Orthonormal basis (n, k) of what whitening fixes: 1, z and z zᵀ; less where rows are few."""
    n, p = Z.shape
    upper = np.triu_indices(p)
    parts = [np.ones((n, 1)), Z]
    if 1 + p + upper[0].size <= n // 5:
        parts.append(Z[:, upper[0]] * Z[:, upper[1]])
    basis: Matrix = np.linalg.qr(np.hstack(parts))[0]
    return basis


def _left_over(values: Vector, basis: Matrix) -> float:
    """Variance of values (n,) that the basis does not explain."""
    residual = values - basis @ (basis.T @ values)
    return float(np.sum(residual**2) / max(1, values.size - basis.shape[1]))
