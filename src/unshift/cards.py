"""Alignments in words and in a card for notebooks: what was chosen, and what to think of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .affine import AffineMap
from .choice import ANCHOR, BLEND, NO_ADAPTATION, Candidate
from .diagnosis import ALIGNED, AMBIGUOUS, NOT_AFFINE, NOT_NEEDED, TOO_LITTLE, Diagnosis
from .markup import bullets, paragraph, table, text

# What the candidates of each kind do, for people who have not read the paper.
KINDS = {
    NO_ADAPTATION: "target columns as they come",
    "half mean shift": "columns moved half way to the source's means",
    "mean shift": "columns moved to the source's means",
    "location and scale": "each column moved and stretched to the source's mean and spread",
    "covariance": "columns mixed until means and covariances match (CORAL)",
    "transport": "means and covariances matched by optimal transport",
    ANCHOR: "whitened, with the rotation that moves the columns least",
    "identity": "a rotation found from the whitened axes as they are",
    "reflected identity": "a rotation found from the mirrored axes",
    "reflection": "a rotation found by mirroring another one",
    "class means": "a rotation found from the means of the labelled classes",
    "invariants": "a rotation that the shape of the data suggests",
    "random": "a rotation found from a random start",
    "scan": "a rotation found by trying all of them",
    "whitened": "whitened, not rotated",
    BLEND: "the mean of the rotations found, small where they contradict each other",
    "joint": "a rotation refined with the predictor's own loss",
}
CANDIDATES_SHOWN = 8

HEADLINES = {
    ALIGNED: "The target could be brought into line with the source",
    NOT_NEEDED: "The target fits the source as it is: no adaptation is needed",
    AMBIGUOUS: "Several alignments fit as well, and predict differently: a few labels are needed",
    TOO_LITTLE: "There are too few rows to tell alignments apart",
    NOT_AFFINE: "No affine map makes the target look like the source: treat predictions with care",
}

# Inherits the notebook's colours, so that it is as readable on dark as on light.
CARD_STYLE = (
    "border:1px solid rgba(128,128,128,.5);border-radius:6px;padding:.6em 1em;max-width:60em;"
    "color:inherit;background:transparent"
)


def headline(diagnosis: Diagnosis) -> str:
    """The verdict in one sentence."""
    words = HEADLINES.get(diagnosis.verdict, diagnosis.verdict)
    expected = diagnosis.numbers.get("expected_accuracy", math.nan)
    if diagnosis.verdict in (ALIGNED, NOT_NEEDED) and math.isfinite(expected):
        words += f"; {about(expected)} of the predictions should be right"
    return f"{words}."


def about(share: float) -> str:
    """A share that is no more than an estimate: never all of it."""
    return f"about {share:.0%}" if share < 0.985 else "nearly all"


def meaning(kind: str) -> str:
    """What candidates of this kind do, in plain words."""
    words = KINDS.get(kind) or KINDS.get(kind.partition(",")[0], "")
    return f"{words}, allowing for other shares of the classes" if "balance" in kind else words


def candidates(found: Sequence[Candidate]) -> list[dict[str, Any]]:
    """What distinguishes the candidates, best first; ``error`` is None without labels."""
    return [
        {
            "kind": candidate.kind,
            "meaning": meaning(candidate.kind),
            "mmd2": candidate.mmd2,
            "weight": candidate.weight if math.isfinite(candidate.weight) else None,
            "misfit": candidate.misfit if math.isfinite(candidate.misfit) else None,
            "starts": candidate.starts,
            "rotated": candidate.rotation is not None,
            "error": candidate.error if candidate.n_labelled else None,
            "n_labelled": candidate.n_labelled,
        }
        for candidate in found
    ]


def candidate_table(found: Sequence[dict[str, Any]], most: int | None = None) -> str:
    """The candidates that ``candidates`` describes, as an HTML table."""
    rows = [candidate_cells(one) for one in found[:most]]
    return table(("Candidate", "What it does", "Belief", "MMD²", "Error on labels"), rows, words=2)


def candidate_cells(one: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Kind, meaning, belief, MMD² and error of a candidate, in words."""
    belief = "–" if one["weight"] is None else f"{one['weight']:.0%}"
    error = "–" if one["error"] is None else f"{one['error']:.3g} ({one['n_labelled']} rows)"
    return one["kind"], one["meaning"], belief, f"{one['mmd2']:.3g}", error


def card(diagnosis: Diagnosis, found: Sequence[Candidate], maps: dict[str, AffineMap]) -> str:
    """HTML for a notebook: verdict, reasons, maps and candidates."""
    widths = [
        (name, str(map_.width_in), str(map_.width_out), _columns(map_.names_in))
        for name, map_ in maps.items()
    ]
    more = len(found) - CANDIDATES_SHOWN
    head = ("Map", "Columns in", "Columns out", "Names in")
    return (
        f'<div style="{CARD_STYLE}">\n'
        f'<p style="font-weight:600">{text(headline(diagnosis))}</p>\n'
        + bullets(diagnosis.reasons)
        + table(head, widths)
        + candidate_table(candidates(found), CANDIDATES_SHOWN)
        + (paragraph(f"{more} more in alignment.candidates.") if more > 0 else "")
        + "</div>"
    )


def _columns(names: Sequence[str] | None, most: int = 4) -> str:
    if names is None:
        return "–"
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
