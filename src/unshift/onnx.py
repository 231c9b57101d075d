"""ONNX: an alignment, and the estimator behind it, as one graph that needs no Python to run.

A map is ``(x − c) M + b`` in the graph too, its centre in two parts, so that float32 rows keep
their digits where columns' means are large beside their spread. Whatever comes behind the map is
converted by skl2onnx.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np

from ._checks import check_option
from ._extras import extra
from .affine import AffineMap, split_center
from .aligned import Aligned
from .chain import Chain, Scores, answers_of, as_step, probes, steps_of
from .estimators import AffineAligner, AlignedClassifier, AlignedRegressor
from .fold import AffineStep
from .model import Model
from .predictors import Standardized

EXTRA = "onnx"
# The names that our own nodes have in skl2onnx.
STEP, SCORES = "UnshiftAffineStep", "UnshiftScores"


# Rows on which a graph must answer as the model does, how closely, and how many of them: a row near
# the threshold of a tree may take the other branch.
PROBES, AGREEMENT, ENOUGH = 64, 1e-3, 0.75
# What skl2onnx tests of the operators for trees and the like, and the opset from which it is there.
TREES_OPSET, WITH_TREES_OPSET = 3, 15
# What we convert ourselves, in single or double precision.
OURS = (AffineStep, Scores)


def to_onnx(
    model: Any,
    *,
    behind: AffineMap | None = None,
    dtype: str = "float32",
    target_opset: int | None = None,
) -> Any:
    """The fitted model as an ``onnx.ModelProto``: raw target rows in, predictions out.

    ``model`` is an AlignedClassifier, AlignedRegressor or AffineAligner, a Pipeline that ends in
    one, an AffineMap, or the Model that ``unshift fit`` wrote. With ``behind``, any other fitted
    scikit-learn model, which then takes what the map gives: ``to_onnx(forest,
    behind=alignment.target_to_source)``.

    The graph has one input, ``X`` (n, d) of ``dtype`` "float32" or "float64". A classifier gives
    ``label`` (n,) and, where it has predict_proba, ``probabilities`` (n, k) in the order of
    ``classes_``; a regressor or a map gives one output (n, k).
    """
    check_option(dtype, "dtype", ("float32", "float64"))
    register()
    types = extra("skl2onnx.common.data_types", EXTRA)
    tensor = types.FloatTensorType if dtype == "float32" else types.DoubleTensorType
    steps = tuple(steps_of(model))
    if behind is not None:
        _check_behind(behind, steps[0])
        steps = (as_step(behind), *steps)
    width, names = _columns(steps[0], model if behind is None else behind)
    onnx_model = _converted(steps, [("X", tensor([None, width]))], target_opset)
    if _only_labels(steps[-1]):
        onnx_model = _with_labels_only(onnx_model)
    _keep_used_domains(onnx_model)
    _prove(onnx_model, steps, dtype)
    if names is not None:
        told = {"columns": json.dumps(list(names))}
        extra("onnx.helper", EXTRA).set_model_props(onnx_model, told)
    return onnx_model


def register() -> None:
    """Teach skl2onnx the estimators and maps of unshift, for its own to_onnx and convert_sklearn.

    ``to_onnx`` above does it by itself. Doing it again changes nothing.
    """
    skl2onnx = extra("skl2onnx", EXTRA)
    skl2onnx.update_registered_converter(AffineStep, STEP, _step_shape, _convert_step)
    skl2onnx.update_registered_converter(Scores, SCORES, _scores_shape, _convert_scores)
    skl2onnx.update_registered_parser(Scores, _parse_scores)
    for kind in (Chain, Standardized, AffineAligner, AlignedClassifier, AlignedRegressor):
        skl2onnx.update_registered_parser(kind, _parse)


def _columns(first: Any, model: Any) -> tuple[int, tuple[str, ...] | None]:
    """How many columns come in, and their names where they have some."""
    if isinstance(model, Model):
        model = model.alignment.target
    if isinstance(model, AffineMap):
        return model.width_in, model.names_in
    if isinstance(model, Aligned):
        names = model.feature_names_target_
        return int(model.n_features_target_), None if names is None else tuple(names)
    names = getattr(model, "feature_names_in_", None)
    width = first.width_in if isinstance(first, AffineStep) else first.n_features_in_
    return int(width), None if names is None else tuple(names)


def _check_behind(map_: AffineMap, first: Any) -> None:
    if not isinstance(map_, AffineMap):
        raise TypeError(
            f"behind should be an AffineMap, such as alignment.target_to_source or "
            f"alignment.target; got {type(map_).__name__}."
        )
    width = first.width_in if isinstance(first, AffineStep) else first.n_features_in_
    if width != map_.width_out:
        raise ValueError(
            f"The map gives {map_.width_out} columns, but the model takes {width}. Use "
            "alignment.target_to_source for a model trained on source features, and "
            "alignment.target for one trained on alignment.source(X)."
        )


def _converted(steps: tuple[Any, ...], inputs: list[Any], target_opset: int | None) -> Any:
    skl2onnx = extra("skl2onnx", EXTRA)
    opset = target_opset or skl2onnx.get_latest_tested_opset_version()
    opsets = {"": opset, "ai.onnx.ml": TREES_OPSET if opset >= WITH_TREES_OPSET else 1}
    with warnings.catch_warnings():  # it uses what scikit-learn and protobuf are about to drop
        for kind in (FutureWarning, DeprecationWarning):
            warnings.simplefilter("ignore", kind)
        try:
            return skl2onnx.convert_sklearn(
                Chain(steps), name="unshift", initial_types=inputs, target_opset=opsets
            )
        except (RuntimeError, ValueError, NameError) as error:
            known = ", ".join(type(s).__name__ for s in steps if not isinstance(s, OURS))
            said = str(error).partition("\n")[0]
            raise TypeError(
                f"skl2onnx {skl2onnx.__version__} could not convert {known or 'the map'}: "
                f"{said:.160} Use an estimator that it knows, or teach it this one with "
                "skl2onnx.update_registered_converter."
            ) from error


def _only_labels(last: Any) -> bool:
    """Whether a classifier has no probabilities: what skl2onnx gives instead is not one thing."""
    from sklearn.base import is_classifier

    if isinstance(last, AffineStep | Scores):
        return False
    return is_classifier(last) and not hasattr(last, "predict_proba")


def _with_labels_only(onnx_model: Any) -> Any:
    helper = extra("skl2onnx.helpers.onnx_helper", EXTRA)
    onnx_model = helper.select_model_inputs_outputs(onnx_model, ["label"])
    graph = onnx_model.graph
    used = {name for node in graph.node for name in node.input}
    kept = [constant for constant in graph.initializer if constant.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return onnx_model


def _keep_used_domains(onnx_model: Any) -> None:
    """Graphs can be merged where they agree on the operators of every domain that both name."""
    used = {node.domain for node in onnx_model.graph.node}
    versions = {opset.domain: opset.version for opset in onnx_model.opset_import}
    kept = [(domain, version) for domain, version in versions.items() if domain in used]
    del onnx_model.opset_import[:]
    for domain, version in kept:
        onnx_model.opset_import.add(domain=domain, version=version)


def _prove(onnx_model: Any, steps: tuple[Any, ...], dtype: str) -> None:
    """Refuse a graph that does not answer as the steps do, on rows near the centre."""
    runtime = extra("onnxruntime", EXTRA)
    rows = probes(steps, PROBES).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that arrays have no names, and that exp overflows
        expected = answers_of(steps, rows)
    session = runtime.InferenceSession(
        onnx_model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    answers = session.run(None, {"X": rows})
    agree = np.ones(PROBES, dtype=np.bool_)
    for answer, truth in zip(answers, expected, strict=False):  # scores beyond labels may follow
        answer, truth = answer.reshape(PROBES, -1), truth.reshape(PROBES, -1)
        if truth.dtype.kind == "f":
            room = AGREEMENT * (1.0 + np.abs(truth).max())
            agree &= (np.abs(answer - truth) <= room).all(axis=1)
        else:
            agree &= (answer.astype(str) == truth.astype(answer.dtype).astype(str)).all(axis=1)
    if agree.mean() < ENOUGH:
        raise RuntimeError(
            f"The graph that skl2onnx made of {type(steps[-1]).__name__} answers {(~agree).sum()} "
            f"of {PROBES} rows otherwise than the model does, so it was not handed out. Use "
            "another estimator, or another version of skl2onnx."
        )


# What skl2onnx calls: parsers declare outputs, shapes say their types, converters make the nodes.


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    parsing = extra("skl2onnx._parse", EXTRA)
    types = extra("skl2onnx.common.data_types", EXTRA)
    steps = list(steps_of(model))
    if len(inputs) != 1:
        raise ValueError(
            f"The columns should come as one input (n, d) of the graph; got {len(inputs)} inputs. "
            "Concatenate them first, with a ColumnTransformer."
        )
    if not isinstance(steps[0], OURS) and not isinstance(inputs[0].type, types.FloatTensorType):
        steps.insert(0, as_step(AffineMap.identity(steps[0].n_features_in_)))
    _pass_options(scope, model, steps[-1])
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(step, AffineStep):
            # Many converters of skl2onnx know float32 only, which does once rows are centred.
            ours = following is None or isinstance(following, OURS)
            wanted = types.guess_tensor_type(inputs[0].type) if ours else types.FloatTensorType()
            inputs = _declare_step(scope, step, inputs, wanted)
        else:
            inputs = parsing._parse_sklearn(scope, step, inputs, custom_parsers=custom_parsers)
    return inputs


def _pass_options(scope: Any, model: Any, last: Any) -> None:
    """What was asked of the model is asked of its last step, as far as that knows of it."""
    given = scope.options or {}
    asked = {"zipmap": not isinstance(model, Chain)}
    asked |= {**given.get(type(model), {}), **given.get(id(model), {})}
    known = scope._get_allowed_options(last, fail=False) or {}
    scope.add_options(id(last), {k: v for k, v in asked.items() if k in known} or None)


def _declare_step(scope: Any, step: AffineStep, inputs: Any, wanted: Any) -> Any:
    operator = scope.declare_local_operator(STEP, step)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("mapped", wanted))
    return operator.outputs


def _parse_scores(scope: Any, scores: Scores, inputs: Any, custom_parsers: Any = None) -> Any:
    types = extra("skl2onnx.common.data_types", EXTRA)
    operator = scope.declare_local_operator(SCORES, scores)
    operator.inputs = inputs
    strings = scores.classes.dtype.kind in "OUT"
    label = types.StringTensorType() if strings else types.Int64TensorType()
    operator.outputs.append(scope.declare_local_variable("label", label))
    operator.outputs.append(scope.declare_local_variable("probabilities", inputs[0].type))
    return operator.outputs


def _step_shape(operator: Any) -> None:
    operator.outputs[0].type.shape = [None, operator.raw_operator.width_out]


def _scores_shape(operator: Any) -> None:
    operator.outputs[0].type.shape = [None]
    operator.outputs[1].type.shape = [None, operator.raw_operator.classes.size]


def _convert_step(scope: Any, operator: Any, container: Any) -> None:
    """``((x − c) − rest of c) M + b``, in double where the rows or the entries need it."""
    nodes, types = extra("skl2onnx.algebra.onnx_ops", EXTRA), extra("onnx", EXTRA).TensorProto
    data_types = extra("skl2onnx.common.data_types", EXTRA)
    step: AffineStep = operator.raw_operator
    opset = {"op_version": container.target_opset}
    given, wanted = operator.inputs[0], operator.outputs[0]
    narrow = isinstance(given.type, data_types.FloatTensorType) and step.fits(np.float32)
    dtype = np.dtype(np.float32 if narrow else np.float64)
    rows = given
    if not narrow:
        rows = nodes.OnnxCast(rows, to=types.DOUBLE, **opset)
    center, rest = split_center(step.center, dtype)
    for part in (center, rest):
        if part is not None and part.any():
            rows = nodes.OnnxSub(rows, part, **opset)
    if step.factors.ndim == 2:
        rows = nodes.OnnxMatMul(rows, step.factors.astype(dtype), **opset)
    elif (step.factors != 1).any():
        rows = nodes.OnnxMul(rows, step.factors.astype(dtype), **opset)
    if step.offset.any():
        rows = nodes.OnnxAdd(rows, step.offset.astype(dtype), **opset)
    double = isinstance(wanted.type, data_types.DoubleTensorType)
    to = types.DOUBLE if double else types.FLOAT
    nodes.OnnxCast(rows, to=to, output_names=[wanted], **opset).add_to(scope, container)


def _convert_scores(scope: Any, operator: Any, container: Any) -> None:
    nodes, opset = extra("skl2onnx.algebra.onnx_ops", EXTRA), {"op_version": container.target_opset}
    scores, classes = operator.inputs[0], operator.raw_operator.classes
    strings = classes.dtype.kind in "OUT"
    labels = classes.astype(str).astype(object) if strings else classes.astype(np.int64)
    best = nodes.OnnxArgMax(scores, axis=1, keepdims=0, **opset)
    label, probabilities = operator.outputs
    nodes.OnnxGather(labels, best, axis=0, output_names=[label], **opset).add_to(scope, container)
    soft = nodes.OnnxSoftmax(scores, axis=1, output_names=[probabilities], **opset)
    soft.add_to(scope, container)
