"""The report of a fit: one page of HTML that needs nothing else, from ``summary``'s dictionary."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from . import svg
from .answers import reasons
from .cards import candidate_cells
from .diagnosis import AMBIGUOUS, NOT_AFFINE, TOO_LITTLE
from .markup import Html, asset, bullets, document, paragraph, section, table
from .stage import LONGEST, stage

# Verdicts that call for care, and the sign beside the colour that says so.
CARE = (AMBIGUOUS, NOT_AFFINE, TOO_LITTLE)

NEXT = {
    AMBIGUOUS: "Look up the labels of the rows named below, write them into the target's "
    "label column, and fit again: they settle which alignment is right.",
    NOT_AFFINE: "Check units and columns of the two files. If they are right, label some target "
    "rows and see whether the predictions hold before they are used.",
    TOO_LITTLE: "Add rows, or ask for fewer components.",
}
WELL = (
    "Use the predictions. A few labels of target rows, looked up after all, are the surest check."
)


def page(fitted: Mapping[str, Any]) -> str:
    """The page. Its script shows the other candidates; without one, that in force is shown."""
    parts = [
        _head(fitted),
        '<div class="pair">',
        section("What to do next", paragraph(NEXT.get(fitted["verdict"], WELL))),
        section("Why", bullets(reasons(fitted))),
        "</div>",
        section("Before and after", stage(fitted)),
        section("Candidates", *_candidates(fitted)),
        section("What happens to the features", *_changes(fitted)),
        section("Classes", *_classes(fitted)),
        section("Numbers predicted", _quantiles(fitted)),
        section("Rows worth labelling", *_labelling(fitted)),
        section("About the files", *_notes(fitted)),
        section("To repeat it", *_repeat(fitted)),
        '<div id="tip" role="status" hidden></div>',
    ]
    return document(fitted["label"], parts, asset("report.js"))


def _head(fitted: Mapping[str, Any]) -> str:
    verdict, (m, n) = fitted["verdict"], fitted["rows"]
    care = verdict in CARE
    names = fitted["names"]
    badge = f'<p class="badge {"care" if care else "well"}">{"!" if care else "✓"} '
    words = verdict[:1].upper() + verdict[1:]
    return (
        f"<header>\n{badge}{escape(words)}</p>\n<h1>{escape(fitted['headline'])}</h1>\n"
        f'<p class="soft">{escape(fitted["label"])} predicted for {n:,} rows of {escape(names[1])} '
        f"from {m:,} rows of {escape(names[0])}, {fitted['labelled']:,} target labels given.</p>\n"
        f'<dl class="tiles">{"".join(_tiles(fitted))}</dl>\n</header>'
    )


def _tiles(fitted: Mapping[str, Any]) -> list[str]:
    """The few numbers to see first."""
    numbers, best = fitted["numbers"], fitted["candidates"][0]
    tiles = []
    if "expected_accuracy" in numbers:
        expected = numbers["expected_accuracy"]
        words = f"{expected:.0%}" if expected < 0.985 else "over 98%"
        if fitted["verdict"] == "not an affine shift":
            words = f"{min(expected, 0.98):.0%} at most"
        tiles.append(("Accuracy to expect", words))
    if best["weight"] is not None:
        tiles.append(("Belief in this alignment", f"{best['weight']:.0%}"))
    tiles.append(("Alignment", best["kind"]))
    mmd2 = f"{best['mmd2']:.2g}"
    if "mmd2_unadapted" in numbers:
        mmd2 = f"{numbers['mmd2_unadapted']:.2g} → {mmd2}"
    tiles.append(("MMD², before → after" if "→" in mmd2 else "MMD² left", mmd2))
    return [f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles]


def _candidates(fitted: Mapping[str, Any]) -> list[str]:
    found = fitted["candidates"]
    looked = {one["index"]: i for i, one in enumerate(fitted["picture"]["candidates"])}
    rows = []
    for i, one in enumerate(found):
        kind, meaning, belief, mmd2, error = candidate_cells(one)
        share = svg.barred(one["weight"] or 0.0, belief)
        name = _show(looked[i], kind) if i in looked else escape(kind)
        told = Html(f'{name}<span class="meaning">{escape(meaning)}</span>')
        descents = str(one["starts"]) if one["rotated"] else "–"
        rows.append((f"{i + 1}", told, share, mmd2, descents, error))
    head = ("", "Candidate", "Belief", "MMD²", "Descents", "Error on labels")
    chance = fitted["numbers"].get("mmd2_by_chance")
    ends = fitted["descents"]
    words = "Distinct alignments, best first; the first is in force. Belief is the share that all "
    words += "evidence together gives each. A lower MMD² alone does not make a better alignment."
    caption = f"The short lines are where {len(ends)} descents ended. " if ends else ""
    caption += "Chance is what two samples of one distribution would show on average."
    return [
        paragraph(words),
        table(head, rows, words=2),
        f"<figure>{svg.discrepancies(found, ends, chance)}"
        f"<figcaption>{escape(caption)}</figcaption></figure>",
    ]


def _show(i: int, kind: str) -> Html:
    """The candidate's name, which a script makes a button that shows it."""
    return Html(
        f'<button type="button" class="show" disabled data-show="{i}">{escape(kind)}</button>'
    )


def _changes(fitted: Mapping[str, Any]) -> list[str]:
    """A table for each candidate that can be looked at, that in force to be seen."""
    looked = fitted["picture"]["candidates"]
    draw = _moved if fitted["same_features"] else _made
    tables = []
    for i, (one, features) in enumerate(zip(looked, fitted["changes"], strict=True)):
        kind = fitted["candidates"][one["index"]]["kind"]
        hidden = " hidden" if i else ""
        tables.append(f'<div data-for="{i}"{hidden}>{draw(kind, features)}</div>')
    d, e = fitted["widths"]
    shown = len(fitted["changes"][0])
    more = f" The {shown} first of {d:,} are shown." if shown < d else ""
    if fitted["same_features"]:
        words = (
            "How far the map moves each column of the target, most first: as the root mean square "
            "and the mean, in deviations of the source's column, and how its own deviation is "
            "scaled. Mixed is the share of its variance afterwards that comes from other columns."
        )
    else:
        words = (
            f"Columns do not correspond: each source column is made of all {e:,} target columns. "
            "Kept is its variance as made, over that in the source; made of names the target "
            "columns with the largest weights."
        )
    return [paragraph(words + more), *tables]


def _moved(kind: str, features: Sequence[Mapping[str, Any]]) -> Html:
    most = max([one["moved"] for one in features] + [1e-12])
    rows = [
        (
            one["feature"],
            svg.barred(one["moved"] / most, f"{one['moved']:.3g}"),
            f"{one['shift']:+.3g}",
            f"× {one['scale']:.3g}",
            f"{one['mixed']:.0%}",
        )
        for one in features
    ]
    return table(("Feature", "Moved", "Mean shift", "Spread", "Mixed"), rows, caption=kind)


def _made(kind: str, features: Sequence[Mapping[str, Any]]) -> Html:
    rows = [
        (
            one["feature"],
            ", ".join(f"{name} ({share:.0%})" for name, share in one["made"]),
            svg.barred(one["kept"], f"{one['kept']:.0%}"),
        )
        for one in features
    ]
    return table(("Source column", "Made of", "Kept"), rows, words=2, caption=kind)


def _classes(fitted: Mapping[str, Any]) -> list[str]:
    if not fitted["balance"]:
        return []
    shares = [
        (
            one["class"],
            *(
                "–" if share is None else svg.barred(share, f"{share:.1%}")
                for share in (one["source"], one["expected"], one["target"])
            ),
        )
        for one in fitted["balance"]
    ]
    sure = [_sure(one) for one in fitted["confidence"]]
    return [
        paragraph(
            "Shares of the classes in the source, as expected in the target, and as predicted by "
            "the candidate in force."
        ),
        table(("Class", "Source", "Expected in the target", "Predicted"), shares),
        paragraph(
            "How sure the predictions are, by the class predicted: mean probability, the share of "
            "at least 90%, the share below 60%, how the probabilities are spread from chance to "
            "1, and how far the other candidates, by their belief, predict the same."
        ),
        table(("Class", "Rows", "Mean", "≥ 90%", "< 60%", "Spread", "Agreed"), sure),
    ]


def _sure(one: Mapping[str, Any]) -> tuple[str, ...]:
    counts = ", ".join(str(count) for count in one["bins"])
    words = f"Rows by probability, from the lowest: {counts}"
    return (
        one["class"],
        f"{one['rows']:,}",
        *(_share(one[key]) for key in ("mean", "sure", "doubtful")),
        svg.histogram(one["bins"], words),
        _share(one["agreed"]),
    )


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _quantiles(fitted: Mapping[str, Any]) -> str:
    rows = [
        (f"{one['share']:.0%} lie below", f"{one['source']:.4g}", f"{one['target']:.4g}")
        for one in fitted["quantiles"]
    ]
    return table(("", "Source", "Predicted in the target"), rows) if rows else ""


def _labelling(fitted: Mapping[str, Any]) -> list[str]:
    labelling = fitted["labelling"]
    if labelling is None:
        return []
    if labelling["now"] > 1.0 - 1e-9:
        return [paragraph("All candidates see these rows alike: labels would not change which.")]
    head = ("Row", *labelling["ids"], "What the candidates predict, by belief")
    rows = [
        (str(one["row"] + 1), *(v[:LONGEST] for v in one["ids"].values()), _votes(one["votes"]))
        for one in labelling["rows"]
    ]
    words = (
        "The labels of these target rows, most telling first, would settle best which candidate "
        "is right: belief in the right view of the target is expected to rise from "
        f"{labelling['now']:.0%} to {labelling['then']:.0%}. They are ringed in the picture. "
        "The first row of a file is row 1."
    )
    return [
        paragraph(words),
        table(head, rows, words=len(head)),
        '<p class="controls" hidden><button type="button" id="save">Save as CSV</button></p>',
    ]


def _votes(votes: Sequence[tuple[str, float]], most: int = 3) -> str:
    told = ", ".join(f"{name} ({share:.0%})" for name, share in votes[:most])
    return f"{told}, …" if len(votes) > most else told


def _notes(fitted: Mapping[str, Any]) -> list[str]:
    """What was said of the files as they were read, and on how many rows this page rests."""
    notes = list(fitted.get("notes", []))
    kept, all_rows = fitted.get("rows_kept", fitted["rows"]), fitted["rows"]
    for name, some, rows in zip(("source", "target"), kept, all_rows, strict=True):
        if some < rows:
            notes.append(f"Shares on this page are those of {some:,} of the {rows:,} {name} rows.")
    return [bullets(notes)] if notes else []


def _repeat(fitted: Mapping[str, Any]) -> list[str]:
    """Command, call and versions."""
    parts = []
    if fitted.get("command"):
        parts.append(f"<pre><code>{escape(fitted['command'])}</code></pre>")
    options = fitted.get("options") or fitted["settings"]
    given = ", ".join(f"{name}={value!r}" for name, value in options.items())
    given = textwrap.fill(f"{given},", 84, initial_indent=" " * 4, subsequent_indent=" " * 4)
    domains = "X_source, X_target, y_source, y_target"
    call = f"import unshift\n\nalignment = unshift.align(\n    {domains},\n{given}\n)"
    d, e = fitted["widths"]
    settled = ", ".join(f"{name} {value}" for name, value in fitted["settings"].items())
    versions = ", ".join(f"{name} {number}" for name, number in fitted["versions"].items())
    return [
        *parts,
        f"<pre><code>{escape(call)}</code></pre>",
        paragraph(f"{d:,} source and {e:,} target columns. Settled on: {settled}.", "soft"),
        paragraph(f"Versions: {versions}.", "soft"),
    ]
