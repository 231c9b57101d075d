"""Planted recovery: half of a real data set is the source, the other half the target.

Both are reduced to p columns by one PCA; then the target goes through a random invertible p x p map
of condition up to 100 and a shift. No labels, no correspondence. Each domain is whitened by its own
moments, so that what is left to find is a rotation. A classifier of the whitened source rows
predicts the target rows:

- ``differ``: the share of predictions other than those under the *true minimum*, where descent of
  the exact MMD² from the planted rotation ends. Solved is ``differ < 0.02``: the search found what
  the objective can say.
- ``differ_map``: the same against the exact inverse of the planted map, and ``floor``, what the
  true minimum itself has of it. Whitening by two finite halves moves predictions near the
  boundaries: no search can be below it but by chance.
- ``lower``: not solved, and the exact MMD² is below that of the true minimum: at this sample size
  the objective prefers another map, and no search could tell.

    python -m bench.planted --names digits --dimensions 5 12 --seeds 3

Data that do not ship lie in ../shared/data or in --data; without them scikit-learn's alone are
used.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from unshift.search import search

from . import search_page, tables
from .planted_peers import PEERS
from .planted_problems import Problem, problems
from .quality import DATA

Array = np.ndarray
# Returns a rotation for a problem; the generator is its own, the seconds are what it may take.
Method = Callable[[Problem, np.random.Generator, float], Array]

DIMENSIONS, SEEDS = (2, 3, 5, 8, 12, 20), 10
# On to more dimensions where there are columns and rows enough, and fewer seeds there and for peers
CURVE, CURVE_DIMENSIONS, CURVE_SEEDS = ("digits", "mnist"), (30, 50), 5
PEER_SEEDS = 3
SOLVED = 0.02
OURS = "unshift"


@dataclass(frozen=True)
class Outcome:
    """One run of one method; one row of the table."""

    method: str
    name: str
    p: int
    seed: int
    rows: int
    solved: bool
    lower: bool
    differ: float
    differ_map: float
    floor: float
    mmd2: float
    mmd2_true: float
    seconds: float


def judge(problem: Problem, method: str, R: Array, seconds: float) -> Outcome:
    """What a rotation is worth, beside the true minimum."""
    best, found = problem.true_minimum, problem.exact.value(R)
    predicted, wanted = problem.predictions(R), problem.predictions(best.point)
    true_map = problem.classifier.predict(problem.true_target)
    differ = float(np.mean(predicted != wanted))
    return Outcome(
        method,
        problem.name,
        problem.p,
        problem.seed,
        len(problem.source),
        differ < SOLVED,
        differ >= SOLVED and found < best.value,
        differ,
        float(np.mean(predicted != true_map)),
        float(np.mean(wanted != true_map)),
        found,
        best.value,
        seconds,
    )


def run(problem: Problem, method: str, solve: Method, budget: float = np.inf) -> Outcome:
    """One method on one problem, timed."""
    rng = np.random.default_rng(problem.seed)
    started = time.perf_counter()
    R = solve(problem, rng, budget)
    return judge(problem, method, R, time.perf_counter() - started)


def ours(problem: Problem, rng: np.random.Generator, budget: float) -> Array:
    """The package's own search, on two cores."""
    source, target = problem.rows
    return search(source, target, sigma=problem.sigma, rng=rng, n_jobs=2).found[0].rotation


def run_peers(problem: Problem, seconds: float) -> list[Outcome]:
    """All peers, the restarts with the time of two cores over the seconds that ours took."""
    return [run(problem, name, solve, 2.0 * seconds) for name, solve in PEERS.items()]


def measure(
    out_dir: Path, ours_on: Iterable[Problem], peer_seeds: int, name: str = "planted"
) -> list[Outcome]:
    """Ours on all problems, one at a time; then the peers on the first seeds, two at a time."""
    outcomes: list[Outcome] = []
    shared: list[tuple[Problem, float]] = []
    for problem in ours_on:
        outcomes.append(run(problem, OURS, ours))
        if problem.seed < peer_seeds and problem.p in DIMENSIONS:
            shared.append((problem, outcomes[-1].seconds))
        tables.write([asdict(outcome) for outcome in outcomes], out_dir / f"{name}.csv")
    solved = Parallel(n_jobs=2)(delayed(run_peers)(*each) for each in shared)
    outcomes += [outcome for each in solved for outcome in each]
    tables.write([asdict(outcome) for outcome in outcomes], out_dir / f"{name}.csv")
    return outcomes


def main(out_dir: Path) -> None:
    """The full run, and its part of the page of the documentation."""
    folder = DATA if DATA.exists() else None

    def every() -> Iterator[Problem]:
        yield from problems(folder, (), DIMENSIONS, range(SEEDS))
        yield from problems(folder, CURVE, CURVE_DIMENSIONS, range(CURVE_SEEDS))

    measure(out_dir, every(), PEER_SEEDS)
    search_page.write(out_dir)


def command() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.planted", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA if DATA.exists() else None)
    parser.add_argument("--out", type=Path, default=Path("bench/out"))
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--dimensions", nargs="*", type=int, default=DIMENSIONS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--peer-seeds", type=int, default=PEER_SEEDS)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    chosen = problems(given.data, given.names, given.dimensions, range(given.seeds))
    measure(given.out, chosen, given.peer_seeds, "planted_some")
    rows = search_page.read(given.out / "planted_some.csv")
    print(search_page.recovery(rows), search_page.peers(rows), sep="\n")


if __name__ == "__main__":
    command()
