"""The command line: which commands there are, and how each of them may end."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from types import FrameType
from typing import NoReturn, TextIO

from . import cli_fit, cli_show, cli_stream
from .cli_common import EXIT_CODES, clear_progress, note
from .outputs import CannotWriteError

UNUSABLE, GAVE_OUT, INTERRUPTED, TERMINATED, NO_READER = 2, 3, 130, 143, 141

EXAMPLES = """\
examples:
  unshift demo
  unshift fit lab_a.csv lab_b.csv --label grade --id sample --out result
  unshift predict result/model.unshift week2.csv --out predicted.csv
  unshift COMMAND --help

"""
# What the library calls its arguments, and what they are here.
OURS = {
    "X_source": "the source",
    "X_target": "the target",
    "y_source": "the source's label column",
    "y_target": "the target's label column",
    "n_components": "--components",
}


class _TerminatedError(BaseException):
    """Someone asked the process to end."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    arguments.parser = parser
    arguments.command_line = shlex.join(["unshift", *(sys.argv[1:] if argv is None else argv)])
    try:
        before = signal.signal(signal.SIGTERM, _terminated)
    except ValueError:  # not the main thread, where signals cannot be set
        return _run(arguments)
    try:
        return _run(arguments)
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(arguments: argparse.Namespace) -> int:
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # what is still in the buffer goes nowhere, instead of failing once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    except CannotWriteError as error:
        return _failed(str(error), GAVE_OUT, error)
    except MemoryError as error:
        sentence = (
            "There is not enough memory: close other programs, or let fit keep fewer rows "
            "(--rows-kept)."
        )
        return _failed(sentence, GAVE_OUT, error)
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        return _failed(_one_line(error), UNUSABLE)
    except KeyboardInterrupt as error:
        return _failed("interrupted", INTERRUPTED, error)
    except _TerminatedError as error:
        return _failed("terminated", TERMINATED, error)
    return 0


def _terminated(signum: int, frame: FrameType | None) -> NoReturn:
    raise _TerminatedError


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning of the library or of one below it, on one line, without its place in the code."""
    note(" ".join(str(message).split()))


def _failed(sentence: str, code: int, error: BaseException | None = None) -> int:
    """Say why on one line, with what the error's notes say can be done."""
    clear_progress()
    notes = getattr(error, "__notes__", ())
    print("; ".join([f"unshift: {sentence}", *notes]), file=sys.stderr)
    return code


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    said = " ".join(str(error).split())
    return re.sub(r"\b[Xy]_(?:source|target)\b|\bn_components\b", lambda m: OURS[m[0]], said)


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="unshift",
        description="Bring two domains that are affine views of the same thing into one space.",
        epilog=EXAMPLES + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"unshift {version('unshift')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    cli_fit.add_parser(commands)
    cli_stream.add_parsers(commands)
    cli_show.add_parsers(commands)
    return parser
