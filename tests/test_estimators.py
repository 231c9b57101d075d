"""The scikit-learn estimators: their contract, their two domains, their inputs and outputs."""

import os
import subprocess
import sys
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from shifted import QUICK, two_domains
from unshift import AffineAligner, AlignedClassifier, AlignedRegressor
from unshift.choice import NO_ADAPTATION

ESTIMATORS = [AffineAligner, AlignedClassifier, AlignedRegressor]


def fitted(kind: type, **params: Any) -> Any:
    X, y, X_target, _ = two_domains()
    return kind(**{**QUICK, **params}).fit(X, y, X_target=X_target)


# The contract


@parametrize_with_checks([kind() for kind in ESTIMATORS])
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    if "array_api" in str(check):
        return  # with the others, in an interpreter of its own, below
    check(estimator)


def test_every_check_of_check_estimator_passes_and_none_is_skipped() -> None:
    # SciPy reads SCIPY_ARRAY_API when it is imported; without, a check is skipped.
    code = """
import warnings
from unshift import AffineAligner, AlignedClassifier, AlignedRegressor
from sklearn.utils.estimator_checks import check_estimator
warnings.simplefilter("ignore")
for kind in (AffineAligner, AlignedClassifier, AlignedRegressor):
    for done in check_estimator(kind(), on_fail="warn", on_skip=None):
        assert not done["expected_to_fail"], done
        assert done["status"] == "passed", done
    print(kind.__name__)
"""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [kind.__name__ for kind in ESTIMATORS]


def test_tags_say_what_is_taken() -> None:
    for kind in ESTIMATORS:
        tags = kind().__sklearn_tags__()
        assert not tags.input_tags.sparse
        assert not tags.input_tags.allow_nan
        assert tags.target_tags.required == (kind is not AffineAligner)
    assert AlignedClassifier().__sklearn_tags__().estimator_type == "classifier"
    assert AlignedRegressor().__sklearn_tags__().estimator_type == "regressor"


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_fit_leaves_parameters_and_inputs_alone(kind: type) -> None:
    X, y, X_target, y_target = two_domains()
    given = [X, y, X_target, y_target, np.ones(X.shape[0])]
    before = [array.copy() for array in given]
    estimator = kind(**QUICK)
    params = estimator.get_params()
    estimator.fit(X, y, X_target=X_target, y_target=y_target, sample_weight=given[4])
    assert estimator.get_params() == params
    for array, copy in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_clone_refit_and_joblib_round_trip_give_the_same(kind: type, tmp_path: Any) -> None:
    X, y, X_target, _ = two_domains()
    estimator = fitted(kind)
    answer = "transform" if kind is AffineAligner else "predict"
    first = getattr(estimator, answer)(X_target)
    joblib.dump(estimator, tmp_path / "estimator.joblib")
    others = [
        joblib.load(tmp_path / "estimator.joblib"),
        clone(estimator).fit(X, y, X_target=X_target),
        estimator.fit(X, y, X_target=X_target),
    ]
    for other in others:
        np.testing.assert_array_equal(getattr(other, answer)(X_target), first)


def test_inner_estimator_is_cloned_and_reached_by_its_parameters() -> None:
    inner = LogisticRegression(C=0.5)
    classifier = fitted(AlignedClassifier, estimator=inner)
    assert classifier.estimator_ is not inner
    assert not hasattr(inner, "coef_")
    assert classifier.set_params(estimator__C=2.0).estimator.C == 2.0


def test_methods_are_those_of_the_inner_estimator() -> None:
    assert hasattr(AlignedClassifier(), "predict_proba")
    assert not hasattr(AlignedClassifier(RidgeClassifier()), "predict_proba")
    assert hasattr(AlignedClassifier(RidgeClassifier()), "decision_function")
    assert not hasattr(AlignedRegressor(), "predict_proba")
    classifier = fitted(AlignedClassifier, estimator=LogisticRegression())
    rows = two_domains()[2]
    assert classifier.predict_proba(rows).shape == (57, 2)
    above = classifier.decision_function(rows) > 0
    np.testing.assert_array_equal(classifier.classes_[above.astype(int)], classifier.predict(rows))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_unfitted_says_so(kind: type) -> None:
    method = "transform" if kind is AffineAligner else "predict"
    with pytest.raises(NotFittedError, match=f"This {kind.__name__} instance is not fitted yet"):
        getattr(kind(), method)(two_domains()[0])


# One domain


def test_classifier_of_one_domain_is_the_plain_estimator() -> None:
    X, y, _, _ = two_domains()
    plain = KNeighborsClassifier(3).fit(X, y)
    aligned = AlignedClassifier(KNeighborsClassifier(3)).fit(X, y)
    assert aligned.alignment_.candidates[0].kind == NO_ADAPTATION
    np.testing.assert_array_equal(aligned.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_array_equal(aligned.predict_proba(X, domain="source"), plain.predict_proba(X))


def test_regressor_of_one_domain_is_the_plain_estimator() -> None:
    X, _, _, _ = two_domains()
    y = X @ [1.0, -2.0, 0.5] + 1.0
    weights = np.arange(50) % 3
    plain = Ridge().fit(X, y, sample_weight=weights)
    aligned = AlignedRegressor(Ridge()).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(aligned.predict(X), plain.predict(X))
    assert aligned.score(X, y) == plain.score(X, y)


def test_aligner_of_one_domain_whitens_it() -> None:
    X = two_domains(500)[0]
    aligner = AffineAligner(n_components=None)
    Z = aligner.fit_transform(X)
    np.testing.assert_allclose(np.cov(Z.T, bias=True), np.eye(3), atol=1e-10)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_array_equal(aligner.transform(X), Z)
    np.testing.assert_array_equal(aligner.alignment_.rotation, np.eye(3))
    assert aligner.alignment_.mmd2 == 0.0
    assert "One domain was given" in str(aligner.alignment_.diagnosis)


def test_aligner_of_one_domain_ignores_labels_of_any_kind() -> None:
    X = two_domains()[0]
    for y in (None, [None] * 50, np.ones((50, 2)), ["a", 1] * 25):
        np.testing.assert_array_equal(
            AffineAligner().fit_transform(X, y), AffineAligner().fit_transform(X)
        )


def test_one_domain_has_its_own_features_whatever_is_said_of_others() -> None:
    X, y, _, _ = two_domains()
    classifier = AlignedClassifier(same_features=False).fit(X, y)
    assert classifier.alignment_.candidates[0].kind == NO_ADAPTATION


def test_one_domain_can_be_saved_and_updated(tmp_path: Any) -> None:
    X, _, X_target, _ = two_domains()
    alignment = AffineAligner().fit(X).alignment_
    alignment.save(tmp_path / "one")
    assert alignment.update(X_target[:20]).target.width_in == 3


# Two domains


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_rows_go_through_the_map_of_their_domain(kind: type) -> None:
    X, _, X_target, _ = two_domains()
    estimator = fitted(kind)
    maps = estimator.alignment_

    def answer(rows: Any, **how: Any) -> Any:
        if kind is AffineAligner:
            return estimator.transform(rows, **how)
        return estimator.predict(rows, **how)

    def expected(shared: Any) -> Any:
        return shared if kind is AffineAligner else estimator.estimator_.predict(shared)

    np.testing.assert_array_equal(answer(X_target), expected(maps.target(X_target)))
    np.testing.assert_array_equal(answer(X_target, domain="target"), answer(X_target))
    np.testing.assert_array_equal(answer(X, domain="source"), expected(maps.source(X)))
    both, domains = np.concatenate([X, X_target])[::-1], np.repeat([2, -3], [50, 57])[::-1]
    mixed = answer(both, sample_domain=domains)
    np.testing.assert_allclose(mixed[domains > 0], answer(X, domain="source")[::-1], rtol=1e-12)
    np.testing.assert_allclose(mixed[domains < 0], answer(X_target)[::-1], rtol=1e-12)


def test_estimator_is_trained_on_the_sources_shared_rows() -> None:
    X, y, _, _ = two_domains()
    weights = 1.0 + np.arange(50) % 3
    _, _, X_target, _ = two_domains()
    classifier = AlignedClassifier(LogisticRegression(), **QUICK)
    classifier.fit(X, y, X_target=X_target, sample_weight=weights)
    by_hand = LogisticRegression().fit(classifier.alignment_.source(X), y, sample_weight=weights)
    np.testing.assert_array_equal(classifier.estimator_.coef_, by_hand.coef_)


def test_whole_weights_are_repetitions() -> None:
    X, _, X_target, _ = two_domains()
    weights = np.arange(50) % 4
    repeated = np.repeat(np.arange(50), weights)
    weighted = AffineAligner(**QUICK).fit(X, X_target=X_target, sample_weight=weights)
    plain = AffineAligner(**QUICK).fit(X[repeated], X_target=X_target)
    np.testing.assert_allclose(weighted.transform(X_target), plain.transform(X_target), atol=1e-6)


def test_labels_of_the_target_are_evidence() -> None:
    X, y, X_target, y_target = two_domains()
    known = [None] * 57
    known[:20] = y_target[:20].tolist()
    for kind in (AffineAligner, AlignedClassifier):
        estimator = kind(**QUICK).fit(X, y, X_target=X_target, y_target=known)
        assert estimator.alignment_.candidates[0].n_labelled == 20


def test_predictions_without_adaptation_are_those_of_the_plain_estimator() -> None:
    # The target is a part of the source: no alignment can beat leaving it as it is.
    X, y, _, _ = two_domains()
    aligned = AlignedClassifier(KNeighborsClassifier(1), **QUICK)
    aligned.fit(X, y, X_target=X[:40], y_target=y[:40])
    assert aligned.alignment_.candidates[0].kind == NO_ADAPTATION
    new = two_domains(seed=1)[0]
    plain = KNeighborsClassifier(1).fit(X, y)
    np.testing.assert_array_equal(aligned.predict(new), plain.predict(new))


def test_unlike_widths() -> None:
    X, y, X_target, y_target = two_domains()
    wide = np.column_stack([X_target, X_target[:, 0] + X_target[:, 1] ** 2])
    classifier = AlignedClassifier(**QUICK).fit(X, y, X_target=wide)
    assert (classifier.n_features_in_, classifier.n_features_target_) == (3, 4)
    assert classifier.predict(wide).shape == y_target.shape
    assert classifier.predict(X, domain="source").shape == y.shape
    message = "X has 3 features, but AlignedClassifier is expecting 4 features"
    with pytest.raises(ValueError, match=message):
        classifier.predict(X)
    message = "X has 4 features, but AlignedClassifier is expecting 3 features"
    with pytest.raises(ValueError, match=message):
        classifier.predict(wide, domain="source")
    with pytest.raises(ValueError, match=message):
        classifier.predict(wide, sample_domain=[0, -1] * 28 + [0])


def test_score_ignores_unknown_labels() -> None:
    X, y, X_target, y_target = two_domains()
    classifier = fitted(AlignedClassifier)
    predicted = classifier.predict(X_target)
    for unknown in (None, np.nan, pd.NA):
        partly = y_target.astype(object)
        partly[10:] = unknown
        assert classifier.score(X_target, partly) == accuracy_score(y_target[:10], predicted[:10])
    weights = np.arange(57.0)
    expected = accuracy_score(y_target[:10], predicted[:10], sample_weight=weights[:10])
    assert classifier.score(X_target, partly, sample_weight=weights) == expected
    assert classifier.score(X, y, domain="source") == accuracy_score(
        y, classifier.predict(X, domain="source")
    )


def test_one_row_with_a_weight_is_enough_to_score() -> None:
    _, _, X_target, y_target = two_domains()
    classifier = fitted(AlignedClassifier)
    right = classifier.predict(X_target) == y_target
    for i in (0, int(np.argmin(right))):
        only = np.arange(57) == i
        assert classifier.score(X_target, y_target, sample_weight=only) == right[i]
        assert classifier.score(X_target[[i]], y_target[[i]], sample_weight=[3.0]) == right[i]
    known = np.where(np.arange(57) < 5, y_target, np.nan)
    with pytest.raises(ValueError, match="whose label is known leaves no row with a weight"):
        classifier.score(X_target, known, sample_weight=np.arange(57) >= 5)


def test_minus_one_is_a_label_where_the_domains_are_side_by_side() -> None:
    _, _, X_target, y_target = two_domains()
    classifier = fitted(AlignedClassifier)
    labels = np.where(np.arange(57) < 10, y_target, -1)
    expected = accuracy_score(labels, classifier.predict(X_target))
    assert classifier.score(X_target, labels) == expected < 0.2


def test_regressor_scores_r2_of_known_numbers() -> None:
    X, _, X_target, _ = two_domains()
    regressor = AlignedRegressor(**QUICK).fit(X, X[:, 0] - 1.0, X_target=X_target)
    truth = np.linspace(-1.0, 1.0, 57)
    truth[0] = -1.0  # a number here
    partly = truth.copy()
    partly[30:] = np.nan
    expected = r2_score(truth[:30], regressor.predict(X_target)[:30])
    assert regressor.score(X_target, partly) == expected


def test_score_without_any_known_label_is_refused() -> None:
    classifier = fitted(AlignedClassifier)
    with pytest.raises(ValueError, match="None of the 57 labels in y is known"):
        classifier.score(two_domains()[2], [None] * 57)


@pytest.mark.parametrize("labels", [["a", "b"], [-1, 1], [0.0, 1.0], [True, False]])
def test_labels_of_any_kind_come_back(labels: list[Any]) -> None:
    X, y, X_target, y_target = two_domains()
    names = np.array(labels)
    classifier = AlignedClassifier(**QUICK).fit(X, names[y], X_target=X_target)
    np.testing.assert_array_equal(classifier.classes_, np.unique(names))
    assert set(classifier.predict(X_target)) <= set(names)
    assert 0.0 <= classifier.score(X_target, names[y_target]) <= 1.0


def test_joint_loss_and_bandwidth_reach_the_alignment() -> None:
    X, y, X_target, _ = two_domains()
    estimator = AlignedClassifier(loss="joint", bandwidth=1.5, **QUICK)
    alignment = estimator.fit(X, y, X_target=X_target).alignment_
    assert alignment.bandwidth == 1.5
    assert alignment.n_components == 2
