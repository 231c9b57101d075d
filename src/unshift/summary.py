"""Numbers into plain dictionaries, which plots, pages and the command line take as they are."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from .alignment import Alignment
from .cards import candidates, headline
from .changes import feature_changes
from .choice import NO_ADAPTATION
from .labels import Labels
from .model import Model
from .scene import Sight, places, planes, project, sights

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]
Ids = Mapping[str, Any]

# Rows of each domain that the picture shows: more would hide each other.
SHOWN = 1000
# Candidates that can be looked at, best first; the table lists all.
SEEN = 12
# Rows that are proposed for labelling.
SUGGESTED = 10
# Entries of a map times rows, at most, when the changes of features are measured.
CHANGE_WORK = 100_000_000
# Probabilities from which a prediction counts as sure, and below which as doubtful.
SURE, DOUBTFUL = 0.9, 0.6
# Bins of the histograms of probabilities.
BINS = 10


def inspection(alignment: Alignment) -> dict[str, Any]:
    """What a saved alignment says of itself."""
    names = alignment.target.names_in
    return {
        "verdict": alignment.diagnosis.verdict,
        "headline": headline(alignment.diagnosis),
        "reasons": list(alignment.diagnosis.reasons),
        "numbers": dict(alignment.diagnosis.numbers),
        "kind": alignment.candidates[0].kind,
        "components": alignment.n_components,
        "bandwidth": alignment.bandwidth,
        "same_features": alignment.same_features,
        "widths": (alignment.source.width_in, alignment.target.width_in),
        "target_columns": list(names) if names is not None else None,
        "candidates": candidates(alignment.candidates),
    }


def fitted(
    model: Model,
    X_source: FloatArray,
    y_source: Array,
    X_target: FloatArray,
    y_target: Labels | None,
    *,
    ids: tuple[Ids, Ids] | None = None,
    names: tuple[str, str] = ("source", "target"),
) -> dict[str, Any]:
    """All that the report of a fit shows.

    ``ids`` holds columns that tell the rows of either domain apart, by name; ``names`` what the
    domains are called, such as their files' names.
    """
    alignment, predictor = model.alignment, model.predictor
    shared = alignment.target.plain(X_target).astype(np.float64)
    predicted = predictor.predict(shared)
    sure = None if predictor.classes is None else predictor.predict_proba(shared).max(axis=1)
    own = Sight(predicted, sure)
    known = np.zeros(X_target.shape[0], dtype=bool) if y_target is None else y_target.known
    suggested, belief = _suggested(alignment, X_target, np.flatnonzero(~known))
    shown = (
        _evenly(X_source.shape[0]),
        np.union1d(_evenly(X_target.shape[0]), np.concatenate([suggested, _few(known)])),
    )
    ids = ({}, {}) if ids is None else ids
    picture = _picture(model, (X_source, y_source), X_target, own, shown)
    picture["source"]["ids"], picture["target"]["ids"] = (
        [_ids(columns, int(row)) for row in rows] for columns, rows in zip(ids, shown, strict=True)
    )
    picture["target"]["given"] = [
        str(y_target.values[row]) if y_target is not None and known[row] else None
        for row in shown[1].tolist()
    ]
    picture["target"]["marked"] = np.isin(shown[1], suggested)
    classes = None if predictor.classes is None else predictor.classes
    return inspection(alignment) | {
        "label": model.label,
        "names": names,
        "rows": (X_source.shape[0], X_target.shape[0]),
        "labelled": int(known.sum()),
        "task": "regression" if classes is None else "classification",
        "balance": _balance(alignment, classes, y_source, predicted),
        "confidence": _confidence(classes, own, picture["candidates"], shown[1]),
        "quantiles": _quantiles(classes, y_source, predicted),
        "picture": picture,
        "changes": _changes(alignment, X_source[shown[0]], X_target[shown[1]]),
        "labelling": _labelling(picture, alignment, suggested, shown[1], belief, ids[1]),
        "descents": [] if alignment.evidence is None else list(alignment.evidence.descents),
        "settings": _settings(alignment),
        "versions": {name: version(name) for name in ("unshift", "numpy", "scipy", "scikit-learn")}
        | {"python": platform.python_version()},
    }


def _evenly(n: int, most: int = SHOWN) -> Rows:
    """At most so many row numbers, spread over all rows."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def _few(known: npt.NDArray[np.bool_]) -> Rows:
    """Some of the labelled rows."""
    rows = np.flatnonzero(known)
    return rows[_evenly(rows.size, SHOWN // 10)] if rows.size else rows


def _ids(columns: Ids, row: int) -> dict[str, str]:
    return {name: str(values[row]) for name, values in columns.items()}


def _suggested(
    alignment: Alignment, X_target: FloatArray, unknown: Rows
) -> tuple[Rows, tuple[float, float] | None]:
    """Rows, of those without one, whose labels would tell the candidates apart.

    With them the belief in the leading view of the target as it is, and as it is then expected.
    """
    evidence = alignment.evidence
    no_labels = evidence is None or evidence.trained is None
    if no_labels or len(alignment.candidates) < 2 or _one_class(evidence) or not unknown.size:
        return np.arange(0), None
    found = alignment.suggest_labels(X_target[unknown], min(SUGGESTED, unknown.size))
    return unknown[found.rows], (found.belief_now, found.belief_then)


def _one_class(evidence: Any) -> bool:
    return bool(np.unique(evidence.trained.labels).size < 2)


def _picture(
    model: Model, source: tuple[FloatArray, Array], X_target: FloatArray, own: Sight, shown: Any
) -> dict[str, Any]:
    """Points, labels and predictions of the shown rows under the candidates that can be seen."""
    alignment, classes = model.alignment, model.predictor.classes
    task = "regression" if classes is None else "classification"
    looked = [alignment.candidates[i] for i in _looked_at(alignment)]
    rows, y, target = source[0][shown[0]], source[1][shown[0]], X_target[shown[1]]
    seen = sights(looked, rows, y, target, task)
    sure = None if own.sure is None else own.sure[shown[1]]
    seen[0] = Sight(own.predicted[shown[1]], sure)
    z, before, after = places(alignment.candidates, looked, rows, target, alignment.same_features)
    return {
        "planes": [
            {
                "title": title,
                "axes": axes,
                "source": project(z, directions),
                "before": project(before, directions),
                "after": [project(one, directions) for one in after],
            }
            for title, axes, directions in planes(z, y, task)
        ],
        "distances": _distances(classes, (z, y), (before, after[0]), seen[0].predicted),
        "source": {"rows": shown[0], "labels": y},
        "target": {"rows": shown[1]},
        "candidates": [
            {
                "index": i,
                "predicted": sight.predicted,
                "sure": sight.sure,
                "weight": candidate.weight,
            }
            for i, candidate, sight in zip(_looked_at(alignment), looked, seen, strict=True)
        ],
        "classes": None if classes is None else [str(c) for c in classes],
    }


def _distances(
    classes: Array | None,
    source: tuple[FloatArray, Array],
    target: tuple[FloatArray, FloatArray],
    predicted: Array,
) -> list[tuple[str, float, float]]:
    """How far apart the domains' centres lie, before and after: of all rows, and of each class."""
    (z, y), n = source, predicted.shape[0]
    groups = [("all rows", np.ones(y.shape[0], dtype=bool), np.ones(n, dtype=bool))]
    if classes is not None:
        groups += [(str(c), y == c, predicted == c) for c in classes]
    told = []
    for name, here, there in groups:
        if here.any() and there.any():
            centre = z[here].mean(axis=0)
            before, after = (np.linalg.norm(rows[there].mean(axis=0) - centre) for rows in target)
            told.append((name, float(before), float(after)))
    return told


def _looked_at(alignment: Alignment) -> list[int]:
    """Positions of the candidates that can be looked at: the best, and 'no adaptation'."""
    kinds = [candidate.kind for candidate in alignment.candidates]
    best = list(range(min(SEEN, len(kinds))))
    if NO_ADAPTATION in kinds[SEEN:]:
        best[-1] = kinds.index(NO_ADAPTATION)
    return best


def _balance(
    alignment: Alignment, classes: Array | None, y_source: Array, predicted: Array
) -> list[dict[str, Any]]:
    """Share of each class in the source, expected in the target, and among its predictions."""
    if classes is None:
        return []
    expected = alignment.diagnosis.class_balance
    return [
        {
            "class": str(c),
            "source": float(np.mean(y_source == c)),
            "expected": expected[str(c)][1] if str(c) in expected else None,
            "target": float(np.mean(predicted == c)),
        }
        for c in classes
    ]


def _confidence(
    classes: Array | None, own: Sight, seen: Sequence[dict[str, Any]], shown: Rows
) -> list[dict[str, Any]]:
    """How sure predictions are, by the class predicted.

    ``agreed`` is how far the candidates that can be seen, by their weights, predict the same for
    the rows shown; ``bins`` counts rows by probability, in BINS bins from 1/k to 1.
    """
    if classes is None or own.sure is None:
        return []
    weights = np.nan_to_num([one["weight"] for one in seen], nan=1.0)
    votes = np.stack([one["predicted"] == seen[0]["predicted"] for one in seen])
    agreement = weights @ votes / max(float(weights.sum()), np.finfo(np.float64).tiny)
    told = []
    for c in classes:
        rows = own.predicted == c
        sure, agreed = own.sure[rows], agreement[rows[shown]]
        edges = np.linspace(1.0 / max(2, classes.size), 1.0, BINS + 1)
        told.append(
            {
                "class": str(c),
                "rows": int(rows.sum()),
                "mean": float(sure.mean()) if sure.size else None,
                "sure": float(np.mean(sure >= SURE)) if sure.size else None,
                "doubtful": float(np.mean(sure < DOUBTFUL)) if sure.size else None,
                "agreed": float(agreed.mean()) if agreed.size else None,
                "bins": np.histogram(sure.clip(edges[0], 1.0), edges)[0].tolist(),
            }
        )
    return told


def _quantiles(classes: Array | None, y_source: Array, predicted: Array) -> list[dict[str, Any]]:
    """For numbers: quantiles in the source and among the target's predictions."""
    if classes is not None:
        return []
    return [
        {
            "share": share,
            "source": float(np.quantile(y_source.astype(np.float64), share)),
            "target": float(np.quantile(predicted, share)),
        }
        for share in (0.05, 0.25, 0.5, 0.75, 0.95)
    ]


def _changes(
    alignment: Alignment, source: FloatArray, target: FloatArray
) -> list[list[dict[str, Any]]]:
    """What the maps that can be looked at do to the features; on few rows of many columns."""
    width, out = alignment.target_to_source.matrix.shape
    rows = target[_evenly(target.shape[0], max(20, CHANGE_WORK // (width * out)))]
    return [
        feature_changes(candidate.target_to_source, source, rows, alignment.same_features)
        for candidate in (alignment.candidates[i] for i in _looked_at(alignment))
    ]


def _labelling(
    picture: dict[str, Any],
    alignment: Alignment,
    suggested: Rows,
    shown: Rows,
    belief: tuple[float, float] | None,
    ids: Ids,
) -> dict[str, Any] | None:
    """The rows worth labelling, with what the candidates predict for them."""
    if belief is None:
        return None
    rows = []
    for row in suggested.tolist():
        at = int(np.searchsorted(shown, row))
        votes: dict[str, float] = {}
        for one in picture["candidates"]:
            answer = one["predicted"][at]
            name = f"{answer:.4g}" if picture["classes"] is None else str(answer)
            votes[name] = votes.get(name, 0.0) + float(np.nan_to_num(one["weight"]))
        rows.append(
            {
                "row": row,
                "ids": _ids(ids, row),
                "votes": sorted(votes.items(), key=lambda vote: -vote[1]),
            }
        )
    return {"rows": rows, "now": belief[0], "then": belief[1], "ids": list(ids)}


def _settings(alignment: Alignment) -> dict[str, Any]:
    """What ``align`` settled on, as its options would be given to it."""
    settled = {
        "n_components": alignment.n_components,
        "bandwidth": alignment.bandwidth,
        "same_features": alignment.same_features,
    }
    if alignment.evidence is None:
        return settled
    space = alignment.evidence.space.settings
    return settled | {
        "choice": alignment.evidence.choice,
        "scale": space.scale,
        "shrinkage": space.shrinkage,
    }
