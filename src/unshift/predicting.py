"""A table through a model into a file: predictions of its rows, or the rows mapped."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from .affine import AffineMap
from .columns import Layout, roles
from .model import Model
from .outputs import Output
from .stream import Told, stream, unit_rows
from .table_base import AS_IS, Table, arrow, listed

Array = npt.NDArray[Any]


def layout_of(
    names: Sequence[str] | None, width: int, model: Model | None, table: Table, ids: Sequence[str]
) -> Layout:
    """The columns of a table that a map of these names, or of this width, takes."""
    known = {} if model is None else model.categories
    table.require(ids, "--id")
    if names is None:
        without = (*ids, *(() if model is None else (model.label,)))
        numbers = roles(table, without).numbers
        if len(numbers) != width:
            raise ValueError(
                f"{table.name} has {len(numbers)} columns of numbers, but the model was made for "
                f"{width} without names: leave the others out of the file, or name them with --id."
            )
        return Layout(numbers, {}, table.named)
    ones = {f"{c}={value}" for c, values in known.items() for value in values}
    numbers = tuple(name for name in names if name not in ones)
    table.require([*numbers, *known], "the model")
    return Layout(numbers, known)


def predict_table(
    model: Model,
    table: Table,
    out: Path | str,
    ids: Sequence[str],
    told: Told,
    *,
    output: Output | None = None,
) -> int:
    """Predictions and probabilities of every row, after its identifiers; the number of rows."""
    target = model.alignment.target
    layout = layout_of(target.names_in, target.width_in, model, table, ids)
    predictor = model.fold()
    classes = predictor.classes

    def answers(X: FloatArray) -> dict[str, Any]:
        predicted, probabilities = predictor.answers(X)
        columns = {model.label: predicted}
        if probabilities is not None and classes is not None:
            of = np.ascontiguousarray(probabilities.T)
            columns |= {f"probability {c}": p for c, p in zip(classes, of, strict=True)}
        return columns

    return _through(predictor.scores, answers, layout, table, out, ids, told, output)


def transform_table(
    map_: AffineMap,
    model: Model | None,
    table: Table,
    out: Path | str,
    ids: Sequence[str],
    told: Told,
    *,
    output: Output | None = None,
) -> int:
    """Every row mapped, after its identifiers; the number of rows."""
    layout = layout_of(map_.names_in, map_.width_in, model, table, ids)
    names = map_.names_out or map_.shared_names()

    def mapped(X: FloatArray) -> dict[str, Any]:
        return dict(zip(names, map_.columns(X), strict=True))

    return _through(map_, mapped, layout, table, out, ids, told, output)


def _through(
    map_: AffineMap,
    columns_of: Any,
    layout: Layout,
    table: Table,
    out: Path | str,
    ids: Sequence[str],
    told: Told,
    output: Output | None,
) -> int:
    dtype = layout.dtype(table)
    output = Output(out, None, {}, resume=False) if output is None else output
    pa = arrow()
    unknown: set[tuple[str, str]] = set()

    def work(batch: Any, first: int) -> Any:
        unknown.update(layout.unknown(batch))
        X = layout.values(batch, dtype, first, table.name)
        carried = {column: batch.column(column) for column in ids}
        made = {name: pa.array(values) for name, values in columns_of(X).items()}
        twice = [name for name in carried if name in made]
        if twice:
            raise ValueError(
                f"--id {twice[0]!r} has the name of a column that is written: rename it."
            )
        both = carried | made
        return pa.RecordBatch.from_arrays(list(both.values()), names=list(both))

    unit = unit_rows(map_.block_rows(dtype), map_.width_in)
    columns = layout.reads | dict.fromkeys(ids, AS_IS)
    try:
        rows = stream(table, columns, unit, work, output, told)
    except ValueError:
        output.discard()
        raise
    except BaseException as error:
        kept = output.interrupted()
        if kept:
            error.add_note(kept)
        raise
    if unknown:
        output.notes.append(
            f"{table.name}: categories that have no column of the model: "
            f"{listed([f'{c}={value}' for c, value in sorted(unknown)])}. They count as 0."
        )
    return rows


def task_of_file(model: Path, data: Path | str, **options: Any) -> dict[str, Any]:
    """What an unfinished file must have been made of to be gone on with."""
    with model.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    seen = Path(data).stat() if str(data) != "-" else None
    return {
        "model": digest,
        "input": None if seen is None else [Path(data).name, seen.st_size, seen.st_mtime_ns],
        "options": {key: str(value) for key, value in sorted(options.items())},
    }
