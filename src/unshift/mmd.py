"""The maximum mean discrepancy of eq. 8, exact, and its gradient of eq. 11, in cache-sized blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from ._blocks import row_blocks
from ._checks import check_matrix, check_positive

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

# Rows of one side of a kernel block; the other side is sized so that the block stays in cache.
BLOCK_ROWS = 256


def mmd2(X: Any, Y: Any, bandwidth: float | str = "auto") -> float:
    """``MMD_b²(X, Y)`` of eq. 8 with ``k(x, y) = exp(−‖x − y‖² / 2σ²)``.

    The biased estimator: ``mean k(x, x') + mean k(y, y') − 2 mean k(x, y)``, never negative but for
    rounding. ``bandwidth`` is ``σ``; "auto" is the median distance between rows of X, over √2.
    """
    first, second = check_matrix(X, "X", min_rows=1), check_matrix(Y, "Y", min_rows=1)
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            f"X has {first.shape[1]} columns and Y has {second.shape[1]}: distances between their rows "
            "need one space. Map both into it first (unshift.align)."
        )
    if isinstance(bandwidth, str):
        if bandwidth != "auto":
            raise ValueError(
                f"bandwidth should be a number above zero or 'auto'; got {bandwidth!r}."
            )
        sigma = median_bandwidth(first)
    else:
        sigma = check_positive(bandwidth, "bandwidth")
    first, second = _common_units(first, second, sigma)
    return ExactMMD(first, second, 1.0).value(np.eye(first.shape[1]))


def _common_units(X: FloatArray, Y: FloatArray, sigma: float) -> tuple[FloatArray, FloatArray]:
    """Rows over ``sigma``, about one centre: small numbers, whatever the units and the origin."""
    center = X.mean(axis=0, dtype=np.float64)
    dtype = np.result_type(X, Y)
    first = np.subtract(X, center, dtype=np.float64) / sigma
    second = np.subtract(Y, center, dtype=np.float64) / sigma
    return first.astype(dtype, copy=False), second.astype(dtype, copy=False)


def median_bandwidth(Z: FloatArray, max_rows: int = 500) -> float:
    """Median distance between rows over √2: the σ whose kernel is 1/e there; 1 where rows coincide.

    About ``√p`` for whitened rows. Rows are taken evenly, so it is the same on every call.
    """
    rows = Z[:: -(-Z.shape[0] // max_rows)].astype(np.float64)
    rows = rows - rows.mean(axis=0)
    unit = float(np.abs(rows).max(initial=0.0)) or 1.0
    rows /= unit
    squares = np.einsum("ij,ij->i", rows, rows)
    distances = squares[:, None] + squares - 2.0 * rows @ rows.T
    middle = (
        float(np.median(np.maximum(distances[np.triu_indices(rows.shape[0], 1)], 0.0)))
        if (rows.shape[0] > 1)
        else 0.0
    )
    return unit * float(np.sqrt(0.5 * middle)) if middle > 0 else unit


class ExactMMD:
    """``F(R) = MMD_b²(Z_A, Z_B Rᵀ)`` for orthogonal ``R`` (p, p), with weights that count as rows.

    An orthogonal ``R`` leaves all distances within a domain as they are, so the terms A–A and B–B
    are computed once; only the cross term and its gradient (eq. 11)

        ``∂F/∂R = −2/σ² Σ_ij a_i b_j k(x_i, R y_j) x_i y_jᵀ``

    cost anything. They go through blocks of the kernel that stay in cache: no m x n matrix exists.
    The kernel is computed in the rows' own type, sums over blocks in float64.
    """

    def __init__(
        self,
        Z_source: FloatArray,
        Z_target: FloatArray,
        sigma: float,
        weights_source: Vector | None = None,
        weights_target: Vector | None = None,
    ) -> None:
        self.dtype = np.result_type(Z_source, Z_target)
        self.sigma = sigma
        self.X = (Z_source / sigma).astype(self.dtype, copy=False)
        self.Y = (Z_target / sigma).astype(self.dtype, copy=False)
        self.a = _shares(weights_source, self.X.shape[0], self.dtype)
        self.b = _shares(weights_target, self.Y.shape[0], self.dtype)
        self._left = _augmented(self.X, left=True)
        self._within: float | None = None

    @property
    def within(self) -> float:
        """The terms A–A and B–B, which do not depend on ``R``."""
        if self._within is None:
            self._within = _self_term(self.X, self.a) + _self_term(self.Y, self.b)
        return self._within

    def value(self, R: Matrix) -> float:
        """``F(R)``, not below zero."""
        right = _augmented(self.Y @ R.T.astype(self.dtype), left=False)
        return max(0.0, self.within - 2.0 * _cross_sum(self._left, right, self.a, self.b))

    def value_and_gradient(self, R: Matrix) -> tuple[float, Matrix]:
        """``F(R)`` and ``∂F/∂R`` (p, p), taking ``‖R y‖ = ‖y‖``."""
        right = _augmented(self.Y @ R.T.astype(self.dtype), left=False)
        weighted = np.hstack([self.Y, np.ones((self.Y.shape[0], 1), self.dtype)]) * self.b[:, None]
        cross, outer = 0.0, np.zeros((self.X.shape[1], self.Y.shape[1]))
        for rows in row_blocks(self.X.shape[0], 1, BLOCK_ROWS):
            moved = np.zeros((rows.stop - rows.start, weighted.shape[1]), self.dtype)
            for columns in row_blocks(self.Y.shape[0], self.dtype.itemsize * BLOCK_ROWS):
                kernel = self._left[rows] @ right[columns].T
                np.exp(kernel, out=kernel)
                moved += kernel @ weighted[columns]
            cross += float(self.a[rows] @ moved[:, -1])
            outer += (self.X[rows] * self.a[rows, None]).T @ moved[:, :-1]
        return max(0.0, self.within - 2.0 * cross), -2.0 * outer


def _shares(weights: Vector | None, n: int, dtype: np.dtype[Any]) -> FloatArray:
    shares = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    return shares.astype(dtype, copy=False)


def _augmented(rows: FloatArray, *, left: bool) -> FloatArray:
    """``[x, −½‖x‖², 1]`` or ``[y, 1, −½‖y‖²]``: their product is ``−½‖x − y‖²``, one matrix product a block."""
    half = -0.5 * np.einsum("ij,ij->i", rows, rows)[:, None]
    one = np.ones_like(half)
    return np.hstack([rows, half, one] if left else [rows, one, half])


def _cross_sum(left: FloatArray, right: FloatArray, a: FloatArray, b: FloatArray) -> float:
    """``Σ_ij a_i b_j k(x_i, y_j)`` from augmented rows."""
    total = 0.0
    for rows in row_blocks(left.shape[0], 1, BLOCK_ROWS):
        for columns in row_blocks(right.shape[0], left.dtype.itemsize * BLOCK_ROWS):
            kernel = left[rows] @ right[columns].T
            np.exp(kernel, out=kernel)
            total += float(a[rows] @ (kernel @ b[columns]))
    return total


def _self_term(X: FloatArray, a: FloatArray) -> float:
    """``Σ_ij a_i a_j k(x_i, x_j)``: blocks above the diagonal count twice."""
    left, right = _augmented(X, left=True), _augmented(X, left=False)
    total = 0.0
    for rows in row_blocks(X.shape[0], 1, BLOCK_ROWS):
        here = slice(rows.start, rows.stop)
        above = slice(rows.stop, X.shape[0])
        total += _cross_sum(left[here], right[here], a[here], a[here])
        total += 2.0 * _cross_sum(left[here], right[above], a[here], a[above])
    return total
