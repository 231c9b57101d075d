"""Exact MMD² with its gradient beside numpy's exponential over as many elements, on one core.

The reference is ``np.exp(K, out=K)`` for an m x n array of float32: one exponential for each pair
of rows, in place, an array far larger than the cache. Beside it: the same over a block that stays
in the cache, ``np.exp(K)`` into a new array, and the two matrix products without which no exact
gradient comes about, ``X Yᵀ`` and ``K Y`` in blocks in the cache, by themselves.

Each setting runs in processes of its own, one thread each, since where a library happens to be
loaded sets the speed of numpy's exp2 on some processors; the references and the objective take
turns within a process, and the ratio is of neighbours in time. Where the environment names a kernel
for OpenBLAS, its own choice is measured too: that is what users have.
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
PROCESSES = 5
TURNS = 7
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
    tables.show(summary(rows))


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
                "exp, ns": median("exp_in_place"),
                "in cache": median("exp_in_cache"),
                "new array": median("exp_new_array"),
                "products": median("products"),
                "GFLOP/s": median("gigaflops"),
                "MMD², ns": median("value_and_gradient"),
                "share of exp": median("share"),
                "slowest process": min(row["share"] for row in runs),
                "share of new array": median("share_new_array"),
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
    block = np.full((256, 512), -1.0, np.float32)
    result = np.empty_like(block)
    parts = [np.ascontiguousarray(Y[:512].T), np.ascontiguousarray(X[:256].T)]
    left, moved = np.ascontiguousarray(X[:256]), np.empty((p, 512), np.float32)
    turns = []
    for _ in range(TURNS):
        K.fill(-1.0)
        size, small = K.size, 40 * block.size
        turns.append(
            (
                clocked(lambda: np.exp(K, out=K), size),
                clocked(lambda: objective.value_and_gradient(R), size),
                clocked(lambda: np.exp(K), size),
                clocked(lambda: [np.exp(block, out=result) for _ in range(40)], small),
                clocked(lambda: [np.matmul(left, parts[0], out=result) for _ in range(40)], small)
                + clocked(
                    lambda: [np.matmul(parts[1], result, out=moved) for _ in range(40)], small
                ),
            )
        )
    plain, ours, fresh, cached, products = np.array(turns).T
    return {
        "p": p,
        "exp_in_place": float(np.median(plain)),
        "exp_in_cache": float(np.median(cached)),
        "exp_new_array": float(np.median(fresh)),
        "products": float(np.median(products)),
        "gigaflops": 4 * p / float(np.median(products)),
        "value_and_gradient": float(np.median(ours)),
        "share": float(np.median(plain / ours)),
        "share_new_array": float(np.median(fresh / ours)),
        "power": mmd.POWER.__name__,
    }


def clocked(run: Callable[[], Any], elements: int) -> float:
    """Processor time in nanoseconds an element."""
    start = time.thread_time()
    run()
    return (time.thread_time() - start) / elements * 1e9


if __name__ == "__main__":
    print(json.dumps([measure(p) for p in WIDTHS]))
