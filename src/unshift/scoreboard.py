"""Rows of the digits' experiments into tables: means, worst cases, pairs harmed, published values.

A pair's accuracy with labels is its mean over the draws; *harmed* pairs lie so many points under
'none', *anti-aligned* ones below one half. ``turned`` is the mean accuracy with anti-aligned pairs
turned round, where ``a`` counts as ``max(a, 1 − a)``.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from .experiments_digits import BEST_START, HINDSIGHT, SHARES, TEN, UNSHIFT
from .protocols import NOTEBOOK, TEXT, TRUE_BALANCE

Row = dict[str, Any]
# network, method, components, labels
Key = tuple[str, str, str, float]

PUBLISHED = "published by the paper's authors"
PAPERS_SHARE = SHARES[-1]
BASELINES = ("mean shift", "location and scale", "CORAL", "POT LinearTransport")


def published_gains() -> list[Row]:
    """The gains over 'none' that the authors printed: ``{pair, labels, gain}``, p = 5."""
    path = resources.files("unshift") / "data" / "published_gains.csv"
    with path.open(encoding="utf-8") as file:
        return [
            {
                "pair": f"{line['digit_a']} {line['digit_b']}",
                "labels": labels,
                "gain": float(line[column]),
            }
            for line in csv.DictReader(file)
            for labels, column in (
                (0.0, "unsupervised_gain"),
                (PAPERS_SHARE, "semi_supervised_gain"),
            )
        ]


class Scores:
    """Accuracies by network, method, components and share of labels: pair -> one for each draw."""

    def __init__(self, accuracies: Iterable[Row]) -> None:
        self.draws: dict[Key, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in accuracies:
            key = (row["network"], row["method"], row["components"], row["labels"])
            self.draws[key][row["pair"]].append(row["accuracy"])

    def networks(self) -> list[str]:
        """In the order of the rows."""
        return list(dict.fromkeys(key[0] for key in self.draws))

    def pairs(self, network: str) -> list[str]:
        """Pairs of digits, without the task of all ten."""
        return [pair for pair in self.draws[(network, "none", "–", 0.0)] if pair != TEN]

    def accuracy(self, key: Key) -> dict[str, float]:
        """Pair -> mean accuracy over the draws, the task of all ten included."""
        return {pair: float(np.mean(draws)) for pair, draws in self.draws.get(key, {}).items()}

    def gain(self, key: Key) -> dict[str, float]:
        """Pair -> accuracy less that of 'none'."""
        none = self.accuracy((key[0], "none", "–", 0.0))
        return {pair: value - none[pair] for pair, value in self.accuracy(key).items()}


def summary_rows(scores: Scores) -> list[Row]:
    """A row for each network, method, dimension and share of labels; the published gains first."""
    rows = [_published(labels) for labels in (0.0, PAPERS_SHARE)]
    for key in scores.draws:
        names = scores.pairs(key[0])
        accuracy, gain = scores.accuracy(key), scores.gain(key)
        values = np.array([accuracy[pair] for pair in names])
        gains = np.array([gain[pair] for pair in names])
        each = np.array([scores.draws[key][pair] for pair in names])
        means = each.mean(axis=0)
        network, method, components, labels = key
        rows.append(
            {
                "network": network,
                "method": method,
                "components": components,
                "labels": labels,
                "pairs": len(names),
                "draws": means.size,
                "mean": float(values.mean()),
                "spread": float(means.std(ddof=1)) if means.size > 1 else float("nan"),
                "lowest": float(values.min()),
                "turned": float(np.maximum(each, 1.0 - each).mean()),
                "anti_aligned": float((each < 0.5).sum(axis=0).mean()),
                "all_ten": accuracy.get(TEN, float("nan")),
                **_of_gains(gains),
                "least_gain_of_a_draw": float((each - (values - gains)[:, None]).min()),
            }
        )
    return rows


def _of_gains(gains: Any) -> Row:
    return {
        "mean_gain": float(gains.mean()),
        "least_gain": float(gains.min()),
        "best_gain": float(gains.max()),
        "worse": int((gains < -1e-9).sum()),
        "harmed_1": int((gains < -0.01 - 1e-9).sum()),
        "harmed_5": int((gains < -0.05 - 1e-9).sum()),
        "harmed_50": int((gains < -0.5).sum()),
    }


def _published(labels: float) -> Row:
    gains = np.array([row["gain"] for row in published_gains() if row["labels"] == labels])
    unknown = float("nan")
    return {
        "network": "the authors' own",
        "method": PUBLISHED,
        "components": "5",
        "labels": labels,
        "pairs": gains.size,
        "draws": 1,
        **dict.fromkeys(("mean", "spread", "lowest", "turned", "anti_aligned", "all_ten"), unknown),
        **_of_gains(gains),
        "least_gain_of_a_draw": unknown,
    }


def find(summary: Sequence[Row], network: str, method: str, components: str, labels: float) -> Row:
    """The one row of these."""
    key = {"network": network, "method": method, "components": components, "labels": labels}
    for row in summary:
        if all(row[name] == value for name, value in key.items()):
            return row
    raise KeyError(f"no row of {key}")


def headline(summary: Sequence[Row], network: str) -> list[Row]:
    """Rows of a network's table in the order to read them, hindsight last."""
    wanted: list[tuple[str, str, float]] = [("none", "–", 0.0)]
    wanted += [(name, "–", 0.0) for name in BASELINES]
    for labels in (0.0, PAPERS_SHARE):
        wanted += [(form.name, p, labels) for form in (TEXT, NOTEBOOK) for p in ("5", "all")]
        wanted.append((UNSHIFT, "auto", labels))
    wanted += [(f"{name}, {TRUE_BALANCE}", "–", 0.0) for name in BASELINES[:2]]
    wanted += [(f"{TEXT.name}, {BEST_START}", p, 0.0) for p in ("5", "all")]
    wanted.append((HINDSIGHT, "auto", 0.0))
    rows = []
    for method, components, labels in wanted:
        try:
            rows.append(find(summary, network, method, components, labels))
        except KeyError:  # POT is not installed
            continue
    return rows


def label_rows(summary: Sequence[Row]) -> list[Row]:
    """Mean accuracy against the share of labels, for what uses them."""
    kept = ("network", "method", "components", "labels", "draws", "mean", "spread", "lowest")
    names = (TEXT.name, NOTEBOOK.name, UNSHIFT)
    return [
        {name: row[name] for name in kept}
        for row in summary
        if row["method"] in names and row["network"] != "the authors' own"
    ]


def row_means(rows: Sequence[Row]) -> list[Row]:
    """The experiment on the number of rows, averaged over its pairs."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[(row["network"], row["components"], row["rows"])].append(row)
    names = ("accuracy", "turned", "best_start", "anti_aligned", "misled", "mmd2", "mmd2_of_best")
    return [
        {"network": network, "components": components, "rows": count, "pairs": len(group)}
        | {name: float(np.mean([row[name] for row in group])) for name in names}
        for (network, components, count), group in groups.items()
    ]
