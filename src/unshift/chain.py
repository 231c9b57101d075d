"""A fitted model as what rows go through, one after another: affine steps, and what is not ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from .affine import AffineMap
from .estimators import AffineAligner, AlignedClassifier, AlignedRegressor
from .fold import AffineStep, affine_step, refuse_unfitted, scaling_step
from .model import LinearPredictor, Model
from .predictors import Standardized

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Chain:
    """What rows go through, one after another: affine steps and estimators of scikit-learn."""

    steps: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Scores:
    """The classes (k,) whose scores come in; the highest wins, probabilities are the softmax."""

    classes: npt.NDArray[Any]


def as_step(map_: AffineMap) -> AffineStep:
    """The map as a step of the graph; a vector of factors where its matrix is diagonal."""
    matrix, factors = map_.matrix, np.diagonal(map_.matrix)
    if map_.width_in == map_.width_out and np.count_nonzero(matrix) == np.count_nonzero(factors):
        matrix = factors.copy()
    return AffineStep(map_.center, matrix, map_.offset)


def steps_of(model: Any) -> Iterator[Any]:
    """The affine steps and estimators that the model is made of, in the order rows meet them."""
    if isinstance(model, AffineStep | Scores):
        yield model
    elif isinstance(model, Chain):
        yield from model.steps
    elif isinstance(model, AffineMap):
        yield as_step(model)
    elif isinstance(model, Model):
        yield as_step(model.alignment.target)
        yield from steps_of(model.predictor)
    elif isinstance(model, LinearPredictor):
        yield as_step(model.scores)
        if model.classes is not None:
            yield Scores(model.classes)
    else:
        refuse_unfitted(model, "to_onnx takes a fitted model or a map")
        yield from _steps_of_estimator(model)


def _steps_of_estimator(model: Any) -> Iterator[Any]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.pipeline import Pipeline

    if isinstance(model, AffineAligner):
        yield as_step(model.alignment_.target)
    elif isinstance(model, AlignedClassifier | AlignedRegressor):
        yield as_step(model.alignment_.target)
        yield from steps_of(model.estimator_)
    elif isinstance(model, Standardized):
        yield scaling_step(model.center_, model.scale_, model.n_features_in_)
        yield from steps_of(model.estimator_)
    elif isinstance(model, Pipeline):
        for _, step in model.steps:
            if step is not None and step != "passthrough":
                yield from steps_of(step)
    elif hasattr(model, "best_estimator_"):
        yield from steps_of(model.best_estimator_)
    elif type(model) is LinearDiscriminantAnalysis:
        # Of two classes skl2onnx takes the softmax of both signs of the score: twice too sure.
        yield from _linear_scores(model)
    else:
        # skl2onnx subtracts a scaler's mean in one part, which loses digits of large means.
        step = affine_step(model)
        yield model if step is None else step


def _linear_scores(model: Any) -> Iterator[Any]:
    """Linear scores of the classes, of which the softmax is taken; of two, the first is 0."""
    weights, intercept = model.coef_.T.astype(np.float64), np.atleast_1d(model.intercept_)
    if model.classes_.size == 2:
        weights = np.hstack([np.zeros_like(weights), weights])
        intercept = np.concatenate([[0.0], intercept])
    yield AffineStep(np.zeros(weights.shape[0]), weights, intercept.astype(np.float64))
    yield Scores(model.classes_)


def probes(steps: tuple[Any, ...], n: int) -> Matrix:
    """Rows (n, d) that the affine steps at the beginning bring to the size of one."""
    vectors, rest = [], list(steps)
    while isinstance(rest[0], AffineStep) and rest[0].factors.ndim == 1 and len(rest) > 1:
        vectors.append(rest.pop(0))
    first = rest[0]
    width = first.width_in if isinstance(first, AffineStep) else first.n_features_in_
    rows = np.random.default_rng(0).standard_normal((n, width))
    if isinstance(first, AffineStep):
        sizes = np.linalg.norm(first.factors.reshape(width, -1), axis=1)
        sizes[sizes == 0] = 1.0
        rows = first.center + rows / sizes * np.sqrt(first.width_out / width)
    for step in reversed(vectors):
        factors = np.where(step.factors == 0, 1.0, step.factors)
        rows = (rows - step.offset) / factors + step.center
    return rows


def answers_of(steps: tuple[Any, ...], rows: Any) -> list[Any]:
    """What the model answers, in the order of the graph's outputs."""
    for step in steps[:-1]:
        rows = step(rows) if isinstance(step, AffineStep) else step.transform(rows)
    last = steps[-1]
    if isinstance(last, AffineStep):
        return [last(rows)]
    if isinstance(last, Scores):
        return [last.classes[rows.argmax(axis=1)], softmax(rows, axis=1)]
    answers = [name for name in ("predict", "predict_proba") if hasattr(last, name)]
    return [np.asarray(getattr(last, name)(rows)) for name in answers or ["transform"]]
