"""Pages of the paper's experiments: published, the paper's protocol as run here, and unshift."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from .markup import bullets, document, picture, table

Row = Mapping[str, Any]
Pictures = Mapping[str, tuple[bytes, str]]

PROTOCOLS = (
    "Paper, its text: 8 seed points (I, −I, random rotations and reflections), the lowest MMD² "
    "with σ² = 2; with labels the seed point of the lowest error. Moments from all of MNIST's "
    "training rows, MMD² on 2,000 of them.",
    "Paper, its notebook: one start at I; with labels the best of I, −I and 'none'. σ² = 1, "
    "moments of MNIST from its test rows, as the authors' published code has it.",
    "The signs of eigenvectors are arbitrary, so a start at I is a different one in every "
    "implementation: single pairs cannot be expected to come out as published.",
    "unshift: align(X_source, X_target, y_source, random_state=0), nothing else set. With labels, "
    "the same alignment told of them by update().",
    "Labels are drawn from USPS's training rows, as many as 10 % of the test rows, and all methods "
    "are given the same ones. All accuracies are those of USPS's 2,007 test rows.",
    "The authors' logistic regression had no penalty, for which separable pairs have no solution; "
    "here it has scikit-learn's default, C = 1, and has converged.",
    "CORAL matches means too, without which it does worse; POT LinearTransport has reg = 0.01, "
    "since its default ends in NaN where units are dead.",
)


def digits(result: Mapping[str, Any], pictures: Pictures) -> str:
    """The page of section 4.2; ``pictures`` by name, "maps NETWORK" and so on."""
    parts = [
        "<h1>Digits, MNIST to USPS: the paper's section 4.2</h1>",
        _soft(
            f"45 pairs of digits, {len(result['networks'])} network(s), one logistic regression "
            f"for all rows ({result['solver']}), trained on mapped MNIST rows."
        ),
        "<h2>Wanted and reached</h2>",
        _wanted(result["wanted"]),
    ]
    for network in result["networks"]:
        parts += _network(network, result, pictures)
    parts += [
        "<h2>How it was run</h2>",
        bullets(PROTOCOLS + tuple(result["notes"])),
        _repeat(result),
    ]
    return document("digits", parts)


def _network(network: str, result: Mapping[str, Any], pictures: Pictures) -> list[str]:
    headline = result["headlines"][network]
    return [
        f"<h2>Network {escape(network)}</h2>",
        _soft(result["trained"][network]),
        _headline(headline),
        picture("Figure 6: p = 5", pictures.get(f"figure 6 {network}")),
        picture("Figure 6 as published", pictures.get(f"published {network}")),
        picture(
            "Figures 7 and 8: p = all positive eigenvalues",
            pictures.get(f"figures 7 and 8 {network}"),
        ),
        picture("unshift's default", pictures.get(f"default {network}")),
        "<h3>Labels</h3>",
        picture("", pictures.get(f"labels {network}")),
        _labels([row for row in result["labels"] if row["network"] == network]),
        "<h3>Rows and dimensions</h3>",
        picture("", pictures.get(f"rows {network}")),
        "<h3>The paper's claims</h3>",
        _claims(result["claims"][network]),
    ]


def _headline(rows: Sequence[Row]) -> str:
    head = (
        *("Method", "p", "Labels", "Mean", "Lowest", "Gain", "Least", "Most"),
        *("Worse", ">1", ">5", "Anti", "All ten"),
    )
    lines = [
        (
            row["method"],
            row["components"],
            _share(row["labels"]),
            _spread(row),
            _number(row["lowest"]),
            _points(row["mean_gain"]),
            _points(row["least_gain"]),
            _points(row["best_gain"]),
            str(row["worse"]),
            str(row["harmed_1"]),
            str(row["harmed_5"]),
            f"{row['anti_aligned']:.2g}",
            _number(row["all_ten"]),
        )
        for row in rows
    ]
    words = (
        "Mean and lowest accuracy of the pairs, ± one standard deviation of the mean over the "
        "draws of labels. Mean, least and most gain in points over 'none'; worse, >1 and >5 count "
        "pairs so many points under 'none', by their mean over the draws; anti those anti-aligned, "
        "below one half. 'All ten' is the task of ten classes, which the paper left out. Rows in "
        "hindsight look at the test labels."
    )
    return table(head, lines) + _soft(words)


def _share(labels: float) -> str:
    return f"{labels:.0%}" if labels else "none"


def _spread(row: Row) -> str:
    """A mean, with its spread over draws of labels where there are several."""
    mean = _number(row["mean"])
    return mean if math.isnan(row["spread"]) else f"{mean} ± {row['spread']:.3f}"


def _labels(rows: Sequence[Row]) -> str:
    shares = sorted({row["labels"] for row in rows if row["labels"]})
    names = list(dict.fromkeys((row["method"], row["components"]) for row in rows))
    at = {(row["method"], row["components"], row["labels"]): row for row in rows}
    lines = [
        (f"{name[0]}, p = {name[1]}", *(_spread(at[(*name, share)]) for share in shares))
        for name in names
        if (*name, shares[-1]) in at
    ]
    return table(("Mean accuracy", *(f"{share:.0%} labelled" for share in shares)), lines)


def _wanted(rows: Sequence[Row]) -> str:
    lines = [
        (
            row["wanted"],
            row["network"],
            _limit(row["limit"]),
            _limit(row["reached"]),
            "reached" if row["short"] <= 0 else f"short by {_limit(row['short'])}",
        )
        for row in rows
    ]
    return table(("Wanted of unshift's default", "Network", "Limit", "Got", ""), lines)


def _limit(value: float) -> str:
    """A share with three digits, a whole number as such."""
    return f"{value:.0f}" if value == round(value) else f"{value:.3f}"


def _claims(rows: Sequence[Row]) -> str:
    body = "\n".join(
        f"<li><p><strong>{escape(row['claim'])}</strong> {escape(row['verdict'].capitalize())}.<br>"
        f"Published: {escape(row['published'])}.<br>Here: {escape(row['found'])}.</p></li>"
        for row in rows
    )
    return f"<ol>\n{body}\n</ol>"


def simulated(result: Mapping[str, Any], pictures: Pictures) -> str:
    """The page of section 4.1."""
    seeds = result["starts"][0]["seeds"]
    parts = [
        "<h1>Simulated data: the paper's section 4.1</h1>",
        _soft(
            "A mixture of two Gaussians in two dimensions, seen through two random 5 × 2 maps, 300 "
            "rows a domain; σ² = 2."
        ),
        picture("Figure 2: one boundary, before and after", pictures.get("boundary")),
        picture("Figure 3: an anti-alignment", pictures.get("anti")),
        picture("Figure 4: without and with the rotation", pictures.get("rotation")),
        picture("Figure 5: MMD² over the angle", pictures.get("landscape")),
        f"<p>{len(result['minima'])} local minima (published: 4).</p>",
        _restarts("Local minimum", result["minima"]),
        "<h2>Restarts from eight seed points</h2>",
        _restarts("Seed point", result["restarts"]),
        f"<h2>What each start finds, on {seeds} mixtures</h2>",
        picture("", pictures.get("starts")),
        _starts(result["starts"]),
        "<h2>The paper's claims</h2>",
        _claims(result["claims"]),
        _repeat(result),
    ]
    return document("simulated data", parts)


def _restarts(name: str, rows: Sequence[Row]) -> str:
    head = (name, "Ends at", "MMD²", "Accuracy", "The true maps' rotation")
    lines = [
        (
            str(row.get("from", i + 1)),
            f"{row['component']} by {row['degrees']:.0f}°",
            f"{row['mmd2']:.5f}",
            f"{row['accuracy']:.1%}",
            "yes" if row["right"] else "no",
        )
        for i, row in enumerate(rows)
    ]
    return table(head, lines)


def _starts(rows: Sequence[Row]) -> str:
    head = (
        *("Start", "Finds the lowest", "Which is the right one", "Finds the right one"),
        *("Accuracy", "Anti-aligned"),
    )
    lines = [
        (
            row["start"],
            f"{row['global']:.1%}",
            "–" if math.isnan(row["right_if_global"]) else f"{row['right_if_global']:.1%}",
            f"{row['right']:.1%}",
            _number(row["accuracy"]),
            f"{row['anti_aligned']:.1%}",
        )
        for row in rows
    ]
    words = (
        "Lowest is the lowest of all local minima, right the rotation of the true maps. The signs "
        "of eigenvectors are set here so that their largest entry is positive; the maps have "
        "positive entries, which makes I a better start than any other by itself."
    )
    return table(head, lines) + _soft(words)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _points(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:+.1f}"  # + 0.0: no minus before a zero


def _soft(text: str) -> str:
    return f'<p class="soft">{escape(text)}</p>'


def _repeat(result: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    command = f"<p>Made by <code>{escape(result['command'])}</code>"
    return f"<h2>To repeat it</h2>\n{command} in {result['seconds']:.0f} s; {escape(versions)}.</p>"
