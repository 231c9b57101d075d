"""The search over O(p): planted rotations are found again."""

import numpy as np
import pytest

from unshift.search import search
from unshift.stiefel import random_orthogonal


def lopsided_rows(p: int, n: int, seed: int) -> np.ndarray:
    """White rows of a mixture with no symmetry."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(p).standard_normal((p + 2, p)) * 2.0
    shares = np.arange(1.0, p + 3.0)
    labels = rng.choice(p + 2, size=n, p=shares / shares.sum())
    rows = centers[labels] + rng.exponential(size=(n, p))
    rows -= rows.mean(axis=0)
    values, vectors = np.linalg.eigh(rows.T @ rows / n)
    return rows @ vectors / np.sqrt(values) @ vectors.T


@pytest.mark.parametrize("p", [1, 2, 3, 6])
@pytest.mark.parametrize("determinant", [1, -1])
def test_planted_rotation_is_found_in_both_components(p: int, determinant: int) -> None:
    rng = np.random.default_rng(0)
    planted = random_orthogonal(p, rng, determinant=determinant)
    source, target = lopsided_rows(p, 500, 1), lopsided_rows(p, 400, 2) @ planted
    result = search(source, target, sigma=1.0, rng=rng)
    assert np.linalg.norm(result.found[0].rotation - planted) / np.sqrt(p) < 0.25
