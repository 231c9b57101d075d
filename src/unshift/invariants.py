"""Rotations in closed form: what does not turn with the rows predicts how they are turned.

A function ``h(z)`` of a row and its surroundings that a rotation leaves as it is (its length, the
density about it, the pull of its neighbours) has cross moments ``C = E[h zᵀ]`` that turn with the
domain: ``C_B = C_A R``. With ``G = E[h hᵀ]``,

    ``N = C_Aᵀ G⁻¹ C_B = (C_Aᵀ G⁻¹ C_A) R``

and its polar factor is the rotation, to within the noise of the directions that ``h`` does not
predict: the singular values are the squared canonical correlations of ``h`` with the coordinates.
Coordinates that are resolved have become invariants themselves and predict others, so that the
estimate grows. A direction that stays inconsistent shows a reflection that was missed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from ._blocks import row_blocks
from .stiefel import random_orthogonal

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]
Pair = tuple[Rows, Rows]

# Widths of the kernels that describe a row's surroundings, in units of the typical distance √(2p)
SCALES = (0.15, 0.25, 0.35, 0.5, 0.7)
# Squared canonical correlation from which on a direction counts as resolved
RESOLVED = 0.15
# Share of the invariants that one draw sees, and ridge on G as a share of its mean eigenvalue
SHARE, RIDGE = 0.7, 1e-2
# Random functions of the invariants, and of the coordinates resolved so far
FUNCTIONS, GROWN_FUNCTIONS = 100, 150
ROUNDS = 10
# Root mean square angle in radians between rounds below which the estimate has settled
SETTLED = 0.1


class Invariants:
    """What a rotation leaves of the rows of two domains, and the rotations that it proposes."""

    def __init__(self, Z_source: FloatArray, Z_target: FloatArray) -> None:
        self.rows: Pair = (Z_source.astype(np.float32), Z_target.astype(np.float32))
        first, second = (surroundings(Z) for Z in self.rows)
        self.described: Pair = _white_ranks(first, second)

    def propose(self, rng: np.random.Generator) -> Matrix:
        """A rotation (p, p) grown from a random part of the invariants."""
        seen = self._some_invariants(rng)
        widths = np.sort(rng.uniform(0.1, 1.5, 2))
        first = _RandomFunctions(seen[0].shape[1], FUNCTIONS, (widths[0], widths[1]), rng)
        left, values, right = np.linalg.svd(self._cross([(seen, first)]))
        return self._grow(left, values, right, seen, rng)

    def consistency(self, R: Matrix, rng: np.random.Generator) -> Matrix:
        """``N Rᵀ`` for functions of the aligned coordinates themselves.

        Positive definite where ``R`` is right; a direction reflected wrongly has the lowest
        eigenvalue, as nothing predicts it in the same way in both domains.
        """
        p = R.shape[0]
        aligned = (self.rows[0], self.rows[1] @ R.T.astype(np.float32))
        functions = _RandomFunctions(p, 2 * GROWN_FUNCTIONS, (0.5, 1.5), rng)
        return self._cross([(_squashed(*aligned), functions)]) @ R.T

    def _some_invariants(self, rng: np.random.Generator) -> Pair:
        available = self.described[0].shape[1]
        columns = rng.choice(available, max(1, round(SHARE * available)), replace=False)
        return self.described[0][:, columns], self.described[1][:, columns]

    def _grow(
        self, left: Matrix, values: Vector, right: Matrix, seen: Pair, rng: np.random.Generator
    ) -> Matrix:
        p = left.shape[0]
        for _ in range(ROUNDS):
            k = min(p, max(2, int(np.sum(values > RESOLVED))))
            resolved = _squashed(self.rows[0] @ left[:, :k], self.rows[1] @ right[:k].T)
            grown = _RandomFunctions(k, GROWN_FUNCTIONS, (0.5, 1.5), rng)
            again = _RandomFunctions(seen[0].shape[1], FUNCTIONS, (0.3, 1.2), rng)
            before = left @ right
            left, values, right = np.linalg.svd(self._cross([(resolved, grown), (seen, again)]))
            if np.linalg.norm(left @ right - before) < SETTLED * np.sqrt(p):
                break
        return left @ right

    def _cross(self, features: Sequence[tuple[Pair, _RandomFunctions]]) -> Matrix:
        """``N`` for random functions of descriptions of the rows of both domains."""
        sides = [
            _joint_moments(self.rows[side], [(pair[side], f) for pair, f in features])
            for side in (0, 1)
        ]
        (n_A, mean_A, square_A, cross_A), (n_B, mean_B, square_B, cross_B) = sides
        mean = (mean_A + mean_B) / (n_A + n_B)
        G = (square_A + square_B) / (n_A + n_B) - np.outer(mean, mean)
        G[np.diag_indices_from(G)] += RIDGE * np.trace(G) / G.shape[0]
        C_A, C_B = cross_A / n_A, cross_B / n_B
        N: Matrix = C_A.T @ np.linalg.solve(G, C_B)
        return N


def surroundings(Z: Rows, scales: Sequence[float] = SCALES) -> Rows:
    """Rotation-invariant description (n, 1 + 3 len(scales)) of each whitened row (n, p).

    The length ``|z|``, and for the kernels ``k(z, z') = exp(−|z − z'|²/2s²)``, ``s² = 2p scale²``:
    the density ``Σ_j k(z, z_j)``, and ``|m|²`` and ``m·z`` of the local mean
    ``m = Σ_j k z_j / Σ_j k``.
    """
    n, p = Z.shape
    squares = np.einsum("ij,ij->i", Z, Z)
    found = np.empty((n, 1 + 3 * len(scales)), np.float32)
    found[:, 0] = np.sqrt(squares)
    for rows in row_blocks(n, 2 * 4 * n, 1 << 21):
        distances = squares[rows, None] + squares - 2.0 * Z[rows] @ Z.T
        np.maximum(distances, 0.0, out=distances)
        for at, scale in enumerate(scales):
            kernel = np.exp(distances * np.float32(-0.25 / (p * scale**2)))
            density = kernel.sum(axis=1)
            local = kernel @ Z / density[:, None]
            found[rows, 1 + 3 * at] = density
            found[rows, 2 + 3 * at] = np.einsum("ij,ij->i", local, local)
            found[rows, 3 + 3 * at] = np.einsum("ij,ij->i", local, Z[rows])
    return found


class _RandomFunctions:
    """``cos(ω·h + b)`` for ``count`` random ``ω`` and ``b``, the same in both domains."""

    def __init__(
        self, inputs: int, count: int, widths: tuple[float, float], rng: np.random.Generator
    ) -> None:
        omega = rng.standard_normal((inputs, count)) * rng.uniform(*widths, count)
        self.omega = omega.astype(np.float32)
        self.phase = rng.uniform(0.0, 2.0 * np.pi, count).astype(np.float32)

    def __call__(self, h: Rows) -> Rows:
        angles = h @ self.omega
        angles += self.phase
        np.cos(angles, out=angles)
        return angles


def _joint_moments(
    Z: Rows, features: Sequence[tuple[Rows, _RandomFunctions]]
) -> tuple[int, Vector, Matrix, Matrix]:
    """Rows n, and ``Σ f`` (K,), ``Σ f fᵀ`` (K, K), ``Σ f zᵀ`` (K, p) of all functions together."""
    K = sum(functions.phase.size for _, functions in features)
    total, squares, cross = np.zeros(K), np.zeros((K, K)), np.zeros((K, Z.shape[1]))
    for rows in row_blocks(Z.shape[0], 4 * K, 1 << 20):
        f = np.hstack([functions(h[rows]) for h, functions in features])
        total += f.sum(axis=0)
        squares += f.T @ f
        cross += f.T @ Z[rows]
    return Z.shape[0], total, squares, cross


def _squashed(c_A: FloatArray, c_B: FloatArray) -> Pair:
    """Coordinates (n, k) made bounded against heavy tails, of length about √2 together."""
    scale = 2.0 * np.sqrt(2.0 / c_A.shape[1])
    first, second = ((scale * np.tanh(0.5 * c)).astype(np.float32) for c in (c_A, c_B))
    return first, second


def _white_ranks(f_A: Rows, f_B: Rows, smallest: float = 3e-3) -> Pair:
    """Each feature by its rank among the rows of both domains, then white, and bounded by 3."""
    both = np.vstack([f_A, f_B])
    ranks = both.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    uniform = np.sqrt(3.0) * ((2.0 * ranks + 1.0) / both.shape[0] - 1.0)
    values, vectors = np.linalg.eigh(uniform.T @ uniform / both.shape[0])
    kept = values > smallest * values[-1]
    white = uniform @ (vectors[:, kept] / np.sqrt(values[kept]))
    white = np.clip(white, -3.0, 3.0).astype(np.float32)
    return white[: f_A.shape[0]], white[f_A.shape[0] :]


def reflections(R: Matrix, N: Matrix, pairs_among: int = 5) -> Matrix:
    """``(I − 2uuᵀ)R`` for the eigenvectors ``u`` of ``N``, then for pairs of the first of them.

    ``N`` is ``consistency(R)``. A direction that nothing predicts in the same way in both domains
    (lowest eigenvalue) may be reflected; so may one that the others have followed (highest): the
    order is from both ends inwards. (p + pairs, p, p).
    """
    p = R.shape[0]
    _, vectors = np.linalg.eigh(N + N.T)
    inwards = np.argsort(np.minimum(np.arange(p), np.arange(p)[::-1]), kind="stable")
    u = vectors[:, inwards].T
    single = np.eye(p) - 2.0 * u[:, :, None] * u[:, None, :]
    first, second = np.triu_indices(min(pairs_among, p), 1)
    both: Matrix = np.concatenate([single, single[first] @ single[second]]) @ R
    return both


def turns(R: Matrix, N: Matrix, rng: np.random.Generator, most: int = 8) -> Matrix:
    """``R`` turned at random among the directions that ``N`` finds least consistent.

    Among two of them, three, and so on up to a third of all: there ``R`` is known least.
    (min(p, most), p, p).
    """
    p = R.shape[0]
    _, vectors = np.linalg.eigh(N + N.T)
    turned = []
    for at in range(min(p, most)):
        V = vectors[:, : 2 + at % max(1, p // 3)]
        Q = random_orthogonal(V.shape[1], rng)
        turned.append(R + V @ (Q - np.eye(V.shape[1])) @ V.T @ R)
    return np.stack(turned)
