"""What goes into the estimators: frames, types, and what is refused."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from shifted import QUICK, two_domains
from unshift import AffineAligner, AlignedClassifier, AlignedRegressor

ESTIMATORS = [AffineAligner, AlignedClassifier, AlignedRegressor]


def fitted(kind: type, **params: Any) -> Any:
    X, y, X_target, _ = two_domains()
    return kind(**{**QUICK, **params}).fit(X, y, X_target=X_target)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_float32_is_kept(kind: type) -> None:
    X, y, X_target, _ = (array.astype(np.float32) for array in two_domains())
    estimator = kind(**QUICK).fit(X, y, X_target=X_target)
    shared = estimator.alignment_.source(X)
    assert shared.dtype == np.float32
    if kind is AffineAligner:
        assert estimator.transform(X_target).dtype == np.float32
        assert estimator.fit_transform(X, X_target=X_target).dtype == np.float32


@pytest.mark.parametrize("kind", ["float32", "Float32", "float[pyarrow]", "polars"])
def test_float32_is_kept_in_frames_of_every_kind(kind: str) -> None:
    X, _, X_target, _ = (array.astype(np.float32) for array in two_domains())

    def framed(rows: Any) -> Any:
        if kind == "polars":
            return pl.DataFrame(rows, ["a", "b", "c"])
        return pd.DataFrame(rows, columns=["a", "b", "c"]).astype(kind)

    aligner = AffineAligner(**QUICK).fit(framed(X), X_target=framed(X_target))
    assert aligner.transform(framed(X_target)).dtype == np.float32
    assert aligner.transform(framed(X), domain="source").dtype == np.float32
    stacked = AffineAligner(**QUICK)
    both, domains = framed(np.concatenate([X, X_target])), np.repeat([0, -1], [50, 57])
    assert stacked.fit_transform(both, sample_domain=domains).dtype == np.float32


def read_only(rows: Any) -> Any:
    rows = rows.copy()
    rows.flags.writeable = False
    return rows


@pytest.mark.parametrize(
    "form",
    [
        np.ndarray.tolist,
        np.asfortranarray,
        read_only,
        np.ma.masked_array,
        lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
        lambda rows: rows[::-1].copy()[::-1],
        lambda rows: rows.astype(">f8"),
        lambda rows: rows.astype(np.longdouble),
        lambda rows: rows.astype(object),
        lambda rows: pd.DataFrame(rows),
        lambda rows: pd.DataFrame(rows, columns=pd.MultiIndex.from_product([["a"], list("xyz")])),
        lambda rows: pd.DataFrame(rows).astype("Float64"),
        lambda rows: pd.DataFrame(rows).astype("double[pyarrow]"),
        lambda rows: pd.DataFrame(rows).astype(object),
    ],
)
def test_the_form_of_rows_does_not_matter(form: Any) -> None:
    X, y, X_target, _ = two_domains()
    plain = fitted(AlignedClassifier).predict_proba(X_target)
    classifier = AlignedClassifier(**QUICK).fit(form(X), y, X_target=form(X_target))
    # sums over another layout of memory round otherwise
    np.testing.assert_allclose(classifier.predict_proba(form(X_target)), plain, rtol=1e-9)


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.float16, bool])
def test_whole_and_short_numbers_are_the_numbers_that_they_are(kind: type) -> None:
    X, y, X_target, _ = two_domains()
    X, X_target = (4 * X).astype(kind), (4 * X_target).astype(kind)
    if kind is bool:
        X, X_target = X > 0, np.random.default_rng(0).random((57, 3)) > 0.3
        X[::3], X[1::2, 1] = False, False
    plain, short = (AlignedClassifier(**QUICK) for _ in range(2))
    plain.fit(X.astype(np.float64), y, X_target=X_target.astype(np.float64))
    short.fit(X, y, X_target=X_target)
    expected = plain.predict_proba(X_target.astype(np.float64))
    np.testing.assert_array_equal(short.predict_proba(X_target), expected)


def test_rows_from_a_mapped_file(tmp_path: Any) -> None:
    X, y, X_target, _ = two_domains()
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    classifier = AlignedClassifier(**QUICK).fit(mapped, y, X_target=X_target)
    expected = fitted(AlignedClassifier).predict_proba(X_target)
    np.testing.assert_array_equal(classifier.predict_proba(X_target), expected)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_gives_named_frames(library: str) -> None:
    X, _, X_target, _ = two_domains()
    names = ["a", "b", "c"]
    frame = pd.DataFrame if library == "pandas" else pl.DataFrame
    source = pd.DataFrame(X, columns=names) if library == "pandas" else pl.DataFrame(X, names)
    target = (
        pd.DataFrame(X_target, columns=names, index=np.arange(57)[::-1])
        if library == "pandas"
        else pl.DataFrame(X_target, names)
    )
    aligner = AffineAligner(**QUICK).set_output(transform=library)
    fitted_rows = aligner.fit_transform(source, X_target=target)
    assert aligner.alignment_.same_features
    assert aligner.alignment_.source.names_in == tuple(names)
    for out in (fitted_rows, aligner.transform(target)):
        assert isinstance(out, frame)
        assert list(out.columns) == list(aligner.get_feature_names_out()) == ["shared0", "shared1"]
    if library == "pandas":
        assert aligner.transform(target).index[0] == 56
    plain = aligner.set_output(transform="default").transform(target)
    assert isinstance(plain, np.ndarray)


def test_names_out_are_the_sources_where_nothing_is_adapted() -> None:
    X = pd.DataFrame(two_domains()[0], columns=["a", "b", "c"])
    aligner = AffineAligner(n_components=None).fit(X)
    assert aligner.get_feature_names_out().tolist() == ["shared0", "shared1", "shared2"]
    aligner.alignment_ = aligner.alignment_.prefer(1)
    assert aligner.get_feature_names_out().tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(aligner.transform(X), X)


def test_columns_are_checked_against_their_own_domain() -> None:
    X, y, X_target, _ = two_domains()
    source = pd.DataFrame(X, columns=["a", "b", "c"])
    target = pd.DataFrame(X_target, columns=["u", "v", "w"])
    classifier = AlignedClassifier(**QUICK).fit(source, y, X_target=target)
    assert classifier.feature_names_in_.tolist() == ["a", "b", "c"]
    assert classifier.feature_names_target_.tolist() == ["u", "v", "w"]
    assert not classifier.alignment_.same_features
    classifier.predict(target)
    classifier.predict(source, domain="source")
    message = "The feature names should match those that were passed during fit"
    for wrong, domain in ((source, "target"), (target, "source"), (target[["v", "u", "w"]], None)):
        with pytest.raises(ValueError, match=message):
            classifier.predict(wrong, domain=domain)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        classifier.predict(X_target)


def test_refit_forgets_the_columns_of_before() -> None:
    X, y, X_target, _ = two_domains()
    classifier = AlignedClassifier(**QUICK)
    classifier.fit(
        pd.DataFrame(X, columns=["a", "b", "c"]),
        y,
        X_target=pd.DataFrame(X_target[:, :2], columns=["u", "v"]),
    )
    classifier.fit(X, y)
    assert classifier.n_features_target_ == 3
    assert classifier.feature_names_target_ is None
    assert not hasattr(classifier, "feature_names_in_")


# Bad input


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X": [[1.0, np.nan, 0.0]] * 50}, ValueError, "X contains NaN.*row 0, column 1"),
        (
            {"X_target": [[1.0, np.inf, 0.0]] * 9},
            ValueError,
            "X_target contains infinity.*column 1",
        ),
        ({"X": [[1.0, 2.0, 3.0]], "y": [1]}, ValueError, "X needs at least two rows"),
        ({"X_target": [[1.0, 2.0, 3.0]]}, ValueError, "X_target needs at least two rows"),
        ({"X": np.ones((50, 3))}, ValueError, "X_source is constant: all its 50 rows are equal"),
        ({"X": csr_array(np.eye(50))}, TypeError, "X is sparse.*X.toarray"),
        ({"X_target": csr_array(np.eye(3))}, TypeError, "X_target is sparse"),
        ({"y": [0] * 49}, ValueError, "y should hold one label for each of the 50 rows"),
        (
            {"y": [None] + [0, 1] * 24 + [1]},
            ValueError,
            "y has 1 unknown labels among the 50 source",
        ),
        ({"y_target": [7] * 57}, ValueError, r"labels that y_source lacks: \[7\]"),
        ({"y_target": [None] * 57}, ValueError, "y_target holds no label at all"),
        (
            {"y_target": [0] * 5},
            ValueError,
            "y_target should hold one label for each of the 57 rows",
        ),
        ({"X_target": None, "y_target": [0]}, ValueError, "y_target was given without X_target"),
        ({"sample_domain": [0, -1] * 25}, ValueError, "Both sample_domain and X_target"),
        ({"sample_weight": [1.0] * 3}, ValueError, r"sample_weight should have shape \(50,\)"),
        ({"sample_weight": [0.0] * 50}, ValueError, "fewer than two rows with a weight above zero"),
        (
            {"sample_weight": ["a"] * 50},
            ValueError,
            "sample_weight should hold numbers, one weight",
        ),
        (
            {"X": np.ma.masked_less(two_domains()[0], 0.01)},
            ValueError,
            r"X has \d+ masked cells, the first at \[\d+, \d\]. Drop such rows or fill them",
        ),
        (
            {"X": np.arange(150).reshape(50, 3).astype("M8[s]")},
            TypeError,
            r"X should hold numbers only; got datetime64\[s\]",
        ),
        (
            {"X": np.where(np.eye(50, 3) == 1, pd.NA, np.ones((50, 3), object))},
            ValueError,
            "X contains NA. The first is in row 0, column 0. Expected finite numbers",
        ),
        (
            {"X": pd.DataFrame(np.eye(50, 3), columns=["a", "b", "a"])},
            ValueError,
            "X has several columns of one name: a. Rename them",
        ),
        ({"X": pl.LazyFrame({"a": [1.0] * 50})}, TypeError, r"is a LazyFrame.* X\.collect\(\)"),
        ({"X": pa.table({"a": [1.0] * 50})}, TypeError, r"is a Table.* X\.to_pandas\(\)"),
        ({"X_target": []}, ValueError, "X_target: Expected 2D array"),
        ({"X_target": np.ones((0, 3))}, ValueError, "X_target needs at least two rows"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], error: type, message: str) -> None:
    X, y, X_target, _ = two_domains()
    given = {"X": X, "y": y, "X_target": X_target, **change}
    with pytest.raises(error, match=message):
        AlignedClassifier(**QUICK).fit(**given)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"same_features": True},
            "same_features=True, but the source has 3 columns and the target 2",
        ),
        ({"same_features": "maybe"}, "same_features should be one of"),
        ({"n_components": 7}, "n_components=7, but the domains support"),
        ({"n_components": 0}, "n_components should be"),
        ({"choice": "best"}, "choice should be one of"),
        ({"loss": "hinge"}, "loss should be one of"),
        ({"scale": "max"}, "scale should be one of"),
        ({"shrinkage": 2.0}, "shrinkage should be"),
    ],
)
def test_bad_parameters_are_refused_at_fit(params: dict[str, Any], message: str) -> None:
    X, y, X_target, _ = two_domains()
    with pytest.raises(ValueError, match=message):
        AlignedClassifier(**{**QUICK, **params}).fit(X, y, X_target=X_target[:, :2])


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_parameters_are_refused_of_one_domain_too(kind: type) -> None:
    X, y, _, _ = two_domains()
    wrong = {"choice": "best", "loss": "hinge", "n_starts": 0, "n_components": 0, "scale": "max"}
    for name, value in {
        **wrong,
        "bandwidth": -1.0,
        "shrinkage": 2.0,
        "loss_weights": (0, 1),
    }.items():
        with pytest.raises(ValueError, match=f"{name} should be"):
            kind(**{name: value}).fit(X, y)


def test_no_rows_to_predict_are_named() -> None:
    with pytest.raises(ValueError, match=r"X: Found array with 0 sample\(s\).*minimum of 1 is"):
        fitted(AlignedClassifier).predict(np.ones((0, 3)))


def test_classifiers_are_for_classes_and_regressors_for_numbers() -> None:
    X, y, X_target, _ = two_domains()
    with pytest.raises(TypeError, match="needs a classifier as its estimator; Ridge is a reg"):
        AlignedClassifier(Ridge()).fit(X, y, X_target=X_target)
    pipeline = make_pipeline(LogisticRegression())
    with pytest.raises(TypeError, match="needs a regressor as its estimator; Pipeline is a class"):
        AlignedRegressor(pipeline).fit(X, y, X_target=X_target)


def test_columns_of_text_are_named() -> None:
    X, y, X_target, _ = two_domains()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(site="north")
    with pytest.raises(ValueError, match=r"X should hold numbers only.*: site"):
        AlignedClassifier().fit(frame, y, X_target=X_target)


def test_classifier_refuses_numbers_with_fractions() -> None:
    X, _, X_target, _ = two_domains()
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        AlignedClassifier().fit(X, X[:, 0], X_target=X_target)


def test_regressor_refuses_text() -> None:
    X, _, X_target, _ = two_domains()
    with pytest.raises(ValueError, match="should hold numbers for regression"):
        AlignedRegressor().fit(X, ["a", "b"] * 25, X_target=X_target)


def test_domain_is_one_of_two_and_not_both_ways() -> None:
    X = two_domains()[0]
    classifier = fitted(AlignedClassifier)
    with pytest.raises(ValueError, match="domain should be one of 'source', 'target'; got 'lab'"):
        classifier.predict(X, domain="lab")
    with pytest.raises(ValueError, match="Both domain and sample_domain were given"):
        classifier.predict(X, domain="source", sample_domain=np.zeros(50))


def test_weights_that_the_estimator_cannot_take_are_refused() -> None:
    X, y, X_target, _ = two_domains()
    classifier = AlignedClassifier(KNeighborsClassifier(), **QUICK)
    with pytest.raises(TypeError, match=r"KNeighborsClassifier\.fit takes no sample_weight"):
        classifier.fit(X, y, X_target=X_target, sample_weight=np.ones(50))


def test_weights_reach_the_steps_of_a_pipeline_that_request_them() -> None:
    X, y, X_target, _ = two_domains()
    weights = 1.0 + np.arange(50) % 3
    with config_context(enable_metadata_routing=True):
        model = LogisticRegression().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(FunctionTransformer(), model)
        routed = AlignedClassifier(pipeline, **QUICK).fit(
            X, y, X_target=X_target, sample_weight=weights
        )
    plain = AlignedClassifier(LogisticRegression(), **QUICK).fit(
        X, y, X_target=X_target, sample_weight=weights
    )
    np.testing.assert_array_equal(routed.predict_proba(X_target), plain.predict_proba(X_target))
    with pytest.raises(TypeError, match=r"Pipeline\.fit takes no sample_weight.*metadata routing"):
        AlignedClassifier(pipeline).fit(X, y, X_target=X_target, sample_weight=weights)
