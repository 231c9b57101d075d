"""Parquet, Arrow and Feather: columns of known types, read a piece of a row group at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from ._extras import extra
from .table_base import Batches, Table, arrow, batch_rows, naming, skipped, unique

# Bytes that all columns together read ahead, and those of one column at least and at most.
READ_AHEAD, LEAST, MOST = 1 << 24, 1 << 12, 1 << 20


class ParquetTable(Table):
    """Rows of a Parquet file. Only the row groups and columns that are asked for are read."""

    def __init__(self, source: Path | IO[bytes], name: str) -> None:
        self.name, self.source = name, source
        self.again = isinstance(source, Path)
        with naming(name):
            file = self._open()
            schema, self.rows = file.schema_arrow, file.metadata.num_rows
        self.types = dict(zip(unique(schema.names, name), schema.types, strict=True))

    def _open(self) -> Any:
        width = len(getattr(self, "types", ())) or 1
        # Not whole row groups: they may be larger than memory is to be.
        ahead = min(MOST, max(LEAST, READ_AHEAD // width))
        parquet = extra("pyarrow.parquet", "cli")
        return parquet.ParquetFile(self.source, buffer_size=ahead, pre_buffer=False)

    def batches(self, columns: Mapping[str, str], start: int = 0) -> Batches:
        """Batches of the columns as the file has them; row groups before ``start`` are passed."""
        with naming(self.name):
            file = self._open()
            groups = list(range(file.metadata.num_row_groups))
            while groups and start >= file.metadata.row_group(groups[0]).num_rows:
                start -= file.metadata.row_group(groups.pop(0)).num_rows
            if not groups:
                return
            read = file.iter_batches(
                batch_rows(len(columns)), row_groups=groups, columns=list(columns)
            )
            yield from skipped((batch.select(list(columns)) for batch in read), start)


class ArrowTable(Table):
    """Rows of an Arrow file (Feather of version 2), or of an Arrow stream."""

    def __init__(self, source: Path | IO[bytes], name: str) -> None:
        self.name, self.source = name, source
        self.again = isinstance(source, Path)
        with naming(name):
            self.reader = self._open()
            schema = self.reader.schema
        self.types = dict(zip(unique(schema.names, name), schema.types, strict=True))
        if self.again:
            self.reader = None

    def _open(self) -> Any:
        pa, ipc = arrow(), extra("pyarrow.ipc", "cli")
        if not isinstance(self.source, Path):
            return ipc.open_stream(self.source)
        # Not mapped into memory, where all that was read would count as ours.
        file = pa.OSFile(str(self.source))
        magic = file.read(6)
        file.seek(0)
        if magic[:4] == b"FEA1":
            raise ValueError("it is Feather of version 1; save it again as version 2 or as Parquet")
        return ipc.open_file(file) if magic == b"ARROW1" else ipc.open_stream(file)

    def batches(self, columns: Mapping[str, str], start: int = 0) -> Batches:
        """Batches of the columns as the file has them."""
        with naming(self.name):
            reader = self.reader or self._open()
            whole = hasattr(reader, "num_record_batches")
            parts = map(reader.get_batch, range(reader.num_record_batches)) if whole else reader
            yield from skipped((batch.select(list(columns)) for batch in parts), start)
