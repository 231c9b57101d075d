"""Peers of the search on planted problems: each returns a rotation of the whitened target rows.

Every peer but the linear one is given the whitened rows and what it needs of the kind of freedom
that the search has: from every rotation that it proposes the exact MMD² is descended as the
search's own minima are, and the lowest is the peer's answer. They are written anew from their
papers on POT's and SciPy's solvers.

- **restarts, exact** and **restarts, spectral**: Algorithm 1 from random starts in both components
  of O(p), on the exact MMD² of a sample or on the spectral one, for as long as two cores worked on
  the search's answer.
- **linear GW**: POT's LinearGWTransport (Gromov–Wasserstein between Gaussians) on the rows as they
  are seen, since of whitened rows it knows nothing.
- **GW couplings**: POT's exact Gromov–Wasserstein coupling of four pairs of subsamples, and the
  Procrustes rotation of each.
- **Sinkhorn–Procrustes**: couplings by Sinkhorn and Procrustes rotations in turn while the
  regularisation falls, from sign changes of the axes or random rotations, in the manner of
  graspologic's SeedlessProcrustes.
- **anchors**: the pipeline of mini-vec2vec. Centres of clusters are matched by quadratic
  assignment of their cosines; rows are described by their similarity to matched centres, over
  several clusterings; neighbours in that description give a Procrustes rotation, which is refined
  by neighbours in the space itself.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product

import numpy as np
from scipy.optimize import quadratic_assignment
from sklearn.cluster import KMeans

from unshift import stiefel
from unshift.mmd import ExactMMD
from unshift.spectral import SpectralMMD, orthogonal_frequencies

from .planted_problems import Problem

Array = np.ndarray

# Rows of each domain that descents see, as the search's do, and steps of a descent
DESCENT_ROWS, DESCENT_STEPS, POLISH_STEPS = 1500, 30, 15
FREQUENCIES = 512
GW_ROWS, GW_SAMPLES = 250, 4
SINKHORN_ROWS, SINKHORN_STARTS = 300, 8
CLUSTERS, CLUSTERINGS, RESTARTS = 20, 10, 10
ANCHORED_ROWS, NEIGHBOURS, REFINEMENTS = 1500, 10, 20


def lowest(problem: Problem, proposed: Iterable[Array], rng: np.random.Generator) -> Array:
    """The end of the best descent from the proposals, polished on all rows that a method sees."""
    exact = ExactMMD(*(sample(Z, DESCENT_ROWS, rng) for Z in problem.rows), problem.sigma)
    ends = [descend(exact.value_and_gradient, R, DESCENT_STEPS) for R in proposed]
    best = min(ends, key=lambda end: end.value).point
    return descend(problem.exact.value_and_gradient, best, POLISH_STEPS).point


def descend(objective: stiefel.ValueAndGradient, R: Array, steps: int) -> stiefel.Minimum:
    return stiefel.minimize(objective, R, step=0.05, max_iter=steps, tol=1e-3)


def sample(Z: Array, rows: int, rng: np.random.Generator) -> Array:
    return Z[rng.permutation(len(Z))[:rows]].astype(np.float32)


def restarts(problem: Problem, rng: np.random.Generator, budget: float, *, spectral: bool) -> Array:
    started = time.perf_counter()
    source, target = (sample(Z, DESCENT_ROWS, rng) for Z in problem.rows)
    objective = ExactMMD(source, target, problem.sigma).value_and_gradient
    if spectral:
        omega = orthogonal_frequencies(problem.p, FREQUENCIES, problem.sigma, rng)
        objective = partial(_at_one, SpectralMMD(problem.rows[0], omega), target)
    ends: list[stiefel.Minimum] = []
    while not ends or time.perf_counter() - started < budget:
        ends.append(descend(objective, stiefel.random_orthogonal(problem.p, rng), DESCENT_STEPS))
    return lowest(problem, [min(ends, key=lambda end: end.value).point], rng)


def _at_one(objective: SpectralMMD, target: Array, R: Array) -> tuple[float, Array]:
    values, gradients = objective.values_and_gradients(target, R[None])
    return float(values[0]), gradients[0]


def linear_gw(problem: Problem, rng: np.random.Generator, budget: float) -> Array:
    """The rotation between the whitened domains that the map of target to source is."""
    import ot

    source, target = problem.raw
    mapped = ot.da.LinearGWTransport().fit(Xs=target, Xt=source).transform(Xs=target)
    shift, scale = (
        source.mean(axis=0),
        np.linalg.lstsq(source - source.mean(axis=0), problem.source, rcond=None)[0],
    )
    return stiefel.polar(((mapped - shift) @ scale).T @ problem.target)


def gw_couplings(problem: Problem, rng: np.random.Generator, budget: float) -> Array:
    import ot

    proposed = []
    for _ in range(GW_SAMPLES):
        pair = [sample(Z, GW_ROWS, rng).astype(float) for Z in problem.rows]
        inner = [ot.dist(Z, Z) for Z in pair]
        inner = [C / C.max() for C in inner]
        shares = [ot.unif(len(Z)) for Z in pair]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            coupling = ot.gromov.gromov_wasserstein(*inner, *shares, "square_loss", max_iter=200)
        proposed.append(stiefel.polar(pair[0].T @ coupling @ pair[1]))
    return lowest(problem, proposed, rng)


def sinkhorn_procrustes(problem: Problem, rng: np.random.Generator, budget: float) -> Array:
    import ot

    source, target = (sample(Z, SINKHORN_ROWS, rng).astype(float) for Z in problem.rows)
    a, b = ot.unif(len(source)), ot.unif(len(target))
    signs = [np.diag(s) for s in product((1.0, -1.0), repeat=min(problem.p, 4))]
    if len(signs[0]) < problem.p:
        signs = list(stiefel.random_orthogonal(problem.p, rng, size=SINKHORN_STARTS))
    ends = []
    for R in signs[:SINKHORN_STARTS]:
        for reg in np.geomspace(0.5, 0.03, 20):
            cost = ot.dist(source, target @ R.T)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                coupling = ot.sinkhorn(a, b, cost, reg * cost.mean(), numItermax=30)
            R = stiefel.polar(source.T @ coupling @ target)
        ends.append(R)
    return lowest(problem, ends, rng)


def anchors(problem: Problem, rng: np.random.Generator, budget: float) -> Array:
    source, target = (_directions(sample(Z, ANCHORED_ROWS, rng)) for Z in problem.rows)
    described = [], []
    for _ in range(CLUSTERINGS):
        for own, rows, centres in zip(
            described, (source, target), _matched_centres(source, target, rng), strict=True
        ):
            own.append(rows @ centres.T)
    left, right = (_directions(_centred(np.hstack(own))) for own in described)
    R = _from_neighbours(source, target, left @ right.T)
    for _ in range(REFINEMENTS):
        R = _from_neighbours(source, target, source @ (target @ R.T).T)
    return lowest(problem, [R], rng)


def _matched_centres(source: Array, target: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Directions of the clusters of both domains, in the order of the best assignment."""
    k = min(CLUSTERS, len(source) // 4)
    centres = [
        _directions(
            KMeans(k, n_init=1, random_state=int(rng.integers(1 << 31))).fit(Z).cluster_centers_
        )
        for Z in (source, target)
    ]
    within = [C @ C.T for C in centres]
    tries = [
        quadratic_assignment(*within, options={"maximize": True, "P0": "randomized", "rng": rng})
        for _ in range(RESTARTS)
    ]
    order = max(tries, key=lambda found: found.fun).col_ind
    return centres[0], centres[1][order]


def _from_neighbours(source: Array, target: Array, similarity: Array) -> Array:
    """Procrustes between source rows and the means of the target rows most like them."""
    k = min(NEIGHBOURS, similarity.shape[1])
    nearest = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
    return stiefel.polar(source.T @ target[nearest].mean(axis=1))


def _directions(Z: Array) -> Array:
    return Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)


def _centred(Z: Array) -> Array:
    return Z - Z.mean(axis=0)


PEERS: dict[str, Callable[[Problem, np.random.Generator, float], Array]] = {
    "restarts, exact": partial(restarts, spectral=False),
    "restarts, spectral": partial(restarts, spectral=True),
    "linear GW": linear_gw,
    "GW couplings": gw_couplings,
    "Sinkhorn–Procrustes": sinkhorn_procrustes,
    "anchors": anchors,
}
