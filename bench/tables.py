"""Tidy tables, as files, as text, and in marked sections of the documentation's pages."""

import csv
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Row = Mapping[str, Any]

DOCS = Path(__file__).parents[1] / "docs"


def write(rows: Sequence[Row], path: Path) -> None:
    """Rows of equal keys as a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def show(rows: Sequence[Row]) -> None:
    """Rows as a table in columns."""
    text = [list(rows[0])] + [[_cell(value, ".3g") for value in row.values()] for row in rows]
    widths = [max(len(line[i]) for line in text) for i in range(len(text[0]))]
    for line in text:
        print("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip())


def markdown(rows: Sequence[Row], digits: str = ".3g") -> str:
    """Rows of equal keys as a table of a page; ``digits`` is the format of its floats."""
    if not rows:
        return "(nothing to show)\n"
    table = [list(rows[0]), ["---"] * len(rows[0])]
    table += [[_cell(value, digits).strip() for value in row.values()] for row in rows]
    return "".join("| " + " | ".join(row) + " |\n" for row in table)


def put(name: str, text: str, page: Path) -> None:
    """``text`` between the marks ``<!-- name -->`` and ``<!-- end of name -->`` of a page.

    What people wrote around the marks stays. So each benchmark keeps its own section up to date,
    and several share a page.
    """
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, begun, rest = page.read_text("utf-8").partition(first)
    _, ended, after = rest.partition(last)
    if not (begun and ended):
        raise ValueError(
            f"{page.name} has no section {name!r} to put a table into: write the lines "
            f"{first.strip()} and {last} where it should stand, in this order."
        )
    page.write_text(f"{before}{first}\n{text.strip()}\n\n{last}{after}", encoding="utf-8")


def machine() -> str:
    """The processor, how many cores of it may be used, and numpy's version."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores, numpy {np.__version__}"


def _cell(value: Any, digits: str) -> str:
    if isinstance(value, float):
        return "–" if np.isnan(value) else format(value, digits)
    return str(value)
