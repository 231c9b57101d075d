"""What can be said of an alignment: a verdict, its reasons in sentences, the numbers behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .choice import NO_ADAPTATION, Candidate
from .domain import ROWS_PER_DIMENSION
from .mmd import ExactMMD
from .space import SharedSpace

Matrix = npt.NDArray[np.float64]

ALIGNED = "aligned"
NOT_NEEDED = "adaptation not needed"
AMBIGUOUS = "ambiguous"
TOO_LITTLE = "too little data"


@dataclass(frozen=True)
class Diagnosis:
    """``verdict`` in a few words, ``reasons`` in sentences, ``numbers`` behind them."""

    verdict: str
    reasons: tuple[str, ...]
    numbers: dict[str, float]

    def __str__(self) -> str:
        """The verdict and its reasons as sentences."""
        return "\n".join([f"{self.verdict[0].upper()}{self.verdict[1:]}.", *self.reasons])


def chance_level(Z_source: Matrix, Z_target: Matrix, sigma: float) -> float:
    """``E MMD_b²`` of two samples of one distribution: ``(1/m + 1/n)(1 − E k)``.

    ``E k`` is estimated within the two domains, without the pairs of a row with itself.
    """
    m, n = Z_source.shape[0], Z_target.shape[0]
    within = ExactMMD(Z_source, Z_target, sigma).within
    mean_kernel = 0.5 * (within - 1.0 / m - 1.0 / n)
    return (1.0 / m + 1.0 / n) * max(0.0, 1.0 - mean_kernel)


def diagnose(
    candidates: Sequence[Candidate],
    space: SharedSpace,
    chance: float,
) -> Diagnosis:
    """Weigh the candidates, best first, against each other and against chance."""
    best, p, whitenings = candidates[0], space.p, space.whitenings
    rows = min(domain.effective for domain in space.domains)
    rivals = _rivals(candidates, chance)
    numbers = {
        "mmd2": best.mmd2,
        "mmd2_by_chance": chance,
        "components": float(p),
        "rank_source": float(whitenings[0].rank),
        "rank_target": float(whitenings[1].rank),
        "variance_kept_source": float(whitenings[0].shares[p - 1]),
        "variance_kept_target": float(whitenings[1].shares[p - 1]),
        "rows_per_component": rows / p,
        "starts_at_best": float(best.starts),
        "rivals": float(len(rivals)),
        "labels": float(best.n_labelled),
    }
    none = next((c for c in candidates if c.kind == NO_ADAPTATION), None)
    if none is not None:
        numbers["mmd2_unadapted"] = none.mmd2
    verdict, why = _verdict(best, rivals, rows, p)
    return Diagnosis(verdict, (why, *space.reasons, *_remarks(numbers, space)), numbers)


def _rivals(candidates: Sequence[Candidate], chance: float) -> list[Candidate]:
    """Other rotations that fit as well as the best but for chance; labels do not rule them out."""
    best = candidates[0]
    if best.rotation is None:
        return []
    limit = best.mmd2 + chance
    return [
        c
        for c in candidates[1:]
        if c.rotation is not None
        and c.mmd2 <= limit
        and not c.error > best.error
        and c.kind != best.kind
    ]


def _verdict(best: Candidate, rivals: Sequence[Candidate], rows: float, p: int) -> tuple[str, str]:
    if rows < ROWS_PER_DIMENSION * p:
        return TOO_LITTLE, (
            f"The smaller domain has {rows:.0f} rows for {p} dimensions; below "
            f"{ROWS_PER_DIMENSION} rows a dimension whitened rows look alike under any rotation. "
            "Lower n_components, or add rows."
        )
    if best.kind == NO_ADAPTATION:
        return NOT_NEEDED, "No alignment found is better supported than leaving the data alone."
    if rivals and not best.n_labelled:
        return AMBIGUOUS, (
            f"{len(rivals)} other alignment(s) fit as well but for chance; see "
            "alignment.candidates. A few target labels would tell them apart."
        )
    return ALIGNED, (
        f"The best alignment ({best.kind}) leaves MMD² {best.mmd2:.3g}; "
        f"{best.starts} of the descents met there."
    )


def _remarks(
    numbers: dict[str, float],
    space: SharedSpace,
) -> list[str]:
    remarks = [
        "The shared space keeps {:.0%} of the source's variance and {:.0%} of the target's.".format(
            numbers["variance_kept_source"], numbers["variance_kept_target"]
        ),
        "Residual MMD² {:.3g}; two samples of one distribution would give {:.3g} on "
        "average.".format(numbers["mmd2"], numbers["mmd2_by_chance"]),
    ]
    for domain, name in zip(space.domains, ("source", "target"), strict=True):
        if domain.tamed:
            remarks.append(f"{domain.tamed} far rows of the {name} counted less in its moments.")
    for whitening, name in zip(space.whitenings, ("source", "target"), strict=True):
        if whitening.shrinkage > 0:
            remarks.append(
                f"The {name}'s covariance was shrunk by {whitening.shrinkage:.2f}: "
                "few rows a column."
            )
    return remarks
