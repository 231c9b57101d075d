"""How many labels settle the choice: rows that ``suggest_labels`` names, beside rows at random.

For each problem whose first answer, without target labels, is not within a point of the best
candidate: the least number of labels from which on the chosen candidate is. Suggested rows are
asked for in one go; random ones are averaged over draws.
"""

import statistics
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import unshift
from unshift.views import see

from .problems import Data, Problem, problems, seeded
from .quality import DATA, score
from .tables import Row, show, write

FAMILIES = ["symmetric", "planted, unknown columns", "digits", "gas"]
MOST, DRAWS = 24, 5


def main(out_dir: Path) -> None:
    rows = []
    for problem in problems(Data(DATA), FAMILIES, quick=True):
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            row = needed(problem)
        if row:
            rows.append(row)
    write(rows, out_dir / "labels.csv")
    show(rows)
    for kind in ("suggested", "random"):
        print(f"{kind}: median {statistics.median(float(row[kind]) for row in rows):.1f} labels")


def needed(problem: Problem) -> Row | None:
    """Labels that settle the problem by either way; None where nothing is open."""
    alignment = unshift.align(
        problem.X_source,
        problem.X_target,
        problem.y_source,
        same_features=problem.same_features,
        random_state=0,
    )
    assert alignment.evidence is not None
    views = see(alignment.candidates, alignment.evidence)
    assert views is not None
    seen = views.of(np.asarray(problem.X_target, dtype=float))
    known = np.unique(problem.y_source)
    scores = [score(problem.y_target, view, problem.task, known) for view in seen]
    quality = {id(c.target): s for c, s in zip(alignment.candidates, scores, strict=True)}
    if scores[0] > max(scores) - 1.0:
        return None
    labelled = np.flatnonzero(np.isin(problem.y_target, known))
    suggested = labelled[list(alignment.suggest_labels(problem.X_target[labelled], MOST))]
    rng = seeded("labels", problem.family, problem.name)
    draws = [rng.choice(labelled, MOST, replace=False) for _ in range(DRAWS)]

    def settles(order: np.ndarray) -> int:
        last = 0
        for k in range(1, MOST + 1):
            at = order[:k]
            chosen = alignment.update(problem.X_target[at], problem.y_target[at]).candidates[0]
            if quality[id(chosen.target)] < max(scores) - 1.0:
                last = k
        return last + 1

    return {
        "family": problem.family,
        "problem": problem.name,
        "first": round(scores[0], 1),
        "best": round(max(scores), 1),
        "suggested": settles(suggested),
        "random": round(statistics.mean(settles(draw) for draw in draws), 1),
    }
