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

    python -m bench.planted --data DIR --out planted.csv

DIR holds gas_drift.npz and mnist.npz; without it the data sets of scikit-learn alone are used.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression

from unshift import stiefel
from unshift.mmd import ExactMMD, median_bandwidth
from unshift.search import search

Array = np.ndarray
# Returns a rotation for whitened source and target rows, a bandwidth and a generator.
Method = Callable[[Array, Array, float, np.random.Generator], Array]

DIMENSIONS = (2, 3, 5, 8, 12, 20)
SOLVED = 0.02
# Rows of each domain that a method is given; predictions are on all
MOST_ROWS = 4000
MNIST_ROWS = 10_000


@dataclass(frozen=True)
class Problem:
    """Whitened rows of both domains, the truth, and the predictions to be met."""

    name: str
    p: int
    seed: int
    source: Array
    target: Array
    true_target: Array  # the target rows under the exact inverse of the planted map
    classifier: LogisticRegression
    sigma: float

    @property
    def planted_rotation(self) -> Array:
        """The rotation nearest to the exact inverse, given both whitenings."""
        return stiefel.polar(self.true_target.T @ self.target)

    def predictions(self, R: Array) -> Array:
        return self.classifier.predict(self.target @ R.T)


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


def data_sets(folder: Path | None) -> dict[str, tuple[Array, Array]]:
    """Rows and classes by name; columns of unlike units are standardised."""
    sets = {
        "digits": load_digits(return_X_y=True),
        "wine": _standardised(*load_wine(return_X_y=True)),
        "breast cancer": _standardised(*load_breast_cancer(return_X_y=True)),
    }
    if folder is not None:
        with np.load(folder / "gas_drift.npz", allow_pickle=False) as gas:
            for batch in ("3", "6"):
                sets[f"gas {batch}"] = _standardised(gas[f"X{batch}"], gas[f"y{batch}"])
        with np.load(folder / "mnist.npz", allow_pickle=False) as mnist:
            images = mnist["X_train"][:MNIST_ROWS].reshape(MNIST_ROWS, -1) / 255.0
            sets["mnist"] = images, mnist["y_train"][:MNIST_ROWS]
    return sets


def _standardised(X: Array, y: Array) -> tuple[Array, Array]:
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def plant(name: str, X: Array, y: Array, p: int, seed: int) -> Problem:
    """The problem of this data set, dimension and seed."""
    rng = np.random.default_rng([seed, p])
    order = rng.permutation(len(X))
    X, y = X[order] - X.mean(axis=0), y[order]
    components = np.linalg.eigh(X.T @ X)[1][:, ::-1][:, :p]
    reduced = X @ components
    reduced /= reduced.std()
    half = len(X) // 2
    left, right = stiefel.random_orthogonal(p, rng, size=2)
    stretch = np.exp(rng.uniform(0.0, np.log(100.0), p))
    seen = reduced[half:] @ (left * stretch @ right) + 3.0 * rng.standard_normal(p)
    source_white, target_white = whitener(reduced[:half]), whitener(seen)
    source = source_white(reduced[:half])
    classifier = LogisticRegression(max_iter=5000).fit(source, y[:half])
    return Problem(
        name,
        p,
        seed,
        source,
        target_white(seen),
        source_white(reduced[half:]),
        classifier,
        median_bandwidth(source),
    )


def whitener(X: Array) -> Callable[[Array], Array]:
    """The map under which these rows have mean 0 and covariance I."""
    mean = X.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(X.T, bias=True).reshape(X.shape[1], -1))
    return lambda rows: (rows - mean) @ (vectors / np.sqrt(values))


def judge(problem: Problem, method: str, R: Array, seconds: float) -> Outcome:
    """What a rotation is worth, beside the true minimum."""
    rows = (problem.source[:MOST_ROWS], problem.target[:MOST_ROWS])
    exact = ExactMMD(rows[0], rows[1], problem.sigma)
    start = exact.value_and_gradient
    best = stiefel.minimize(start, problem.planted_rotation, max_iter=100, tol=1e-4)
    found = exact.value(R)
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


def run(problem: Problem, method: str, solve: Method) -> Outcome:
    """One method on one problem, timed."""
    rng = np.random.default_rng(problem.seed)
    started = time.perf_counter()
    R = solve(problem.source[:MOST_ROWS], problem.target[:MOST_ROWS], problem.sigma, rng)
    return judge(problem, method, R, time.perf_counter() - started)


def unshift_search(source: Array, target: Array, sigma: float, rng: np.random.Generator) -> Array:
    """The package's own search, on two cores."""
    return search(source, target, sigma=sigma, rng=rng, n_jobs=2).found[0].rotation


METHODS: dict[str, Method] = {"unshift": unshift_search}


def problems(
    folder: Path | None, names: Iterable[str], dimensions: Iterable[int], seeds: Iterable[int]
) -> Iterator[Problem]:
    """All problems of the named data sets (all if none) that have enough columns."""
    sets = data_sets(folder)
    for name in list(names) or sets:
        X, y = sets[name]
        for p in dimensions:
            for seed in seeds if p <= X.shape[1] else ():
                yield plant(name, X, y, p, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of gas_drift.npz and mnist.npz")
    parser.add_argument("--out", type=Path, default=Path("bench/out/planted.csv"))
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--dimensions", nargs="*", type=int, default=DIMENSIONS)
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 10), metavar=("FIRST", "END"))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    with given.out.open("w", newline="") as file:
        table = csv.DictWriter(file, Outcome.__dataclass_fields__)
        table.writeheader()
        for problem in problems(given.data, given.names, given.dimensions, range(*given.seeds)):
            for method in given.methods:
                outcomes.append(run(problem, method, METHODS[method]))
                table.writerow(asdict(outcomes[-1]))
                file.flush()
    summarise(outcomes)


def summarise(outcomes: list[Outcome]) -> None:
    """Solved, preferred by the objective, and seconds, by method, data set and dimension."""
    groups: dict[tuple[str, str, int], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.method, outcome.name, outcome.p), []).append(outcome)
    print("| method | data | p | solved | lower | floor | seconds | slowest |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for (method, name, p), runs in groups.items():
        seconds = [run.seconds for run in runs]
        print(
            f"| {method} | {name} | {p} | {sum(run.solved for run in runs)}/{len(runs)} "
            f"| {sum(run.lower for run in runs)} | {np.mean([run.floor for run in runs]):.3f} "
            f"| {np.mean(seconds):.2f} | {max(seconds):.2f} |"
        )


if __name__ == "__main__":
    main()
