"""Tables in, tables out: the one place that knows data frames.

The theory works on numpy arrays. A pandas or polars frame is recognised by what it can do, not by
its class, so neither library is ever imported: a frame is rebuilt with its own constructor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]


def is_frame(X: object) -> bool:
    """True for a table with named columns (pandas or polars)."""
    return hasattr(X, "columns") and hasattr(X, "shape") and hasattr(X, "__getitem__")


def column_names(X: object) -> tuple[str, ...] | None:
    """The names of a frame's columns; None for arrays, or where a name is no string."""
    if not is_frame(X):
        return None
    names = tuple(X.columns)  # type: ignore[attr-defined]
    return names if all(isinstance(name, str) for name in names) else None


def like_frame(values: FloatArray, template: Any, names: Sequence[str]) -> Any:
    """``values`` as a frame of the template's kind, with its index where it has one."""
    if hasattr(template, "iloc"):
        return type(template)(values, columns=list(names), index=template.index)
    return type(template)(values, schema=list(names))


def take_rows(X: Any, rows: npt.NDArray[np.intp] | slice) -> Any:
    """Some rows of an array or a frame, as the same kind of thing."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
