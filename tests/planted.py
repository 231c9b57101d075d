"""Domains whose truth is known: affine views of one lopsided mixture."""

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class View:
    """Rows ``latent @ mixing + shift`` (n, d) and the class of each."""

    rows: Array
    latent: Array
    mixing: Array
    shift: Array
    labels: Array

    def seen(self, latent: Array) -> Array:
        """Other latent rows as this domain sees them."""
        return latent @ self.mixing + self.shift


def lopsided_latent(p: int, n: int, seed: int) -> tuple[Array, Array]:
    """Rows (n, p) of a mixture with no symmetry, and their components."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(p).standard_normal((p + 2, p)) * 2.0
    shares = np.arange(1.0, p + 3.0)
    labels = rng.choice(p + 2, size=n, p=shares / shares.sum())
    return centers[labels] + rng.exponential(size=(n, p)), labels


def view(width: int, seed: int, *, p: int = 3, n: int = 400, condition: float = 3.0) -> View:
    """Fresh rows seen through a random affine map of the given condition number."""
    rng = np.random.default_rng([seed, width])
    latent, labels = lopsided_latent(p, n, seed)
    left = np.linalg.qr(rng.standard_normal((p, p)))[0]
    right = np.linalg.qr(rng.standard_normal((width, p)))[0].T
    mixing = left * np.geomspace(1.0, condition, p) @ right
    return View(
        latent @ mixing + (shift := rng.standard_normal(width)), latent, mixing, shift, labels
    )


def gap(first: Array, second: Array) -> float:
    """Root mean square distance between rows, relative to the spread of the second."""
    spread = second - second.mean(axis=0)
    return float(np.sqrt(np.sum((first - second) ** 2) / np.sum(spread**2)))
