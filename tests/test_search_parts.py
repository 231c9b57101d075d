"""The parts of the search: invariants, reflections, batched descent, the scan of the plane."""

from functools import partial

import numpy as np
import pytest

from planted import lopsided_latent
from rotations import apart, planted_pair, white
from unshift.descent import cayley, descend
from unshift.invariants import Invariants, reflections, surroundings
from unshift.minima import merged
from unshift.mmd import ExactMMD
from unshift.plane import scan
from unshift.spectral import SpectralMMD, orthogonal_frequencies
from unshift.stiefel import random_orthogonal

Array = np.ndarray


def turned_copy(p: int = 5) -> tuple[Array, Array, Array]:
    """Rows, the same rows turned and in another order, and the rotation that aligns them."""
    rng = np.random.default_rng(0)
    rows = white(lopsided_latent(p, 400, 0)[0])
    rotation = random_orthogonal(p, rng, determinant=-1)
    return rows, rng.permutation(rows) @ rotation, rotation


def test_surroundings_do_not_change_when_the_rows_are_rotated() -> None:
    rows = white(lopsided_latent(4, 300, 0)[0]).astype(np.float32)
    turn = random_orthogonal(4, np.random.default_rng(1)).astype(np.float32)
    np.testing.assert_allclose(surroundings(rows @ turn), surroundings(rows), rtol=2e-3, atol=1e-3)


def test_surroundings_of_permuted_rows_are_permuted() -> None:
    rows = white(lopsided_latent(3, 200, 0)[0]).astype(np.float32)
    order = np.random.default_rng(0).permutation(200)
    np.testing.assert_allclose(
        surroundings(rows[order]), surroundings(rows)[order], rtol=1e-3, atol=1e-4
    )


def test_a_turned_copy_is_aligned_in_closed_form() -> None:
    source, target, rotation = turned_copy()
    proposed = Invariants(source, target).propose(np.random.default_rng(2))
    assert apart(proposed, rotation) < 1e-2


def test_consistency_is_positive_definite_at_the_truth_and_symmetric() -> None:
    source, target, rotation = turned_copy()
    N = Invariants(source, target).consistency(rotation, np.random.default_rng(3))
    np.testing.assert_allclose(N, N.T, atol=1e-3)
    assert np.linalg.eigvalsh(N + N.T).min() > 0


def test_reflections_change_the_component_one_at_a_time_and_keep_it_in_pairs() -> None:
    rng = np.random.default_rng(0)
    R = random_orthogonal(6, rng, determinant=1)
    moved = reflections(R, rng.standard_normal((6, 6)), pairs_among=4)
    assert moved.shape == (6 + 6, 6, 6)
    np.testing.assert_allclose(
        moved @ moved.transpose(0, 2, 1), np.eye(6)[None].repeat(12, 0), atol=1e-12
    )
    np.testing.assert_allclose(np.linalg.det(moved), [-1.0] * 6 + [1.0] * 6)


def test_one_reflection_of_the_mirrored_truth_is_the_truth() -> None:
    source, target, rotation = turned_copy()
    axis = np.linalg.eigh(np.cov((source**3).T))[1][:, 0]
    mirrored = rotation - 2.0 * np.outer(axis, axis @ rotation)
    spectral = SpectralMMD(source, orthogonal_frequencies(5, 256, 2.0, np.random.default_rng(0)))
    objective = partial(spectral.values_and_gradients, target.astype(np.float32))
    stuck, _, _ = descend(objective, mirrored[None], 60)
    N = Invariants(source, target).consistency(stuck[0], np.random.default_rng(1))
    points, values, _ = descend(objective, reflections(stuck[0], N), 60)
    assert apart(points[np.argmin(values)], rotation) < 1e-2


def test_descent_lowers_every_value_and_never_changes_a_determinant() -> None:
    source, target, _ = planted_pair(5)
    rng = np.random.default_rng(0)
    spectral = SpectralMMD(source, orthogonal_frequencies(5, 256, 2.0, rng))
    starts = random_orthogonal(5, rng, size=6)
    objective = partial(spectral.values_and_gradients, target)
    points, values, evaluations = descend(objective, starts, 25)
    assert np.all(values < spectral.values(target, starts))
    np.testing.assert_allclose(values, spectral.values(target, points), rtol=1e-10)
    np.testing.assert_allclose(np.linalg.det(points), np.linalg.det(starts))
    assert evaluations <= 6 * 26


def test_descent_of_a_stack_is_the_descent_of_each() -> None:
    source, target, _ = planted_pair(4)
    rng = np.random.default_rng(0)
    spectral = SpectralMMD(source, orthogonal_frequencies(4, 128, 2.0, rng))
    starts = random_orthogonal(4, rng, size=3)
    objective = partial(spectral.values_and_gradients, target)
    together, _, _ = descend(objective, starts, 10)
    alone = np.concatenate([descend(objective, start[None], 10)[0] for start in starts])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_cayley_steps_are_orthogonal() -> None:
    rng = np.random.default_rng(0)
    R = random_orthogonal(5, rng, size=4)
    A = rng.standard_normal((4, 5, 5))
    moved = cayley(R, A - A.transpose(0, 2, 1), rng.uniform(0.1, 3.0, 4))
    np.testing.assert_allclose(
        moved @ moved.transpose(0, 2, 1), np.eye(5)[None].repeat(4, 0), atol=1e-10
    )


@pytest.mark.parametrize("sigma", [0.7, 1.5])
def test_scan_of_the_plane_has_the_lowest_exact_mmd2(sigma: float) -> None:
    source, target, _ = planted_pair(2, n=150)
    exact = ExactMMD(source, target, sigma)
    alpha = np.linspace(0.0, 2.0 * np.pi, 360, endpoint=False)
    c, s = np.cos(alpha), np.sin(alpha)
    turns = np.moveaxis(np.array([[c, -s], [s, c]]), -1, 0)
    everywhere = np.concatenate([turns, turns @ np.diag([1.0, -1.0])])
    lowest = min(exact.value(R) for R in everywhere)
    scanned = min(exact.value(R) for R in scan(source, target, sigma))
    assert scanned <= lowest * 1.02 + 1e-7


def test_rotations_that_coincide_are_one_minimum_lowest_first() -> None:
    R = np.stack([np.eye(3), -np.eye(3), np.eye(3)])
    assert merged(R, np.array([3.0, 2.0, 1.0])) == [[2, 0], [1]]
