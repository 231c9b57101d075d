"""A graph answers as the model that it was made of, in another runtime and without Python."""

import functools
import json
import sys
import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import skl2onnx
import sklearn
from sklearn import ensemble
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import unshift
from planted import view
from unshift.datasets import make_mixture
from unshift.model import Model, linear_predictor
from unshift.onnx import register, to_onnx

Array = np.ndarray[Any, Any]
N = 200
LABELS = {"strings": np.array(["a", "b", "c"]), "numbers": np.array([7, -3, 9])}
CLASSIFIERS = [
    None,
    LogisticRegression(),
    RidgeClassifier(),
    LinearSVC(random_state=0),
    LinearDiscriminantAnalysis(),
    ensemble.RandomForestClassifier(20, random_state=0),
    ensemble.GradientBoostingClassifier(n_estimators=10, random_state=0),
    ensemble.HistGradientBoostingClassifier(max_iter=5),
    KNeighborsClassifier(),
    SVC(),
    make_pipeline(StandardScaler(), SVC()),
    make_pipeline(RobustScaler(), "passthrough", LinearSVC(random_state=0)),
    CalibratedClassifierCV(SVC(), ensemble=False),
    make_pipeline(MinMaxScaler(), MLPClassifier((8,), max_iter=20, random_state=0)),
    GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
]
REGRESSORS = [
    None,
    Ridge(),
    LinearRegression(),
    make_pipeline(StandardScaler(), SVR()),
    ensemble.RandomForestRegressor(20, random_state=0),
]


def called(model: Any) -> str:
    return type(model).__name__


def run(graph: Any, X: Array) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


@functools.cache
def domains(mean: float = 0.0) -> tuple[Array, Array, Array]:
    """Rows of 4 and 6 columns, with means ``mean`` times their deviation, and labels."""
    views = view(4, 1, n=N), view(6, 2, n=N)
    X, Z = (v.rows + mean * v.rows.std(axis=0) for v in views)
    return X, Z, views[0].labels


@functools.cache
def of_domains() -> unshift.Alignment:
    return unshift.align(*domains()[:2], n_components=3, n_starts=1, random_state=0)


def numbers(X: Array) -> Array:
    return X[:, 0] + 0.1 * np.sin(X[:, 1])


def aligned(kind: Any, estimator: Any, X: Any, y: Array, Z: Any) -> Any:
    model = kind(estimator, n_components=3, n_starts=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, X_target=Z)


def assert_agrees(graph: Any, model: Any, Z: Array, rows: Any = None, **domain: Any) -> None:
    """The graph's answers for Z are the model's for rows, in 1e-5 of the largest."""
    got, rows = run(graph, Z), Z if rows is None else rows
    expected = model.predict(rows, **domain)
    if "label" not in got:
        (predicted,) = got.values()
        room = 1e-5 * np.abs(expected).max()
        np.testing.assert_allclose(predicted.reshape(expected.shape), expected, atol=room, rtol=0)
        return
    assert ("probabilities" in got) == hasattr(model, "predict_proba")
    tied = np.zeros(len(Z), dtype=bool)
    if "probabilities" in got:
        probabilities = model.predict_proba(rows, **domain)
        np.testing.assert_allclose(got["probabilities"], probabilities, atol=1e-5, rtol=0)
        tied = np.diff(np.sort(probabilities, axis=1)[:, -2:])[:, 0] < 1e-5
    assert tied.mean() < 0.05
    np.testing.assert_array_equal(got["label"][~tied], expected[~tied])


@pytest.mark.parametrize(("labels", "n"), [("strings", 2), ("numbers", 3)])
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=called)
def test_a_graph_answers_as_the_aligned_classifier(estimator: Any, n: int, labels: str) -> None:
    X, Z, y = (part.copy() for part in domains())
    X, Z = X.astype(np.float32), Z.astype(np.float32)
    model = aligned(unshift.AlignedClassifier, estimator, X, LABELS[labels][y % n], Z)
    assert_agrees(to_onnx(model), model, Z)


@pytest.mark.parametrize("estimator", REGRESSORS, ids=called)
def test_a_graph_answers_as_the_aligned_regressor(estimator: Any) -> None:
    X, Z, _ = (part.astype(np.float32) for part in domains())
    model = aligned(unshift.AlignedRegressor, estimator, X, numbers(X), Z)
    assert_agrees(to_onnx(model), model, Z)


def test_several_numbers_at_once() -> None:
    (X, Z, _), alignment = (part.astype(np.float32) for part in domains()), of_domains()
    model = Ridge().fit(X, np.c_[numbers(X), X[:, 2]])
    graph = to_onnx(model, behind=alignment.target_to_source)
    assert_agrees(graph, model, Z, alignment.target_to_source(Z))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "estimator",
    [None, SVC(), LinearSVC(random_state=0), ensemble.RandomForestClassifier(20, random_state=0)],
    ids=called,
)
def test_means_a_million_times_the_spread_cost_no_digits(estimator: Any, dtype: str) -> None:
    X, Z, y = domains(1e6)
    X, Z = X.astype(dtype), Z.astype(dtype)
    model = aligned(unshift.AlignedClassifier, estimator, X, y % 2, Z)
    assert_agrees(to_onnx(model, dtype=dtype), model, Z)


def test_a_centre_in_one_part_would_lose_them() -> None:
    X, Z, _ = domains(1e6)
    map_ = unshift.AffineAligner(n_components=3, n_starts=1).fit(X, X_target=Z).alignment_.target
    Z = Z.astype(np.float32)
    once = (Z - map_.center.astype(np.float32)) @ map_.matrix + map_.offset
    exact = (Z.astype(np.float64) - map_.center) @ map_.matrix + map_.offset
    room = 1e-5 * np.abs(exact).max()
    assert np.abs(once - exact).max() > 100 * room
    np.testing.assert_allclose(run(to_onnx(map_), Z)["mapped"], exact, atol=room, rtol=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_maps_and_aligners_give_rows_in_the_precision_that_came(dtype: str) -> None:
    X, Z, _ = (part.astype(dtype) for part in domains())
    aligner = unshift.AffineAligner(n_components=3, n_starts=1, random_state=0).fit(X, X_target=Z)
    alignment = aligner.alignment_
    pairs = [
        (aligner, Z, aligner.transform(Z)),
        (alignment.source, X, alignment.source(X)),
        (alignment.target_to_source, Z, alignment.target_to_source(Z)),
    ]
    for model, rows, expected in pairs:
        got = run(to_onnx(model, dtype=dtype), rows)["mapped"]
        assert got.dtype == np.dtype(dtype)
        room = (1e-5 if dtype == "float32" else 1e-12) * np.abs(expected).max()
        np.testing.assert_allclose(got, expected, atol=room, rtol=0)


def test_without_adaptation_and_of_one_domain_rows_come_through_as_they_are() -> None:
    X, _, y = domains()
    X = X.astype(np.float32)
    model = unshift.AlignedClassifier(DecisionTreeClassifier(random_state=0)).fit(X, y)
    assert model.alignment_.target.is_identity
    assert_agrees(to_onnx(model), model, X)
    np.testing.assert_array_equal(run(to_onnx(model.alignment_.target), X)["mapped"], X)
    rng = np.random.default_rng(0)
    X, y = (rng.standard_normal((N, 3)) + 1e4).astype(np.float32), np.arange(N) % 2
    X[:, 0] += 3 * y
    Z = X + rng.standard_normal(X.shape).astype(np.float32) * 1e-3
    model = unshift.AlignedClassifier(random_state=0).fit(X, y, X_target=Z)
    assert model.alignment_.candidates[0].kind == "no adaptation"
    assert_agrees(to_onnx(model), model, Z)


def test_a_candidate_of_scales_alone_is_no_matrix() -> None:
    scales = unshift.AffineMap(np.full(500, 2.0), np.diag(np.arange(1.0, 501.0)), np.ones(500))
    graph = to_onnx(scales)
    assert "MatMul" not in {node.op_type for node in graph.graph.node}
    assert graph.ByteSize() < 20_000
    rows = np.random.default_rng(0).standard_normal((9, 500)).astype(np.float32)
    np.testing.assert_allclose(run(graph, rows)["mapped"], scales(rows), rtol=1e-5, atol=1e-5)


def test_entries_beyond_float32_go_through_double() -> None:
    map_ = unshift.AffineMap(np.full(2, 1e35), np.eye(2) * 1e-33, np.zeros(2))
    rows = np.array([[1e35, 2e35]], dtype=np.float32)
    np.testing.assert_allclose(run(to_onnx(map_), rows)["mapped"], map_(rows), rtol=1e-6, atol=1e-6)


@pytest.fixture
def routing() -> Any:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def in_pipeline(estimator: Any, mean: float) -> tuple[Any, Array]:
    """A scaler before an aligned classifier, and target rows."""
    data = make_mixture(4)
    shift = mean * data.X_source.std(axis=0)
    X, Z = ((rows + shift).astype(np.float32) for rows in (data.X_source, data.X_target))
    last = unshift.AlignedClassifier(estimator, same_features=False, n_starts=1, random_state=0)
    last.set_fit_request(X_target=True)
    pipeline = make_pipeline(StandardScaler(), last, transform_input=["X_target"])
    return pipeline.fit(X, data.y_source, X_target=Z), Z


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("mean", [0.0, 1e6])
def test_a_pipeline_that_ends_in_an_aligned_classifier(mean: float) -> None:
    pipeline, Z = in_pipeline(SVC(), mean)
    assert_agrees(to_onnx(pipeline), pipeline, Z)


@pytest.mark.usefixtures("routing")
def test_skl2onnx_takes_such_a_pipeline_and_its_options() -> None:
    register()
    pipeline, Z = in_pipeline(None, 0.0)
    assert_agrees(skl2onnx.to_onnx(pipeline, Z[:1], options={"zipmap": False}), pipeline, Z)
    # of this one skl2onnx knows no such option, and alone it would refuse it in a pipeline
    pipeline, Z = in_pipeline(LinearSVC(random_state=0), 0.0)
    graph = skl2onnx.to_onnx(pipeline, Z[:1], options={"zipmap": False})
    np.testing.assert_array_equal(run(graph, Z)["label"], pipeline.predict(Z))


def test_the_stacked_form_is_exported_for_target_rows() -> None:
    data = make_mixture(4)
    X = np.r_[data.X_source, data.X_target].astype(np.float32)
    domain, y = np.repeat([1, -1], 300), np.r_[data.y_source, np.full(300, -1)]
    model = unshift.AlignedClassifier(n_starts=1, same_features=False, random_state=0)
    model.fit(X, y, sample_domain=domain)
    assert_agrees(to_onnx(model), model, X[300:], domain="target")


def test_a_model_that_was_trained_on_the_source_behind_the_map() -> None:
    (X, Z, y), alignment = domains(), of_domains()
    y = LABELS["strings"][y % 3]
    forest = ensemble.RandomForestClassifier(20, random_state=0).fit(X, y)
    mapped, graph = (
        alignment.target_to_source(Z),
        to_onnx(forest, behind=alignment.target_to_source),
    )
    assert_agrees(graph, forest, Z.astype(np.float32), mapped)
    shared = LogisticRegression().fit(alignment.source(X), y)
    mapped, graph = alignment.target(Z), to_onnx(shared, behind=alignment.target, dtype="float64")
    assert_agrees(graph, shared, Z, mapped)


@pytest.mark.parametrize(
    "model", [ensemble.IsolationForest(random_state=0), KMeans(3, n_init=1, random_state=0)]
)
def test_what_finds_outliers_and_clusters_goes_behind_a_map_too(model: Any) -> None:
    X, Z, _ = domains()
    alignment, model = of_domains(), model.fit(X)
    label = run(to_onnx(model, behind=alignment.target_to_source), Z.astype(np.float32))["label"]
    expected = model.predict(alignment.target_to_source(Z))
    assert np.mean(label.ravel() != expected) < 0.02  # a row at a threshold may go either way


@pytest.mark.parametrize(("labels", "n"), [("strings", 3), ("numbers", 2)])
def test_the_command_lines_model_as_a_graph(n: int, labels: str) -> None:
    X, Z, y = domains()
    alignment = of_domains()
    y = LABELS[labels][y % n]
    predictor = linear_predictor(alignment.source(X), y, "classification")
    model = Model(alignment, predictor, "label")
    assert_agrees(to_onnx(model), predictor, Z.astype(np.float32), alignment.target(Z))
    numbers_ = linear_predictor(alignment.source(X), numbers(X), "regression")
    got = run(to_onnx(Model(alignment, numbers_, "y"), dtype="float64"), Z)["mapped"]
    np.testing.assert_allclose(got[:, 0], numbers_.predict(alignment.target(Z)), rtol=1e-9)


def test_skl2onnx_itself_knows_what_was_registered() -> None:
    X, Z, y = domains()
    X, Z = X.astype(np.float32), Z.astype(np.float32)
    register()
    register()
    model = aligned(unshift.AlignedClassifier, None, X, y % 2, Z)
    graph = skl2onnx.to_onnx(model, Z[:1], options={id(model): {"zipmap": False}})
    assert_agrees(graph, model, Z)
    (_, probabilities) = run(skl2onnx.to_onnx(model, Z[:1]), Z).values()
    assert isinstance(probabilities[0], dict)  # what skl2onnx does where nothing was said
    pipeline = make_pipeline(StandardScaler(), unshift.AffineAligner(n_components=2), Ridge())
    pipeline.fit(X, y)
    assert_agrees(skl2onnx.to_onnx(pipeline, X[:1]), pipeline, X)
    kind = skl2onnx.common.data_types.FloatTensorType([None, 1])
    with pytest.raises(ValueError, match=r"as one input.*got 2 inputs.*ColumnTransformer"):
        skl2onnx.convert_sklearn(model, initial_types=[("a", kind), ("b", kind)])


def test_a_deployed_graph_takes_the_map_before_it() -> None:
    X, Z, y = domains()
    alignment = of_domains()
    deployed = LogisticRegression().fit(X, y)
    after = to_onnx(deployed)
    before = onnx.compose.add_prefix(
        to_onnx(alignment.target_to_source), "map_", rename_inputs=False
    )
    merged = onnx.compose.merge_models(before, after, io_map=[("map_mapped", "X")])
    assert_agrees(merged, deployed, Z.astype(np.float32), alignment.target_to_source(Z))


def test_a_graph_says_its_columns_and_is_the_same_each_time() -> None:
    X, Z, y = domains()
    model = aligned(unshift.AlignedClassifier, None, pd.DataFrame(X, columns=list("abcd")), y,
                    pd.DataFrame(Z, columns=list("uvwxyz")))  # fmt: skip
    graph = to_onnx(model)
    (told,) = [prop.value for prop in graph.metadata_props if prop.key == "columns"]
    assert json.loads(told) == list("uvwxyz")
    assert graph.SerializeToString() == to_onnx(model).SerializeToString()
    onnx.checker.check_model(graph)
    assert [dim.dim_value for dim in graph.graph.input[0].type.tensor_type.shape.dim] == [0, 6]
    older = to_onnx(model, target_opset=15)
    assert {op.version for op in older.opset_import if not op.domain} == {15}
    assert_agrees(older, model, Z.astype(np.float32), pd.DataFrame(Z, columns=list("uvwxyz")))


class Liar(LogisticRegression):  # type: ignore[misc]
    """A model whose converter is another model's."""

    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(X) ** 2


def test_a_graph_that_answers_otherwise_is_not_handed_out() -> None:
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
    from skl2onnx.operator_converters.linear_classifier import convert_sklearn_linear_classifier

    skl2onnx.update_registered_converter(
        Liar,
        "LiarOfTests",
        calculate_linear_classifier_output_shapes,
        convert_sklearn_linear_classifier,
        options={name: [True, False] for name in ("zipmap", "raw_scores", "nocl")},
    )
    X, _, y = domains()
    with pytest.raises(RuntimeError, match=r"made of Liar answers \d+ of 64 rows otherwise"):
        to_onnx(Liar().fit(X, y))


class Unknown(DecisionTreeClassifier):  # type: ignore[misc]
    """No converter knows a subclass."""


def behind(what: Any, X: Array, y: Array) -> dict[str, Any]:
    return {"model": Ridge().fit(X, y), "behind": what}


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda a, X, y: {"model": Unknown().fit(X, y)},
            TypeError,
            "could not convert Unknown: Unable.*teach",
        ),
        (lambda a, X, y: {"model": Ridge()}, NotFittedError, "not fitted"),
        (lambda a, X, y: {"model": a}, TypeError, "to_onnx takes a fitted model or a map; got <Al"),
        (lambda a, X, y: {"model": a.source, "dtype": "half"}, ValueError, "dtype should be one"),
        (behind, TypeError, "an AffineMap, such as.*got Alignment"),
        (lambda a, X, y: behind(a.target, X, y), ValueError, "gives 3 columns, but .* takes 4"),
    ],
)
def test_what_cannot_be_exported_is_refused(make: Any, error: type, message: str) -> None:
    X, _, y = domains()
    alignment = of_domains()
    with pytest.raises(error, match=message):
        to_onnx(**make(alignment, X, y))


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs skl2onnx.*pip install 'unshift\[onnx\]'"):
        to_onnx(unshift.AffineMap.identity(2))
