"""Would other constants have chosen better, and do constants carry over to families not seen?

The suite stores every candidate's misfit, freedom and score. The choice among them is made again
with other constants, by the package's own formula, and scored; the constants that do best on all
families but one are then tried on that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from unshift import choice

from .problems import SYMMETRIC

Row = dict[str, Any]
Setting = tuple[float, ...]

TEXT = ("family", "variety", "problem", "kind")
GRID = {
    "INFORMATION": (0.1, 0.2, 0.3),
    "STEP": (0.01, 0.02, 0.03),
    "STAY": (0.0, 0.1),
    "BLOWN_UP": (0.0, 0.1),
}


def shipped() -> Setting:
    return tuple(getattr(choice, name) for name in GRID)


def settings() -> list[Setting]:
    """The grid, the shipped constants first: ties go to them."""
    return list(dict.fromkeys([shipped(), *product(*GRID.values())]))


def grouped(rows: Sequence[Row]) -> dict[str, list[list[SimpleNamespace]]]:
    """Candidates by family and problem, where columns correspond: only there constants matter."""
    found: dict[tuple[str, str, str], list[SimpleNamespace]] = {}
    for row in rows:
        if row["family"] == SYMMETRIC or int(row["corresponds"]) != 1:
            continue
        key = row["family"], row["variety"], row["problem"]
        numbers = {name: float(value) for name, value in row.items() if name not in TEXT}
        # one number stands for the balance: its distance from the source's, which is then 0
        balance = (2.0 * numbers["moved"],)
        candidate = SimpleNamespace(kind=row["kind"], balance=balance, **numbers)
        candidate.unbound = bool(numbers["unbound"])
        anchored = row["kind"].startswith(choice.ANCHOR)
        candidate.rotation = row["kind"] if anchored or candidate.unbound else None
        found.setdefault(key, []).append(candidate)
    families: dict[str, list[list[SimpleNamespace]]] = {}
    for key, candidates in found.items():
        families.setdefault(key[0], []).append(candidates)
    return families


def chosen(candidates: list[SimpleNamespace], setting: Setting) -> SimpleNamespace:
    """The first by credit under other constants, ties as the package breaks them."""
    with mock.patch.multiple(choice, **dict(zip(GRID, setting, strict=True))):
        task = "regression" if np.isnan(candidates[0].accuracy) else "classification"
        source = np.zeros(1)
        credit = choice.concord_scores(candidates, candidates[0].rows, task, source)  # type: ignore[arg-type]
    order = zip(credit, candidates, strict=True)
    return min(order, key=lambda item: (-item[0], item[1].displacement, item[1].mmd2))[1]


def outcome(problems: list[list[SimpleNamespace]], setting: Setting) -> tuple[float, float]:
    """Mean score of a family's problems, and the share harmed by more than 5 points."""
    scores, harmed = [], []
    for candidates in problems:
        score = chosen(candidates, setting).score
        none = next((c.score for c in candidates if c.kind == choice.NO_ADAPTATION), score)
        scores.append(score)
        harmed.append(score < none - 5.0)
    return float(np.mean(scores)), float(np.mean(harmed))


def left_out(rows: Sequence[Row]) -> list[Row]:
    """For each family its score with the constants that are best on the others."""
    families = grouped(rows)
    results = {s: {name: outcome(p, s) for name, p in families.items()} for s in settings()}

    def best(names: Sequence[str]) -> Setting:
        return max(results, key=lambda s: round(np.mean([results[s][n][0] for n in names]), 6))

    lines = []
    for family in families:
        others = [name for name in families if name != family]
        setting = best(others) if others else shipped()
        scores = {s: results[s][family] for s in (shipped(), setting, best([family]))}
        lines.append(
            {
                "family left out": family,
                "problems": len(families[family]),
                "constants of the others": _named(setting),
                "score with them": scores[setting][0],
                "as shipped": scores[shipped()][0],
                "best of the grid": scores[best([family])][0],
                "harmed > 5 with them": f"{scores[setting][1]:.1%}",
                "as shipped ": f"{scores[shipped()][1]:.1%}",
            }
        )
    return lines


def over_grid(rows: Sequence[Row]) -> list[Row]:
    """Every setting over all families, each counting the same."""
    families = grouped(rows)
    lines = []
    for setting in settings():
        results = [outcome(problems, setting) for problems in families.values()]
        named = _named(setting) + (" (shipped)" if setting == shipped() else "")
        mean, harmed = np.mean(results, axis=0) if results else (np.nan, np.nan)
        lines.append({"constants": named, "mean": f"{mean:.2f}", "harmed > 5": f"{harmed:.1%}"})
    return lines


def _named(setting: Setting) -> str:
    return ", ".join(f"{value:g}" for value in setting)
