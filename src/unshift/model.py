"""A model in one file: the alignment and the linear predictor that was trained on its source."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from . import storage
from .affine import AffineMap
from .alignment import Alignment, pack_alignment, unpack_alignment
from .many import load
from .predictors import default_estimator, fit_estimator

Array = npt.NDArray[Any]
Matrix = npt.NDArray[np.float64]

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

    def predict_proba(self, shared: Matrix) -> Matrix:
        """Probabilities (n, k) of the classes."""
        probabilities: Matrix = softmax(self.scores(shared), axis=1)
        return probabilities

    def behind(self, map_: AffineMap) -> LinearPredictor:
        """The same predictor for rows that the map takes."""
        return replace(self, scores=map_.then(self.scores))


def linear_predictor(shared: Matrix, y: Array, task: str) -> LinearPredictor:
    """The default estimator, trained on the source's rows in the shared space (n, p).

    Logistic regression of two classes has one score, that of the second: the first one's is 0.
    """
    fitted = fit_estimator(default_estimator(task), shared, y, None)
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
    """An alignment, the predictor on its shared space, and the name of what it predicts."""

    alignment: Alignment
    predictor: LinearPredictor
    label: str

    def fold(self) -> LinearPredictor:
        """The predictor for the target's raw features."""
        return self.predictor.behind(self.alignment.target)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file without pickle; ``unshift.load`` reads the alignment in it."""
        header, arrays = pack_alignment(self.alignment)
        scores = storage.pack_map(self.predictor.scores, PREDICTOR, arrays)
        header[PREDICTOR] = {"label": self.label, "scores": scores}
        if self.predictor.classes is not None:
            arrays[CLASSES] = self.predictor.classes
        storage.write(path, header, arrays)


def load_alignment(path: str | os.PathLike[str]) -> Alignment:
    """The alignment of two domains in a file, with or without a predictor."""
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
    fields = header[PREDICTOR]
    scores = storage.unpack_map(fields["scores"], PREDICTOR, arrays)
    predictor = LinearPredictor(scores, arrays.get(CLASSES))
    return Model(unpack_alignment(header, arrays), predictor, fields["label"])
