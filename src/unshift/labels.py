"""Labels: which are known, and what kind of prediction they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

# Above it floats have gaps: not every whole number is one of them.
WHOLE = 2.0**53


@dataclass(frozen=True, eq=False)
class Labels:
    """Values (n,) of which those under ``known`` (n,) are labels; the others mean nothing."""

    values: Array
    known: Mask

    @staticmethod
    def all_known(values: Array) -> Labels:
        """Labels that are all known."""
        return Labels(values, np.ones(values.size, dtype=np.bool_))

    @property
    def rows(self) -> npt.NDArray[np.intp]:
        """Positions of the labelled rows."""
        return np.flatnonzero(self.known)

    @property
    def given(self) -> Array:
        """The labels of the labelled rows."""
        return self.values[self.known]


def read_labels(y: Any, n_rows: int, name: str) -> Labels:
    """Labels of any kind, one a row; None, NaN and pandas' NA are unknown, all else is a label."""
    values = label_array(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.shape[0] != n_rows:
        raise ValueError(
            f"{name} should hold one label for each of the {n_rows} rows; got shape "
            f"{values.shape}. Where labels are unknown pass None or NaN, do not leave the row out."
        )
    known = known_labels(values)
    if values.dtype.kind == "O":
        values = _plain(values, known)
    if values.dtype.kind == "f" and np.isinf(values[known]).any():
        raise ValueError(
            f"{name} contains infinity: labels should be finite, or NaN where unknown."
        )
    return Labels(values, known)


def label_array(y: Any) -> Array:
    """Labels as an array in which unknown ones can be seen, and the others are as they were."""
    values: Array = np.asarray(y)
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        values = values.astype(object)
        values[np.ma.getmaskarray(y)] = None  # whatever lies under the mask
    plain = isinstance(getattr(y, "dtype", None), np.dtype) or not hasattr(y, "to_list")
    if not plain and values.dtype.kind == "f" and np.isnan(values).any():
        # A nullable series of whole numbers becomes one of floats where some are unknown.
        items = np.array(y.to_list(), dtype=object)
        return items if any(isinstance(item, int) for item in items) else values
    return values


def known_labels(values: Array) -> Mask:
    """True where there is a label: not None, not NaN, not NA, not NaT."""
    if values.dtype.kind in "fc":
        return ~np.isnan(values)
    if values.dtype.kind in "mM":
        return ~np.isnat(values)
    if values.dtype.kind != "O":
        return np.ones(values.shape, dtype=np.bool_)
    return np.array([_is_known(value) for value in values], dtype=np.bool_)


def _is_known(value: Any) -> bool:
    if value is None:
        return False
    same = value == value  # NaN is not itself; pandas' NA answers neither yes nor no
    return isinstance(same, (bool, np.bool_)) and bool(same)


def _plain(values: Array, known: Mask) -> Array:
    """Objects as a plain array of numbers or strings, with a filler where unknown."""
    given = values[known]
    if given.size == 0:
        return np.zeros(values.shape)
    kinds = {type(value) for value in given}
    if all(issubclass(kind, str) for kind in kinds):
        filler: Any = ""
    elif all(issubclass(kind, (int, float, np.number, np.bool_)) for kind in kinds):
        filler = given[0]
    else:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(
            f"Labels mix kinds that cannot be compared ({names}): make them all strings or all "
            "numbers."
        )
    return np.array([v if k else filler for v, k in zip(values, known, strict=True)])


def task_of(labels: Labels) -> str:
    """What labels ask for: "regression" if numbers with fractions, else "classification"."""
    given = labels.given
    if given.dtype.kind != "f":
        return "classification"
    uncountable = (given != np.round(given)) | (np.abs(given) > WHOLE)
    return "regression" if uncountable.any() else "classification"


def check_labels(
    source: Labels | None,
    target: Labels | None,
    task: str,
    names: tuple[str, str] = ("y_source", "y_target"),
) -> None:
    """What can be refused before any work: unknown source labels, no target label, a new class."""
    y_source, y_target = names
    if target is not None and not target.known.any():
        raise ValueError(
            f"{y_target} holds no label at all: every entry is None, NaN or NA. "
            f"Leave {y_target} out to align without target labels."
        )
    if source is None:
        if target is not None:
            raise ValueError(
                f"{y_target} was given without {y_source}: target labels choose among alignments "
                f"through a predictor trained on the source, which needs {y_source}."
            )
        return
    if not source.known.all():
        unknown = int((~source.known).sum())
        raise ValueError(
            f"{y_source} has {unknown} unknown labels of {source.known.size}: the predictor "
            f"is trained on the source. Drop those rows, or leave {y_source} out."
        )
    if task == "regression":
        for labels, name in ((source, y_source), (target, y_target)):
            if labels is not None and labels.given.dtype.kind not in "biuf":
                raise ValueError(
                    f"{name} should hold numbers for regression; got {labels.values.dtype}."
                )
        return
    _check_classes(source, target, names)


def _check_classes(source: Labels, target: Labels | None, names: tuple[str, str]) -> None:
    classes = np.unique(source.given)
    if target is None:
        return
    if (classes.dtype.kind in "US") != (target.given.dtype.kind in "US"):
        raise ValueError(
            f"{names[0]} holds {classes.dtype} and {names[1]} {target.given.dtype}: "
            "use the same labels in both."
        )
    if classes.size < 2:
        raise ValueError(
            f"{names[0]} holds a single class, {classes.tolist()}: a predictor of it is never "
            f"wrong, so {names[1]} cannot choose among alignments. "
            f"Leave {names[1]} out, or add another class."
        )
    new = np.setdiff1d(target.given, classes)
    if new.size:
        raise ValueError(
            f"{names[1]} has labels that {names[0]} lacks: {new[:5].tolist()} (source: "
            f"{classes[:10].tolist()}). A class must be seen in the source to be predicted; "
            "drop those labels (None), or add source rows."
        )
