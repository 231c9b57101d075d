"""The search's page of the documentation, from the tables of its benchmarks alone."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import planted_peers
from .quality_page import markdown

Row = dict[str, Any]
PAGE = Path(__file__).resolve().parents[1] / "docs" / "search.md"
OURS, SOLVED = "unshift", 0.02
GROUPS = (("p <= 5", (2, 3, 5)), ("p = 8, 12", (8, 12)), ("p = 20", (20,)))

HEAD = """# The search

MMD² over O(p) has many local minima. How the search looks for the lowest, how often it finds a
planted map, beside peers in the same run, and what it does on the paper's task. The tables are made
by `python -m bench --only planted --only paper_task`; data that do not ship are left out where they
are not there.

## How it goes

- **Starts** are of these kinds: rotations in closed form from invariants of the rows (what a row's
  length and surroundings say of its coordinates is the same in both domains but for the rotation);
  random ones in both components of O(p); the paper's +I and −I; the anchor where columns
  correspond; the rotation of the class means where target labels are known. For p <= 2 both
  components are scanned instead.
- **Descents** are of the exact MMD² of up to 1,500 rows a domain, by Algorithm 1 with a line search
  and the curvature of past steps. In the same time they lead further than descents of the spectral
  form (*restarts* below): a block of the kernel costs less than the frequencies that many
  dimensions ask for.
- **Moves** lead from the best minimum of a round to others that a descent does not reach:
  reflections of one direction or two, and turns among the directions that predict each other least.
- **Effort**: a round draws four starts and some random ones, and looks at no other round. The
  search is sure, and stops, when three starts have met at the best minimum, at once or by moves;
  every `Found.starts` says how many did. `n_starts` asks for a number of starts instead, 0 for the
  given ones alone. A callback is told of the progress, and an interrupt keeps the best so far.
- **At the end** the best minima are polished on all rows that the search was given.
- **Workers** are joblib's: threads, or whatever `joblib.parallel_config` names; the bits are the
  same.

"""

RECOVERY = """## Planted recovery

Half of a real data set is the source, the other half the target. Both are reduced to p columns by
one PCA; the target then goes through a random invertible p × p map of condition up to 100 and a
shift. There are no labels, and columns do not correspond. A logistic regression of the whitened
source predicts the target.

*Solved*: under 2 % of these predictions differ from those under the *true minimum*, where a descent
of the exact MMD² ends that starts at the planted map. *Lower*: not solved, and the map found has a
lower exact MMD² than the true minimum; at this number of rows the objective itself prefers another
map, and no search that minimises it can tell. *Missed*: neither. *Exact* is the harder reading:
under 2 % differ from the predictions under the exact inverse of the planted map. Two finite halves
whiten differently, so that even the true minimum seldom meets it: *truth's own* counts how often
it does, and *noise* is the mean share of predictions in which the true minimum differs from the
exact inverse. Seconds are those of the clock on two cores, of the search alone.

"""

PEERS = """## Peers

{about}

The first {seeds} seeds of each data set and dimension, all methods on the same problems; `unshift`
is the same search as above on those seeds. A peer runs on one core, beside another run.

"""


def read(path: Path) -> list[Row]:
    """Rows of a table; none where it was not made."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(out_dir: Path) -> None:
    """The page, of whatever tables there are."""
    planted, task = read(out_dir / "planted.csv"), read(out_dir / "paper_task.csv")
    text = HEAD
    if planted:
        text += RECOVERY + recovery(planted) + "\n" + peers(planted)
    if task:
        text += "\n" + paper_task(task)
    PAGE.write_text(text, encoding="utf-8")


def recovery(rows: Sequence[Row]) -> str:
    """Ours by groups of dimensions, by data set and dimension, and on to more dimensions."""
    own = [row for row in rows if row["method"] == OURS]
    lines = []
    for title, dimensions in GROUPS:
        found = [row for row in own if int(row["p"]) in dimensions]
        if found:
            some = [row for row in found if int(row["rows"]) >= 500]
            lines.append({"dimensions": title, "rows a side": "all"} | _counts(found))
            lines.append({"dimensions": title, "rows a side": "500 and more"} | _counts(some))
    most = max(p for _, dimensions in GROUPS for p in dimensions)
    parts = {
        "by data set": lambda p: p <= most,
        f"on to more dimensions than {most}": lambda p: p > most,
    }
    text = markdown(lines)
    for title, holds in parts.items():
        table = _by_problem(own, holds)
        if table:
            text += f"\n### {title.capitalize()}\n\n" + markdown(table)
    return text


def _by_problem(own: Sequence[Row], holds: Callable[[int], bool]) -> list[Row]:
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in own:
        if holds(int(row["p"])):
            groups.setdefault((row["name"], int(row["p"])), []).append(row)
    return [
        {"data": name, "rows a side": found[0]["rows"], "p": p} | _counts(found)
        for (name, p), found in groups.items()
    ]


def _counts(rows: Sequence[Row]) -> Row:
    if not rows:
        return dict.fromkeys(("solved", "lower", "missed", "exact", "truth's own"), "–")
    solved, lower = (sum(row[k] == "True" for row in rows) for k in ("solved", "lower"))
    floor, exact = (np.array([float(row[k]) for row in rows]) for k in ("floor", "differ_map"))
    seconds = np.array([float(row["seconds"]) for row in rows])
    return {
        "solved": f"{solved}/{len(rows)} ({solved / len(rows):.0%})",
        "lower": lower,
        "missed": len(rows) - solved - lower,
        "exact": int((exact < SOLVED).sum()),
        "truth's own": int((floor < SOLVED).sum()),
        "noise": f"{floor.mean():.1%}",
        "median s": f"{np.median(seconds):.2g}",
        "slowest s": f"{seconds.max():.2g}",
    }


def peers(rows: Sequence[Row]) -> str:
    """Solved by method and group of dimensions, on the problems that peers had."""
    shared = {_problem(row) for row in rows if row["method"] != OURS}
    if not shared:
        return ""
    some = [row for row in rows if _problem(row) in shared]
    lines = []
    for method in dict.fromkeys(row["method"] for row in some):
        own = [row for row in some if row["method"] == method]
        line: Row = {"method": method}
        for title, dimensions in GROUPS:
            found = [row for row in own if int(row["p"]) in dimensions]
            if found:
                solved = sum(row["solved"] == "True" for row in found)
                line[f"solved, {title}"] = f"{solved}/{len(found)}"
        reached = np.mean([float(row["mmd2"]) / float(row["mmd2_true"]) for row in own])
        line["mean MMD² / true"] = f"{reached:.2f}"
        line["mean s"] = f"{np.mean([float(row['seconds']) for row in own]):.2g}"
        lines.append(line)
    about = str(planted_peers.__doc__).split("\n\n", 1)[1].strip()
    seeds = len({row["seed"] for row in some})
    return PEERS.format(about=about, seeds=seeds) + markdown(lines)


def _problem(row: Row) -> tuple[str, str, str]:
    return row["name"], row["p"], row["seed"]


def paper_task(rows: Sequence[Row]) -> str:
    from . import paper_task

    about = str(paper_task.__doc__).split("\n\n", 1)[1].strip()
    table = [
        {
            "pair": row["pair"],
            "unshift": f"{float(row['ours']):.6f}",
            "Algorithm 1": f"{float(row['reference']):.6f}",
            "unshift, s": f"{float(row['ours, s']):.3f}",
            "plain loop, s": f"{float(row['reference, s']):.1f}" if row["reference, s"] else "",
        }
        for row in rows
    ]
    found = paper_task.verdict(rows)
    return f"## The paper's task\n\n{about}\n\n{found}\n\n" + markdown(table)
