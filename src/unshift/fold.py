"""``fold``: a fitted linear model and the affine map before it, as one linear model.

``((x − c) M + b) Wᵀ + w₀  =  x (W Mᵀ)ᵀ + (w₀ + b Wᵀ − c (W Mᵀ)ᵀ)``: what a deployed model is asked
for new target rows needs no code of ours, only other coefficients.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from ._checks import check_option
from .affine import AffineMap
from .choice import Candidate
from .predictors import Standardized

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

# Rows on which a folded model must agree with the model behind the map, and how closely.
PROBES, AGREEMENT = 64, 1e-6
# What a linear model answers first: the nearer to x Wᵀ + w₀ the better.
ANSWERS = ("decision_function", "predict_proba", "predict")

# Arrays of a fitted model that are no vectors of its features, be they as long.
KEPT = ("classes_", "n_iter_", "priors_")

INSTEAD = (
    "Map the rows instead, model.predict(alignment.target(X)) for a model on the shared space and "
    "model.predict(alignment.target_to_source(X)) for one on source features; or write map and "
    "model as one graph: from unshift.onnx import to_onnx, then to_onnx(model, "
    "behind=alignment.target_to_source), or behind=alignment.target."
)


@dataclass(frozen=True, eq=False)
class AffineStep:
    """``x -> (x − center) * factors + offset`` of a column each, or ``@ factors`` (d_in, d_out).

    A scaler of many columns has a vector of factors, where an AffineMap has a square matrix.
    """

    center: Vector
    factors: Matrix
    offset: Vector

    @property
    def width_in(self) -> int:
        """Number of columns it takes."""
        return int(self.center.size)

    @property
    def width_out(self) -> int:
        """Number of columns it gives."""
        return int(self.offset.size)

    def fits(self, dtype: npt.DTypeLike) -> bool:
        """As ``AffineMap.fits``, which looks at the sizes of entries only."""
        return AffineMap(self.center, self.factors, self.offset).fits(dtype)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """The step of rows (n, d_in), in double precision."""
        centered = rows - self.center
        times = centered * self.factors if self.factors.ndim == 1 else centered @ self.factors
        mapped: FloatArray = times + self.offset
        return mapped

    def after(self, map_: AffineMap) -> AffineMap:
        """First the map, then this: ``(x − c) (M · f) + (b − center) · f + offset``."""
        matrix, offset = map_.matrix, map_.offset - self.center
        if self.factors.ndim == 1:
            matrix, offset = matrix * self.factors, offset * self.factors
        else:
            matrix, offset = matrix @ self.factors, offset @ self.factors
        return AffineMap(map_.center, matrix, offset + self.offset, map_.names_in)


def fold_candidate(model: Any, candidate: Candidate, space: str) -> Any:
    """A model of target features that answers as ``model`` does behind the candidate's map."""
    check_option(space, "space", ("auto", "source", "shared"))
    if not hasattr(model, "behind"):
        refuse_unfitted(model, "fold takes a fitted scikit-learn model")
        of_source = _reads_source(model, candidate, space)
    else:
        of_source = space == "source"
    map_ = candidate.target_to_source if of_source else candidate.target
    normal = np.random.default_rng(0).standard_normal((PROBES, candidate.target.width_out))
    return fold(model, map_, candidate.target.inverse().plain(normal))


def fold(model: Any, map_: AffineMap, probes: FloatArray) -> Any:
    """A model that answers as the linear ``model`` does behind ``map_``, proved on ``probes``."""
    if hasattr(model, "behind"):
        return model.behind(map_)
    last, steps = _taken_apart(model)
    for step in steps:
        map_ = step.after(map_)
    folded = _with_map(last, map_)
    if not _agree(last, map_, folded, probes):
        raise TypeError(
            f"{type(last).__name__} has coef_ and intercept_, but does not predict by "
            f"X @ coef_.T + intercept_ alone, so it cannot be folded. {INSTEAD}"
        )
    return folded


def refuse_unfitted(model: Any, expected: str) -> None:
    """Say what was ``expected`` where this is no estimator, or none that was fitted."""
    from sklearn.utils.validation import check_is_fitted

    if isinstance(model, type) or not hasattr(model, "fit"):
        raise TypeError(
            f"{expected}; got {model!r:.80}. Pass one that was trained on source features or on "
            "alignment.source(X)."
        )
    check_is_fitted(model)


def _reads_source(model: Any, candidate: Candidate, space: str) -> bool:
    """Whether the model takes source features, not rows of the shared space."""
    map_ = candidate.source
    first = _first_step(model)
    width = first.n_features_in_ if hasattr(first, "n_features_in_") else first.coef_.shape[-1]
    names = tuple(first.feature_names_in_) if hasattr(first, "feature_names_in_") else None
    widths = {"source": map_.width_in, "shared": map_.width_out}
    known = {"source": map_.names_in, "shared": map_.shared_names()}
    fits = [s for s in widths if width == widths[s] and space in (s, "auto")]
    if not fits:
        raise ValueError(
            f"The model takes {width} features, but the source has {widths['source']} and the "
            f"shared space {widths['shared']}{'' if space == 'auto' else f' (space={space!r})'}. "
            "Pass a model that was trained on source features or on alignment.source(X)."
        )
    if len(fits) == 2 and not map_.is_identity:
        fits = [s for s in fits if names is not None and names == known[s]]
    if not fits:
        raise ValueError(
            f"The model takes {width} features, and so many have both the source and the shared "
            "space. Say which it was trained on: space='source' for source features, "
            "space='shared' for alignment.source(X)."
        )
    expected = known[fits[0]]
    if fits[0] == "source" and names is not None and expected is not None and names != expected:
        raise ValueError(
            f"The model's feature names differ from the source's: it has {list(names[:5])}, the "
            f"alignment {list(expected[:5])}. Pass a model that was trained on the columns that "
            "were aligned, in their order."
        )
    return fits[0] == "source"


def _first_step(model: Any) -> Any:
    """What sees the rows first: the model itself, or the first step of a Pipeline that does."""
    steps = [step for _, step in getattr(model, "steps", []) if step not in (None, "passthrough")]
    first = _first_step(steps[0]) if steps else model
    if not hasattr(first, "n_features_in_") and not hasattr(first, "coef_"):
        raise TypeError(
            f"{type(first).__name__} has neither n_features_in_ nor coef_, which fold needs. "
            f"{INSTEAD}"
        )
    return first


def _taken_apart(model: Any) -> tuple[Any, list[AffineStep]]:
    """The linear model at the end, and the affine steps before it."""
    from sklearn.pipeline import Pipeline

    if isinstance(model, Standardized):
        last, steps = _taken_apart(model.estimator_)
        return last, [scaling_step(model.center_, model.scale_, model.n_features_in_), *steps]
    if hasattr(model, "best_estimator_"):  # a search over parameters
        return _taken_apart(model.best_estimator_)
    if not isinstance(model, Pipeline):
        return model, []
    before: list[AffineStep] = []
    for name, step in model.steps[:-1]:
        if step is None or step == "passthrough":
            continue
        known = affine_step(step)
        if known is None:
            raise TypeError(
                f"Step {name!r} of the pipeline, {type(step).__name__}, is no affine step that "
                "fold knows (StandardScaler, MinMaxScaler and MaxAbsScaler without clipping, "
                f"RobustScaler, PCA). {INSTEAD}"
            )
        before.append(known)
    last, steps = _taken_apart(model.steps[-1][1])
    return last, [*before, *steps]


def affine_step(step: Any) -> AffineStep | None:
    """What a fitted transformer of scikit-learn does to rows; None where that is not affine."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    kind = type(step)  # a subclass may do otherwise
    if kind is StandardScaler:
        center, scale = step.mean_ if step.with_mean else None, step.scale_
        return scaling_step(center, scale if step.with_std else None, step.n_features_in_)
    if kind is RobustScaler:
        center, scale = step.center_ if step.with_centering else None, step.scale_
        return scaling_step(center, scale if step.with_scaling else None, step.n_features_in_)
    if kind is MinMaxScaler and not step.clip:
        zero = np.zeros(step.n_features_in_)
        return AffineStep(zero, step.scale_.astype(float), step.min_.astype(float))
    if kind is MaxAbsScaler and not getattr(step, "clip", False):
        return scaling_step(None, step.scale_, step.n_features_in_)
    if kind is PCA:
        directions = step.components_.T.astype(np.float64)
        if step.whiten:
            smallest = np.finfo(step.explained_variance_.dtype).eps
            directions = directions / np.sqrt(np.maximum(step.explained_variance_, smallest))
        return AffineStep(step.mean_.astype(float), directions, np.zeros(directions.shape[1]))
    return None


def scaling_step(center: Array | None, scale: Array | None, width: int) -> AffineStep:
    """``(x − center) / scale`` of ``width`` columns; None is no centre, or no scale."""
    zero = np.zeros(width)
    factors = np.ones(width) if scale is None else 1.0 / np.asarray(scale, dtype=np.float64)
    return AffineStep(zero if center is None else np.asarray(center, np.float64), factors, zero)


def _with_map(model: Any, map_: AffineMap) -> Any:
    """A copy of the linear model with the coefficients of the formula above, in float64."""
    coef = getattr(model, "coef_", None)
    intercept = getattr(model, "intercept_", None)
    derived = isinstance(getattr(type(model), "coef_", None), property)
    if coef is None or intercept is None or derived:
        raise TypeError(
            f"{type(model).__name__} is no linear model with coef_ and intercept_ of its own, as "
            f"LogisticRegression, LinearSVC or Ridge are after fit. {INSTEAD}"
        )
    dense: Any = coef.toarray() if hasattr(coef, "toarray") else np.asarray(coef)
    old: Matrix = dense.astype(np.float64)
    new = old @ map_.matrix.T
    shift = old @ map_.offset - new @ map_.center
    folded = copy.deepcopy(model)
    # Whatever else was learned in the old space (means, covariances) would be silently wrong.
    for name, value in list(vars(folded).items()):
        if isinstance(value, np.ndarray) and old.shape[-1] in value.shape and name not in KEPT:
            delattr(folded, name)
    folded.coef_ = new
    folded.intercept_ = np.asarray(intercept, dtype=np.float64) + shift
    if old.ndim == 1 and np.ndim(intercept) == 0:
        folded.intercept_ = float(folded.intercept_)
    folded.n_features_in_ = map_.width_in
    if map_.names_in is not None:
        folded.feature_names_in_ = np.array(map_.names_in, dtype=object)
    elif hasattr(folded, "feature_names_in_"):
        del folded.feature_names_in_
    return folded


def _agree(model: Any, map_: AffineMap, folded: Any, probes: FloatArray) -> bool:
    """Whether the folded model answers on the probes as the model does behind the map."""
    plain = copy.copy(folded), copy.copy(model)
    for copied in plain:  # arrays have no names, and that is no reason to warn
        if hasattr(copied, "feature_names_in_"):
            del copied.feature_names_in_
    answer = next((name for name in ANSWERS if hasattr(model, name)), "predict")
    with np.errstate(over="ignore"):  # links that grow as exp do
        expected = np.asarray(getattr(plain[1], answer)(map_.plain(probes)))
        try:
            got = np.asarray(getattr(plain[0], answer)(probes))
        except AttributeError:  # it needed more of what it had learned than the coefficients
            return False
    if expected.dtype.kind not in "fiu":
        return bool((got == expected).all())
    rounding = np.finfo(np.float64).eps * float(np.max(np.abs(probes) @ np.abs(folded.coef_).T))
    finite = expected[np.isfinite(expected)]
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    room = AGREEMENT * largest + 1e3 * rounding
    return got.shape == expected.shape and np.allclose(got, expected, rtol=AGREEMENT, atol=room)
