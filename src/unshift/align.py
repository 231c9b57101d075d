"""``align``: two domains in, affine maps out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from . import storage
from ._checks import check_matrix, check_names, check_option, check_width, generator
from .affine import AffineMap
from .choice import ANCHOR, NO_ADAPTATION, Candidate, judge, rank
from .diagnosis import Diagnosis, chance_level, diagnose
from .domain import Domain, draw_rows, read_domain
from .joint import refine_jointly
from .labels import Labels, check_labels, read_labels, task_of
from .mmd import ExactMMD
from .predictors import default_estimator
from .search import Found, search
from .space import SharedSpace, SpaceSettings, share_space
from .stiefel import minimize

Matrix = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

# What a file holds of a candidate, beside its rotation.
MAPS = ("source", "target", "target_to_source")
NUMBERS = ("kind", "mmd2", "displacement", "starts", "error", "n_labelled")
# A joint refinement starts from this many of the best rotations.
JOINT_STARTS = 4


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of features with labels: source rows to train on, target rows to judge by."""

    rows: Array
    labels: Array


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the choice went by, in samples of rows: what ``update`` needs, and nothing more."""

    space: SharedSpace
    trained: Examples | None
    labelled: Examples | None
    task: str
    estimator: Any
    choice: str
    chance: float


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
        reasons = (f"Candidate {i} ({chosen.kind}) was put in force by hand.", *self.diagnosis.reasons)
        return replace(
            self,
            candidates=(chosen, *others),
            diagnosis=replace(self.diagnosis, reasons=reasons),
        )

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

    def _evidence(self) -> Evidence:
        if self.evidence is None:
            raise ValueError(
                "This alignment comes from a file, which holds no rows of data, so it cannot be updated. "
                "Align again with the old and the new rows."
            )
        return self.evidence

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write maps, candidates and diagnosis to one file, without any row of the data.

        The file holds no pickle, names its version and carries a checksum; ``unshift.load`` gives
        the same bits back.
        """
        storage.write(path, *_packed(self))

    def __repr__(self) -> str:
        """What was chosen and the verdict."""
        return (
            f"<Alignment {self.candidates[0].kind!r}: {self.target.width_in} target features, "
            f"{self.n_components} components, MMD² {self.mmd2:.3g}, {self.diagnosis.verdict}>"
        )


def align(
    X_source: Any,
    X_target: Any,
    y_source: Any = None,
    y_target: Any = None,
    *,
    n_components: int | float | str | None = "auto",
    bandwidth: float | str = "auto",
    same_features: bool | str = "auto",
    choice: str = "auto",
    loss: str = "mmd",
    loss_weights: tuple[float, float] | str = "auto",
    scale: str | None = "auto",
    shrinkage: float | str | None = "auto",
    outliers: str = "auto",
    estimator: Any = None,
    task: str = "auto",
    sample_weight_source: Any = None,
    sample_weight_target: Any = None,
    n_starts: int | str = "auto",
    n_jobs: int | None = None,
    callback: Callable[..., Any] | None = None,
    random_state: Any = None,
) -> Alignment:
    """Find affine maps of two domains into one space, from unpaired rows.

    Each domain is whitened by its own moments; what is left is an orthogonal matrix ``R``, and it
    minimises ``MMD²(Z_A, Z_B Rᵀ)``, the maximum mean discrepancy with a Gaussian kernel.

    Parameters
    ----------
    X_source, X_target : array or frame, (n, d) and (m, e)
        Rows of the two domains, unpaired, of equal or different widths.
    y_source, y_target : array, optional
        Labels: classes of any kind, or numbers with fractions for regression. In ``y_target``
        None, NaN and NA stand for unknown; a few known ones choose among the alignments found.
    n_components : int, float in (0, 1), None or "auto"
        Dimensions of the shared space; or the share of variance that it keeps of each domain; or
        None for all positive eigenvalues common to both. "auto" keeps 95 %, at most a tenth of
        the smaller domain's rows and at most 20.
    bandwidth : float or "auto"
        ``σ`` of the kernel in the shared space; "auto" is the source rows' median distance / √2.
    same_features : bool or "auto"
        Whether the columns correspond. "auto": identical names, or unnamed equal widths.
    choice : "auto" or "paper"
        How to rank candidates. With target labels both take the lowest error, ties by less
        adaptation, then MMD². Without, "paper" takes the lowest MMD²; "auto" prefers the descent
        from the feature anchor where columns correspond.
    loss : "mmd" or "joint"
        "joint" goes on from the best rotations with MMD² plus weighted losses of one linear
        predictor on source and on labelled target rows (``loss_weights``, or "auto").
    scale : "auto", "std" or None
        "std" divides each column by its deviation; "auto" does so where units differ widely.
    shrinkage : "auto", "oas", float in [0, 1] or None
        Weight of a multiple of the identity in the covariances; "auto" is the oracle
        approximating estimator where there are fewer than ten rows a column, else none.
    outliers : "auto" or "keep"
        "auto" weighs far rows down in both domains' moments where either has some.
    estimator : scikit-learn estimator, optional
        Trained on the source to judge candidates by labels; logistic or ridge regression if None.
    task : "auto", "classification" or "regression"
        What the labels ask for; "auto" sees it from ``y_source``.
    sample_weight_source, sample_weight_target : array, optional
        Weights that count as repetitions of rows.
    n_starts, n_jobs, callback
        Effort of the search, its workers (joblib), and a function that is told its progress.
    random_state : int, Generator or None
        The same seed gives the same result.

    Returns
    -------
    Alignment
        Its ``source`` and ``target`` maps are called on rows; see also ``candidates``,
        ``diagnosis``, ``target_to_source``, ``update`` and ``save``.
    """
    check_option(choice, "choice", ("auto", "paper"))
    check_option(loss, "loss", ("mmd", "joint"))
    check_option(task, "task", ("auto", "classification", "regression"))
    settings = SpaceSettings(n_components, bandwidth, same_features, scale, shrinkage, outliers)
    settings.checked()
    rng = generator(random_state)
    domains = (
        read_domain(X_source, "X_source", sample_weight_source, rng),
        read_domain(X_target, "X_target", sample_weight_target, rng),
    )
    labels = _read_both(y_source, y_target, domains)
    if task == "auto":
        task = "classification" if labels[0] is None else task_of(labels[0])
    check_labels(*labels, task)
    space = share_space(domains, settings)
    trained = _examples(domains[0], labels[0], rng)
    labelled = _examples(domains[1], labels[1], rng)
    found = search(
        *space.samples,
        sigma=space.sigma,
        rng=rng,
        anchor=space.anchor(1),
        class_means=_class_means(space, trained, labelled, task),
        n_starts=n_starts,
        n_jobs=n_jobs,
        callback=callback,
    ).found
    if loss == "joint":
        found = _refined(space, found, trained, labelled, task, loss_weights, rng)
    candidates = _candidates(space, found)
    chance = chance_level(*space.samples, space.sigma)
    estimator = default_estimator(task) if estimator is None else estimator
    evidence = Evidence(space, trained, labelled, task, estimator, choice, chance)
    return _decide(candidates, evidence)


def _read_both(
    y_source: Any, y_target: Any, domains: tuple[Domain, Domain]
) -> tuple[Labels | None, Labels | None]:
    pairs = zip((y_source, y_target), domains, ("y_source", "y_target"), strict=True)
    source, target = (
        None if y is None else read_labels(y, domain.rows.shape[0], name)
        for y, domain, name in pairs
    )
    return source, target


def _examples(domain: Domain, labels: Labels | None, rng: np.random.Generator) -> Examples | None:
    """A sample of the labelled rows, a row of weight k as k rows."""
    if labels is None:
        return None
    mask = labels.known.astype(np.float64)
    weights = mask if domain.weights is None else mask * domain.weights
    rows = draw_rows(labels.known.size, weights, rng)
    return Examples(domain.rows[rows], labels.values[rows])


def _class_means(
    space: SharedSpace, trained: Examples | None, labelled: Examples | None, task: str
) -> tuple[Matrix, Matrix] | None:
    """Whitened means (k, p) of the classes that have labelled target rows, in both domains."""
    if trained is None or labelled is None or task != "classification":
        return None
    classes = np.unique(labelled.labels)
    if classes.size < 2:
        return None
    source, target = space.to_shared(0)(trained.rows), space.to_shared(1)(labelled.rows)
    return (
        np.stack([source[trained.labels == c].mean(axis=0) for c in classes]),
        np.stack([target[labelled.labels == c].mean(axis=0) for c in classes]),
    )


def _refined(
    space: SharedSpace,
    found: Sequence[Found],
    trained: Examples | None,
    labelled: Examples | None,
    task: str,
    weights: tuple[float, float] | str,
    rng: np.random.Generator,
) -> list[Found]:
    """The best rotations and the anchored one, descended on in the joint loss."""
    if trained is None:
        raise ValueError(
            'loss="joint" weighs MMD² against the loss of a predictor, which needs y_source. '
            'Pass y_source, or use loss="mmd".'
        )
    starts = [f for i, f in enumerate(found) if i < JOINT_STARTS or f.kind == ANCHOR]
    width = space.domains[1].rows.shape[1]
    rows = np.empty((0, width)) if labelled is None else labelled.rows
    minima = refine_jointly(
        space.to_shared(0)(trained.rows).astype(np.float64),
        trained.labels,
        space.samples[1],
        space.whitenings[1].whitener(space.p)(rows.astype(np.float64)) if rows.size else rows[:, :0],
        np.empty(0) if labelled is None else labelled.labels,
        [f.rotation for f in starts],
        sigma=space.sigma,
        task=task,
        weights=weights,
        rng=rng,
    )
    exact = ExactMMD(*space.samples, space.sigma)
    return [
        replace(f, rotation=m.rotation, mmd2=exact.value(m.rotation))
        for f, m in zip(starts, minima, strict=True)
    ]


def _candidates(space: SharedSpace, found: Sequence[Found]) -> list[Candidate]:
    """Candidates of the rotations found and, where columns correspond, 'no adaptation'."""
    source, back = space.to_shared(0), space.to_source()
    same = space.correspond[1]
    unadapted = space.unadapted(1) if same else None
    candidates = []
    for f in found:
        target = space.to_shared(1, f.rotation)
        moved = 0.0
        if unadapted is not None:
            gaps = space.samples[1] @ f.rotation.T - unadapted
            moved = float(np.mean(np.sum(gaps**2, axis=1)))
        candidates.append(
            Candidate(
                f.kind, source, target, target.then(back), f.rotation, f.mmd2, moved, f.starts
            )
        )
    if unadapted is not None:
        names = space.domains[0].names
        keep = AffineMap.identity(source.width_in, names, names)
        exact = ExactMMD(space.samples[0], unadapted, space.sigma)
        mmd2 = exact.value(np.eye(space.p))
        candidates.append(Candidate(NO_ADAPTATION, keep, keep, keep, None, mmd2))
    return candidates


def _decide(candidates: Sequence[Candidate], evidence: Evidence) -> Alignment:
    """Judge the candidates by what labels there are, rank them, and say what to think of it."""
    space, trained, labelled = evidence.space, evidence.trained, evidence.labelled
    if trained is not None and labelled is not None:
        candidates = judge(
            candidates,
            (trained.rows, trained.labels),
            (labelled.rows, labelled.labels),
            evidence.task,
            evidence.estimator,
        )
    ranked = rank(candidates, evidence.choice)
    diagnosis = diagnose(ranked, space, evidence.chance)
    kept = replace(evidence, space=space.trimmed())
    return Alignment(ranked, diagnosis, space.p, space.sigma, space.correspond[1], kept)


def _with_labels(alignment: Alignment, evidence: Evidence, rows: Array, y_target: Any) -> Alignment:
    """The same candidates, judged by all labels known so far."""
    if evidence.trained is None:
        raise ValueError(
            "Target labels choose among alignments through a predictor trained on the source, and "
            "this alignment was made without y_source. Align again with y_source and y_target."
        )
    labels = read_labels(y_target, rows.shape[0], "y_target")
    known = Labels(evidence.trained.labels, np.ones(evidence.trained.labels.size, dtype=np.bool_))
    check_labels(known, labels, evidence.task)
    fresh = Examples(rows[labels.known], labels.given)
    old = evidence.labelled
    if old is not None:
        fresh = Examples(
            np.concatenate([old.rows, fresh.rows]), np.concatenate([old.labels, fresh.labels])
        )
    return _decide(alignment.candidates, replace(evidence, labelled=fresh))


def _with_rows(alignment: Alignment, evidence: Evidence, rows: Array) -> Alignment:
    """The candidates' rotations, descended again with the target's moments of all rows."""
    space = evidence.space.extended(1, rows)
    exact = ExactMMD(*space.samples, space.sigma)
    found = []
    for candidate in alignment.candidates:
        if candidate.rotation is None:
            continue
        start = space.carried(1, candidate.target)
        minimum = minimize(exact.value_and_gradient, start)
        found.append(Found(minimum.point, minimum.value, candidate.kind, candidate.starts))
    chance = chance_level(*space.samples, space.sigma)
    return _decide(_candidates(space, found), replace(evidence, space=space, chance=chance))


def load(path: str | os.PathLike[str]) -> Alignment:
    """The alignment that ``Alignment.save`` wrote: the same bits, without the evidence."""
    header, arrays = storage.read(path)
    return _unpacked(header, arrays)


def _packed(alignment: Alignment) -> tuple[dict[str, Any], dict[str, Matrix]]:
    header: dict[str, Any] = {
        "n_components": alignment.n_components,
        "bandwidth": alignment.bandwidth,
        "same_features": alignment.same_features,
        "diagnosis": asdict(alignment.diagnosis),
        "candidates": [],
    }
    arrays: dict[str, Matrix] = {}
    for i, candidate in enumerate(alignment.candidates):
        fields: dict[str, Any] = {}
        for name in MAPS:
            map_ = getattr(candidate, name)
            fields[name] = {"names_in": map_.names_in, "names_out": map_.names_out}
            for part in ("center", "matrix", "offset"):
                arrays[f"{i}.{name}.{part}"] = getattr(map_, part)
        if candidate.rotation is not None:
            arrays[f"{i}.rotation"] = candidate.rotation
        fields |= {name: getattr(candidate, name) for name in NUMBERS}
        header["candidates"].append(fields)
    return header, arrays


def _unpacked(header: dict[str, Any], arrays: dict[str, Matrix]) -> Alignment:
    candidates = []
    for i, fields in enumerate(header["candidates"]):
        maps = {}
        for name in MAPS:
            names = {key: _names(value) for key, value in fields[name].items()}
            parts = (arrays[f"{i}.{name}.{part}"] for part in ("center", "matrix", "offset"))
            maps[name] = AffineMap(*parts, **names)
        rotation = arrays.get(f"{i}.rotation")
        numbers = {name: fields[name] for name in NUMBERS}
        candidates.append(Candidate(**maps, **numbers, rotation=rotation))
    said = header["diagnosis"]
    return Alignment(
        tuple(candidates),
        Diagnosis(said["verdict"], tuple(said["reasons"]), said["numbers"]),
        header["n_components"],
        header["bandwidth"],
        header["same_features"],
    )


def _names(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)
