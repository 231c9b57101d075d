"""A model in one file: the alignment and the linear predictor that was trained on its source."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from . import storage
from ._arrays import FloatArray
from ._checks import check_option
from .affine import AffineMap
from .alignment import Alignment, pack_alignment, unpack_alignment
from .many import load
from .predictors import Standardized, default_estimator, fit_estimator

Array = npt.NDArray[Any]
Matrix = npt.NDArray[np.float64]

# Linear estimators that a model file can hold, the default first.
PREDICTORS = {"classification": ("logistic", "lda"), "regression": ("ridge", "linear", "huber")}

PREDICTOR, CLASSES = "predictor", "predictor.classes"


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """Scores ``(x - center) @ weights + intercept`` of rows in the shared space.

    With ``classes`` (k,) there is a score a class, and probabilities are their softmax; without,
    the one score is the number predicted.
    """

    scores: AffineMap
    classes: Array | None

    def predict(self, shared: Matrix) -> Array:
        """The class of the highest score, or the number, for each row (n,)."""
        scores: Matrix = self.scores(shared)
        if self.classes is None:
            return scores[:, 0]
        predicted: Array = self.classes[scores.argmax(axis=1)]
        return predicted

    def answers(self, columns: FloatArray) -> tuple[Array, FloatArray | None]:
        """For checked columns (p, n), in one go: what is predicted, and the probabilities (n, k).

        The bits are those of ``predict`` and ``predict_proba`` for the same rows.
        """
        scores = np.ascontiguousarray(self.scores.columns(columns).T)
        if self.classes is None:
            return scores[:, 0], None
        return self.classes[scores.argmax(axis=1)], softmax(scores, axis=1)

    def predict_proba(self, shared: Matrix) -> Matrix:
        """Probabilities (n, k) of the classes."""
        probabilities: Matrix = softmax(self.scores(shared), axis=1)
        return probabilities

    def behind(self, map_: AffineMap) -> LinearPredictor:
        """The same predictor for rows that the map takes."""
        return replace(self, scores=map_.then(self.scores))


def named_estimator(name: str, task: str) -> Standardized:
    """An unfitted estimator of PREDICTORS, by its name."""
    from sklearn import discriminant_analysis, linear_model

    makers: dict[str, Callable[[], Any]] = {
        "logistic": lambda: linear_model.LogisticRegression(max_iter=2000),
        "lda": discriminant_analysis.LinearDiscriminantAnalysis,
        "ridge": linear_model.Ridge,
        "linear": linear_model.LinearRegression,
        "huber": lambda: linear_model.HuberRegressor(max_iter=1000),
    }
    check_option(name, "predictor", tuple(makers))
    if name not in PREDICTORS[task]:
        raise ValueError(
            f"The predictor {name!r} is not for {task}: expected one of "
            f"{', '.join(PREDICTORS[task])}, or another task."
        )
    return Standardized(makers[name]())


def linear_predictor(
    shared: FloatArray, y: Array, task: str, estimator: Any = None
) -> LinearPredictor:
    """An estimator, the default one for None, trained on the source in the shared space (n, p).

    Of two classes there is one score, that of the second: the first one's is 0.
    """
    estimator = default_estimator(task) if estimator is None else estimator
    fitted = fit_estimator(estimator, shared, y, None)
    linear = fitted.estimator_
    weights = np.atleast_2d(linear.coef_).T / fitted.scale_[:, None]
    intercept = np.atleast_1d(linear.intercept_).astype(np.float64)
    classes = None
    if task == "classification":
        classes = np.asarray(linear.classes_)
        if classes.size == 2:
            weights = np.hstack([np.zeros_like(weights), weights])
            intercept = np.concatenate([[0.0], intercept])
    return LinearPredictor(AffineMap(fitted.center_, weights, intercept), classes)


@dataclass(frozen=True, eq=False)
class Model:
    """An alignment, the predictor on its shared space, and the name of what it predicts.

    ``categories`` are those of the target's columns of text, which became columns of 0 and 1.
    """

    alignment: Alignment
    predictor: LinearPredictor
    label: str
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def fold(self) -> LinearPredictor:
        """The predictor for the target's raw features."""
        return self.predictor.behind(self.alignment.target)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file without pickle; ``unshift.load`` reads the alignment in it."""
        header, arrays = pack_alignment(self.alignment)
        scores = storage.pack_map(self.predictor.scores, PREDICTOR, arrays)
        header[PREDICTOR] = {"label": self.label, "scores": scores}
        if self.categories:
            header[PREDICTOR]["categories"] = dict(self.categories)
        if self.predictor.classes is not None:
            arrays[CLASSES] = self.predictor.classes
        storage.write(path, header, arrays)


def load_alignment(path: str | os.PathLike[str]) -> Alignment:
    """The alignment of two domains in a file, with or without a predictor."""
    with _of_this_version(path):
        loaded = load(path)
    if not isinstance(loaded, Alignment):
        raise ValueError(
            f"{os.fspath(path)} aligns more than two domains, which the commands do not take. "
            "In Python, unshift.load reads it."
        )
    return loaded


def load_model(path: str | os.PathLike[str]) -> Model:
    """The model that ``Model.save`` wrote, the same bits."""
    header, arrays = storage.read(path)
    if PREDICTOR not in header:
        raise ValueError(
            f"{os.fspath(path)} holds no predictor, so it cannot predict. "
            "Make a model with 'unshift fit'."
        )
    with _of_this_version(path):
        fields = header[PREDICTOR]
        scores = storage.unpack_map(fields["scores"], PREDICTOR, arrays)
        predictor = LinearPredictor(scores, arrays.get(CLASSES))
        categories = {c: tuple(values) for c, values in fields.get("categories", {}).items()}
        alignment = unpack_alignment(header, arrays)
    return Model(alignment, predictor, fields["label"], categories)


def model_or_none(path: str | os.PathLike[str]) -> Model | None:
    """The model in a file; None where the file holds an alignment alone."""
    return load_model(path) if PREDICTOR in storage.read(path)[0] else None


@contextmanager
def _of_this_version(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise ValueError(
            f"{os.fspath(path)} lacks {error}: another version of unshift saved it. Fit again."
        ) from error
