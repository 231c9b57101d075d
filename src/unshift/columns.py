"""What the columns of a table are for: features, a label, identifiers; and rows as a matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from .table_base import EMPTY, NUMBER, TEXT, Table, arrow, kind_of, listed

Array = npt.NDArray[Any]

# Categories of a text column, at most: one of more than these is hardly a category.
MOST_CATEGORIES = 100
# Cells of text that stand for nothing.
NOTHING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "n/a", "#N/A")


@dataclass(frozen=True)
class Layout:
    """Columns that make a row's features: numbers, then ``categories`` of text as 0 and 1.

    ``named`` is False where the file gives columns no names.
    """

    numbers: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named: bool = True

    @property
    def reads(self) -> dict[str, str]:
        """The file's columns, and what each is read as."""
        return dict.fromkeys(self.numbers, NUMBER) | dict.fromkeys(self.categories, TEXT)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        ones = (f"{c}={value}" for c, values in self.categories.items() for value in values)
        return (*self.numbers, *ones)

    def dtype(self, table: Table) -> np.dtype[Any]:
        """float32 where all numbers of the table are that or less, else float64."""
        types, small = arrow().types, bool(self.numbers)
        for column in self.numbers:
            type_ = table.types[column]
            small &= types.is_float32(type_) or types.is_float16(type_)
        return np.dtype(np.float32 if small else np.float64)

    def values(self, batch: Any, dtype: np.dtype[Any], first: int, file: str) -> FloatArray:
        """Features (d, n) of a batch whose first row is row ``first`` of the file, all finite."""
        X: FloatArray = np.empty((len(self.names), batch.num_rows), dtype)
        for j, column in enumerate(self.numbers):
            X[j] = numbers(batch.column(column), dtype)
        j = len(self.numbers)
        for column, values in self.categories.items():
            cells = np.asarray(strings(batch.column(column)), dtype=object)
            for value in values:
                X[j] = cells == value
                j += 1
        # a sum that is finite proves every cell finite; one that is not may only be large
        if not np.isfinite(X.sum()) and not np.isfinite(X).all():
            row, j = np.argwhere(~np.isfinite(X.T))[0]
            raise ValueError(
                f"{file}: row {first + row + 1} of the data has no finite number in column "
                f"{self.names[j]!r}. Fill such cells, drop those rows, or leave the column out."
            )
        return X

    def unknown(self, batch: Any) -> set[tuple[str, str]]:
        """Categories in a batch that have no column."""
        return {
            (column, value)
            for column, values in self.categories.items()
            for value in set(strings(batch.column(column))) - set(values)
            if value is not None
        }


def numbers(column: Any, dtype: np.dtype[Any]) -> FloatArray:
    """An arrow column as floats, NaN where it is empty."""
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan, dtype)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_decimal(column.type) or not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    values: FloatArray = column.to_numpy(zero_copy_only=False)
    return values.astype(dtype, copy=False)


def strings(column: Any) -> list[str | None]:
    """An arrow column as strings, None where it is empty or says NA."""
    values = column.cast(arrow().string()).to_pylist()
    return [None if value in NOTHING else value for value in values]


def cells(column: Any) -> Array:
    """An arrow column of labels as objects (n,): strings of text, None where unknown."""
    found = np.empty(len(column), dtype=object)
    if kind_of(column.type) == TEXT:
        found[:] = strings(column)
    else:
        if arrow().types.is_dictionary(column.type):
            column = column.dictionary_decode()
        found[:] = column.to_pylist()
    return found


def settled(values: Array, table: Table, like: Array | None = None) -> Array:
    """Labels (n,) of one kind, None where unknown.

    What a file without types holds are whole numbers if all are such, else numbers, else text. So
    that two files' labels compare, those that are to be ``like`` text are text.
    """
    known = [value for value in values.tolist() if value is not None]
    if like is not None and like.dtype.kind in "US":
        kind: Callable[[Any], Any] = str
    elif table.typed:
        return values
    else:

        def number(text: str) -> float:
            return float(text.replace(table.decimal, "."))

        kind = next((kind for kind in (int, number) if _all(known, kind)), str)
    found = np.empty(values.size, dtype=object)
    found[:] = [None if value is None else kind(value) for value in values.tolist()]
    return found


def _all(values: Sequence[Any], kind: Callable[[Any], Any]) -> bool:
    try:
        for value in values:
            kind(value)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Roles:
    """Columns told apart: what is a number, what is text, what was empty or of no use."""

    numbers: tuple[str, ...]
    text: tuple[str, ...]
    empty: tuple[str, ...]
    other: tuple[str, ...]


def roles(table: Table, without: Sequence[str]) -> Roles:
    """What each column could be, but for those that have another use."""
    kinds = {c: kind_of(t) for c, t in table.types.items() if c not in without}

    def of(kind: str) -> tuple[str, ...]:
        return tuple(column for column, k in kinds.items() if k == kind)

    others = tuple(c for c, k in kinds.items() if k not in (NUMBER, TEXT, EMPTY))
    return Roles(of(NUMBER), of(TEXT), of(EMPTY), others)


def left_out(file: str, found: Roles, one_hot: bool) -> list[str]:
    """Sentences about columns that are no features."""
    said = []
    text = () if one_hot else found.text
    if text or found.other:
        said.append(
            f"{file}: left out, since they hold no numbers: {listed((*text, *found.other))}. "
            "--id carries such a column along, --one-hot makes columns of 0 and 1 of text."
        )
    if found.empty:
        said.append(f"{file}: left out, since they are empty: {listed(found.empty)}.")
    return said


def categories(table: Table, columns: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], str]:
    """Values of each text column, sorted; and a sentence about columns with too many of them."""
    found: dict[str, set[str]] = {column: set() for column in columns}
    if found:
        for batch in table.batches(dict.fromkeys(columns, TEXT)):
            for column, seen in found.items():
                if len(seen) <= MOST_CATEGORIES:
                    seen |= {v for v in strings(batch.column(column).unique()) if v is not None}
    many = [column for column, seen in found.items() if len(seen) > MOST_CATEGORIES]
    said = (
        f"{table.name}: left out, since they have more than {MOST_CATEGORIES} categories: "
        f"{listed(many)}. --id carries such a column along."
        if many
        else ""
    )
    return {c: tuple(sorted(seen)) for c, seen in found.items() if c not in many}, said
