"""What a map does to each feature, as plain dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from .affine import AffineMap

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]

# Features that a page shows, and target columns named for each of them.
MOST, NAMED = 20, 3


def feature_changes(
    map_: AffineMap, source: FloatArray, target: FloatArray, same_features: bool
) -> list[dict[str, Any]]:
    """What ``map_`` makes of the target rows (n, e), one dictionary a source feature.

    Where columns correspond, most moved first: ``moved`` is the root of the mean squared distance
    and ``shift`` the mean distance that the feature is moved by, in deviations of the source's
    rows (m, d); ``scale`` the ratio of deviations after and before; ``mixed`` the share of its
    variance after that the feature itself before does not explain. Where they do not, the most
    complete first: ``kept`` is the feature's variance after over that in the source, and ``made``
    the target features that it is made of, with their shares of the weights.
    """
    mapped = np.asarray(map_.plain(target), dtype=np.float64)
    spread = source.std(axis=0)
    spread[spread == 0] = 1.0
    names = feature_names(map_.names_out, mapped.shape[1])
    if same_features:
        return _moved(target.astype(np.float64), mapped, spread, names)
    kept = mapped.var(axis=0) / spread**2
    order = np.argsort(-kept, kind="stable")[:MOST]
    columns = feature_names(map_.names_in, target.shape[1])
    weights = np.abs(map_.matrix[:, order]) * target.std(axis=0)[:, None]
    shares = weights / np.maximum(weights.sum(axis=0), np.finfo(np.float64).tiny)
    return [
        {"feature": names[j], "kept": float(kept[j]), "made": _largest(share, columns)}
        for j, share in zip(order, shares.T, strict=True)
    ]


def _moved(
    target: Matrix, mapped: Matrix, spread: Vector, names: tuple[str, ...]
) -> list[dict[str, Any]]:
    moves = (mapped - target) / spread
    size = np.sqrt(np.mean(moves**2, axis=0))
    before, after = target.std(axis=0), mapped.std(axis=0)
    covariance = np.mean((target - target.mean(axis=0)) * (mapped - mapped.mean(axis=0)), axis=0)
    tiny = np.finfo(np.float64).tiny
    own = covariance**2 / np.maximum(before**2 * after**2, tiny)
    mixed = np.where((before > 0) & (after > 0), 1.0 - own, 0.0).clip(0.0, 1.0)
    scale = np.where(before > 0, after / np.maximum(before, tiny), 1.0)
    order = np.argsort(-size, kind="stable")[:MOST]
    return [
        {
            "feature": names[j],
            "moved": float(size[j]),
            "shift": float(moves[:, j].mean()),
            "scale": float(scale[j]),
            "mixed": float(mixed[j]),
        }
        for j in order
    ]


def _largest(share: Vector, columns: tuple[str, ...]) -> list[tuple[str, float]]:
    """The columns with the largest shares."""
    order = np.argsort(-share, kind="stable")[:NAMED]
    return [(columns[k], float(share[k])) for k in order]


def feature_names(names: tuple[str, ...] | None, width: int) -> tuple[str, ...]:
    """The names, or the columns' numbers from 0."""
    return names if names is not None else tuple(f"column {j}" for j in range(width))
