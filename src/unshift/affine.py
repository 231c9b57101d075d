"""Affine maps between feature spaces: apply, compose, invert."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray, column_names, is_frame, like_frame
from ._blocks import row_blocks
from ._checks import check_matrix, check_names, check_width

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AffineMap:
    """``x -> (x - center) @ matrix + offset`` on rows.

    ``center`` has shape (d_in,), ``matrix`` (d_in, d_out), ``offset`` (d_out,), all float64. The
    centre is kept apart from the offset: subtracting it first keeps precision where a column's
    mean is large beside its spread. ``names_in`` and ``names_out`` name the columns of frames.
    """

    center: Vector
    matrix: Matrix
    offset: Vector
    names_in: tuple[str, ...] | None = None
    names_out: tuple[str, ...] | None = None

    @staticmethod
    def identity(
        width: int,
        names_in: tuple[str, ...] | None = None,
        names_out: tuple[str, ...] | None = None,
    ) -> AffineMap:
        """``x -> x``, exactly: rows come back to the last bit."""
        zero = np.zeros(width)
        return AffineMap(zero, np.eye(width), zero.copy(), names_in, names_out)

    @property
    def width_in(self) -> int:
        """Number of columns it takes."""
        return int(self.matrix.shape[0])

    @property
    def width_out(self) -> int:
        """Number of columns it gives."""
        return int(self.matrix.shape[1])

    @property
    def is_identity(self) -> bool:
        """True where rows come back unchanged."""
        return (
            self.width_in == self.width_out
            and not self.center.any()
            and not self.offset.any()
            and bool((self.matrix == np.eye(self.width_in)).all())
        )

    def __call__(self, X: Any) -> Any:
        """Map rows (n, d_in) to (n, d_out): float32 to float32, a frame to a frame of its kind."""
        check_names(X, self.names_in, "X")
        rows = check_matrix(X, "X", min_rows=1)
        check_width(rows, self.width_in, "X")
        mapped = self._apply(rows)
        if not is_frame(X):
            return mapped
        return like_frame(mapped, X, self._frame_names(X))

    def _frame_names(self, X: Any) -> tuple[str, ...]:
        if self.names_out is not None:
            return self.names_out
        names = column_names(X)
        if names is not None and self.is_identity:
            return names
        return tuple(f"shared{i}" for i in range(self.width_out))

    def _apply(self, rows: FloatArray) -> FloatArray:
        if self.is_identity:
            return rows.copy()
        dtype = rows.dtype if self._fits(rows.dtype) else np.dtype(np.float64)
        center, matrix, offset = (a.astype(dtype) for a in (self.center, self.matrix, self.offset))
        mapped = np.empty((rows.shape[0], self.width_out), dtype=rows.dtype)
        for block in row_blocks(rows.shape[0], dtype.itemsize * (self.width_in + self.width_out)):
            mapped[block] = (rows[block] - center) @ matrix + offset
        return mapped

    def _fits(self, dtype: np.dtype[Any]) -> bool:
        """Whether every entry keeps its precision in the rows' type (float32 ends near 1e±38)."""
        if dtype == np.float64:
            return True
        sizes = np.abs(self.matrix[self.matrix != 0])
        return bool(sizes.size == 0 or (sizes.max() < 1e30 and sizes.max() > 1e-25))

    def then(self, other: AffineMap) -> AffineMap:
        """First this map, then the other: ``(x - c1) M1 M2 + (b1 - c2) M2 + b2``."""
        if self.width_out != other.width_in:
            raise ValueError(
                f"The first map gives {self.width_out} columns, but the second takes "
                f"{other.width_in}: they cannot be composed."
            )
        return AffineMap(
            self.center,
            self.matrix @ other.matrix,
            (self.offset - other.center) @ other.matrix + other.offset,
            self.names_in,
            other.names_out,
        )

    def inverse(self) -> AffineMap:
        """The (pseudo-)inverse ``x -> (x - offset) M⁺ + center``: centre and offset swapped."""
        return AffineMap(
            self.offset, pseudo_inverse(self.matrix), self.center, self.names_out, self.names_in
        )

    def plain(self, rows: FloatArray) -> FloatArray:
        """The map of checked rows (n, d_in), whatever their names."""
        return self._apply(rows)

    def renamed(
        self, names_in: tuple[str, ...] | None, names_out: tuple[str, ...] | None
    ) -> AffineMap:
        """The same map with other column names."""
        return replace(self, names_in=names_in, names_out=names_out)


def pseudo_inverse(matrix: Matrix) -> Matrix:
    """``M⁺``, with units taken out first, so that none is lost below the tolerance.

    ``(M C)⁺ = C⁻¹ M⁺`` holds for full column rank and ``(D M)⁺ = M⁺ D⁻¹`` for full row rank, so
    columns are brought to the size of one where ``M`` is tall, rows where it is wide, both where
    it is square. Powers of two are exact.
    """
    n_in, n_out = matrix.shape
    rows = _power_of_two(np.abs(matrix).max(axis=1)) if n_in <= n_out else np.ones(n_in)
    scaled = matrix / rows[:, None]
    columns = _power_of_two(np.abs(scaled).max(axis=0)) if n_in >= n_out else np.ones(n_out)
    return np.linalg.pinv(scaled / columns) / rows / columns[:, None]


def _power_of_two(sizes: Vector) -> Vector:
    exponents = np.frexp(np.where(sizes > 0, sizes, 1.0))[1]
    return np.ldexp(1.0, exponents)
