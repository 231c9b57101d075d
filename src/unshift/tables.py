"""Files of rows: what kind each is, by its name; small tables of results written as CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from .table_arrays import hdf5_table, npy_table, npz_table
from .table_base import Table
from .table_binary import ArrowTable, ParquetTable
from .table_text import TextFormat, TextTable

# Endings of names, and the format that each stands for.
FORMATS = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".npy": "npy",
    ".npz": "npz",
    ".h5ad": "hdf5",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
}
KNOWN = ".csv, .tsv (also with .gz), .parquet, .arrow, .feather, .npy, .npz, .h5ad or .h5"
TEXTS = ("csv", "tsv")
PIPES = (*TEXTS, "arrow")
STANDARD = "-"


def format_of(path: Path | str, asked: str | None = None) -> str:
    """The format of a file, as asked or by the end of its name."""
    if asked is not None:
        return asked
    name = str(path).lower()
    for ending, kind in FORMATS.items():
        if name.endswith(ending) or (kind in TEXTS and name.endswith(f"{ending}.gz")):
            return kind
    if str(path) == STANDARD:
        return "csv"
    raise ValueError(
        f"{Path(path).name} is of no known kind: expected a name that ends in {KNOWN}, or --format."
    )


def open_table(path: Path | str, asked: str | None = None, text: TextFormat | None = None) -> Table:
    """The table in a file, or in standard input where the path is '-'."""
    kind = format_of(path, asked)
    text = text or TextFormat()
    if kind == "tsv" and text.separator is None:
        text = TextFormat("\t", text.decimal, text.encoding)
    source: Path | IO[bytes] = Path(path)
    name = Path(path).name
    if str(path) == STANDARD:
        name, source = "standard input", sys.stdin.buffer
        if kind not in PIPES:
            raise ValueError(
                f"Standard input can be {', '.join(PIPES)}, which are read from the front; {kind} "
                "cannot. Save it to a file."
            )
    elif Path(path).is_dir():
        raise ValueError(f"{name} is a folder: expected a file that ends in {KNOWN}.")
    if kind in TEXTS:
        return TextTable(source, name, text)
    if kind == "parquet":
        return ParquetTable(source, name)
    if kind == "arrow":
        return ArrowTable(source, name)
    arrays = {"npy": npy_table, "npz": npz_table, "hdf5": hdf5_table}
    return arrays[kind](Path(path), name)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of equal keys as a CSV file, with empty cells for NaN."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: None if v != v else v for k, v in row.items()})
