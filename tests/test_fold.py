"""A folded model answers on raw target features as the model behind the map does."""

import functools
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model, svm
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

import unshift
from planted import view
from unshift.datasets import make_mixture
from unshift.fold import fold
from unshift.model import Model, linear_predictor

Array = np.ndarray[Any, Any]
N = 120

CLASSIFIERS = [
    linear_model.LogisticRegression(),
    linear_model.LogisticRegression(fit_intercept=False),
    linear_model.RidgeClassifier(),
    linear_model.SGDClassifier(random_state=0),
    linear_model.SGDClassifier(loss="log_loss", average=True, random_state=0),
    linear_model.Perceptron(random_state=0),
    svm.LinearSVC(random_state=0),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1),
]
REGRESSORS = [
    linear_model.LinearRegression(),
    linear_model.LinearRegression(fit_intercept=False),
    linear_model.Ridge(),
    linear_model.Ridge(fit_intercept=False),
    linear_model.RidgeCV(),
    linear_model.Lasso(alpha=1e-3),
    linear_model.ElasticNet(alpha=1e-3),
    linear_model.Lars(),
    linear_model.OrthogonalMatchingPursuit(),
    linear_model.SGDRegressor(random_state=0),
    linear_model.HuberRegressor(max_iter=1000),
    linear_model.BayesianRidge(),
    linear_model.ARDRegression(),
    linear_model.PoissonRegressor(),
    linear_model.GammaRegressor(),
    svm.LinearSVR(random_state=0),
]


def called(model: Any) -> str:
    return type(model).__name__


def fitted(model: Any, X: Any, y: Array) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


@functools.cache
def aligned(dtype: Any, mean: float) -> tuple[unshift.Alignment, Array, Array, Array]:
    source, target = view(4, 1, n=N), view(6, 2, n=N)
    X, Z = ((v.rows + mean * v.rows.std(axis=0)).astype(dtype) for v in (source, target))
    X.flags.writeable = Z.flags.writeable = False
    alignment = unshift.align(X, Z, n_components=3, n_starts=1, random_state=0)
    return alignment, X, Z, source.labels


def classes(
    n: int, dtype: Any = np.float64, mean: float = 0.0
) -> tuple[unshift.Alignment, Any, Any, Array]:
    """4 source features with 6 target features aligned, n classes, means in deviations."""
    alignment, X, Z, labels = aligned(dtype, mean)
    return alignment, X, Z, labels % n


def numbers(X: Array) -> Array:
    """Positive, and all but linear in the rows."""
    return np.exp(0.3 * (X[:, 0] - X[:, 0].mean()) / X[:, 0].std() + 0.1 * np.sin(X[:, 1]))


def answers(model: Any) -> list[str]:
    return [
        name for name in ("predict", "predict_proba", "decision_function") if hasattr(model, name)
    ]


def assert_same(folded: Any, model: Any, mapped: Any, X: Any, tol: float = 1e-9) -> None:
    for answer in answers(model):
        expected = getattr(model, answer)(mapped)
        got = getattr(folded, answer)(X)
        if answer == "predict" and hasattr(model, "classes_"):
            np.testing.assert_array_equal(got, expected)
        else:
            np.testing.assert_allclose(got, expected, rtol=tol, atol=tol * np.abs(expected).max())


@pytest.mark.parametrize("space", ["source", "shared"])
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=called)
def test_a_folded_classifier_is_the_classifier_behind_the_map(model: Any, n: int, space: str):
    alignment, X, Z, y = classes(n)
    y = np.array(["a", "b", "c", "d"])[y]
    map_ = alignment.target_to_source if space == "source" else alignment.target
    model = fitted(model, X if space == "source" else alignment.source(X), y)
    before = model.coef_.copy()
    folded = alignment.fold(model, space=space)
    assert type(folded) is type(model)
    assert folded.n_features_in_ == 6
    assert folded.coef_.shape == (*model.coef_.shape[:-1], 6)
    assert_same(folded, model, map_(Z), Z)
    np.testing.assert_array_equal(model.coef_, before)


@pytest.mark.parametrize("model", REGRESSORS, ids=called)
def test_a_folded_regressor_is_the_regressor_behind_the_map(model: Any) -> None:
    alignment, X, Z, _ = classes(2)
    model = fitted(model, alignment.source(X), numbers(X))
    folded = alignment.fold(model)
    assert np.ndim(folded.intercept_) == np.ndim(model.intercept_)
    assert_same(folded, model, alignment.target(Z), Z)


@pytest.mark.parametrize("model", [linear_model.Ridge(), linear_model.MultiTaskLasso(alpha=1e-3)])
def test_several_numbers_at_once(model: Any) -> None:
    alignment, X, Z, _ = classes(2)
    model = model.fit(X, np.c_[numbers(X), X[:, 2]])
    assert_same(alignment.fold(model), model, alignment.target_to_source(Z), Z)


@pytest.mark.parametrize("n", [2, 4])
def test_float32_rows_and_models(n: int) -> None:
    alignment, X, Z, y = classes(n, np.float32)
    model = linear_model.LogisticRegression().fit(alignment.source(X), y)
    assert model.coef_.dtype == np.float32
    folded = alignment.fold(model)
    assert_same(folded, model, alignment.target(Z), Z, tol=1e-5)


def test_means_a_million_times_the_spread_leave_rounding_of_double() -> None:
    alignment, X, Z, y = classes(3, mean=1e6)
    model = make_pipeline(StandardScaler(), linear_model.LogisticRegression()).fit(X, y)
    folded = alignment.fold(model, space="source")
    assert_same(folded, model, alignment.target_to_source(Z), Z, tol=1e-7)
    # float32 rows have lost digits before any model sees them; the folded one loses no more
    rows = Z.astype(np.float32)
    expected = model.predict_proba(alignment.target_to_source(rows.astype(np.float64)))
    np.testing.assert_allclose(folded.predict_proba(rows), expected, atol=1e-6)


def test_scalers_of_many_columns_cost_no_square_matrix() -> None:
    width = 20_000  # whose square would take 3.2 GB
    X = np.random.default_rng(0).standard_normal((20, width))
    model = make_pipeline(StandardScaler(), linear_model.Ridge()).fit(X, X[:, 0])
    map_ = unshift.AffineMap(np.ones(2), np.ones((2, width)), np.zeros(width))
    folded = fold(model, map_, np.eye(2))
    assert folded.coef_.shape == (2,)
    rows = np.array([[3.0, -1.0]])
    np.testing.assert_allclose(folded.predict(rows), model.predict(map_(rows)), rtol=1e-9)


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [StandardScaler(with_mean=False)],
        [StandardScaler(with_std=False), MaxAbsScaler()],
        [MinMaxScaler((-2, 3)), "passthrough", StandardScaler()],
        [RobustScaler()],
        [RobustScaler(with_centering=False), RobustScaler(with_scaling=False)],
        [StandardScaler(), PCA(2)],
        ["passthrough", PCA(3, whiten=True)],
    ],
    ids=str,
)
def test_scalers_before_the_model_are_folded_too(steps: list[Any]) -> None:
    alignment, X, Z, y = classes(4)
    scaled = make_pipeline(*steps, linear_model.LogisticRegression()).fit(X * [1, 9, 1e3, 1e-2], y)
    shift = unshift.align(
        X * [1, 9, 1e3, 1e-2], Z, n_components=3, n_starts=1, same_features=False, random_state=0
    )
    folded = shift.fold(scaled, space="source")
    assert type(folded) is linear_model.LogisticRegression
    assert_same(folded, scaled, shift.target_to_source(Z), Z, tol=1e-8)
    assert alignment.fold(make_pipeline(linear_model.Ridge().fit(X, y))).coef_.shape == (6,)


def test_a_search_over_parameters_folds_into_the_best() -> None:
    alignment, X, Z, y = classes(2)
    inner = make_pipeline(StandardScaler(), linear_model.LogisticRegression())
    model = GridSearchCV(inner, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(X, y)
    folded = alignment.fold(model)
    assert type(folded) is linear_model.LogisticRegression
    assert_same(folded, model, alignment.target_to_source(Z), Z)


def test_pipelines_may_be_nested() -> None:
    alignment, X, Z, y = classes(2)
    inner = make_pipeline(MinMaxScaler(), linear_model.Ridge())
    model = Pipeline([("first", StandardScaler()), ("then", inner)]).fit(X, y)
    assert_same(alignment.fold(model), model, alignment.target_to_source(Z), Z)


def test_without_adaptation_a_model_comes_back_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 3)) + 5.0, np.arange(200) % 2
    X[:, 0] += 3.0 * y
    alignment = unshift.align(X, X + 1e-3 * rng.standard_normal(X.shape), y, random_state=0)
    assert alignment.candidates[0].kind == "no adaptation"
    model = linear_model.LogisticRegression().fit(X, y)
    folded = alignment.fold(model)
    assert folded is not model
    np.testing.assert_array_equal(folded.decision_function(X), model.decision_function(X))


def test_a_candidate_by_hand_is_folded_as_the_one_in_force() -> None:
    data = make_mixture(4)
    alignment = unshift.align(
        data.X_source, data.X_target, data.y_source, same_features=False, random_state=0
    ).prefer(1)
    model = linear_model.LogisticRegression().fit(data.X_source, data.y_source)
    folded = alignment.fold(model, space="source")
    assert_same(folded, model, alignment.target_to_source(data.X_target), data.X_target)


def frames() -> tuple[unshift.Alignment, pd.DataFrame, pd.DataFrame, Array]:
    source, target = view(3, 1, n=N), view(3, 2, n=N)
    X = pd.DataFrame(source.rows, columns=["a", "b", "c"])
    Z = pd.DataFrame(target.rows, columns=["u", "v", "w"])
    alignment = unshift.align(X, Z, n_components=3, n_starts=1, random_state=0)
    return alignment, X, Z, source.labels % 2


def test_a_folded_model_knows_the_targets_names_and_checks_them() -> None:
    alignment, X, Z, y = frames()
    model = linear_model.LogisticRegression().fit(X, y)
    folded = alignment.fold(model)  # its names say that it was trained on source features
    assert list(folded.feature_names_in_) == ["u", "v", "w"]
    assert_same(folded, model, alignment.target_to_source(Z), Z)
    with pytest.raises(ValueError, match="feature names should match"):
        folded.predict(X)
    shared = linear_model.LogisticRegression().fit(alignment.source(X), y)
    assert_same(alignment.fold(shared), shared, alignment.target(Z), Z)


def test_a_folded_model_forgets_names_that_the_target_has_not() -> None:
    alignment, X, Z, y = classes(2)
    named = pd.DataFrame(X, columns=list("abcd"))
    folded = alignment.fold(linear_model.LogisticRegression().fit(named, y))
    assert not hasattr(folded, "feature_names_in_")
    folded.predict(Z)


def test_sparse_coefficients_are_folded() -> None:
    alignment, X, Z, y = classes(4)
    model = linear_model.LogisticRegression().fit(X, y)
    dense = model.decision_function(alignment.target_to_source(Z))
    folded = alignment.fold(model.sparsify())
    np.testing.assert_allclose(folded.decision_function(Z), dense, atol=1e-9)


def test_what_else_was_learned_in_the_old_space_is_gone() -> None:
    alignment, X, Z, y = classes(4)
    folded = alignment.fold(LinearDiscriminantAnalysis().fit(X, y))
    with pytest.raises(AttributeError):
        folded.transform(Z)
    folded = alignment.fold(linear_model.BayesianRidge().fit(X, y))
    with pytest.raises(AttributeError):
        folded.predict(Z, return_std=True)


@pytest.mark.parametrize("estimator", [None, linear_model.LogisticRegression(), svm.LinearSVC()])
def test_an_aligned_classifier_folds_into_its_linear_model(estimator: Any) -> None:
    _, X, Z, y = classes(4)
    aligned = unshift.AlignedClassifier(estimator, n_components=3, n_starts=1, random_state=0)
    aligned.fit(X, y, X_target=Z)
    folded = aligned.fold()
    np.testing.assert_array_equal(folded.predict(Z), aligned.predict(Z))
    answer = "predict_proba" if hasattr(aligned, "predict_proba") else "decision_function"
    np.testing.assert_allclose(
        getattr(folded, answer)(Z), getattr(aligned, answer)(Z), rtol=1e-9, atol=1e-9
    )


def test_an_aligned_regressor_folds_into_its_linear_model() -> None:
    _, X, Z, _ = classes(2)
    aligned = unshift.AlignedRegressor(n_components=3, n_starts=1, random_state=0)
    aligned.fit(X, numbers(X), X_target=Z)
    np.testing.assert_allclose(aligned.fold().predict(Z), aligned.predict(Z), rtol=1e-9)


def test_the_command_lines_predictor_folds() -> None:
    alignment, X, Z, y = classes(4)
    predictor = linear_predictor(alignment.source(X), y, "classification")
    model = Model(alignment, predictor, "label")
    for folded in (model.fold(), alignment.fold(predictor)):
        assert_same(folded, predictor, alignment.target(Z), Z)
    of_source = linear_predictor(X, y, "classification")
    folded = alignment.fold(of_source, space="source")
    assert_same(folded, of_source, alignment.target_to_source(Z), Z)


def square() -> tuple[unshift.Alignment, Array, Array]:
    alignment = unshift.align(
        view(3, 1, n=N).rows, view(3, 2, n=N).rows, n_components=3, n_starts=1, random_state=0,
        same_features=False,
    )  # fmt: skip
    source = view(3, 1, n=N)
    return alignment, source.rows, source.labels % 2


def test_a_width_of_both_spaces_must_be_told_apart() -> None:
    alignment, X, y = square()
    model = linear_model.LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match=r"takes 3 features, and so many have both.*space='sou"):
        alignment.fold(model)
    first = alignment.fold(model, space="source").coef_
    assert not np.allclose(first, alignment.fold(model, space="shared").coef_)


class Doubler(StandardScaler):  # type: ignore[misc]
    """A subclass may do otherwise than its parent."""

    def transform(self, X: Any, copy: Any = None) -> Any:
        return 2 * super().transform(X, copy)


def svc(X: Array, y: Array) -> Any:
    return svm.SVC(kernel="linear").fit(X, y)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda X, y: RandomForestClassifier(3).fit(X, y), TypeError, "RandomForestClassifier is"),
        (svc, TypeError, r"SVC is no linear model.*from unshift.onnx import to_onnx"),
        (lambda X, y: PLSRegression(2).fit(X, y), TypeError, "PLSRegression has coef_.*does not"),
        (
            lambda X, y: make_pipeline(PolynomialFeatures(), linear_model.Ridge()).fit(X, y),
            TypeError,
            "Step 'polynomialfeatures' of the pipeline.*StandardScaler, MinMax",
        ),
        (
            lambda X, y: make_pipeline(Doubler(), linear_model.Ridge()).fit(X, y),
            TypeError,
            "Step 'doubler' of the pipeline, Doubler, is no affine step",
        ),
        (
            lambda X, y: make_pipeline(MinMaxScaler(clip=True), linear_model.Ridge()).fit(X, y),
            TypeError,
            "Step 'minmaxscaler'.*without clipping",
        ),
        (lambda X, y: linear_model.Ridge(), NotFittedError, "not fitted yet"),
        (lambda X, y: linear_model.Ridge, TypeError, "takes a fitted scikit-learn model; got <cl"),
        (lambda X, y: X, TypeError, "takes a fitted scikit-learn model; got array"),
        (
            lambda X, y: linear_model.Ridge().fit(X[:, :2], y),
            ValueError,
            "takes 2 features, but the source has 4 and the shared space 3. Pass",
        ),
    ],
)
def test_what_cannot_be_folded_is_refused(make: Any, error: type, message: str) -> None:
    alignment, X, _, y = classes(2)
    with pytest.raises(error, match=message):
        alignment.fold(make(X, y))


def test_the_space_that_was_named_must_fit() -> None:
    alignment, X, _, y = classes(2)
    model = linear_model.Ridge().fit(X, y)
    with pytest.raises(ValueError, match=r"takes 4 features.*shared space 3 \(space='shared'\)"):
        alignment.fold(model, space="shared")
    with pytest.raises(ValueError, match="space should be one of"):
        alignment.fold(model, space="target")


def test_other_names_than_the_sources_are_refused() -> None:
    alignment, X, _, y = frames()
    model = linear_model.LogisticRegression().fit(X.rename(columns={"b": "other"}), y)
    with pytest.raises(ValueError, match=r"has \['a', 'other', 'c'\], the alignment \['a', 'b'"):
        alignment.fold(model, space="source")
