"""The exact MMD²: equal to its definition (eq. 8), its gradient to the derivative (eq. 11)."""

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import unshift
from unshift import mmd
from unshift.mmd import ExactMMD, median_bandwidth
from unshift.stiefel import random_orthogonal

Matrix = np.ndarray

quick = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 99)
rows = st.integers(1, 40)
widths = st.integers(1, 7)


def naive(X: Matrix, Y: Matrix, sigma: float, a: Any = None, b: Any = None) -> float:
    """Eq. 8 as a double sum over the union of the rows, with signed weights, in float64."""
    a = np.full(len(X), 1 / len(X)) if a is None else a / a.sum()
    b = np.full(len(Y), 1 / len(Y)) if b is None else b / b.sum()
    Z, w = np.vstack([X, Y]).astype(np.float64), np.concatenate([a, -b])
    squared = cdist(Z, Z, "sqeuclidean")
    return float(w @ np.exp(-squared / (2 * sigma**2)) @ w)


def two_samples(m: int, n: int, p: int, seed: int) -> tuple[Matrix, Matrix, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, p)), rng.standard_normal((n, p)) ** 3 / 2, rng


@quick
@given(
    rows,
    rows,
    widths,
    st.floats(0.2, 5.0),
    st.sampled_from([(np.float32, 30), (np.float64, 150)]),
    st.floats(-1.0, 1.0),
    seeds,
)
def test_the_value_of_any_rows_in_any_units_is_the_double_sum(
    m: int, n: int, p: int, sigma: float, kind: Any, size: float, seed: int
) -> None:
    dtype, decades = kind
    scale = 10.0 ** (decades * size)
    X, Y, _ = (Z.astype(dtype) if hasattr(Z, "astype") else Z for Z in two_samples(m, n, p, seed))
    expected = naive(X, Y, sigma)
    eps = float(np.finfo(dtype).eps)
    with np.errstate(all="raise", under="ignore"):
        found = unshift.mmd2((X * scale).astype(dtype), (Y * scale).astype(dtype), sigma * scale)
    # rounding of the scaled rows moves each exponent by eps times its own size
    assert found == pytest.approx(expected, rel=0, abs=100 * eps * (1 + 1 / sigma**2))


@quick
@given(rows, rows, widths, st.floats(0.2, 5.0), seeds)
def test_the_exact_value_is_the_double_sum(m: int, n: int, p: int, sigma: float, seed: int) -> None:
    X, Y, rng = two_samples(m, n, p, seed)
    R = random_orthogonal(p, rng)
    objective = ExactMMD(X, Y, sigma)
    expected = naive(X, Y @ R.T, sigma)
    assert objective.value(R) == pytest.approx(expected, rel=1e-12, abs=1e-13)
    assert objective.value_and_gradient(R)[0] == pytest.approx(expected, rel=1e-12, abs=1e-13)
    assert unshift.mmd2(X, Y @ R.T, sigma) == pytest.approx(expected, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("p", [2, 20, 50])
def test_the_double_sum_over_many_blocks(p: int) -> None:
    # More rows than one block and than one run of sums in the rows' own type, and odd remainders.
    X, Y, rng = two_samples(mmd.MAX_BLOCK_ROWS * 2 + 37, 1023, p, 0)
    R = random_orthogonal(p, rng)
    value = ExactMMD(X, Y, np.sqrt(p)).value_and_gradient(R)[0]
    assert value == pytest.approx(naive(X, Y @ R.T, np.sqrt(p)), rel=1e-11)


def test_runs_of_many_blocks_of_rows_lose_nothing() -> None:
    X, Y, rng = two_samples(mmd.MAX_BLOCK_ROWS * (mmd.FLUSH + 2) + 5, 70, 2, 0)
    R = random_orthogonal(2, rng)
    whole, parts = ExactMMD(X, Y, 1.0).value_and_gradient(R)[1], np.zeros((2, 2))
    for part in np.array_split(X, 7):
        parts += ExactMMD(part, Y, 1.0).value_and_gradient(R)[1] * len(part) / len(X)
    np.testing.assert_allclose(whole, parts, rtol=1e-10)


@quick
@given(rows, rows, widths, st.floats(0.5, 4.0), st.booleans(), seeds)
def test_the_gradient_is_the_derivative_along_the_manifold(
    m: int, n: int, p: int, sigma: float, weighted: bool, seed: int
) -> None:
    # Eq. 11 takes ‖Ry‖ = ‖y‖, so it is the derivative along curves of orthogonal matrices.
    X, Y, rng = two_samples(m, n, p + 1, seed)
    a, b = (rng.random(m) + 0.1, rng.random(n) + 0.1) if weighted else (None, None)
    R, skew = random_orthogonal(p + 1, rng), rng.standard_normal((p + 1, p + 1))
    skew = skew - skew.T
    objective = ExactMMD(X, Y, sigma, a, b)
    gradient = objective.value_and_gradient(R)[1]
    along = float(np.sum(gradient * (skew @ R)))
    h = 1e-4

    def moved(t: float) -> float:
        half = 0.5 * t * skew
        Q = np.linalg.solve(np.eye(p + 1) - half, np.eye(p + 1) + half)
        return naive(X, Y @ (Q @ R).T, sigma, a, b)

    # five points: the error is h⁴, far below the tolerance
    central = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h)
    assert along == pytest.approx(central, rel=1e-6, abs=1e-6 * np.abs(gradient).sum() + 1e-12)


def test_every_entry_of_the_gradient_is_that_of_eq_11() -> None:
    # Entry by entry, against central differences of the cross term of the proof in the appendix.
    X, Y, rng = two_samples(30, 25, 4, 1)
    R, sigma, h = random_orthogonal(4, rng), 1.3, 1e-5

    def cross(M: Matrix) -> float:
        exponent = X @ M @ Y.T - 0.5 * (X**2).sum(1)[:, None] - 0.5 * (Y**2).sum(1)
        return -2.0 * float(np.exp(exponent / sigma**2).mean())

    gradient = ExactMMD(X, Y, sigma).value_and_gradient(R)[1]
    for i in range(4):
        for j in range(4):
            step = np.zeros((4, 4))
            step[i, j] = h
            central = (cross(R + step) - cross(R - step)) / (2 * h)
            assert gradient[i, j] == pytest.approx(central, rel=1e-6)


@quick
@given(rows, rows, widths, seeds)
def test_weights_count_as_repetitions(m: int, n: int, p: int, seed: int) -> None:
    X, Y, rng = two_samples(m, n, p, seed)
    R = random_orthogonal(p, rng)
    a, b = rng.integers(0, 4, m), rng.integers(0, 4, n)
    a[0], b[-1] = 1, 2
    weighted = ExactMMD(X, Y, 1.0, a.astype(float), b.astype(float))
    repeated = ExactMMD(np.repeat(X, a, axis=0), np.repeat(Y, b, axis=0), 1.0)
    value, gradient = weighted.value_and_gradient(R)
    expected_value, expected_gradient = repeated.value_and_gradient(R)
    assert value == pytest.approx(expected_value, rel=1e-11, abs=1e-13)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-10, atol=1e-13)
    assert weighted.value(R) == pytest.approx(repeated.value(R), rel=1e-11, abs=1e-13)


@pytest.mark.parametrize(
    ("apart", "dtype", "most"),
    [(0.0, "f4", 1.4), (0.0, "f8", 1.4), (0.3, "f8", 1.12), (1.0, "f4", 1.12), (1.0, "f8", 1.12)],
)
def test_the_standard_error_is_the_deviation_over_samples(
    apart: float, dtype: str, most: float
) -> None:
    # Samples of one distribution, where only tr S² is left, and of two that are apart. 300 draws
    # tell a deviation to within 4 %.
    rng = np.random.default_rng(11)
    R, values, errors = random_orthogonal(3, rng), [], []
    for _ in range(300):
        X, Y = rng.standard_normal((150, 3)), rng.normal([apart, 0.0, 0.0], size=(100, 3))
        objective = ExactMMD(X.astype(dtype), (Y @ R).astype(dtype), 1.5)
        values.append(objective.value(R))
        errors.append(objective.standard_error(R))
    assert 0.88 < np.sqrt(np.mean(np.square(errors))) / np.std(values) < most


def test_the_standard_error_is_its_formula_and_weights_share_it_out() -> None:
    X, Y, rng = two_samples(40, 30, 2, 12)
    R, a, b = random_orthogonal(2, rng), rng.random(40), rng.random(30)
    a, b = a / a.sum(), b / b.sum()
    sides = (X, a), (Y @ R.T, b)
    kernels = [[np.exp(-cdist(Z, V, "sqeuclidean") / 2) for V, _ in sides] for Z, _ in sides]
    slope = spread = 0.0
    for t, (_, w) in enumerate(sides):
        witness = a @ kernels[0][t] - b @ kernels[1][t]
        slope += np.sum(w**2 * (witness - w @ witness) ** 2)
        for s, (_, v) in enumerate(sides):
            k = kernels[s][t]
            centred = k - v @ k - (k @ w)[:, None] + v @ k @ w
            spread += (v @ v) * (w @ w) * (v @ centred**2 @ w)
    expected = np.sqrt(4 * max(0.0, slope - spread) + 2 * spread)
    found = ExactMMD(X, Y, 1.0, 7 * a, b).standard_error(R)
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("p", [1, 5, 20])
def test_float32_is_close_to_float64(p: int, sigma: float) -> None:
    X, Y, rng = two_samples(700, 650, p, 2)
    R = random_orthogonal(p, rng)
    single, double = (ExactMMD(X.astype(t), Y.astype(t), sigma) for t in (np.float32, np.float64))
    value, gradient = double.value_and_gradient(R)
    rough_value, rough_gradient = single.value_and_gradient(R)
    assert rough_value == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(rough_gradient, gradient, atol=1e-5 * np.abs(gradient).max() + 1e-9)
    assert gradient.dtype == rough_gradient.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_rows_change_nothing_but_the_way_of_computing(dtype: Any) -> None:
    # Above the limit norms no longer fold into the weights; rows far from all add a share of zero.
    X, Y, rng = two_samples(300, 200, 3, 3)
    X, Y = X.astype(dtype), Y.astype(dtype)
    R = random_orthogonal(3, rng)
    far = np.full((1, 3), 1e4, dtype)
    with np.errstate(all="raise", under="ignore"):
        near = ExactMMD(X, Y, 1.0).value_and_gradient(R)[1]
        both = ExactMMD(np.vstack([X, far]), np.vstack([Y, -3 * far]), 1.0).value_and_gradient(R)[1]
    expected = near * (300 / 301) * (200 / 201)
    np.testing.assert_allclose(both, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_folded_and_plain_exponents_agree(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, rng = two_samples(600, 130, 4, 4)
    X, Y, R = X.astype(dtype), Y.astype(dtype), random_orthogonal(4, rng)
    folded = ExactMMD(X, Y, 1.5)
    monkeypatch.setattr(mmd, "FOLDABLE", {4: -1.0, 8: -1.0})
    plain = ExactMMD(X, Y, 1.5)
    eps = float(np.finfo(dtype).eps)
    assert folded.within == pytest.approx(plain.within, rel=20 * eps)
    one, other = folded.value_and_gradient(R)[1], plain.value_and_gradient(R)[1]
    np.testing.assert_allclose(one, other, rtol=0, atol=50 * eps * np.abs(other).max())


def test_numpys_two_powers_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, rng = two_samples(200, 130, 4, 5)
    R = random_orthogonal(4, rng)
    values = []
    for power, unit in ((np.exp, 1.0), (np.exp2, float(np.log2(np.e)))):
        monkeypatch.setattr(mmd, "POWER", power)
        monkeypatch.setattr(mmd, "UNIT", unit)
        values.append(ExactMMD(X, Y, 1.5).value_and_gradient(R))
    assert values[0][0] == pytest.approx(values[1][0], rel=1e-12)
    np.testing.assert_allclose(values[0][1], values[1][1], rtol=1e-11)


@quick
@given(rows, widths, seeds)
def test_a_set_against_itself_is_zero(m: int, p: int, seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((m, p))
    assert 0.0 <= unshift.mmd2(X, X, 1.0) < 1e-14
    assert 0.0 <= unshift.mmd2(X, X[::-1]) < 1e-14


@quick
@given(rows, rows, widths, seeds)
def test_it_is_symmetric_and_not_negative(m: int, n: int, p: int, seed: int) -> None:
    X, Y, _ = two_samples(m, n, p, seed)
    one, other = unshift.mmd2(X, Y, 1.0), unshift.mmd2(Y, X, 1.0)
    assert one == pytest.approx(other, rel=1e-12, abs=1e-14)
    assert one >= 0.0


@quick
@given(rows, rows, widths, seeds)
def test_a_common_rigid_motion_changes_nothing(m: int, n: int, p: int, seed: int) -> None:
    X, Y, rng = two_samples(m, n, p, seed)
    Q, shift = random_orthogonal(p, rng), 100.0 * rng.standard_normal(p)
    moved = unshift.mmd2(X @ Q.T + shift, Y @ Q.T + shift, 1.0)
    assert moved == pytest.approx(unshift.mmd2(X, Y, 1.0), rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_units_do_not_matter_where_the_bandwidth_has_them_too(scale: float) -> None:
    X, Y, _ = two_samples(50, 40, 3, 6)
    expected = unshift.mmd2(X, Y, 1.5)
    assert unshift.mmd2(X * scale, Y * scale, 1.5 * scale) == pytest.approx(expected, rel=1e-10)
    assert unshift.mmd2(X * scale, Y * scale) == pytest.approx(unshift.mmd2(X, Y), rel=1e-10)


def test_the_automatic_bandwidth_is_the_median_distance_over_root_two() -> None:
    X, Y, _ = two_samples(101, 40, 3, 7)
    distances = np.linalg.norm(X[:, None] - X[None], axis=-1)[np.triu_indices(101, 1)]
    sigma = float(np.sqrt(np.median(distances**2) / 2))
    assert median_bandwidth(X) == pytest.approx(sigma, rel=1e-10)
    assert unshift.mmd2(X, Y) == pytest.approx(unshift.mmd2(X, Y, sigma), rel=1e-10)
    assert median_bandwidth(np.ones((5, 2))) == 1.0
    assert median_bandwidth(np.ones((1, 2))) == 1.0


def test_the_value_is_the_same_to_the_last_bit_each_time() -> None:
    X, Y, rng = two_samples(900, 700, 5, 8)
    R = random_orthogonal(5, rng)
    first, second = (ExactMMD(X, Y, 1.0).value_and_gradient(R) for _ in range(2))
    assert first[0] == second[0]
    np.testing.assert_array_equal(first[1], second[1])


def test_no_matrix_of_all_pairs_is_ever_built() -> None:
    X, Y, rng = two_samples(8000, 7000, 5, 9)
    X, Y, R = X.astype(np.float32), Y.astype(np.float32), random_orthogonal(5, rng)
    tracemalloc.start()
    try:
        objective = ExactMMD(X, Y, 2.0)
        objective.value_and_gradient(R)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * (X.nbytes + Y.nbytes) + (4 << 20) < X.shape[0] * Y.shape[0] * 4 / 20


def test_inputs_are_not_modified() -> None:
    X, Y, _ = two_samples(30, 20, 3, 9)
    kept = X.copy(), Y.copy()
    unshift.mmd2(X, Y)
    ExactMMD(X, Y, 0.5).value_and_gradient(np.eye(3))
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(Y, kept[1])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_have_the_discrepancy_of_their_numbers(frame: Any) -> None:
    X, Y, _ = two_samples(30, 1, 3, 10)
    for dtype in (np.float32, np.float64):
        one, other = X.astype(dtype), Y.astype(dtype)
        framed = (frame({f"c{i}": Z[:, i] for i in range(3)}) for Z in (one, other))
        assert unshift.mmd2(*framed, 1.5) == unshift.mmd2(one, other, 1.5)
    renamed = frame({f"d{i}": Y[:, i] for i in range(3)})
    assert unshift.mmd2(X, renamed, 1.5) == unshift.mmd2(X, Y, 1.5)


@pytest.mark.parametrize(
    ("X", "Y", "bandwidth", "message"),
    [
        (np.ones((4, 2)), np.ones((4, 3)), 1.0, "X has 2 columns and Y has 3"),
        (np.ones((4, 2)), np.ones((4, 2)), 0.0, "bandwidth should be a finite number above zero"),
        (np.ones((4, 2)), np.ones((4, 2)), -1.0, "a finite number above zero; got -1.0"),
        (np.ones((4, 2)), np.ones((4, 2)), np.nan, "a finite number above zero; got nan"),
        (np.ones((4, 2)), np.ones((4, 2)), None, "a finite number above zero; got None"),
        (np.ones((0, 2)), np.ones((4, 2)), 1.0, r"0 sample\(s\)"),
        (np.ones(4), np.ones((4, 2)), 1.0, "Expected 2D array"),
        (
            pd.DataFrame({"a": [1.0], "b": [2.0]}),
            pl.DataFrame({"b": [2.0], "a": [1.0]}),
            1.0,
            r"same columns in another order.* pass Y\[list\(X.columns\)\]",
        ),
        (np.ones((4, 2)), np.ones((4, 2)), "wide", "bandwidth should be a number above zero or"),
        (np.array([[np.nan, 1.0]]), np.ones((4, 2)), 1.0, "row 0, column 0"),
    ],
)
def test_what_has_no_distance_is_refused(X: Any, Y: Any, bandwidth: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unshift.mmd2(X, Y, bandwidth)
