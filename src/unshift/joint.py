"""The joint loss: alignment and predictor learned together, the paper's other semi-supervised form.

    ``F(R, W) = MMD²(Z_A, Z_B Rᵀ) + w_s L(Z_A, y_A; W) + w_t L(Z_L Rᵀ, y_L; W) + λ/2 ‖W‖²``

``Z_L`` are the labelled target rows. ``L`` is the mean cross entropy of a softmax predictor, or the
mean squared error of a linear one on labels in units of the source's deviation. The source's term
does not depend on ``R``: ``R`` and ``W`` are minimised in turn, and no half-step raises ``F``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize as minimize_vector
from scipy.special import logsumexp

from .mmd import ExactMMD
from .predictors import errors
from .stiefel import minimize, random_orthogonal

Matrix = npt.NDArray[np.float64]
Array = npt.NDArray[Any]
# Loss of outputs (n, k) against what they should be (n, k), and its gradient in the outputs.
Loss = Callable[[Matrix, Matrix], tuple[float, Matrix]]

# Rows a side that the R-step's MMD sees, and those it sees while weights are compared.
MAX_ROWS, MAX_ROWS_FOLD = 1000, 300
MAX_ROUNDS, MAX_ROUNDS_FOLD = 30, 5
# Iterations of one R-step: it need not end at a minimum, W moves next.
R_ITERATIONS = 25
TOLERANCE = 1e-5
FOLDS = 3
# Weights in units of (what a random rotation costs in MMD²) / (what guessing costs in L): at
# w_t = 1 a wrong rotation and a useless predictor cost the same, whatever p, σ, classes and rows.
# w_s is larger, so that labels move R, which is kept, rather than W, which is not. Mean accuracy
# on nine problems (planted shifts, gas boards, cameras; three draws each, lowest joint value):
#   one label a class:    (1, 1) .79   (10, 1) .81   (10, 3) .83   MMD²'s minima by label .69
#   three, (10, w_t):     0.1: .76     1: .85        10: .85       by cross-validation .86
# A larger w_t gains more where MMD² alone is wrong, and loses more where it is right and labels
# are few (breast cancer, one a class: .96 without labels, (10, 1) .91, (10, 3) .88, (10, 10) .84).
GRID = ((10.0, 0.1), (10.0, 1.0), (10.0, 10.0))
DEFAULT = (10.0, 1.0)

CONVERGED = "Converged: a round over R and W lowered the joint value by less than the tolerance."
LIMIT = (
    "Stopped after {} rounds over R and W, the joint value still falling: the rotation may move on."
)
UNLABELLED = " Without labelled target rows the loss on them plays no role: R minimises MMD² alone."


@dataclass(frozen=True, eq=False)
class JointMinimum:
    """Where the descent from one starting rotation ended.

    ``value`` is the joint value with ``mmd2`` exact on all rows, ``weights`` is ``(w_s, w_t)``;
    ``path`` holds the joint value at the start and after each half-step (with MMD² on at most
    MAX_ROWS rows a side), ``status`` says how the descent ended.
    """

    rotation: Matrix
    value: float
    mmd2: float
    weights: tuple[float, float]
    path: npt.NDArray[np.float64]
    status: str


def refine_jointly(
    Z_source: Matrix,
    y_source: Array,
    Z_target: Matrix,
    labelled: Matrix,
    labels: Array,
    rotations: Sequence[Matrix],
    *,
    sigma: float,
    task: str,
    weights: tuple[float, float] | str = "auto",
    rng: np.random.Generator,
) -> list[JointMinimum]:
    """Minimise the joint loss from each rotation (p, p), within its component of O(p).

    ``Z_source`` (m, p) with ``y_source`` (m,) and ``Z_target`` (n, p) are whitened rows,
    ``labelled`` (l, p) whitened target rows before rotation with ``labels`` (l,), all classes of
    which occur in ``y_source``. ``weights`` is ``(w_s, w_t)``; "auto" compares a few by
    cross-validation over the labelled rows where there are enough, and else takes fixed ones.
    """
    problem = _pose(Z_source, y_source, labelled, labels, task)
    W = problem.source_predictor()
    exact = ExactMMD(Z_source, Z_target, sigma)
    sampled = _on_sample(exact, Z_source, Z_target, sigma, MAX_ROWS, rng)
    pair = check_loss_weights(weights)
    if pair is None:
        few = _on_sample(sampled, Z_source, Z_target, sigma, MAX_ROWS_FOLD, rng)
        pair = choose_weights(problem, W, few, rotations, rng)
    loss = replace(problem, weights=pair)
    return [_refine(loss, W, exact, sampled, R) for R in rotations]


def check_loss_weights(weights: Any) -> tuple[float, float] | None:
    """``(w_s, w_t)`` as two numbers, with ``w_s > 0`` and ``w_t >= 0``; None for "auto"."""
    if isinstance(weights, str) and weights == "auto":
        return None
    try:
        w_s, w_t = (float(weight) for weight in weights)
    except (TypeError, ValueError):
        w_s = w_t = np.nan
    if not (0.0 < w_s < np.inf and 0.0 <= w_t < np.inf):
        raise ValueError(
            'loss_weights should be "auto", or (w_s, w_t) with w_s > 0, without which nothing '
            f"fixes the predictor, and w_t >= 0; got {weights!r}."
        )
    return w_s, w_t


def cross_entropy(logits: Matrix, one_hot: Matrix) -> tuple[float, Matrix]:
    """Mean of ``log Σ_c exp a_c − a_y`` over rows, with gradient ``(softmax(a) − one_hot)/n``."""
    log_total = logsumexp(logits, axis=1, keepdims=True)
    n = logits.shape[0]
    value = float(log_total.sum() - np.sum(logits * one_hot)) / n
    return value, (np.exp(logits - log_total) - one_hot) / n


def squared_error(outputs: Matrix, truth: Matrix) -> tuple[float, Matrix]:
    """Mean of ``(a − t)²`` over rows, and its gradient ``2(a − t)/n``."""
    gaps = outputs - truth
    n = outputs.shape[0]
    return float(np.sum(gaps * gaps)) / n, 2.0 / n * gaps


@dataclass(frozen=True, eq=False)
class JointLoss:
    """The terms of ``F`` but for MMD²; ``W`` is (p + 1, k), its last row the intercepts.

    ``source`` (m, p + 1) and ``labelled`` (l, p + 1) end in a column of ones; what predictions
    should be is ``truth_source`` (m, k) and ``truth_labelled`` (l, k): one-hot rows, or
    standardised labels.
    """

    source: Matrix
    truth_source: Matrix
    labelled: Matrix
    truth_labelled: Matrix
    loss: Loss
    weights: tuple[float, float] = (1.0, 0.0)

    @property
    def ridge(self) -> float:
        """``λ = (w_s + w_t)/m``: the loss's total weight, spread over the source's rows.

        One row's worth of evidence, the size of scikit-learn's default penalty: it bounds ``W``
        where classes are separable and makes the W-step strictly convex, but costs an honest
        slope little. The intercepts go free, so that unbalanced classes and a mean label cost
        nothing; a softmax's matter up to a constant, which gradients that sum to 0 never move.
        """
        w_s, w_t = self.weights
        return float(w_s + w_t) / len(self.source)

    def turned(self, R: Matrix) -> Matrix:
        """Labelled rows after rotation, with their column of ones."""
        return np.hstack([self.labelled[:, :-1] @ R.T, self.labelled[:, -1:]])

    def on_labels(self, R: Matrix, W: Matrix) -> tuple[float, Matrix]:
        """``L_t(R, W)`` and ``∂L_t/∂R = Σ W g zᵀ`` (p, p), ``g`` a row's gradient in outputs."""
        p = R.shape[0]
        if self.labelled.shape[0] == 0:
            return 0.0, np.zeros((p, p))
        value, residual = self.loss(self.turned(R) @ W, self.truth_labelled)
        return value, (residual @ W[:-1].T).T @ self.labelled[:, :-1]

    def value_and_gradient(self, R: Matrix, W: Matrix) -> tuple[float, Matrix]:
        """``w_s L_s + w_t L_t + λ/2 ‖W‖²`` and its gradient in ``W`` (p + 1, k)."""
        sums = [(self.weights[0], self.source, self.truth_source)]
        if self.labelled.shape[0]:
            sums.append((self.weights[1], self.turned(R), self.truth_labelled))
        slopes = np.vstack([W[:-1], np.zeros((1, W.shape[1]))])
        total, gradient = 0.5 * self.ridge * float(np.sum(slopes * slopes)), self.ridge * slopes
        for weight, rows, truth in sums:
            value, residual = self.loss(rows @ W, truth)
            total += weight * value
            gradient = gradient + weight * (rows.T @ residual)
        return total, gradient

    def best_predictor(self, R: Matrix, W: Matrix) -> Matrix:
        """The W-step: the ``W`` that minimises ``F(R, ·)``, never worse than the one given."""
        if self.loss is squared_error:
            return self._ridge_regression(R)
        unit = sum(self.weights)  # the minimum does not change with it, the tolerance would

        def objective(w: Matrix) -> tuple[float, Matrix]:
            value, gradient = self.value_and_gradient(R, w.reshape(W.shape))
            return value / unit, gradient.ravel() / unit

        found = minimize_vector(
            objective,
            W.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 500, "gtol": 1e-7, "ftol": 1e-14, "maxcor": 20},
        )
        best: Matrix = found.x.reshape(W.shape)
        return best if found.fun <= objective(W)[0] else W

    def _ridge_regression(self, R: Matrix) -> Matrix:
        """The normal equations of the two weighted sums."""
        w_s, w_t = self.weights
        width = self.source.shape[1]
        share = 2.0 * w_s / self.source.shape[0]
        gram = share * (self.source.T @ self.source)
        right = share * (self.source.T @ self.truth_source)
        if self.labelled.shape[0]:
            rows, share = self.turned(R), 2.0 * w_t / self.labelled.shape[0]
            gram += share * (rows.T @ rows)
            right += share * (rows.T @ self.truth_labelled)
        gram[np.arange(width - 1), np.arange(width - 1)] += self.ridge
        return np.linalg.solve(gram, right)

    def source_predictor(self) -> Matrix:
        """``W`` of the source alone."""
        width, k = self.source.shape[1], self.truth_source.shape[1]
        alone = replace(self, weights=(1.0, 0.0))
        return alone.best_predictor(np.eye(width - 1), np.zeros((width, k)))


def _pose(
    Z_source: Matrix, y_source: Array, labelled: Matrix, labels: Array, task: str
) -> JointLoss:
    """Rows with their column of ones, labels as what a predictor's outputs should be."""
    if task == "classification":
        classes = np.unique(y_source)
        one_hot = np.eye(classes.size)
        # an empty array of labels has a type of its own, which need not compare with the classes
        codes = np.searchsorted(classes, labels) if labels.size else np.empty(0, dtype=np.intp)
        truths = (one_hot[np.searchsorted(classes, y_source)], one_hot[codes])
        return JointLoss(
            _with_ones(Z_source), truths[0], _with_ones(labelled), truths[1], cross_entropy
        )
    y, t = (np.asarray(values, dtype=np.float64)[:, None] for values in (y_source, labels))
    center = y.mean()
    scale = float(np.abs(y - center).max()) or 1.0
    scale *= float(np.std((y - center) / scale)) or 1.0
    truths = ((y - center) / scale, (t - center) / scale)
    return JointLoss(
        _with_ones(Z_source), truths[0], _with_ones(labelled), truths[1], squared_error
    )


def _with_ones(Z: Matrix) -> Matrix:
    return np.hstack([Z.astype(np.float64), np.ones((Z.shape[0], 1))])


def _on_sample(
    whole: ExactMMD,
    Z_source: Matrix,
    Z_target: Matrix,
    sigma: float,
    max_rows: int,
    rng: np.random.Generator,
) -> ExactMMD:
    """MMD² on at most ``max_rows`` rows a side; ``whole`` itself where it has no more."""
    if max(whole.X.shape[0], whole.Y.shape[0]) <= max_rows:
        return whole
    drawn = [
        Z[np.sort(rng.choice(Z.shape[0], min(max_rows, Z.shape[0]), replace=False))]
        for Z in (Z_source, Z_target)
    ]
    return ExactMMD(drawn[0], drawn[1], sigma)


def _refine(
    loss: JointLoss, W: Matrix, exact: ExactMMD, sampled: ExactMMD, R: Matrix
) -> JointMinimum:
    R, W, path, converged = descend(loss, sampled, R, W, MAX_ROUNDS)
    mmd2 = exact.value(R)
    status = CONVERGED if converged else LIMIT.format(MAX_ROUNDS)
    if loss.labelled.shape[0] == 0:
        status += UNLABELLED
    value = mmd2 + loss.value_and_gradient(R, W)[0]
    return JointMinimum(R, value, mmd2, loss.weights, np.array(path), status)


def descend(
    loss: JointLoss, mmd: ExactMMD, R: Matrix, W: Matrix, max_rounds: int
) -> tuple[Matrix, Matrix, list[float], bool]:
    """``R``, ``W``, the joint values, and whether they settled, in turn from those given.

    ``W`` should be the source's alone: fitted to labels that ``R`` puts in wrong places it
    would learn to excuse them, so the R-step comes first. It starts twice that time, from ``R``
    and from where the labels alone would turn it: between a wrong minimum of MMD² and the right
    one lies a barrier that no weight on few labels need overcome. The lower of the two goes on.
    """
    w_t = loss.weights[1] if loss.labelled.shape[0] else 0.0

    def in_rotation(R: Matrix) -> tuple[float, Matrix]:
        value, gradient = mmd.value_and_gradient(R)
        missed, pull = loss.on_labels(R, W)
        return value + w_t * missed, gradient + w_t * pull

    path = [mmd.value(R) + loss.value_and_gradient(R, W)[0]]
    starts = [R]
    if w_t > 0:
        starts.append(minimize(lambda R: loss.on_labels(R, W), R, max_iter=100).point)
    for _ in range(max_rounds):
        ends = [minimize(in_rotation, start, max_iter=R_ITERATIONS) for start in starts]
        R = min(ends, key=lambda end: end.value).point
        distance = mmd.value(R)
        path.append(distance + loss.value_and_gradient(R, W)[0])
        W = loss.best_predictor(R, W)
        path.append(distance + loss.value_and_gradient(R, W)[0])
        if path[-3] - path[-1] <= TOLERANCE * path[-1]:
            return R, W, path, True
        starts = [R]
    return R, W, path, False


def choose_weights(
    problem: JointLoss,
    W: Matrix,
    mmd: ExactMMD,
    rotations: Sequence[Matrix],
    rng: np.random.Generator,
) -> tuple[float, float]:
    """``(w_s, w_t)`` of the grid with the lowest error on labelled rows left out in turn.

    Ties go to the lower loss, then to the smaller weight. DEFAULT where labels are too few to
    compare: less than FOLDS rows in each of two classes, or ten rows of a regression.
    """
    unit = weight_unit(problem, mmd, rotations, rng)
    if problem.labelled.shape[0] == 0:
        return unit * DEFAULT[0], 0.0
    grid = [(unit * w_s, unit * w_t) for w_s, w_t in GRID]
    if not _enough(problem):
        return unit * DEFAULT[0], unit * DEFAULT[1]
    folds = _folds(problem, rng)
    scores = [_left_out(replace(problem, weights=pair), W, mmd, rotations, folds) for pair in grid]
    return grid[min(range(len(grid)), key=lambda i: (*scores[i], i))]


def weight_unit(
    problem: JointLoss, mmd: ExactMMD, rotations: Sequence[Matrix], rng: np.random.Generator
) -> float:
    """What a random rotation costs in MMD² above the best known, over what guessing costs in L."""
    p = problem.source.shape[1] - 1
    values = np.array([mmd.value(R) for R in (*random_orthogonal(p, rng, size=16), *rotations)])
    # rotations that all cost the same: the discrepancy itself is the only scale there is
    spread = float(values.mean() - values.min()) or float(values.mean()) or 1.0
    k = problem.truth_source.shape[1]
    return spread / (float(np.log(k)) if k > 1 else 1.0)


def _enough(problem: JointLoss) -> bool:
    if problem.loss is squared_error:
        return len(problem.labelled) >= 10
    per_class = problem.truth_labelled.sum(axis=0)
    return int(np.sum(per_class >= FOLDS)) >= 2


def _folds(problem: JointLoss, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Fold of each labelled row (l,): rows dealt class by class, in random order within one."""
    shuffled = rng.permutation(problem.labelled.shape[0])
    if problem.loss is cross_entropy:
        codes = problem.truth_labelled.argmax(axis=1)
        shuffled = shuffled[np.argsort(codes[shuffled], kind="stable")]
    folds = np.empty(shuffled.size, dtype=np.intp)
    folds[shuffled] = np.arange(shuffled.size) % FOLDS
    return folds


def _left_out(
    loss: JointLoss,
    W: Matrix,
    mmd: ExactMMD,
    rotations: Sequence[Matrix],
    folds: npt.NDArray[np.intp],
) -> tuple[float, float]:
    """Mean error and mean loss on rows left out in turn, of the source's own predictor ``W``.

    The rotation is what is kept, so the rotation is what is judged.
    """
    task = "classification" if loss.loss is cross_entropy else "regression"
    wrong, missed = [], 0.0
    for fold in range(FOLDS):
        kept, out = (_rows(loss, chosen) for chosen in (folds != fold, folds == fold))
        costs = [mmd.value(R) + kept.weights[1] * kept.on_labels(R, W)[0] for R in rotations]
        R = descend(kept, mmd, rotations[int(np.argmin(costs))], W, MAX_ROUNDS_FOLD)[0]
        outputs, truth = out.turned(R) @ W, out.truth_labelled
        missed += out.on_labels(R, W)[0] * truth.shape[0]
        if task == "classification":
            outputs, truth = outputs.argmax(axis=1), truth.argmax(axis=1)
        wrong.append(errors(outputs, truth, task).ravel())
    return float(np.concatenate(wrong).mean()), missed / folds.size


def _rows(loss: JointLoss, chosen: npt.NDArray[np.bool_]) -> JointLoss:
    return replace(loss, labelled=loss.labelled[chosen], truth_labelled=loss.truth_labelled[chosen])
