"""From two files to a model, its predictions and a report: the job of ``unshift fit``."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import report, summary
from .align import align
from .alignment import Alignment
from .choice import NO_ADAPTATION
from .columns import Layout, categories, cells, left_out, roles, settled
from .labels import Labels, read_labels, task_of
from .model import Model, linear_predictor, named_estimator
from .outputs import CannotWriteError, writing
from .predicting import predict_table
from .stream import Told
from .streamed import Pass, TableRows
from .table_base import AS_IS, MemoryTable, Table, batch_rows, listed

Array = npt.NDArray[Any]

# Bytes of rows of each domain that are kept; of more, a random sample as large.
KEPT_BYTES = 1 << 27
# Labelled target rows that are kept beside the sample.
KEPT_LABELLED = 4096
# Entries of a map between target and source columns, at most: a dozen such maps are compared.
MOST_ENTRIES = 20_000_000
FILES = ("model.unshift", "metrics.json", "report.html")
PREDICTIONS = ("predictions.csv", "predictions.parquet")
# Endings of what is being written.
UNFINISHED = (".partial", ".partial.json", ".partial.json.new")
# What of a fit's dictionary only its report needs.
DRAWN = ("picture", "panels", "changes", "descents")


@dataclass(frozen=True)
class Asked:
    """What ``fit`` was told, but for the options of ``align``."""

    label: str
    ids: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    one_hot: bool = False
    common: bool = False
    baseline: bool = False
    predictor: str | None = None
    rows_kept: int | None = None
    predictions: str = PREDICTIONS[0]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Side:
    """One domain as read: its rows or some of them, labels, identifiers, and how many there are."""

    table: Table
    layout: Layout
    rows: TableRows
    labels: Labels
    ids: dict[str, Array]
    seen: int
    known: int
    notes: list[str]


def fit_tables(
    source: Table, target: Table, asked: Asked, told: Told, search: Callable[..., Any] | None
) -> tuple[Model, dict[str, Any], Table]:
    """The model, the dictionary that its report shows, and the target to be read again."""
    source.require([asked.label], "--label")
    target.require(asked.ids, "--id")
    layouts, notes = _layouts(source, target, asked)
    here = _read(source, layouts[0], asked, told, None)
    there = _read(target, layouts[1], asked, told, here.labels.values)
    model = _model(here, there, asked, search)
    shown = summary.fitted(
        model,
        here.rows.rows,
        here.labels.values,
        there.rows.rows,
        there.labels if there.known else None,
        ids=(here.ids, there.ids),
        names=(source.name, target.name),
    )
    shown |= {"rows": (here.seen, there.seen), "labelled": there.known}
    shown["notes"] = [*notes, *here.notes, *there.notes]
    shown["rows_kept"] = (here.rows.rows.shape[0], there.rows.rows.shape[0])
    return model, shown, there.table


def _layouts(source: Table, target: Table, asked: Asked) -> tuple[list[Layout], list[str]]:
    """Which columns are features in either file, and what is to be said of the others."""
    notes: list[str] = []
    without = (asked.label, *asked.ids, *asked.drop)
    found = [roles(table, without) for table in (source, target)]
    text: list[dict[str, tuple[str, ...]]] = [{}, {}]
    if asked.one_hot:
        for i, table in enumerate((source, target)):
            # the source's own categories where it has the column: the features then correspond
            own = [c for c in found[i].text if c not in text[0]]
            text[i], said = categories(table, own)
            notes += [said] if said else []
        text[1] |= {c: text[0][c] for c in found[1].text if c in text[0]}
    numbers = [found[0].numbers, found[1].numbers]
    if asked.common:
        both = set(numbers[0]) & set(numbers[1])
        numbers = [tuple(c for c in side if c in both) for side in numbers]
        shared = set(text[0]) & set(text[1])
        text = [{c: v for c, v in side.items() if c in shared} for side in text]
    if source.named and target.named and set(numbers[0]) == set(numbers[1]):
        numbers[1] = numbers[0]
        if set(text[0]) == set(text[1]):
            text[1] = {c: text[0][c] for c in text[0]}
    for i, table in enumerate((source, target)):
        notes += left_out(table.name, found[i], asked.one_hot)
        if not numbers[i] and not text[i]:
            raise ValueError(
                f"{table.name} has no column of numbers to go by; it has "
                f"{listed(list(table.types))}."
            )
    notes += _overlap(source, target, numbers)
    d, e = (len(numbers[i]) + sum(map(len, text[i].values())) for i in (0, 1))
    if d * e > MOST_ENTRIES:
        raise ValueError(
            f"{source.name} has {d} columns and {target.name} {e}: every candidate map between "
            f"them would hold {d * e:,} numbers, and more than {MOST_ENTRIES:,} are not kept in "
            "memory. Use fewer columns: average neighbouring ones, or --drop some."
        )
    layouts = [Layout(numbers[i], text[i], table.named) for i, table in enumerate((source, target))]
    return layouts, notes


def _overlap(source: Table, target: Table, numbers: Sequence[Sequence[str]]) -> list[str]:
    """A word where columns are the same but for a few: those few decide that none correspond."""
    only = [[c for c in numbers[i] if c not in set(numbers[1 - i])] for i in (0, 1)]
    both = len(numbers[0]) - len(only[0])
    if not (source.named and target.named) or not (only[0] or only[1]) or 2 * both < len(only[0]):
        return []
    lacks = [
        f"{name} has no {listed(missing)}"
        for name, missing in ((target.name, only[0]), (source.name, only[1]))
        if missing
    ]
    return [
        f"{both} columns have the same name in both files, but {' and '.join(lacks)}, so columns "
        "are taken not to correspond. --common goes by the columns that both have."
    ]


def _read(table: Table, layout: Layout, asked: Asked, told: Told, like: Array | None) -> Side:
    """One pass over a file; ``like`` are the source's labels when the file is the target's."""
    width, is_source = len(layout.names), like is None
    most = asked.rows_kept or max(1000, KEPT_BYTES // (8 * width))
    seed = int(asked.options.get("random_state") or 0)
    passed = Pass(most, 0 if is_source else KEPT_LABELLED, seed)
    beside = [c for c in (asked.label, *asked.ids) if c in table.types]
    columns = layout.reads | dict.fromkeys(beside, AS_IS)
    dtype, seen, used, kept, unknown = layout.dtype(table), 0, 0, [], set()
    for batch in table.batches(columns):
        for start in range(0, batch.num_rows, batch_rows(width)):
            part = batch.slice(start, batch_rows(width))
            X = np.ascontiguousarray(layout.values(part, dtype, seen, table.name).T)
            objects = _objects(part, asked, seen)
            unknown |= layout.unknown(part)
            seen += part.num_rows
            if is_source:
                given = np.array([o is not None for o in objects[:, 0]], dtype=bool)
                X, objects = X[given], objects[given]
            used += X.shape[0]
            if X.shape[0]:
                passed.add(X, objects)
            told(seen, table.rows, table.share_read())
        if not table.again:
            kept.append(batch)
    if not used:
        raise ValueError(
            f"{table.name} has no rows"
            + (f" with a label in column {asked.label!r}." if seen else " below its names.")
        )
    rows, objects = passed.ended(layout.names if layout.named else None)
    labels = settled(objects[:, 0], table, like)
    ids = {c: objects[:, j] for j, c in enumerate(asked.ids, 2) if c in table.types}
    if rows.moments is not None:
        ids = {"row": objects[:, 1], **ids}
    return Side(
        MemoryTable(table, kept) if kept else table,
        layout,
        rows,
        read_labels(labels, labels.size, "y_source" if is_source else "y_target"),
        ids,
        used,
        passed.known,
        _remarks(table, layout, rows, (seen, used), unknown),
    )


def _objects(batch: Any, asked: Asked, first: int) -> Array:
    """What is kept of each row beside its features: label, number in the file, identifiers."""
    found = np.full((batch.num_rows, 2 + len(asked.ids)), None, dtype=object)
    names = batch.schema.names
    if asked.label in names:
        found[:, 0] = cells(batch.column(asked.label))
    found[:, 1] = range(first + 1, first + batch.num_rows + 1)
    for j, column in enumerate(asked.ids, 2):
        if column in names:
            found[:, j] = batch.column(column).to_pylist()
    return found


def _remarks(
    table: Table,
    layout: Layout,
    rows: TableRows,
    counts: tuple[int, int],
    unknown: set[tuple[str, str]],
) -> list[str]:
    """What to say of a file once it has been read."""
    seen, used = counts
    said = []
    if used < seen:
        said.append(f"{table.name}: {seen - used} of {seen} rows have no label and were left out.")
    if rows.moments is not None:
        said.append(
            f"{table.name}: of {used} rows all counted in the moments; the search and the "
            f"predictor saw {rows.drawn} of them, drawn at random."
        )
    if unknown:
        said.append(
            f"{table.name}: categories that the source lacks count as none of its own: "
            f"{listed([f'{c}={value}' for c, value in sorted(unknown)])}."
        )
    said += [
        f"{table.name}: column {column!r} counts rows (1, 2, 3 ...) and is used as a feature; if "
        f"it is an identifier, say --id {column!r} or --drop {column!r}."
        for j, column in enumerate(layout.numbers)
        if rows.moments is None and _counts_rows(rows.rows[:, j])
    ]
    return said


def _counts_rows(values: Array) -> bool:
    return values.size >= 10 and bool((np.diff(values) == 1).all())


def _model(here: Side, there: Side, asked: Asked, search: Callable[..., Any] | None) -> Model:
    """Align, then train the predictor on the source's aligned rows."""
    options = dict(asked.options)
    task = options.get("task", "auto")
    if task == "auto":
        task = task_of(here.labels)
        _refuse_singular(here, asked.label)
    estimator = None if asked.predictor is None else named_estimator(asked.predictor, task)
    alignment = align(
        here.rows,
        there.rows,
        here.labels.values,
        _with_gaps(there.labels) if there.known else None,
        **(options | {"task": task, "estimator": estimator, "callback": search}),
    )
    if asked.baseline:
        alignment = _unadapted(alignment)
    shared = alignment.source.plain(here.rows.rows)
    predictor = linear_predictor(shared, here.labels.values, task, estimator)
    return Model(alignment, predictor, asked.label, there.layout.categories)


def _refuse_singular(here: Side, label: str) -> None:
    """Text that hardly ever repeats is no class; numbers with fractions are not taken for such."""
    given = here.labels.given
    values = np.unique(given)
    if given.dtype.kind in "US" and values.size > max(2, given.size // 2):
        raise ValueError(
            f"Column {label!r} of {here.table.name} holds {values.size} different labels in "
            f"{given.size} rows, such as {listed([repr(str(v)) for v in values], 3)}. Are they "
            "numbers (--decimal), or identifiers? --task classification takes them as they are."
        )


def _unadapted(alignment: Alignment) -> Alignment:
    kinds = [candidate.kind for candidate in alignment.candidates]
    if NO_ADAPTATION not in kinds:
        raise ValueError(
            "--baseline none predicts from the columns as they are, which needs columns that "
            "correspond: the same names in both files, or --features-same."
        )
    return alignment.prefer(kinds.index(NO_ADAPTATION))


def _with_gaps(labels: Labels) -> Any:
    """The labels, with None where unknown."""
    values = labels.values.astype(object)
    values[~labels.known] = None
    return values


@contextmanager
def whole_folder(out: Path, force: bool) -> Iterator[Path]:
    """A new folder that takes the place of ``out`` once all is in it, or leaves nothing.

    An older result is replaced; files of other kinds are in the way unless ``force`` is given, and
    then stay where they are.
    """
    others = foreign(out)
    if others and not force:
        raise ValueError(
            f"{out} holds other files ({listed(others, 3)}): name another folder for --out, or add "
            "--force, which replaces earlier results there and leaves the others alone."
        )
    name = out.resolve().name
    partial = out.resolve().with_name(f"{name}.partial")
    in_the_way = foreign(partial)
    if in_the_way:
        raise ValueError(f"{partial} holds other files ({listed(in_the_way, 3)}): move it away.")
    with writing(out):
        _remove(partial)
        partial.mkdir(parents=True)
    try:
        yield partial
        with writing(out):
            if others:
                for file in (*FILES, *PREDICTIONS):
                    (out / file).unlink(missing_ok=True)
                for path in partial.iterdir():
                    os.replace(path, out / path.name)
            else:
                _exchange(partial, out.resolve())
    finally:
        _remove(partial)


def _exchange(new: Path, old: Path) -> None:
    """Put a folder in the place of another, which stays if that fails."""
    if not old.exists():
        os.replace(new, old)
        return
    older = old.with_name(f"{old.name}.{os.getpid()}.older")
    os.replace(old, older)
    try:
        os.replace(new, old)
    except OSError:
        os.replace(older, old)
        raise
    _remove(older)


def foreign(out: Path) -> list[str]:
    """Files of a folder that no fit wrote."""
    if out.exists() and not out.is_dir():
        raise CannotWriteError(f"{out} is a file: --out names a folder.")
    ours = [f"{name}{end}" for name in (*FILES, *PREDICTIONS) for end in ("", *UNFINISHED)]
    return sorted(p.name for p in out.iterdir() if p.name not in ours) if out.is_dir() else []


def _remove(folder: Path) -> None:
    """Delete a folder that only this module fills."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)


def write_results(
    folder: Path, model: Model, shown: dict[str, Any], target: Table, asked: Asked, told: Told
) -> None:
    """Model, predictions of every target row, metrics and report."""
    predict_table(model, target, folder / asked.predictions, asked.ids, told)
    with writing(folder):
        model.save(folder / "model.unshift")
        text = json.dumps(plain(metrics(shown)), indent=1, allow_nan=False)
        (folder / "metrics.json").write_text(text + "\n", "utf-8")
        (folder / "report.html").write_text(report.page(shown), "utf-8")


def metrics(shown: Mapping[str, Any]) -> dict[str, Any]:
    """The dictionary of a fit without what is only drawn."""
    return {key: value for key, value in shown.items() if key not in DRAWN}


def plain(value: Any) -> Any:
    """What JSON can hold: numbers that are none become null, everything unknown text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)
