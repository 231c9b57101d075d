"""The parts of the search: invariants, reflections, batched descent, the scan of the plane."""

import numpy as np
import pytest
from joblib import Parallel
from threadpoolctl import threadpool_info

from planted import lopsided_latent
from rotations import apart, planted_pair, white
from unshift.descent import descend, one_thread
from unshift.invariants import Invariants, reflections, surroundings, turns
from unshift.minima import Minima, merged
from unshift.mmd import ExactMMD
from unshift.plane import scan
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
    objective = ExactMMD(source, target, 2.0).value_and_gradient
    (stuck,) = descend(objective, mirrored[None], 60)
    N = Invariants(source, target).consistency(stuck.point, np.random.default_rng(1))
    ends = descend(objective, reflections(stuck.point, N), 60)
    assert apart(min(ends, key=lambda end: end.value).point, rotation) < 1e-2


def test_turns_are_rotations_that_leave_the_consistent_directions_alone() -> None:
    rng = np.random.default_rng(0)
    R, (U, _) = random_orthogonal(9, rng), np.linalg.qr(rng.standard_normal((9, 9)))
    N = U * np.arange(1.0, 10.0) @ U.T  # of which the first columns of U are the least consistent
    turned = turns(R, N, rng, most=6)
    assert turned.shape == (6, 9, 9)
    np.testing.assert_allclose(
        turned @ turned.transpose(0, 2, 1), np.eye(9)[None].repeat(6, 0), atol=1e-12
    )
    # two, three and four directions in turn, and no others
    moved = np.linalg.norm(U.T @ (turned - R), axis=2) > 1e-9
    np.testing.assert_array_equal(moved.sum(axis=1), [2, 3, 4, 2, 3, 4])
    assert moved[:, 0].all()


def test_starts_that_met_are_counted_once_however_many_moves_led_back() -> None:
    source, target, rotation = planted_pair(4)
    with Parallel(n_jobs=1) as parallel:
        minima = Minima(source, target, 2.0, np.random.default_rng(0), parallel)
        other = random_orthogonal(4, np.random.default_rng(9))
        minima.add(["first", "second"], np.stack([rotation, other]))
        minima.add(["move"] * 3, rotation[None].repeat(3, 0), root=1)
        assert minima.met() == 2
        best = minima.unpolished(0)[0]
    assert best.starts == 2
    assert best.kind in ("first", "second")


def test_a_descent_takes_one_thread_and_gives_the_threads_back() -> None:
    def threads() -> list[int]:
        return [library["num_threads"] for library in threadpool_info()]

    before = threads()
    with one_thread():
        assert set(threads()) == {1}
    assert threads() == before


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
