"""Two domains in one X: which rows are whose, and which labels are known."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from shifted import QUICK, stacked, two_domains
from unshift import AffineAligner, AlignedClassifier
from unshift.labels import read_labels, task_of
from unshift.stacked import read_domains, read_truth, target_rows


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
    new = framed(two_domains(40, 60, shift=50.0)[2])
    np.testing.assert_array_equal(one.predict_proba(new), two.predict_proba(new))


@settings(max_examples=10, deadline=None, derandomize=True, database=None)
@given(
    rows=st.tuples(st.integers(2, 40), st.integers(2, 40)),
    width=st.integers(1, 5),
    dtype=st.sampled_from([np.float32, np.float64, np.int16]),
    exponent=st.integers(-12, 12),
    unknown=st.sampled_from([None, np.nan, pd.NA, -1]),
    seed=st.integers(0, 9),
)
def test_stacked_is_side_by_side_whatever_shape_type_scale_and_order(
    rows: tuple[int, int], width: int, dtype: Any, exponent: int, unknown: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n, total = rows[0], sum(rows)
    X = rng.exponential(size=(total, width)) * (100.0 if dtype is np.int16 else 10.0**exponent)
    X = X.astype(dtype)
    domains = rng.permutation(np.repeat([0, 3, -1], [n // 2, n - n // 2, rows[1]]))
    target = domains < 0
    y = rng.integers(3, size=total)
    y[np.flatnonzero(~target)[:2]] = 0, 1
    labels = np.where(np.isin(y, y[~target]) & (rng.random(total) < 0.5) | ~target, y, None)
    marked = labels.copy()
    marked[np.equal(labels, None)] = unknown
    before = X.copy()
    options: dict[str, Any] = {"n_starts": 1, "random_state": seed}
    one = AlignedClassifier(**options).fit(X, marked, sample_domain=domains)
    two = AlignedClassifier(**options).fit(
        X[~target],
        y[~target],
        X_target=X[target],
        y_target=labels[target] if np.not_equal(labels[target], None).any() else None,
    )
    probabilities = one.predict_proba(X[target])
    np.testing.assert_array_equal(probabilities, two.predict_proba(X[target]))
    assert probabilities.dtype == (np.float32 if dtype is np.float32 else np.float64)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    assert one.predict(X[~target], domain="source").shape == (n,)
    np.testing.assert_array_equal(X, before)


def test_sign_of_the_domain_says_which_it_is() -> None:
    mask = target_rows([0, 3, -1, -7, 2.0], 5)
    np.testing.assert_array_equal(mask, [False, False, True, True, False])


@pytest.mark.parametrize(
    ("domains", "message"),
    [
        ([0, -1], r"sample_domain should have shape \(3,\), one domain a row; got \(2,\)"),
        ([[0], [1], [-1]], r"should have shape \(3,\), one domain a row; got \(3, 1\)"),
        ([0, np.nan, -1], "should hold whole numbers.*got NaN, infinity or fractions"),
        ([0, np.inf, -1], "should hold whole numbers.*got NaN, infinity or fractions"),
        ([0, 0.5, -1], "should hold whole numbers.*got NaN, infinity or fractions"),
        (["a", "b", "c"], "should hold whole numbers.*could not convert string"),
        ([True, False, False], r"got true and false. Pass np.where\(is_target, -1, 0\)"),
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


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series([2**60 + 1, 2**60, 2**60, None, 2**60 + 1], dtype="Int64"),
        pd.Series([2**60 + 1, 2**60, 2**60, None, 2**60 + 1], dtype="int64[pyarrow]"),
        pd.Series(pd.Categorical([2**60 + 1, 2**60, 2**60, None, 2**60 + 1])),
        pl.Series([2**60 + 1, 2**60, 2**60, None, 2**60 + 1]),
        np.ma.masked_array([2**60 + 1, 2**60, 2**60, 2**60, 2**60 + 1], [0, 0, 0, 1, 0]),
    ],
)
def test_whole_numbers_stay_whole_beside_unknown_ones(labels: Any) -> None:
    # as floats the two classes would be one
    X = np.arange(10.0).reshape(5, 2)
    read = read_domains(X, labels, None, None, [0, 0, -1, -1, -1], None, "classification")
    assert read.y_source is not None
    assert read.y_source.tolist() == [2**60 + 1, 2**60]
    assert read.y_target is not None
    assert read.y_target.tolist() == [2**60, None, 2**60 + 1]


def test_minus_one_is_a_number_for_regression() -> None:
    X = np.arange(12.0).reshape(6, 2)
    labels = [0.5, 1.5, -1.0, -1.0, np.nan, 2.5]
    read = read_domains(X, labels, None, None, [0, 0, 0, -1, -1, -1], None, "regression")
    assert read.y_target is not None
    assert read.y_target.tolist() == [-1.0, None, 2.5]
    assert read_truth(labels, np.ones(6, dtype=bool), None).known.tolist() == [1, 1, 1, 1, 0, 1]


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        ([0.0, 1.0, np.nan], "classification"),
        ([-3.0, 1e15, 2.0], "classification"),
        ([0.0, 1.5, np.nan], "regression"),
        ([1e-150, 0.0, 1.0], "regression"),
        ([1e100, -1e150, 0.0], "regression"),
        ([True, False], "classification"),
        (["a", None], "classification"),
    ],
)
def test_numbers_that_cannot_be_counted_ask_for_regression(labels: list[Any], task: str) -> None:
    assert task_of(read_labels(labels, len(labels), "y")) == task


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
