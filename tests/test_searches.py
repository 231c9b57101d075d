"""Routing, searches over stacked rows, and what no splitter may cut."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn import config_context, get_config
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from shifted import QUICK, stacked, two_domains
from unshift import AffineAligner, AlignedClassifier, AlignedRegressor

REFUSED = r"X_target came through sklearn\..*stacked form: fit\(X, y, sample_domain"


@pytest.fixture
def routing() -> Iterator[None]:
    """Metadata routing on."""
    with config_context(enable_metadata_routing=True):
        yield


def routed(estimator: Any) -> Any:
    """The estimator with sample_domain requested wherever it takes it."""
    estimator.set_fit_request(sample_domain=True)
    estimator.set_score_request(sample_domain=True)
    return estimator.set_predict_request(sample_domain=True)


# Routing


@pytest.mark.usefixtures("routing")
def test_requests_are_left_to_the_user() -> None:
    X, y, domains = stacked()
    request = AlignedClassifier().get_metadata_routing()
    for method in ("fit", "score", "predict", "predict_proba", "decision_function"):
        assert getattr(request, method).requests["sample_domain"] is None
    assert set(request.fit.requests) == {"X_target", "y_target", "sample_domain", "sample_weight"}
    with pytest.raises(UnsetMetadataPassedError, match="sample_domain"):
        GridSearchCV(AlignedClassifier(), {"n_components": [1]}).fit(X, y, sample_domain=domains)


@pytest.mark.usefixtures("routing")
def test_pipeline_transforms_the_target_too() -> None:
    X, y, X_target, y_target = two_domains(40, 45)
    classifier = AlignedClassifier(**QUICK).set_fit_request(X_target=True, y_target=True)
    pipeline = Pipeline(
        [("scale", StandardScaler()), ("classify", classifier)], transform_input=["X_target"]
    )
    known = [None] * 30 + y_target[30:].tolist()
    pipeline.fit(X, y, X_target=X_target, y_target=known)
    scale = StandardScaler().fit(X)
    by_hand = AlignedClassifier(**QUICK).fit(
        scale.transform(X), y, X_target=scale.transform(X_target), y_target=known
    )
    expected = by_hand.predict_proba(scale.transform(X_target))
    np.testing.assert_array_equal(pipeline.predict_proba(X_target), expected)


@pytest.mark.usefixtures("routing")
def test_predictor_behind_an_aligner_learns_on_the_source_and_predicts_the_target() -> None:
    X, y, X_target, _ = two_domains()
    aligner = AffineAligner(**QUICK).set_fit_request(X_target=True)
    pipeline = make_pipeline(aligner, LogisticRegression())
    pipeline.fit(X, y, X_target=X_target)
    alignment = pipeline[0].alignment_
    plain = LogisticRegression().fit(alignment.source(X), y)
    expected = plain.predict_proba(alignment.target(X_target))
    np.testing.assert_array_equal(pipeline.predict_proba(X_target), expected)


def test_pipeline_without_routing_takes_the_steps_parameters() -> None:
    X, y, X_target, _ = two_domains()
    pipeline = make_pipeline(AffineAligner(**QUICK), LogisticRegression())
    pipeline.fit(X, y, affinealigner__X_target=X_target)
    assert pipeline[0].n_features_target_ == 3
    assert pipeline.predict(X_target).shape == (57,)


# Searches over the stacked form


class Watched(AlignedClassifier):
    """Writes down which rows were aligned as which domain's."""

    fits: ClassVar[list[tuple[Any, Any]]] = []

    def _aligned(self, domains: Any, adapted: bool, estimator: Any = None) -> Any:
        self.fits.append((domains.source, domains.target))
        return super()._aligned(domains, adapted, estimator)


@pytest.mark.usefixtures("routing")
def test_search_reaches_own_and_inner_parameters_and_never_mixes_domains() -> None:
    X, y, domains = stacked()
    Watched.fits.clear()
    estimator = routed(Watched(LogisticRegression(), n_starts=1, random_state=0))
    grid = {"n_components": [1, 2], "estimator__C": [0.1, 10.0]}
    search = GridSearchCV(estimator, grid, cv=2, error_score="raise")
    search.fit(X, y, sample_domain=domains)
    overall = search.score(X, y, sample_domain=domains)
    assert set(search.best_params_) == set(grid)
    assert len(Watched.fits) == 4 * 2 + 1
    # Target rows lie near 50, source rows near 0.
    for source, target in Watched.fits:
        assert source.max() < 25 < target.min()
        assert source.shape[0] + target.shape[0] in (40, 80)
    assert 0.0 <= overall <= 1.0
    assert search.predict(X[domains < 0]).shape == (40,)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_folds_are_scored_as_by_hand(n_jobs: int | None) -> None:
    X, y, domains = stacked()
    estimator = AlignedClassifier(LogisticRegression(), **QUICK)
    folds = list(StratifiedKFold(3).split(X, domains))
    expected = []
    for train, test in folds:
        source, target = train[domains[train] > 0], train[domains[train] < 0]
        labels = [None if label < 0 else label for label in y[target]]
        estimator.fit(X[source], y[source], X_target=X[target], y_target=labels)
        known = test[y[test] >= 0]
        right = [
            estimator.predict(X[[i]], domain="source" if domains[i] > 0 else "target")[0] == y[i]
            for i in known
        ]
        expected.append(np.mean(right))
    scores = cross_val_score(
        routed(estimator), X, y, cv=folds, params={"sample_domain": domains}, n_jobs=n_jobs
    )
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.usefixtures("routing")
def test_search_over_a_pipeline_routes_domains_to_its_steps() -> None:
    X, y, domains = stacked()
    pipeline = make_pipeline(StandardScaler(), routed(AlignedClassifier(**QUICK)))
    search = GridSearchCV(
        pipeline, {"alignedclassifier__n_components": [1, 2]}, cv=2, error_score="raise"
    ).fit(X, y, sample_domain=domains)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.usefixtures("routing")
def test_search_for_a_regressor_leaves_unknown_numbers_out() -> None:
    X, _, domains = stacked()
    y = np.where((domains > 0) | (np.arange(80) % 3 > 0), X.sum(axis=1), np.nan)
    estimator = routed(AlignedRegressor(n_starts=1, random_state=0))
    search = GridSearchCV(estimator, {"n_components": [1, 2]}, cv=2, error_score="raise")
    search.fit(X, y, sample_domain=domains)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.usefixtures("routing")
def test_fold_without_target_rows_is_named() -> None:
    X, y, domains = stacked()
    order = np.argsort(domains)
    search = GridSearchCV(
        routed(AlignedClassifier(**QUICK)),
        {"n_components": [1]},
        cv=[(order[40:], order[:40])],
        error_score="raise",
    )
    with pytest.raises(ValueError, match=r"40 source rows .* and 0 target rows"):
        search.fit(X, y, sample_domain=domains)


def test_search_without_domains_in_score_is_refused() -> None:
    # Without routing, scikit-learn passes fit parameters to fit alone: held-out rows of the source
    # would be scored as rows of the target.
    X, y, domains = stacked()
    estimator = AlignedClassifier(**QUICK)
    message = r"called score without sample_domain.*set_score_request\(sample_domain=True\)"
    with pytest.raises(ValueError, match=message):
        GridSearchCV(estimator, {"n_components": [1]}, cv=2, error_score="raise").fit(
            X, y, sample_domain=domains
        )
    with pytest.raises(ValueError, match="called predict without sample_domain"):
        cross_val_predict(estimator, X, y, cv=2, params={"sample_domain": domains})


def test_scorer_that_names_the_domain_is_let_through() -> None:
    X, y, domains = stacked(n_known=40)
    target = np.flatnonzero(domains < 0)
    folds = [(np.setdiff1d(np.arange(80), part), part) for part in np.array_split(target, 2)]

    def accuracy(estimator: Any, X: Any, y: Any) -> float:
        return float(np.mean(estimator.predict(X, domain="target") == y))

    scores = cross_val_score(
        AlignedClassifier(**QUICK),
        X,
        y,
        cv=folds,
        scoring=accuracy,
        params={"sample_domain": domains},
        error_score="raise",
    )
    assert scores.shape == (2,)


def test_what_the_user_fitted_may_be_calibrated_on_rows_of_the_target() -> None:
    # A frozen estimator is not fitted to any fold: the rows are what the user says they are.
    X, y, domains = stacked()
    rows, labels = X[domains < 0], two_domains(40, 40)[3]
    classifier = AlignedClassifier(**QUICK).fit(X, y, sample_domain=domains)
    calibrated = CalibratedClassifierCV(FrozenEstimator(classifier), method="sigmoid")
    assert calibrated.fit(rows, labels).predict(rows).shape == (40,)
    with pytest.raises(ValueError, match="called predict without sample_domain"):
        cross_val_predict(classifier, X, y, cv=2, params={"sample_domain": domains})


# X_target and splitters


def in_search(estimator: Any, X: Any, y: Any, **given: Any) -> Any:
    return GridSearchCV(estimator, {"n_components": [1, 2]}, cv=2).fit(X, y, **given)


def in_parallel_search(estimator: Any, X: Any, y: Any, **given: Any) -> Any:
    return GridSearchCV(estimator, {"n_components": [1, 2]}, cv=2, n_jobs=2).fit(X, y, **given)


def in_scores(estimator: Any, X: Any, y: Any, **given: Any) -> Any:
    return cross_val_score(estimator, X, y, cv=2, params=given)


def in_parallel_validation(estimator: Any, X: Any, y: Any, **given: Any) -> Any:
    return cross_validate(estimator, X, y, cv=2, params=given, n_jobs=2)


def in_calibration(estimator: Any, X: Any, y: Any, **given: Any) -> Any:
    return CalibratedClassifierCV(estimator).fit(X, y, **given)


def in_calibration_of_one(estimator: Any, X: Any, y: Any, **given: Any) -> Any:
    return CalibratedClassifierCV(estimator, ensemble=False).fit(X, y, **given)


def in_pipeline_in_search(estimator: Any, X: Any, y: Any, X_target: Any) -> Any:
    routing = get_config()["enable_metadata_routing"]
    pipeline = Pipeline(
        [("scale", StandardScaler()), ("classify", estimator)],
        transform_input=["X_target"] if routing else None,
    )
    given = {"X_target" if routing else "classify__X_target": X_target}
    return GridSearchCV(pipeline, {"classify__n_components": [1, 2]}, cv=2).fit(X, y, **given)


@pytest.mark.parametrize("n_target", [40, 47], ids=["equal", "unequal"])
@pytest.mark.parametrize("routing", [False, True], ids=["plain", "routed"])
@pytest.mark.parametrize(
    "tool",
    [
        in_search,
        in_parallel_search,
        in_scores,
        in_parallel_validation,
        in_calibration,
        in_calibration_of_one,
        in_pipeline_in_search,
    ],
)
def test_no_splitter_may_cut_the_target(
    tool: Callable[..., Any], routing: bool, n_target: int
) -> None:
    X, y, X_target, _ = two_domains(40, n_target)
    with config_context(enable_metadata_routing=routing):
        estimator = AlignedClassifier(**QUICK)
        if routing:
            estimator.set_fit_request(X_target=True)
        with pytest.raises(ValueError, match=f"(?s){REFUSED}"):
            tool(estimator, X, y, X_target=X_target)


def test_y_target_is_refused_with_it() -> None:
    X, y, X_target, y_target = two_domains(50, 50)
    search = GridSearchCV(AlignedClassifier(**QUICK), {"n_components": [1]}, cv=2)
    with pytest.raises(ValueError, match=f"(?s){REFUSED}"):
        search.fit(X, y, X_target=X_target, y_target=y_target)
    with pytest.raises(ValueError, match="y_target was given without X_target"):
        search.fit(X, y, y_target=y_target)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("n_target", [40, 47])
@pytest.mark.parametrize(
    "tool",
    [BaggingClassifier, OneVsOneClassifier, TunedThresholdClassifierCV],
    ids=lambda tool: tool.__name__,
)
def test_no_other_tool_that_takes_rows_apart_may_have_the_target(tool: Any, n_target: int) -> None:
    X, y, X_target, _ = two_domains(40, n_target)
    estimator = AlignedClassifier(**QUICK).set_fit_request(X_target=True)
    with pytest.raises(ValueError, match=REFUSED):
        tool(estimator).fit(X, y, X_target=X_target)


def test_one_domain_may_be_cut() -> None:
    X, y, _, _ = two_domains()
    plain = cross_val_score(LogisticRegression(), X, y, cv=3)
    aligned = cross_val_score(AlignedClassifier(LogisticRegression()), X, y, cv=3)
    np.testing.assert_array_equal(aligned, plain)
