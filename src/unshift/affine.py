"""Affine maps between feature spaces: apply, compose, invert."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray, column_names, is_frame, like_frame
from ._blocks import row_blocks, rows_per_block
from ._checks import check_matrix, check_names, check_width

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

# What a dictionary of plain numbers says it is; described in docs/production.md.
FORMAT, VERSION = "unshift affine map", 1


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
        return self.shared_names()

    def shared_names(self) -> tuple[str, ...]:
        """Names of what comes out where the map has none: ``shared0``, ``shared1``, ..."""
        return tuple(f"shared{i}" for i in range(self.width_out))

    def _apply(self, rows: FloatArray) -> FloatArray:
        if self.is_identity:
            return rows.copy()
        map_block = self._by_blocks(rows.dtype)
        mapped = np.empty((rows.shape[0], self.width_out), dtype=rows.dtype)
        for block in row_blocks(rows.shape[0], self._row_bytes(rows.dtype)):
            mapped[block] = map_block(rows[block])
        return mapped

    def columns(self, columns: FloatArray) -> FloatArray:
        """The map of checked columns (d_in, n) to columns (d_out, n), with the bits of ``plain``.

        Tables come and go by columns, and turning a large one round takes longer than mapping it;
        here it is turned a block at a time, within the cache.
        """
        if self.is_identity:
            return columns
        map_block = self._by_blocks(columns.dtype)
        mapped = np.empty((self.width_out, columns.shape[1]), dtype=columns.dtype)
        for block in row_blocks(columns.shape[1], self._row_bytes(columns.dtype)):
            mapped[:, block] = map_block(np.ascontiguousarray(columns[:, block].T)).T
        return mapped

    def _by_blocks(self, dtype: np.dtype[Any]) -> Callable[[FloatArray], FloatArray]:
        """The map of one block of rows, in the type that keeps its precision."""
        dtype = self._working(dtype)
        matrix, offset = self.matrix.astype(dtype), self.offset.astype(dtype)
        center, rest = split_center(self.center, dtype)

        def map_block(rows: FloatArray) -> FloatArray:
            centered = rows - center
            if rest is not None:
                centered -= rest
            mapped: FloatArray = centered @ matrix
            mapped += offset
            return mapped

        return map_block

    def _working(self, dtype: npt.DTypeLike) -> np.dtype[Any]:
        return np.dtype(dtype) if self.fits(dtype) else np.dtype(np.float64)

    def block_rows(self, dtype: npt.DTypeLike) -> int:
        """Rows that are mapped at a time: those of a multiple keep their bits in a larger array."""
        return rows_per_block(self._row_bytes(dtype))

    def _row_bytes(self, dtype: npt.DTypeLike) -> int:
        return self._working(dtype).itemsize * (self.width_in + self.width_out)

    def fits(self, dtype: npt.DTypeLike) -> bool:
        """Whether every entry keeps its precision in the rows' type (float32 ends near 1e±38)."""
        if np.dtype(dtype) == np.float64:
            return True
        places = np.abs(np.concatenate([self.center, self.offset]))
        sizes = np.abs(self.matrix[self.matrix != 0])
        return bool(places.max() < 1e30 and (sizes.size == 0 or 1e-25 < sizes.max() < 1e30))

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

    def to_dict(self) -> dict[str, Any]:
        """The map in plain numbers, as docs/production.md describes them; for JSON and the like."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "center": self.center.tolist(),
            "matrix": self.matrix.tolist(),
            "offset": self.offset.tolist(),
            "names_in": None if self.names_in is None else list(self.names_in),
            "names_out": None if self.names_out is None else list(self.names_out),
        }

    def to_json(self) -> str:
        """``to_dict`` as JSON text, whose digits give the same bits back."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> AffineMap:
        """The map that ``to_dict`` described; anything else is refused."""
        named = fields if isinstance(fields, Mapping) else {}
        if named.get("format") != FORMAT or named.get("version") != VERSION:
            raise ValueError(
                f"Expected the dictionary of AffineMap.to_dict, with format {FORMAT!r} and version "
                f"{VERSION}; got format {named.get('format')!r}, version {named.get('version')!r}."
            )
        missing = [part for part in ("center", "matrix", "offset") if part not in named]
        if missing:
            raise ValueError(f"The affine map lacks {', '.join(missing)}: write it again.")
        center, offset = _numbers(named, "center", 1), _numbers(named, "offset", 1)
        matrix = _numbers(named, "matrix", 2)
        if matrix.shape != (center.size, offset.size):
            raise ValueError(
                f"center has {center.size} numbers and offset {offset.size}, so matrix should have "
                f"shape {(center.size, offset.size)}; got {matrix.shape}."
            )
        names_in = _names(named, "names_in", center.size)
        return AffineMap(center, matrix, offset, names_in, _names(named, "names_out", offset.size))

    @staticmethod
    def from_json(text: str | bytes) -> AffineMap:
        """The map that ``to_json`` wrote, the same bits."""
        return AffineMap.from_dict(json.loads(text))

    def plain(self, rows: FloatArray) -> FloatArray:
        """The map of checked rows (n, d_in), whatever their names."""
        return self._apply(rows)

    def renamed(
        self, names_in: tuple[str, ...] | None, names_out: tuple[str, ...] | None
    ) -> AffineMap:
        """The same map with other column names."""
        return replace(self, names_in=names_in, names_out=names_out)


def split_center(center: Vector, dtype: npt.DTypeLike) -> tuple[FloatArray, FloatArray | None]:
    """The centre (d,) in the rows' type, and what rounding it left, to be subtracted next.

    Of rows near the centre the first difference is exact, so that after the second no digit of
    the centre is lost, be the mean ever so large beside the spread.
    """
    rounded: FloatArray = center.astype(dtype)
    rest: FloatArray = (center - rounded).astype(dtype)
    return rounded, rest if rest.any() else None


def _numbers(fields: Mapping[str, Any], part: str, ndim: int) -> npt.NDArray[np.float64]:
    try:
        numbers = np.array(fields[part], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{part} of the affine map holds what is no number: {error}.") from error
    if numbers.ndim != ndim or numbers.size == 0 or not np.isfinite(numbers).all():
        raise ValueError(
            f"{part} of the affine map should hold finite numbers, "
            f"{'a list of them' if ndim == 1 else 'lists of equal length'}; got shape "
            f"{numbers.shape} with {int((~np.isfinite(numbers)).sum())} that are not finite."
        )
    return numbers


def _names(fields: Mapping[str, Any], part: str, width: int) -> tuple[str, ...] | None:
    names = fields.get(part)
    if names is None:
        return None
    if len(names) != width or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{part} of the affine map should be null or {width} strings.")
    return tuple(names)


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
