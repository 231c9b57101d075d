"""Time and memory of align() as the rows grow: 1e4 to 1e7 a domain, 50 columns, p = 10, float32.

A domain is 50 mixed columns of 10 factors, a lopsided mixture of six normal clusters, and some
noise; the target is a second draw through another mixing. No value lies ten standard deviations
out: where one does, each round of weighing far rows down is one more pass over all rows. Rows are
made in blocks, so that making them takes no more memory than holding them. Each size runs in a
process of its own, with one thread of BLAS. Seconds are the processor's, which do not count what
else the machine does; ``align_clock`` are those on the wall.

``all_rows`` is what touches every row: the checks of finiteness and the moments of both domains,
measured by themselves; the reference is ``X.T @ X`` of both, one BLAS call each. ``rest`` is what
align() takes beyond ``all_rows``: sampling, search, report. Memory is what align() holds at its
peak beyond the input, by tracemalloc and by the process's resident set, over the input's size.
"""

import json
import os
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import unshift
from unshift._checks import check_matrix
from unshift.moments import moments

from . import tables

ROWS = (10_000, 100_000, 1_000_000, 10_000_000)
COLUMNS, FACTORS = 50, 10
BLOCK = 50_000
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SHOWN = {
    "rows a domain": "rows",
    "reference": "reference",
    "all rows": "all_rows",
    "of reference": "times_reference",
    "rest": "rest",
    "align": "align",
    "memory": "memory",
    "memory, by the system": "memory_resident",
}
MEMORY_NEEDED = 2.5  # of the input's size, free before a size is tried

Matrix = np.ndarray[Any, Any]


def main(out_dir: Path) -> None:
    environment = os.environ | dict.fromkeys(THREADS, "1")
    rows: list[tables.Row] = []
    for n in ROWS:
        if 2 * n * COLUMNS * 4 * MEMORY_NEEDED > free_bytes():
            print(f"not enough memory for {n:,} rows a domain: left out")
            continue
        command = [sys.executable, "-m", __name__, str(n)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout))
        tables.show(rows[-1:])
    tables.write(rows, out_dir / "scale.csv")
    slopes = [
        {
            "seconds": key,
            "slope": slope([row["rows"] for row in rows], [row[key] for row in rows]),
            "slope of the last decade": slope(
                [row["rows"] for row in rows[-2:]], [row[key] for row in rows[-2:]]
            ),
        }
        for key in ("all_rows", "rest", "align")
    ]
    tables.write(slopes, out_dir / "scale_slopes.csv")
    tables.show(slopes)
    shown = [{title: row[key] for title, key in SHOWN.items()} for row in rows]
    tables.put(
        "scale",
        f"{tables.machine()}.\n\n{tables.markdown(shown)}\n{tables.markdown(slopes)}",
        tables.DOCS / "speed.md",
    )


def slope(rows: list[int], seconds: list[float]) -> float:
    """Of log time over log rows, by least squares."""
    return float(np.polyfit(np.log(rows), np.log(seconds), 1)[0])


def free_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def domain(n: int, seed: int) -> Matrix:
    """Rows (n, COLUMNS) of float32."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((FACTORS, COLUMNS), dtype=np.float32)
    centers = np.random.default_rng(0).standard_normal((6, FACTORS)).astype(np.float32) * 2
    X = np.empty((n, COLUMNS), np.float32)
    for start in range(0, n, BLOCK):
        rows = X[start : start + BLOCK]
        which = rng.choice(6, size=len(rows), p=np.arange(1, 7) / 21)
        factors = centers[which] + rng.standard_normal((len(rows), FACTORS), np.float32)
        np.matmul(factors, mixing, out=rows)
        rows += np.float32(0.05) * rng.standard_normal(rows.shape, np.float32)
    return X


def clocked(run: Callable[[], Any]) -> float:
    """Seconds of the processor."""
    start = time.process_time()
    run()
    return time.process_time() - start


def align(X: Matrix, Y: Matrix) -> Any:
    return unshift.align(X, Y, n_components=FACTORS, same_features=False, random_state=0)


def measure(n: int) -> dict[str, Any]:
    """One size, in this process."""
    warm_up = domain(2000, 1), domain(2000, 2)
    align(*warm_up)
    X, Y = domain(n, 1), domain(n, 2)
    size = X.nbytes + Y.nbytes
    turns = []
    for _ in range(3 if n <= 1_000_000 else 2):
        turns.append(
            (
                clocked(lambda: (X.T @ X, Y.T @ Y)),
                clocked(lambda: [check_matrix(Z, "X") for Z in (X, Y)]),
                clocked(lambda: [moments(Z) for Z in (X, Y)]),
            )
        )
    reference, checks, passes = np.median(turns, axis=0)
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clock = time.perf_counter()
    seconds = clocked(lambda: align(X, Y))
    clock = time.perf_counter() - clock
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident) * 1024
    tracemalloc.start()
    align(X, Y)
    held = tracemalloc.get_traced_memory()[1]
    return {
        "rows": n,
        "reference": float(reference),
        "checks": float(checks),
        "moments": float(passes),
        "all_rows": float(checks + passes),
        "times_reference": float((checks + passes) / reference),
        "align": seconds,
        "align_clock": clock,
        "rest": seconds - float(checks + passes),
        "memory": held / size,
        "memory_resident": grown / size,
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
