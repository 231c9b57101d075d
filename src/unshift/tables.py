"""Files of rows: read whole, read in chunks, written whole or not at all. Needs pandas."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._extras import extra

CHUNK_ROWS = 50_000
SEPARATORS = {".csv": ",", ".tsv": "\t"}
PARQUET = ".parquet"


def _separator(path: Path) -> str | None:
    """The separator of a text file, by its name; None for parquet."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    kind = suffixes[-1] if suffixes else ""
    if kind not in SEPARATORS and kind != PARQUET:
        raise ValueError(
            f"{path.name} is of no known kind: expected .csv, .tsv (also with .gz) or .parquet."
        )
    return SEPARATORS.get(kind)


def read(path: Path) -> Any:
    """All rows of a file as a pandas frame."""
    pandas, separator = extra("pandas", "pandas"), _separator(path)
    with _naming(path):
        if separator is None:
            extra("pyarrow", "parquet")
            return pandas.read_parquet(path)
        return pandas.read_csv(path, sep=separator)


def chunks(path: Path) -> Iterator[Any]:
    """The rows of a file as pandas frames of at most ``CHUNK_ROWS`` rows, in order."""
    pandas, separator = extra("pandas", "pandas"), _separator(path)
    with _naming(path):
        if separator is None:
            file = extra("pyarrow.parquet", "parquet").ParquetFile(path)
            yield from (batch.to_pandas() for batch in file.iter_batches(CHUNK_ROWS))
        else:
            with pandas.read_csv(path, sep=separator, chunksize=CHUNK_ROWS) as reader:
                yield from reader


def frame(values: dict[str, Any]) -> Any:
    """A pandas frame of these columns."""
    return extra("pandas", "pandas").DataFrame(values)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put the file's name before what its reader has to say."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path.name} could not be read: {error}") from error


def columns(frame: Any, names: Sequence[str] | None, file: str) -> Any:
    """The named columns, in that order, of a frame that may have others too."""
    if names is None:
        return frame
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise ValueError(
            f"{file} lacks {len(missing)} of the {len(names)} columns that the model knows: "
            f"{', '.join(missing[:5])}."
        )
    return frame[list(names)]


def write(path: Path, frames: Iterator[Any]) -> int:
    """Write frames one after the other, by the file's name; the number of rows.

    The file is there once all is written, and as it was before if something fails.
    """
    separator = _separator(path)
    if separator is None:
        raise ValueError(
            f"{path.name} cannot be written: expected a name that ends in .csv or .tsv."
        )
    # pandas compresses by the end of the name, which must therefore stay
    partial = path.with_name(f"partial-{path.name}")
    rows = 0
    try:
        for frame in frames:
            first = rows == 0
            frame.to_csv(
                partial, sep=separator, index=False, header=first, mode="w" if first else "a"
            )
            rows += len(frame)
        if rows == 0:
            raise ValueError(f"There are no rows to write to {path.name}.")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return rows
