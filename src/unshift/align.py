"""``align``: two domains in, affine maps out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ._checks import check_option, check_starts, generator
from .alignment import Alignment, decide
from .choice import ANCHOR, Candidate
from .diagnosis import NOT_NEEDED, Diagnosis, chance_level
from .domain import Domain, read_domain
from .evidence import (
    Evidence,
    Examples,
    candidates_of,
    draw_examples,
    jointly_refined,
    no_adaptation,
    search_needed,
    with_blend,
)
from .joint import check_loss_weights
from .labels import Labels, check_labels, read_labels, task_of
from .predictors import default_estimator
from .search import Found, search
from .space import SharedSpace, SpaceSettings, share_space
from .stiefel import minimize

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

# A chosen rotation settles where a kernel between the domains has no more values than this.
SETTLE_PAIRS = 1_000_000
# Rotations drawn where columns correspond: there few users need any but the anchored one.
CORRESPONDING_STARTS = 8
# The start that labels give the search.
CLASS_MEANS = "class means"
# The kind of candidate that whitens one domain and rotates nothing.
WHITENED = "whitened"


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
    minimises ``MMD²(Z_A, Z_B Rᵀ)``, the maximum mean discrepancy with a Gaussian kernel. Where
    columns correspond, maps of every strength compete with it, from none at all.

    Parameters
    ----------
    X_source, X_target : array or frame, (n, d) and (m, e)
        Rows of the two domains, unpaired, of equal or different widths.
    y_source, y_target : array, optional
        Labels: classes of any kind, or numbers with fractions for regression. In ``y_target``
        None, NaN and NA stand for unknown; a few known ones add to the evidence about the
        alignments found, each as much as it is worth.
    n_components : int, float in (0, 1), None or "auto"
        Dimensions of the shared space; or the share of variance that it keeps of each domain; or
        None for all positive eigenvalues common to both. "auto" keeps 99 %, in at most a tenth of
        the smaller domain's rows and at most 20 dimensions, 8 where columns correspond.
    bandwidth : float or "auto"
        ``σ`` of the kernel in the shared space; "auto" is the source rows' median distance / √2.
    same_features : bool or "auto"
        Whether the columns correspond. "auto": identical names, or unnamed equal widths.
    choice : "auto" or "paper"
        How candidates are found and ranked. "auto": where columns correspond, by how far
        predictors of several kinds, trained on the source, agree on the mapped target, less
        adaptation first where that is as good; by the likelihood under the source's mixture where
        the source has no labels; where columns do not correspond, by MMD². Target labels add to
        that. "paper": rotations only, by the lowest error on target labels, without by MMD².
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
    check_loss_weights(loss_weights)
    settings = SpaceSettings(n_components, bandwidth, same_features, scale, shrinkage, outliers)
    settings.checked()
    check_starts(n_starts)
    rng = generator(random_state)
    domains = (
        read_domain(X_source, "X_source", sample_weight_source, rng),
        read_domain(X_target, "X_target", sample_weight_target, rng),
    )
    if loss == "joint" and y_source is None:
        raise ValueError(
            'loss="joint" weighs MMD² against the loss of a predictor, which needs y_source. '
            'Pass y_source, or use loss="mmd".'
        )
    labels = _read_both(y_source, y_target, domains)
    if task == "auto":
        task = "classification" if labels[0] is None else task_of(labels[0])
    check_labels(*labels, task)
    evidence = pair_evidence(
        share_space(domains, settings),
        draw_examples(domains[0], labels[0], rng),
        draw_examples(domains[1], labels[1], rng),
        task=task,
        estimator=estimator,
        choice=choice,
    )
    return align_pair(
        evidence,
        rng,
        loss=loss,
        loss_weights=loss_weights,
        n_starts=n_starts,
        n_jobs=n_jobs,
        callback=callback,
    )


def pair_evidence(
    space: SharedSpace,
    trained: Examples | None,
    labelled: Examples | None,
    *,
    task: str,
    estimator: Any,
    choice: str,
) -> Evidence:
    """What the choice between two domains' alignments goes by; a default predictor for None."""
    chance = chance_level(space)
    estimator = default_estimator(task) if estimator is None else estimator
    return Evidence(space, trained, labelled, task, estimator, choice, chance)


def align_pair(
    evidence: Evidence,
    rng: np.random.Generator,
    *,
    loss: str = "mmd",
    loss_weights: tuple[float, float] | str = "auto",
    **effort: Any,
) -> Alignment:
    """Search, refine where asked to, and decide; ``effort`` goes to the search."""
    space = evidence.space
    if loss == "mmd" and not search_needed(evidence):
        return decide(candidates_of(evidence, []), evidence)
    if space.correspond[1] and evidence.choice == "auto" and effort.get("n_starts") == "auto":
        effort["n_starts"] = CORRESPONDING_STARTS
    result = search(
        *space.samples,
        sigma=space.sigma,
        rng=rng,
        anchor=space.anchor(1),
        class_means=evidence.class_means(),
        **effort,
    )
    found: Sequence[Found] = result.found
    evidence = replace(evidence, descents=result.ends)
    if loss == "joint":
        found = jointly_refined(evidence, found, loss_weights, rng)
    else:
        found = _settled(space, found)
    return decide(with_blend(candidates_of(evidence, found), evidence), evidence)


def _settled(space: SharedSpace, found: Sequence[Found]) -> list[Found]:
    """Those most likely to be chosen, descended on until rounding, not the search, limits them.

    What the search leaves open depends on the coordinates in which the domains came, and the
    alignment must not. Where rows are many that is too little to be worth the work.
    """
    if space.samples[0].shape[0] * space.samples[1].shape[0] > SETTLE_PAIRS:
        return list(found)
    exact = space.exact_mmd()
    settled = []
    for i, f in enumerate(found):
        if i == 0 or f.kind in (ANCHOR, CLASS_MEANS):
            minimum = minimize(exact.value_and_gradient, f.rotation, max_iter=100)
            f = replace(f, rotation=minimum.point, mmd2=minimum.value)
        settled.append(f)
    return settled


def align_one(
    X: Any, *, adapted: bool, sample_weight: Any = None, random_state: Any = None, **settings: Any
) -> Alignment:
    """One domain as its own target, where there is nothing to search: ``R = I``, or no adaptation.

    ``adapted`` says which of the two is in force; ``settings`` are those of the shared space.
    """
    # Its columns are its own, whatever is asked of other domains.
    settings = {**settings, "same_features": settings.get("same_features", True) or True}
    domain = read_domain(X, "X", sample_weight, generator(random_state))
    space = share_space((domain, domain), SpaceSettings(**settings).checked())
    # Of a domain and itself MMD² is 0: no kernel need be evaluated.
    map_, back = space.to_shared(0), space.to_source()
    whitened = Candidate(WHITENED, map_, map_, map_.then(back), np.eye(space.p), 0.0)
    ranked = (whitened, no_adaptation(space))[:: 1 if adapted else -1]
    reasons = ("One domain was given: it is its own target.",)
    diagnosis = Diagnosis(NOT_NEEDED, reasons, {"mmd2": 0.0, "components": float(space.p)})
    evidence = Evidence(space.trimmed(), None, None, "classification", None, "auto", 0.0)
    return Alignment(ranked, diagnosis, space.p, space.sigma, True, evidence)


def _read_both(
    y_source: Any, y_target: Any, domains: tuple[Domain, Domain]
) -> tuple[Labels | None, Labels | None]:
    pairs = zip((y_source, y_target), domains, ("y_source", "y_target"), strict=True)
    source, target = (
        None if y is None else read_labels(y, domain.rows.shape[0], name)
        for y, domain, name in pairs
    )
    return source, target
