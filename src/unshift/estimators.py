"""Alignment as scikit-learn estimators: a transformer, a classifier, a regressor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, OneToOneFeatureMixin, RegressorMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ._checks import check_weights
from .aligned import Aligned
from .choice import BLEND
from .labels import Labels
from .predictors import default_estimator, fit_estimator
from .stacked import read_truth, target_rows

Array = npt.NDArray[Any]


class AffineAligner(TransformerMixin, Aligned):  # type: ignore[misc]
    """Map rows of two domains into one space.

    ``fit`` takes the domains side by side, ``fit(X, X_target=X_target)``, or stacked,
    ``fit(X, sample_domain=domains)`` with domains 0 or above for source rows and below 0 for target
    rows; cross-validation needs the stacked form. Given one domain only, it is its own target, and
    is whitened. ``y`` and ``y_target``, or ``y`` of stacked rows, are labels by which to choose
    among the alignments found. Unknown are None, NaN and NA, and for target rows of the stacked
    form also the class -1, unless the source has it.

    In a Pipeline a following predictor is fitted on the source's rows, and predicts the target's.
    Of stacked rows it is fitted on both domains' with whatever labels they have, unknown ones too:
    there :class:`AlignedClassifier` and :class:`AlignedRegressor` do what is meant.

    Parameters
    ----------
    n_components, bandwidth, same_features, choice, loss, loss_weights, scale, shrinkage, \
outliers, n_starts, n_jobs, random_state
        Those of :func:`unshift.align`.

    Attributes
    ----------
    alignment_ : Alignment
        Maps, candidates and diagnosis.
    n_features_in_, feature_names_in_
        Columns of ``X`` at fit; names only where they are strings.
    n_features_target_, feature_names_target_
        Columns of the target; None where they have no names.
    stacked_ : bool
        Whether ``fit`` was given ``sample_domain``.
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_target: Any = None,
        y_target: Any = None,
        sample_domain: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Find the maps; ``sample_weight`` counts as repetitions of the rows of ``X``."""
        domains = self._read(
            "auto",
            X,
            y,
            X_target=X_target,
            y_target=y_target,
            sample_domain=sample_domain,
            sample_weight=sample_weight,
        )
        self.alignment_ = self._aligned(domains, adapted=True)
        return self

    def transform(self, X: Any, *, domain: str | None = None, sample_domain: Any = None) -> Any:
        """Rows in the shared space: the target's, the ``domain``'s, or each of its own domain."""
        return self._to_shared(X, domain, sample_domain, "transform")

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        X_target: Any = None,
        y_target: Any = None,
        sample_domain: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """Fit, then map the rows of ``X``: as the source's, or stacked each by its own domain."""
        self.fit(
            X,
            y,
            X_target=X_target,
            y_target=y_target,
            sample_domain=sample_domain,
            sample_weight=sample_weight,
        )
        if sample_domain is not None:
            return self.transform(X, sample_domain=sample_domain)
        return self.transform(X, domain="source")

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """``shared0``, ``shared1``, ...; the source's own names where nothing is adapted."""
        check_is_fitted(self)
        first = self.alignment_.candidates[0]
        if first.rotation is None and first.kind != BLEND:
            return OneToOneFeatureMixin.get_feature_names_out(self, input_features)  # type: ignore[no-any-return]
        width = self.alignment_.source.width_out
        return np.array([f"shared{i}" for i in range(width)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        """Rows keep their precision."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _inner_has(method: str) -> Callable[[Any], bool]:
    """Whether the estimator on the shared space has a method, fitted or not."""

    def check(self: Any) -> bool:
        getattr(self.estimator_ if hasattr(self, "estimator_") else self._inner(), method)
        return True

    return check


class _AlignedPredictor(Aligned):
    """An estimator trained on the source's rows in the shared space."""

    _task: str

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_components: int | float | str | None = "auto",
        bandwidth: float | str = "auto",
        same_features: bool | str = "auto",
        choice: str = "auto",
        loss: str = "mmd",
        loss_weights: tuple[float, float] | str = "auto",
        scale: str | None = "auto",
        shrinkage: float | str | None = "auto",
        outliers: str = "auto",
        n_starts: int | str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            n_components=n_components,
            bandwidth=bandwidth,
            same_features=same_features,
            choice=choice,
            loss=loss,
            loss_weights=loss_weights,
            scale=scale,
            shrinkage=shrinkage,
            outliers=outliers,
            n_starts=n_starts,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.estimator = estimator

    def _inner(self) -> Any:
        return default_estimator(self._task) if self.estimator is None else self.estimator

    def _check_kind(self) -> None:
        """Refuse a regressor where classes are asked for, and a classifier where numbers are."""
        tags = getattr(self.estimator, "__sklearn_tags__", None)
        kind = None if tags is None or isinstance(self.estimator, type) else tags().estimator_type
        wanted = "classifier" if self._task == "classification" else "regressor"
        if kind in {"classifier", "regressor"} - {wanted}:
            raise TypeError(
                f"{type(self).__name__} needs a {wanted} as its estimator; "
                f"{type(self.estimator).__name__} is a {kind}."
            )

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_target: Any = None,
        y_target: Any = None,
        sample_domain: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Align the domains, then train the estimator on the source's rows in the shared space.

        ``X`` and ``y`` are the source's, or with ``sample_domain`` the rows of both domains; there
        labels of target rows may be unknown. ``sample_weight`` counts as repetitions of the rows of
        ``X``, in the alignment and in the estimator. Of one domain only, nothing is adapted.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        self._check_kind()
        domains = self._read(
            self._task,
            X,
            y,
            X_target=X_target,
            y_target=y_target,
            sample_domain=sample_domain,
            sample_weight=sample_weight,
        )
        assert domains.y_source is not None
        self.alignment_ = self._aligned(domains, adapted=False, estimator=self._inner())
        rows = np.asarray(self.alignment_.source(domains.source))
        self.estimator_ = fit_estimator(
            self._inner(), rows, domains.y_source, domains.weights_source
        )
        self._note_labels(domains.y_source)
        return self

    def _note_labels(self, y: Array) -> None:
        """What the labels of the source say of later predictions."""

    def predict(self, X: Any, *, domain: str | None = None, sample_domain: Any = None) -> Array:
        """Predictions for rows of the target, of ``domain="source"``, or each of its own domain."""
        return self._answer("predict", X, domain, sample_domain)

    def fold(self) -> Any:
        """The linear estimator as one that takes the target's raw features; see Alignment.fold."""
        check_is_fitted(self)
        return self.alignment_.fold(self.estimator_, space="shared")

    def _answer(self, method: str, X: Any, domain: str | None, sample_domain: Any) -> Array:
        shared = self._to_shared(X, domain, sample_domain, method)
        answer: Array = getattr(self.estimator_, method)(shared)
        return answer

    def _compared(
        self, X: Any, y: Any, weights: Any, domain: str | None, sample_domain: Any
    ) -> tuple[Array, Array, Any]:
        """Labels, predictions and weights of the rows whose label is known."""
        shared = self._to_shared(X, domain, sample_domain, "score")
        truth = self._truth(y, shared.shape[0], domain, sample_domain)
        if not truth.known.any():
            raise ValueError(
                f"None of the {shared.shape[0]} labels in y is known: there is nothing to score. "
                "Pass rows with labels; in cross-validation every fold needs some."
            )
        known = int(truth.known.sum())
        checked = check_weights(weights, shared.shape[0], "sample_weight", least=0)
        if checked is not None:
            of_known = "sample_weight of rows whose label is known"
            weights = check_weights(checked[truth.known], known, of_known, least=1)
        return truth.given, self.estimator_.predict(shared[truth.known]), weights

    def _truth(self, y: Any, n_rows: int, domain: str | None, sample_domain: Any) -> Labels:
        of_target = np.zeros(n_rows, dtype=np.bool_)
        if sample_domain is not None:
            of_target = target_rows(sample_domain, n_rows)
        elif domain != "source":
            of_target[:] = self.stacked_
        return read_truth(y, of_target, getattr(self, "classes_", None))


class AlignedClassifier(ClassifierMixin, _AlignedPredictor):  # type: ignore[misc]
    """Learn classes on one domain, and predict them for another that is not the same.

    The domains are brought into one space, in which ``estimator`` is trained on the source's rows.
    Of one domain only, predictions are those of ``estimator`` itself.

    ``fit`` takes the domains side by side, ``fit(X, y, X_target=X_target)``, or stacked,
    ``fit(X, y, sample_domain=domains)`` with domains 0 or above for source rows and below 0 for
    target rows. Labels of the target, where some are known, are given in ``y_target``, or in ``y``
    of stacked rows; unknown are None, NaN and NA, and for target rows of the stacked form also the
    class -1, unless the source has it.

    Cross-validation and searches need the stacked form, with metadata routing:
    ``set_fit_request(sample_domain=True).set_score_request(sample_domain=True)``. Scorers other
    than the estimator's own cannot pass domains on.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        Logistic regression on standardised columns if None.
    n_components, bandwidth, same_features, choice, loss, loss_weights, scale, shrinkage, \
outliers, n_starts, n_jobs, random_state
        Those of :func:`unshift.align`.

    Attributes
    ----------
    alignment_ : Alignment
        Maps, candidates and diagnosis.
    estimator_ : estimator
        Fitted on the source's rows in the shared space.
    classes_ : array
        Classes of the source, in the order of ``predict_proba``.
    n_features_in_, feature_names_in_, n_features_target_, feature_names_target_, stacked_
        As in :class:`AffineAligner`.
    """

    _task = "classification"

    def _note_labels(self, y: Array) -> None:
        self.classes_ = getattr(self.estimator_, "classes_", np.unique(y))

    @available_if(_inner_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(
        self, X: Any, *, domain: str | None = None, sample_domain: Any = None
    ) -> Array:
        """Probabilities (n, k) of ``classes_``, for rows as in ``predict``."""
        return self._answer("predict_proba", X, domain, sample_domain)

    @available_if(_inner_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(
        self, X: Any, *, domain: str | None = None, sample_domain: Any = None
    ) -> Array:
        """The estimator's decision function, for rows as in ``predict``."""
        return self._answer("decision_function", X, domain, sample_domain)

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        domain: str | None = None,
        sample_domain: Any = None,
    ) -> float:
        """Accuracy on the rows whose label is known, unknown being what it is in ``fit``."""
        from sklearn.metrics import accuracy_score

        truth, predicted, weights = self._compared(X, y, sample_weight, domain, sample_domain)
        return float(accuracy_score(truth, predicted, sample_weight=weights))


class AlignedRegressor(RegressorMixin, _AlignedPredictor):  # type: ignore[misc]
    """Learn numbers on one domain, and predict them for another that is not the same.

    As :class:`AlignedClassifier`, with ridge regression on standardised columns as the default
    ``estimator``. Unknown labels are None, NaN and NA only: -1 is a number like any other.
    """

    _task = "regression"

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        domain: str | None = None,
        sample_domain: Any = None,
    ) -> float:
        """Coefficient of determination R² on the rows whose label is known."""
        from sklearn.metrics import r2_score

        truth, predicted, weights = self._compared(X, y, sample_weight, domain, sample_domain)
        return float(r2_score(truth, predicted, sample_weight=weights))
