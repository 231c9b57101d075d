"""Both domains in one picture, as plain dictionaries that plots and pages take as they are.

A *panel* is one scatter plot: ``{"title", "axes": (x, y), "source", "target", "boundary"}``, where
a domain is ``{"points": (n, 2), "labels": (n,), "marked": (k,)}`` and ``boundary`` a line
``n · x = c`` as ``(n_0, n_1, c)``, or None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from .affine import AffineMap
from .choice import Candidate
from .domain import evenly
from .evidence import Evidence
from .predictors import default_estimator

Array = npt.NDArray[Any]
Matrix = npt.NDArray[np.float64]
Axes = tuple[str, str]

# Rows of each domain in a plot: more would hide each other.
DRAWN = 1500


def domain(points: Matrix, labels: Array, marked: Array | None = None) -> dict[str, Any]:
    """One domain of a panel: first two coordinates (n, 2), labels (n,), rows to mark.

    Where there is one coordinate only, rows are spread evenly over the other, to be seen.
    """
    if points.shape[1] == 1:
        points = spread_out(points)
    rows = np.arange(0) if marked is None else marked
    return {"points": points[:, :2], "labels": labels, "marked": rows}


def panel(
    title: str,
    axes: tuple[str, str],
    source: dict[str, Any],
    target: dict[str, Any],
    predictor: Any = None,
) -> dict[str, Any]:
    """One scatter plot of both domains, with the predictor's boundary where it is a line."""
    return {
        "title": title,
        "axes": axes,
        "source": source,
        "target": target,
        "boundary": None if predictor is None else boundary(predictor),
    }


def boundary(predictor: Any) -> tuple[float, float, float] | None:
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


@dataclass(frozen=True, eq=False)
class Sight:
    """What a candidate makes of target rows: classes or numbers (n,), and how sure it is (n,).

    ``sure`` is the probability of the class predicted; None for numbers, and without labels.
    """

    predicted: Array
    sure: Matrix | None


def sights(
    candidates: Sequence[Candidate],
    X_source: FloatArray,
    y_source: Array,
    X_target: FloatArray,
    task: str,
) -> list[Sight]:
    """How each candidate sees target rows, through the default predictor trained on source rows.

    One predictor serves all candidates that map the source alike.
    """
    fitted: dict[int, Any] = {}
    seen = []
    for candidate in candidates:
        key = id(candidate.source)
        if key not in fitted:
            fitted[key] = _trained(candidate.source.plain(X_source), y_source, task)
        rows = candidate.target.plain(X_target)
        seen.append(_sight(fitted[key], rows, task))
    return seen


def _trained(Z: FloatArray, y: Array, task: str) -> Any:
    """The default predictor; the class itself where there is but one."""
    if task == "classification" and np.unique(y).size < 2:
        return y[:1]
    return default_estimator(task).fit(Z, y)


def _sight(predictor: Any, rows: FloatArray, task: str) -> Sight:
    if isinstance(predictor, np.ndarray):
        return Sight(np.repeat(predictor, rows.shape[0]), np.ones(rows.shape[0]))
    if task != "classification":
        return Sight(predictor.predict(rows), None)
    shares = predictor.predict_proba(rows)
    return Sight(predictor.classes_[shares.argmax(axis=1)], shares.max(axis=1))


def whitener(candidates: Sequence[Candidate]) -> AffineMap:
    """Source features to the source's whitened space, of as many dimensions as there are."""
    turned = [c.source for c in candidates if c.rotation is not None]
    return max(turned, key=lambda map_: map_.width_out)


def places(
    candidates: Sequence[Candidate],
    looked: Sequence[Candidate],
    source: FloatArray,
    target: FloatArray,
    same_features: bool,
) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
    """Where rows lie in the source's whitened space: source, target before, under those looked at.

    There every candidate can be seen beside the others: it takes target rows to source features,
    and those are whitened. Before any of them the target lies where the source's whitening puts
    it, or where its own does where columns do not correspond.
    """
    whiten = whitener(candidates)
    if same_features:
        before = whiten.plain(target)
    else:
        turned = next(c for c in candidates if c.source is whiten and c.rotation is not None)
        before = unturned(turned).plain(target)
    # composed first: through all source features, every row would cost the product of both widths
    after = [candidate.target_to_source.then(whiten).plain(target) for candidate in looked]
    return whiten.plain(source), before, after


def planes(source: FloatArray, labels: Array | None, task: str) -> list[tuple[str, Axes, Matrix]]:
    """Titles, axes and directions (p, 2) of the planes in which whitened rows are worth seeing.

    The plane of the first two dimensions, which vary most; before it, where there are more, the
    one in which the source's labels part: of whitened rows its directions are those of the class
    means (Fisher's discriminants), or of the regression on the numbers.
    """
    p = source.shape[1]
    main = np.eye(p)[:, :2]
    names = ("source's dimension 1", "source's dimension 2" if p > 1 else "(no second dimension)")
    most = [("Most variance", names, main)]
    if labels is None or p <= 2:
        return most
    if task == "classification":
        classes, counts = np.unique(labels, return_counts=True)
        means = np.stack([source[labels == c].mean(axis=0) for c in classes])
        spread = (means - source.mean(axis=0)) * np.sqrt(counts)[:, None]
        words, name = "Classes apart", "discriminant"
    else:
        centred = labels.astype(np.float64) - labels.astype(np.float64).mean()
        spread, words, name = (centred @ source)[None, :], "Numbers apart", "regression"
    if not np.abs(spread).max() > 1e-12:
        return most
    # what the means leave open is filled with the dimensions that vary most
    filled = np.vstack([spread / np.abs(spread).max(), 1e-6 * np.eye(p)])
    directions = np.linalg.svd(filled, full_matrices=False)[2][:2].T
    directions = directions * np.where(directions.sum(axis=0) < 0, -1.0, 1.0)
    second = "2" if np.unique(labels).size > 2 and task == "classification" else "across it"
    return [(words, (f"{name} 1", f"{name} {second}"), directions), *most]


def project(rows: FloatArray, directions: Matrix) -> Matrix:
    """Coordinates (n, 2) of rows in a plane; of one dimension, spread evenly over the other."""
    points: Matrix = rows.astype(np.float64) @ directions
    return points if points.shape[1] == 2 else spread_out(points)


def spread_out(points: Matrix) -> Matrix:
    """Points of one coordinate (n, 1), given a second that only keeps them apart (n, 2)."""
    return np.column_stack([points, np.arange(points.shape[0]) * 0.618034 % 1.0])


def panels_of(
    candidates: Sequence[Candidate], looked: Sequence[int], evidence: Evidence
) -> list[dict[str, Any]]:
    """Panels before any map, and under each candidate looked at, of the rows kept as evidence.

    Source rows have their labels' colours, target rows those of the predictions; known labels are
    marked. Without labels all are of one colour.
    """
    space, trained, labelled = evidence.space, evidence.trained, evidence.labelled
    target = evenly(space.domains[1].sampled(), DRAWN)
    marked = np.arange(0)
    if labelled is not None:
        marked = target.shape[0] + np.arange(labelled.rows.shape[0])
        target = np.concatenate([target, labelled.rows.astype(np.float64)])
    chosen = [candidates[i] for i in looked]
    if trained is None:
        source, y = evenly(space.domains[0].sampled(), DRAWN), None
        seen = [np.zeros(target.shape[0], dtype=int)] * len(chosen)
    else:
        source, y = evenly(trained.rows, DRAWN), evenly(trained.labels, DRAWN)
        seen = [s.predicted for s in sights(chosen, source, y, target, evidence.task)]
    z, before, after = places(candidates, chosen, source, target, space.correspond[1])
    _, axes, directions = planes(z, y, evidence.task)[0]
    labels = np.zeros(z.shape[0], dtype=int) if y is None else y
    start = "As they come" if space.correspond[1] else "Whitened, not rotated"
    left = domain(project(z, directions), labels)
    shown = [
        panel(
            start,
            (axes[0], f"{axes[1]} "),  # far apart as they come: limits of their own
            left,
            domain(project(before, directions), seen[0], marked),
        )
    ]
    for candidate, rows, predicted in zip(chosen, after, seen, strict=True):
        right = domain(project(rows, directions), predicted, marked)
        shown.append(panel(_title(candidate), axes, left, right))
    return shown


def _title(candidate: Candidate) -> str:
    belief = "" if np.isnan(candidate.weight) else f"belief {candidate.weight:.0%}, "
    return f"{candidate.kind}\n{belief}MMD² {candidate.mmd2:.2g}"
