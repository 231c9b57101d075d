"""``unshift demo``, ``inspect``, ``reproduce`` and ``completion``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from . import answers, plots, reproduce, summary
from ._extras import extra
from .cli_common import answer, command, count, json_option, search_progress
from .demo import demonstrate
from .model import load_alignment, model_or_none

DEMO_EXAMPLES = """
  unshift demo
  unshift demo --out demo --seed 4
"""
INSPECT_EXAMPLES = """
  unshift inspect result/model.unshift
  unshift inspect result/model.unshift --json | python -m json.tool
"""
REPRODUCE_EXAMPLES = """
  unshift reproduce simulated --out simulated
  unshift reproduce digits --out digits
"""
COMPLETION_EXAMPLES = """
  unshift completion bash > ~/.local/share/bash-completion/completions/unshift
  unshift completion zsh > ~/.zfunc/_unshift
"""


def add_parsers(commands: Any) -> None:
    """The commands and their options."""
    text = "the main job, on data that comes with the package"
    parser = command(commands, "demo", _demo, text, DEMO_EXAMPLES)
    parser.add_argument("--out", type=Path, default=Path("unshift-demo"), metavar="DIR")
    parser.add_argument("--seed", type=int, default=0, help="of the data and of the search")
    json_option(parser)

    parser = command(
        commands, "inspect", _inspect, "show what a model file holds", INSPECT_EXAMPLES
    )
    parser.add_argument("model", type=Path, metavar="MODEL")
    json_option(parser)

    _reproduce_parser(commands)

    text = "print a script that completes commands and options in your shell"
    parser = command(commands, "completion", _completion, text, COMPLETION_EXAMPLES)
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))


def _reproduce_parser(commands: Any) -> None:
    text = "rerun the paper's experiments: tables, figures and a page"
    parser = command(commands, "reproduce", _reproduce_simulated, text, REPRODUCE_EXAMPLES)
    experiments = parser.add_subparsers(required=True, metavar="simulated|digits")
    text = "section 4.1: simulated data, figures 2 to 5"
    simulated = command(experiments, "simulated", _reproduce_simulated, text)
    simulated.add_argument("--seeds", type=count, default=reproduce.SEEDS, metavar="N")
    text = "section 4.2: 45 pairs of digits, figures 6 to 8"
    digits = command(experiments, "digits", _reproduce_digits, text)
    digits.add_argument("--networks", default="paper", metavar="NAMES", help="a,b,... or all")
    digits.add_argument(
        "--retrain", action="store_true", help="train the networks anew (needs torch) in DIR"
    )
    digits.add_argument(
        "--data", type=Path, metavar="DIR", help="mnist.npz and usps.npz, not to be downloaded"
    )
    for one in (simulated, digits):
        one.add_argument("--out", type=Path, required=True, metavar="DIR")
        one.add_argument("--jobs", type=count, default=2, metavar="N", help="processes")
        json_option(one)


def _demo(arguments: argparse.Namespace) -> None:
    result, alignment = demonstrate(arguments.seed, search_progress())
    m, n = result["rows"]
    d, e = result["widths"]
    lines = [
        f"Simulated data: {m} source rows of {d} columns and {n} target rows of {e},",
        "two random affine views of one mixture in two dimensions (the paper's section 4.1).",
        "",
        "Accuracy on the target of a logistic regression trained on the source:",
        *(f"  {step['name']:<24} {step['accuracy']:>6.1%}" for step in result["accuracies"]),
    ]
    for heading in ("without_labels", "with_labels"):
        lines += ["", f"The diagnosis {heading.replace('_', ' ')}:"]
        lines += [f"  {line}" for line in result[heading].splitlines()]
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / "alignment.unshift"
    alignment.save(file)
    lines += ["", f"Alignment: {file}"]
    told = {key: value for key, value in result.items() if key != "panels"}
    told |= {"alignment": str(file), "picture": None}
    try:
        drawn = plots.png(plots.panels(result["panels"], "class"))
    except ModuleNotFoundError as error:
        lines.append(f"No picture. {error}")
    else:
        picture = arguments.out / "demo.png"
        picture.write_bytes(drawn)
        lines.append(f"Picture:   {picture}")
        told["picture"] = str(picture)
    answer(arguments, told, "\n".join(lines))


def _inspect(arguments: argparse.Namespace) -> None:
    shown = summary.inspection(load_alignment(arguments.model))
    model = model_or_none(arguments.model)
    d, e = shown["widths"]
    lines = [f"{d} source and {e} target columns, {shown['components']} shared dimension(s)."]
    if shown["target_columns"]:
        lines.append(f"Target columns: {', '.join(shown['target_columns'])}")
    if model is not None:
        classes = model.predictor.classes
        what = "numbers" if classes is None else ", ".join(map(str, classes))
        lines.append(f"Predicts {model.label}: {what}")
        shown["label"] = model.label
        shown["classes"] = classes
        shown["categories"] = model.categories
    verdict = shown["verdict"]
    lines += ["", f"{verdict[0].upper()}{verdict[1:]}.", *answers.reasons(shown)]
    lines += ["", "Candidates, best first:"]
    widest = max(len(c["kind"]) for c in shown["candidates"])
    for c in shown["candidates"]:
        error = "" if c["error"] is None else f"  error {c['error']:.3g} on {c['n_labelled']} rows"
        met = f"  met by {c['starts']} starts" if c["starts"] > 1 else ""
        lines.append(f"  {c['kind']:<{widest}}  MMD² {c['mmd2']:<8.3g}{met}{error}")
    answer(arguments, shown, "\n".join(lines))


def _completion(arguments: argparse.Namespace) -> None:
    print(extra("shtab", "cli").complete(arguments.parser, arguments.shell), end="")


def _reproduce_simulated(arguments: argparse.Namespace) -> None:
    result = reproduce.simulated(
        arguments.out,
        seeds=arguments.seeds,
        n_jobs=arguments.jobs,
        command=arguments.command_line,
        progress=search_progress(),
    )
    told = (*reproduce.told_of_simulated(result), reproduce.told_of_files(arguments.out, result))
    answer(arguments, {"claims": result["claims"], "folder": str(arguments.out)}, "\n".join(told))


def _reproduce_digits(arguments: argparse.Namespace) -> None:
    names = reproduce.chosen_networks(arguments.networks)
    folder, bar = None, search_progress()
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
    told = (*reproduce.told_of_digits(result), reproduce.told_of_files(arguments.out, result))
    answer(arguments, {"claims": result["claims"], "folder": str(arguments.out)}, "\n".join(told))
