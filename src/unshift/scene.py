"""Both domains in one picture, as plain dictionaries that plots and pages take as they are.

A *panel* is one scatter plot: ``{"title", "axes": (x, y), "source", "target", "boundary"}``, where
a domain is ``{"points": (n, 2), "labels": (n,), "marked": (k,)}`` and ``boundary`` a line
``n · x = c`` as ``(n_0, n_1, c)``, or None.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .affine import AffineMap
from .choice import Candidate

Array = npt.NDArray[Any]
Matrix = npt.NDArray[np.float64]


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
