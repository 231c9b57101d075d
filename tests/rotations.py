"""Whitened domains of one distribution that differ by a known rotation."""

import numpy as np

from planted import lopsided_latent
from unshift.stiefel import random_orthogonal

Array = np.ndarray


def white(rows: Array) -> Array:
    """The rows with mean 0 and covariance I, turned as little as possible."""
    rows = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    return rows @ vectors / np.sqrt(values) @ vectors.T


def planted_pair(p: int, n: int = 500, *, determinant: int = 1) -> tuple[Array, Array, Array]:
    """White source and target rows of one distribution, and the rotation that aligns them."""
    rotation = random_orthogonal(p, np.random.default_rng(p), determinant=determinant)
    source, target = (white(lopsided_latent(p, n, seed)[0]) for seed in (1, 2))
    return source, target @ rotation, rotation


def apart(R: Array, other: Array) -> float:
    """Root mean square angle between two rotations."""
    return float(np.linalg.norm(R - other) / np.sqrt(len(R)))
