"""The short answer of a fit in sentences, from the dictionary that its report shows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Labels, at most, that are named as worth having.
NAMED = 5
# Belief that labels should add to be worth asking for where the verdict is not in doubt.
WORTH = 0.02


def answer(shown: Mapping[str, Any], command: str, folder: str) -> list[str]:
    """Verdict, what was done, what to expect and why, and what to do next; a paragraph each."""
    return [
        shown["headline"],
        _done(shown),
        f"What to expect: {_expected(shown)}",
        f"What to do next: {_next(shown, folder)}",
    ]


def reasons(shown: Mapping[str, Any]) -> list[str]:
    """The diagnosis's reasons without what is said to those who write Python."""
    told = (
        re.sub(r"[:;]? see alignment\.[^.]*(?:\.\w[^.]*)*\.$", ".", r) for r in shown["reasons"]
    )
    return list(told)


def _done(shown: Mapping[str, Any]) -> str:
    (m, n), (d, e) = shown["rows"], shown["widths"]
    kind, best = shown["kind"], shown["candidates"][0]
    what = f"{kind}: {best['meaning']}" if best.get("meaning") else kind
    columns = f"{d} columns" if d == e else f"{d} and {e} columns"
    labels = f", {shown['labelled']} of them labelled" if shown["labelled"] else ""
    return (
        f"What was done: {m} source rows and {n} target rows{labels}, {columns}; {what} "
        f"({len(shown['candidates'])} candidates compared)."
    )


def _expected(shown: Mapping[str, Any]) -> str:
    expected = shown["numbers"].get("expected_accuracy")
    best, regression = shown["candidates"][0], shown["task"] == "regression"
    said = []
    if expected is not None and not regression:
        bound = "at most " if shown["verdict"] == "not an affine shift" else ""
        said.append(
            f"{bound}about {expected:.0%} of the predictions should be right, going by how the "
            "candidates that are still believed in agree about the target and by how well the "
            "source's classes are told apart."
        )
    if best["error"] is not None and best["n_labelled"]:
        of = f"the {best['n_labelled']} labelled target rows"
        if regression:
            said.append(f"the mean squared error on {of} is {best['error']:.4g}.")
        else:
            said.append(f"{1 - best['error']:.0%} of {of} are predicted right.")
    elif regression:
        said.append("without labelled target rows the error cannot be told.")
    if not said:
        said.append("nothing in these data tells how accurate the predictions are.")
    moved = [b for b in shown["balance"] if abs(b["target"] - b["source"]) > 0.1]
    if moved:
        shares = ", ".join(
            f"{b['class']} {b['source']:.0%} in the source and {b['target']:.0%} here"
            for b in moved[:3]
        )
        said.append(f"Class shares differ: {shares}.")
    return " ".join(said)


def _next(shown: Mapping[str, Any], folder: str) -> str:
    ambiguous = shown["verdict"] == "ambiguous"
    labelling = shown.get("labelling")
    rows = labelling["rows"][:NAMED] if labelling else []
    if labelling and rows and (ambiguous or labelling["then"] - labelling["now"] > WORTH):
        named = ", ".join(_row(one) for one in rows)
        return (
            f"label these target rows and run fit again: {named}. That should raise the belief in "
            f"the right alignment from {labelling['now']:.0%} to {labelling['then']:.0%}."
        )
    if shown["verdict"] == "too little data":
        return "add rows, or lower --components."
    if shown["verdict"] == "not an affine shift":
        return (
            "label a few target rows to see how far the predictions can be trusted, and compare "
            "with --baseline none."
        )
    return (
        f"read {folder}/report.html, and check a few predictions against the truth; then "
        f"'unshift predict {folder}/model.unshift FILE --out FILE' takes further target files."
    )


def _row(one: Mapping[str, Any]) -> str:
    """A row by its identifiers, or by its number, 1 for the first."""
    ids = one.get("ids") or {}
    if ids:
        return " ".join(f"{name} {value}" for name, value in ids.items())
    return f"row {one['row'] + 1}"
