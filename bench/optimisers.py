"""Descent on O(p) beside its peers: evaluations and time to the same value.

One objective, the exact MMD² in float64, for scikit-learn's digits: one half is source, the other,
turned by a random rotation, is target; both whitened on the p leading components. The same starts
for all: some within a descent's reach of the planted rotation, some anywhere in its component.

Every solver gets the value and the Euclidean gradient in one call, which is one evaluation; asked
again at the same point it answers from memory, at no cost. Each runs until it stops by itself or
has spent MAX_EVALUATIONS. A pair of solvers is compared on the starts from which both come to the
same minimum (within SAME of the descent from the start): by the evaluations and the seconds that
each took to the value that both reached, within REACHED of the descent. The same over all starts
stands beside it, where the one that came to the lower minimum passes that value on its way.

geoopt takes part where it is installed, with torch; neither belongs to the project's environment.
"""

import importlib.util
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from unshift import stiefel
from unshift.mmd import ExactMMD
from unshift.moments import moments
from unshift.whitening import whiten

from . import tables

Matrix = np.ndarray[Any, Any]

WIDTHS = (3, 5, 10, 20)
STARTS = 5  # of either kind
MAX_EVALUATIONS = 300
NEAR = 0.2  # turns the planted rotation by up to about 60 degrees
SAME, REACHED = 1e-3, 1e-6


class SpentError(Exception):
    """All evaluations are spent."""


class Counted:
    """The objective with a count of the points it was asked at, and the values and times there."""

    def __init__(self, objective: ExactMMD) -> None:
        self.objective = objective
        self.values: list[float] = []
        self.seconds: list[float] = []
        self.start = time.perf_counter()
        self.memory: list[tuple[Matrix, float, Matrix]] = []

    def __call__(self, R: Matrix) -> tuple[float, Matrix]:
        for point, value, gradient in self.memory:
            if np.array_equal(point, R):
                return value, gradient
        if len(self.values) >= MAX_EVALUATIONS:
            raise SpentError
        value, gradient = self.objective.value_and_gradient(R)
        self.memory = [(R.copy(), value, gradient), *self.memory[:3]]
        self.values.append(value)
        self.seconds.append(time.perf_counter() - self.start)
        return value, gradient

    def reached(self, level: float) -> tuple[int, float]:
        """Evaluations and seconds to the first value at or below the level."""
        first = int(np.argmax(np.array(self.values) <= level))
        return first + 1, self.seconds[first]


def ours(objective: Counted, start: Matrix) -> None:
    stiefel.minimize(objective, start, tol=1e-9, max_iter=10 * MAX_EVALUATIONS)


def curvature(objective: Counted, R: Matrix, direction: Matrix) -> Matrix:
    """The Hessian along a direction, by one more gradient: what trust regions ask for."""
    step = 1e-5 / max(float(np.linalg.norm(direction)), 1e-300)
    return (objective(R + step * direction)[1] - objective(R)[1]) / step


def pymanopt_solver(name: str) -> Callable[[Counted, Matrix], None]:
    def solve(objective: Counted, start: Matrix) -> None:
        import pymanopt
        from pymanopt import optimizers

        manifold = pymanopt.manifolds.Stiefel(*start.shape)
        cost = pymanopt.function.numpy(manifold)(lambda R: objective(R)[0])
        gradient = pymanopt.function.numpy(manifold)(lambda R: objective(R)[1])
        hessian = pymanopt.function.numpy(manifold)(lambda R, D: curvature(objective, R, D))
        problem = pymanopt.Problem(
            manifold, cost, euclidean_gradient=gradient, euclidean_hessian=hessian
        )
        limits = {"max_iterations": 10 * MAX_EVALUATIONS, "min_gradient_norm": 1e-9}
        getattr(optimizers, name)(verbosity=0, **limits).run(problem, initial_point=start)

    return solve


def geoopt_solver(name: str, **settings: Any) -> Callable[[Counted, Matrix], None]:
    def solve(objective: Counted, start: Matrix) -> None:
        import geoopt
        import torch

        R = geoopt.ManifoldParameter(torch.from_numpy(start.copy()), geoopt.EuclideanStiefel())
        solver = getattr(geoopt.optim, name)([R], **settings)

        def closure() -> Any:
            value, gradient = objective(R.detach().numpy())
            R.grad = torch.from_numpy(gradient.copy())
            return torch.tensor(value, dtype=torch.float64)

        for _ in range(MAX_EVALUATIONS):
            solver.step(closure)

    return solve


ALL_SOLVERS: dict[str, Callable[[Counted, Matrix], None]] = {
    "unshift": ours,
    "pymanopt steepest descent": pymanopt_solver("SteepestDescent"),
    "pymanopt conjugate gradient": pymanopt_solver("ConjugateGradient"),
    "pymanopt trust regions": pymanopt_solver("TrustRegions"),
    "geoopt line search, steepest": geoopt_solver("RiemannianLineSearch"),
    "geoopt line search, conjugate": geoopt_solver(
        "RiemannianLineSearch", line_search_method="wolfe", cg_method="pr"
    ),
    "geoopt Adam": geoopt_solver("RiemannianAdam", lr=0.03),
}
SOLVERS = {
    name: solver
    for name, solver in ALL_SOLVERS.items()
    if name == "unshift" or importlib.util.find_spec(name.partition(" ")[0])
}


def problem(p: int, rng: np.random.Generator) -> tuple[ExactMMD, list[tuple[str, Matrix]]]:
    """The objective, and starts near the planted rotation and far from it."""
    X = load_digits().data
    halves = np.array_split(X[rng.permutation(len(X))], 2)
    white = whiten(moments(X)).whitener(p)
    planted = stiefel.random_orthogonal(p, rng)
    source, target = white(halves[0]), white(halves[1]) @ planted
    sign = int(np.sign(np.linalg.det(planted)))
    starts = []
    for _ in range(STARTS):
        skew = rng.standard_normal((p, p)) * NEAR / np.sqrt(p)
        near = np.linalg.solve(np.eye(p) + skew - skew.T, np.eye(p) - skew + skew.T) @ planted
        starts.append(("near", stiefel.orthonormalise(near)))
        starts.append(("anywhere", stiefel.random_orthogonal(p, rng, determinant=sign)))
    return ExactMMD(source, target, float(np.sqrt(p))), starts


def measure(p: int, rng: np.random.Generator) -> list[tables.Row]:
    exact, starts = problem(p, rng)
    assert exact.within > 0  # computed before any clock runs
    rows: list[tables.Row] = []
    for number, (kind, start) in enumerate(starts):
        runs = {}
        for solver, solve in SOLVERS.items():
            runs[solver] = Counted(exact)
            with suppress(SpentError):
                solve(runs[solver], start)
        mine = runs["unshift"]
        for solver, theirs in runs.items():
            ends = min(mine.values), min(theirs.values)
            drop = mine.values[0] - min(ends)
            level = max(ends) + REACHED * drop
            evaluations, seconds = mine.reached(level)
            their_evaluations, their_seconds = theirs.reached(level)
            rows.append(
                {
                    "p": p,
                    "start": f"{kind} {number}",
                    "peer": solver,
                    "same_minimum": int(abs(ends[0] - ends[1]) <= SAME * drop),
                    "value": ends[0],
                    "peer_value": ends[1],
                    "evaluations": evaluations,
                    "peer_evaluations": their_evaluations,
                    "seconds": seconds,
                    "peer_seconds": their_seconds,
                }
            )
    return rows


def summary(rows: list[tables.Row]) -> list[tables.Row]:
    """Medians over the starts from which both came to the same minimum, and over all."""
    lines = []
    for p in WIDTHS:
        for solver in list(SOLVERS)[1:]:
            pairs = [row for row in rows if (row["p"], row["peer"]) == (p, solver)]
            same = [row for row in pairs if row["same_minimum"]]

            def median(key: str, same: list[tables.Row] = same) -> float:
                return float(np.median([row[key] for row in same])) if same else float("nan")

            lines.append(
                {
                    "p": p,
                    "peer": solver,
                    "same minimum": f"{len(same)}/{len(pairs)}",
                    "evaluations": median("evaluations"),
                    "of peer": median("peer_evaluations"),
                    "ms": 1e3 * median("seconds"),
                    "of peer, ms": 1e3 * median("peer_seconds"),
                    "ahead on both": sum(ahead(row) for row in same),
                    "all, evaluations": float(np.median([r["evaluations"] for r in pairs])),
                    "all, of peer": float(np.median([r["peer_evaluations"] for r in pairs])),
                    "all, ahead": sum(ahead(row) for row in pairs),
                }
            )
    return lines


def ahead(row: tables.Row) -> bool:
    """No more evaluations and no more time than the peer."""
    few = row["evaluations"] <= row["peer_evaluations"]
    return bool(few and row["seconds"] <= row["peer_seconds"])


def main(out_dir: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [row for p in WIDTHS for row in measure(p, rng)]
    tables.write(rows, out_dir / "optimisers.csv")
    lines = summary(rows)
    tables.show(lines)
    text = f"{tables.machine()}.\n\n{tables.markdown(lines)}"
    tables.put("optimisers", text, tables.DOCS / "speed.md")
