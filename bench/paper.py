"""The paper whole: both `unshift reproduce` commands as a user runs them, and docs/paper.md."""

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from unshift.datasets import DIGITS_NETWORKS

from . import paper_page
from .tables import Row, show, write

PAPERS, OTHERS = DIGITS_NETWORKS[0], ",".join(DIGITS_NETWORKS[1:])
# Arguments of each run, by the folder that it writes to.
RUNS = {
    paper_page.SIMULATED: ("simulated",),
    paper_page.DIGITS: ("digits", "--networks", PAPERS),
    paper_page.OTHERS: ("digits", "--networks", OTHERS),
}


def main(out_dir: Path, jobs: int = 2) -> None:
    rows = [run(arguments, out_dir / folder, jobs) for folder, arguments in RUNS.items()]
    write(rows, out_dir / paper_page.TIMES)
    show(rows)
    paper_page.write_page(out_dir)


def run(arguments: Sequence[str], folder: Path, jobs: int) -> Row:
    """One command to its end: seconds by the clock, and of all its processes by the processor."""
    command = [str(Path(sys.executable).with_name("unshift")), "reproduce", *arguments]
    before, start = os.times(), time.perf_counter()
    subprocess.run(
        [*command, "--out", str(folder), "--jobs", str(jobs)], check=True, stdout=sys.stderr
    )
    after = os.times()
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    return {
        "command": shlex.join(["unshift", *command[1:]]),
        "seconds": time.perf_counter() - start,
        "processor seconds": spent,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.paper", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench/out"))
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--page-only", action="store_true", help="from the tables that are there")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.page_only:
        paper_page.write_page(given.out)
    else:
        main(given.out, given.jobs)
