"""Two domains in one X: reading it, routing it, searching over it; and what no splitter may cut."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context, get_config
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import UnsetMetadataPassedError
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

from unshift import AffineAligner, AlignedClassifier, AlignedRegressor
from unshift.stacked import read_domains, read_truth, target_rows

# With "paper" only rotations compete, whatever else the default may weigh.
QUICK = {"n_components": 2, "n_starts": 2, "choice": "paper", "random_state": 0}
REFUSED = r"X_target came through sklearn\..*stacked form: fit\(X, y, sample_domain"


def two_domains(n_source: int = 40, n_target: int = 40) -> tuple[Any, Any, Any, Any]:
    """Rows and classes of a source and of a target whose features are mixed and moved."""
    rng = np.random.default_rng(0)
    y, y_target = np.arange(n_source) % 2, np.arange(n_target) % 2
    X, Z = rng.exponential(size=(n_source, 3)), rng.exponential(size=(n_target, 3))
    X[:, 0] += 3.0 * y
    Z[:, 0] += 3.0 * y_target
    return X, y, Z @ (np.eye(3) + 0.2 * rng.normal(size=(3, 3))) + 50.0, y_target


def stacked(unknown: Any = -1, n_known: int = 12) -> tuple[Any, Any, Any]:
    """X, y and sample_domain of both domains, shuffled, with few labels of the target."""
    X, y, X_target, y_target = two_domains()
    both = np.concatenate([X, X_target])
    labels = np.concatenate([y, y_target]).astype(type(unknown) if unknown != -1 else int)
    labels[40 + n_known :] = unknown
    domains = np.repeat([1, -2], 40)
    order = np.random.default_rng(1).permutation(80)
    return both[order], labels[order], domains[order]


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


# Reading the stacked form


@pytest.mark.parametrize("kind", ["array", "pandas", "polars"])
def test_stacked_is_side_by_side(kind: str) -> None:
    rows, labels, domains = stacked(n_known=40)
    names = ["a", "b", "c"]
    frames = {
        "pandas": lambda a: pd.DataFrame(a, columns=names),
        "polars": lambda a: pl.DataFrame(a, names),
    }
    framed = frames.get(kind, np.asarray)
    one = AlignedClassifier(**QUICK).fit(framed(rows), labels, sample_domain=domains)
    source, target = rows[domains > 0], rows[domains < 0]
    two = AlignedClassifier(**QUICK).fit(
        framed(source),
        labels[domains > 0],
        X_target=framed(target),
        y_target=labels[domains < 0],
    )
    assert one.alignment_.same_features
    assert one.alignment_.source.names_in == (None if kind == "array" else tuple(names))
    assert one.stacked_
    assert not two.stacked_
    new = framed(two_domains(40, 60)[2])
    np.testing.assert_array_equal(one.predict_proba(new), two.predict_proba(new))


def test_sign_of_the_domain_says_which_it_is() -> None:
    mask = target_rows([0, 3, -1, -7, 2.0], 5)
    np.testing.assert_array_equal(mask, [False, False, True, True, False])


@pytest.mark.parametrize(
    ("domains", "message"),
    [
        ([0, -1], r"sample_domain should have shape \(3,\), one domain a row; got \(2,\)"),
        ([[0], [1], [-1]], r"should have shape \(3,\), one domain a row; got \(3, 1\)"),
        ([0, np.nan, -1], "should hold whole numbers.*got NaN or fractions"),
        ([0, 0.5, -1], "should hold whole numbers.*got NaN or fractions"),
        (["a", "b", "c"], "should hold whole numbers.*could not convert string"),
    ],
)
def test_bad_domains_are_named(domains: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        target_rows(domains, 3)


@pytest.mark.parametrize(
    ("domains", "counts"),
    [
        (np.zeros(80), "80 source rows .* and 0 target rows"),
        (-np.ones(80), "0 source rows .* and 80 target rows"),
        (np.repeat([-1, 0], [1, 79]), "79 source rows .* and 1 target rows"),
    ],
)
def test_each_domain_needs_rows(domains: Any, counts: str) -> None:
    X, y, _ = stacked()
    with pytest.raises(ValueError, match=f"sample_domain marks {counts}.*every training fold"):
        AlignedClassifier().fit(X, y, sample_domain=domains)


def test_only_one_form_at_a_time() -> None:
    X, y, domains = stacked()
    for other in ({"X_target": X}, {"y_target": y}):
        with pytest.raises(ValueError, match="Both sample_domain and X_target"):
            AlignedClassifier().fit(X, y, sample_domain=domains, **other)


def test_y_has_a_label_for_each_stacked_row() -> None:
    X, y, domains = stacked()
    with pytest.raises(ValueError, match="y has 79 labels, but X has 80 rows"):
        AlignedClassifier().fit(X, y[1:], sample_domain=domains)


def test_target_class_that_the_source_lacks_is_refused() -> None:
    X, y, domains = stacked()
    y[np.flatnonzero(domains < 0)[0]] = 5
    with pytest.raises(ValueError, match=r"labels that y_source lacks: \[5\]"):
        AlignedClassifier(**QUICK).fit(X, y, sample_domain=domains)


def test_unknown_label_in_the_source_is_refused() -> None:
    X, _, domains = stacked()
    labels = np.where(domains > 0, np.nan, 1.0)
    with pytest.raises(ValueError, match="y has 40 unknown labels among the 40 source rows"):
        AlignedClassifier(**QUICK).fit(X, labels, sample_domain=domains)


@pytest.mark.parametrize("task", ["classification", "auto"])
@pytest.mark.parametrize(
    ("labels", "known"),
    [
        (np.array([0, 1, 0, -1, 1, -1]), [None, 1, None]),
        (np.array(["a", "b", "a", "-1", "b", "-1"]), [None, "b", None]),
        (np.array(["a", "b", "a", None, "b", -1], dtype=object), [None, "b", None]),
        (np.array([0, 1, 0, np.nan, 1, -1]), [None, 1, None]),
        (pd.Series([0, 1, 0, None, 1, -1], dtype="Int64"), [None, 1, None]),
        # Where the source has a class -1, it is a class in the target, too.
        (np.array([1, -1, 1, -1, 1, -1]), [-1, 1, -1]),
        (np.array([1, -1, 1, np.nan, 1, -1]), [None, 1, -1]),
        (np.array([0, 1, 0, -1, -1, -1]), None),
    ],
)
def test_what_is_unknown_in_the_target(labels: Any, known: list[Any] | None, task: str) -> None:
    X = np.arange(12.0).reshape(6, 2)
    read = read_domains(X, labels, None, None, [0, 0, 0, -1, -1, -1], None, task)
    given = None if read.y_target is None else read.y_target.tolist()
    assert given == known
    assert read.task == "classification"


def test_minus_one_is_a_number_for_regression() -> None:
    X = np.arange(12.0).reshape(6, 2)
    labels = [0.5, 1.5, -1.0, -1.0, np.nan, 2.5]
    read = read_domains(X, labels, None, None, [0, 0, 0, -1, -1, -1], None, "regression")
    assert read.y_target is not None
    assert read.y_target.tolist() == [-1.0, None, 2.5]
    assert read_truth(labels, np.ones(6, dtype=bool), None).known.tolist() == [1, 1, 1, 1, 0, 1]


def test_minus_one_of_a_source_row_is_no_unknown_label() -> None:
    truth = read_truth([-1, -1, 0], np.array([True, False, True]), np.array([0, 1]))
    np.testing.assert_array_equal(truth.known, [False, True, True])


def test_weights_of_stacked_rows_are_split() -> None:
    X, y, domains = stacked()
    weights = np.arange(80.0)
    read = read_domains(X, y, None, None, domains, weights, "classification")
    np.testing.assert_array_equal(read.weights_source, weights[domains > 0])
    np.testing.assert_array_equal(read.weights_target, weights[domains < 0])


def test_whole_weights_of_stacked_rows_are_repetitions() -> None:
    X, y, domains = stacked()
    weights = np.arange(80) % 3
    rows = np.repeat(np.arange(80), weights)
    weighted = AlignedClassifier(LogisticRegression(), **QUICK)
    weighted.fit(X, y, sample_domain=domains, sample_weight=weights)
    repeated = AlignedClassifier(LogisticRegression(), **QUICK)
    repeated.fit(X[rows], y[rows], sample_domain=domains[rows])
    expected = repeated.predict_proba(X, sample_domain=domains)
    actual = weighted.predict_proba(X, sample_domain=domains)
    np.testing.assert_allclose(actual, expected, atol=1e-4)


@pytest.mark.parametrize("labels", [None, "classes", "numbers"])
def test_aligner_reads_stacked_rows(labels: str | None) -> None:
    X, y, domains = stacked()
    y = {None: None, "classes": y, "numbers": np.where(domains > 0, X[:, 0], np.nan)}[labels]
    aligner = AffineAligner(**QUICK)
    shared = aligner.fit_transform(X, y, sample_domain=domains)
    np.testing.assert_array_equal(shared, aligner.transform(X, sample_domain=domains))
    by_hand = aligner.alignment_.target(X[domains < 0])
    np.testing.assert_array_equal(shared[domains < 0], by_hand)
    assert aligner.alignment_.candidates[0].n_labelled == (12 if labels == "classes" else 0)


def test_score_of_stacked_rows_ignores_unknown_labels() -> None:
    X, y, domains = stacked()
    classifier = AlignedClassifier(**QUICK).fit(X, y, sample_domain=domains)
    known = y >= 0
    predicted = classifier.predict(X, sample_domain=domains)
    expected = np.mean(predicted[known] == y[known])
    assert classifier.score(X, y, sample_domain=domains) == expected
    target = domains < 0
    expected = np.mean(predicted[target & known] == y[target & known])
    assert classifier.score(X[target], y[target]) == expected


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
    assert pipeline.predict(X_target).shape == (40,)


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
    X, y, X_target, y_target = two_domains()
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
