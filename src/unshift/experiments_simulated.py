"""The paper's section 4.1 in numbers: MMD² over the angle, restarts, and what each start finds.

In two dimensions an orthogonal matrix is a rotation ``[[c, −s], [s, c]]`` or a reflection
``[[−c, −s], [−s, c]]`` by one angle, so that all minima can be seen and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from . import scene, stiefel
from .affine import AffineMap
from .align import align
from .alignment import Alignment
from .datasets import Mixture, make_mixture
from .mmd import ExactMMD
from .model import linear_predictor
from .moments import moments
from .protocols import MOST_STEPS, TEXT, logistic, seed_points
from .whitening import whiten

Row = dict[str, Any]
Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Progress = Callable[[str, int, int], object]

SHARED = ("shared dimension 1", "shared dimension 2")
COMPONENTS = ("rotation", "reflection")
# Angles at which MMD² is drawn, and at which minima are looked for in the many seeds.
DRAWN, SOUGHT = 360, 48
# Rotations closer than this (in radians, root mean square) are the same minimum.
SAME = 0.2
LABELS = 5
UNSHIFT = "unshift"
GLOBAL = "global minimum"


def orthogonal(angle: float, component: str) -> Matrix:
    """The paper's rotation or reflection by an angle, (2, 2)."""
    c, s = np.cos(angle), np.sin(angle)
    if component == COMPONENTS[0]:
        return np.array([[c, -s], [s, c]])
    return np.array([[-c, -s], [-s, c]])


def apart(R: Matrix, other: Matrix) -> float:
    """``‖R − R'‖_F / √p``."""
    return float(np.linalg.norm(R - other) / np.sqrt(R.shape[0]))


class Whitened:
    """A mixture's domains, whitened into the two dimensions that they have, and its MMD²."""

    def __init__(self, mixture: Mixture) -> None:
        self.mixture = mixture
        self.source, self.target = (
            whiten(moments(X)).whitener(2) for X in (mixture.X_source, mixture.X_target)
        )
        self.Z_A, self.Z_B = self.source(mixture.X_source), self.target(mixture.X_target)
        self.exact = ExactMMD(self.Z_A, self.Z_B, TEXT.sigma)
        self.model = logistic(self.Z_A, mixture.y_source)

    def truth(self) -> Matrix:
        """The rotation that the true maps imply: ``polar(M_A M_B^{-1})``, ``M = whitener · θ``."""
        M_A = self.source.matrix.T @ self.mixture.theta_source
        M_B = self.target.matrix.T @ self.mixture.theta_target
        return stiefel.polar(M_A @ np.linalg.inv(M_B))

    def descend(self, start: Matrix) -> stiefel.Minimum:
        """Algorithm 1 from a start."""
        return stiefel.minimize(self.exact.value_and_gradient, start, max_iter=MOST_STEPS)

    def accuracy(self, R: Matrix) -> float:
        """Of a logistic regression trained on the source, on the target's rotated rows."""
        return float(np.mean(self.model.predict(self.Z_B @ R.T) == self.mixture.y_target))

    def landscape(self, count: int) -> dict[str, Vector]:
        """MMD² at so many angles of each component."""
        angles = 2.0 * np.pi * np.arange(count) / count
        return {
            component: np.array([self.exact.value(orthogonal(a, component)) for a in angles])
            for component in COMPONENTS
        }

    def minima(self, landscape: dict[str, Vector]) -> list[stiefel.Minimum]:
        """The distinct local minima in both components, lowest first."""
        found: list[stiefel.Minimum] = []
        for component, values in landscape.items():
            lower = (values <= np.roll(values, 1)) & (values < np.roll(values, -1))
            for at in np.flatnonzero(lower):
                start = orthogonal(2.0 * np.pi * at / values.size, component)
                minimum = self.descend(start)
                if all(apart(minimum.point, other.point) > SAME for other in found):
                    found.append(minimum)
        return sorted(found, key=lambda minimum: minimum.value)


def angle_of(R: Matrix) -> tuple[str, float]:
    """Component and angle in degrees of an orthogonal matrix (2, 2)."""
    component = COMPONENTS[0] if np.linalg.det(R) > 0 else COMPONENTS[1]
    return component, float(np.degrees(np.arctan2(-R[0, 1], R[1, 1])) % 360.0)


def one_mixture(seed: int) -> dict[str, Any]:
    """Figures 4 and 5 and the eight restarts, on one mixture."""
    whitened = Whitened(make_mixture(seed))
    landscape = whitened.landscape(DRAWN)
    minima, truth = whitened.minima(landscape), whitened.truth()
    points = seed_points(2, TEXT.starts, np.random.default_rng(seed))
    restarts = []
    for i, start in enumerate(points):
        minimum = whitened.descend(start)
        restarts.append(
            {"seed_point": i, "from": _angle(start), **_described(whitened, minimum, truth)}
        )
    curve = [
        {"component": component, "degrees": 360.0 * at / DRAWN, "mmd2": value}
        for component, values in landscape.items()
        for at, value in enumerate(values.tolist())
    ]
    lowest = minima[0].point
    return {
        "landscape": curve,
        "minima": [_described(whitened, minimum, truth) for minimum in minima],
        "restarts": restarts,
        "panels": [
            _panel(whitened, np.eye(2), "Whitened, not rotated"),
            _panel(whitened, lowest, "At the lowest MMD²"),
        ],
    }


def _angle(R: Matrix) -> str:
    component, degrees = angle_of(R)
    return f"{component} by {degrees:.0f}°"


def _described(whitened: Whitened, minimum: stiefel.Minimum, truth: Matrix) -> Row:
    component, degrees = angle_of(minimum.point)
    return {
        "component": component,
        "degrees": degrees,
        "mmd2": minimum.value,
        "right": apart(minimum.point, truth) < SAME,
        "accuracy": whitened.accuracy(minimum.point),
    }


def _panel(whitened: Whitened, R: Matrix, title: str) -> dict[str, Any]:
    mixture = whitened.mixture
    predictor = linear_predictor(whitened.Z_A, mixture.y_source, "classification")
    return scene.panel(
        f"{title}: {whitened.accuracy(R):.1%}",
        SHARED,
        scene.domain(whitened.Z_A, mixture.y_source),
        scene.domain(whitened.Z_B @ R.T, mixture.y_target),
        predictor,
    )


def boundary_before_and_after(seed: int) -> list[dict[str, Any]]:
    """Figure 2: one boundary in features of two columns, as they come and after the alignment."""
    mixture = make_mixture(seed, n_features=2)
    X, y = mixture.X_source, mixture.y_source
    predictor = linear_predictor(X, y, "classification")
    known = np.full(y.size, None, dtype=object)
    known[:LABELS] = mixture.y_target[:LABELS]
    alignment = align(
        X,
        mixture.X_target,
        y,
        known,
        n_components=None,
        same_features=False,
        random_state=seed,
    )
    panels = []
    for title, map_ in (
        ("Before", AffineMap.identity(2)),
        (f"After, {LABELS} labels", alignment.target_to_source),
    ):
        rows = np.asarray(map_(mixture.X_target))
        right = float(np.mean(predictor.predict(rows) == mixture.y_target))
        target = scene.domain(rows, mixture.y_target)
        axes = ("source feature 1", "source feature 2")
        panels.append(
            scene.panel(f"{title}: {right:.1%}", axes, scene.domain(X, y), target, predictor)
        )
    return panels


def anti_alignment(seed: int) -> dict[str, Any]:
    """Figure 3: data symmetric about its mean, on which two alignments have one and the same MMD².

    Rows come in pairs ``m + e`` and ``−m − e``, one of each class: to turn by 180° swaps the
    classes and leaves the set of rows as it was.
    """
    rng = np.random.default_rng(seed)
    domains = []
    for _ in range(2):
        half = np.array([2.0, 1.0]) + rng.standard_normal((150, 2)) * (0.6, 0.9)
        rows = np.concatenate([half, -half])
        domains.append(whiten(moments(rows)).whitener(2)(rows))
    labels = np.repeat([0, 1], 150)
    source, target = domains
    exact = ExactMMD(source, target, TEXT.sigma)
    predictor = linear_predictor(source, labels, "classification")
    # The whitening's signs are arbitrary: of the two, the first is the one that keeps the classes.
    found = stiefel.minimize(exact.value_and_gradient, np.eye(2)).point
    best = max((found, -found), key=lambda R: np.mean(predictor.predict(target @ R.T) == labels))
    panels, rows_ = [], []
    for name, R in (("Aligned", best), ("Anti-aligned", -best)):
        turned = target @ R.T
        accuracy = float(np.mean(predictor.predict(turned) == labels))
        value = exact.value(R)
        rows_.append({"alignment": name, "mmd2": value, "accuracy": accuracy})
        panels.append(
            scene.panel(
                f"{name}: {accuracy:.1%}, MMD² {value:.5f}",
                SHARED,
                scene.domain(source, labels),
                scene.domain(turned, labels),
                predictor,
            )
        )
    return {"panels": panels, "rows": rows_}


def many_mixtures(seeds: int, n_jobs: int = 1, progress: Progress | None = None) -> list[Row]:
    """What each kind of start finds, on so many mixtures: a row a mixture and kind."""
    rows: list[Row] = []
    parallel = Parallel(n_jobs=n_jobs, return_as="generator", batch_size=4)
    for done, found in enumerate(parallel(delayed(starts_of)(s) for s in range(seeds)), 1):
        rows += found
        if progress is not None:
            progress("simulated", done, seeds)
    return rows


def starts_of(seed: int) -> list[Row]:
    """``{seed, start, mmd2, global, right, accuracy, minima}`` for each kind of start.

    ``global`` is whether the lowest of all minima was found, ``right`` whether it is the rotation
    of the true maps; the lowest minimum itself is the first row.
    """
    with threadpool_limits(1):
        mixture = make_mixture(seed)
        whitened = Whitened(mixture)
        minima, truth = whitened.minima(whitened.landscape(SOUGHT)), whitened.truth()
        lowest = minima[0].point
        points = seed_points(2, TEXT.starts, np.random.default_rng(seed))
        runs = [whitened.descend(start) for start in points]
        mirrored = whitened.descend(np.diag([-1.0, 1.0]))
        found = {
            GLOBAL: lowest,
            "I": runs[0].point,
            "−I": runs[1].point,
            "a reflection of I": mirrored.point,
            "one random rotation": runs[2].point,
            "one random reflection": runs[3].point,
            f"lowest of {len(runs)} seed points": min(runs, key=lambda r: r.value).point,
        }
        blind = align(
            mixture.X_source,
            mixture.X_target,
            mixture.y_source,
            same_features=False,
            random_state=seed,
        )
        found[f"{UNSHIFT}, no labels"] = _rotation(whitened, blind)
        told = blind.update(mixture.X_target[:LABELS], mixture.y_target[:LABELS])
        found[f"{UNSHIFT}, {LABELS} labels"] = _rotation(whitened, told)
        return [
            {
                "seed": seed,
                "start": start,
                "mmd2": whitened.exact.value(R),
                "global": apart(R, lowest) < SAME,
                "right": apart(R, truth) < SAME,
                "accuracy": whitened.accuracy(R),
                "minima": len(minima),
            }
            for start, R in found.items()
        ]


def _rotation(whitened: Whitened, alignment: Alignment) -> Matrix:
    """The rotation of these whitened rows that comes nearest to the alignment."""
    there = alignment.target_to_source(whitened.mixture.X_target)
    return stiefel.polar(whitened.source(there).T @ whitened.Z_B)


def share_table(rows: list[Row]) -> list[Row]:
    """For each kind of start: how often it finds the lowest minimum, how often the right one."""
    table = []
    for start in dict.fromkeys(row["start"] for row in rows):
        of_it = [row for row in rows if row["start"] == start]
        at_global = [row for row in of_it if row["global"]]
        table.append(
            {
                "start": start,
                "seeds": len(of_it),
                "global": float(np.mean([row["global"] for row in of_it])),
                "right": float(np.mean([row["right"] for row in of_it])),
                "right_if_global": float(np.mean([row["right"] for row in at_global]))
                if at_global
                else float("nan"),
                "accuracy": float(np.mean([row["accuracy"] for row in of_it])),
                "anti_aligned": float(np.mean([row["accuracy"] < 0.5 for row in of_it])),
            }
        )
    return table
