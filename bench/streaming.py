"""predict and transform on Parquet, beside reading and writing the same file with pyarrow alone.

A file has an identifier and 50 columns of float64, or 100 of float32: 8 factors of three classes,
mixed, with noise. Every measurement is a process of its own, taken in turns with the others; time
is the clock's and the processor's, both with what starting takes, memory the largest resident set.
pyarrow reads batches of 65,536 rows and writes each, once with its defaults and once without
dictionaries, which such numbers do not need and which ``unshift`` leaves out too. The last file has
four times the rows of the first: memory does not grow with it.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from . import tables

# Rows, type and columns of each file, and turns taken with it.
FILES = (
    (1_000_000, "float64", 50, 2),
    (1_000_000, "float32", 100, 2),
    (4_000_000, "float64", 50, 1),
)
GROUP = 200_000
TRAINED = 2000
COPY = """
import sys, pyarrow.parquet as pq
source = pq.ParquetFile(sys.argv[1])
options = {} if sys.argv[3] == "defaults" else {"use_dictionary": False}
with pq.ParquetWriter(sys.argv[2], source.schema_arrow, **options) as writer:
    for batch in source.iter_batches(65536):
        writer.write_batch(batch)
"""
# A process's own peak: what its parent holds is not counted, as it is in the usage of children.
PEAK = """
with open("/proc/self/status") as status, open("peak", "w") as peak:
    peak.write(next(line for line in status if line.startswith("VmHWM")).split()[1])
"""


def main(out_dir: Path) -> None:
    rows: list[tables.Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n, dtype, width, turns in FILES:
            rows += measured(folder, n, dtype, width, turns)
            tables.show(rows[-5:])
    tables.write(rows, out_dir / "streaming.csv")
    text = tables.markdown(rows) + f"\n{tables.machine()}\n"
    tables.put("streaming", text, tables.DOCS / "command-line.md")


def measured(folder: Path, n: int, dtype: str, width: int, turns: int) -> list[tables.Row]:
    """One file through every way of going through it."""
    data, out = folder / "data.parquet", folder / "out.parquet"
    make(data, n, dtype, width)
    model = folder / "fit" / "model.unshift"
    words = ["fit", "source.parquet", "target.parquet", "--label", "kind", "--out", "fit"]
    run(unshift(*words), folder)
    use = [str(model), str(data), "--id", "id", "--out", str(out)]
    ways = {
        "pyarrow, defaults": [sys.executable, "-c", COPY + PEAK, str(data), str(out), "defaults"],
        "pyarrow, no dictionaries": [
            sys.executable,
            "-c",
            COPY + PEAK,
            str(data),
            str(out),
            "none",
        ],
        "predict": unshift("predict", *use),
        "transform --to shared": unshift("transform", *use, "--to", "shared"),
        "transform --to source": unshift("transform", *use, "--to", "source"),
    }
    taken: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
    for _ in range(turns):
        for way, command in ways.items():
            taken[way].append(run(command, folder))
    size = data.stat().st_size / 1e9
    medians = {way: np.median(of, axis=0) for way, of in taken.items()}
    return [
        {
            "rows": n,
            "file": f"{width} x {dtype}, {size:.1f} GB",
            "way": way,
            "seconds": float(seconds),
            "processor": float(processor),
            "speed of defaults": float(medians["pyarrow, defaults"][0] / seconds),
            "speed of no dictionaries": float(medians["pyarrow, no dictionaries"][0] / seconds),
            "peak MB": float(peak),
        }
        for way, (seconds, processor, peak) in medians.items()
    ]


def unshift(*words: str) -> list[str]:
    code = "import sys; from unshift.cli import main; code = main()\n"
    return [sys.executable, "-c", f"{code}{PEAK}sys.exit(code)", *words]


def run(command: list[str], folder: Path) -> tuple[float, float, float]:
    """Seconds by the clock and of the processor, and megabytes at the peak."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, processor, int((folder / "peak").read_text("utf-8")) / 1024


def make(path: Path, n: int, dtype: str, width: int) -> None:
    """The file, and beside it small ones to fit the model on."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((8, width))
    names = [f"x{i}" for i in range(width)]
    writer = None
    for start in range(0, n, GROUP):
        kind = rng.integers(0, 3, min(GROUP, n - start))
        factors = rng.standard_normal((kind.size, 8)) + 3.0 * np.eye(8)[kind]
        X = (factors @ mixing + 0.1 * rng.standard_normal((kind.size, width))).astype(dtype)
        columns: dict[str, Any] = dict(zip(names, np.ascontiguousarray(X.T), strict=True))
        if writer is None:
            labels = np.array(["a", "b", "c"])[kind[:TRAINED]]
            few = {name: column[:TRAINED] for name, column in columns.items()}
            moved = {name: 1.3 * column + 1 for name, column in few.items()}
            pq.write_table(pa.table(few | {"kind": labels}), path.with_name("source.parquet"))
            pq.write_table(pa.table(moved), path.with_name("target.parquet"))
        table = pa.table({"id": np.arange(start, start + kind.size)} | columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
