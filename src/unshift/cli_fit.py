"""``unshift fit``."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import Any

from . import answers
from .cli_common import (
    answer,
    clear_progress,
    command,
    count,
    input_options,
    json_option,
    note,
    opened,
    row_progress,
    search_progress,
)
from .fitting import PREDICTIONS, Asked, fit_tables, metrics, whole_folder, write_results
from .model import PREDICTORS

EXAMPLES = """
  unshift fit lab_a.csv lab_b.csv --label grade --id sample --out result
  unshift fit spectra_old.csv spectra_new.csv --label sugar --features-differ --out result
  zcat old.tsv.gz | unshift fit - new.parquet --format tsv --label kind --out result
  unshift fit old.csv new.csv --label kind --baseline none --out unadapted
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    text = "align a target file with a labelled source file, and predict the target"
    parser = command(commands, "fit", _fit, text, EXAMPLES)
    parser.add_argument("source", metavar="SOURCE", help="file of labelled rows, or - for a pipe")
    parser.add_argument("target", metavar="TARGET", help="file of rows to predict, or -")
    parser.add_argument(
        "--label",
        required=True,
        metavar="COL",
        help="column of the labels; in TARGET it may be absent, or have empty cells",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument(
        "--force", action="store_true", help="write into DIR though it holds other files"
    )
    input_options(parser)
    _column_options(parser)
    _align_options(parser)
    parser.add_argument(
        "--predictions-format", choices=("csv", "parquet"), default="csv", help="default: csv"
    )
    json_option(parser)


def _column_options(parser: Any) -> None:
    columns = parser.add_argument_group("columns")
    columns.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="COL",
        help="a column to leave out; repeatable",
    )
    columns.add_argument(
        "--one-hot", action="store_true", help="make columns of 0 and 1 of columns of text"
    )
    columns.add_argument(
        "--common", action="store_true", help="use only columns that both files have"
    )
    which = columns.add_mutually_exclusive_group()
    which.add_argument(
        "--features-differ",
        action="store_true",
        help="columns do not correspond, even where their names are the same",
    )
    which.add_argument(
        "--features-same",
        action="store_true",
        help="columns correspond in their order, even where their names differ",
    )


def _align_options(parser: Any) -> None:
    align = parser.add_argument_group("alignment (docs/options.md says more)")
    align.add_argument(
        "--components",
        type=_components,
        default="auto",
        metavar="P",
        help="dimensions of the shared space: a number, a share such as 0.95, all, or auto",
    )
    align.add_argument("--seed", type=int, default=0, help="of all that is drawn; default: 0")
    align.add_argument(
        "--baseline",
        choices=("none",),
        help="predict from the columns as they are, to compare with",
    )
    align.add_argument("--bandwidth", type=_number_or("auto"), default="auto", metavar="SIGMA")
    align.add_argument("--choice", choices=("auto", "paper"), default="auto")
    align.add_argument("--scale", choices=("auto", "std", "none"), default="auto")
    align.add_argument(
        "--shrinkage", type=_number_or("auto", "oas", "none"), default="auto", metavar="AMOUNT"
    )
    align.add_argument("--outliers", choices=("auto", "keep"), default="auto")
    align.add_argument("--loss", choices=("mmd", "joint"), default="mmd")
    align.add_argument("--task", choices=("auto", *PREDICTORS), default="auto")
    align.add_argument("--starts", type=_whole_or_auto, default="auto", metavar="N")
    align.add_argument("--jobs", type=count, default=None, metavar="N", help="workers")
    names = [name for kinds in PREDICTORS.values() for name in kinds]
    align.add_argument("--predictor", choices=names, help="default: logistic, or ridge for numbers")
    align.add_argument(
        "--rows-kept",
        type=count,
        metavar="N",
        help="rows of each file that search and predictor see, at most; default: 128 MB of them",
    )


def _components(text: str) -> int | float | str | None:
    if text in ("auto", "all"):
        return None if text == "all" else text
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        message = f"expected a whole number, a share such as 0.95, 'all' or 'auto'; got {text!r}"
        raise argparse.ArgumentTypeError(message) from None


def _number_or(*words: str) -> Any:
    def read(text: str) -> float | str | None:
        if text in words:
            return None if text == "none" else text
        try:
            return float(text)
        except ValueError:
            message = f"expected a number or {' or '.join(words)}; got {text!r}"
            raise argparse.ArgumentTypeError(message) from None

    return read


def _whole_or_auto(text: str) -> int | str:
    return text if text == "auto" else count(text)


def _asked(arguments: argparse.Namespace) -> Asked:
    options = {
        "n_components": arguments.components,
        "bandwidth": arguments.bandwidth,
        "same_features": "auto",
        "choice": arguments.choice,
        "scale": None if arguments.scale == "none" else arguments.scale,
        "shrinkage": arguments.shrinkage,
        "outliers": arguments.outliers,
        "loss": arguments.loss,
        "task": arguments.task,
        "n_starts": arguments.starts,
        "n_jobs": arguments.jobs,
        "random_state": arguments.seed,
    }
    if arguments.features_differ or arguments.features_same:
        options["same_features"] = arguments.features_same
    if arguments.label in arguments.ids:
        raise ValueError(f"{arguments.label!r} cannot be both --label and --id.")
    predictions = next(n for n in PREDICTIONS if n.endswith(arguments.predictions_format))
    return Asked(
        arguments.label,
        tuple(dict.fromkeys(arguments.ids)),
        tuple(arguments.drop),
        arguments.one_hot,
        arguments.common,
        arguments.baseline is not None,
        arguments.predictor,
        arguments.rows_kept,
        predictions,
        options,
    )


def _wrapped(paragraph: str) -> str:
    """Lines of at most 88 characters; a path stays in one piece, to be copied."""
    return textwrap.fill(paragraph, 88, break_on_hyphens=False, break_long_words=False)


def _fit(arguments: argparse.Namespace) -> None:
    if arguments.source == arguments.target == "-":
        raise ValueError("Only one of SOURCE and TARGET can be standard input.")
    asked, out = _asked(arguments), arguments.out
    with whole_folder(out, arguments.force) as folder:
        tables = opened(arguments, arguments.source), opened(arguments, arguments.target)
        model, shown, target = fit_tables(
            *tables, asked, row_progress("reading"), search_progress()
        )
        shown |= {"command": arguments.command_line, "options": dict(asked.options)}
        write_results(folder, model, shown, target, asked, row_progress("predicting"))
        files = sorted(path.name for path in folder.iterdir())
    clear_progress()
    if not arguments.json:
        for sentence in shown["notes"]:
            note(sentence)
    told = metrics(shown) | {"folder": str(out), "files": files}
    paragraphs = answers.answer(shown, arguments.command_line, str(out))
    paragraphs.append(f"Written to {out}: {', '.join(files)}.")
    answer(arguments, told, "\n\n".join(map(_wrapped, paragraphs)))
