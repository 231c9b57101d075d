"""The picture of a report: both domains before and after, its legend, controls and data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from . import svg
from .markup import Html, data_block, paragraph, table, text

Array = npt.NDArray[Any]

SIDES = ("source", "target")
# Characters of an identifier that are told with its row.
LONGEST = 80


def stage(fitted: Mapping[str, Any]) -> Html:
    """The picture of the candidate in force, and all that the script needs to show the others."""
    picture = fitted["picture"]
    styles = Styles(picture, fitted["label"])
    frames = [_frames(plane) for plane in picture["planes"]]
    views = [
        _view(fitted, styles, i, plane, frames[i]) for i, plane in enumerate(picture["planes"])
    ]
    m, n = fitted["rows"]
    shown = [len(picture[side]["rows"]) for side in SIDES]
    caption = (
        f"Source rows are hollow, target rows filled; colour and shape give {fitted['label']}, "
        "for target rows as predicted. "
        f"Shown are {shown[0]:,} of {m:,} source rows and {shown[1]:,} of {n:,} target rows, "
        "in the source's whitened space."
    )
    return Html(
        f'<svg class="defs" aria-hidden="true"><defs>{svg.SHAPES}</defs></svg>\n'
        f"<figure id=stage>\n{_controls(fitted)}\n{styles.legend(picture)}\n"
        f"{''.join(views)}\n<figcaption>{text(caption)}</figcaption>\n</figure>\n"
        f"{_in_numbers(picture, fitted)}\n"
        f"{data_block('data', _data(fitted, styles, frames))}"
    )


class Styles:
    """Which style each label has: colour and shape of its class, or its step on a scale.

    The most frequent classes of the source have styles of their own; the rest share -1.
    """

    def __init__(self, picture: Mapping[str, Any], label: str) -> None:
        self.label = label
        labels = picture["source"]["labels"]
        self.classes: list[str] | None = picture["classes"]
        self.scale = self.classes is None
        if self.classes is None:
            low, high = float(np.min(labels)), float(np.max(labels))
            self.edges = np.linspace(low, high, svg.STEPS + 1)
            return
        codes = {name: i for i, name in enumerate(self.classes)}
        self.codes = codes
        counts = np.zeros(len(codes))
        for value in labels.tolist():
            if str(value) in codes:
                counts[codes[str(value)]] += 1
        frequent = np.sort(np.argsort(-counts, kind="stable")[: svg.SHAPED]).tolist()
        self.style = {code: style for style, code in enumerate(frequent)}

    def numbers(self, labels: Array) -> list[Any]:
        """Labels for the script: positions in ``classes``, or numbers to four digits."""
        if self.scale:
            return [float(f"{value:.4g}") for value in labels.tolist()]
        return [self.codes.get(str(value), -1) for value in labels.tolist()]

    def of(self, labels: Array) -> list[int]:
        """The style of each label."""
        if self.scale:
            steps = np.searchsorted(self.edges[1:-1], labels.astype(np.float64))
            return [int(step) for step in steps]
        return [self.style.get(code, -1) for code in self.numbers(labels)]

    def legend(self, picture: Mapping[str, Any]) -> str:
        """Labels and marks by their look; a script makes the labels buttons."""
        if self.scale:
            steps = "".join(
                f'<rect class="q{i}" x="{20 * i}" width="20" height="12"/>'
                for i in range(svg.STEPS)
            )
            items = [
                f'<li>{escape(self.label)} {self.edges[0]:.4g} <svg class="ramp" role="img" '
                f'aria-label="scale" viewBox="0 0 {20 * svg.STEPS} 12">{steps}</svg> '
                f"{self.edges[-1]:.4g}</li>"
            ]
        else:
            assert self.classes is not None
            items = [
                _button(style, self.classes[code], self.label) for code, style in self.style.items()
            ]
            if len(self.classes) > len(self.style):
                more = len(self.classes) - len(self.style)
                items.append(_button(-1, f"{more} other classes", self.label))
        target = picture["target"]
        for name, words, there in (
            ("suggested", "worth labelling", bool(np.any(target["marked"]))),
            ("given", "label given", any(value is not None for value in target["given"])),
        ):
            if there:
                ring = f'<g class="{name}"><use href="#{name}"/></g>'
                items.append(f"<li>{_sample(ring)} {words}</li>")
        return f'<ul class="legend">{"".join(items)}</ul>'


def _button(style: int, name: str, label: str) -> str:
    sample = _sample(f'<g class="target">{svg.mark(style, 0, 0, False)}</g>')
    return (
        f'<li><button type="button" disabled aria-pressed="false" data-style="{style}" '
        f'title="{escape(f"{label}: {name}")}">{sample} {escape(name)}</button></li>'
    )


def _sample(drawn: str) -> str:
    return f'<svg class="sample" viewBox="-10 -10 20 20" aria-hidden="true">{drawn}</svg>'


def _frames(plane: Mapping[str, Any]) -> tuple[svg.Frame, svg.Frame]:
    """Limits before and after; the latter are the same for all candidates, set by the best."""
    source = plane["source"]
    return svg.frame_around(source, plane["before"]), svg.frame_around(source, plane["after"][0])


def _view(
    fitted: Mapping[str, Any],
    styles: Styles,
    i: int,
    plane: Mapping[str, Any],
    frames: tuple[svg.Frame, svg.Frame],
) -> str:
    """Both panels of a plane."""
    picture = fitted["picture"]
    before = (
        "Before: target columns as they come"
        if fitted["same_features"]
        else "Before: each domain whitened by itself"
    )
    after = f"After: {fitted['candidates'][0]['kind']}"
    panels = [
        _panel(picture, styles, plane, frame, key, words)
        for frame, key, words in zip(frames, ("before", "after"), (before, after), strict=True)
    ]
    hidden = " hidden" if i else ""
    return f'<div class="panels" data-plane="{i}"{hidden}>{"".join(panels)}</div>'


def _panel(
    picture: Mapping[str, Any],
    styles: Styles,
    plane: Mapping[str, Any],
    frame: svg.Frame,
    key: str,
    words: str,
) -> str:
    best = picture["candidates"][0]
    target = plane["after"][0] if key == "after" else plane["before"]
    given = [i for i, value in enumerate(picture["target"]["given"]) if value is not None]
    marked = np.flatnonzero(picture["target"]["marked"]).tolist()
    source_styles = styles.of(picture["source"]["labels"])
    drawn = [
        svg.points("source", frame, plane["source"], source_styles, styles.scale),
        svg.points("target", frame, target, styles.of(best["predicted"]), styles.scale),
        svg.rings(frame, target, given, "given"),
        svg.rings(frame, target, marked, "suggested"),
    ]
    beyond = frame.beyond(target)
    edge = f"Target rows beyond the edge: {beyond}." if beyond else ""
    return (
        f'<div class="view" data-view="{key}"><h3>{escape(words)}</h3>'
        f"{svg.panel(words, plane['axes'], frame, drawn)}"
        f'<p class="soft beyond">{edge}</p></div>'
    )


def _controls(fitted: Mapping[str, Any]) -> str:
    """Choice of candidate, plane and domains; hidden until a script gives them something to do."""
    picture = fitted["picture"]
    kinds = fitted["candidates"]
    options = "".join(
        f'<option value="{i}">{escape(_option(one["index"], kinds))}</option>'
        for i, one in enumerate(picture["candidates"])
    )
    planes = "".join(
        f'<option value="{i}">{escape(plane["title"])}</option>'
        for i, plane in enumerate(picture["planes"])
    )
    domains = "".join(
        f'<label class="check"><input type="checkbox" data-side="{side}" checked> {side}</label>'
        for side in SIDES
    )
    return (
        '<div class="controls" hidden>'
        f'<label>Candidate <select id="candidate">{options}</select></label>'
        + (
            f'<label>Seen by <select id="plane">{planes}</select></label>'
            if len(picture["planes"]) > 1
            else ""
        )
        + f'<span class="checks">{domains}</span></div>'
    )


def _option(index: int, candidates: Sequence[Mapping[str, Any]]) -> str:
    one = candidates[index]
    belief = "" if one["weight"] is None else f", belief {one['weight']:.0%}"
    return f"{index + 1}. {one['kind']}{belief}{' (in force)' if index == 0 else ''}"


def _in_numbers(picture: Mapping[str, Any], fitted: Mapping[str, Any]) -> str:
    """The picture for those who do not see it: how far apart the domains' centres lie."""
    rows = [(name, f"{before:.2f}", f"{after:.2f}") for name, before, after in picture["distances"]]
    head = (fitted["label"], "Apart before", "Apart after")
    words = (
        "How far the centres of source rows and of target rows predicted alike lie apart, in the "
        f"source's deviations, over all {fitted['components']} dimensions, for the candidate in "
        "force."
    )
    return (
        "<details><summary>The picture in numbers</summary>"
        f"{paragraph(words)}{table(head, rows)}</details>"
    )


def _data(
    fitted: Mapping[str, Any],
    styles: Styles,
    frames: Sequence[tuple[svg.Frame, svg.Frame]],
) -> dict[str, Any]:
    """What the script needs: names, rows, and for each candidate places and predictions."""
    picture = fitted["picture"]
    source, target = picture["source"], picture["target"]
    planes = [
        {
            "after": [frame[1].place(cloud).ravel().tolist() for cloud in plane["after"]],
            "beyond": [frame[1].beyond(cloud) for cloud in plane["after"]],
        }
        for plane, frame in zip(picture["planes"], frames, strict=True)
    ]
    return {
        "label": fitted["label"],
        "classes": picture["classes"],
        "scale": styles.scale,
        "coloured": svg.COLOURED,
        "source": {
            "rows": (source["rows"] + 1).tolist(),
            "ids": [_ids(ids) for ids in source["ids"]],
            "labels": styles.numbers(source["labels"]),
            "styles": styles.of(source["labels"]),
        },
        "target": {
            "rows": (target["rows"] + 1).tolist(),
            "ids": [_ids(ids) for ids in target["ids"]],
            "given": target["given"],
        },
        "candidates": [
            {
                "kind": fitted["candidates"][one["index"]]["kind"],
                "predicted": styles.numbers(one["predicted"]),
                "styles": styles.of(one["predicted"]),
                "sure": None if one["sure"] is None else (100 * one["sure"]).round().tolist(),
            }
            for one in picture["candidates"]
        ],
        "planes": planes,
        "labelling": _csv(fitted),
    }


def _ids(ids: Mapping[str, str]) -> str:
    """All identifiers of a row, each no longer than can be read at a glance."""
    return ", ".join(f"{name} {value}"[:LONGEST] for name, value in ids.items())


def _csv(fitted: Mapping[str, Any]) -> list[list[str]] | None:
    """The rows worth labelling as the table that can be saved, with a column left to fill in."""
    labelling = fitted["labelling"]
    if labelling is None:
        return None
    head = ["row", *labelling["ids"], "predicted", "belief", fitted["label"]]
    rows = [
        [
            str(one["row"] + 1),
            *one["ids"].values(),
            one["votes"][0][0],
            f"{one['votes'][0][1]:.3f}",
            "",
        ]
        for one in labelling["rows"]
    ]
    return [head, *rows]
