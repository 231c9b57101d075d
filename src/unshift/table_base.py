"""A table: a file of rows that yields batches of its columns, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ._extras import extra

# What a column is read as: float64 or the file's own floats, strings, or whatever the file says.
NUMBER, TEXT, AS_IS = "number", "text", "as is"
# What a column holds, by its type; EMPTY where not one cell of it is filled.
EMPTY, OTHER = "empty", "other"

# Bytes of the rows that are in work at a time, as float64; and their number, at most.
BATCH_BYTES, BATCH_ROWS = 1 << 23, 1 << 16

Batches = Iterator[Any]


def arrow() -> Any:
    """pyarrow, or how to get it."""
    return extra("pyarrow", "cli")


def batch_rows(width: int) -> int:
    """Rows of a batch of this many columns."""
    return max(1, min(BATCH_ROWS, BATCH_BYTES // (8 * max(1, width))))


def kind_of(type_: Any) -> str:
    """NUMBER, TEXT, EMPTY or OTHER, by a column's arrow type."""
    types = arrow().types
    if types.is_dictionary(type_):
        return kind_of(type_.value_type)
    number = types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_)
    if number or types.is_decimal(type_):
        return NUMBER
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        return TEXT
    return EMPTY if types.is_null(type_) else OTHER


class Table:
    """What every format has: ``batches`` of some columns, in order; here also its description.

    ``types`` are the columns' arrow types by name, ``named`` is False where columns have no names
    of their own, ``rows`` their number where the format says it, and ``again`` whether the rows
    can be read more than once, ``typed`` whether the file itself tells numbers from text, and
    ``decimal`` the sign in numbers that are text.
    """

    name: str
    types: dict[str, Any]
    named: bool = True
    rows: int | None = None
    again: bool = True
    typed: bool = True
    decimal: str = "."

    def batches(self, columns: Mapping[str, str], start: int = 0) -> Batches:
        """Record batches of these columns, read as told, from row ``start`` on."""
        raise NotImplementedError

    def share_read(self) -> float | None:
        """How much of the file has been read, where only its bytes tell."""
        return None

    def require(self, columns: Sequence[str], wanted_by: str) -> None:
        """Refuse to go on without these columns."""
        missing = [column for column in columns if column not in self.types]
        if not missing:
            return
        one = f"column {missing[0]!r} of {wanted_by}" if len(columns) == 1 else None
        many = f"{len(missing)} of the {len(columns)} columns of {wanted_by}"
        raise ValueError(
            f"{self.name} lacks {one or many}: "
            + ("" if one else f"{listed(missing)}. ")
            + f"{'i' if one else 'I'}t has {listed(list(self.types))}."
        )


def listed(names: Sequence[str], most: int = 8) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def unique(names: Sequence[str], file: str) -> list[str]:
    """The names, of which no two may be the same."""
    seen: set[str] = set()
    twice = list(dict.fromkeys(n for n in names if n in seen or seen.add(n)))  # type: ignore[func-returns-value]
    if twice:
        raise ValueError(
            f"{file} has more than one column named {listed([repr(n) for n in twice])}: "
            "every column needs a name of its own."
        )
    return list(names)


def skipped(batches: Batches, start: int) -> Batches:
    """The batches without their first ``start`` rows."""
    for batch in batches:
        if start >= batch.num_rows:
            start -= batch.num_rows
            continue
        yield batch.slice(start)
        start = 0


@contextmanager
def naming(file: str) -> Iterator[None]:
    """Put the file's name before what its reader has to say."""
    try:
        yield
    except MemoryError:
        raise
    except (arrow().ArrowException, ValueError, OSError) as error:
        if getattr(error, "filename", None) is not None:
            raise
        said = " ".join(str(error).split())
        if said.startswith(file):
            raise
        raise ValueError(f"{file} could not be read: {said}") from error


class MemoryTable(Table):
    """Rows that are kept, of a table that cannot be read again."""

    def __init__(self, table: Table, kept: Sequence[Any]) -> None:
        self.name, self.types = table.name, table.types
        self.named, self.typed, self.decimal = table.named, table.typed, table.decimal
        self.kept = kept
        self.rows = sum(batch.num_rows for batch in kept)

    def batches(self, columns: Mapping[str, str], start: int = 0) -> Batches:
        """The kept batches' columns, as they were read at first."""
        yield from skipped((batch.select(list(columns)) for batch in self.kept), start)
