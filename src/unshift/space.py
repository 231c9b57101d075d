"""The shared space before any rotation: every domain whitened, one dimension, one bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from ._checks import check_components, check_option, check_positive
from .affine import AffineMap
from .domain import (
    Domain,
    choose_components,
    feature_anchor,
    features_correspond,
    shared_map,
    unlike_units,
    whiten_domain,
    without_outliers,
)
from .mmd import ExactMMD, median_bandwidth
from .stiefel import polar
from .whitening import Whitening

Matrix = npt.NDArray[np.float64]
T = TypeVar("T")


# Bandwidths away at which the kernel is nothing, and its exponent still exact in float32.
FAR = 1e3
# Dimensions at which "auto" offers the anchored rotation, and the rows that each of them needs.
ANCHOR_SIZES, ROWS_PER_ANCHOR = (5, 10, 20), 5


@dataclass(frozen=True)
class SpaceSettings:
    """How a shared space is made; described in docs/options.md."""

    n_components: int | float | str | None = "auto"
    bandwidth: float | str = "auto"
    same_features: bool | str = "auto"
    scale: str | None = "auto"
    shrinkage: float | str | None = "auto"
    outliers: str = "auto"

    def checked(self) -> SpaceSettings:
        """Itself, after refusing what makes no sense."""
        check_components(self.n_components)
        if self.bandwidth != "auto":
            if isinstance(self.bandwidth, str):
                raise ValueError(
                    f"bandwidth should be a number above zero or 'auto'; got {self.bandwidth!r}."
                )
            check_positive(self.bandwidth, "bandwidth")
        check_option(self.scale, "scale", ("auto", "std", None))
        check_option(self.outliers, "outliers", ("auto", "keep"))
        return self


@dataclass(frozen=True, eq=False)
class SharedSpace:
    """Domains whitened into p dimensions; the first is the source, and sets the space.

    ``samples`` holds the whitened sample of each domain (k, p), ``correspond`` whether its columns
    are those of the source, ``sigma`` the kernel's bandwidth, ``reasons`` what was assumed: a
    sentence for each domain but the source, then those about all of them.
    """

    domains: tuple[Domain, ...]
    whitenings: tuple[Whitening, ...]
    samples: tuple[Matrix, ...]
    correspond: tuple[bool, ...]
    p: int
    sigma: float
    settings: SpaceSettings
    reasons: tuple[str, ...]
    anchor_sizes: tuple[int, ...]

    def anchor(self, i: int) -> Matrix | None:
        """The feature anchor of domain i; None where its columns do not correspond."""
        if not self.correspond[i]:
            return None
        return feature_anchor(self.whitenings[0], self.whitenings[i], self.p)

    def to_shared(self, i: int, rotation: Matrix | None = None, p: int | None = None) -> AffineMap:
        """Features of domain i to the shared space, or to one of another dimension."""
        shared = shared_map(self.whitenings[i], self.p if p is None else p, rotation)
        return shared.renamed(self.domains[i].names, None)

    def to_source(self, p: int | None = None) -> AffineMap:
        """The shared space to the source's features."""
        colourer = self.whitenings[0].colourer(self.p if p is None else p)
        return colourer.renamed(None, self.domains[0].names)

    def unadapted(self, i: int) -> Matrix:
        """Sample of domain i where the source's own whitening puts it (k, p).

        Rows that would lie out of any kernel's sight are brought to its edge: in units unlike the
        source's they could be so far that squares of their distances overflow.
        """
        rows: Matrix = self.whitenings[0].whitener(self.p)(self.domains[i].sampled())
        return self.within_sight(rows)

    def placed(self, candidate_map: AffineMap) -> Matrix:
        """Sample of the target where a map to source features puts it in the shared space."""
        rows = candidate_map.plain(self.domains[1].sampled())
        return self.within_sight(self.whitenings[0].whitener(self.p)(rows))

    def within_sight(self, rows: Matrix) -> Matrix:
        """Rows with those beyond any kernel's sight brought to its edge."""
        return within_sight(rows, self.sigma)

    def exact_mmd(self, i: int = 1) -> ExactMMD:
        """``R -> MMD²`` between the samples of the source and of domain i, rotated by ``R``."""
        return ExactMMD(self.samples[0], self.samples[i], self.sigma)

    def pair(self, i: int) -> SharedSpace:
        """The same space with the source and domain i only."""
        return replace(
            self,
            domains=(self.domains[0], self.domains[i]),
            whitenings=(self.whitenings[0], self.whitenings[i]),
            samples=(self.samples[0], self.samples[i]),
            correspond=(True, self.correspond[i]),
            anchor_sizes=tuple(p for p in self.anchor_sizes if p <= self.whitenings[i].rank),
            reasons=(self.reasons[i - 1], *self.reasons[len(self.domains) - 1 :]),
        )

    def with_domain(self, i: int, domain: Domain) -> SharedSpace:
        """The space with another domain at ``i``, or one more; the others stay as they are."""
        same, reason = _correspondence(self.domains[0], domain, self.settings.same_features)
        whitening = self._whitening(domain)
        said = len(self.domains) - 1
        return replace(
            self,
            domains=put(self.domains, i, domain),
            whitenings=put(self.whitenings, i, whitening),
            samples=put(self.samples, i, self.within_sight(_whitened(domain, whitening, self.p))),
            correspond=put(self.correspond, i, same),
            reasons=(*put(self.reasons[:said], i - 1, reason), *self.reasons[said:]),
        )

    def _whitening(self, domain: Domain) -> Whitening:
        """Of a domain with new rows, which must support the space's dimensions."""
        whitening = whiten_domain(domain, self.settings.scale == "std", self.settings.shrinkage)
        if whitening.rank < self.p:
            raise ValueError(
                f"The shared space has {self.p} dimensions, but the new rows support only "
                f"{whitening.rank} (positive eigenvalues of their covariance). Add rows, "
                "or align all domains again."
            )
        return whitening

    def trimmed(self) -> SharedSpace:
        """The same space, holding on to the sampled rows only."""
        return replace(self, domains=tuple(domain.trimmed() for domain in self.domains))

    def extended(self, i: int, rows: FloatArray) -> SharedSpace:
        """The space with more rows in domain i: moments merged, rows added to its sample."""
        domains = list(self.domains)
        domains[i] = domains[i].extended(rows)
        self._whitening(domains[i])
        return replace(share_space(domains, self.settings), anchor_sizes=self.anchor_sizes)

    def carried(self, i: int, old: AffineMap) -> Matrix:
        """The rotation (p, p) of this space that comes nearest to an old map of domain i.

        ``min_R ‖W Rᵀ − M‖`` in the metric of the data: ``Rᵀ = polar(θᵀ M)``, ``θ`` the colourer.
        """
        return polar(self.whitenings[i].colourer(self.p).matrix @ old.matrix).T


def share_space(domains: Sequence[Domain], settings: SpaceSettings) -> SharedSpace:
    """Whiten every domain, and settle dimension and bandwidth."""
    if settings.outliers == "auto":
        domains = without_outliers(domains)
    source = domains[0]
    answers = [_correspondence(source, domain, settings.same_features) for domain in domains[1:]]
    scaled = settings.scale == "std" or (
        settings.scale == "auto" and any(unlike_units(domain.moments) for domain in domains)
    )
    whitenings = [whiten_domain(domain, scaled, settings.shrinkage) for domain in domains]
    rows = min(domain.effective for domain in domains)
    correspond = (True, *(same for same, _ in answers))
    asked = check_components(settings.n_components)
    p = choose_components(whitenings, asked, rows, all(correspond))
    samples = tuple(
        _whitened(domain, whitening, p)
        for domain, whitening in zip(domains, whitenings, strict=True)
    )
    sigma = (
        median_bandwidth(samples[0])
        if isinstance(settings.bandwidth, str)
        else float(settings.bandwidth)
    )
    samples = tuple(within_sight(rows, sigma) for rows in samples)
    reasons = [sentence for _, sentence in answers]
    if scaled and settings.scale == "auto":
        reasons.append("Columns were divided by their deviations: their units differ widely.")
    settled = replace(
        settings,
        n_components=p,
        bandwidth=sigma,
        scale="std" if scaled else None,
        outliers="keep",
    )
    return SharedSpace(
        domains=tuple(domains),
        whitenings=tuple(whitenings),
        samples=samples,
        correspond=correspond,
        p=p,
        sigma=sigma,
        settings=settled,
        reasons=tuple(reasons),
        anchor_sizes=_anchor_sizes(settings.n_components, whitenings, p, rows),
    )


def _anchor_sizes(
    asked: int | float | str | None, whitenings: Sequence[Whitening], p: int, rows: float
) -> tuple[int, ...]:
    """Dimensions at which the anchored rotation is offered: as asked, or several for "auto"."""
    if asked != "auto":
        return (p,)
    most = min(*(whitening.rank for whitening in whitenings), int(rows // ROWS_PER_ANCHOR))
    sizes = {p, *(size for size in ANCHOR_SIZES if size <= most)}
    # fewer dimensions than the least of these only where there are no more
    return tuple(sorted(size for size in sizes if size >= ANCHOR_SIZES[0])) or (p,)


def within_sight(rows: Matrix, sigma: float) -> Matrix:
    """Rows (n, p) with those farther than FAR bandwidths from the origin brought that near."""
    edge = FAR * max(1.0, sigma)
    largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1.0)
    norms = largest * np.linalg.norm(rows / largest, axis=1, keepdims=True)
    seen: Matrix = rows * (edge / np.maximum(norms, edge))
    return seen


def put(items: tuple[T, ...], i: int, item: T) -> tuple[T, ...]:
    """The items with another at ``i``, or one more at the end."""
    return (*items[:i], item, *items[i + 1 :])


def _correspondence(source: Domain, target: Domain, asked: Any) -> tuple[bool, str]:
    widths = (source.rows.shape[1], target.rows.shape[1])
    return features_correspond(source.names, target.names, widths, asked)


def _whitened(domain: Domain, whitening: Whitening, p: int) -> Matrix:
    rows: Matrix = whitening.whitener(p)(domain.sampled())
    return rows
