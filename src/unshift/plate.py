"""The plate model (figure 1b): many domains over one shared space, and the objective they share.

Each domain is whitened by its own moments; what is left of it is a rotation ``R_k`` in O(p), with
``R = I`` for the reference. Together they minimise

    ``F = Σ_k MMD²(Z_k R_kᵀ, P)``

where ``P`` is the pool of all K domains as they are rotated, every domain with weight 1/K whatever
its rows. Write ``μ_k`` for the mean embedding of a domain and ``Q_k`` for the pool of the others.
A rotation keeps ``‖μ_k‖``, so ``F = Σ_k ‖μ_k‖² − K ‖μ_P‖²`` depends on ``R_k`` through its products
with the others alone:

    ``F = (K − 1)/K · MMD²(Z_k R_kᵀ, Q_k) + const``

A descent of one domain against the pool of the others therefore never raises ``F``, and doing so in
turn is block-coordinate descent. As ``μ_k − μ_P = (K − 1)/K (μ_k − μ_Qk)``, also
``F = ((K − 1)/K)² Σ_k MMD²(Z_k R_kᵀ, Q_k)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from .affine import AffineMap
from .align import align_pair, pair_evidence
from .alignment import Alignment
from .domain import MAX_SAMPLE
from .evidence import Examples, draw_examples
from .labels import Labels
from .mmd import ExactMMD
from .space import SharedSpace, put
from .stiefel import minimize

Matrix = npt.NDArray[np.float64]
Callback = Callable[[str, int, int], object]

# Sweeps over all domains, ended once one lowers F by less than this share of it.
MAX_SWEEPS, TOLERANCE = 30, 1e-4
# One domain's descent in one sweep: as far as the search polishes its rotations.
MAX_ITER, TANGENT = 40, 1e-3


@dataclass(frozen=True, eq=False)
class Plate:
    """Whitened rows (n_k, p) of the domains, the reference first, and their rotations (p, p).

    A rotation is None where rows stay as they are: of a domain that is not to turn.
    """

    rows: tuple[FloatArray, ...]
    rotations: tuple[Matrix | None, ...]
    sigma: float

    def placed(self, k: int) -> FloatArray:
        """Rows of domain k in the shared space (n_k, p)."""
        rows, rotation = self.rows[k], self.rotations[k]
        return rows if rotation is None else rows @ rotation.T.astype(rows.dtype)

    def against_others(self, k: int) -> ExactMMD:
        """``R -> MMD²(Z_k Rᵀ, Q_k)``: rows weigh so that every domain counts equally."""
        others = [self.placed(j) for j in range(len(self.rows)) if j != k]
        weights = np.concatenate([np.full(len(rows), 1.0 / len(rows)) for rows in others])
        return ExactMMD(np.concatenate(others), self.rows[k], self.sigma, weights)

    def discrepancy(self, k: int) -> float:
        """``MMD²`` of domain k, as it is rotated, against the pool of the others."""
        rotation = self.rotations[k]
        p = self.rows[k].shape[1]
        return self.against_others(k).value(np.eye(p) if rotation is None else rotation)

    def objective(self) -> float:
        """``F``."""
        count = len(self.rows)
        return ((count - 1) / count) ** 2 * sum(self.discrepancy(k) for k in range(count))

    def placing(self, k: int, rows: FloatArray, rotation: Matrix | None) -> Plate:
        """The plate with other rows for domain k, or with one more domain."""
        return replace(
            self, rows=put(self.rows, k, rows), rotations=put(self.rotations, k, rotation)
        )

    def descended(self, k: int) -> tuple[Plate, float]:
        """Domain k rotated further against the pool of the others, and by how much ``F`` fell."""
        start = self.rotations[k]
        if start is None:
            return self, 0.0
        objective = self.against_others(k).value_and_gradient
        minimum = minimize(objective, start, max_iter=MAX_ITER, tol=TANGENT)
        fall = (len(self.rows) - 1) / len(self.rows) * (minimum.path[0] - minimum.value)
        return self.placing(k, self.rows[k], minimum.point), float(fall)


def descend_in_turn(
    plate: Plate, turns: Sequence[int], callback: Callback | None = None
) -> tuple[Plate, npt.NDArray[np.float64]]:
    """Descend the domains in ``turns`` until ``F`` settles; the path of ``F`` never rises."""
    path = [plate.objective()]
    for sweep in range(MAX_SWEEPS):
        before = path[-1]
        for k in turns:
            plate, fall = plate.descended(k)
            path.append(max(0.0, path[-1] - fall))
        if callback is not None:
            callback("joint descent", sweep + 1, MAX_SWEEPS)
        # the others of a single domain stand still: it has nothing to wait for
        if len(turns) < 2 or before - path[-1] <= TOLERANCE * before:
            break
    return plate, np.array(path)


@dataclass(frozen=True, eq=False)
class PlateEvidence:
    """Domains in the plate's order, in samples of rows, and what the choices go by."""

    order: tuple[str, ...]
    space: SharedSpace
    plate: Plate
    trained: Examples | None
    task: str
    estimator: Any
    choice: str
    outliers: str

    def against_reference(
        self, k: int, labels: Labels | None, rng: np.random.Generator, effort: Mapping[str, Any]
    ) -> Alignment:
        """Domain k and the reference as ``align`` sees them."""
        pair = pair_evidence(
            self.space.pair(k),
            self.trained,
            draw_examples(self.space.domains[k], labels, rng),
            task=self.task,
            estimator=self.estimator,
            choice=self.choice,
        )
        return align_pair(pair, rng, **effort)

    def placed(self, k: int, pair: Alignment | None, rng: np.random.Generator) -> Plate:
        """The plate with domain k where its alignment with the reference put it.

        It will turn if a rotation of this space was chosen; where 'no adaptation' was, or a map of
        another kind, it stays. The reference has no such alignment, and no rotation but ``I``. So
        many rows are taken that a descent against the others costs no more than one of two domains.
        """
        rotation = np.eye(self.space.p) if pair is None else pair.rotation
        if rotation is not None and rotation.shape[0] != self.space.p:
            rotation = None
        rows = self.space.samples[k]
        if rotation is None and pair is not None:
            rows = self.space.pair(k).placed(pair.target_to_source)
        most = max(2, int(MAX_SAMPLE / np.sqrt(len(self.order) - 1)))
        if rows.shape[0] > most:
            rows = rows[np.sort(rng.choice(rows.shape[0], size=most, replace=False))]
        return self.plate.placing(k, rows.astype(np.float32), rotation)

    def maps(self, k: int, pair: Alignment | None) -> tuple[AffineMap, AffineMap]:
        """Features of domain k to the shared space, and to the reference's features."""
        space, rotation = self.space, self.plate.rotations[k]
        names, reference = space.domains[k].names, space.domains[0].names
        if pair is None:
            width = space.domains[0].rows.shape[1]
            return space.to_shared(0), AffineMap.identity(width, reference, reference)
        if rotation is not None:
            shared = space.to_shared(k, rotation)
            return shared, shared.then(space.to_source())
        back, white = pair.target_to_source, space.to_shared(0)
        return white.renamed(names, None) if back.is_identity else back.then(white), back
