"""Tasks of the search, for whichever of joblib's backends: descents of a few rotations, proposals.

Each runs on one thread of linear algebra, so that it gives the same bits in whatever process, and
takes and returns plain arrays, which every backend can send.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from .stiefel import Minimum, ValueAndGradient, minimize

Matrix = npt.NDArray[np.float64]

# The length of a descent's first trial step, over ten, and where it stops. A step that is short
# leads to the nearest minimum.
STEP, SHORT_STEP, TOLERANCE = 0.05, 0.003, 1e-3


def descend(
    objective: ValueAndGradient, R: Matrix, max_iter: int, step: float = STEP
) -> list[Minimum]:
    """Algorithm 1 from each of the rotations (B, p, p)."""
    with one_thread():
        return [minimize(objective, r, step=step, max_iter=max_iter, tol=TOLERANCE) for r in R]


def alone(task: Callable[..., Matrix], *given: object) -> Matrix:
    """What a task returns, with one thread of linear algebra."""
    with one_thread():
        return task(*given)


def one_thread() -> AbstractContextManager[object]:
    """One thread of linear algebra in this process, while the context lasts."""
    limits: AbstractContextManager[object] = _linear_algebra().limit(limits=1)
    return limits


@cache
def _linear_algebra() -> ThreadpoolController:
    """The libraries that this process has loaded: to find them takes longer than a descent."""
    return ThreadpoolController()
