"""Tidy tables, as files and as text."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


def write(rows: Sequence[Row], path: Path) -> None:
    """Rows of equal keys as a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def show(rows: Sequence[Row]) -> None:
    """Rows as a table in columns."""
    text = [list(rows[0])] + [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(len(line[i]) for line in text) for i in range(len(text[0]))]
    for line in text:
        print("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
