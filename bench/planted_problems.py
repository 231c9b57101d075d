"""Planted problems: two halves of a real data set, one behind a random affine map."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression

from unshift import stiefel
from unshift.mmd import ExactMMD, median_bandwidth

Array = np.ndarray

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
    raw: tuple[Array, Array]  # both domains as they are seen, before any whitening

    @property
    def rows(self) -> tuple[Array, Array]:
        """Whitened rows of both domains that a method is given."""
        return self.source[:MOST_ROWS], self.target[:MOST_ROWS]

    @cached_property
    def exact(self) -> ExactMMD:
        return ExactMMD(*self.rows, self.sigma)

    @cached_property
    def true_minimum(self) -> stiefel.Minimum:
        """Where descent ends from the rotation nearest to the exact inverse."""
        planted = stiefel.polar(self.true_target.T @ self.target)
        return stiefel.minimize(self.exact.value_and_gradient, planted, max_iter=100, tol=1e-4)

    def predictions(self, R: Array) -> Array:
        return self.classifier.predict(self.target @ R.T)


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
        (reduced[:half], seen),
    )


def whitener(X: Array) -> Callable[[Array], Array]:
    """The map under which these rows have mean 0 and covariance I."""
    mean = X.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(X.T, bias=True).reshape(X.shape[1], -1))
    return lambda rows: (rows - mean) @ (vectors / np.sqrt(values))


def problems(
    folder: Path | None, names: Iterable[str], dimensions: Iterable[int], seeds: Iterable[int]
) -> Iterator[Problem]:
    """All problems of the named data sets (all if none) that have enough columns."""
    sets = data_sets(folder)
    for name in list(names) or sets:
        if name in sets:
            X, y = sets[name]
            for p in dimensions:
                for seed in seeds if p <= X.shape[1] else ():
                    yield plant(name, X, y, p, seed)
