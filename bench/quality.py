"""Quality over problems whose target labels are used only to score.

    python -m bench.quality --out bench/out [--data DIR] [--quick] [--methods unshift fixed peers]
    python -m bench.quality --lofo        constants of the choice, each family left out in turn

Writes quality.csv, one row a problem and method, quality_candidates.csv, one row a candidate of the
unsupervised alignment, and after a full run docs/quality.md. Rows of methods that are not run again
are kept; what failed is in crashes.txt. Data that do not ship are read from DIR, ../shared/data
beside the repository by default, and left out where they are not there.

Score: balanced accuracy x 100 over the classes that the source knows; for numbers 100 R², not
below -100. Ten target rows of known classes (at most a third), drawn once a problem, are those
with whose labels "unshift, 10 labels" updates its alignment; no method is scored on them.
"""

from __future__ import annotations

import argparse
import csv
import time
import traceback
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import unshift
from unshift.choice import Candidate
from unshift.domain import MAX_SAMPLE
from unshift.predictors import default_estimator

from . import peers, quality_page
from .problems import FAMILIES, NEEDS, Data, Problem, problems, seeded

Array = np.ndarray
Row = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
UNSUPERVISED, LABELLED = "unshift", "unshift, 10 labels"
GROUPS: dict[str, tuple[str, ...]] = {
    "unshift": (UNSUPERVISED, LABELLED),
    "fixed": tuple(peers.FIXED),
    "peers": tuple(peers.PEERS),
}
LABELS = 10
KEYS = ("family", "variety", "problem", "method")
COLUMNS = (
    *KEYS,
    "score",
    "accuracy",
    "seconds",
    "verdict",
    "kind",
    "misfit",
    "weight",
    "best_in_hindsight",
    "expected",
    "note",
)
# What is stored of a candidate beside its score: all its numbers.
FACTS = tuple(f.name for f in fields(Candidate) if f.type in ("float", "int", "bool"))
CANDIDATE_COLUMNS = (
    *KEYS[:3],
    "rank",
    "score",
    "accuracy",
    "apart",
    "corresponds",
    "rows",
    "kind",
    "moved",
    *FACTS,
)


def score(truth: Array, predicted: Array, task: str, known: Array | None = None) -> float:
    """Balanced accuracy x 100 over the known classes, or 100 R² not below -100."""
    if task == "regression":
        spread = float(np.sum((truth - truth.mean()) ** 2))
        return max(-100.0, 100.0 * (1.0 - float(np.sum((truth - predicted) ** 2)) / spread))
    classes = np.unique(truth)
    if known is not None:
        classes = classes[np.isin(classes, known)]
    return 100.0 * float(np.mean([np.mean(predicted[truth == c] == c) for c in classes]))


def labelled_rows(problem: Problem) -> Array:
    """The target rows whose labels are given to who may use some."""
    rng = seeded(problem.family, problem.variety, problem.name, "labels")
    rows = np.arange(len(problem.y_target))
    if problem.task == "classification":
        rows = rows[np.isin(problem.y_target, np.unique(problem.y_source))]
    return np.sort(rng.choice(rows, min(LABELS, rows.size // 3), replace=False))


class Judge:
    """Scores of predictions for one problem, on the rows that nobody was given labels of."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.given = labelled_rows(problem)
        self.kept = np.setdiff1d(np.arange(len(problem.y_target)), self.given)
        self.known = np.unique(problem.y_source)

    def __call__(self, predicted: Array) -> float:
        truth = self.problem.y_target[self.kept]
        return score(truth, predicted[self.kept], self.problem.task, self.known)

    def accuracy(self, predicted: Array) -> float:
        """Share of all rows predicted rightly x 100, classes that the source lacks among them."""
        if self.problem.task == "regression":
            return float("nan")
        return 100.0 * float(np.mean((predicted == self.problem.y_target)[self.kept]))


def solve(problem: Problem, methods: Sequence[str]) -> tuple[list[Row], list[Row], str]:
    """Rows of the methods and of the candidates, and the tracebacks of what failed."""
    attempt = Attempt(problem)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        rows = [attempt.row(method) for method in methods]
    return rows, attempt.candidates, attempt.crashes


class Attempt:
    """All methods at one problem; the labelled alignment goes on from the one without labels."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.judge = Judge(problem)
        self.about = dict(zip(KEYS, (problem.family, problem.variety, problem.name), strict=False))
        self.alignment: unshift.Alignment | None = None
        self.candidates: list[Row] = []
        self.crashes = ""

    def row(self, method: str) -> Row:
        row = {**dict.fromkeys(COLUMNS, ""), **self.about, "method": method}
        start = time.perf_counter()
        try:
            if method == UNSUPERVISED:
                row |= self.unsupervised()
            elif method == LABELLED:
                row |= self.labelled()
            else:
                row["score"] = self.judge(peers.predict(method, self.problem))
            row["seconds"] = row["seconds"] or time.perf_counter() - start
        except peers.SkippedError as error:
            row["note"] = f"skipped: {error}"
        except Exception as error:  # noqa: BLE001 - one failure must not end the others' run
            row["note"] = f"failed: {type(error).__name__}: {error}"[:200]
            self.crashes += f"{' / '.join(row[key] for key in KEYS)}\n{traceback.format_exc()}\n"
        return row

    def unsupervised(self) -> Row:
        problem = self.problem
        start = time.perf_counter()
        self.alignment = unshift.align(
            problem.X_source,
            problem.X_target,
            problem.y_source,
            same_features=problem.same_features,
            task=problem.task,
            random_state=0,
        )
        seconds = time.perf_counter() - start
        models: dict[int, Any] = {}
        views: list[Array] = []
        for rank, candidate in enumerate(self.alignment.candidates):
            key = id(candidate.source)
            if key not in models:
                model = default_estimator(problem.task)
                models[key] = model.fit(candidate.source(problem.X_source), problem.y_source)
            predicted = models[key].predict(candidate.target(problem.X_target))
            views.append(predicted)
            facts = {name: float(getattr(candidate, name)) for name in FACTS}
            self.candidates.append(
                self.about
                | {"rank": rank, "kind": candidate.kind, "score": self.judge(predicted)}
                | {"accuracy": self.judge.accuracy(predicted)}
                | {"apart": apart(predicted, views[0], problem.task)}
                | {"corresponds": int(problem.same_features)}
                | {"rows": min(len(problem.X_target), MAX_SAMPLE)}
                | facts
                | {"moved": moved(candidate.balance, problem.y_source)}
            )
        return answer(self.alignment, self.candidates) | {"seconds": seconds}

    def labelled(self) -> Row:
        """The same candidates, after some labels: maps stay, so that scores are known by map."""
        if self.alignment is None:
            raise peers.SkippedError("needs the alignment without labels")
        known = {
            id(candidate.target): one
            for candidate, one in zip(self.alignment.candidates, self.candidates, strict=True)
        }
        given = self.judge.given
        updated = self.alignment.update(self.problem.X_target[given], self.problem.y_target[given])
        return answer(updated, [known[id(candidate.target)] for candidate in updated.candidates])


def apart(predicted: Array, first: Array, task: str) -> float:
    """Share of target rows predicted otherwise; for numbers the squared difference over spread."""
    if task == "classification":
        return float(np.mean(predicted != first))
    return float(np.mean((predicted - first) ** 2) / (np.var(first) or 1.0))


def moved(balance: Sequence[float], labels: Array) -> float:
    """Share of rows in other classes than in the source, where a balance was estimated."""
    if not balance:
        return 0.0
    counts = np.unique(labels, return_counts=True)[1]
    return float(0.5 * np.abs(np.array(balance) - counts / counts.sum()).sum())


def answer(alignment: unshift.Alignment, known: Sequence[Row]) -> Row:
    """What an alignment says of itself, beside what is known of its candidates, best first."""
    best, diagnosis = alignment.candidates[0], alignment.diagnosis
    return {
        "score": known[0]["score"],
        "accuracy": known[0]["accuracy"],
        "verdict": diagnosis.verdict,
        "kind": best.kind,
        "misfit": best.misfit,
        "weight": best.weight,
        "best_in_hindsight": max(one["score"] for one in known),
        "expected": 100.0 * diagnosis.numbers.get("expected_accuracy", float("nan")),
    }


def read(path: Path) -> list[Row]:
    """A table that was written before; none is an empty one."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Table:
    """A CSV file that grows as the run goes on, over the rows kept from an earlier run."""

    def __init__(self, path: Path, columns: Sequence[str], kept: Iterable[Row]) -> None:
        self.file = path.open("w", newline="", encoding="utf-8")
        self.writer = csv.DictWriter(self.file, columns)
        self.writer.writeheader()
        self.add(kept)

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *failure: object) -> None:
        self.file.close()

    def add(self, rows: Iterable[Row]) -> None:
        self.writer.writerows(
            {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows
        )
        self.file.flush()


def run_problems(
    out: Path,
    made: Iterable[Problem],
    methods: Sequence[str],
    families: Sequence[str],
    n_jobs: int = 2,
) -> None:
    """Solve problems, some at a time, and write as results come in."""
    out.mkdir(parents=True, exist_ok=True)
    paths = out / "quality.csv", out / "quality_candidates.csv"
    old, seen = (
        [row for row in read(path) if row["family"] not in families or kept(row)]
        for path, kept in (
            (paths[0], lambda row: row["method"] not in methods),
            (paths[1], lambda row: UNSUPERVISED not in methods),
        )
    )
    tables = Table(paths[0], COLUMNS, old), Table(paths[1], CANDIDATE_COLUMNS, seen)
    work = (delayed(solve)(problem, methods) for problem in made)
    start, family = time.perf_counter(), ""
    with (out / "crashes.txt").open("w", encoding="utf-8") as log, tables[0], tables[1]:
        for rows, candidates, crashes in Parallel(n_jobs=n_jobs, return_as="generator")(work):
            tables[0].add(rows)
            tables[1].add(candidates)
            log.write(crashes)
            log.flush()
            if rows[0]["family"] != family:
                family = rows[0]["family"]
                print(f"{time.perf_counter() - start:6.0f} s  {family}", flush=True)


def run(out: Path, data: Data, methods: Sequence[str], families: list[str], quick: bool) -> None:
    """All problems of the families, or a few of each; says what is left out."""
    for family, file in NEEDS.items():
        if family in families and data.load(file) is None:
            print(f"{family}: no {file}, skipped")
    if "skada" in families and peers.missing("skada"):
        print("skada: its library is not installed, skipped")
    for method in methods:
        if peers.missing(method):
            print(f"{method}: its library is not installed, skipped")
    methods = [method for method in methods if not peers.missing(method)]
    run_problems(out, problems(data, families, quick), methods, families)


def main(out_dir: Path) -> None:
    """The full suite and its page of the documentation."""
    every = [method for group in GROUPS.values() for method in group]
    run(out_dir, Data(DATA), every, list(FAMILIES), quick=False)
    page = quality_page.page(
        read(out_dir / "quality.csv"), read(out_dir / "quality_candidates.csv")
    )
    (ROOT / "docs" / "quality.md").write_text(page, encoding="utf-8")


def command() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench/out"))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--quick", action="store_true", help="a few problems of each family")
    parser.add_argument("--methods", nargs="*", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--families", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--lofo", action="store_true", help="from the candidates stored in --out")
    parser.add_argument("--page", type=Path, help="where the page is written")
    given = parser.parse_args()
    if not given.lofo:
        methods = [method for group in given.methods for method in GROUPS[group]]
        run(given.out, Data(given.data), methods, given.families, given.quick)
    rows = read(given.out / "quality.csv")
    candidates = read(given.out / "quality_candidates.csv")
    if given.lofo:
        print(quality_page.constants(candidates))
        return
    page = quality_page.page(rows, candidates)
    print(page)
    if given.page is not None:
        given.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    command()
