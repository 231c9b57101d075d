"""Run the benchmarks, all or some: each is a module whose ``main(out_dir)`` writes its tables."""

import argparse
import importlib
import time
from pathlib import Path

# In the order of the documentation; each writes NAME.csv, one row a measurement.
BENCHMARKS = (
    *("kernel_speed", "optimisers", "scale", "streaming", "planted", "paper_task"),
    *("quality", "labels", "paper"),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench/out"), help="where tables go")
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="one of them")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.only or BENCHMARKS:
        start = time.perf_counter()
        print(f"== {name}", flush=True)
        importlib.import_module(f"bench.{name}").main(arguments.out)
        print(f"== {name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
