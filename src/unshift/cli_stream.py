"""``unshift predict`` and ``unshift transform``: files of any size through a fitted model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .cli_common import (
    answer,
    clear_progress,
    command,
    input_options,
    json_option,
    note,
    opened,
    row_progress,
)
from .model import load_alignment, load_model, model_or_none
from .outputs import Output
from .predicting import predict_table, task_of_file, transform_table
from .table_base import Table
from .tables import STANDARD

PREDICT_EXAMPLES = """
  unshift predict result/model.unshift week2.csv --id sample --out week2_predicted.csv
  unshift predict result/model.unshift all.parquet --out predicted.parquet
  unshift predict result/model.unshift all.parquet --out predicted.parquet --resume
  cat week2.csv | unshift predict result/model.unshift - --out - | head
"""
TRANSFORM_EXAMPLES = """
  unshift transform result/model.unshift week2.csv --to source --out as_lab_a.csv
  unshift transform result/model.unshift all.parquet --to shared --id sample --out shared.parquet
"""


def add_parsers(commands: Any) -> None:
    """Both commands and their options."""
    text = "predict the rows of a file of any size"
    parser = command(commands, "predict", _predict, text, PREDICT_EXAMPLES)
    parser.add_argument("model", type=Path, metavar="MODEL", help="model.unshift of a fit")
    parser.add_argument("data", metavar="TARGET", help="file of target rows, or - for a pipe")
    _stream_options(parser)

    text = "map the target rows of a file of any size"
    parser = command(commands, "transform", _transform, text, TRANSFORM_EXAMPLES)
    parser.add_argument("model", type=Path, metavar="MODEL", help="model.unshift of a fit")
    parser.add_argument("data", metavar="DATA", help="file of target rows, or - for a pipe")
    parser.add_argument(
        "--to",
        choices=("shared", "source"),
        required=True,
        help="the shared space, or the source's columns",
    )
    _stream_options(parser)


def _stream_options(parser: Any) -> None:
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="there once all is written; FILE.partial until then; - for standard output",
    )
    parser.add_argument(
        "--out-format",
        choices=("csv", "tsv", "parquet", "arrow"),
        help="of FILE, where its name does not say it; standard output is CSV otherwise",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with FILE.partial of an earlier, same command"
    )
    input_options(parser)
    json_option(parser)


def _output(arguments: argparse.Namespace, **options: Any) -> Output:
    if arguments.json and arguments.out == STANDARD:
        raise ValueError("--json and --out - would mix on standard output: name a file.")
    if arguments.resume and arguments.data == STANDARD:
        raise ValueError("--resume reads the input again from where it was, so it needs a file.")
    task = task_of_file(arguments.model, arguments.data, ids=arguments.ids, **options)
    return Output(arguments.out, arguments.out_format, task, arguments.resume)


def _predict(arguments: argparse.Namespace) -> None:
    model, table = load_model(arguments.model), opened(arguments, arguments.data)
    output = _output(arguments, command="predict")
    told = row_progress("predicting", output.rows)
    start = output.rows
    predict_table(model, table, arguments.out, arguments.ids, told, output=output)
    _tell(arguments, table, output, start, "predicted")


def _transform(arguments: argparse.Namespace) -> None:
    alignment, table = load_alignment(arguments.model), opened(arguments, arguments.data)
    map_ = alignment.target if arguments.to == "shared" else alignment.target_to_source
    output = _output(arguments, command="transform", to=arguments.to)
    start, told = output.rows, row_progress("mapping", output.rows)
    transform_table(
        map_,
        model_or_none(arguments.model),
        table,
        arguments.out,
        arguments.ids,
        told,
        output=output,
    )
    _tell(arguments, table, output, start, "mapped")


def _tell(
    arguments: argparse.Namespace, table: Table, output: Output, start: int, done: str
) -> None:
    clear_progress()
    for sentence in output.notes:
        note(sentence)
    if arguments.out == STANDARD:
        return
    rows = output.rows
    went_on = f" (from row {start + 1} on, this time)" if start else ""
    told = {"input": table.name, "out": arguments.out, "rows": rows, "resumed_at": start}
    told["notes"] = output.notes
    answer(arguments, told, f"{rows} rows {done}{went_on}: {arguments.out}")
