"""The maximum mean discrepancy of eq. 8, exact, and its gradient of eq. 11, in blocks in cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray, column_names
from ._blocks import CACHE_BYTES, row_blocks
from ._checks import check_matrix, check_positive

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

# A block of the kernel is a stack of products (rows, p) by (p, TILE), as many as stay in cache
# together. Up to a million multiplications OpenBLAS takes a short way that packs nothing, twice as
# fast for small p; thin tiles and many rows use it best (found by measuring).
TILE = 64
MAX_BLOCK_ROWS = 512
SHORT_WAY = 1_000_000

ROOT_2 = 2.0**0.5

# Blocks of rows whose sums are kept in the rows' own type before they go to float64.
FLUSH = 16

# Powers of two below these, and values that come near them, take a slow path in the exponential;
# a kernel value so small is far below the rounding of the sum.
LOWEST = {4: -100.0, 8: -1000.0}

# ``½‖x‖²`` up to which ``exp(−½‖x‖²)`` and ``exp(x·y)`` stay within the type's range, with room.
FOLDABLE = {4: 40.0, 8: 300.0}


def _exponential() -> tuple[np.ufunc, float]:
    """The faster of numpy's powers, and what the natural exponent is multiplied by for it.

    Where numpy has 2^x in vector instructions it takes half the time of e^x; where it has not,
    one number at a time, it takes several times as long.
    """
    introspect = getattr(np.lib, "introspect", None)  # since numpy 2.0
    found = introspect.opt_func_info("^exp2$").get("exp2", {}) if introspect is not None else {}
    targets = [target["current"] for types, target in found.items() if types[0] in "fd"]
    if targets and not any(target.startswith("baseline") for target in targets):
        return np.exp2, float(np.log2(np.e))
    return np.exp, 1.0


POWER, UNIT = _exponential()


def mmd2(X: Any, Y: Any, bandwidth: float | str = "auto") -> float:
    """``MMD_b²(X, Y)`` of eq. 8 with ``k(x, y) = exp(−‖x − y‖² / 2σ²)``.

    The biased estimator: ``mean k(x, x') + mean k(y, y') − 2 mean k(x, y)``, never below zero, of
    rows ``X`` (m, p) and ``Y`` (n, p), arrays or frames. ``bandwidth`` is ``σ`` in the columns'
    units; "auto" is the median distance between rows of X, over √2.

    Exact, at a cost of ``m · n`` and in memory of the rows' size: of many rows, pass a sample.
    Rows of float32 are computed with in float32, to about 1e-7 of absolute error.
    """
    names, others = column_names(X), column_names(Y)
    if names and others and names != others and sorted(names) == sorted(others):
        raise ValueError(
            "X and Y have the same columns in another order, and distances go by position: "
            "pass Y[list(X.columns)]."
        )
    first, second = check_matrix(X, "X", min_rows=1), check_matrix(Y, "Y", min_rows=1)
    if first.shape[1] != second.shape[1]:
        raise ValueError(
            f"X has {first.shape[1]} columns and Y has {second.shape[1]}: distances between their "
            "rows need one space. Map both into it first (unshift.align)."
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
    The kernel is computed in the rows' own type, sums over many blocks in float64.
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
        folded = _foldable(self.X) and _foldable(self.Y)
        self._left, self._right = _Rows(self.X, self.a, folded), _Tiles(self.Y, self.b, folded)
        self._within: float | None = None

    @property
    def within(self) -> float:
        """The terms A–A and B–B, which do not depend on ``R``."""
        if self._within is None:
            self._within = _self_term(self.X, self.a) + _self_term(self.Y, self.b)
        return self._within

    def value(self, R: Matrix) -> float:
        """``F(R)``, not below zero."""
        turned, space, total = self._right.turned(R), _workspace(self.X), 0.0
        for tiles in self._right.blocks():
            for kernel, weighted in self._left.kernels(turned[tiles], space):
                total += _weighted_sum(weighted[-1], kernel, self._right.weighted[tiles, -1])
        return max(0.0, self.within - 2.0 * total)

    def value_and_gradient(self, R: Matrix) -> tuple[float, Matrix]:
        """``F(R)`` and ``∂F/∂R`` (p, p), taking ``‖R y‖ = ‖y‖``."""
        turned, space = self._right.turned(R), _workspace(self.X)
        outer = np.zeros((self.X.shape[1] + 1, self.Y.shape[1] + 1))
        for tiles in self._right.blocks():
            # rows for each y: Σ_i a_i k(x_i, R y) x_i, and below them Σ_i a_i k(x_i, R y)
            pulled = np.zeros((tiles.stop - tiles.start, outer.shape[0], TILE))
            part, product = np.zeros(pulled.shape, self.dtype), np.empty(pulled.shape, self.dtype)
            for i, (kernel, weighted) in enumerate(self._left.kernels(turned[tiles], space), 1):
                part += np.matmul(weighted, kernel, out=product)
                if i % FLUSH == 0:
                    pulled += part
                    part[:] = 0.0
            pulled += part
            outer += (pulled @ np.swapaxes(self._right.weighted[tiles], 1, 2)).sum(axis=0)
        return max(0.0, self.within - 2.0 * float(outer[-1, -1])), -2.0 * outer[:-1, :-1]

    def standard_error(self, R: Matrix) -> float:
        """Standard error of ``F(R)`` as an estimate from these rows, for an ``R`` that is given.

        ``F`` is ``‖δ‖²`` of the difference ``δ`` of the mean features. With ``S = C_A Σ a² + C_B
        Σ b²`` the covariance of its estimate, ``Var F = 4 δᵀSδ + 2 tr S²``: the variance of the
        witness ``h(z) = mean k(x, z) − mean k(y, z)`` over the rows, and what remains where both
        distributions are one. The estimate of ``δᵀSδ`` is ``tr S²`` too high on average, which is
        taken off as far as it goes: near there the error is told up to a third too large. Rows that
        were whitened by their own moments vary less than it says.
        """
        sides = (self.X, self.a), (self.Y @ R.T.astype(self.dtype), self.b)
        means = [[_kernel_means(Z, w, other) for other, _ in sides] for Z, w in sides]
        slope = spread = 0.0
        for t, (Z, w) in enumerate(sides):
            witness = means[0][t] - means[1][t]
            slope += float(np.sum((w * (witness - w @ witness)) ** 2))
            for s, (other, v) in enumerate(sides):  # tr C_A C_B: mean square of the centred kernel
                square = w @ _kernel_means(ROOT_2 * other, v, ROOT_2 * Z)  # k² is k at σ/√2
                square -= v @ means[t][s] ** 2 + w @ means[s][t] ** 2 - (w @ means[s][t]) ** 2
                spread += float((v @ v) * (w @ w) * square)
        return float(np.sqrt(4.0 * max(0.0, slope - spread) + 2.0 * spread))


class _Rows:
    """Rows ``x`` (m, p) in blocks: the left factors of blocks of the kernel.

    ``log₂ k(x, y) = log₂e (x·y − ½‖x‖² − ½‖y‖²)``. Where the norms are moderate the last two are
    folded into the weights ``a exp(−½‖x‖²)``, and the matrix product is ``x·y`` alone; else it is
    of ``[x, ½‖x‖², 1]`` and ``[y, −1, −½‖y‖²]``, and nothing overflows.

    ``factors`` are the left sides of that product (r, q), ``weighted`` (p + 1, r) the rows ``w x``
    and below them their weights ``w``.
    """

    def __init__(self, X: FloatArray, a: FloatArray, folded: bool) -> None:
        half = _half_squares(X)[:, None]
        factor = X if folded else np.hstack([X, half, np.ones_like(half)])
        factor = factor * X.dtype.type(UNIT)
        weighted = _weighted(X, a, folded)
        self.blocks = list(row_blocks(X.shape[0], 1, _block_rows(X.shape[1])))
        self.factors = [np.ascontiguousarray(factor[rows]) for rows in self.blocks]
        self.weighted = [np.ascontiguousarray(weighted[rows].T) for rows in self.blocks]
        self.floor = None if folded else LOWEST[X.itemsize]

    def kernels(
        self, tiles: FloatArray, space: FloatArray, which: slice = slice(None)
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Blocks of the kernel (t, r, TILE), one after the other in ``space``, and ``weighted``."""
        for factor, weighted in zip(self.factors[which], self.weighted[which], strict=True):
            kernel = space[: tiles.shape[0], : factor.shape[0]]
            np.matmul(factor, tiles, out=kernel)
            if self.floor is not None:  # beside large norms rounding may leave more than zero
                np.clip(kernel, self.floor, 0.0, out=kernel)
            yield POWER(kernel, out=kernel), weighted


class _Tiles:
    """Rows ``y`` (n, p) in tiles of TILE columns (tiles, q, TILE): the right factors.

    The last tile is filled up with rows of no weight; ``weighted`` is (tiles, p + 1, TILE).
    """

    def __init__(self, Y: FloatArray, b: FloatArray, folded: bool) -> None:
        self.p = Y.shape[1]
        half = _half_squares(Y)[:, None]
        self.factor = _tiled(Y if folded else np.hstack([Y, -np.ones_like(half), -half]))
        self.weighted = _tiled(_weighted(Y, b, folded))

    def turned(self, R: Matrix) -> FloatArray:
        """The tiles of ``R y``, whose norms and weights are those of ``y``."""
        factor = self.factor.copy()
        factor[:, : self.p] = R.astype(factor.dtype) @ self.factor[:, : self.p]
        return factor

    def blocks(self, start: int = 0) -> Iterator[slice]:
        """As many tiles at a time as make a block of the kernel that stays in cache."""
        step = _tiles_per_block(self.p, self.factor.itemsize)
        for first in range(start, self.factor.shape[0], step):
            yield slice(first, min(first + step, self.factor.shape[0]))


def _shares(weights: Vector | None, n: int, dtype: np.dtype[Any]) -> FloatArray:
    shares = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    return shares.astype(dtype, copy=False)


def _block_rows(p: int) -> int:
    """Rows of a block of the kernel: a power of two, and a multiple of TILE."""
    rows = MAX_BLOCK_ROWS
    while rows > TILE and rows * TILE * (p + 2) > SHORT_WAY:
        rows //= 2
    return rows


def _tiles_per_block(p: int, itemsize: int) -> int:
    return max(1, CACHE_BYTES // (_block_rows(p) * TILE * itemsize))


def _workspace(X: FloatArray) -> FloatArray:
    """Room for one block of the kernel (tiles, rows, TILE), made once for all blocks."""
    p = X.shape[1]
    return np.empty((_tiles_per_block(p, X.itemsize), _block_rows(p), TILE), X.dtype)


def _half_squares(X: FloatArray) -> FloatArray:
    half: FloatArray = 0.5 * np.einsum("ij,ij->i", X, X)
    return half


def _foldable(X: FloatArray) -> bool:
    return bool(_half_squares(X).max() <= FOLDABLE[X.itemsize])


def _weighted(X: FloatArray, a: FloatArray, folded: bool) -> FloatArray:
    """``[w x, w]`` (n, p + 1); the weights ``w`` are ``a``, times ``exp(−½‖x‖²)`` where folded."""
    w = (a * np.exp(-_half_squares(X)) if folded else a)[:, None]
    return np.hstack([w * X, w])


def _tiled(rows: FloatArray) -> FloatArray:
    """Rows (n, q) as columns of contiguous tiles (⌈n / TILE⌉, q, TILE), filled up with zeros."""
    n, q = rows.shape
    filled = np.zeros((-(-n // TILE) * TILE, q), rows.dtype)
    filled[:n] = rows
    return np.ascontiguousarray(filled.reshape(-1, TILE, q).swapaxes(1, 2))


def _kernel_means(X: FloatArray, a: FloatArray, Y: FloatArray) -> Vector:
    """``Σ_i a_i k(x_i, y_j)`` of every ``y`` (n,)."""
    folded = _foldable(X) and _foldable(Y)
    left, right = _Rows(X, a, folded), _Tiles(Y, np.ones(Y.shape[0], Y.dtype), folded)
    means, space = np.zeros((right.factor.shape[0], TILE)), _workspace(X)
    for tiles in right.blocks():
        for kernel, weighted in left.kernels(right.factor[tiles], space):
            means[tiles] += weighted[-1] @ kernel
    means *= right.weighted[:, -1]
    return means.reshape(-1)[: Y.shape[0]]


def _weighted_sum(a: FloatArray, kernel: FloatArray, b: FloatArray) -> float:
    """``Σ a_i k_ij b_j`` over a stack of tiles (t, r, TILE), the last sum in float64."""
    return float(np.sum((a @ kernel) * b, dtype=np.float64))


def _self_term(X: FloatArray, a: FloatArray) -> float:
    """``Σ_ij a_i a_j k(x_i, x_j)``: tiles to the right of the diagonal's block count twice."""
    folded = _foldable(X)
    left, right = _Rows(X, a, folded), _Tiles(X, a, folded)
    space, total = _workspace(X), 0.0
    for i, rows in enumerate(left.blocks):
        after = -(-rows.stop // TILE)
        for tiles in right.blocks(rows.start // TILE):
            counts = np.where(np.arange(tiles.start, tiles.stop) < after, 1.0, 2.0)
            b = right.weighted[tiles, -1] * counts[:, None]
            for kernel, weighted in left.kernels(right.factor[tiles], space, slice(i, i + 1)):
                total += _weighted_sum(weighted[-1], kernel, b)
    return total
