"""Every check of an input, and its message: what was expected, what came, what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.utils import check_array

from ._arrays import FloatArray, column_names, is_frame

Labels = npt.NDArray[Any]

# Tables that hold no rows yet, or in a way of their own, and how to get at them.
TABLES = {("polars", "LazyFrame"): "collect()", ("pyarrow", "Table"): "to_pandas()"}


def check_matrix(X: Any, name: str, *, min_rows: int = 2, finite: bool = True) -> FloatArray:
    """A dense two-dimensional array of float32 or float64, not copied where it is one already."""
    if scipy.sparse.issparse(X):
        raise TypeError(
            f"{name} is sparse; unshift centres every column, which would fill the matrix. "
            f"Pass dense data: {name}.toarray(), or reduce it first with TruncatedSVD."
        )
    _refuse_other_kinds(X, name)
    if is_frame(X):
        _refuse_repeated_names(X, name)
        _refuse_text_columns(X, name)
    try:
        matrix: FloatArray = check_array(
            _unwrapped(X),
            dtype=[np.float64, np.float32],
            ensure_all_finite=finite,
            ensure_min_samples=min_rows,
            input_name=name,
        )
    except (ValueError, TypeError) as error:
        missing = "NAType" in str(error)  # of no use to numpy, which calls it a wrong type
        raise (ValueError if missing else type(error))(_explain(error, X, name)) from error
    return matrix


def _unwrapped(X: Any) -> Any:
    """A frame as an array where scikit-learn would lose its float32: in polars, and in pandas' own
    and Arrow's columns; else what came.
    """
    if not is_frame(X):
        return X
    if not hasattr(X, "iloc"):
        return X.to_numpy()
    kinds = {str(getattr(kind, "numpy_dtype", kind)) for kind in X.dtypes}
    return X.to_numpy(dtype=np.float32, na_value=np.nan) if kinds == {"float32"} else X


def _refuse_other_kinds(X: Any, name: str) -> None:
    """Name what numpy would turn into numbers that the user did not mean, or not at all."""
    remedy = TABLES.get((type(X).__module__.partition(".")[0], type(X).__name__))
    if remedy is not None:
        raise TypeError(f"{name} is a {type(X).__name__}. Pass rows: {name}.{remedy}.")
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        masked = np.argwhere(np.ma.getmaskarray(X))
        raise ValueError(
            f"{name} has {len(masked)} masked cells, the first at {masked[0].tolist()}. Drop such "
            f"rows or fill them ({name}.filled, sklearn.impute)."
        )
    if getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M"):
        raise TypeError(f"{name} should hold numbers only; got {X.dtype}. Encode times as numbers.")


def _refuse_repeated_names(X: Any, name: str) -> None:
    columns = list(X.columns)
    if len(set(columns)) < len(columns):
        repeated = dict.fromkeys(str(c) for c in columns if columns.count(c) > 1)
        raise ValueError(
            f"{name} has several columns of one name: {', '.join(repeated)}. Rename them, or drop "
            "those that are copies."
        )


def _refuse_text_columns(X: Any, name: str) -> None:
    """Name the columns of a frame that hold no numbers."""
    text = []
    for column in X.columns:
        kind = np.asarray(X[column][:0]).dtype.kind
        if kind in "biuf" or (kind == "O" and _is_numeric(X[column])):
            continue
        text.append(str(column))
    if text:
        raise ValueError(
            f"{name} should hold numbers only, but these columns do not: {', '.join(text)}. "
            "Drop them or encode them as numbers first."
        )


def _is_numeric(values: Any) -> bool:
    """Whether objects are numbers, or nothing at all (pandas' NA)."""
    try:
        np.asarray([v for v in values if isinstance(v == v, (bool, np.bool_))], dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _explain(error: Exception, X: Any, name: str) -> str:
    """scikit-learn's message, with the place of the first bad cell and a remedy."""
    # without the data themselves, which scikit-learn prints in between
    message = re.sub(r":?\narray=.*?\.\n(?=Reshape)", ". ", str(error), flags=re.DOTALL)
    if "Complex" in message:
        message = message.splitlines()[0]
    if "could not convert" in message:
        return f"{name} should hold numbers only: {message}. Encode such values as numbers first."
    if "NAType" in message:
        return f"Input {name} contains NA. {_first_bad_cell(X, name)}"
    if "NaN" in message or "infinity" in message:
        return f"{message.splitlines()[0]} {_first_bad_cell(X, name)}"
    if "minimum of 2" in message and "sample" in message:
        return f"{message} {name} needs at least two rows: its spread is what is being aligned."
    return message if name in message else f"{name}: {message}"


def _first_bad_cell(X: Any, name: str) -> str:
    if hasattr(X, "iloc"):  # pandas' NA becomes NaN on request only
        values = X.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = np.asarray(X)
        if values.dtype.kind == "O":  # NA is not even false when asked whether it is itself
            known = [isinstance(v == v, (bool, np.bool_)) for v in values.flat]
            values = np.where(np.reshape(known, values.shape), values, np.nan)
        values = values.astype(np.float64)
    row, column = np.argwhere(~np.isfinite(values))[0]
    names = column_names(X)
    where = f"column {names[column]!r}" if names else f"column {column}"
    return (
        f"The first is in row {row}, {where}. Expected finite numbers: drop such rows or fill them "
        f"(sklearn.impute) before aligning {name}."
    )


def check_width(X: FloatArray, width: int, name: str) -> None:
    """The number of columns is the one that was fitted."""
    if X.shape[1] != width:
        raise ValueError(
            f"{name} has {X.shape[1]} features, but this map was fitted on {width} features. "
            "Pass the same columns, in the same order, as at fit."
        )


def check_names(X: Any, expected: tuple[str, ...] | None, name: str) -> None:
    """The columns of a frame are those that were fitted, in the same order."""
    names = column_names(X)
    if names is None or expected is None or names == expected:
        return
    missing = [n for n in expected if n not in names]
    extra = [n for n in names if n not in expected]
    if missing or extra:
        detail = f"missing {missing[:5]}, unexpected {extra[:5]}"
    else:
        detail = "the same names in another order"
    raise ValueError(
        f"The feature names of {name} differ from those at fit: {detail}. "
        f"Expected {list(expected[:5])}{'...' if len(expected) > 5 else ''}; "
        f"select them with {name}[names]."
    )


def check_weights(
    weights: Any, n_rows: int, name: str, *, least: int = 2
) -> npt.NDArray[np.float64] | None:
    """Non-negative finite weights, one a row, ``least`` of them positive; None for none."""
    if weights is None:
        return None
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} should hold numbers, one weight a row: {error}.") from error
    if values.ndim == 0:
        values = np.full(n_rows, float(values))
    if values.shape != (n_rows,):
        raise ValueError(
            f"{name} should have shape ({n_rows},), one weight a row; got {values.shape}."
        )
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(f"{name} should be finite and not negative.")
    if np.count_nonzero(values) < least:
        few = "fewer than two rows" if least > 1 else "no row"
        raise ValueError(f"{name} leaves {few} with a weight above zero.")
    return values


def generator(random_state: Any) -> np.random.Generator:
    """One Generator from None, an int, a Generator, or an old RandomState (which is advanced)."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31 - 1)))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(
            "random_state should be None, a whole number not below zero, or a numpy Generator; "
            f"got {random_state!r}."
        ) from error


def check_positive(value: Any, name: str) -> float:
    """A finite number above zero."""
    number = float(value) if isinstance(value, (int, float, np.number)) else np.nan
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} should be a finite number above zero; got {value!r}.")
    return number


def check_orthonormal(X: Any, name: str) -> npt.NDArray[np.float64]:
    """A copy of a matrix (n, p) with ``XᵀX = I`` but for rounding, ``n >= p >= 1``."""
    matrix = np.array(X, dtype=np.float64)
    if matrix.ndim != 2 or not 1 <= matrix.shape[1] <= matrix.shape[0]:
        raise ValueError(
            f"{name} should be a matrix (n, p) with a column or more and no more columns than "
            f"rows; got shape {matrix.shape}."
        )
    gap = float(np.abs(matrix.T @ matrix - np.eye(matrix.shape[1])).max())
    if not gap < 1e-6:
        raise ValueError(
            f"{name} should have orthonormal columns; XᵀX differs from I by {gap:.2g}. "
            f"Pass numpy.linalg.qr({name})[0], or stiefel.random_orthogonal(...)."
        )
    return matrix


def check_gradient(gradient: Any, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """A copy of a gradient, of the shape of the point it was taken at."""
    matrix = np.array(gradient, dtype=np.float64)
    if matrix.shape != shape:
        raise ValueError(
            "value_and_gradient(X) should return F(X) and its gradient in the shape of X, "
            f"{shape}; the gradient has shape {matrix.shape}."
        )
    return matrix


def check_components(n_components: Any) -> int | float | str | None:
    """'auto', None, an int of at least 1 or a share of variance in (0, 1)."""
    if n_components is None or (isinstance(n_components, str) and n_components == "auto"):
        return n_components
    if isinstance(n_components, (int, np.integer)) and not isinstance(n_components, bool):
        if n_components >= 1:
            return int(n_components)
    elif isinstance(n_components, (float, np.floating)) and 0 < n_components < 1:
        return float(n_components)
    raise ValueError(
        "n_components should be 'auto', None (all positive eigenvalues), a whole number of at "
        f"least 1, or a share of variance above 0 and below 1; got {n_components!r}."
    )


def check_starts(n_starts: Any) -> None:
    """'auto' or a whole number of at least 1."""
    whole = isinstance(n_starts, (int, np.integer)) and not isinstance(n_starts, bool)
    if n_starts != "auto" and not (whole and n_starts >= 1):
        raise ValueError(
            f"n_starts should be 'auto' or a whole number of at least 1; got {n_starts!r}."
        )


def check_option(value: Any, name: str, options: Sequence[Any]) -> None:
    """The value is one of those offered."""
    if not any(
        value is option or (isinstance(value, str) and value == option) for option in options
    ):
        raise ValueError(f"{name} should be one of {', '.join(map(repr, options))}; got {value!r}.")
