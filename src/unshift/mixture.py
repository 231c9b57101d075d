"""How well the source's own mixture of classes accounts for target rows, whatever their balance.

The source's whitened rows are described by a mixture: one to three Student components a class,
with the class proportions left free. A candidate that brings the target's classes where the
source has them gives its rows a high likelihood under *some* proportions, so a shift of the class
balance is not mistaken for a shift of the features. Without labels, clusters stand in for classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

# Degrees of freedom of the components: tails heavy enough that a few far rows decide nothing.
FREEDOM = 5.0
# Components a class at most, and rows a dimension that each of them needs.
COMPONENTS, ROWS_PER_COMPONENT = 3, 8
# Clusters that stand in for classes where there are no labels.
CLUSTERS = 8
# Share of the source's rows that lie below the mixture's edge, and rows from which on it matters
# no more whether the mixture was fitted to them.
FEW, ROWS_WITHOUT_HALVES = 0.05, 1500
# Rows that the source's own proportions count for when the target's are estimated.
PRIOR_ROWS = 5.0


class Fit(NamedTuple):
    """``misfit`` in nats, the rows' own ``balance`` (c,), and the share of them ``outside``."""

    misfit: float
    balance: Vector
    outside: float


@dataclass(frozen=True, eq=False)
class SourceMixture:
    """``p(z | class) = Σ_k w_k t_ν(z; m_k, L_k L_kᵀ)`` over the components of the class.

    ``means`` (k, q), ``factors`` (k, q, q) lower triangular, ``owners`` (k,) the class of each
    component, ``shares`` (k,) its weight within the class, ``balance`` (c,) the source's class
    proportions, ``own`` the mean log-likelihood of the source's rows, the mark to compare with, and
    ``edge`` the one below which few of them lie.
    """

    means: Matrix
    factors: npt.NDArray[np.float64]
    owners: npt.NDArray[np.intp]
    shares: Vector
    balance: Vector
    own: float
    edge: float = -np.inf

    def log_densities(self, Z: Matrix) -> Matrix:
        """``log p(z | class)`` of rows (n, q) for each class (n, c)."""
        n, q = Z.shape
        constant = gammaln(0.5 * (FREEDOM + q)) - gammaln(0.5 * FREEDOM)
        constant -= 0.5 * q * np.log(FREEDOM * np.pi)
        densities = np.full((n, self.balance.size), -np.inf)
        pieces = zip(self.means, self.factors, self.owners, self.shares, strict=True)
        for mean, factor, owner, share in pieces:
            scores = np.linalg.solve(factor, (Z - mean).T)
            squared = np.einsum("ij,ij->j", scores, scores)
            log = constant - np.log(np.diag(factor)).sum() + np.log(share)
            log = log - 0.5 * (FREEDOM + q) * np.log1p(squared / FREEDOM)
            densities[:, owner] = np.logaddexp(densities[:, owner], log)
        return densities

    def likelihood(self, Z: Matrix) -> Vector:
        """``log p(z)`` of rows (n, q) at the source's own balance (n,)."""
        total: Vector = logsumexp(self.log_densities(Z) + np.log(self.balance), axis=1)
        return total

    def proportions(self, densities: Matrix, rounds: int = 50) -> Vector:
        """Class proportions (c,) of rows with these densities, by expectation and maximisation.

        Started at the source's balance, which also counts as a few rows.
        """
        n = densities.shape[0]
        balance = self.balance
        for _ in range(rounds):
            joint = densities + np.log(balance)
            belonging = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
            new = (belonging.sum(axis=0) + PRIOR_ROWS * self.balance) / (n + PRIOR_ROWS)
            settled = np.abs(new - balance).max() < 1e-5
            balance = new
            if settled:
                break
        return balance

    def misfit(self, Z: Matrix) -> Fit:
        """How much less the mixture likes these rows than the source's own.

        Nats a row and dimension, under the rows' best proportions:
        ``(own − mean log p(z) − ½ log det Cov(z)) / q``. The determinant takes out the gain in
        density of rows that were merely drawn together; 0 is as good as the source itself.
        """
        q = Z.shape[1]
        densities = self.log_densities(Z)
        balance = self.proportions(densities)
        likelihood = logsumexp(densities + np.log(balance), axis=1)
        misfit = (self.own - float(likelihood.mean()) - half_log_volume(Z)) / q
        return Fit(misfit, balance, float(np.mean(likelihood < self.edge)))


def half_log_volume(Z: Matrix) -> float:
    """``½ log det Cov(z)`` of rows (n, q), with flat directions bounded from below."""
    covariance = np.atleast_2d(np.cov(Z.T, bias=True))
    return 0.5 * float(np.log(np.maximum(np.linalg.eigvalsh(covariance), 1e-9)).sum())


def fit_mixture(Z: Matrix, labels: npt.NDArray[Any] | None, seed: int) -> SourceMixture:
    """The mixture of whitened source rows (n, q) with class labels (n,), or of clusters without.

    Where rows are few its edge is that of rows that it was not fitted to, half and half.
    """
    mixture = _fitted(Z, labels, seed)
    likelihood = mixture.likelihood(Z)
    own = float(likelihood.mean()) + half_log_volume(Z)
    n = Z.shape[0]
    if 4 * ROWS_PER_COMPONENT <= n <= ROWS_WITHOUT_HALVES:
        halves = np.random.default_rng(seed).permutation(n) % 2
        for half in (0, 1):
            rest, part = halves != half, halves == half
            other = _fitted(Z[rest], None if labels is None else labels[rest], seed)
            likelihood[part] = other.likelihood(Z[part])
    return replace(mixture, own=own, edge=float(np.quantile(likelihood, FEW)))


def _fitted(Z: Matrix, labels: npt.NDArray[Any] | None, seed: int) -> SourceMixture:
    """The mixture of rows (n, q), without what it makes of them."""
    n, q = Z.shape
    if labels is None:
        codes = _clusters(Z, min(CLUSTERS, max(1, n // (ROWS_PER_COMPONENT * q))), seed)
    else:
        codes = np.unique(labels, return_inverse=True)[1]
    balance = np.bincount(codes) / n
    owners, groups = [], []
    for owner in range(balance.size):
        rows = Z[codes == owner]
        count = int(np.clip(rows.shape[0] // (ROWS_PER_COMPONENT * q), 1, COMPONENTS))
        parts = _clusters(rows, 1 if labels is None else count, seed)
        for part in range(parts.max() + 1):
            owners.append(owner)
            groups.append(rows[parts == part])
    sizes = np.array([group.shape[0] for group in groups], dtype=np.float64)
    owned = np.array(owners)
    return SourceMixture(
        np.stack([group.mean(axis=0) for group in groups]),
        _factors(groups),
        owned,
        sizes / np.bincount(owned, weights=sizes)[owned],
        balance,
        0.0,
    )


def _factors(groups: list[Matrix]) -> npt.NDArray[np.float64]:
    """Cholesky factors (k, q, q) of the components' covariances, near the pooled one if small."""
    q = groups[0].shape[1]
    scatters = [(group - group.mean(axis=0)).T @ (group - group.mean(axis=0)) for group in groups]
    pooled = sum(scatters) / sum(group.shape[0] for group in groups)
    size = max(float(np.trace(pooled)) / q, 1e-9)
    pooled = 0.95 * pooled + 0.05 * size * np.eye(q)
    factors = []
    for group, scatter in zip(groups, scatters, strict=True):
        rows = group.shape[0]
        weight = rows / (rows + 2.0 * q)
        covariance = weight * scatter / rows + (1.0 - weight) * pooled
        factors.append(np.linalg.cholesky(0.97 * covariance + 0.03 * size * np.eye(q)))
    return np.stack(factors)


def _clusters(Z: Matrix, count: int, seed: int) -> npt.NDArray[np.intp]:
    if count <= 1:
        return np.zeros(Z.shape[0], dtype=np.intp)
    # Imported here: only a choice without target labels needs it.
    from sklearn.cluster import KMeans

    labels = KMeans(count, n_init=2, random_state=seed).fit(Z).labels_
    return np.unique(labels, return_inverse=True)[1]
