"""Moments: the same whatever the split, the weights' form, the units or the shape."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unshift.moments import Moments, moments

Matrix = np.ndarray

quick = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 999)
widths = st.integers(1, 6)


def covariance(stats: Moments) -> Matrix:
    """In the data's own units."""
    scatter = stats.scatter if stats.root is None else stats.root.T @ stats.root
    return np.ldexp(np.ldexp(scatter / stats.count, stats.exponent), stats.exponent[:, None])


def extremes(stats: Moments) -> tuple[Matrix, Matrix]:
    return tuple(np.ldexp(v + stats.mean, stats.exponent) for v in (stats.low, stats.high))


def assert_moments_of(stats: Moments, X: Matrix, rtol: float = 1e-9) -> None:
    X = X.astype(np.float64)
    expected = np.cov(X.T, bias=True).reshape(X.shape[1], X.shape[1])
    size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert stats.count == len(X)
    spread = np.sqrt(np.diag(expected))
    np.testing.assert_array_less(
        np.abs(stats.center - X.mean(axis=0)), rtol * (spread + np.abs(X).max(axis=0)) + 1e-300
    )
    np.testing.assert_array_less(np.abs(covariance(stats) - expected), rtol * size + 1e-300)
    low, high = extremes(stats)
    slack = rtol * np.abs(X).max(axis=0) + 1e-300
    np.testing.assert_array_less(np.abs(low - X.min(axis=0)), slack)
    np.testing.assert_array_less(np.abs(high - X.max(axis=0)), slack)


def assert_same(one: Moments, other: Moments, rtol: float = 1e-9) -> None:
    assert one.count == pytest.approx(other.count, rel=1e-12)
    spread = np.sqrt(np.diag(covariance(other)))
    np.testing.assert_allclose(one.center, other.center, rtol=rtol, atol=rtol * spread.max())
    np.testing.assert_allclose(
        covariance(one), covariance(other), rtol=rtol, atol=rtol * spread.max() ** 2
    )
    for mine, theirs in zip(extremes(one), extremes(other), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * spread.max())


@quick
@given(st.integers(2, 60), widths, st.floats(-6, 6), st.sampled_from(["f4", "f8"]), seeds)
def test_they_are_the_mean_and_the_covariance(
    n: int, d: int, decade: float, dtype: str, seed: int
) -> None:
    X = np.random.default_rng(seed).standard_normal((n, d)) * 10.0**decade + 1.0
    assert_moments_of(moments(X.astype(dtype)), X.astype(dtype))


def test_they_are_so_over_many_blocks() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50_000, 7)) @ rng.standard_normal((7, 7)) + 3.0
    assert_moments_of(moments(X), X)
    assert_moments_of(moments(np.asfortranarray(X)), X)
    assert_moments_of(moments(X[::2, ::3]), X[::2, ::3])


@quick
@given(
    st.integers(1, 60),
    widths,
    st.lists(st.integers(0, 60), max_size=5),
    st.permutations(range(6)),
    seeds,
)
def test_merging_any_split_gives_the_moments_of_all(
    n: int, d: int, cuts: list[int], order: list[int], seed: int
) -> None:
    X = np.random.default_rng(seed).standard_normal((n, d)) * 10.0 ** np.arange(d) - 5.0
    pieces = [piece for piece in np.split(X, sorted(min(c, n) for c in cuts)) if len(piece)]
    pieces = [pieces[i] for i in order if i < len(pieces)]
    merged = moments(pieces[0])
    for piece in pieces[1:]:
        merged = merged.merge(moments(piece))
    whole = moments(X)
    assert merged.count == whole.count
    scale = 10.0 ** np.arange(d)
    np.testing.assert_allclose(merged.center / scale, whole.center / scale, atol=1e-10)
    size = np.outer(scale, scale)
    np.testing.assert_allclose(covariance(merged) / size, covariance(whole) / size, atol=1e-10)
    for one, other in zip(extremes(merged), extremes(whole), strict=True):
        np.testing.assert_allclose(one / scale, other / scale, atol=1e-10)


@quick
@given(st.integers(2, 40), widths, seeds)
def test_weights_count_as_repetitions(n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, times = rng.standard_normal((n, d)) * 3.0 + 10.0, rng.integers(0, 4, n)
    times[:2] = 1, 3
    X[times == 0] = 1e3  # a row without weight has no say in the extremes either
    assert_same(moments(X, times.astype(float)), moments(np.repeat(X, times, axis=0)))


def test_weights_of_any_size_give_the_same_mean_and_covariance() -> None:
    rng = np.random.default_rng(1)
    X, w = rng.standard_normal((100, 3)), rng.random(100)
    one, other = moments(X, w), moments(X, 1e6 * w)
    np.testing.assert_allclose(one.center, other.center, rtol=1e-12)
    np.testing.assert_allclose(covariance(one), covariance(other), rtol=1e-12)


@pytest.mark.parametrize("n", [40, 4])
@pytest.mark.parametrize("scale", [1e-150, 1e-40, 1e40, 1e150])
def test_any_units_give_the_same_numbers(scale: float, n: int) -> None:
    X = np.random.default_rng(2).standard_normal((n, 6)) + 2.0
    plain, scaled = moments(X), moments(X * scale)
    np.testing.assert_allclose(scaled.center / scale, plain.center, rtol=1e-12)
    np.testing.assert_allclose(
        np.sqrt(scaled.variances) * (np.ldexp(1.0, scaled.exponent) / scale),
        np.sqrt(plain.variances) * np.ldexp(1.0, plain.exponent),
        rtol=1e-12,
    )


def test_columns_of_unlike_units_keep_their_correlation() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 4)) @ rng.standard_normal((4, 4))
    units = np.array([1e-150, 1e-3, 1e10, 1e150])

    def correlation(stats: Moments) -> Matrix:
        spread = np.sqrt(np.diag(stats.scatter))
        return stats.scatter / np.outer(spread, spread)

    np.testing.assert_allclose(correlation(moments(X * units)), np.corrcoef(X.T), atol=1e-12)
    halves = moments((X * units)[:200]).merge(moments((X * units)[200:]))
    np.testing.assert_allclose(correlation(halves), np.corrcoef(X.T), atol=1e-12)


def test_moments_in_unlike_units_merge() -> None:
    rng = np.random.default_rng(4)
    small, large = rng.standard_normal((50, 3)), 1e120 * rng.standard_normal((70, 3))
    whole = moments(np.vstack([small, large]))
    for merged in (moments(small).merge(moments(large)), moments(large).merge(moments(small))):
        np.testing.assert_allclose(merged.center, whole.center, rtol=1e-10)
        np.testing.assert_allclose(
            merged.variances * 4.0 ** (merged.exponent - whole.exponent).astype(float),
            whole.variances,
            rtol=1e-10,
        )


@pytest.mark.parametrize(("dtype", "mean"), [(np.float32, 1e5), (np.float64, 1e12)])
def test_a_mean_that_is_large_beside_the_spread_costs_no_precision(dtype: Any, mean: float) -> None:
    rng = np.random.default_rng(5)
    X = (mean + rng.standard_normal((20_000, 3))).astype(dtype)
    exact = X.astype(np.longdouble)
    exact = exact - exact.mean(axis=0)
    expected = (exact.T @ exact / len(X)).astype(np.float64)
    np.testing.assert_allclose(covariance(moments(X)), expected, atol=1e-9)
    merged = moments(X[:7000]).merge(moments(X[7000:]))
    np.testing.assert_allclose(covariance(merged), expected, atol=2e-4 if mean > 1e6 else 1e-9)


def test_float32_rows_accumulate_in_float64() -> None:
    rng = np.random.default_rng(6)
    X = rng.random((300_000, 2), dtype=np.float32)
    stats = moments(X)
    assert_moments_of(stats, X, rtol=1e-9)
    assert stats.eps == float(np.finfo(np.float32).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [50, 2])
def test_constant_columns_have_no_variance_and_their_own_mean(n: int, dtype: Any) -> None:
    X = np.random.default_rng(7).standard_normal((n, 4)).astype(dtype)
    X[:, 1], X[:, 3] = 0.1, 0.0
    stats = moments(X)
    assert (stats.variances[[1, 3]] == 0).all()
    assert (stats.variances[[0, 2]] > 0).all()
    np.testing.assert_array_equal(stats.center[[1, 3]], X[0, [1, 3]].astype(np.float64))
    assert (stats.low[[1, 3]] == 0).all()
    assert (stats.high[[1, 3]] == 0).all()


def test_a_column_that_varies_only_where_the_first_guess_did_not_look() -> None:
    X = np.ones((100_000, 2))
    X[77_777, 1] = 1e9
    assert_moments_of(moments(X), X)


@quick
@given(st.integers(1, 5), st.integers(1, 5), st.integers(7, 12), seeds)
def test_with_fewer_rows_than_columns_nothing_of_their_square_is_kept(
    m: int, n: int, d: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((m, d)), rng.standard_normal((n, d)) + 1.0
    one = moments(X)
    assert one.scatter is None
    assert one.root is not None
    assert one.root.shape == (m, d)
    merged = one.merge(moments(Y))
    assert (merged.scatter is None) == (m + n + 1 < d)
    assert_moments_of(merged, np.vstack([X, Y]))


def test_moments_of_other_columns_are_refused() -> None:
    X = np.ones((5, 3))
    with pytest.raises(ValueError, match="Moments of 3 and of 2 columns cannot be merged"):
        moments(X).merge(moments(X[:, :2]))


@pytest.mark.parametrize("weighted", [False, True])
def test_inputs_are_not_modified(weighted: bool) -> None:
    X = np.random.default_rng(8).standard_normal((30, 3))
    w = np.linspace(0.0, 2.0, 30)
    kept, kept_w = X.copy(), w.copy()
    moments(X, w if weighted else None)
    np.testing.assert_array_equal(X, kept)
    np.testing.assert_array_equal(w, kept_w)
