"""Files that are there whole or not at all, and can be gone on with: rows written in sections.

While it grows the file is FILE.partial, and FILE.partial.json says how far it is good. Both go when
the file is done.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._extras import extra
from .table_base import arrow
from .tables import STANDARD, format_of

# Bytes of rows, as they are in memory, after which what is written counts as good.
SECTION_BYTES = 1 << 25
WRITABLE = ".csv, .tsv (also with .gz), .parquet, .arrow or .feather"


class CannotWriteError(OSError):
    """The machine would not take what was to be written."""


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Tell failures to write from those to read."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        why = error.strerror or " ".join(str(error).split())
        raise CannotWriteError(f"{path} could not be written: {why}.") from error


class Output:
    """One file of rows. ``task`` is what it is made of; only the same task may be gone on with."""

    def __init__(self, path: Path | str, asked: str | None, task: Mapping[str, Any], resume: bool):
        self.path, self.to_stdout = Path(path), str(path) == STANDARD
        self.kind = format_of(path, asked)
        if self.kind not in ("csv", "tsv", "parquet", "arrow"):
            raise ValueError(f"{path} cannot be written: expected a name that ends in {WRITABLE}.")
        if self.to_stdout and self.kind == "parquet":
            raise ValueError("Parquet cannot go to standard output: name a file for --out.")
        self.partial = self.path.with_name(f"{self.path.name}.partial")
        self.state = self.path.with_name(f"{self.path.name}.partial.json")
        self.task = dict(task)
        self.rows, self.bytes = 0, 0
        self.pending: list[Any] = []
        self.notes: list[str] = []
        self.pending_bytes = 0
        self.schema: Any = None
        self.footers: list[Any] = []
        if self.to_stdout:
            if resume:
                raise ValueError("--resume needs a file: standard output is gone.")
            return
        if self.path.exists() and not self.path.is_file():
            raise ValueError(f"{path} is no file that could be replaced: name another for --out.")
        if resume:
            self._resume()
        elif self.state.exists() and self.partial.exists():
            raise ValueError(
                f"{self.partial} holds unfinished output: add --resume to go on with it, or delete "
                "it to begin anew."
            )
        else:
            with writing(self.partial):
                self.partial.write_bytes(b"")

    def _resume(self) -> None:
        if not (self.state.exists() and self.partial.exists()):
            raise ValueError(
                f"There is no unfinished {self.partial} to go on with: leave --resume out."
            )
        state = json.loads(self.state.read_text("utf-8"))
        changed = [key for key, value in self.task.items() if state["task"].get(key) != value]
        if changed or self.partial.stat().st_size < state["bytes"]:
            what = f"with other {' and '.join(changed)}" if changed else "and then cut short"
            raise ValueError(
                f"{self.partial} was made {what}, so it cannot be gone on with: delete it to begin "
                "anew."
            )
        self.rows, self.bytes = state["rows"], state["bytes"]
        with self.partial.open("r+b") as file:
            file.truncate(self.bytes)
            if self.kind == "parquet":
                self.footers = [_footer(file, end) for end in state["ends"]]

    def write(self, batch: Any) -> None:
        """The next rows; they are on disk once there are enough for a section."""
        self.schema = batch.schema
        self.pending.append(batch)
        self.pending_bytes += batch.nbytes
        if self.pending_bytes >= SECTION_BYTES or self.to_stdout:
            self._section()

    def _section(self) -> None:
        """Append the pending rows, then write down that they are good."""
        if not self.pending:
            return
        table = arrow().Table.from_batches(self.pending)
        self.pending, self.pending_bytes = [], 0
        if self.to_stdout:
            with writing("standard output"):
                self._append(sys.stdout.buffer, table)
                sys.stdout.buffer.flush()
            self.rows += table.num_rows
            return
        with writing(self.partial):
            if self.kind == "parquet":
                self._append_parquet(table)
            else:
                with self.partial.open("ab") as file:
                    self._append(file, table)
            self.bytes = self.partial.stat().st_size
            self.rows += table.num_rows
            self._write_state()

    def _append(self, file: Any, table: Any) -> None:
        """Text, or messages of an Arrow stream."""
        if self.kind == "arrow":
            if not self.rows:
                file.write(table.schema.serialize())
            for batch in table.to_batches():
                file.write(batch.serialize())
            return
        csv = extra("pyarrow.csv", "cli")
        options = csv.WriteOptions(
            include_header=not self.rows, delimiter="\t" if self.kind == "tsv" else ","
        )
        if self.path.suffix.lower() == ".gz":
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0) as member:
                csv.write_csv(table, member, options)
        else:
            csv.write_csv(table, file, options)

    def _append_parquet(self, table: Any) -> None:
        """A row group at the end of the file, with a footer of its own.

        pyarrow begins files at 0 only. The descriptor appends wherever it is said to stand, and
        from the first bytes on it stands at the end: so the footer's places are those in the file.
        The last footer of all lists every row group; those before it are passed over by readers.
        """
        parquet = extra("pyarrow.parquet", "cli")
        with arrow().OSFile(str(self.partial), mode="ab") as file:
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            # Numbers that hardly repeat gain nothing from a dictionary; strings do.
            texts = [f.name for f in table.schema if arrow().types.is_string(f.type)]
            with parquet.ParquetWriter(file, table.schema, use_dictionary=texts) as writer:
                writer.write_table(table, row_group_size=table.num_rows)
        with self.partial.open("rb") as file:
            self.footers.append(_footer(file, self.partial.stat().st_size))

    def _write_state(self) -> None:
        ends = [end for _, end in self.footers]
        state = {"task": self.task, "rows": self.rows, "bytes": self.bytes, "ends": ends}
        new = self.state.with_name(f"{self.state.name}.new")
        new.write_text(json.dumps(state), "utf-8")
        os.replace(new, self.state)

    def finish(self) -> int:
        """Put the file in its place; the number of its rows."""
        self._section()
        if self.rows == 0:
            self.discard()
            raise ValueError(f"There are no rows to write to {self.path.name}.")
        if self.to_stdout:
            with writing("standard output"):
                if self.kind == "arrow":
                    sys.stdout.buffer.write(_end_of_stream())
                sys.stdout.buffer.flush()
            return self.rows
        with writing(self.path):
            if self.kind == "parquet":
                self._close_parquet()
            elif self.kind == "arrow":
                self._close_arrow()
            os.replace(self.partial, self.path)
            self.state.unlink(missing_ok=True)
        return self.rows

    def _close_parquet(self) -> None:
        (all_groups, _), *others = self.footers
        for metadata, _ in others:
            all_groups.append_row_groups(metadata)
        sink = arrow().BufferOutputStream()
        all_groups.write_metadata_file(sink)
        with self.partial.open("ab") as file:
            file.write(memoryview(sink.getvalue())[4:])  # without the magic that begins a file

    def _close_arrow(self) -> None:
        """The stream, as a file whose batches can be found."""
        pa, ipc = arrow(), extra("pyarrow.ipc", "cli")
        with self.partial.open("ab") as file:
            file.write(_end_of_stream())
        whole = self.path.with_name(f"{self.path.name}.partial.new")
        with (
            pa.OSFile(str(self.partial)) as file,
            ipc.open_stream(file) as stream,
            ipc.new_file(str(whole), stream.schema) as writer,
        ):
            for batch in stream:
                writer.write_batch(batch)
        os.replace(whole, self.partial)

    def interrupted(self) -> str:
        """Keep what is good, and say how to go on with it."""
        if self.to_stdout or not self.state.exists():
            self.discard()
            return ""
        return f"{self.rows} rows are in {self.partial}; the same command with --resume goes on."

    def discard(self) -> None:
        """Leave nothing behind but the older file of that name."""
        if not self.to_stdout:
            self.partial.unlink(missing_ok=True)
            self.state.unlink(missing_ok=True)


def _footer(file: Any, end: int) -> tuple[Any, int]:
    """The metadata of the footer that ends at ``end``, and that place."""
    file.seek(end - 8)
    size = int.from_bytes(file.read(4), "little")
    file.seek(end - 8 - size)
    buffer = arrow().py_buffer(b"PAR1" + file.read(size + 8))
    return extra("pyarrow.parquet", "cli").read_metadata(arrow().BufferReader(buffer)), end


def _end_of_stream() -> bytes:
    return b"\xff\xff\xff\xff\x00\x00\x00\x00"
