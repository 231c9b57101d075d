"""``Alignment``: the candidates, the one in force, and what can still be done with them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from . import plots, storage
from ._checks import check_matrix, check_names, check_width
from .affine import AffineMap
from .cards import candidates as described
from .cards import card
from .choice import (
    ANCHOR,
    NO_ADAPTATION,
    Candidate,
    judge,
    nothing_fits,
    rank,
    weigh,
)
from .diagnosis import Diagnosis, chance_level, diagnose, with_residual
from .domain import evenly
from .evidence import (
    COMPARED,
    Evidence,
    Examples,
    candidates_of,
    credit_of,
    with_blend,
    with_misfits,
)
from .fold import fold_candidate
from .labels import Labels, check_labels, read_labels
from .scene import panels_of
from .search import Found
from .stiefel import minimize
from .suggestion import Suggestion, suggest
from .views import places_apart, see

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

# In the header of a saved file: what it holds.
KIND = "alignment"
# Rows, at most, among which those worth labelling are sought.
SUGGESTED_FROM = 4000


@dataclass(frozen=True, eq=False)
class Alignment:
    """Affine maps of two domains into one space, how they were chosen, and what to think of them.

    ``candidates`` are the distinct alignments found, best first; the first one is in force.
    """

    candidates: tuple[Candidate, ...]
    diagnosis: Diagnosis
    n_components: int
    bandwidth: float
    same_features: bool
    evidence: Evidence | None = None

    @property
    def source(self) -> AffineMap:
        """Source features to the shared space."""
        return self.candidates[0].source

    @property
    def target(self) -> AffineMap:
        """Target features to the shared space."""
        return self.candidates[0].target

    @property
    def target_to_source(self) -> AffineMap:
        """Target features to source features, for a model already deployed on the source."""
        return self.candidates[0].target_to_source

    @property
    def rotation(self) -> Matrix | None:
        """``R`` (p, p) in O(p); None for 'no adaptation'."""
        return self.candidates[0].rotation

    @property
    def mmd2(self) -> float:
        """``MMD_b²`` that the alignment leaves, in the source's whitened space."""
        return self.candidates[0].mmd2

    def prefer(self, i: int) -> Alignment:
        """The same alignment with candidate ``i`` put in force by hand."""
        chosen = self.candidates[i]
        others = tuple(c for c in self.candidates if c is not chosen)
        reasons = (
            f"Candidate {i} ({chosen.kind}) was put in force by hand.",
            *self.diagnosis.reasons,
        )
        return replace(
            self,
            candidates=(chosen, *others),
            diagnosis=replace(self.diagnosis, reasons=reasons),
        )

    def fold(self, model: Any, *, space: str = "auto") -> Any:
        """A copy of the fitted linear ``model`` that takes the target's raw features.

        Its coefficients are ``W Mᵀ`` and its intercept ``w₀ + b Wᵀ − c (W Mᵀ)ᵀ``, with the map ``x
        -> (x − c) M + b`` before it: its answers are those of the model behind the map, up to
        rounding. ``space`` says what the model was trained on, "source" features or
        ``alignment.source(X)``, "shared"; "auto" sees it from width and names, and asks where
        both would do. Scalers and PCA before it in a Pipeline are folded too, so that what comes
        back is the linear model alone. Whatever is not linear is refused.
        """
        return fold_candidate(model, self.candidates[0], space)

    def update(self, X_target: Any, y_target: Any = None) -> Alignment:
        """A new alignment with new labels, or with more target rows.

        With ``y_target`` the rows are evidence for the choice among the candidates, added to the
        labels known so far, and the maps stay as they are. Without it they are more rows of the
        target: its moments are merged with theirs and every candidate descends again from where
        it stands.
        """
        evidence = self._evidence()
        check_names(X_target, evidence.space.domains[1].names, "X_target")
        rows = check_matrix(X_target, "X_target", min_rows=1 if y_target is not None else 2)
        check_width(rows, evidence.space.domains[1].rows.shape[1], "X_target")
        if y_target is None:
            return _with_rows(self, evidence, rows)
        return _with_labels(self, evidence, rows, y_target)

    def suggest_labels(self, X_target: Any, k: int) -> Suggestion:
        """The k rows of ``X_target`` whose labels would best tell the standing candidates apart.

        Use the answer as an index of rows; it also says how far their labels should settle the
        choice. Pass the labels to ``update``.
        """
        evidence = self._evidence()
        check_names(X_target, evidence.space.domains[1].names, "X_target")
        rows = check_matrix(X_target, "X_target", min_rows=1)
        check_width(rows, evidence.space.domains[1].rows.shape[1], "X_target")
        views = see(self.candidates, evidence)
        if views is None:
            raise ValueError(
                "Labels tell candidates apart through a predictor trained on the source, and this "
                "alignment was made without y_source (or with one class). Align again with it."
            )
        at = evenly(np.arange(rows.shape[0]), max(k, SUGGESTED_FROM))
        found = suggest(views, rows[at].astype(np.float64), k, evidence.seed)
        return replace(found, rows=at[found.rows])

    def balance_weights(self, y_source: Any) -> Vector:
        """Weights of source rows (n,) that give its classes the target's estimated shares.

        For ``sample_weight`` of the predictor, or ``sample_weight_source`` of another ``align``,
        which then takes its moments at the target's balance.
        """
        balance = self.diagnosis.class_balance
        if not balance:
            raise ValueError(
                "The target's class balance was not estimated: that needs y_source with classes."
            )
        values = np.asarray(y_source).astype(str)
        unknown = sorted(set(values.tolist()) - set(balance))
        if unknown:
            raise ValueError(
                f"y_source holds classes that were not aligned: {unknown[:5]}. "
                f"Expected those of the fit: {list(balance)[:10]}."
            )
        return np.array([balance[value][1] / balance[value][0] for value in values])

    def plot(self, candidate: int = 0, *, axes: Sequence[Any] | None = None) -> Array:
        """Both domains before, and under a candidate: two matplotlib axes (2,).

        They show the source's whitened space, in the plane where the source's labels part most.
        ``axes`` are two to draw on; new ones otherwise.
        """
        return self._drawn([candidate], axes, 2)

    def plot_candidates(self, most: int = 6, *, axes: Sequence[Any] | None = None) -> Array:
        """Both domains before, and under each of the best candidates: matplotlib axes (k + 1,)."""
        looked = list(range(min(most, len(self.candidates))))
        return self._drawn(looked, axes, min(4, len(looked) + 1))

    def plot_mmd(self, *, ax: Any = None) -> Any:
        """The MMD that the candidates leave and where all starts ended: matplotlib axes."""
        ends = () if self.evidence is None else self.evidence.descents
        rows = described(self.candidates)
        if ax is None:
            ax = plots.new_axes(1, 1, 6.4, 1.2 + 0.3 * len(rows))[0, 0]
        chance = self.diagnosis.numbers.get("mmd2_by_chance")
        return plots.discrepancies(rows, chance, ends, ax)

    def _drawn(self, looked: list[int], axes: Sequence[Any] | None, columns: int) -> Array:
        evidence = self._evidence("drawn. Map rows with alignment.source and alignment.target")
        views = panels_of(self.candidates, looked, evidence)
        laid = plots.laid_out(len(views), columns, axes)
        plots.panels(views, "" if evidence.trained is None else "label", laid)
        return laid

    def _evidence(
        self, refused: str = "updated. Align again with the old and the new rows"
    ) -> Evidence:
        if self.evidence is None:
            raise ValueError(
                "This alignment comes from a file, which holds no rows of data, so it cannot be "
                f"{refused}."
            )
        return self.evidence

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write maps, candidates and diagnosis to one file, without any row of the data.

        The file holds no pickle, names its version and carries a checksum; ``unshift.load`` gives
        the same bits back.
        """
        storage.write(path, *pack_alignment(self))

    def __repr__(self) -> str:
        """What was chosen and the verdict."""
        return (
            f"<Alignment {self.candidates[0].kind!r}: {self.target.width_in} target features, "
            f"{self.n_components} components, MMD² {self.mmd2:.3g}, {self.diagnosis.verdict}>"
        )

    def _repr_html_(self) -> str:
        """A card for notebooks: verdict, reasons, maps and candidates."""
        names = ("source", "target", "target_to_source")
        return card(self.diagnosis, self.candidates, {name: getattr(self, name) for name in names})


def decide(candidates: Sequence[Candidate], evidence: Evidence) -> Alignment:
    """Weigh the candidates by all there is to go by, rank them, and say what to think of it."""
    space, trained, labelled = evidence.space, evidence.trained, evidence.labelled
    if not all(np.isfinite(c.misfit) for c in candidates):  # labels that come later change none
        candidates = with_misfits(candidates, evidence)
    if trained is not None and labelled is not None:
        candidates = judge(
            candidates,
            (trained.rows, trained.labels),
            (labelled.rows, labelled.labels),
            evidence.task,
            evidence.estimator,
        )
    sample = evenly(space.domains[1].sampled(), COMPARED)
    fresh = not all(np.isfinite(c.discord) for c in candidates)
    views = see(candidates, evidence, heard=fresh)
    if views is not None and fresh:
        views = views.with_facts(sample)
        candidates = views.candidates
    credit = credit_of(candidates, evidence)
    weighed = weigh(candidates, credit)
    order = rank(weighed, evidence.choice, credit)
    best, *others = (weighed[i] for i in order)
    ranked, credit = (with_residual(best, evidence), *others), credit[order]
    if views is None:
        apart, expected = places_apart(ranked, evidence), float("nan")
    else:
        views = views.ordered(ranked, order)
        apart = views.apart(views.of(sample))
        expected = views.expected_accuracy(apart)
    if evidence.assumed and ranked[0].kind != NO_ADAPTATION and not nothing_fits(ranked):
        # a rotation that fits as well would say that the columns do not correspond after all
        credit = credit_of(ranked, evidence, unbound=0.0)
    diagnosis = diagnose(ranked, evidence, credit, apart, expected)
    kept = replace(evidence, space=space.trimmed())
    rotation = ranked[0].rotation
    p = space.p if rotation is None else rotation.shape[0]
    return Alignment(ranked, diagnosis, p, space.sigma, space.correspond[1], kept)


def _with_labels(alignment: Alignment, evidence: Evidence, rows: Array, y_target: Any) -> Alignment:
    """The same candidates, judged by all labels known so far."""
    if evidence.trained is None:
        raise ValueError(
            "Target labels choose among alignments through a predictor trained on the source, and "
            "this alignment was made without y_source. Align again with y_source and y_target."
        )
    labels = read_labels(y_target, rows.shape[0], "y_target")
    check_labels(Labels.all_known(evidence.trained.labels), labels, evidence.task)
    fresh = Examples(rows[labels.known], labels.given)
    old = evidence.labelled
    if old is not None:
        fresh = Examples(
            np.concatenate([old.rows, fresh.rows]), np.concatenate([old.labels, fresh.labels])
        )
    return decide(alignment.candidates, replace(evidence, labelled=fresh))


def _with_rows(alignment: Alignment, evidence: Evidence, rows: Array) -> Alignment:
    """The candidates' rotations, descended again with the target's moments of all rows."""
    space = evidence.space.extended(1, rows)
    exact = space.exact_mmd()
    found = []
    for candidate in alignment.candidates:
        if candidate.rotation is None or candidate.kind.startswith(f"{ANCHOR}, "):
            continue  # moments alone make these anew
        start = space.carried(1, candidate.target)
        minimum = minimize(exact.value_and_gradient, start)
        found.append(Found(minimum.point, minimum.value, candidate.kind, candidate.starts))
    chance = chance_level(space)
    evidence = replace(evidence, space=space, chance=chance)
    return decide(with_blend(candidates_of(evidence, found), evidence), evidence)


def pack_alignment(alignment: Alignment) -> tuple[dict[str, Any], dict[str, Matrix]]:
    """Header and arrays for ``storage.write``."""
    arrays: dict[str, Matrix] = {}
    header = {
        "kind": KIND,
        "n_components": alignment.n_components,
        "bandwidth": alignment.bandwidth,
        "same_features": alignment.same_features,
        "diagnosis": storage.pack_diagnosis(alignment.diagnosis),
        "candidates": [
            storage.pack_candidate(candidate, f"{i}", arrays)
            for i, candidate in enumerate(alignment.candidates)
        ],
    }
    return header, arrays


def unpack_alignment(header: dict[str, Any], arrays: dict[str, Matrix]) -> Alignment:
    """The alignment that ``pack_alignment`` described, without evidence."""
    return Alignment(
        tuple(
            storage.unpack_candidate(fields, f"{i}", arrays)
            for i, fields in enumerate(header["candidates"])
        ),
        storage.unpack_diagnosis(header["diagnosis"]),
        header["n_components"],
        header["bandwidth"],
        header["same_features"],
    )
