"""Exact MMD² with its gradient beside numpy's exponential over as many elements, on one core.

The references are ``np.exp(K)``, into a new array, and ``np.exp(K, out=K)``, in place, for an m x n
array of float32 far larger than the cache: one exponential for each pair of rows. A pair also costs
the two matrix products ``X (R Y)ᵀ`` and ``K Y``, 4p additions and multiplications without which
there is no exact gradient. So beside them stands the least that numpy could take on this core: the
products at the pace of a large square product, and the cheaper of its powers in the cache.

Each setting runs in processes of its own, one thread each; the references and the objective take
turns within a process, and a ratio is of neighbours in time. On some processors the speed of
numpy's exp2 depends on where in memory the system loads it (an AMD of family 26 takes three times
as long where bits 22 and 21 of numpy's address are 10): hence several processes, and the slowest.
Where the environment names a kernel for OpenBLAS, its own choice is measured too: that is what
users have.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from unshift import mmd, stiefel

from . import tables

WIDTHS = (2, 5, 20, 50)
ROWS = 4096
SQUARE = 1024
PROCESSES = 5
TURNS = 7
PAGE = tables.DOCS / "speed.md"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(out_dir: Path) -> None:
    settings: dict[str, dict[str, str]] = {"own choice": {}}
    if name := os.environ.get("OPENBLAS_CORETYPE"):
        settings[f"OPENBLAS_CORETYPE={name}"] = {"OPENBLAS_CORETYPE": name}
    rows: list[tables.Row] = []
    for kernel, variables in settings.items():
        kept = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}
        environment = kept | dict.fromkeys(THREADS, "1") | variables
        for process in range(PROCESSES):
            command = [sys.executable, "-m", __name__]
            done = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            rows += [
                {"kernel": kernel, "process": process, **row} for row in json.loads(done.stdout)
            ]
    tables.write(rows, out_dir / "kernel_speed.csv")
    lines = summary(rows)
    tables.show(lines)
    tables.put("kernel_speed", f"{tables.machine()}.\n\n{tables.markdown(lines)}", PAGE)


def summary(rows: list[tables.Row]) -> list[tables.Row]:
    """Medians over processes, and the slowest process."""
    lines = []
    for kernel, p in dict.fromkeys((row["kernel"], row["p"]) for row in rows):
        runs = [row for row in rows if (row["kernel"], row["p"]) == (kernel, p)]

        def median(key: str, runs: list[tables.Row] = runs) -> float:
            return float(np.median([row[key] for row in runs]))

        lines.append(
            {
                "BLAS kernel": kernel,
                "p": p,
                "exp, new array, ns": median("exp_new_array"),
                "exp, in place, ns": median("exp_in_place"),
                "MMD² and gradient, ns": median("value_and_gradient"),
                "share of new array": median("share_new_array"),
                "share of in place": median("share_in_place"),
                "slowest process": min(row["share_in_place"] for row in runs),
                "least possible, ns": median("least"),
                "share of least": median("share_least"),
            }
        )
    return lines


def measure(p: int) -> dict[str, Any]:
    """Nanoseconds an element of each, medians over turns, in this process."""
    rng = np.random.default_rng(p)
    X, Y = (rng.standard_normal((ROWS, p), dtype=np.float32) for _ in range(2))
    objective = mmd.ExactMMD(X, Y, float(np.sqrt(p)))
    R = stiefel.random_orthogonal(p, rng)
    objective.value_and_gradient(R)  # the terms that do not depend on R
    K = np.empty((ROWS, ROWS), np.float32)
    block = np.full(1 << 16, -1.0, np.float32)  # half a megabyte with its result
    result = np.empty_like(block)
    square = rng.standard_normal((SQUARE, SQUARE), dtype=np.float32)
    product = np.empty_like(square)
    operations = 4 * p * ROWS**2  # of the two products
    turns = []
    for _ in range(TURNS):
        K.fill(-1.0)
        size = K.size
        turns.append(
            (
                clocked(lambda: np.exp(K, out=K), size),
                clocked(lambda: objective.value_and_gradient(R), size),
                clocked(lambda: np.exp(K), size),
                *(
                    clocked(lambda f=f: [f(block, out=result) for _ in range(40)], 40 * block.size)
                    for f in (np.exp, np.exp2)
                ),
                clocked(lambda: np.matmul(square, square, out=product), 2 * SQUARE**3),
            )
        )
    in_place, ours, fresh, exp, exp2, operation = np.array(turns).T
    least = float(np.median(operation)) * operations / K.size + np.minimum(exp, exp2)
    return {
        "p": p,
        "exp_in_place": float(np.median(in_place)),
        "exp_new_array": float(np.median(fresh)),
        "exp_in_cache": float(np.median(exp)),
        "exp2_in_cache": float(np.median(exp2)),
        "gigaflops": 1.0 / float(np.median(operation)),
        "value_and_gradient": float(np.median(ours)),
        "least": float(np.median(least)),
        "share_in_place": float(np.median(in_place / ours)),
        "share_new_array": float(np.median(fresh / ours)),
        "share_least": float(np.median(least / ours)),
        "power": mmd.POWER.__name__,
    }


def clocked(run: Callable[[], Any], elements: int) -> float:
    """Processor time in nanoseconds an element."""
    start = time.thread_time()
    run()
    return (time.thread_time() - start) / elements * 1e9


if __name__ == "__main__":
    print(json.dumps([measure(p) for p in WIDTHS]))
