"""The quality suite's tables as a page, from its CSV files alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from . import held_out, tables
from .problems import CONTROLS, FAMILIES, SYMMETRIC

Row = dict[str, Any]
Key = tuple[str, str, str]

markdown = partial(tables.markdown, digits=".1f")

BASELINE, UNSUPERVISED, LABELLED = "none", "unshift", "unshift, 10 labels"
ALIGNED, AMBIGUOUS = "aligned", "ambiguous"
# Points below the best candidate at which a choice still counts as right.
NEAR = 3.0

HEAD = """# Quality

How well a model that was trained on a source does on a target, over {problems} problems of
{families} families, with target labels used only to score. Made by `python -m bench.quality`; data
that do not ship are left out where they are not there.

{suite}

Every method has the same estimator on top: logistic regression on standardised columns, ridge
regression for numbers. A score is the balanced accuracy × 100 over the classes that the source
knows; for numbers 100 R², not below −100. `none` does without adaptation; where columns do not
correspond it is the source's commonest class or its mean, and fixed strategies, none of which
applies there, stand at it. So does a method that failed or was too large on a problem. ADAPT is
left out: its linear maps (CORAL, TCA, subspace alignment) are here, and it needs tensorflow.

`unshift` is the default of `unshift.align` with source labels only. `unshift, 10 labels` is the
same alignment after `update` with the labels of ten random target rows (at most a third of them),
on which no method is scored.

Families count the same, and within a family its problems. *Harmed* is the share of problems on
which a method does worse than `none` by more than 2 or 5 points, *regret* how far it is from the
best of unshift's candidates in hindsight. Symmetric problems are not scored: there no method can
know.

The choice and its constants were made by hand on problems of our own and on most of this suite, so
that the table is kinder to unshift than other data will be. The last section makes the choice again
with constants that have not seen a family, for four of them.
"""


class Suite:
    """Scores by problem and method, with 'none' where a method has none."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows: dict[Key, dict[str, Row]] = {}
        for row in rows:
            key = row["family"], row["variety"], row["problem"]
            self.rows.setdefault(key, {})[row["method"]] = row
        self.methods = list(dict.fromkeys(m for found in self.rows.values() for m in found))
        self.scored = [key for key in self.rows if key[0] != SYMMETRIC]
        self.families = [name for name in FAMILIES if name in {key[0] for key in self.rows}]

    def number(self, key: Key, method: str, column: str) -> float:
        """A number of the table, NaN where it is empty."""
        text = self.rows[key].get(method, {}).get(column, "")
        return float(text) if text not in ("", None) else float("nan")

    def score(self, key: Key, method: str) -> float:
        own = self.number(key, method, "score")
        return self.number(key, BASELINE, "score") if np.isnan(own) else own

    def gain(self, key: Key, method: str) -> float:
        return self.score(key, method) - self.score(key, BASELINE)

    def regret(self, key: Key, method: str) -> float:
        return self.number(key, UNSUPERVISED, "best_in_hindsight") - self.score(key, method)

    def weighed(self, value: Callable[[Key], float], keys: Sequence[Key] | None = None) -> float:
        """The mean over families of the mean over their problems."""
        groups: dict[str, list[float]] = {}
        for key in self.scored if keys is None else keys:
            groups.setdefault(key[0], []).append(value(key))
        return _mean([_mean(found) for found in groups.values()])


def overall(suite: Suite) -> list[Row]:
    lines = []
    for method in suite.methods:
        gains = [suite.gain(key, method) for key in suite.scored]
        applied = [not np.isnan(suite.number(key, method, "score")) for key in suite.scored]
        seconds = [suite.number(key, method, "seconds") for key in suite.scored]
        lines.append(
            {
                "method": method,
                "mean": suite.weighed(lambda key, m=method: suite.score(key, m)),
                "lowest": min(suite.score(key, method) for key in suite.scored),
                "lowest gain": min(gains),
                "harmed > 2": _share(suite, method, 2.0),
                "harmed > 5": _share(suite, method, 5.0),
                "regret": suite.weighed(lambda key, m=method: suite.regret(key, m)),
                "ran on": f"{sum(applied)}/{len(applied)}",
                "median s": f"{np.nanmedian(seconds):.2g}" if any(applied) else "–",
            }
        )
    best = suite.weighed(lambda key: suite.number(key, UNSUPERVISED, "best_in_hindsight"))
    blank = dict.fromkeys(lines[0], "")
    return [*lines, blank | {"method": "*best candidate in hindsight*", "mean": best}]


def _mean(values: Iterable[float]) -> float:
    """The mean of those that are not NaN."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _share(suite: Suite, method: str, points: float) -> str:
    share = suite.weighed(lambda key: float(suite.gain(key, method) < -points))
    return f"{share:.1%}"


def by_part(suite: Suite, varieties: bool) -> list[Row]:
    """Mean score of each method on each family, or on each variety of those that have several."""
    parts: dict[str, list[Key]] = {}
    for key in suite.scored:
        parts.setdefault(f"{key[0]}: {key[1]}" if varieties else key[0], []).append(key)
    if varieties:
        many = [
            part for part in parts if sum(p.split(":")[0] == part.split(":")[0] for p in parts) > 1
        ]
        parts = {part: parts[part] for part in many}
    lines = []
    for part, keys in parts.items():
        line: Row = {"family" if not varieties else "part": part, "problems": len(keys)}
        for method in suite.methods:
            line[method] = float(np.mean([suite.score(key, method) for key in keys]))
        best = [suite.number(key, UNSUPERVISED, "best_in_hindsight") for key in keys]
        lines.append(line | {"*hindsight*": _mean(best)})
    return lines


def harm_by_family(suite: Suite, method: str) -> list[Row]:
    lines = []
    for family in suite.families:
        keys = [key for key in suite.scored if key[0] == family]
        if not keys:
            continue
        gains = np.array([suite.gain(key, method) for key in keys])
        lines.append(
            {
                "family": family,
                "mean gain": float(gains.mean()),
                "lowest gain": float(gains.min()),
                "harmed > 2": int((gains < -2.0).sum()),
                "harmed > 5": int((gains < -5.0).sum()),
                "mean regret": _mean([suite.regret(key, method) for key in keys]),
                "worst": max(keys, key=lambda key: -suite.gain(key, method))[2],
            }
        )
    return lines


def verdicts(suite: Suite) -> list[Row]:
    """How often each verdict was given, and what it was worth."""
    groups: dict[str, list[Key]] = {}
    for key in suite.scored:
        verdict = suite.rows[key].get(UNSUPERVISED, {}).get("verdict", "")
        groups.setdefault(verdict or "(failed)", []).append(key)
    lines = []
    for verdict, keys in sorted(groups.items(), key=lambda item: -len(item[1])):
        regrets = np.array([suite.regret(key, UNSUPERVISED) for key in keys])
        gains = np.array([suite.gain(key, UNSUPERVISED) for key in keys])
        lines.append(
            {
                "verdict": verdict,
                "problems": len(keys),
                "of families": len({key[0] for key in keys}),
                f"within {NEAR:g} of best": f"{np.mean(regrets <= NEAR):.1%}",
                "mean regret": _mean(regrets),
                "mean gain": float(gains.mean()),
                "harmed > 5": int((gains < -5.0).sum()),
            }
        )
    return lines


def expectations(suite: Suite) -> list[Row]:
    """The accuracy that the alignment says to expect, beside that which came."""
    lines = []
    for family in suite.families:
        pairs = [
            (
                suite.number(key, UNSUPERVISED, "expected"),
                suite.number(key, UNSUPERVISED, "accuracy"),
            )
            for key in suite.scored
            if key[0] == family
        ]
        stated = np.array([pair for pair in pairs if not np.isnan(pair).any()])
        if stated.size:
            gaps = stated[:, 0] - stated[:, 1]
            lines.append(
                {
                    "family": family,
                    "problems": len(stated),
                    "expected": float(stated[:, 0].mean()),
                    "came": float(stated[:, 1].mean()),
                    "mean gap": float(np.abs(gaps).mean()),
                    "expected > 10 too much": f"{np.mean(gaps > 10.0):.1%}",
                }
            )
    return lines


def findings(suite: Suite) -> str:
    """The sentences that say whether what was wanted holds."""
    said = []
    symmetric = [key for key in suite.rows if key[0] == SYMMETRIC]
    given = [suite.rows[key].get(UNSUPERVISED, {}).get("verdict") for key in symmetric]
    if given:
        called = np.mean([verdict == AMBIGUOUS for verdict in given])
        said.append(f"Of {len(given)} symmetric problems {called:.0%} are called ambiguous.")
    losses = [suite.gain(key, UNSUPERVISED) for key in suite.scored if key[0] == CONTROLS]
    if losses:
        said.append(
            f"On {len(losses)} controls unshift gains {np.mean(losses):.2f} points on average, "
            f"{min(losses):.2f} at least."
        )
    for label in ("binary", "multiclass"):
        keys = [k for k in suite.scored if k[1] == "subspace" and k[2].startswith(label)]
        if keys:
            scores = [[suite.score(key, m) for key in keys] for m in (BASELINE, UNSUPERVISED)]
            best = [suite.number(key, UNSUPERVISED, "best_in_hindsight") for key in keys]
            means = [_mean(values) for values in (*scores, best)]
            said.append(
                f"On skada's subspace shift, {label}: "
                "none {:.1f}, unshift {:.1f}, best in hindsight {:.1f}.".format(*means)
            )
    failed = sum(
        str(row.get("note", "")).startswith("failed")
        for found in suite.rows.values()
        for row in found.values()
    )
    said.append(f"Methods failed on a problem {failed} times in all.")
    return "\n".join(f"- {sentence}" for sentence in said)


def constants(candidates: Sequence[Row]) -> str:
    """How the choice's constants do on families that they were not set on."""
    names = ", ".join(held_out.GRID)
    return (
        f"Constants are {names}; families where columns correspond.\n\n"
        + markdown(held_out.left_out(candidates))
        + "\n"
        + markdown(held_out.over_grid(candidates))
    )


def page(rows: Sequence[Row], candidates: Sequence[Row]) -> str:
    """The whole page."""
    from . import problems

    suite = Suite(rows)
    about = str(problems.__doc__).split("\n\n", 1)[1].strip()
    head = HEAD.format(
        problems=len(suite.rows), families=len(suite.families), suite=about.replace("``", "`")
    )
    parts = [
        ("All families", markdown(overall(suite))),
        ("Findings", findings(suite) + "\n"),
        ("Mean score by family", markdown(by_part(suite, varieties=False))),
        ("unshift by family", markdown(harm_by_family(suite, UNSUPERVISED))),
        ("unshift with 10 labels by family", markdown(harm_by_family(suite, LABELLED))),
        ("Mean score by part", markdown(by_part(suite, varieties=True))),
        ("Verdicts of the unsupervised alignment", markdown(verdicts(suite))),
        ("Accuracy to expect", markdown(expectations(suite))),
        ("Constants of the choice, one family left out at a time", constants(candidates)),
    ]
    return head + "".join(f"\n## {title}\n\n{text}" for title, text in parts)
