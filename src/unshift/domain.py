"""One domain as the method sees it, and the decisions that two of them call for together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray, column_names
from ._checks import check_matrix, check_option, check_weights
from .affine import AffineMap
from .moments import Moments, moments
from .stiefel import polar
from .streamed import TableRows
from .whitening import Whitening, has_outliers, tame_outliers, whiten

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

# Rows a side that search and report look at; moments see all rows.
MAX_SAMPLE = 4096
# "auto" asks for ten rows a dimension: with fewer, whitened rows fill a simplex and MMD says
# nothing.
ROWS_PER_DIMENSION = 10
# "auto" keeps this share of the variance of all domains, in at most this many dimensions; fewer
# where columns correspond, since there a rotation is only one of several ways to adapt.
AUTO_SHARE, AUTO_COMPONENTS, AUTO_CORRESPONDING = 0.99, 20, 8


@dataclass(frozen=True, eq=False)
class Domain:
    """Rows (n, d), not copied, with names, weights (n,) and moments; ``sample`` (k,) to look at."""

    rows: FloatArray
    names: tuple[str, ...] | None
    weights: Vector | None
    moments: Moments
    sample: Rows
    effective: float
    tamed: int = 0

    def sampled(self) -> Matrix:
        """The sample's rows in float64 (k, d)."""
        return self.rows[self.sample].astype(np.float64)

    def trimmed(self) -> Domain:
        """The same domain without the rows that are not in its sample."""
        rows = self.rows[self.sample]
        return replace(self, rows=rows, weights=None, sample=np.arange(rows.shape[0]))

    def extended(self, rows: FloatArray) -> Domain:
        """The trimmed domain with more rows: moments merged, old and new sampled in proportion."""
        stats = self.moments.merge(moments(rows))
        share = rows.shape[0] / (self.effective + rows.shape[0])
        most = min(MAX_SAMPLE, self.sample.size + rows.shape[0])
        # of a full sample's rows, as many are new as of all the rows there have been
        new = max(most - self.sample.size, min(rows.shape[0], round(most * share)))
        old = self.rows[self.sample[_evenly(self.sample.size, most - new)]]
        kept = np.concatenate([old, rows[_evenly(rows.shape[0], new)].astype(self.rows.dtype)])
        return replace(
            self,
            rows=kept,
            weights=None,
            moments=stats,
            sample=np.arange(kept.shape[0]),
            effective=self.effective + rows.shape[0],
        )


def _evenly(n: int, k: int) -> Rows:
    """``k`` of ``range(n)``, evenly spread."""
    return (np.arange(k) * n) // max(k, 1)


def read_domain(X: Any, name: str, weights: Any, rng: np.random.Generator) -> Domain:
    """Check rows and weights, take their moments and a sample."""
    table = X if isinstance(X, TableRows) else None
    names = column_names(X) if table is None else table.names
    rows = check_matrix(X if table is None else table.rows, name)
    w = check_weights(weights, rows.shape[0], f"weights of {name}")
    drawn = rows.shape[0]
    if table is None or table.moments is None:
        stats = moments(rows, w)
    else:  # of all rows, of which those drawn are a sample
        stats, drawn = table.moments, table.drawn
    if not (stats.variances > 0).any():
        raise ValueError(
            f"{name} is constant: all its {rows.shape[0]} rows are equal, so it has no spread to "
            "align. Check that the right columns were passed."
        )
    return Domain(rows, names, w, stats, draw_rows(drawn, w, rng), _effective(stats, w))


def _effective(stats: Moments, weights: Vector | None) -> float:
    """Number of rows that the weights stand for: their sum where they are whole, else Kish's."""
    if weights is None or (weights == np.round(weights)).all():
        return stats.count
    return float(weights.sum() ** 2 / (weights @ weights))


def draw_rows(
    n: int, weights: Vector | None, rng: np.random.Generator, most: int = MAX_SAMPLE
) -> Rows:
    """At most ``most`` row numbers, in order; a row of weight k is k rows.

    Whole weights are repetitions to the letter; others are drawn systematically, in proportion.
    """
    if weights is None:
        rows = np.arange(n)
    elif (weights == np.round(weights)).all() and weights.sum() <= 50 * n:
        rows = np.repeat(np.arange(n), weights.astype(np.intp))
    else:
        edges = np.cumsum(weights) / weights.sum()
        size = int(np.count_nonzero(weights))
        rows = np.searchsorted(edges, (np.arange(size) + rng.uniform()) / size).clip(max=n - 1)
    if rows.size > most:
        rows = np.sort(rng.choice(rows, size=most, replace=False))
    return rows


def evenly(rows: npt.NDArray[Any], most: int) -> npt.NDArray[Any]:
    """At most ``most`` rows, taken evenly: the same on every call."""
    return rows[:: -(-rows.shape[0] // most)]


def without_outliers(domains: Sequence[Domain], like: Sequence[Domain] = ()) -> list[Domain]:
    """Moments with far rows weighed down, where any domain has some: all must be treated alike.

    The domains ``like`` are those that were treated before.
    """
    treated = any(domain.tamed for domain in like)
    if not treated and not any(has_outliers(domain.moments) for domain in domains):
        return list(domains)
    return [_tamed(domain) for domain in domains]


def _tamed(domain: Domain) -> Domain:
    stats, kept = tame_outliers(domain.rows, domain.weights, domain.moments)
    return replace(domain, moments=stats, tamed=int((kept < 1.0).sum()))


def features_correspond(
    source: tuple[str, ...] | None,
    target: tuple[str, ...] | None,
    widths: tuple[int, int],
    asked: Any,
) -> tuple[bool, str]:
    """Whether column j means the same in both domains, and a sentence that says why."""
    check_option(asked, "same_features", ("auto", True, False))
    if asked is True:
        if widths[0] != widths[1]:
            raise ValueError(
                f"same_features=True, but the source has {widths[0]} columns and the target "
                f"{widths[1]}: columns can only correspond where there are as many. "
                "Use same_features=False."
            )
        return True, "Columns were said to correspond."
    if asked is False:
        return False, "Columns were said not to correspond."
    if widths[0] != widths[1]:
        return False, "Columns were taken not to correspond: the widths differ."
    if source is None and target is None:
        return True, "Columns were taken to correspond: unnamed, and as many in both domains."
    if source == target:
        return True, "Columns were taken to correspond: their names are the same."
    return False, "Columns were taken not to correspond: their names differ."


def column_scale(stats: Moments, scale: Any) -> Vector | None:
    """Divisors (d,) for the columns, each domain by its own spread; None leaves units as they are.

    "auto" divides where the columns' spreads differ so much that they can hardly have one unit.
    """
    check_option(scale, "scale", ("auto", "std", None))
    if scale is None or (scale == "auto" and not unlike_units(stats)):
        return None
    deviation = np.sqrt(stats.variances)
    deviation[deviation == 0] = 1.0
    return np.ldexp(deviation, stats.exponent)


def unlike_units(stats: Moments) -> bool:
    """Whether the middle half of the columns' deviations spans more than a factor of ten."""
    deviation = np.sqrt(stats.variances)
    positive = deviation > 0
    sizes = np.log10(deviation[positive]) + np.log10(2.0) * stats.exponent[positive]
    low, high = np.quantile(sizes, [0.25, 0.75])
    return bool(high - low > 1.0 or (sizes.size <= 8 and np.ptp(sizes) > 1.0))


def whiten_domain(domain: Domain, scaled: bool, shrinkage: Any) -> Whitening:
    """The domain's whitening; "auto" shrinks where there are fewer than ten rows a column."""
    scale = column_scale(domain.moments, "std") if scaled else None
    if isinstance(shrinkage, str):
        check_option(shrinkage, "shrinkage", ("auto", "oas"))
        few = domain.effective < ROWS_PER_DIMENSION * domain.moments.width
        return whiten(domain.moments, scale, "oas" if shrinkage == "oas" or few else 0.0)
    amount = 0.0 if shrinkage is None else float(shrinkage)
    if not 0.0 <= amount <= 1.0:
        raise ValueError(
            f"shrinkage should be 'auto', 'oas', None or a number from 0 to 1; got {shrinkage!r}."
        )
    return whiten(domain.moments, scale, amount)


def choose_components(
    whitenings: Sequence[Whitening],
    n_components: int | float | str | None,
    rows: float,
    correspond: bool,
) -> int:
    """Dimensions of the shared space.

    None is all positive eigenvalues common to all; a share keeps that much of the variance of
    each domain; "auto" keeps 99 %, at most a tenth of the smallest domain's rows, and at most 20,
    or 8 where columns correspond.
    """
    most = min(whitening.rank for whitening in whitenings)
    if n_components is None:
        return most
    if isinstance(n_components, str):
        few = max(1, int(rows // ROWS_PER_DIMENSION))
        limit = AUTO_CORRESPONDING if correspond else AUTO_COMPONENTS
        return min(most, few, limit, _share_components(whitenings, AUTO_SHARE))
    if isinstance(n_components, int):
        if n_components > most:
            ranks = ", ".join(str(whitening.rank) for whitening in whitenings)
            raise ValueError(
                f"n_components={n_components}, but the domains support {ranks} dimensions "
                f"(positive eigenvalues of their covariances). Use at most {most}, or None for all."
            )
        return n_components
    return min(most, _share_components(whitenings, n_components))


def _share_components(whitenings: Sequence[Whitening], share: float) -> int:
    return max(int(np.searchsorted(w.shares, share - 1e-12)) + 1 for w in whitenings)


def feature_anchor(source: Whitening, target: Whitening, p: int) -> Matrix:
    """``R₀ = polar(S_A^{1/2} U_Aᵀ U_B S_B^{1/2})`` (p, p), which moves the features least.

    It minimises ``Σ ‖θ_A R z_B − θ_B z_B‖²`` over O(p); the eigenvectors' signs do not matter.
    """
    return polar(source.directions(p).T @ target.directions(p))


def shared_map(whitening: Whitening, p: int, rotation: Matrix | None = None) -> AffineMap:
    """Features to the shared space: ``z Rᵀ`` with ``z`` the whitened row."""
    map_ = whitening.whitener(p)
    if rotation is None:
        return map_
    return map_.then(AffineMap(np.zeros(p), rotation.T, np.zeros(p)))
