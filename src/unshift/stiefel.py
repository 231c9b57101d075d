"""Algorithm 1: descent on ``{X in R^{n x p}: XᵀX = I}`` by Cayley steps (Wen and Yin, 2013).

With ``G`` the gradient and ``A = G Xᵀ − X Gᵀ`` (skew), the curve

    ``Y(τ) = (I + τ/2 A)^{-1} (I − τ/2 A) X``

stays on the manifold, starts at ``X`` and descends: ``dF/dτ (0) = −½ ‖A‖²``. It never changes the
determinant of a square ``X``: O(p) has two components, and a descent sees only its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ._checks import check_gradient, check_option, check_orthonormal, check_positive

Matrix = npt.NDArray[np.float64]
ValueAndGradient = Callable[[Matrix], tuple[float, Matrix]]

CONVERGED = "Converged: the gradient along the manifold is within tol."
PRECISION = (
    "Stopped where no step lowers the value any more: at the precision of the objective if "
    "converged is True; else check its gradient against finite differences."
)
LIMIT = "Stopped at max_iter before the gradient was within tol: raise max_iter, or loosen tol."
FIXED = (
    "Took max_iter steps of fixed length: whether the point is a minimum was not checked. "
    'Use method="search" for a stopping test.'
)
INTERRUPTED = "Interrupted by the callback: this is the best point so far."
NOT_FINITE = (
    "Stopped before a step to where the value or the gradient is not finite: pass a shorter step, "
    'or method="search", which shortens it by itself.'
)


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where a descent ended: the point, its value, and how it got there.

    ``path`` holds the value at the start and after every step, ``evaluations`` the calls of the
    objective, ``status`` a sentence with a remedy.
    """

    point: Matrix
    value: float
    path: npt.NDArray[np.float64]
    evaluations: int
    converged: bool
    status: str

    @property
    def iterations(self) -> int:
        """Steps taken."""
        return self.path.size - 1


def minimize(
    value_and_gradient: ValueAndGradient,
    X0: Matrix,
    *,
    method: str = "search",
    step: float = 1e-2,
    max_iter: int = 1000,
    tol: float = 1e-6,
    armijo: float = 1e-4,
    wolfe: float = 0.9,
    memory: float = 0.85,
    secants: int = 20,
    callback: Callable[[int, Matrix, float], bool | None] | None = None,
) -> Minimum:
    """Minimise a differentiable ``F`` over ``{X: XᵀX = I}`` from ``X0`` (n, p), ``n >= p >= 1``.

    ``value_and_gradient(X)`` returns ``F(X)`` and the Euclidean gradient ``∂F/∂X`` (n, p), both
    finite at ``X0``; elsewhere the search steps back from where they are not.

    ``method="fixed"`` is the paper's Algorithm 1 to the letter: ``max_iter`` steps of length
    ``step``, and the last point. ``method="search"`` turns against the gradient as the last
    ``secants`` steps have bent it (limited-memory BFGS; with 0, and where ``2p < n``, against the
    gradient itself by steps of Barzilai and Borwein) and accepts ``τ`` once it meets both of

        ``F(Y(τ)) <= C + armijo · τ · F'(0)``   and   ``F'(Y(τ)) >= wolfe · F'(0)``

    where ``C`` is the running mean of past values with weight ``memory`` (Zhang and Hager; 0 is
    the monotone search); the first ``τ`` is tried where ``X`` moves by ten times ``step``. It stops
    once ``‖G − X Gᵀ X‖ <= tol · ‖G‖``, the larger of the first and the present ``‖G‖``, or after
    ``max_iter`` steps, and returns the best point seen.

    ``callback(iteration, X, value)`` hears of every step; where it returns True the descent stops.
    The result is a ``Minimum``, whose status says how it ended and what to do about it.
    """
    check_option(method, "method", ("search", "fixed"))
    check_positive(step, "step")
    check_positive(tol, "tol")
    if not (0 < armijo < wolfe < 1 and 0 <= memory <= 1):
        raise ValueError(
            "armijo and wolfe should be 0 < armijo < wolfe < 1 and memory from 0 to 1; "
            f"got armijo={armijo!r}, wolfe={wolfe!r}, memory={memory!r}."
        )
    X = orthonormalise(check_orthonormal(X0, "X0"))
    objective = _Objective(value_and_gradient, X.shape)
    if method == "fixed":
        return _fixed(objective, X, step, max_iter, callback)
    pairs = _Secants(0 if 2 * X.shape[1] < X.shape[0] else secants)
    descent = _Descent(objective, X, armijo, wolfe, memory, pairs)
    return descent.run(step, max_iter, tol, callback)


class _Objective:
    """The objective, its answers checked and counted."""

    def __init__(self, call: ValueAndGradient, shape: tuple[int, ...]) -> None:
        self.call, self.shape = call, shape
        self.evaluations = 0

    def __call__(self, X: Matrix) -> tuple[float, Matrix]:
        """Value and gradient, a copy of its own: the caller may reuse its array."""
        self.evaluations += 1
        value, gradient = self.call(X)
        return float(value), check_gradient(gradient, self.shape)

    def start(self, X: Matrix) -> tuple[float, Matrix]:
        """At ``X0``, where both must be finite."""
        value, gradient = self(X)
        if not _finite(value, gradient):
            raise ValueError(
                f"At X0 the value is {value:g} and {np.sum(~np.isfinite(gradient))} entries of the "
                "gradient are not finite. Start where F and its gradient are."
            )
        return value, gradient


def _finite(value: float, gradient: Matrix) -> bool:
    return bool(np.isfinite(value) and np.isfinite(gradient).all())


def _fixed(
    objective: _Objective,
    X: Matrix,
    step: float,
    max_iter: int,
    callback: Callable[[int, Matrix, float], bool | None] | None,
) -> Minimum:
    """Algorithm 1 as printed."""
    value, gradient = objective.start(X)
    path = [value]
    status = FIXED
    for iteration in range(1, max_iter + 1):
        following = Curve(X, gradient).point(step)
        value, gradient = objective(following)
        if not _finite(value, gradient):
            status = NOT_FINITE
            break
        X = following
        path.append(value)
        if callback is not None and callback(iteration, X, value):
            status = INTERRUPTED
            break
    return Minimum(X, path[-1], np.array(path), objective.evaluations, False, status)


class Curve:
    """``Y(τ)`` through ``X`` against the gradient, and its derivative, for one ``X`` and ``G``.

    Or along ``−A`` for another skew ``A`` (n, n). Without one, for ``2p < n``, ``A = U Vᵀ`` with
    ``U = [G, X]``, ``V = [X, −G]`` (n, 2p), and by Sherman, Morrison and Woodbury only a 2p x 2p
    system is solved.
    """

    def __init__(self, X: Matrix, gradient: Matrix, skew: Matrix | None = None) -> None:
        self.X = X
        n, p = X.shape
        self.low_rank = 2 * p < n and skew is None
        inner = gradient.T @ X
        # F'(0) = −½‖A‖² = −(‖G‖² − tr(GᵀX GᵀX)), without building A
        self.tangent = gradient - X @ inner
        if self.low_rank:
            self.U = np.hstack([gradient, X])
            self.V = np.hstack([X, -gradient])
            self.VU = self.V.T @ self.U
        else:
            self.A = skew_gradient(X, gradient) if skew is None else skew
        descent = self.tangent if skew is None else skew @ X
        self.slope = -float(np.sum(gradient * descent))

    def point(self, step: float) -> Matrix:
        """``Y(τ)``, with rounding's drift off the manifold taken out."""
        X = self.X
        if self.low_rank:
            Y = X - step * self.U @ self._solve(step, self.V.T @ X)
        else:
            Y = self._solve(step, X - 0.5 * step * (self.A @ X))
        return orthonormalise(Y)

    def slope_at(self, step: float, Y: Matrix, gradient: Matrix) -> float:
        """``F'(τ) = ⟨∇F(Y), Y'(τ)⟩``, ``Y'(τ) = −(I + τ/2 A)^{-1} A (X + Y)/2``."""
        middle = 0.5 * (self.X + Y)
        if self.low_rank:
            moved = self.U @ self._solve(step, self.V.T @ middle)
        else:
            moved = self._solve(step, self.A @ middle)
        return -float(np.sum(gradient * moved))

    def _solve(self, step: float, right: Matrix) -> Matrix:
        inner = self.VU if self.low_rank else self.A
        system = np.eye(inner.shape[0]) + 0.5 * step * inner
        return np.asarray(np.linalg.solve(system, right), dtype=np.float64)


def skew_gradient(X: Matrix, gradient: Matrix) -> Matrix:
    """``A = G Xᵀ − X Gᵀ``: the gradient in the coordinates ``W`` of ``exp(W) X``, times two."""
    product = gradient @ X.T
    return product - product.T


class _Secants:
    """Past steps ``s`` and what they changed in ``A``, as skew matrices: they hold the curvature.

    Turning all of space moves neither, so those of past points need no transport to the present.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.pairs: list[tuple[Matrix, Matrix, float]] = []

    def add(self, moved: Matrix, change: Matrix) -> None:
        """Keep a pair, unless the value curves downwards along it."""
        along = float(np.sum(moved * change))
        if self.size and along > 1e-12 * np.linalg.norm(moved) * np.linalg.norm(change):
            self.pairs = [*self.pairs[-self.size + 1 :], (moved, change, along)]

    def bend(self, A: Matrix) -> Matrix:
        """``H A`` with the inverse Hessian ``H`` of BFGS by two loops (Nocedal, 1980)."""
        shares = []
        for moved, change, along in reversed(self.pairs):
            shares.append(float(np.sum(moved * A)) / along)
            A = A - shares[-1] * change
        moved, change, along = self.pairs[-1]
        A = A * (along / float(np.sum(change * change)))
        for (moved, change, along), share in zip(self.pairs, reversed(shares), strict=True):
            A = A + (share - float(np.sum(change * A)) / along) * moved
        return A


@dataclass
class _Descent:
    """State of the curvilinear search."""

    objective: _Objective
    X: Matrix
    armijo: float
    wolfe: float
    memory: float
    secants: _Secants
    path: list[float] = field(default_factory=list)

    def run(
        self,
        step: float,
        max_iter: int,
        tol: float,
        callback: Callable[[int, Matrix, float], bool | None] | None,
    ) -> Minimum:
        value, gradient = self.objective.start(self.X)
        self.path.append(value)
        best, best_value = self.X, value
        reference, weight = value, 1.0
        scale = float(np.linalg.norm(gradient))
        curve = Curve(self.X, gradient)
        length = min(10 * step, 1.0)
        step = _first_step(curve, length)
        for iteration in range(max_iter + 1):
            scale = max(scale, float(np.linalg.norm(gradient)))
            if np.linalg.norm(curve.tangent) <= tol * scale:
                return self._end(best, best_value, True, CONVERGED)
            if iteration == max_iter:
                break
            found = self._line_search(curve, value, reference, step)
            if found is None and self.secants.pairs:  # they may mislead: once more without
                self.secants.pairs = []
                curve = Curve(self.X, gradient)
                found = self._line_search(curve, value, reference, _first_step(curve, length))
            if found is None:
                flat = bool(np.linalg.norm(curve.tangent) <= np.sqrt(tol) * scale)
                return self._end(best, best_value, flat, PRECISION)
            step, X, value, following = found
            curve, step = self._next(curve, gradient, X, following, step, iteration)
            self.X, gradient = X, following
            self.path.append(value)
            if value < best_value:
                best, best_value = X, value
            # Zhang and Hager's running mean of the values
            reference = (self.memory * weight * reference + value) / (self.memory * weight + 1.0)
            weight = self.memory * weight + 1.0
            if callback is not None and callback(iteration + 1, X, value):
                return self._end(best, best_value, False, INTERRUPTED)
        return self._end(best, best_value, False, LIMIT)

    def _next(
        self, curve: Curve, gradient: Matrix, X: Matrix, after: Matrix, step: float, iteration: int
    ) -> tuple[Curve, float]:
        """The curve through the next point, and the step to try first."""
        steepest = Curve(X, after)
        if self.secants.size:
            A = skew_gradient(X, after)
            self.secants.add(-step * curve.A, A - skew_gradient(self.X, gradient))
            if self.secants.pairs:
                bent = Curve(X, after, self.secants.bend(A))
                if bent.slope < 0:
                    return bent, 1.0
                self.secants.pairs = []
        change = steepest.tangent - curve.tangent
        return steepest, _barzilai_borwein(X - self.X, change, iteration)

    def _line_search(
        self, curve: Curve, start: float, reference: float, step: float
    ) -> tuple[float, Matrix, float, Matrix] | None:
        """A step that meets both conditions, and what is there; None at rounding's end.

        Doubling while the slope is too steep, else between the bounds: where a parabola through
        ``F(0)``, ``F'(0)`` and the value found has its minimum, or half-way.
        """
        low, high = 0.0, np.inf
        for _ in range(60):
            Y = curve.point(step)
            value, gradient = self.objective(Y)
            guess = np.nan
            low_enough = value <= reference + self.armijo * step * curve.slope
            if not (low_enough and _finite(value, gradient)):
                high = step
                bend = value - start - curve.slope * step
                guess = -0.5 * curve.slope * step * step / bend if bend > 0 else np.nan
            elif curve.slope_at(step, Y, gradient) < self.wolfe * curve.slope:
                low = step
            else:
                return step, Y, value, gradient
            margin = 0.1 * (high - low)
            if not low + margin < guess < high - margin:
                guess = 0.5 * (low + high)
            step = guess if np.isfinite(high) else 2.0 * low
        return None

    def _end(self, point: Matrix, value: float, converged: bool, status: str) -> Minimum:
        count = self.objective.evaluations
        return Minimum(point, value, np.array(self.path), count, converged, status)


def _first_step(curve: Curve, length: float) -> float:
    """The step that moves by about ``length``; rounding may leave no slope to tell."""
    return length / float(np.sqrt(-curve.slope)) if curve.slope < 0 else length


def _barzilai_borwein(moved: Matrix, change: Matrix, iteration: int) -> float:
    """``⟨S,S⟩/|⟨S,Y⟩|`` and ``|⟨S,Y⟩|/⟨Y,Y⟩`` in turn: the secant's estimate of 1/curvature."""
    across = abs(float(np.sum(moved * change)))
    if iteration % 2 == 0:
        step = float(np.sum(moved * moved)) / across if across > 0 else 1.0
    else:
        square = float(np.sum(change * change))
        step = across / square if square > 0 else 1.0
    return min(max(step, 1e-20), 1e20)


def orthonormalise(X: Matrix) -> Matrix:
    """``X (3I − XᵀX)/2``: one step of Newton and Schulz to the nearest orthonormal matrix.

    Enough for drift by rounding: it squares the distance. Works on stacks (..., n, p).
    """
    p = X.shape[-1]
    return X @ (1.5 * np.eye(p) - 0.5 * (np.swapaxes(X, -1, -2) @ X))


def polar(M: Matrix) -> Matrix:
    """The orthogonal matrix nearest to ``M`` (..., p, p): ``U Vᵀ`` of its singular vectors."""
    left, _, right = np.linalg.svd(M)
    nearest: Matrix = left @ right
    return nearest


def random_orthogonal(
    p: int, rng: np.random.Generator, *, determinant: int | None = None, size: int | None = None
) -> Matrix:
    """Uniform draws from O(p), (p, p) or (size, p, p); from one component with determinant ±1."""
    count = 1 if size is None else size
    Q, upper = np.linalg.qr(rng.standard_normal((count, p, p)))
    # QR is unique, and Q uniform, once the diagonal of the upper factor is positive
    diagonal = np.sign(np.diagonal(upper, axis1=1, axis2=2))
    Q = Q * np.where(diagonal == 0, 1.0, diagonal)[:, None, :]
    if determinant is not None:
        wrong = np.linalg.det(Q) * determinant < 0
        Q[wrong, :, 0] *= -1.0
    draws: Matrix = Q[0] if size is None else Q
    return draws
