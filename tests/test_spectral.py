"""The spectral MMD²: Bochner's theorem, its Monte Carlo error, its own exact gradient."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unshift.mmd import ExactMMD
from unshift.spectral import SpectralMMD, characteristic, orthogonal_frequencies
from unshift.stiefel import random_orthogonal

Matrix = np.ndarray

quick = settings(max_examples=20, deadline=None, derandomize=True)


def samples(p: int, seed: int, m: int = 120, n: int = 90) -> tuple[Matrix, Matrix, Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, p)), rng.standard_normal((n, p)) ** 3 / 2, rng


@pytest.mark.parametrize(("p", "sigma"), [(1, 1.0), (2, 0.7), (5, 2.0), (12, 3.0)])
def test_the_mean_over_frequencies_is_the_exact_value_within_its_error(
    p: int, sigma: float
) -> None:
    # Bochner: MMD² = E_ω |φ_A(ω) − φ_B(Rᵀω)|². Draws by groups of p are independent of each other.
    X, Y, rng = samples(p, 0)
    R = random_orthogonal(p, rng)
    draws = [
        SpectralMMD(X, orthogonal_frequencies(p, 8 * p, sigma, rng)).values(Y, R[None])[0]
        for _ in range(200)
    ]
    error = np.std(draws) / np.sqrt(len(draws))
    exact = ExactMMD(X, Y, sigma).value(R)
    assert abs(np.mean(draws) - exact) < 4 * error
    assert error < 0.1 * exact


def test_orthogonal_frequencies_vary_less_than_independent_ones() -> None:
    X, Y, rng = samples(5, 1)
    R = np.eye(5)[None]
    grouped = [
        SpectralMMD(X, orthogonal_frequencies(5, 40, 3.0, rng)).values(Y, R)[0] for _ in range(300)
    ]
    independent = [
        SpectralMMD(X, rng.standard_normal((40, 5)) / 3.0).values(Y, R)[0] for _ in range(300)
    ]
    assert np.std(grouped) < np.std(independent)


@quick
@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 99))
def test_the_gradient_is_the_derivative_of_the_value(p: int, count: int, seed: int) -> None:
    # The spectral value is defined for every matrix R, so every entry has its central difference.
    X, Y, rng = samples(p, seed, 20, 15)
    objective = SpectralMMD(X, orthogonal_frequencies(p, 3 * p + 1, 1.5, rng))
    R = random_orthogonal(p, rng, size=count)
    values, gradients = objective.values_and_gradients(Y, R)
    np.testing.assert_allclose(values, objective.values(Y, R), rtol=1e-12)
    direction, h = rng.standard_normal(R.shape), 1e-4

    def at(step: float) -> Matrix:
        return objective.values(Y, R + step * direction)

    central = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    along = np.sum(gradients * direction, axis=(1, 2))
    np.testing.assert_allclose(along, central, rtol=1e-6, atol=1e-9)


def test_a_stack_gives_what_each_rotation_gives_alone() -> None:
    X, Y, rng = samples(4, 2)
    objective = SpectralMMD(X, orthogonal_frequencies(4, 64, 1.0, rng))
    R = random_orthogonal(4, rng, size=5)
    values, gradients = objective.values_and_gradients(Y, R)
    for i in range(5):
        one_value, one_gradient = objective.values_and_gradients(Y, R[i : i + 1])
        assert values[i] == pytest.approx(one_value[0], rel=1e-12)
        np.testing.assert_allclose(gradients[i], one_gradient[0], rtol=1e-10, atol=1e-14)


def test_the_characteristic_function_is_the_mean_of_exponentials_over_any_blocks() -> None:
    rng = np.random.default_rng(3)
    Z, omega, w = rng.standard_normal((5000, 3)), rng.standard_normal((300, 3)), rng.random(5000)
    waves = np.exp(1j * Z @ omega.T)
    np.testing.assert_allclose(characteristic(Z, omega), waves.mean(axis=0), atol=1e-13)
    np.testing.assert_allclose(characteristic(Z, omega, w), w @ waves / w.sum(), atol=1e-13)
    single = characteristic(Z.astype(np.float32), omega)
    np.testing.assert_allclose(single, waves.mean(axis=0), atol=1e-5)


def test_weights_count_as_repetitions() -> None:
    X, Y, rng = samples(3, 4)
    frequencies = orthogonal_frequencies(3, 60, 1.0, rng)
    times = rng.integers(1, 4, len(X))
    R = random_orthogonal(3, rng, size=2)
    weighted = SpectralMMD(X, frequencies, times.astype(float)).values(Y, R)
    repeated = SpectralMMD(np.repeat(X, times, axis=0), frequencies).values(Y, R)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-10)


def test_a_turned_set_against_itself_is_zero() -> None:
    X, _, rng = samples(4, 5)
    R = random_orthogonal(4, rng)
    objective = SpectralMMD(X, orthogonal_frequencies(4, 64, 1.0, rng))
    value, gradient = objective.values_and_gradients(X @ R, R[None])
    assert value[0] < 1e-25
    assert np.abs(gradient).max() < 1e-12


@pytest.mark.parametrize(("p", "count"), [(1, 5), (3, 9), (4, 10)])
def test_frequencies_are_normal_and_orthogonal_in_groups(p: int, count: int) -> None:
    rng = np.random.default_rng(6)
    draws = np.stack([orthogonal_frequencies(p, count, 2.0, rng) for _ in range(4000)])
    assert draws.shape == (4000, count, p)
    products = draws @ np.swapaxes(draws, 1, 2)
    for first in range(0, count, p):
        group = products[:, first : first + p, first : first + p]
        off = group - group * np.eye(group.shape[-1])
        assert np.abs(off).max() < 1e-10
    for row in (0, count - 1):
        covariance = draws[:, row].T @ draws[:, row] / 4000
        np.testing.assert_allclose(covariance, np.eye(p) / 4, atol=0.03)
    fourth = np.mean((2.0 * draws) ** 4)
    assert fourth == pytest.approx(3.0, rel=0.1)  # of the normal distribution
