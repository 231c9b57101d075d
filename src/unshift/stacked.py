"""The forms in which an estimator is given its domains, read into one.

Side by side: the rows of ``X`` are the source, those of ``X_target`` the target. Stacked: one
``X``, and ``sample_domain`` says of each row where it is from, 0 or above for the source, below 0
for the target (the convention of skada). Neither: one domain, its own target.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ._arrays import is_frame, take_rows
from ._checks import check_matrix, check_weights
from .labels import Labels, check_labels, label_array, read_labels, task_of

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

# What stands for "unknown" among the classes of stacked target rows, besides None, NaN and NA: the
# splitters of scikit-learn accept a class there, but no missing value.
UNKNOWN = -1

# The modules of scikit-learn that hand metadata on whole: anything else may cut it into folds.
WHOLE = ("sklearn.base", "sklearn.compose", "sklearn.pipeline", "sklearn.utils")


@dataclass(frozen=True, eq=False)
class Domains:
    """Rows of the source and of the target, with what is known of each.

    ``target`` is None where there is one domain. Rows are frames where frames came in, so that
    columns keep their names.
    """

    source: Any
    target: Any
    y_source: Array | None
    y_target: Array | None
    weights_source: Vector | None
    weights_target: Vector | None
    stacked: bool
    task: str


def read_domains(
    X: Any,
    y: Any,
    X_target: Any,
    y_target: Any,
    sample_domain: Any,
    sample_weight: Any,
    task: str,
) -> Domains:
    """What ``fit`` was given, in whichever form; the labels settle a ``task`` that is "auto"."""
    rows = check_matrix(X, "X")
    weights = check_weights(sample_weight, rows.shape[0], "sample_weight")
    X = X if is_frame(X) else rows
    if sample_domain is not None:
        if X_target is not None or y_target is not None:
            raise ValueError(
                "Both sample_domain and X_target (or y_target) were given. Pass two domains either "
                "as X and X_target, or as one stacked X with sample_domain and all labels in y."
            )
        y = None if y is None else _one_column(y)
        return _split(X, rows.shape[0], y, target_rows(sample_domain, rows.shape[0]), weights, task)
    if X_target is None and y_target is not None:
        raise ValueError(
            "y_target was given without X_target, the rows that it labels. Pass X_target too."
        )
    if X_target is not None:
        refuse_splitters()
        matrix = check_matrix(X_target, "X_target")
        X_target = X_target if is_frame(X_target) else matrix
    elif task == "auto":
        y = None  # a transformer of one domain has no use for labels, whatever they are
    labels, task = _source_labels(y, rows.shape[0], task)
    return Domains(X, X_target, labels, y_target, weights, None, False, task)


def _split(
    X: Any, n_rows: int, y: Array | None, is_target: Mask, weights: Vector | None, task: str
) -> Domains:
    """The stacked form taken apart."""
    parts = np.flatnonzero(~is_target), np.flatnonzero(is_target)
    if min(part.size for part in parts) < 2:
        raise ValueError(
            f"sample_domain marks {parts[0].size} source rows (>= 0) and {parts[1].size} target "
            "rows (< 0), but each domain needs at least two. In cross-validation every training "
            "fold needs rows of both: shuffle, use fewer folds, or stratify by domain."
        )
    labels, y_target = None, None
    if y is not None:
        if y.shape[0] != n_rows:
            raise ValueError(f"y has {y.shape[0]} labels, but X has {n_rows} rows: one each.")
        labels, task = _source_labels(y[parts[0]], parts[0].size, task)
        assert labels is not None
        classes = None if task == "regression" else np.unique(labels)
        truth = read_truth(y[parts[1]], np.ones(parts[1].size, dtype=np.bool_), classes)
        if truth.known.any():
            y_target = truth.values.astype(object)
            y_target[~truth.known] = None
    w_source, w_target = (None if weights is None else weights[part] for part in parts)
    source, target = (take_rows(X, part) for part in parts)
    return Domains(source, target, labels, y_target, w_source, w_target, True, task)


def target_rows(sample_domain: Any, n_rows: int) -> Mask:
    """True where a row is of the target (n,): its domain is below 0."""
    given = np.asarray(sample_domain)
    if given.dtype.kind == "b":
        raise ValueError(
            "sample_domain should hold whole numbers, 0 or above for source rows and below 0 for "
            "target rows; got true and false. Pass np.where(is_target, -1, 0)."
        )
    try:
        values = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "sample_domain should hold whole numbers, 0 or above for source rows and below 0 for "
            f"target rows: {error}."
        ) from error
    if values.shape != (n_rows,):
        raise ValueError(
            f"sample_domain should have shape ({n_rows},), one domain a row; got {values.shape}."
        )
    if not (np.isfinite(values) & (values == np.round(values))).all():
        raise ValueError(
            "sample_domain should hold whole numbers, 0 or above for source rows and below 0 for "
            "target rows; got NaN, infinity or fractions."
        )
    mask: Mask = values < 0
    return mask


def read_truth(y: Any, is_target: Mask, classes: Array | None) -> Labels:
    """Labels of rows of either domain; ``UNKNOWN`` is no label on target rows, unless a class.

    ``classes`` are those of the source, None for regression, where -1 is a number like any other.
    """
    values = _one_column(y)
    if classes is not None and values.shape == is_target.shape and not _marked(classes).any():
        unknown = is_target & _marked(values)
        if unknown.any():
            values = values.astype(object)
            values[unknown] = None
    return read_labels(values, is_target.size, "y")


def _marked(values: Array) -> Mask:
    """Where -1 stands, as a number or, among strings, in writing."""
    if values.dtype.kind in "US":
        written = str(UNKNOWN) if values.dtype.kind == "U" else str(UNKNOWN).encode()
        return np.asarray(values == written, dtype=np.bool_)
    if values.dtype.kind != "O":
        return np.asarray(values == UNKNOWN, dtype=np.bool_)
    # NA cannot be compared, so the kind is asked first.
    kinds, marks = (str, int, float, np.number), (UNKNOWN, str(UNKNOWN))
    return np.array([isinstance(v, kinds) and v in marks for v in values], dtype=np.bool_)


def _source_labels(y: Any, n_rows: int, task: str) -> tuple[Array | None, str]:
    """Labels to train on, all known, and what they ask for."""
    if y is None:
        return None, task
    labels = read_labels(_one_column(y), n_rows, "y")
    if not labels.known.all():
        unknown = int((~labels.known).sum())
        raise ValueError(
            f"y has {unknown} unknown labels among the {n_rows} source rows: None, NaN or NA. "
            "What is trained on the source needs all of them: drop those rows."
        )
    task = task_of(labels) if task == "auto" else task
    check_labels(labels, None, task)
    if task == "classification":
        check_classification_targets(labels.values)
    return labels.values, task


def _one_column(y: Any) -> Array:
    values = label_array(y)
    return column_or_1d(values, warn=True) if values.ndim == 2 else values


def refuse_splitters() -> None:
    """Refuse ``X_target`` from within a cross-validator or anything else that may cut rows.

    Scikit-learn takes whatever is as long as ``X`` for metadata of its rows: where the row counts
    happen to agree, ``X_target`` is cut by the source's folds, and where they do not, the held-out
    source rows are still scored as target rows. An array that was cut looks like one that was
    not, and neither cloning nor metadata routing tells an estimator who fits it. The stack of
    calls does, in worker processes too, so this asks there.
    """
    module = splitter()
    if module is not None:
        raise ValueError(
            f"X_target came through {module}, which cuts arrays as long as X into folds and scores "
            "held-out source rows as if they were target rows. Cross-validation, searches and "
            "ensembles need the stacked form: fit(X, y, sample_domain=...) with the rows of both "
            "domains in X, sample_domain 0 or above for source rows and below 0 for target rows, "
            "and y -1 (for regression NaN) where a target label is unknown."
        )


def splitter() -> str | None:
    """The module of scikit-learn that called and may cut rows into parts; None where none did."""
    return next((name for name, _ in _cutting_frames()), None)


def refuse_unrouted(method: str) -> None:
    """Refuse to take held-out rows of both domains for target rows, for lack of sample_domain."""
    for module, function in _cutting_frames():
        # Fitted searches and ensembles hand predict on in the same modules: that is no validation.
        if function.startswith(("fit", "_fit")):
            raise ValueError(
                f"{module} called {method} without sample_domain, so held-out rows of the source "
                "would be taken for target rows. Enable metadata routing "
                "(sklearn.set_config(enable_metadata_routing=True)), call "
                "set_score_request(sample_domain=True), and score with the estimator's own score. "
                "Or score with a function that passes domain or sample_domain to predict itself."
            )


def _cutting_frames() -> Iterator[tuple[str, str]]:
    """Module and function of each caller in scikit-learn that may cut rows into parts."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        package = ".".join(module.split(".")[:2])
        if module.startswith("sklearn.") and package not in WHOLE:
            yield module, frame.f_code.co_name
        frame = frame.f_back
