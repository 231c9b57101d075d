"""Whitening: eq. 2 and eq. 6 by their proofs, rank, shrinkage, and far rows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from sklearn.covariance import oas

from unshift.affine import AffineMap
from unshift.moments import moments
from unshift.stiefel import random_orthogonal
from unshift.whitening import Whitening, has_outliers, tame_outliers, whiten

Matrix = np.ndarray

quick = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 999)


def mixed(n: int, d: int, seed: int = 0, condition: float = 100.0) -> Matrix:
    """Rows whose covariance has about the given condition number, and a mean."""
    rng = np.random.default_rng(seed)
    left, right = random_orthogonal(d, rng, size=2)
    spread = np.geomspace(1.0, condition, d) ** 0.5
    return rng.standard_normal((n, d)) @ (left * spread @ right) + rng.standard_normal(d)


def covariance(X: Matrix) -> Matrix:
    return np.cov(X.T, bias=True).reshape(X.shape[1], X.shape[1])


@quick
@given(
    st.integers(1, 7),
    st.integers(2, 60),
    st.floats(1.0, 1e4),
    st.sampled_from([("f4", 30, 1e-3), ("f8", 150, 1e-7)]),
    st.floats(-1.0, 1.0),
    seeds,
)
def test_whitened_rows_have_mean_zero_and_identity_covariance(
    d: int, more: int, condition: float, kind: tuple[str, int, float], size: float, seed: int
) -> None:
    dtype, decades, atol = kind
    X = (mixed(d + more, d, seed, condition) * 10.0 ** (decades * size)).astype(dtype)
    white = whiten(moments(X))
    assert white.rank == d
    for p in range(1, d + 1):
        Z = white.whitener(p)(X)
        assert Z.dtype == dtype
        np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=atol / 10)
        np.testing.assert_allclose(covariance(Z), np.eye(p), atol=atol)


@quick
@given(st.integers(1, 7), st.integers(2, 60), seeds)
def test_the_colourer_inverts_the_whitener(d: int, more: int, seed: int) -> None:
    X = mixed(d + more, d, seed)
    white = whiten(moments(X))
    back = white.colourer(d)(white.whitener(d)(X))
    np.testing.assert_allclose(back, X, atol=1e-9)
    for p in range(1, d + 1):  # and on fewer dimensions the whitener is its left inverse
        Z = np.random.default_rng(seed).standard_normal((10, p))
        np.testing.assert_allclose(white.whitener(p)(white.colourer(p)(Z)), Z, atol=1e-9)


@quick
@given(st.integers(1, 6), st.integers(0, 4), seeds)
def test_eq_2_is_the_least_squares_solution(p: int, more: int, seed: int) -> None:
    # Appendix A.1: z = (θᵀθ)^{-1} θᵀ (x − μ) makes the derivative 2θᵀθz − 2θᵀ(x − μ) zero. It is
    # what the inverse of the model's map gives.
    rng = np.random.default_rng(seed)
    theta, mu = rng.standard_normal((p + more, p)), rng.standard_normal(p + more)
    x = rng.standard_normal(p + more)
    model = AffineMap(np.zeros(p), theta.T, mu)  # eq. 1
    z = model.inverse()(x[None])[0]
    np.testing.assert_allclose(z, np.linalg.solve(theta.T @ theta, theta.T @ (x - mu)), atol=1e-7)
    np.testing.assert_allclose(2 * theta.T @ theta @ z - 2 * theta.T @ (x - mu), 0.0, atol=1e-8)
    least = np.sum((x - mu - theta @ z) ** 2)
    others = z + 1e-3 * rng.standard_normal((20, p))
    assert (np.sum((x - mu - others @ theta.T) ** 2, axis=1) >= least - 1e-12).all()


@quick
@given(st.integers(1, 6), st.integers(0, 3), seeds)
def test_eq_6_is_eq_2_at_the_theta_of_eq_5(p: int, more: int, seed: int) -> None:
    # Appendix A.2: with θ = U S^{1/2} Q, (θᵀθ)^{-1} θᵀ (x − μ) = Qᵀ S^{-1/2} Uᵀ (x − μ).
    X = mixed(40 + p, p + more, seed)
    white = whiten(moments(X))
    Q = random_orthogonal(p, np.random.default_rng(seed))
    theta = white.scale[:, None] * white.directions(p) @ Q
    by_eq_2 = np.linalg.solve(theta.T @ theta, theta.T @ (X - white.center).T).T
    by_eq_6 = white.whitener(p)(X) @ Q
    np.testing.assert_allclose(by_eq_6, by_eq_2, atol=1e-8)


@quick
@given(st.integers(1, 6), seeds)
def test_eq_3_and_4_theta_theta_transposed_is_the_covariance(d: int, seed: int) -> None:
    X = mixed(50, d, seed)
    white = whiten(moments(X))
    theta = (
        white.scale[:, None]
        * white.directions(d)
        @ random_orthogonal(d, np.random.default_rng(seed))
    )
    np.testing.assert_allclose(theta @ theta.T, covariance(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(white.vectors.T @ white.vectors, np.eye(d), atol=1e-12)
    assert (np.diff(white.eigenvalues) <= 0).all()
    assert white.shares[-1] == pytest.approx(1.0)


@quick
@given(st.integers(1, 5), st.integers(0, 4), st.integers(2, 30), seeds)
def test_the_rank_is_that_of_the_rows_on_either_side(r: int, more: int, n: int, seed: int) -> None:
    # n may be under d: then the n x n side is used, and must give the same.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, r)) @ rng.standard_normal((r, r + more)) + 7.0
    white = whiten(moments(X))
    assert white.rank == min(r, n - 1)
    Z = white.whitener(white.rank)(X)
    np.testing.assert_allclose(covariance(Z), np.eye(white.rank), atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_what_rounding_leaves_of_a_duplicate_column_is_no_direction(
    dtype: Any, scale: float
) -> None:
    X = np.random.default_rng(1).standard_normal((400, 3))
    doubled = (np.hstack([X, X[:, :1] + X[:, 1:2], np.full((400, 1), 0.1)]) * scale).astype(dtype)
    assert whiten(moments(doubled)).rank == 3


@pytest.mark.parametrize(("dtype", "weakest"), [(np.float32, 2.4e-7), (np.float64, 2.1e-8)])
def test_a_direction_counts_as_far_as_its_type_can_tell(dtype: Any, weakest: float) -> None:
    # λ_max · max((d · eps_data)², d · eps) for d = 2, as deviations
    X = np.random.default_rng(12).standard_normal((400, 2))
    X = np.linalg.qr(X - X.mean(axis=0))[0]
    for factor, rank in ((0.7, 1), (1.4, 2)):
        assert whiten(moments((X * [1.0, factor * weakest]).astype(dtype))).rank == rank


def test_weak_directions_above_rounding_are_kept() -> None:
    X = np.random.default_rng(2).standard_normal((400, 3)) * [1.0, 1e-3, 1e-6]
    assert whiten(moments(X)).rank == 3


def test_whitened_rows_of_the_full_rank_of_few_rows_form_a_simplex() -> None:
    X = np.random.default_rng(3).standard_normal((6, 20))
    white = whiten(moments(X))
    Z = white.whitener(white.rank)(X)
    distances = np.linalg.norm(Z[:, None] - Z[None], axis=-1)[np.triu_indices(6, 1)]
    np.testing.assert_allclose(distances, np.sqrt(12.0), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("n", [100, 3])
def test_units_move_into_the_maps_alone(scale: float, n: int) -> None:
    X = mixed(n, 4, 4)
    plain, scaled = whiten(moments(X)), whiten(moments(X * scale))
    p = plain.rank
    assert scaled.rank == p
    np.testing.assert_allclose(
        scaled.whitener(p)(X * scale), plain.whitener(p)(X), atol=1e-8, rtol=1e-8
    )
    np.testing.assert_allclose(scaled.colourer(p)(scaled.whitener(p)(X * scale)) / scale, X)


def test_columns_divided_by_a_scale_whiten_as_if_they_had_been_so() -> None:
    X = mixed(200, 4, 5)
    scale = np.array([1.0, 10.0, 1e3, 1e-3])
    by_scale, by_hand = whiten(moments(X * scale), scale), whiten(moments(X), np.ones(4))
    np.testing.assert_allclose(by_scale.eigenvalues, by_hand.eigenvalues, rtol=1e-10)
    np.testing.assert_allclose(by_scale.whitener(2)(X * scale), by_hand.whitener(2)(X), atol=1e-8)
    np.testing.assert_allclose(by_scale.colourer(4)(by_scale.whitener(4)(X * scale)), X * scale)


def test_the_sign_of_an_eigenvector_is_that_of_its_largest_entry() -> None:
    white = whiten(moments(mixed(100, 5, 6)))
    largest = np.abs(white.vectors).argmax(axis=0)
    assert (white.vectors[largest, np.arange(5)] > 0).all()


@quick
@given(st.integers(3, 80), st.integers(2, 10), seeds)
def test_shrinkage_is_that_of_the_oracle_approximating_estimator(n: int, d: int, seed: int) -> None:
    X = mixed(n, d, seed)
    white = whiten(moments(X), np.ones(d), shrinkage="oas")
    S = covariance(X)
    square, trace2 = np.trace(S @ S), np.trace(S) ** 2  # Chen et al. (2010), eq. 23
    weight = ((1 - 2 / d) * square + trace2) / ((n + 1 - 2 / d) * (square - trace2 / d))
    assert white.shrinkage == pytest.approx(min(1.0, weight), rel=1e-7)
    assert white.total == pytest.approx(np.trace(S), rel=1e-9)


@pytest.mark.parametrize(("n", "d", "rel"), [(50, 300, 0.01), (2000, 150, 0.02)])
def test_for_many_columns_shrinkage_is_that_of_scikit_learn(n: int, d: int, rel: float) -> None:
    # which leaves out the terms 2/d of the estimator
    X = mixed(n, d, 0)
    white = whiten(moments(X), np.ones(d), shrinkage="oas")
    expected, weight = oas(X)
    assert white.shrinkage == pytest.approx(weight, rel=rel)
    if white.rank == d:
        shrunk = white.vectors * white.eigenvalues @ white.vectors.T
        np.testing.assert_allclose(shrunk, expected, atol=rel * np.abs(expected).max())


def test_shrinkage_by_hand_mixes_in_the_mean_variance() -> None:
    X = mixed(100, 4, 7)
    white = whiten(moments(X), np.ones(4), shrinkage=0.25)
    C = covariance(X)
    expected = 0.75 * C + 0.25 * np.trace(C) / 4 * np.eye(4)
    np.testing.assert_allclose(white.vectors * white.eigenvalues @ white.vectors.T, expected)


def with_far_rows(seed: int) -> Matrix:
    X = mixed(500, 3, seed)
    X[:5] += 300.0
    return X


@quick
@given(st.floats(1.0, 1e4), seeds)
def test_outlier_weights_are_affine_equivariant(condition: float, seed: int) -> None:
    X = with_far_rows(seed)
    rng = np.random.default_rng(seed)
    M = mixed(3, 3, seed + 1, condition) if condition > 2 else random_orthogonal(3, rng)
    left, right = random_orthogonal(3, rng, size=2)
    M = left * np.geomspace(1.0, condition, 3) @ right
    moved = X @ M + 10.0
    stats, kept = tame_outliers(X, None, moments(X))
    moved_stats, moved_kept = tame_outliers(moved, None, moments(moved))
    np.testing.assert_allclose(moved_kept, kept, atol=1e-5)
    np.testing.assert_allclose(
        moved_stats.center, stats.center @ M + 10.0, atol=1e-4 * np.abs(moved).max()
    )
    assert kept[:5].max() < 0.1
    assert (kept[5:] > 0.9).mean() > 0.99


@pytest.mark.parametrize("seed", range(3))
def test_far_rows_weigh_what_their_own_distance_says(seed: int) -> None:
    X = mixed(300, 4, seed)
    X[:40] *= np.random.default_rng(seed).uniform(1.0, 30.0, (40, 1))
    stats, kept = tame_outliers(X, None, moments(X))
    squared = np.sum(whiten(stats).whitener(4)(X) ** 2, axis=1)
    limit = 4.0 * chi2.ppf(0.99, 4)
    assert 5 < np.count_nonzero(squared > limit) < 40
    np.testing.assert_allclose(kept, limit / np.maximum(squared, limit), rtol=0.01)


def test_a_far_row_among_few_is_seen_in_the_leading_directions() -> None:
    # No row of 150 can be further than √149 in all directions, however far it lies, and in 40 of
    # them the limit is above that.
    X = mixed(150, 40, 11)
    X[0] += 1e4
    assert 4.0 * chi2.ppf(0.99, 40) > 149
    assert tame_outliers(X, None, moments(X))[1][0] < 1e-3


def test_rows_without_outliers_keep_their_weight_and_moments() -> None:
    X = mixed(500, 3, 8)
    first = moments(X)
    assert not has_outliers(first)
    stats, kept = tame_outliers(X, None, first)
    assert stats is first
    assert (kept == 1.0).all()


def test_a_far_value_is_seen() -> None:
    assert has_outliers(moments(with_far_rows(9)))


def test_weights_of_rows_stay_with_them_when_outliers_are_tamed() -> None:
    X = with_far_rows(10)
    times = np.random.default_rng(0).integers(1, 4, len(X))
    stats, kept = tame_outliers(X, times.astype(float), moments(X, times.astype(float)))
    many = np.repeat(X, times, axis=0)
    many_stats, many_kept = tame_outliers(many, None, moments(many))
    np.testing.assert_allclose(np.repeat(kept, times), many_kept, atol=1e-8)
    np.testing.assert_allclose(stats.center, many_stats.center, atol=1e-8)
    assert stats.count == pytest.approx(many_stats.count)


def test_the_type_is_what_it_says() -> None:
    white = whiten(moments(mixed(50, 3).astype(np.float32)))
    assert isinstance(white, Whitening)
    assert white.vectors.dtype == white.eigenvalues.dtype == np.float64
    assert white.count == 50
