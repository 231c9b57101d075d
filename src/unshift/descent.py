"""Algorithm 1 for a whole stack of rotations at once, on the spectral objective.

Cayley steps of Barzilai and Borwein, accepted by the non-monotone test of Zhang and Hager; each
rotation of the stack has its own step and stops on its own. The determinant never changes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .stiefel import orthonormalise

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
ValuesAndGradients = Callable[[Matrix], tuple[Vector, Matrix]]

ARMIJO, MEMORY, SHRINK = 1e-4, 0.85, 0.25


def descend(
    objective: ValuesAndGradients, R: Matrix, max_iter: int, tol: float = 1e-3
) -> tuple[Matrix, Vector, int]:
    """Best points (B, p, p), their values (B,) and the number of evaluations.

    ``objective`` gives values (B,) and Euclidean gradients (B, p, p) of a stack. A rotation stops
    once ``‖A‖``, ``A = G Rᵀ − R Gᵀ``, is below ``tol`` times its first value.
    """
    state = _Stack(objective, R)
    floor = tol**2 * state.squares
    for iteration in range(max_iter):
        going = (state.squares > floor) & (state.step * np.sqrt(state.squares) > 1e-7)
        active = np.flatnonzero(going)
        if active.size == 0:
            break
        state.advance(active, iteration)
    return state.best, state.best_values, state.evaluations


def cayley(R: Matrix, A: Matrix, step: Vector) -> Matrix:
    """``(I + τ/2 A)^{-1} (I − τ/2 A) R`` for stacks, with rounding's drift taken out."""
    half = 0.5 * step[:, None, None] * A
    moved = np.linalg.solve(np.eye(R.shape[-1]) + half, R - half @ R)
    return orthonormalise(np.asarray(moved, dtype=np.float64))


def _skew(gradients: Matrix, R: Matrix) -> Matrix:
    product = gradients @ R.transpose(0, 2, 1)
    return product - product.transpose(0, 2, 1)


class _Stack:
    """Points, values, skew gradients and steps of all rotations of a descent."""

    def __init__(self, objective: ValuesAndGradients, R: Matrix) -> None:
        self.objective = objective
        self.R = R.copy()
        self.values, gradients = objective(self.R)
        self.A = _skew(gradients, self.R)
        self.squares = np.einsum("bij,bij->b", self.A, self.A)
        norm = np.sqrt(np.maximum(self.squares, 1e-300))
        # the first step would bring a linear function to zero, and turns by a radian at most
        self.step = np.minimum(self.values / norm**2, 1.0 / norm)
        self.reference, self.weight = self.values.copy(), np.ones(R.shape[0])
        self.best, self.best_values = self.R.copy(), self.values.copy()
        self.evaluations = R.shape[0]

    def advance(self, active: npt.NDArray[np.intp], iteration: int) -> None:
        """One trial step for each active rotation."""
        step = self.step[active]
        trial = cayley(self.R[active], self.A[active], step)
        values, gradients = self.objective(trial)
        self.evaluations += active.size
        enough = self.reference[active] - 0.5 * ARMIJO * step * self.squares[active]
        taken = values <= enough
        self.step[active[~taken]] *= SHRINK
        if taken.any():
            self._accept(active[taken], trial[taken], values[taken], gradients[taken], iteration)

    def _accept(
        self,
        rows: npt.NDArray[np.intp],
        R: Matrix,
        values: Vector,
        gradients: Matrix,
        iteration: int,
    ) -> None:
        A = _skew(gradients, R)
        moved = R - self.R[rows]
        change = A @ R - self.A[rows] @ self.R[rows]
        self.R[rows], self.A[rows], self.values[rows] = R, A, values
        self.squares[rows] = np.einsum("bij,bij->b", A, A)
        longest = 3.0 / np.sqrt(np.maximum(self.squares[rows], 1e-300))
        self.step[rows] = np.clip(_barzilai_borwein(moved, change, iteration), 1e-8, longest)
        weight = MEMORY * self.weight[rows]
        self.reference[rows] = (weight * self.reference[rows] + values) / (weight + 1.0)
        self.weight[rows] = weight + 1.0
        better = values < self.best_values[rows]
        self.best[rows[better]], self.best_values[rows[better]] = R[better], values[better]


def _barzilai_borwein(moved: Matrix, change: Matrix, iteration: int) -> Vector:
    """``⟨S,S⟩/|⟨S,Y⟩|`` and ``|⟨S,Y⟩|/⟨Y,Y⟩`` in turn."""
    across = np.maximum(np.abs(np.einsum("bij,bij->b", moved, change)), 1e-300)
    if iteration % 2 == 0:
        steps: Vector = np.einsum("bij,bij->b", moved, moved) / across
    else:
        steps = across / np.maximum(np.einsum("bij,bij->b", change, change), 1e-300)
    return steps
