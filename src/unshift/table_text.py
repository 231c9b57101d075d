"""CSV and TSV, also compressed or from a pipe; their first megabytes tell what columns hold."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ._extras import extra
from .table_base import NUMBER, Batches, Table, arrow, skipped, unique

# Bytes that are parsed at a time; those of the head show separator, encoding and types.
BLOCK = 1 << 22
GZIP = b"\x1f\x8b"
MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# Rows that show whether commas are decimal.
LOOKED_AT = 50


@dataclass(frozen=True)
class TextFormat:
    """How cells are separated and written; None is seen in the file."""

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None


class TextTable(Table):
    """Rows of text with a line of names. Numbers are float64; what is carried along stays text."""

    typed = False

    def __init__(self, source: Path | IO[bytes], name: str, format_: TextFormat) -> None:
        self.name, self.source = name, source
        self.again = isinstance(source, Path)
        self._raw: IO[bytes] | None = None
        with self._naming():
            self.stream = self._open()
            self.head = head = self._read_head()
            self.size = source.stat().st_size if isinstance(source, Path) else None
            self.format = _seen(head, format_, name)
            self.decimal = self.format.decimal or "."
            whole = len(head) < BLOCK
            sample = head if whole else head[: head.rfind(b"\n") + 1] or head
            schema = self._reader(arrow().BufferReader(sample), None).schema
            self.types = dict(zip(unique(schema.names, name), schema.types, strict=True))

    def batches(self, columns: Mapping[str, str], start: int = 0) -> Batches:
        """Batches of the columns; a cell that is no number where one is expected is refused."""
        pa = arrow()
        types = {}
        for column, kind in columns.items():
            seen = self.types[column]
            types[column] = pa.string() if kind != NUMBER else pa.float64()
            if kind == NUMBER and pa.types.is_boolean(seen):
                types[column] = seen
        with self._naming():
            stream = (
                self._open()
                if self.again
                else pa.PythonFile(_Replayed(self.head, self.stream), mode="r")
            )
            try:
                with self._reader(stream, types) as reader:
                    yield from skipped(iter(reader), start)
            except pa.ArrowInvalid:
                if self.again:  # once more, one row after the other: that tells which row it was
                    self._close()
                    for _ in self._reader(self._open(), types, in_order=True):
                        pass
                raise
            finally:
                self._close()

    def share_read(self) -> float | None:
        """By the bytes of the file, also where it is compressed."""
        if self.size is None or self._raw is None or self._raw.closed:
            return None
        return self._raw.tell() / max(1, self.size)

    def _read_head(self) -> bytes:
        try:
            return bytes(self.stream.read(BLOCK))
        finally:
            self._close()

    def _close(self) -> None:
        """Close the file; a pipe is its owner's to close."""
        if self.again and self._raw is not None:
            self._raw.close()

    def _open(self) -> Any:
        """The text's bytes."""
        self._raw = raw = (
            self.source.open("rb") if isinstance(self.source, Path) else _peekable(self.source)
        )
        compressed = raw.peek(2)[:2] == GZIP
        return gzip.GzipFile(fileobj=raw) if compressed else raw

    def _reader(self, stream: Any, types: dict[str, Any] | None, in_order: bool = False) -> Any:
        csv = extra("pyarrow.csv", "cli")
        f = self.format
        wanted = {} if types is None else {"include_columns": list(types), "column_types": types}
        return csv.open_csv(
            stream,
            read_options=csv.ReadOptions(
                block_size=BLOCK, encoding=f.encoding, use_threads=not in_order
            ),
            parse_options=csv.ParseOptions(
                delimiter=f.separator, newlines_in_values=b'"' in self.head
            ),
            convert_options=csv.ConvertOptions(decimal_point=f.decimal, **wanted),
        )

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except UnicodeError as error:
            raise ValueError(self._undecodable()) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(
                f"{self.name} is damaged: it ends or changes in the midst of its compressed data. "
                "Copy it again."
            ) from error
        except arrow().ArrowException as error:
            raise ValueError(self._explained(str(error))) from error

    def _undecodable(self) -> str:
        return (
            f"{self.name} could not be read: its text is not UTF-8. Say which encoding it has, "
            "such as --encoding latin-1, or save it as UTF-8."
        )

    def _explained(self, said: str) -> str:
        """What pyarrow has to say, in the file's own terms."""
        if "Empty CSV" in said:
            return f"{self.name} is empty: expected a line of column names, and rows below it."
        if "UTF8" in said or "codec can't" in said:
            return self._undecodable()
        cell = re.search(
            r"column #(\d+)(?: \(.*?\))?: (?:Row #(\d+): )?.* invalid value '(.*)'", said, re.DOTALL
        )
        if cell:
            column, row = list(self.types)[int(cell[1])], f"row {cell[2]}, " if cell[2] else ""
            return (
                f"{self.name} could not be read: {row}column {column!r} holds {cell[3][:40]!r} "
                "where a number is expected. Mend that cell, or leave the column out."
            )
        cells = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+): (.*)", said)
        if cells:
            row = f"row {cells[1]}" if cells[1] else "a row"
            return (
                f"{self.name} could not be read: {row} has {cells[3]} cells where the line of "
                f"names has {cells[2]}: {cells[4][:60]!r}."
            )
        return f"{self.name} could not be read: {' '.join(said.split())}"


class _Replayed:
    """A stream whose head has been read already."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self.head, self.stream, self.closed = head, stream, False

    def read(self, n: int = -1) -> bytes:
        """The next bytes."""
        if self.head:
            part, self.head = (self.head, b"") if n < 0 else (self.head[:n], self.head[n:])
            return part if n >= 0 else part + self.stream.read()
        return self.stream.read(n)

    def close(self) -> None:
        """The stream is its owner's to close."""
        self.closed = True


def _peekable(stream: Any) -> Any:
    return stream if hasattr(stream, "peek") else io.BufferedReader(stream)


def _seen(head: bytes, asked: TextFormat, name: str) -> TextFormat:
    """The format, with what was not said taken from the first lines."""
    encoding = asked.encoding
    if encoding is None:
        encoding = next((e for mark, e in MARKS.items() if head.startswith(mark)), "utf-8")
        encoding = "utf8" if encoding.startswith("utf-8") else encoding
    text = head[: 1 << 16].decode(encoding, errors="replace")
    lines = [line for line in text.splitlines()[: LOOKED_AT + 1] if line.strip()]
    first = re.sub(r'"[^"]*"', "", lines[0]) if lines else ""
    separator = asked.separator
    if separator is None:
        tabs = name.lower().removesuffix(".gz").endswith(".tsv")
        # most of the separators that the line of names could have; commas where there are none
        separator = "\t" if tabs else max(",;\t", key=lambda s: (first.count(s), s == ","))
    decimal = asked.decimal
    if decimal is None:
        commas = separator != "," and any(re.search(r"\d,\d", line) for line in lines[1:])
        points = any(re.search(r"\d\.\d", line) for line in lines[1:])
        decimal = "," if commas and not points else "."
    return TextFormat(separator, decimal, encoding)
