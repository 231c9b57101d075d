"""Numbers into plain dictionaries, which plots, pages and the command line take as they are.

A *panel* is one scatter plot: ``{"title", "axes": (x, y), "source", "target", "boundary"}``, where
a domain is ``{"points": (n, 2), "labels": (n,), "marked": (k,)}`` and ``boundary`` a line
``n · x = c`` as ``(n_0, n_1, c)``, or None.
"""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from .affine import AffineMap
from .alignment import Alignment
from .choice import NO_ADAPTATION, Candidate
from .labels import Labels
from .model import LinearPredictor, Model

Array = npt.NDArray[Any]
Matrix = npt.NDArray[np.float64]

# Points of each domain that a picture shows: more would hide each other.
SHOWN = 600


def domain(points: Matrix, labels: Array, marked: Array | None = None) -> dict[str, Any]:
    """One domain of a panel: first two coordinates (n, 2), labels (n,), rows to mark.

    Where there is one coordinate only, rows are spread evenly over the other, to be seen.
    """
    if points.shape[1] == 1:
        spread = np.arange(points.shape[0]) * 0.618034 % 1.0
        points = np.column_stack([points, spread])
    rows = np.arange(0) if marked is None else marked
    return {"points": points[:, :2], "labels": labels, "marked": rows}


def panel(
    title: str,
    axes: tuple[str, str],
    source: dict[str, Any],
    target: dict[str, Any],
    predictor: LinearPredictor | None = None,
) -> dict[str, Any]:
    """One scatter plot of both domains, with the predictor's boundary where it is a line."""
    return {
        "title": title,
        "axes": axes,
        "source": source,
        "target": target,
        "boundary": None if predictor is None else boundary(predictor),
    }


def boundary(predictor: LinearPredictor) -> tuple[float, float, float] | None:
    """The line ``n · x = c`` on which two classes are equally likely; None if it is no line."""
    scores, classes = predictor.scores, predictor.classes
    if classes is None or classes.size != 2 or scores.width_in != 2:
        return None
    normal = scores.matrix[:, 1] - scores.matrix[:, 0]
    limit = normal @ scores.center - (scores.offset[1] - scores.offset[0])
    return float(normal[0]), float(normal[1]), float(limit)


def unturned(candidate: Candidate) -> AffineMap:
    """The target's whitening alone: ``z = (z Rᵀ) R``."""
    assert candidate.rotation is not None
    p = candidate.rotation.shape[0]
    return candidate.target.then(AffineMap(np.zeros(p), candidate.rotation, np.zeros(p)))


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
