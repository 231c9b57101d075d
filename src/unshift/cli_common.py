"""What the commands share: options, progress on a terminal, and the two forms of an answer."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from .fitting import plain
from .table_base import Table
from .table_text import TextFormat
from .tables import FORMATS, open_table

EXIT_CODES = """\
exit codes:
  0    done
  2    the command or its input cannot be used; one line on stderr says why and what to do
  3    the machine gave out: no memory, a full disk, or a place that cannot be written to
  130  interrupted (143 if by a request to terminate)
  141  whoever read the output has gone
"""

Progress = Callable[[str, int, int], None]
BAR = 30


def command(
    commands: Any, name: str, run: Callable[..., None], text: str, examples: str = ""
) -> Any:
    """A parser of one command, with its examples and the exit codes below its options."""
    shown = f"examples:\n{examples.strip(chr(10))}\n\n" if examples else ""
    parser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=shown + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def json_option(parser: Any) -> None:
    """The form of the answer."""
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def input_options(parser: Any) -> None:
    """How input files are read."""
    parser.add_argument(
        "--format",
        choices=sorted(set(FORMATS.values())),
        help="of the input, where its name does not say it; standard input (-) is CSV otherwise",
    )
    parser.add_argument("--separator", metavar="CHAR", help="between cells of text; seen if left")
    parser.add_argument("--decimal", metavar="CHAR", help="decimal sign of text; seen if left")
    parser.add_argument("--encoding", metavar="NAME", help="of text, such as latin-1; or UTF-8")
    parser.add_argument(
        "--id",
        dest="ids",
        action="append",
        default=[],
        metavar="COL",
        help="a column to carry along into the output, not a feature; repeatable",
    )


def opened(arguments: argparse.Namespace, path: str) -> Table:
    """The table that a path and the options name."""
    separator = {"\\t": "\t", "tab": "\t"}.get(arguments.separator, arguments.separator)
    for name, sign in (("--separator", separator), ("--decimal", arguments.decimal)):
        if sign is not None and len(sign) != 1:
            raise ValueError(f"{name} should be one character; got {sign!r}.")
    text = TextFormat(separator, arguments.decimal, arguments.encoding)
    return open_table(path, arguments.format, text)


def count(text: str) -> int:
    """A whole number above zero."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above zero; got {text!r}")
    return int(text)


def search_progress() -> Progress | None:
    """Draws a bar for each stage of the search; None where no one is watching."""
    if not sys.stderr.isatty():
        return None

    def show(stage: str, done: int, total: int) -> None:
        _draw(stage, done / total if total else 1.0, f"{done}/{total}", done >= total)

    return show


def row_progress(stage: str, start: int = 0) -> Callable[[int, int | None, float | None], None]:
    """Draws rows done, rows a second and the time left, ten times a second."""
    if not sys.stderr.isatty():
        return lambda done, total, share: None
    began, last = time.monotonic(), [0.0]

    def show(done: int, total: int | None, share: float | None) -> None:
        now = time.monotonic()
        if now - last[0] < 0.1 and done != total:
            return
        last[0] = now
        part = done / total if total else share
        rate = (done - start) / max(now - began, 1e-9)
        words = f"{done:,} rows, {rate:,.0f}/s"
        if part and (total or not start):
            left = (total - done) / max(rate, 1e-9) if total else (now - began) * (1 / part - 1)
            words += f", {_clock(left)} left"
        _draw(stage, part or 0.0, words, done == total)

    return show


def clear_progress() -> None:
    """Leave an empty line where a bar was."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _draw(stage: str, part: float, words: str, over: bool) -> None:
    bar = "#" * round(BAR * min(part, 1.0))
    line = "\r\033[K" if over else f"\r{stage:<12} [{bar:<{BAR}}] {words}\033[K"
    print(line, end="", file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{s:02d}" if hours else f"{minutes}:{s:02d}"


def note(sentence: str) -> None:
    """A remark, beside the answer."""
    print(f"note: {sentence}", file=sys.stderr)


def answer(arguments: argparse.Namespace, told: Mapping[str, Any], lines: str) -> None:
    """The answer as JSON where asked for, else in words."""
    if arguments.json:
        print(json.dumps(plain(told), indent=1, allow_nan=False, ensure_ascii=False))
    else:
        print(lines)
