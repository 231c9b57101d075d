"""Fits whose reports are looked at: ordinary ones, and one whose every name is hostile."""

from typing import Any

import numpy as np
import pandas as pd

import unshift
from unshift import summary
from unshift.datasets import make_mixture
from unshift.labels import read_labels
from unshift.model import Model, linear_predictor

HOSTILE = [
    "<script>document.title = 'taken'</script>\"'&",
    '"><img src=x onerror="document.title=1">',
    "</script><!--<script>\u2028\u2029",
    "' onmouseover='document.title=1' ${1} {{1}}",
]


def fit(
    X: Any, y: Any, X_target: Any, y_target: Any = None, *, label: str = "class", **kept: Any
) -> dict[str, Any]:
    """The dictionary of a report; ``kept`` are ids and names, and options of the alignment."""
    told = {name: kept.pop(name) for name in ("ids", "names") if name in kept}
    alignment = unshift.align(X, X_target, y, y_target, random_state=0, **kept)
    rows, target = np.asarray(X, dtype=float), np.asarray(X_target, dtype=float)
    task = "regression" if np.asarray(y).dtype.kind == "f" else "classification"
    predictor = linear_predictor(alignment.source.plain(rows), np.asarray(y), task)
    labels = None if y_target is None else read_labels(y_target, target.shape[0], "y_target")
    model = Model(alignment, predictor, label)
    return summary.fitted(model, rows, np.asarray(y), target, labels, **told)


def hostile_fit() -> dict[str, Any]:
    """Columns, classes, ids, files and command with names that would like to run."""
    mixture = make_mixture(4)
    classes = np.array(HOSTILE[:2])
    given = classes[mixture.y_target].astype(object)
    given[12:] = None
    names = [f"{HOSTILE[i % 4]}{i}" for i in range(mixture.X_source.shape[1])]
    ids = {HOSTILE[1]: [HOSTILE[i % 4] for i in range(300)]}
    return fit(
        pd.DataFrame(mixture.X_source, columns=names),
        classes[mixture.y_source],
        pd.DataFrame(mixture.X_target, columns=names),
        given,
        label=HOSTILE[2],
        same_features=False,
        ids=(ids, ids),
        names=(HOSTILE[0], HOSTILE[3]),
    ) | {"command": f"unshift fit {' '.join(HOSTILE)}", "notes": HOSTILE}


def shifted_fit(classes: int = 3, seed: int = 0, n: int = 240, d: int = 6) -> dict[str, Any]:
    """Corresponding columns, mixed, stretched and moved, with a few target labels."""
    rng = np.random.default_rng(seed)
    means = 2.5 * rng.standard_normal((classes, d))
    y, y_target = rng.integers(classes, size=(2, n))
    X, X_target = (means[labels] + rng.gamma(2.0, 0.5, (n, d)) for labels in (y, y_target))
    X_target = X_target @ (np.eye(d) + 0.2 * rng.standard_normal((d, d))) + rng.standard_normal(d)
    given = np.array([f"kind {c}" for c in y_target], dtype=object)
    given[8:] = None
    names = [f"feature {j}" for j in range(d)]
    return fit(
        pd.DataFrame(X, columns=names),
        np.array([f"kind {c}" for c in y]),
        pd.DataFrame(X_target, columns=names),
        given,
        label="kind",
        ids=({"sample": np.arange(n)}, {"sample": [f"T{i}" for i in range(n)]}),
    )


def number_fit() -> dict[str, Any]:
    """Numbers to predict, with fractions."""
    rng = np.random.default_rng(1)
    X, X_target = rng.gamma(2.0, 1.0, (300, 4)), 1.5 * rng.gamma(2.0, 1.0, (260, 4)) + 2.0
    y = X @ [1.0, -2.0, 0.5, 3.0] + 0.1 * rng.standard_normal(300)
    return fit(X, y, X_target, label="height")
