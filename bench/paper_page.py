"""docs/paper.md from the tables that the reproduction wrote: each section between its marks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image

from unshift.claims import CONFIRMED
from unshift.datasets import digits_networks
from unshift.experiments_digits import HINDSIGHT, TEN, UNSHIFT
from unshift.protocols import NOTEBOOK, TEXT
from unshift.scoreboard import PAPERS_SHARE, PUBLISHED, headline

from .tables import DOCS, Row, machine, markdown, put

SIMULATED, DIGITS, OTHERS = "paper_simulated", "paper_digits", "paper_digits_others"
TIMES = "paper_times.csv"
PAPERS = "paper"
# Points under 'none', or under the best candidate, from which a pair is listed.
LISTED = 5.0
# Pictures of the page: the folder, its file there, and its name in docs.
PICTURES = (
    (SIMULATED, "landscape.png", "paper_landscape.png"),
    (DIGITS, "figure_6_paper.png", "paper_figure_6.png"),
    (DIGITS, "default_paper.png", "paper_default.png"),
    (DIGITS, "labels_paper.png", "paper_labels.png"),
    (DIGITS, "rows_paper.png", "paper_rows.png"),
)
COLOURS = 64


def write_page(out_dir: Path, docs: Path = DOCS) -> None:
    """Fill the sections of docs/paper.md, and put its pictures beside it."""
    page = docs / "paper.md"
    for name, text in sections(out_dir).items():
        put(name, text, page)
    for folder, file, name in PICTURES:
        # a palette of few colours: these are charts, and a checkout should stay small
        picture = Image.open(out_dir / folder / file).convert("RGB")
        picture.quantize(COLOURS, dither=Image.Dither.NONE).save(docs / name, optimize=True)


def sections(out_dir: Path) -> dict[str, str]:
    """The text of each section."""
    summary = _both(out_dir, "summary")
    networks = list(dict.fromkeys(row["network"] for row in _both(out_dir, "wanted")))
    return {
        "times": times(out_dir),
        "wanted": wanted(_both(out_dir, "wanted")),
        "published": published(summary),
        **{f"network {name}": network(summary, name) for name in networks},
        "pairs": pairs(_both(out_dir, "accuracies")),
        "labels": labels(summary, networks),
        "rows": rows_of(_both(out_dir, "rows_summary")),
        "claims": claims(_both(out_dir, "claims"), networks),
        "networks": trained(networks),
        "starts": starts(_read(out_dir / SIMULATED / "starts_summary.csv")),
        "minima": minima(_read(out_dir / SIMULATED / "minima.csv")),
        "restarts": minima(_read(out_dir / SIMULATED / "restarts.csv")),
        "simulated claims": told(_read(out_dir / SIMULATED / "claims.csv")),
    }


def _read(path: Path) -> list[Row]:
    rows: list[Row] = pd.read_csv(path, keep_default_na=False, na_values=[""]).to_dict("records")
    return rows


def _both(out_dir: Path, name: str) -> list[Row]:
    """A table of the paper's network and, where they were run, of the others."""
    files = [out_dir / folder / f"{name}.csv" for folder in (DIGITS, OTHERS)]
    return [row for file in files if file.exists() for row in _read(file)]


def times(out_dir: Path) -> str:
    lines = [
        {
            "command": f"`{row['command']}`",
            "seconds": f"{row['seconds']:.0f}",
            "processor seconds": f"{row['processor seconds']:.0f}",
        }
        for row in _read(out_dir / TIMES)
    ]
    return f"{markdown(lines)}\n{machine()}."


def wanted(rows: Sequence[Row]) -> str:
    lines = [
        {
            "network": row["network"],
            "wanted of the default": row["wanted"],
            "limit": _number(row["limit"]),
            "reached": _number(row["reached"]),
            "short by": _number(row["short"]) if row["short"] > 0 else "–",
        }
        for row in rows
    ]
    return markdown(lines)


def published(summary: Sequence[Row]) -> str:
    """The gains as printed beside those of the same protocol on our network, p = 5."""
    lines = []
    for labels_ in (0.0, PAPERS_SHARE):
        for method in (PUBLISHED, NOTEBOOK.name, TEXT.name):
            own = "the authors' own" if method == PUBLISHED else PAPERS
            row = _find(summary, own, method, "5", labels_)
            lines.append(
                {
                    "labels": _share(labels_),
                    "method": method,
                    **_gains(row),
                    "> 50": str(row["harmed_50"]),
                }
            )
    return markdown(lines)


def network(summary: Sequence[Row], name: str) -> str:
    lines = [
        {
            "method": row["method"],
            "p": row["components"],
            "labels": _share(row["labels"]),
            "mean": _spread(row),
            "lowest": _number(row["lowest"]),
            **_gains(row),
            "anti-aligned": f"{row['anti_aligned']:.2g}",
            "all ten": _number(row["all_ten"]),
        }
        for row in headline(summary, name)
    ]
    return markdown(lines)


def _gains(row: Row) -> dict[str, str]:
    return {
        "mean gain": _points(row["mean_gain"]),
        "worst": _points(row["least_gain"]),
        "best": _points(row["best_gain"]),
        "worse": str(row["worse"]),
        "> 1": str(row["harmed_1"]),
        "> 5": str(row["harmed_5"]),
    }


def pairs(accuracies: Sequence[Row]) -> str:
    """Pairs on which the default without labels is far under 'none' or its best candidate."""
    frame = pd.DataFrame(accuracies)
    frame = frame[frame["pair"] != TEN]
    lines = []
    for (name, pair), of_it in frame.groupby(["network", "pair"], sort=False):
        blind = of_it[of_it["labels"] == 0].set_index("method")
        none, own, best = (blind.loc[method] for method in ("none", UNSHIFT, HINDSIGHT))
        told_ = of_it[(of_it["method"] == UNSHIFT) & (of_it["labels"] == PAPERS_SHARE)]
        behind = max(none["accuracy"], best["accuracy"]) - own["accuracy"]
        if 100 * behind <= LISTED:
            continue
        lines.append(
            {
                "network": name,
                "pair": pair,
                "none": _number(none["accuracy"]),
                "default": _number(own["accuracy"]),
                "it chose": own["chosen"],
                "with 10 % labels": _number(told_["accuracy"].mean()),
                "best candidate": _number(best["accuracy"]),
                "which was": best["chosen"],
            }
        )
    lines.sort(key=lambda line: float(line["default"]) - float(line["best candidate"]))
    return markdown(lines)


def labels(summary: Sequence[Row], networks: Sequence[str]) -> str:
    lines = []
    for name in networks:
        for method, p in ((TEXT.name, "5"), (NOTEBOOK.name, "5"), (UNSHIFT, "auto")):
            of_it = [r for r in summary if (r["network"], r["method"]) == (name, method)]
            of_it = sorted((r for r in of_it if r["components"] == p), key=lambda r: r["labels"])
            means = {_share(row["labels"]): _spread(row) for row in of_it}
            lines.append({"network": name, "method": method, "p": p, **means})
    return markdown(lines)


def rows_of(rows: Sequence[Row]) -> str:
    lines: dict[tuple[str, int], dict[str, str]] = {}
    for row in rows:
        p = row["components"]
        line = lines.setdefault(
            (row["network"], row["rows"]),
            {"network": row["network"], "rows a side": str(row["rows"])},
        )
        line |= {
            f"p = {p}": _number(row["turned"]),
            f"best minimum, p = {p}": _number(row["best_start"]),
            f"misled, p = {p}": f"{row['misled']:.0%}",
        }
    return markdown(list(lines.values()))


def claims(rows: Sequence[Row], networks: Sequence[str]) -> str:
    """The numbers on the paper's network, then the verdicts on all of them."""
    verdicts = [
        {"claim": claim} | {row["network"]: row["verdict"] for row in rows if row["claim"] == claim}
        for claim in dict.fromkeys(row["claim"] for row in rows)
    ]
    own = told([row for row in rows if row["network"] == PAPERS])
    return f"{own}\n{markdown(verdicts)}" if len(networks) > 1 else own


def told(rows: Sequence[Row]) -> str:
    return "\n".join(
        f"{i}. **{row['claim']}** {_sentence(row['verdict'])}\n"
        f"   Published: {row['published']}. Here: {row['found']}.\n"
        for i, row in enumerate(rows, 1)
    )


def _sentence(verdict: str) -> str:
    mark = "" if verdict == CONFIRMED else "*"
    return f"{mark}{verdict.capitalize()}.{mark}"


def trained(networks: Sequence[str]) -> str:
    lines = []
    for name, entry in digits_networks().items():
        if name not in networks:
            continue
        recipe, ranks = entry["recipe"], entry["positive_eigenvalues"]
        lines.append(
            {
                "network": name,
                "kind": recipe["architecture"].upper(),
                "learning rate": f"{recipe['learning_rate']:g}",
                "epochs": str(recipe["epochs"]),
                "seed": str(recipe["seed"]),
                "MNIST test": _number(entry["accuracy"]["mnist_test"]),
                "USPS test": _number(entry["accuracy"]["usps_test"]),
                "positive eigenvalues": f"{ranks['mnist_train']} and {ranks['usps_test']} of 20",
            }
        )
    return markdown(lines)


def starts(rows: Sequence[Row]) -> str:
    lines = [
        {
            "start": row["start"],
            "finds the lowest": f"{row['global']:.1%}",
            "which is the right one": f"{row['right_if_global']:.1%}",
            "finds the right one": f"{row['right']:.1%}",
            "accuracy": _number(row["accuracy"]),
            "anti-aligned": f"{row['anti_aligned']:.1%}",
        }
        for row in rows
    ]
    return f"{markdown(lines)}\nOn {rows[0]['seeds']} mixtures."


def minima(rows: Sequence[Row]) -> str:
    lines = [
        {
            **({"from": row["from"]} if "from" in row else {}),
            "ends at": f"{row['component']} by {row['degrees']:.0f}°",
            "MMD²": f"{row['mmd2']:.5f}",
            "accuracy": f"{row['accuracy']:.1%}",
            "the true maps' rotation": "yes" if row["right"] else "no",
        }
        for row in rows
    ]
    return markdown(lines)


def _find(summary: Sequence[Row], *key: Any) -> Row:
    names = ("network", "method", "components", "labels")
    return next(row for row in summary if tuple(row[name] for name in names) == key)


def _share(labels_: float) -> str:
    return f"{labels_:.0%}" if labels_ else "none"


def _spread(row: Row) -> str:
    mean = _number(row["mean"])
    return mean if row["spread"] != row["spread"] else f"{mean} ± {row['spread']:.3f}"


def _number(value: float) -> str:
    if value != value:
        return "–"
    return f"{value:.0f}" if value == round(value) and value != 1 else f"{value:.3f}"


def _points(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:+.1f}"
