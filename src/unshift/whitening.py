"""From a covariance to the maps that whiten with it and colour again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from ._blocks import row_blocks
from .affine import AffineMap
from .moments import Moments, moments

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Whitening:
    """``Σ = U S Uᵀ`` of columns divided by ``scale``, on its positive eigenvalues.

    ``center`` and ``scale`` (d,) are in the data's units, ``eigenvalues`` (r,) descending,
    ``vectors`` (d, r). ``total`` is the trace of ``Σ`` before shrinkage, ``shrinkage`` the weight
    of ``tr(Σ)/d · I`` that was mixed in, ``count`` the rows (their total weight) behind it all.
    """

    center: Vector
    scale: Vector
    eigenvalues: Vector
    vectors: Matrix
    total: float
    shrinkage: float
    count: float

    @property
    def rank(self) -> int:
        """How many eigenvalues are positive."""
        return int(self.eigenvalues.size)

    @property
    def shares(self) -> Vector:
        """Share of the variance held by the first 1, 2, ..., r directions (r,)."""
        shares: Vector = np.cumsum(self.eigenvalues) / self.eigenvalues.sum()
        return shares

    def directions(self, p: int) -> Matrix:
        """``U S^{1/2}`` on the first p eigenvalues (d, p): the ``θ`` of eq. 5, in scaled units."""
        return self.vectors[:, :p] * np.sqrt(self.eigenvalues[:p])

    def whitener(self, p: int) -> AffineMap:
        """``z = S^{-1/2} Uᵀ D^{-1} (x − μ)`` on the first p eigenvalues (eq. 6 with Q = I)."""
        matrix = self.vectors[:, :p] / np.sqrt(self.eigenvalues[:p])
        return AffineMap(self.center, matrix / self.scale[:, None], np.zeros(p))

    def colourer(self, p: int) -> AffineMap:
        """``x = μ + D U S^{1/2} z``, the map back: eq. 1 with ``θ = D U S^{1/2}``."""
        return AffineMap(np.zeros(p), (self.directions(p) * self.scale[:, None]).T, self.center)


def whiten(stats: Moments, scale: Vector | None = None, shrinkage: float | str = 0.0) -> Whitening:
    """Eigenvectors and positive eigenvalues of the covariance of columns divided by ``scale``.

    Without ``scale`` all columns keep their units, up to one common power of two. An eigenvalue
    counts as positive above ``λ_max · max((d · eps_data)², d · eps)``: what rounding of the data
    can leave behind. ``shrinkage`` is the weight of ``tr(Σ)/d · I``, or "oas".
    """
    d = stats.width
    divisor = np.full(d, np.ldexp(1.0, int(stats.exponent.max()))) if scale is None else scale
    factor = np.ldexp(1.0 / divisor, stats.exponent)
    values, vectors = _eigen(stats, factor)
    largest = float(values[0]) if values.size else 0.0
    tolerance = max((d * stats.eps) ** 2, d * float(np.finfo(np.float64).eps))
    keep = values > largest * tolerance
    values, vectors = values[keep], vectors[:, keep]
    total = float(values.sum())
    weight = oas_shrinkage(values, d, stats.count) if isinstance(shrinkage, str) else shrinkage
    shrunk = (1.0 - weight) * values + weight * total / d
    return Whitening(stats.center, divisor, shrunk, vectors, total, weight, stats.count)


def _eigen(stats: Moments, factor: Vector) -> tuple[Vector, Matrix]:
    """Eigenvalues, descending, and signed eigenvectors of the scaled covariance.

    From centred rows ``C`` (n, d) with n <= d the n x n side ``C Cᵀ = V L Vᵀ`` gives
    ``U = Cᵀ V L^{-1/2}``.
    """
    if stats.root is None:
        assert stats.scatter is not None
        covariance = stats.scatter / stats.count * factor * factor[:, None]
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = values[::-1], vectors[:, ::-1]
    else:
        root = stats.root * factor / np.sqrt(stats.count)
        values, left = np.linalg.eigh(root @ root.T)
        values, left = values[::-1], left[:, ::-1]
        positive = np.maximum(values, np.finfo(np.float64).tiny)
        vectors = root.T @ left / np.sqrt(positive)
    return np.maximum(values, 0.0), vectors * _signs(vectors)


def _signs(vectors: Matrix) -> Vector:
    """The sign that makes each column's largest entry positive: eigenvectors have none."""
    largest = np.abs(vectors).argmax(axis=0)
    return np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)


def oas_shrinkage(values: Vector, d: int, n: float) -> float:
    """Weight of ``tr(Σ)/d · I`` by the oracle approximating estimator (Chen et al., 2010).

    It needs no more than the eigenvalues:
    ``ρ = ((1 − 2/d) tr Σ² + tr² Σ) / ((n + 1 − 2/d)(tr Σ² − tr² Σ / d))``.
    """
    square, trace2 = float(values @ values), float(values.sum()) ** 2
    excess = square - trace2 / d
    if excess <= 0.0:
        return 1.0
    return min(1.0, ((1 - 2 / d) * square + trace2) / ((n + 1 - 2 / d) * excess))


def tame_outliers(
    X: FloatArray, weights: Vector | None, first: Moments, *, rounds: int = 100
) -> tuple[Moments, Vector]:
    """Moments in which far rows count less, and the weight (n,) that each row kept.

    Rows at squared Mahalanobis distance ``δ²`` above ``c² = 4 χ²_k(.99)`` weigh ``c²/δ²``, again
    with the new moments until nothing changes. An invertible affine change of the columns leaves
    every ``δ`` as it is, so the result is as good a whitening for the model as the covariance,
    and data without far rows keep their covariance to the last bit.
    """
    # δ² needs several rows a dimension to mean anything: with fewer, leading directions only.
    stats, kept = first, np.ones(X.shape[0])
    for _ in range(rounds):
        white = whiten(stats)
        k = max(1, min(white.rank, int(first.count // 10)))
        limit = 4.0 * _chi2_99(k)
        new = limit / np.maximum(_squared_distances(X, white, k), limit)
        # relative: a very far row still counts at a very small weight
        if (np.abs(new - kept) <= 1e-3 * kept).all():
            break
        kept = new
        stats = moments(X, kept if weights is None else kept * weights)
    return stats, kept


def _squared_distances(X: FloatArray, white: Whitening, k: int) -> Vector:
    """``δ²`` of each row (n,) in the k leading directions."""
    whitener = white.whitener(k)
    squared = np.empty(X.shape[0])
    for block in row_blocks(X.shape[0], 8 * (X.shape[1] + k), budget=1 << 20):
        z = whitener(X[block].astype(np.float64))
        squared[block] = np.einsum("ij,ij->i", z, z)
    return squared


def _chi2_99(k: int) -> float:
    """99th percentile of χ² with k degrees of freedom, by Wilson and Hilferty's cube."""
    return float(k * (1 - 2 / (9 * k) + 2.3263 * np.sqrt(2 / (9 * k))) ** 3)


def has_outliers(stats: Moments) -> bool:
    """Whether some value lies more than ten standard deviations from its column's mean."""
    extreme = np.maximum(np.abs(stats.low), np.abs(stats.high))
    return bool((extreme**2 > 100.0 * stats.variances).any())
