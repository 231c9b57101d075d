"""What users do today, beside unshift: fixed strategies, and the linear methods of other libraries.

Each method sees the source's rows and labels and the target's rows, and predicts the target with
the estimator of all methods on top. Columns are first brought to the source's mean and deviation,
which is what the estimator would do: the methods then see units of one size. Where columns do not
correspond none of them applies.

Beside unshift's own task are methods that train a network or weigh source rows: they have no map to
put in front of the same estimator. ADAPT is left out: of linear maps it has CORAL, TCA and subspace
alignment, which are here, and all of it imports tensorflow.
"""

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from unshift.predictors import default_estimator

from .problems import Problem

Array = np.ndarray
# Standardised rows of source and target -> rows of both to train and to predict on.
Adapt = Callable[[Array, Array], tuple[Array, Array]]

# Kernels between all rows: what fits a few seconds and a few hundred megabytes.
MOST_KERNEL_ROWS = 1700
# Hundreds of eigendecompositions of the covariance, one after another: minutes at 1,024 columns.
MOST_MONGE_COLUMNS = 300
# Added to covariances of standardised columns: at the libraries' default, 1e-8, what a column of no
# variance has makes the maps fail.
REGULARISATION = 1e-3
# Dimensions of the subspace methods, as of unshift's "auto" at most.
SUBSPACE = 20


class SkippedError(Exception):
    """A method that cannot or should not be run on a problem; says why."""


def none(source: Array, target: Array) -> tuple[Array, Array]:
    return source, target


def mean_shift(source: Array, target: Array) -> tuple[Array, Array]:
    return source, target + (source.mean(axis=0) - target.mean(axis=0))


def location_and_scale(source: Array, target: Array) -> tuple[Array, Array]:
    here, there = target.std(axis=0), source.std(axis=0)
    gain = np.where((here > 0) & (there > 0), there / np.where(here > 0, here, 1.0), 1.0)
    return source, (target - target.mean(axis=0)) * gain + source.mean(axis=0)


def coral(source: Array, target: Array) -> tuple[Array, Array]:
    """Sun, Feng and Saenko: the source takes on the target's covariance, both plus the identity."""
    here, there = (
        root(np.cov(X.T).reshape(X.shape[1], -1) + np.eye(X.shape[1])) for X in (source, target)
    )
    map_ = np.linalg.solve(here, there)
    return (source - source.mean(axis=0)) @ map_ + target.mean(axis=0), target


def root(S: Array) -> Array:
    """The symmetric square root."""
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def linear_transport(source: Array, target: Array) -> tuple[Array, Array]:
    """POT's own, which skada's LinearOTMapping wraps."""
    import ot

    fitted = ot.da.LinearTransport(reg=REGULARISATION).fit(Xs=source, Xt=target)
    return fitted.transform(Xs=source), target


def skada_adapter(name: str, **settings: object) -> Adapt:
    """An adapter of skada with its defaults but for these settings."""

    def adapt(source: Array, target: Array) -> tuple[Array, Array]:
        import skada

        if name.startswith("TransferComponent") and len(source) + len(target) > MOST_KERNEL_ROWS:
            raise SkippedError(f"more than {MOST_KERNEL_ROWS} rows")
        if name.startswith("MultiLinearMonge") and source.shape[1] > MOST_MONGE_COLUMNS:
            raise SkippedError(f"more than {MOST_MONGE_COLUMNS} columns")
        stacked = np.concatenate([source, target])
        stacked = stacked[:, stacked.std(axis=0) > 0]  # a column of no variance makes some fail
        given = dict(settings)
        if "n_components" in given:
            given["n_components"] = min(SUBSPACE, len(source), len(target), stacked.shape[1])
        domain = np.repeat([1, -2], [len(source), len(target)])
        adapter = getattr(skada, f"{name}Adapter")(**given)
        moved = adapter.fit_transform(stacked, sample_domain=domain)
        return moved[: len(source)], moved[len(source) :]

    return adapt


FIXED: dict[str, Adapt] = {
    "none": none,
    "mean shift": mean_shift,
    "location and scale": location_and_scale,
    "CORAL": coral,
    "POT LinearTransport": linear_transport,
}
PEERS: dict[str, Adapt] = {
    "skada SubspaceAlignment": skada_adapter("SubspaceAlignment", n_components=SUBSPACE),
    "skada CORAL": skada_adapter("CORAL"),
    "skada MultiLinearMonge": skada_adapter("MultiLinearMongeAlignment", reg=REGULARISATION),
    "skada TCA": skada_adapter("TransferComponentAnalysis", n_components=SUBSPACE),
}


def missing(method: str) -> bool:
    """Whether the library of a method is not installed."""
    library = {"skada": "skada", "POT": "ot"}.get(method.split()[0])
    return library is not None and find_spec(library) is None


def predict(method: str, problem: Problem) -> Array:
    """What the estimator says of the target's rows after the method."""
    if not problem.same_features:
        if method != "none":
            raise SkippedError("columns do not correspond")
        return constant(problem)
    X = problem.X_source.astype(np.float64)
    deviation = X.std(axis=0)
    deviation[deviation == 0] = 1.0
    source, target = (
        (rows.astype(np.float64) - X.mean(axis=0)) / deviation for rows in (X, problem.X_target)
    )
    adapt = (FIXED | PEERS)[method]
    source, target = adapt(source, target)
    model = default_estimator(problem.task).fit(source, problem.y_source)
    return model.predict(target)


def constant(problem: Problem) -> Array:
    """Without any correspondence: the source's commonest class, or its mean number."""
    if problem.task == "regression":
        return np.full(len(problem.y_target), problem.y_source.mean())
    classes, counts = np.unique(problem.y_source, return_counts=True)
    return np.full(len(problem.y_target), classes[counts.argmax()])
