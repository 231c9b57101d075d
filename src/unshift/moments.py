"""Mean and covariance that merge and stream: one pass, blocks, float64, any units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from ._blocks import row_blocks, rows_per_block

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

# Bytes of a block of rows in float64.
BLOCK_BYTES = 1 << 20

# Columns of sizes beyond 2**±256 are divided by their powers of two before they are squared.
SAFE_EXPONENT = 256


@dataclass(frozen=True, eq=False)
class Moments:
    """Weight, mean and scatter of rows, in units of ``2**exponent`` per column.

    ``mean`` is (d,) and ``root`` (k, d) with ``rootᵀ root = Σ w (x − mean)(x − mean)ᵀ``, both in
    those units, which keep squares of 1e±150 within float64. While there are fewer rows than
    columns ``root`` is the centred rows themselves, so that nothing of size d x d is ever built;
    after that it is replaced by ``scatter`` (d, d). ``low`` and ``high`` are the columns' extremes
    about the mean, in the same units; ``eps`` is the resolution of the data's type.
    """

    count: float
    mean: Vector
    exponent: npt.NDArray[np.int64]
    low: Vector
    high: Vector
    eps: float
    root: Matrix | None = None
    scatter: Matrix | None = None

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.mean.size)

    @property
    def center(self) -> Vector:
        """The mean in the data's own units."""
        return np.ldexp(self.mean, self.exponent)

    @property
    def variances(self) -> Vector:
        """Variance of each column in units of ``4**exponent``."""
        if self.root is not None:
            squares: Vector = np.einsum("ij,ij->j", self.root, self.root)
        else:
            assert self.scatter is not None
            squares = np.diag(self.scatter).copy()
        return squares / self.count

    def merge(self, other: Moments) -> Moments:
        """Moments of both sets of rows together (the parallel form of Chan, Golub and LeVeque)."""
        if self.width != other.width:
            raise ValueError(
                f"Moments of {self.width} and of {other.width} columns cannot be merged: "
                "pass rows with the columns of the first fit."
            )
        a, b = self._in_units(np.maximum(self.exponent, other.exponent)), other
        b = b._in_units(a.exponent)
        count = a.count + b.count
        gap = b.mean - a.mean
        mean = a.mean + gap * (b.count / count)
        between = gap * np.sqrt(a.count * b.count / count)
        root, scatter = _merged_root(a, b, between)
        low = np.minimum(a.low + a.mean, b.low + b.mean) - mean
        high = np.maximum(a.high + a.mean, b.high + b.mean) - mean
        eps = max(a.eps, b.eps)
        return Moments(count, mean, a.exponent, low, high, eps, root, scatter)

    def _in_units(self, exponent: npt.NDArray[np.int64]) -> Moments:
        change = self.exponent - exponent
        if not change.any():
            return self
        root = None if self.root is None else np.ldexp(self.root, change)
        scatter = None if self.scatter is None else np.ldexp(self.scatter, change[:, None] + change)
        mean, low, high = (np.ldexp(v, change) for v in (self.mean, self.low, self.high))
        return Moments(self.count, mean, exponent, low, high, self.eps, root, scatter)


def _merged_root(a: Moments, b: Moments, between: Vector) -> tuple[Matrix | None, Matrix | None]:
    """Root or scatter of the union; ``between`` carries the difference of the two means."""
    if a.root is not None and b.root is not None:
        root = np.vstack([a.root, b.root, between[None, :]])
        if root.shape[0] < root.shape[1]:
            return root, None
        return None, root.T @ root
    return None, _scatter(a) + _scatter(b) + np.outer(between, between)


def _scatter(moments: Moments) -> Matrix:
    if moments.scatter is not None:
        return moments.scatter
    assert moments.root is not None
    return moments.root.T @ moments.root


def moments(X: FloatArray, weights: Vector | None = None) -> Moments:
    """Moments of rows (n, d) with optional weights (n,), which count as repetitions.

    One pass over blocks that stay in cache. They are turned to float64 there, so float32 data
    accumulate in float64, and centred where a mean is large beside its spread, so that it costs no
    precision.
    """
    n, d = X.shape
    shift, exponent = _first_guess(X)
    far = bool(np.abs(exponent).max(initial=0) > SAFE_EXPONENT)
    sums = np.zeros((d, d)) if n > d else None
    roots: list[Matrix] = []
    count, total = 0.0, np.zeros(d)
    extremes = _Extremes(rows_per_block(8 * d, BLOCK_BYTES), X)
    for block in row_blocks(n, 8 * d, BLOCK_BYTES):
        rows = _centred(X[block], shift, exponent if far else None)
        w = np.ones(rows.shape[0]) if weights is None else weights[block]
        extremes.add(X[block] if weights is None else X[block][w > 0])
        count += float(w.sum())
        total += w @ rows
        if weights is not None:
            rows = rows * np.sqrt(w)[:, None]
        if sums is not None:
            sums += rows.T @ rows
        else:
            roots.append(rows)
    unit = 0 * exponent if far else exponent  # what is still to be divided out
    gap = np.ldexp(total / count, -unit)
    mean = np.ldexp(shift, -exponent) + gap
    low, high = (np.ldexp(v - shift, -exponent) - gap for v in extremes.columns())
    eps = float(np.finfo(X.dtype).eps)
    if sums is not None:
        scatter = np.ldexp(sums, -unit - unit[:, None]) - np.outer(gap, gap) * count
        return Moments(count, mean, exponent, low, high, eps, None, scatter)
    spread = np.ones(n) if weights is None else np.sqrt(weights)
    root = np.ldexp(np.vstack(roots), -unit) - spread[:, None] * gap
    return Moments(count, mean, exponent, low, high, eps, root, None)


class _Extremes:
    """The columns' least and greatest values over blocks of rows.

    Kept for each place in a block, since a minimum of whole blocks runs over contiguous memory;
    one along the short rows of a block takes ten times as long.
    """

    def __init__(self, rows: int, X: FloatArray) -> None:
        shape = (min(rows, X.shape[0]), X.shape[1])
        self.low, self.high = np.full(shape, np.inf, X.dtype), np.full(shape, -np.inf, X.dtype)

    def add(self, block: FloatArray) -> None:
        low, high = self.low[: block.shape[0]], self.high[: block.shape[0]]
        np.minimum(low, block, out=low)
        np.maximum(high, block, out=high)

    def columns(self) -> tuple[Vector, Vector]:
        return self.low.min(axis=0).astype(np.float64), self.high.max(axis=0).astype(np.float64)


def _first_guess(X: FloatArray) -> tuple[Vector, npt.NDArray[np.int64]]:
    """A centre and a power of two per column from a spread of at most 256 rows.

    The centre is zero where all columns lie about there.
    """
    some = X[:: max(1, X.shape[0] // 256)].astype(np.float64)
    middle = some.shape[0] // 2
    shift = np.sort(some, axis=0)[middle]  # a row's own value: exact in the data's type
    size = np.abs(some - shift).max(axis=0)
    if (np.abs(shift) <= size).all():
        shift = np.zeros_like(shift)
    # A column constant in these rows may still vary elsewhere: its own size is the best guess.
    size = np.where(size > 0, size, np.where(shift != 0, np.abs(shift), 1.0))
    return shift, np.frexp(size)[1].astype(np.int64)


def _centred(rows: FloatArray, shift: Vector, exponent: npt.NDArray[np.int64] | None) -> Matrix:
    """Rows in float64 less ``shift``; over ``2**exponent`` where squares would not fit."""
    centred = rows.astype(np.float64, copy=False)
    if shift.any():
        centred = np.subtract(centred, shift, out=None if centred is rows else centred)
    return centred if exponent is None else np.ldexp(centred, -exponent)
