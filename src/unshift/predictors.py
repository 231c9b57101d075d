"""Predictors trained on the source's aligned rows, and how they fail on labelled target rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import has_fit_parameter

from ._arrays import FloatArray
from .moments import moments
from .whitening import oas_shrinkage

Vector = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

# Rows that a local predictor goes by, and how much of the dissent is its.
NEIGHBOURS, LOCAL_SHARE = 5, 0.7
# Variance, of columns of deviation 1, below which there is none.
SMALLEST = 1e-9


class Standardized(BaseEstimator):  # type: ignore[misc]
    """``estimator`` on columns of mean 0 and deviation 1, weights counted as repetitions.

    What a plain linear model needs on raw features of unlike units; on whitened rows it changes
    nothing. A Pipeline with a StandardScaler would not pass the weights on.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: FloatArray, y: Array, sample_weight: Vector | None = None) -> Standardized:
        """Learn the columns' scale and the estimator."""
        stats = moments(X, sample_weight)
        deviation = np.sqrt(stats.variances)
        deviation[deviation == 0] = 1.0
        self.center_ = stats.center
        self.scale_ = np.ldexp(deviation, stats.exponent)
        self.estimator_ = clone(self.estimator)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.estimator_.fit(self._scaled(X), y, **weights)
        return self

    @property
    def n_features_in_(self) -> int:
        """Columns at fit."""
        return int(self.center_.shape[0])

    def _scaled(self, X: FloatArray) -> FloatArray:
        scaled: FloatArray = ((X - self.center_) / self.scale_).astype(X.dtype, copy=False)
        return scaled

    def predict(self, X: FloatArray) -> Array:
        """Predictions for rows."""
        predictions: Array = self.estimator_.predict(self._scaled(X))
        return predictions

    def predict_proba(self, X: FloatArray) -> Vector:
        """Probabilities of the classes, in the order of ``classes_``."""
        probabilities: Vector = self.estimator_.predict_proba(self._scaled(X))
        return probabilities

    @property
    def classes_(self) -> Array:
        """Classes in the order of ``predict_proba``."""
        classes: Array = self.estimator_.classes_
        return classes


def default_estimator(task: str) -> Any:
    """Logistic regression for classes, ridge regression for numbers, on standardised columns."""
    # Imported here: it is most of what importing scikit-learn costs.
    from sklearn.linear_model import LogisticRegression, Ridge

    return Standardized(LogisticRegression(max_iter=2000) if task == "classification" else Ridge())


def witnesses(task: str, rows: int) -> tuple[tuple[Any, float], ...]:
    """Estimators of other kinds than the default, and what their dissent counts.

    The nearest rows, which draw no line and extrapolate nothing; for classes also normal densities
    of one covariance, which are linear too but led by all rows rather than by those at the border.
    """
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    k = min(NEIGHBOURS, max(1, rows // 2))  # of half the rows, too
    if task == "regression":
        return ((Standardized(KNeighborsRegressor(k)), 1.0),)
    return (
        (Standardized(KNeighborsClassifier(k)), LOCAL_SHARE),
        (Standardized(NormalDensities()), 1.0 - LOCAL_SHARE),
    )


class NormalDensities(BaseEstimator):  # type: ignore[misc]
    """Classes by normal densities of one covariance, shrunk: ``argmax_c log π_c p(x; μ_c, Σ)``."""

    def fit(self, X: FloatArray, y: Array) -> NormalDensities:
        """Means of the classes (c, d), and ``Σ`` (d, d) of the rows about them."""
        self.classes_, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        means = np.stack([X[codes == code].mean(axis=0) for code in range(counts.size)])
        rest = np.asarray(X - means[codes], dtype=np.float64)
        n, d = rest.shape
        covariance = rest.T @ rest / n
        values = np.linalg.eigvalsh(covariance)
        weight, size = oas_shrinkage(values, d, n), max(float(values.mean()), SMALLEST)
        covariance = (1.0 - weight) * covariance + (weight * size + SMALLEST * size) * np.eye(d)
        self.coef_ = np.linalg.solve(covariance, means.T)
        self.intercept_ = np.log(counts / n) - 0.5 * np.einsum("cd,dc->c", means, self.coef_)
        return self

    def predict(self, X: FloatArray) -> Array:
        """The likeliest class of each row (n,)."""
        likeliest: Array = self.classes_[np.argmax(X @ self.coef_ + self.intercept_, axis=1)]
        return likeliest


def fit_estimator(
    estimator: Any, X: FloatArray, y: Array, weights: Vector | None, **params: Any
) -> Any:
    """A clone of the estimator, fitted; a clear refusal where it cannot take the weights."""
    fitted = clone(estimator)
    if weights is not None:
        if not _takes_weights(fitted):
            raise TypeError(
                f"{type(estimator).__name__}.fit takes no sample_weight. "
                "Leave sample_weight out, or use an estimator that supports it; the steps of a "
                "Pipeline do where they request it and metadata routing is enabled."
            )
        params = {**params, "sample_weight": weights}
    return fitted.fit(X, y, **params)


def _takes_weights(estimator: Any) -> bool:
    """Whether ``fit`` has sample_weight, or hands it on to a part that asks for it."""
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    if not get_config()["enable_metadata_routing"] or not hasattr(
        estimator, "get_metadata_routing"
    ):
        return False
    return "sample_weight" in get_routing_for_object(estimator).consumes("fit", ["sample_weight"])


def errors(predicted: Array, truth: Array, task: str) -> Vector:
    """Error of each row (n,): 1 where the class is wrong, the squared distance for numbers."""
    if task == "classification":
        wrong: Vector = (np.asarray(predicted) != truth).astype(np.float64)
        return wrong
    gaps: Vector = (np.asarray(predicted, dtype=np.float64) - truth.astype(np.float64)) ** 2
    return gaps
