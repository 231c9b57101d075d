"""The command line. All that is printed is printed here."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from . import plots, report, reproduce, summary, tables
from .align import align
from .demo import demonstrate
from .labels import Labels, read_labels, task_of
from .model import Model, linear_predictor, load_alignment, load_model

EXIT_CODES = """\
exit codes:
  0    done
  2    the command or its input cannot be used; one line on stderr says why and what to do
  130  interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    arguments = _parser().parse_args(argv)
    arguments.command_line = shlex.join(["unshift", *(sys.argv[1:] if argv is None else argv)])
    try:
        arguments.run(arguments)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"unshift: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("unshift: interrupted", file=sys.stderr)
        return 130
    return 0


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="unshift",
        description="Bring two domains that are affine views of the same thing into one space.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"unshift {version('unshift')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _demo_parser(commands)
    _fit_parser(commands)
    _use_parsers(commands)
    _reproduce_parser(commands)
    return parser


def _command(commands: Any, name: str, run: Callable[..., None], text: str) -> Any:
    parser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _demo_parser(commands: Any) -> None:
    parser = _command(commands, "demo", _demo, "the main job, on data that comes with the package")
    parser.add_argument("--out", type=Path, default=Path("unshift-demo"), metavar="DIR")
    parser.add_argument("--seed", type=int, default=0, help="of the data and of the search")


def _fit_parser(commands: Any) -> None:
    text = "align a target file with a labelled source file, and predict the target"
    parser = _command(commands, "fit", _fit, text)
    parser.add_argument("source", type=Path, metavar="SOURCE", help=".csv, .tsv or .parquet")
    parser.add_argument("target", type=Path, metavar="TARGET", help="the same; labels may be there")
    parser.add_argument(
        "--label",
        required=True,
        metavar="COL",
        help="column of the labels; in TARGET it may be absent, or have empty cells",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="COL",
        help="a column to leave out; repeatable",
    )
    parser.add_argument(
        "--features-differ",
        action="store_true",
        help="columns do not correspond, even where their names are the same",
    )
    parser.add_argument(
        "--components", type=_components, default="auto", metavar="P|SHARE|all|auto"
    )
    parser.add_argument("--seed", type=int, default=0)


def _use_parsers(commands: Any) -> None:
    parser = _command(commands, "predict", _predict, "predict the rows of a file of any size")
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("target", type=Path, metavar="TARGET")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")

    parser = _command(commands, "transform", _transform, "map the rows of a file of any size")
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("data", type=Path, metavar="DATA", help="target rows")
    parser.add_argument("--to", choices=("shared", "source"), required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")

    parser = _command(commands, "inspect", _inspect, "show what a model file holds")
    parser.add_argument("model", type=Path, metavar="MODEL")


def _reproduce_parser(commands: Any) -> None:
    text = "rerun the paper's experiments: tables, figures and a page"
    parser = _command(commands, "reproduce", _reproduce_simulated, text)
    experiments = parser.add_subparsers(required=True, metavar="simulated|digits")
    text = "section 4.1: simulated data, figures 2 to 5"
    simulated = _command(experiments, "simulated", _reproduce_simulated, text)
    simulated.add_argument("--seeds", type=_count, default=reproduce.SEEDS, metavar="N")
    text = "section 4.2: 45 pairs of digits, figures 6 to 8"
    digits = _command(experiments, "digits", _reproduce_digits, text)
    digits.add_argument("--networks", default="paper", metavar="NAMES", help="a,b,... or all")
    digits.add_argument(
        "--retrain", action="store_true", help="train the networks anew (needs torch) in DIR"
    )
    digits.add_argument(
        "--data", type=Path, metavar="DIR", help="mnist.npz and usps.npz, not to be downloaded"
    )
    for one in (simulated, digits):
        one.add_argument("--out", type=Path, required=True, metavar="DIR")
        one.add_argument("--jobs", type=_count, default=2, metavar="N", help="processes")


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above zero; got {text!r}")
    return int(text)


def _components(text: str) -> int | float | str | None:
    if text in ("auto", "all"):
        return None if text == "all" else text
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        message = f"expected a whole number, a share such as 0.95, 'all' or 'auto'; got {text!r}"
        raise argparse.ArgumentTypeError(message) from None


def _progress() -> Callable[[str, int, int], None] | None:
    """Draws a bar for each stage of the search; None where no one is watching."""
    if not sys.stderr.isatty():
        return None

    def show(stage: str, done: int, total: int) -> None:
        share = done / total if total else 1.0
        bar = "#" * round(30 * share)
        print(
            f"\r{stage:<12} [{bar:<30}] {done}/{total}\033[K", end="", file=sys.stderr, flush=True
        )
        if done >= total:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    return show


def _demo(arguments: argparse.Namespace) -> None:
    result, alignment = demonstrate(arguments.seed, _progress())
    m, n = result["rows"]
    d, e = result["widths"]
    print(f"Simulated data: {m} source rows of {d} columns and {n} target rows of {e},")
    print("two random affine views of one mixture in two dimensions (the paper's section 4.1).\n")
    print("Accuracy on the target of a logistic regression trained on the source:")
    for step in result["accuracies"]:
        print(f"  {step['name']:<24} {step['accuracy']:>6.1%}")
    for heading in ("without_labels", "with_labels"):
        print(f"\nThe diagnosis {heading.replace('_', ' ')}:")
        print(_indented(result[heading]))
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "alignment.unshift"
    alignment.save(file)
    print(f"\nAlignment: {file}")
    try:
        drawn = plots.png(plots.panels(result["panels"], "class"))
    except ModuleNotFoundError as error:
        print(f"No picture. {error}")
    else:
        picture = arguments.out / "demo.png"
        picture.write_bytes(drawn)
        print(f"Picture:   {picture}")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _fit(arguments: argparse.Namespace) -> None:
    label = arguments.label
    source, target = (
        tables.read(path).drop(columns=arguments.drop, errors="ignore")
        for path in (arguments.source, arguments.target)
    )
    if label not in source.columns:
        raise ValueError(
            f"{arguments.source.name} has no column {label!r} for --label; it has "
            f"{', '.join(map(str, source.columns[:10]))}."
        )
    y_source = read_labels(np.asarray(source.pop(label)), len(source), "y_source")
    y_target = None
    if label in target.columns:
        y_target = read_labels(np.asarray(target.pop(label)), len(target), "y_target")
    if set(source.columns) == set(target.columns):
        target = target[list(source.columns)]
    model = _fitted(arguments, (source, y_source), (target, y_target))
    predictions = _predicted(model, target)
    result = summary.fitted(
        model, np.asarray(source), y_source.values, np.asarray(target), y_target
    )
    result["command"] = arguments.command_line
    page = report.page(result)
    arguments.out.mkdir(parents=True, exist_ok=True)
    model.save(arguments.out / "model.unshift")
    tables.write(arguments.out / "predictions.csv", iter([predictions]))
    (arguments.out / "report.html").write_text(page, encoding="utf-8")
    print(model.alignment.diagnosis)
    for share in result["balance"]:
        print(f"{share['class']}: {share['source']:.1%} of source, {share['target']:.1%} of target")
    print(f"\nWritten to {arguments.out}: model.unshift, predictions.csv, report.html")


def _fitted(
    arguments: argparse.Namespace, source: tuple[Any, Labels], target: tuple[Any, Labels | None]
) -> Model:
    """Align, then train the default predictor on the source's aligned rows."""
    (X_source, y_source), (X_target, y_target) = source, target
    known = y_target is not None and y_target.known.any()
    alignment = align(
        X_source,
        X_target,
        _with_gaps(y_source),
        _with_gaps(y_target) if y_target is not None and known else None,
        n_components=arguments.components,
        same_features=False if arguments.features_differ else "auto",
        random_state=arguments.seed,
        callback=_progress(),
    )
    shared = np.asarray(alignment.source(X_source))
    predictor = linear_predictor(shared, y_source.values, task_of(y_source))
    return Model(alignment, predictor, arguments.label)


def _with_gaps(labels: Labels) -> Any:
    """The labels, with None where unknown."""
    values = labels.values.astype(object)
    values[~labels.known] = None
    return values


def _predicted(model: Model, rows: Any) -> Any:
    """A frame of predictions and, for classes, of their probabilities."""
    shared = np.asarray(model.alignment.target(rows))
    values = {model.label: model.predictor.predict(shared)}
    if model.predictor.classes is not None:
        probabilities = model.predictor.predict_proba(shared)
        for c, column in zip(model.predictor.classes, probabilities.T, strict=True):
            values[f"probability {c}"] = column
    return tables.frame(values)


def _predict(arguments: argparse.Namespace) -> None:
    model = load_model(arguments.model)
    names = model.alignment.target.names_in
    rows = tables.write(
        arguments.out,
        (_predicted(model, part) for part in _parts(arguments.target, names)),
    )
    print(f"{rows} rows predicted: {arguments.out}")


def _transform(arguments: argparse.Namespace) -> None:
    alignment = load_alignment(arguments.model)
    to_shared = arguments.to == "shared"
    mapping = alignment.target if to_shared else alignment.target_to_source
    rows = tables.write(
        arguments.out, (mapping(part) for part in _parts(arguments.data, mapping.names_in))
    )
    print(f"{rows} rows mapped: {arguments.out}")


def _parts(path: Path, names: Sequence[str] | None) -> Iterator[Any]:
    """The file's rows in chunks, with the model's columns only."""
    return (tables.columns(part, names, path.name) for part in tables.chunks(path))


def _inspect(arguments: argparse.Namespace) -> None:
    shown = summary.inspection(load_alignment(arguments.model))
    d, e = shown["widths"]
    print(f"{d} source and {e} target columns, {shown['components']} dimensions.")
    if shown["target_columns"]:
        print(f"Target columns: {', '.join(shown['target_columns'])}")
    print(f"\n{shown['verdict'][0].upper()}{shown['verdict'][1:]}.")
    print("\n".join(shown["reasons"]))
    print("\nCandidates, best first:")
    for c in shown["candidates"]:
        error = "" if c["error"] is None else f"  error {c['error']:.3g} on {c['n_labelled']} rows"
        print(f"  {c['kind']:<16} MMD² {c['mmd2']:<10.3g} {c['starts']} descents{error}")


def _reproduce_simulated(arguments: argparse.Namespace) -> None:
    result = reproduce.simulated(
        arguments.out,
        seeds=arguments.seeds,
        n_jobs=arguments.jobs,
        command=arguments.command_line,
        progress=_progress(),
    )
    print("\n".join(reproduce.told_of_simulated(result)))
    print(reproduce.told_of_files(arguments.out, result))


def _reproduce_digits(arguments: argparse.Namespace) -> None:
    names = reproduce.chosen_networks(arguments.networks)
    folder, bar = None, _progress()
    if arguments.retrain:
        folder = arguments.out / "networks"
        reproduce.retrained(folder, names, arguments.data, bar)
    elif arguments.data is not None:
        raise ValueError("--data holds images to train on: it goes with --retrain.")
    result = reproduce.digits(
        arguments.out,
        names,
        folder=folder,
        n_jobs=arguments.jobs,
        command=arguments.command_line,
        progress=bar,
    )
    print("\n".join(reproduce.told_of_digits(result)))
    print(reproduce.told_of_files(arguments.out, result))
