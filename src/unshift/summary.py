"""Numbers into plain dictionaries, which plots, pages and the command line take as they are."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from .alignment import Alignment
from .choice import NO_ADAPTATION
from .labels import Labels
from .model import LinearPredictor, Model
from .scene import domain, panel, unturned

Array = npt.NDArray[Any]
Matrix = npt.NDArray[np.float64]

# Points of each domain that a picture shows: more would hide each other.
SHOWN = 600


def candidates(alignment: Alignment) -> list[dict[str, Any]]:
    """What distinguishes the candidates, best first; ``error`` is None without labels."""
    return [
        {
            "kind": candidate.kind,
            "mmd2": candidate.mmd2,
            "starts": candidate.starts,
            "error": candidate.error if candidate.n_labelled else None,
            "n_labelled": candidate.n_labelled,
        }
        for candidate in alignment.candidates
    ]


def inspection(alignment: Alignment) -> dict[str, Any]:
    """What a saved alignment says of itself."""
    names = alignment.target.names_in
    return {
        "verdict": alignment.diagnosis.verdict,
        "reasons": list(alignment.diagnosis.reasons),
        "numbers": dict(alignment.diagnosis.numbers),
        "kind": alignment.candidates[0].kind,
        "components": alignment.n_components,
        "bandwidth": alignment.bandwidth,
        "widths": (alignment.source.width_in, alignment.target.width_in),
        "target_columns": list(names) if names is not None else None,
        "candidates": candidates(alignment),
    }


def fitted(
    model: Model, X_source: Matrix, y_source: Array, X_target: Matrix, y_target: Labels | None
) -> dict[str, Any]:
    """All that the report of a fit shows."""
    alignment = model.alignment
    predicted = model.predictor.predict(alignment.target(X_target))
    shown = _evenly(X_source.shape[0]), _evenly(X_target.shape[0])
    known = np.zeros(X_target.shape[0], dtype=bool) if y_target is None else y_target.known
    views = {
        "source": (X_source[shown[0]], y_source[shown[0]], np.arange(0)),
        "target": (X_target[shown[1]], predicted[shown[1]], np.flatnonzero(known[shown[1]])),
    }
    return inspection(alignment) | {
        "label": model.label,
        "rows": (X_source.shape[0], X_target.shape[0]),
        "labelled": int(known.sum()),
        "balance": _balance(model.predictor.classes, y_source, predicted),
        "panels": _before_and_after(alignment, views, model.predictor),
        "versions": {name: version(name) for name in ("unshift", "numpy", "scipy", "scikit-learn")}
        | {"python": platform.python_version()},
    }


def _evenly(n: int) -> npt.NDArray[np.intp]:
    """At most ``SHOWN`` row numbers, spread over all rows."""
    return np.unique(np.linspace(0, n - 1, min(n, SHOWN)).round().astype(np.intp))


def _balance(classes: Array | None, y_source: Array, predicted: Array) -> list[dict[str, Any]]:
    """Share of each class in the source and among the target's predictions."""
    if classes is None:
        return []
    return [
        {
            "class": str(c),
            "source": float(np.mean(y_source == c)),
            "target": float(np.mean(predicted == c)),
        }
        for c in classes
    ]


def _before_and_after(
    alignment: Alignment, views: dict[str, Any], predictor: LinearPredictor
) -> list[dict[str, Any]]:
    """The domains as they come (or only whitened, where columns differ), and as aligned.

    Both in the source's whitened space, where every candidate can be seen: it takes target rows
    to source features, and those are whitened.
    """
    best = alignment.candidates[0]
    turned = next(c for c in alignment.candidates if c.rotation is not None)
    after = turned if best.kind == NO_ADAPTATION else best
    whiten = turned.source
    (source, y, _), (target, predicted, marked) = views["source"], views["target"]
    first, second = "shared dimension 1", "shared dimension 2"
    if whiten.width_out == 1:
        second = "(no second dimension)"
    axes = raw_axes = (first, second)
    start, title = unturned(turned)(target), "Whitened, not rotated"
    if alignment.same_features:
        # Far apart as they come: axes of another name have limits of their own.
        start, title = whiten(target), "As they come, in the source's whitening"
        raw_axes = (first.replace("shared", "source's"), second.replace("shared", "source's"))
    name = f"Aligned ({after.kind})"
    if best.kind == NO_ADAPTATION:
        name += ": not used"
    end = whiten(np.asarray(after.target_to_source(target)))
    left = domain(whiten(source), y)
    return [
        panel(title, raw_axes, left, domain(start, predicted, marked)),
        panel(
            name,
            axes,
            left,
            domain(end, predicted, marked),
            predictor if turned is best else None,
        ),
    ]
