"""Algorithm 1: what the Cayley transform and the line search promise, one theorem a test."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unshift import stiefel
from unshift.stiefel import Curve, minimize, orthonormalise, polar, random_orthogonal

Matrix = np.ndarray
Objective = Callable[[Matrix], tuple[float, Matrix]]

quick = settings(max_examples=25, deadline=None, derandomize=True)
shapes = st.tuples(st.integers(1, 9), st.integers(1, 9)).map(lambda s: (max(s), min(s)))
SQUARE_AND_TALL = [(4, 4), (6, 4), (12, 3)]  # full form, full form, low-rank form


def orthonormal(n: int, p: int, rng: np.random.Generator) -> Matrix:
    return np.linalg.qr(rng.standard_normal((n, p)))[0]


def brockett(n: int, p: int, rng: np.random.Generator) -> Objective:
    """``tr(Xᵀ S X N)``: its minimum on the manifold is known from the eigenvalues of S."""
    S = rng.standard_normal((n, n))
    S = S + S.T
    N = np.diag(np.arange(1.0, p + 1))

    def value_and_gradient(X: Matrix) -> tuple[float, Matrix]:
        return float(np.trace(X.T @ S @ X @ N)), 2.0 * S @ X @ N

    return value_and_gradient


def wavy(n: int, p: int, rng: np.random.Generator) -> Objective:
    """Not convex even before the constraint: ``Σ sin(3 (BX)_ij) + (X_ij − C_ij)⁴``."""
    B, C = rng.standard_normal((n, n)), rng.standard_normal((n, p))

    def value_and_gradient(X: Matrix) -> tuple[float, Matrix]:
        value = np.sin(3 * B @ X).sum() + ((X - C) ** 4).sum()
        return float(value), 3 * B.T @ np.cos(3 * B @ X) + 4 * (X - C) ** 3

    return value_and_gradient


class Recorded:
    """An objective that remembers every call."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.calls: list[tuple[Matrix, float, Matrix]] = []

    def __call__(self, X: Matrix) -> tuple[float, Matrix]:
        value, gradient = self.objective(X)
        self.calls.append((X.copy(), value, gradient.copy()))
        return value, gradient


def off_manifold(X: Matrix) -> float:
    return float(np.abs(X.T @ X - np.eye(X.shape[1])).max())


@pytest.mark.parametrize("method", ["search", "fixed"])
@pytest.mark.parametrize(("n", "p"), SQUARE_AND_TALL)
def test_columns_stay_orthonormal_over_a_thousand_steps(method: str, n: int, p: int) -> None:
    rng = np.random.default_rng(0)
    found = minimize(
        wavy(n, p, rng), orthonormal(n, p, rng), method=method, step=1e-3, max_iter=1000, tol=1e-300
    )
    assert method == "search" or found.iterations == 1000
    assert off_manifold(found.point) <= 1e-12


@pytest.mark.parametrize(("n", "p"), [(4, 4), (9, 4), (12, 3)])
def test_a_thousand_cayley_steps_keep_the_columns_orthonormal(n: int, p: int) -> None:
    # The search stops where rounding ends it; here every step is long and none is refused.
    rng = np.random.default_rng(1)
    X = orthonormal(n, p, rng)
    for _ in range(1000):
        X = Curve(X, rng.standard_normal((n, p))).point(float(rng.uniform(0.01, 3.0)))
    assert off_manifold(X) <= 2e-15  # that of one step: it does not add up


@pytest.mark.parametrize("determinant", [1, -1])
@pytest.mark.parametrize("method", ["search", "fixed"])
def test_the_cayley_step_never_leaves_the_component(method: str, determinant: int) -> None:
    rng = np.random.default_rng(2)
    for p in (1, 2, 5):
        start = random_orthogonal(p, rng, determinant=determinant)
        seen: list[float] = []
        minimize(
            wavy(p, p, rng),
            start,
            method=method,
            max_iter=1000,
            tol=1e-14,
            callback=lambda _, X, __, seen=seen: seen.append(float(np.linalg.det(X))),
        )
        np.testing.assert_allclose(seen, determinant, atol=1e-10)


@pytest.mark.parametrize("secants", [0, 20])
@pytest.mark.parametrize("memory", [0.0, 0.85])
@pytest.mark.parametrize("make", [brockett, wavy])
@pytest.mark.parametrize(("n", "p"), SQUARE_AND_TALL)
def test_each_accepted_step_meets_both_conditions_of_the_line_search(
    n: int,
    p: int,
    make: Callable[[int, int, np.random.Generator], Objective],
    memory: float,
    secants: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    curves: list[Curve] = []

    class Kept(Curve):
        def __init__(self, *arguments: Matrix) -> None:
            super().__init__(*arguments)
            curves.append(self)

    monkeypatch.setattr(stiefel, "Curve", Kept)
    rng = np.random.default_rng(3)
    objective = make(n, p, rng)
    kept = [orthonormal(n, p, rng)]
    found = minimize(
        objective,
        kept[0],
        memory=memory,
        secants=secants,
        max_iter=60,
        callback=lambda _, X, __: kept.append(X.copy()) is not None,
    )
    assert found.iterations == len(kept) - 1 > 3
    reference, weight = found.path[0], 1.0
    for X, Y, value in zip(kept, kept[1:], found.path[1:], strict=False):
        gradient = objective(X)[1]
        A = gradient @ X.T - X @ gradient.T
        if secants and 2 * p >= n:  # the last curve through X is the one that was followed
            A = [curve for curve in curves if np.allclose(curve.X, X, rtol=0, atol=1e-13)][-1].A
            np.testing.assert_array_equal(A, -A.T)
        step = step_between(A, X, Y)
        slope = -float(np.sum(gradient * (A @ X)))
        assert slope < 0
        assert value == objective(Y)[0]
        slack = 1e-12 * (1 + abs(reference))
        assert value <= reference + 1e-4 * step * slope + slack  # Armijo's
        after = slope_by_formula(A, X, Y, step, objective(Y)[1])
        assert after >= 0.9 * slope - 1e-7 * abs(slope) - 1e-12  # Wolfe's, on the curvature
        reference = (memory * weight * reference + value) / (memory * weight + 1)
        weight = memory * weight + 1


def step_between(A: Matrix, X: Matrix, Y: Matrix) -> float:
    """The ``τ`` of ``Y − X = −τ/2 A (X + Y)``, by least squares; it must fit exactly."""
    along, moved = -0.5 * A @ (X + Y), Y - X
    step = float(np.sum(along * moved) / np.sum(along**2))
    np.testing.assert_allclose(step * along, moved, atol=1e-9 * max(1.0, np.abs(moved).max()))
    assert step > 0
    return step


def slope_by_formula(A: Matrix, X: Matrix, Y: Matrix, step: float, gradient: Matrix) -> float:
    """``F'(τ) = ⟨∇F(Y), −(I + τ/2 A)^{-1} A (X + Y)/2⟩`` (Wen and Yin, lemma 3)."""
    along = np.linalg.solve(np.eye(len(A)) + 0.5 * step * A, A @ (0.5 * (X + Y)))
    return -float(np.sum(gradient * along))


@pytest.mark.parametrize(("n", "p"), SQUARE_AND_TALL)
def test_slope_of_the_curve_is_the_derivative_of_the_value(n: int, p: int) -> None:
    rng = np.random.default_rng(4)
    objective, X = wavy(n, p, rng), orthonormal(n, p, rng)
    curve = Curve(X, objective(X)[1])
    h = 1e-5

    def central(step: float) -> float:
        return (objective(curve.point(step + h))[0] - objective(curve.point(step - h))[0]) / (2 * h)

    assert curve.slope == pytest.approx(central(0.0), rel=1e-6)
    Y = curve.point(0.1)
    assert curve.slope_at(0.1, Y, objective(Y)[1]) == pytest.approx(central(0.1), rel=1e-6)
    A = objective(X)[1] @ X.T
    assert curve.slope == pytest.approx(-0.5 * np.sum((A - A.T) ** 2), rel=1e-12)


@pytest.mark.parametrize("method", ["search", "fixed"])
def test_the_best_value_never_rises(method: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(5):
        objective = Recorded(wavy(5, 5, rng))
        found = minimize(objective, random_orthogonal(5, rng), method=method, max_iter=200)
        assert found.evaluations == len(objective.calls)
        assert found.path.size == found.iterations + 1
        if method == "search":
            assert found.value == found.path.min() == objective.objective(found.point)[0]
            assert found.value <= min(value for _, value, _ in objective.calls) + 1e-9
        else:
            assert found.value == found.path[-1]


@pytest.mark.parametrize("secants", [0, 20])
def test_a_search_with_memory_may_rise_and_still_returns_its_best(secants: int) -> None:
    rng = np.random.default_rng(18)
    ended_above = 0
    for _ in range(20):
        objective, start = wavy(5, 5, rng), random_orthogonal(5, rng)
        found = minimize(objective, start, memory=1.0, secants=secants, max_iter=8)
        assert found.value == found.path.min() == objective(found.point)[0]
        ended_above += bool(found.path[-1] > found.value)
    assert ended_above > 0


@pytest.mark.parametrize("secants", [0, 20])
def test_units_of_the_value_change_no_step(secants: int) -> None:
    # A power of two is exact in all that follows, so the path is the same to the last bit.
    rng = np.random.default_rng(19)
    objective, start, unit = wavy(5, 5, rng), random_orthogonal(5, rng), 2.0**40

    def scaled(X: Matrix) -> tuple[float, Matrix]:
        value, gradient = objective(X)
        return unit * value, unit * gradient

    one, other = (minimize(f, start, secants=secants, max_iter=60) for f in (objective, scaled))
    np.testing.assert_array_equal(other.path, unit * one.path)
    assert other.evaluations == one.evaluations


def test_bending_takes_the_last_change_of_the_gradient_to_the_last_step() -> None:
    # the secant equation of BFGS, whatever came before
    rng = np.random.default_rng(20)
    secants = stiefel._Secants(4)
    for _ in range(7):
        moved, noise = (W - W.T for W in rng.standard_normal((2, 5, 5)))
        secants.add(moved, 3.0 * moved + 0.3 * noise)
    assert len(secants.pairs) == 4
    moved, change, _ = secants.pairs[-1]
    np.testing.assert_allclose(secants.bend(change), moved, atol=1e-12)


def test_the_monotone_search_goes_down_at_every_step() -> None:
    rng = np.random.default_rng(6)
    found = minimize(wavy(6, 6, rng), random_orthogonal(6, rng), memory=0.0, max_iter=300)
    assert (np.diff(found.path) < 0).all()


@pytest.mark.parametrize(("n", "p"), SQUARE_AND_TALL)
def test_the_fixed_form_is_algorithm_1_step_by_step(n: int, p: int) -> None:
    rng = np.random.default_rng(7)
    objective, X0 = wavy(n, p, rng), orthonormal(n, p, rng)
    tau, identity = 0.02, np.eye(n)
    seen = [X0]
    found = minimize(
        objective,
        X0,
        method="fixed",
        step=tau,
        max_iter=50,
        callback=lambda _, X, __: seen.append(X) is not None,
    )
    for X, following in pairwise(seen):  # the paper's lines 4 to 7
        G = objective(X)[1]
        A = G @ X.T - X @ G.T
        Q = np.linalg.inv(identity + tau / 2 * A) @ (identity - tau / 2 * A)
        np.testing.assert_allclose(following, Q @ X, atol=1e-12)
    np.testing.assert_allclose(found.path, [objective(X)[0] for X in seen], rtol=1e-12)
    assert (found.iterations, found.evaluations, found.converged) == (50, 51, False)
    assert "fixed length" in found.status
    assert found.point is seen[-1]


@quick
@given(st.integers(1, 4), st.integers(1, 6), st.floats(1e-3, 50.0), st.integers(0, 99))
def test_the_low_rank_form_is_the_full_form(p: int, more: int, step: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 2 * p + more
    X, G = orthonormal(n, p, rng), rng.standard_normal((n, p))
    curve = Curve(X, G)
    assert curve.low_rank
    A = G @ X.T - X @ G.T
    full = np.linalg.solve(np.eye(n) + step / 2 * A, X - step / 2 * A @ X)
    np.testing.assert_allclose(curve.point(step), full, atol=1e-10)
    other = rng.standard_normal((n, p))
    by_formula = slope_by_formula(A, X, full, step, other)
    assert curve.slope_at(step, full, other) == pytest.approx(by_formula, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(("n", "p"), SQUARE_AND_TALL)
def test_it_finds_the_known_minimum_of_the_brockett_function(n: int, p: int) -> None:
    rng = np.random.default_rng(8)
    S = np.diag(np.arange(1.0, n + 1))
    N = np.diag(np.arange(1.0, p + 1))
    found = minimize(
        lambda X: (float(np.trace(X.T @ S @ X @ N)), 2.0 * S @ X @ N),
        orthonormal(n, p, rng),
        tol=1e-9,
        max_iter=5000,
    )
    # the smallest eigenvalues against the largest weights
    assert found.value == pytest.approx(np.arange(1, p + 1) @ np.arange(p, 0, -1), rel=1e-8)
    assert found.converged
    assert "within tol" in found.status


def test_at_a_minimum_the_gradient_along_the_manifold_is_zero() -> None:
    rng = np.random.default_rng(9)
    objective = wavy(5, 5, rng)
    found = minimize(objective, random_orthogonal(5, rng), tol=1e-8, max_iter=5000)
    gradient = objective(found.point)[1]
    tangent = gradient - found.point @ gradient.T @ found.point
    assert found.converged
    assert np.linalg.norm(tangent) <= 1e-4 * np.linalg.norm(gradient)


@pytest.mark.parametrize("method", ["search", "fixed"])
def test_a_callback_that_returns_true_ends_the_descent_with_the_best_so_far(method: str) -> None:
    rng = np.random.default_rng(10)
    X0 = random_orthogonal(4, rng)
    found = minimize(
        wavy(4, 4, rng), X0, method=method, callback=lambda iteration, _, __: iteration == 3
    )
    assert found.iterations == 3
    assert not found.converged
    assert "Interrupted" in found.status


def test_max_iter_ends_the_descent_and_says_so() -> None:
    rng = np.random.default_rng(11)
    found = minimize(wavy(4, 4, rng), random_orthogonal(4, rng), max_iter=2)
    assert found.iterations == 2
    assert not found.converged
    assert "raise max_iter" in found.status


@pytest.mark.parametrize("secants", [0, 20])
def test_a_tolerance_below_rounding_ends_at_the_precision_of_the_objective(secants: int) -> None:
    rng = np.random.default_rng(21)
    objective, start = wavy(4, 4, rng), random_orthogonal(4, rng)
    coarse, fine = (
        minimize(objective, start, tol=tol, secants=secants, max_iter=5000) for tol in (1e-8, 1e-14)
    )
    assert coarse.status == stiefel.CONVERGED
    assert fine.status in (stiefel.PRECISION, stiefel.CONVERGED)
    assert fine.converged
    assert fine.value <= coarse.value == pytest.approx(fine.value, rel=1e-12)
    least = minimize(objective, start, tol=1e-300, secants=secants, max_iter=5000)
    assert least.status == stiefel.PRECISION
    assert not least.converged  # as far as such a tolerance can tell


def test_a_wrong_gradient_is_no_convergence() -> None:
    rng = np.random.default_rng(12)
    true = brockett(4, 4, rng)
    found = minimize(lambda X: (true(X)[0], -true(X)[1]), random_orthogonal(4, rng))
    assert not found.converged
    assert "finite differences" in found.status


def test_a_start_at_the_minimum_takes_no_step() -> None:
    found = minimize(lambda X: (-float(np.trace(X)), -np.eye(3)), np.eye(3))
    assert (found.iterations, found.evaluations, found.converged) == (0, 1, True)


def test_the_start_is_not_modified() -> None:
    rng = np.random.default_rng(13)
    X0 = random_orthogonal(4, rng)
    before = X0.copy()
    minimize(wavy(4, 4, rng), X0, max_iter=20)
    np.testing.assert_array_equal(X0, before)


@pytest.mark.parametrize(
    ("X0", "message"),
    [
        (np.ones((3, 2)), "orthonormal columns"),
        (np.ones((2, 3)), "no more columns than rows"),
        (np.ones(3), "no more columns than rows"),
        (np.ones((3, 0)), r"with a column or more .* got shape \(3, 0\)"),
        (np.full((2, 2), np.nan), "orthonormal columns"),
    ],
)
def test_a_start_off_the_manifold_is_refused(X0: Matrix, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        minimize(lambda X: (0.0, X), X0)


def test_wrong_options_are_named() -> None:
    with pytest.raises(ValueError, match="method should be one of 'search', 'fixed'; got 'newton'"):
        minimize(lambda X: (0.0, X), np.eye(2), method="newton")
    for name in ("step", "tol"):
        with pytest.raises(ValueError, match=f"{name} should be a finite number above zero"):
            minimize(lambda X: (0.0, X), np.eye(2), **{name: 0.0})


@pytest.mark.parametrize("wrong", [{"armijo": 0.95}, {"wolfe": 1.0}, {"memory": 1.5}])
def test_conditions_that_no_step_need_meet_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="0 < armijo < wolfe < 1 and memory from 0 to 1; got"):
        minimize(lambda X: (0.0, X), np.eye(2), **wrong)


@pytest.mark.parametrize("method", ["search", "fixed"])
@pytest.mark.parametrize("shape", [(3,), (3, 2), (2, 3), (3, 3, 1), ()])
def test_a_gradient_of_another_shape_is_refused(method: str, shape: tuple[int, ...]) -> None:
    message = r"in the shape of X, \(3, 3\); the gradient has shape"
    with pytest.raises(ValueError, match=message):
        minimize(lambda X: (0.0, np.ones(shape)), np.eye(3), method=method)


@pytest.mark.parametrize("method", ["search", "fixed"])
@pytest.mark.parametrize(("value", "entry"), [(np.nan, 0.0), (np.inf, 0.0), (1.0, np.nan)])
def test_a_start_where_the_objective_is_not_finite_is_refused(
    method: str, value: float, entry: float
) -> None:
    gradient = np.diag([entry, 1.0])
    count = int(np.isnan(entry))
    with pytest.raises(ValueError, match=f"At X0 the value is .* and {count} entries"):
        minimize(lambda X: (value, gradient), np.eye(2), method=method)


def behind_a_wall(p: int, bad: float, rng: np.random.Generator) -> tuple[Objective, Matrix]:
    """``−log(trace X − c)`` less a slope towards where it is not defined, and a point that is."""
    C = rng.standard_normal((p, p))

    def value_and_gradient(X: Matrix) -> tuple[float, Matrix]:
        room = float(np.trace(X)) - 0.9 * p
        if room <= 0:
            return (bad, np.full_like(X, bad)) if np.isnan(bad) else (-1e9, np.full_like(X, bad))
        value = 10.0 * float(np.sum(C * X)) - 0.1 * np.log(room)
        return value, 10.0 * C - 0.1 * np.eye(p) / room

    return value_and_gradient, np.eye(p)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_search_steps_back_from_where_the_objective_is_not_finite(bad: float) -> None:
    # inf: a value that looks low, with a gradient that is none
    rng = np.random.default_rng(16)
    inner, start = behind_a_wall(4, bad, rng)
    objective = Recorded(inner)
    found = minimize(objective, start, step=1.0, max_iter=200)
    refused = [gradient for _, _, gradient in objective.calls if not np.isfinite(gradient).all()]
    assert refused
    assert np.isfinite(found.path).all()
    assert np.trace(found.point) > 0.9 * 4
    assert found.value < found.path[0]


def test_the_fixed_form_stops_before_where_the_objective_is_not_finite() -> None:
    rng = np.random.default_rng(16)
    objective, start = behind_a_wall(4, np.nan, rng)
    found = minimize(objective, start, method="fixed", step=0.01, max_iter=200)
    assert 0 < found.iterations < 200
    assert found.evaluations == found.iterations + 2
    assert found.value == found.path[-1] == objective(found.point)[0]
    assert not found.converged
    assert "pass a shorter step" in found.status


@pytest.mark.parametrize("method", ["search", "fixed"])
def test_an_objective_may_use_one_array_for_all_its_gradients(method: str) -> None:
    rng = np.random.default_rng(17)
    objective, start = wavy(5, 5, rng), random_orthogonal(5, rng)
    room = np.empty((5, 5))

    def thrifty(X: Matrix) -> tuple[float, Matrix]:
        value, room[:] = objective(X)
        return value, room

    one, other = (minimize(f, start, method=method, max_iter=50) for f in (objective, thrifty))
    np.testing.assert_array_equal(one.path, other.path)


@quick
@given(shapes, st.integers(0, 99))
def test_one_step_of_newton_and_schulz_squares_the_drift(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = orthonormal(*shape, rng) + 1e-6 * rng.standard_normal(shape)
    assert off_manifold(orthonormalise(X)) <= 10 * off_manifold(X) ** 2 * shape[1] + 1e-14


@quick
@given(st.integers(1, 8), st.integers(0, 99))
def test_polar_is_the_nearest_orthogonal_matrix(p: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((p, p))
    Q = polar(M)
    assert off_manifold(Q) < 1e-12
    others = random_orthogonal(p, rng, size=20)
    assert (np.linalg.norm(M - Q) <= np.linalg.norm(M - others, axis=(1, 2)) + 1e-12).all()
    np.testing.assert_allclose(Q.T @ M, (Q.T @ M).T, atol=1e-10)


@pytest.mark.parametrize("determinant", [None, 1, -1])
def test_random_orthogonal_draws_from_the_component_asked_for(determinant: int | None) -> None:
    rng = np.random.default_rng(14)
    for p in (1, 2, 7):
        draws = random_orthogonal(p, rng, determinant=determinant, size=40)
        np.testing.assert_allclose(
            np.swapaxes(draws, 1, 2) @ draws, np.broadcast_to(np.eye(p), draws.shape), atol=1e-12
        )
        signs = np.linalg.det(draws)
        if determinant is None:
            assert 5 <= (signs > 0).sum() <= 35
        else:
            np.testing.assert_allclose(signs, determinant)
    assert random_orthogonal(3, rng).shape == (3, 3)


def test_random_orthogonal_is_uniform_to_second_order() -> None:
    draws = random_orthogonal(3, np.random.default_rng(15), size=20_000)
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=0.02)
    np.testing.assert_allclose((draws**2).mean(axis=0), 1 / 3, atol=0.02)


def test_the_module_is_public() -> None:
    import unshift

    assert unshift.stiefel is stiefel
