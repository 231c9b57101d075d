"""What can be said of an alignment: a verdict, its reasons in sentences, the numbers behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .choice import NO_ADAPTATION, Candidate, no_shift, nothing_fits
from .domain import ROWS_PER_DIMENSION, evenly
from .evidence import Evidence
from .mmd import ExactMMD
from .residual import Residual, residual_test
from .space import SharedSpace, within_sight

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

ALIGNED = "aligned"
NOT_NEEDED = "adaptation not needed"
AMBIGUOUS = "ambiguous"
TOO_LITTLE = "too little data"
NOT_AFFINE = "not an affine shift"

# Candidates whose views of the target differ by less than this share are one answer.
DIFFERENT = 0.05
# Belief (nats) that the best needs over another to count as told from it: odds of 20 to 1 over one
# that sees this share of the target otherwise, in proportion less where less hangs on it.
UNDECIDED, MUCH = 3.0, 0.3
# Nats a row and dimension by which an adapted target may fit worse than the source itself.
MISFIT = 0.25
# Rows a side and leading dimensions, at most, in which the residual is tested, and its level.
TESTED_ROWS, TESTED_DIMENSIONS, LEVEL = 750, 8, 0.01
# Share of rows in classes that gained weight, above which the balance is said to differ.
UNBALANCED = 0.15


@dataclass(frozen=True)
class Diagnosis:
    """``verdict`` in a few words, ``reasons`` in sentences, ``numbers`` behind them.

    ``class_balance`` holds, by class, its share in the source and the share it seems to have in the
    target; empty without class labels.
    """

    verdict: str
    reasons: tuple[str, ...]
    numbers: dict[str, float]
    class_balance: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """What it prints: the numbers are in ``numbers``."""
        return str(self)

    def __str__(self) -> str:
        """The verdict and its reasons as sentences."""
        return "\n".join([f"{self.verdict[0].upper()}{self.verdict[1:]}.", *self.reasons])


def chance_level(space: SharedSpace) -> float:
    """``E MMD_b²`` of two samples of one distribution: ``(1/m + 1/n)(1 − E k)``.

    ``E k`` is estimated within the two domains, without the pairs of a row with itself.
    """
    m, n = (sample.shape[0] for sample in space.samples)
    mean_kernel = 0.5 * (space.exact_mmd().within - 1.0 / m - 1.0 / n)
    return float((1.0 / m + 1.0 / n) * max(0.0, 1.0 - mean_kernel))


def with_residual(candidate: Candidate, evidence: Evidence) -> Candidate:
    """The candidate with the test of what it leaves, unless that is known."""
    if candidate.residual:
        return candidate
    return replace(candidate, residual=astuple(_residual(candidate, evidence)))


def _residual(candidate: Candidate, evidence: Evidence) -> Residual:
    """The test of what the candidate leaves, in the leading dimensions of the source's space."""
    mixtures, target = evidence.mixtures, evidence.space.domains[1].sampled()
    if candidate.rotation is None:
        q = min(TESTED_DIMENSIONS, mixtures.most)
        whitener = mixtures.whitening.whitener(q)
        source, placed = whitener(mixtures.rows), whitener(candidate.target_to_source.plain(target))
    else:
        q = min(TESTED_DIMENSIONS, candidate.rotation.shape[0])
        source = candidate.source.plain(mixtures.rows)[:, :q]
        placed = candidate.target.plain(target)[:, :q]
    sigma = float(np.sqrt(q))  # whitened rows are about √(2q) apart
    rows, labels = np.arange(source.shape[0]), mixtures.labels
    if labels is not None and candidate.balance:
        rows = _of_balance(labels, np.array(candidate.balance))
    rows = evenly(rows, TESTED_ROWS)
    X, Y = within_sight(source[rows], sigma), within_sight(evenly(placed, TESTED_ROWS), sigma)
    classes = None if labels is None else labels[rows]
    return residual_test(X, Y, classes, sigma, evidence.seed)


def _of_balance(labels: npt.NDArray[Any], balance: Vector) -> npt.NDArray[np.intp]:
    """As many rows (k,) as there are that hold the classes in these proportions (c,)."""
    codes, counts = np.unique(labels, return_inverse=True, return_counts=True)[1:]
    kept = np.minimum(counts, np.floor(balance * np.min(counts / np.maximum(balance, 1e-9))))
    places = [np.flatnonzero(codes == code)[: int(k)] for code, k in enumerate(kept)]
    return np.sort(np.concatenate(places))


def standard_error(candidate: Candidate, space: SharedSpace) -> float:
    """Standard error of the candidate's MMD², from the samples on which it was measured."""
    placed = space.placed(candidate.target_to_source)
    return ExactMMD(space.samples[0], placed, space.sigma).standard_error(np.eye(space.p))


def diagnose(
    candidates: Sequence[Candidate],
    evidence: Evidence,
    credit: Vector,
    apart: Vector,
    expected: float,
) -> Diagnosis:
    """Weigh the candidates, best first, against each other and against chance.

    ``credit`` (c,) is theirs without labels, ``apart`` (c,) how differently they see the target,
    ``expected`` the accuracy to expect there.
    """
    space = evidence.space
    best, p, whitenings = candidates[0], space.p, space.whitenings
    rows = min(domain.effective for domain in space.domains)
    rivals = _rivals(candidates, credit, apart)
    residual = Residual(*best.residual)
    numbers = {
        "mmd2": best.mmd2,
        "mmd2_error": standard_error(best, space),
        "mmd2_by_chance": evidence.chance,
        "misfit": best.misfit,
        "residual_mmd2": residual.mmd2,
        "residual_z": residual.z,
        "residual_p": residual.p,
        "components": float(p),
        "rank_source": float(whitenings[0].rank),
        "rank_target": float(whitenings[1].rank),
        "variance_kept_source": float(whitenings[0].shares[p - 1]),
        "variance_kept_target": float(whitenings[1].shares[p - 1]),
        "rows_per_component": rows / p,
        "starts_at_best": float(best.starts),
        "rivals": float(len(rivals)),
        "disagreement": float(max((apart[i] for i in rivals), default=0.0)),
        "labels": float(best.n_labelled),
    }
    if np.isfinite(best.discord):
        numbers["discord"] = best.discord
    if np.isfinite(expected):
        numbers["expected_accuracy"] = expected
    none = next((c for c in candidates if c.kind == NO_ADAPTATION), None)
    if none is not None:
        numbers["mmd2_unadapted"] = none.mmd2
    balance = _class_balance(best, evidence)
    verdict, why = _verdict(candidates, rivals, rows, p)
    reasons = (why, *space.reasons, *_remarks(numbers, space, verdict), *_balance_remark(balance))
    return Diagnosis(verdict, reasons, numbers, balance)


def _class_balance(best: Candidate, evidence: Evidence) -> dict[str, tuple[float, float]]:
    labels = evidence.class_labels()
    if labels is None or not best.balance:
        return {}
    classes, counts = np.unique(labels, return_counts=True)
    shares = zip(classes, counts / counts.sum(), best.balance, strict=True)
    return {str(name): (float(source), float(target)) for name, source, target in shares}


def _balance_remark(balance: dict[str, tuple[float, float]]) -> list[str]:
    """A warning where the classes seem to have other shares in the target."""
    moved = 0.5 * sum(abs(target - source) for source, target in balance.values())
    if moved < UNBALANCED:
        return []
    name = max(balance, key=lambda key: abs(balance[key][1] - balance[key][0]))
    source, target = balance[name]
    return [
        f"The classes seem to have other shares in the target (class {name}: {source:.0%} of the "
        f"source, about {target:.0%} of the target). Means and covariances then differ for that "
        "reason too; see alignment.balance_weights and diagnosis.class_balance."
    ]


def _rivals(candidates: Sequence[Candidate], credit: Vector, apart: Vector) -> list[int]:
    """Candidates that the evidence cannot tell from the best, and that see the target otherwise."""
    support = np.array([candidate.support for candidate in candidates])
    belief = support + credit
    return [
        i
        for i in range(1, len(candidates))
        if apart[i] > DIFFERENT and belief[0] - belief[i] < UNDECIDED * min(1.0, apart[i] / MUCH)
    ]


def _verdict(
    candidates: Sequence[Candidate], rivals: Sequence[int], rows: float, p: int
) -> tuple[str, str]:
    best = candidates[0]
    if rows < ROWS_PER_DIMENSION * p:
        return TOO_LITTLE, (
            f"The smaller domain has {rows:.0f} rows for {p} dimensions; below "
            f"{ROWS_PER_DIMENSION} rows a dimension whitened rows look alike under any rotation. "
            "Lower n_components, or add rows."
        )
    if no_shift(best):
        return NOT_NEEDED, (
            "The target's rows lie among the source's as they are, and predictors that were "
            "trained on the source agree on them as on its own."
        )
    if rivals and not nothing_fits(candidates):
        kinds = ", ".join(dict.fromkeys(candidates[i].kind for i in rivals))
        return AMBIGUOUS, (
            f"The evidence cannot tell {best.kind!r} from {len(rivals)} other candidate(s) that "
            f"see the target differently ({kinds}). Labels of a few target rows would: see "
            "alignment.suggest_labels and alignment.candidates."
        )
    if best.misfit > MISFIT:
        return NOT_AFFINE, (
            f"After the best map found ({best.kind}) the target still does not look like the "
            f"source: its rows are {best.misfit:.2g} nats a dimension less likely than the "
            "source's own. Treat predictions with caution."
        )
    if best.kind == NO_ADAPTATION:
        return NOT_NEEDED, "No map found is better supported than leaving the data as they are."
    return ALIGNED, f"The best map ({best.kind}) leaves MMD² {best.mmd2:.3g}."


def _remarks(numbers: dict[str, float], space: SharedSpace, verdict: str) -> list[str]:
    remarks = []
    if "expected_accuracy" in numbers:
        # what is not affine can only make it worse
        bound = "at most " if verdict == NOT_AFFINE else ""
        remarks.append(
            f"A linear predictor trained on the source should be right on {bound}about "
            "{:.0%} of the target's rows.".format(numbers["expected_accuracy"])
        )
    remarks += [
        "The shared space keeps {:.0%} of the source's variance and {:.0%} of the target's.".format(
            numbers["variance_kept_source"], numbers["variance_kept_target"]
        ),
        "Residual MMD² {:.3g} ± {:.2g}; two samples of one distribution would give {:.3g} on "
        "average.".format(numbers["mmd2"], numbers["mmd2_error"], numbers["mmd2_by_chance"]),
        _of_residual(numbers["residual_p"]),
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


def _of_residual(p: float) -> str:
    if p > LEVEL:
        return (
            f"What the map leaves is what sampling would leave of an affine shift (p = {p:.2g}, a "
            "test that allows for the map having been fitted)."
        )
    return (
        f"What the map leaves is more than sampling would leave of an affine shift (p = {p:.2g}, "
        "a test that allows for the map having been fitted): the shift is not only affine, or "
        "this is not quite its map."
    )
