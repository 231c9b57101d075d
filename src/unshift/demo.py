"""The demonstration: the paper's simulated data, before and after, as numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from . import scene
from .affine import AffineMap
from .align import align
from .alignment import Alignment
from .datasets import make_mixture
from .model import linear_predictor

Array = npt.NDArray[Any]

LABELS = 5
FEATURES = ("feature 1 of 5", "feature 2 of 5")
SHARED = ("shared dimension 1", "shared dimension 2")


def demonstrate(
    seed: int, callback: Callable[[str, int, int], object] | None = None
) -> tuple[dict[str, Any], Alignment]:
    """Accuracies, panels and diagnoses in one dictionary, and the alignment chosen with labels.

    Accuracies are those of a logistic regression trained on source rows, on the target rows
    whose labels nobody was given.
    """
    mixture = make_mixture(random_state=seed)
    X_source, y_source = mixture.X_source, mixture.y_source
    X_target, y_target = mixture.X_target, mixture.y_target
    given = np.random.default_rng(seed).choice(y_target.size, LABELS, replace=False)
    y_given = np.full(y_target.size, None, dtype=object)
    y_given[given] = y_target[given]

    find = partial(align, X_source, X_target, y_source, same_features=False, random_state=seed)
    blind, informed = find(callback=callback), find(y_target=y_given, callback=callback)
    identity = AffineMap.identity(X_source.shape[1])
    unturned = scene.unturned(informed.candidates[0])
    accuracies, panels = [], []
    for name, axes, to_source, to_target, marked in (
        ("without adaptation", FEATURES, identity, identity, given[:0]),
        ("whitened, not rotated", SHARED, informed.source, unturned, given[:0]),
        ("aligned without labels", SHARED, blind.source, blind.target, given[:0]),
        (f"aligned with {LABELS} labels", SHARED, informed.source, informed.target, given),
    ):
        source, target = to_source(X_source), to_target(X_target)
        predictor = linear_predictor(source, y_source, "classification")
        right = np.delete(predictor.predict(target) == y_target, given)
        accuracies.append({"name": name, "accuracy": float(right.mean()), "rows": right.size})
        left, right_side = (
            scene.domain(source, y_source),
            scene.domain(target, y_target, marked),
        )
        title = f"{name}: {right.mean():.1%}"
        panels.append(scene.panel(title, axes, left, right_side, predictor))
    return {
        "rows": (X_source.shape[0], X_target.shape[0]),
        "widths": (X_source.shape[1], X_target.shape[1]),
        "accuracies": accuracies,
        "panels": panels,
        "without_labels": str(blind.diagnosis),
        "with_labels": str(informed.diagnosis),
    }, informed
