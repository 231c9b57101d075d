"""The joint loss: its gradients, its descent, and what labels settle that MMD² cannot."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.linalg import expm

from unshift import align, joint
from unshift.joint import JointLoss, JointMinimum, refine_jointly
from unshift.mmd import ExactMMD
from unshift.stiefel import minimize, random_orthogonal

Matrix = npt.NDArray[np.float64]
TASKS = ["classification", "regression"]


def whitened(X: Matrix) -> Matrix:
    left, _, right = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    rows: Matrix = left @ right * np.sqrt(X.shape[0])
    return rows


class Planted:
    """Three skewed clusters (or a slope) in p dimensions, the target turned by ``R`` transposed."""

    def __init__(self, task: str, rng: np.random.Generator, n: int = 240, p: int = 3) -> None:
        centers = 2.5 * rng.standard_normal((3, p))
        clusters = rng.integers(3, size=2 * n)
        Z = centers[clusters] + rng.exponential(1.0, (2 * n, p))
        Z = whitened(Z)
        slope = 40.0 * Z @ rng.standard_normal(p) + 1000.0
        y = clusters if task == "classification" else slope + rng.standard_normal(2 * n)
        self.task, self.p, self.sigma = task, p, float(np.sqrt(p))
        self.R = random_orthogonal(p, rng)
        self.Z_source, self.y_source = Z[:n], y[:n]
        self.Z_target, self.y_target = Z[n:] @ self.R, y[n:]

    def refine(self, rows: Any, rotations: Any, **changes: Any) -> list[JointMinimum]:
        given: dict[str, Any] = {"sigma": self.sigma, "task": self.task, "rng": generator()}
        return refine_jointly(
            self.Z_source,
            self.y_source,
            self.Z_target,
            self.Z_target[rows],
            self.y_target[rows],
            rotations,
            **(given | changes),
        )

    def loss(self, rows: Any, weights: tuple[float, float] = (0.7, 0.3)) -> JointLoss:
        posed = joint._pose(
            self.Z_source, self.y_source, self.Z_target[rows], self.y_target[rows], self.task
        )
        return replace(posed, weights=weights)

    def mmd(self) -> ExactMMD:
        return ExactMMD(self.Z_source, self.Z_target, self.sigma)


def generator() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(params=TASKS)
def planted(request: pytest.FixtureRequest) -> Planted:
    return Planted(request.param, np.random.default_rng(3))


def test_gradient_in_R_meets_central_differences_along_the_manifold(planted: Planted) -> None:
    rng, loss, mmd = generator(), planted.loss(slice(9)), planted.mmd()
    W = rng.standard_normal((planted.p + 1, loss.truth_source.shape[1]))
    R, skew = random_orthogonal(planted.p, rng), rng.standard_normal((planted.p, planted.p))
    skew = skew - skew.T

    def value(t: float) -> float:
        there = expm(t * skew) @ R
        return mmd.value(there) + loss.value_and_gradient(there, W)[0]

    gradient = mmd.value_and_gradient(R)[1] + loss.weights[1] * loss.on_labels(R, W)[1]
    h = 1e-5
    assert float(np.sum(gradient * (skew @ R))) == pytest.approx(
        (value(h) - value(-h)) / (2 * h), rel=1e-6
    )


def test_gradient_of_the_labels_term_in_R_meets_central_differences(planted: Planted) -> None:
    rng, loss = generator(), planted.loss(slice(9))
    W = rng.standard_normal((planted.p + 1, loss.truth_source.shape[1]))
    R, move = random_orthogonal(planted.p, rng), rng.standard_normal((planted.p, planted.p))
    h = 1e-5
    slope = (loss.on_labels(R + h * move, W)[0] - loss.on_labels(R - h * move, W)[0]) / (2 * h)
    assert float(np.sum(loss.on_labels(R, W)[1] * move)) == pytest.approx(slope, rel=1e-6)


def test_gradient_in_W_meets_central_differences(planted: Planted) -> None:
    rng, loss = generator(), planted.loss(slice(9))
    shape = (planted.p + 1, loss.truth_source.shape[1])
    R, W, move = random_orthogonal(planted.p, rng), rng.standard_normal(shape), rng.random(shape)
    h = 1e-5
    ends = [loss.value_and_gradient(R, W + s * h * move)[0] for s in (1, -1)]
    gradient = loss.value_and_gradient(R, W)[1]
    assert float(np.sum(gradient * move)) == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.01, 0.02), (1e-3, 10.0), (50.0, 3.0)])
def test_W_step_ends_where_the_gradient_vanishes(
    planted: Planted, weights: tuple[float, float]
) -> None:
    loss, R = planted.loss(slice(9), weights), random_orthogonal(planted.p, generator())
    W = loss.best_predictor(R, loss.source_predictor())
    gradient = loss.value_and_gradient(R, W)[1]
    assert np.abs(gradient).max() <= 1e-6 * sum(weights)


def test_W_step_has_one_minimum_whatever_its_start(planted: Planted) -> None:
    loss, R = planted.loss(slice(9)), random_orthogonal(planted.p, generator())
    W = loss.source_predictor()
    far = 3.0 * generator().standard_normal(W.shape)
    far[-1] -= far[-1].mean()  # intercepts of a softmax matter up to a constant
    np.testing.assert_allclose(loss.best_predictor(R, far), loss.best_predictor(R, W), atol=2e-4)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.01, 0.1), (0.001, 1.0), "auto"])
def test_joint_value_never_rises(planted: Planted, weights: Any) -> None:
    starts = random_orthogonal(planted.p, generator(), size=4)
    for minimum in planted.refine(slice(12), starts, weights=weights):
        path = minimum.path
        assert path.size >= 3
        assert np.all(np.diff(path) <= 1e-12 * path[0])
        assert minimum.value == pytest.approx(path[-1], rel=1e-10)


def test_rotation_stays_orthogonal_and_in_its_component(planted: Planted) -> None:
    rng = generator()
    starts = [random_orthogonal(planted.p, rng, determinant=d) for d in (1, -1, -1, 1)]
    found = planted.refine(slice(12), starts, weights=(0.01, 0.1))
    assert len(found) == len(starts)
    for start, minimum in zip(starts, found, strict=True):
        R = minimum.rotation
        np.testing.assert_allclose(R.T @ R, np.eye(planted.p), atol=1e-12)
        assert np.linalg.det(R) * np.linalg.det(start) > 0


def test_mmd2_is_exact_on_all_rows_though_the_descent_sees_a_sample(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joint, "MAX_ROWS", 100)
    (minimum,) = planted.refine(slice(12), [planted.R], weights=(0.01, 0.1))
    assert minimum.mmd2 == planted.mmd().value(minimum.rotation)
    assert np.all(np.diff(minimum.path) <= 1e-12 * minimum.path[0])


def test_planted_map_is_recovered_in_its_component(planted: Planted) -> None:
    det = 1 if np.linalg.det(planted.R) > 0 else -1
    starts = random_orthogonal(planted.p, generator(), determinant=det, size=4)
    best = min(planted.refine(slice(15), starts), key=lambda minimum: minimum.value)
    assert np.linalg.norm(best.rotation - planted.R) < 0.25


def symmetric(rng: np.random.Generator, n: int = 200) -> tuple[Matrix, npt.NDArray[np.str_]]:
    """Rows and their mirror images through 0, which belong to the other class."""
    one = np.column_stack([1.5 + 0.5 * rng.exponential(size=n), 0.5 + rng.gamma(2.0, size=n)])
    return whitened(np.vstack([one, -one])), np.repeat(["up", "down"], n)


@pytest.mark.parametrize("per_class", [1, 2, 4])
def test_few_labels_undo_an_anti_alignment_that_mmd_cannot_see(per_class: int) -> None:
    rng = np.random.default_rng(11)
    (Z_source, y_source), (Z, y) = symmetric(rng), symmetric(rng)
    R = random_orthogonal(2, rng, determinant=1)
    Z_target, sigma = Z @ R, 1.4
    mmd = ExactMMD(Z_source, Z_target, sigma)
    right, wrong = (minimize(mmd.value_and_gradient, start) for start in (R, -R))
    assert np.linalg.norm(right.point - R) < 0.3
    assert np.linalg.norm(wrong.point + R) < 0.3
    assert wrong.value == pytest.approx(right.value, rel=1e-6)  # one is as good as the other

    rows = np.concatenate([np.flatnonzero(y == c)[:per_class] for c in ("up", "down")])
    (found,) = refine_jointly(
        Z_source, y_source, Z_target, Z_target[rows], y[rows], [wrong.point],
        sigma=sigma, task="classification", rng=rng,
    )  # fmt: skip
    assert np.linalg.norm(found.rotation - R) < 0.3


@pytest.mark.parametrize("names", [["b", "a", "long name"], [-1, 7, 3], [-0.5, 2.0, 1.0]])
def test_labels_of_any_kind_give_the_same_as_numbers(names: list[Any]) -> None:
    plain = Planted("classification", np.random.default_rng(3))
    named = Planted("classification", np.random.default_rng(3))
    order = np.argsort(names)  # classes are taken in sorted order
    named.y_source = np.sort(np.array(names))[plain.y_source]
    named.y_target = np.sort(np.array(names))[plain.y_target]
    assert order.size == 3
    starts = random_orthogonal(plain.p, generator(), size=2)
    for one, other in zip(
        plain.refine(slice(12), starts), named.refine(slice(12), starts), strict=True
    ):
        np.testing.assert_array_equal(one.rotation, other.rotation)


def test_a_class_without_labelled_rows_is_no_obstacle() -> None:
    planted = Planted("classification", np.random.default_rng(3))
    rows = np.flatnonzero(planted.y_target != 2)[:8]
    (minimum,) = planted.refine(rows, [planted.R])
    assert np.linalg.norm(minimum.rotation - planted.R) < 0.25


@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1e6, 1e200])
def test_units_of_the_labels_do_not_matter(scale: float) -> None:
    plain = Planted("regression", np.random.default_rng(3))
    scaled = Planted("regression", np.random.default_rng(3))
    scaled.y_source, scaled.y_target = scale * plain.y_source, scale * plain.y_target
    starts = random_orthogonal(plain.p, generator(), size=1)
    (one,), (other,) = plain.refine(slice(12), starts), scaled.refine(slice(12), starts)
    np.testing.assert_allclose(one.rotation, other.rotation, atol=1e-6)


def test_a_constant_label_leaves_the_rotation_to_mmd() -> None:
    planted = Planted("regression", np.random.default_rng(3))
    planted.y_source, planted.y_target = np.full(240, 5.0), np.full(240, 5.0)
    (minimum,) = planted.refine(slice(12), [planted.R])
    assert minimum.mmd2 <= planted.mmd().value(planted.R)


@pytest.mark.parametrize("weights", ["auto", (1.0, 0.5)])
def test_without_labelled_rows_the_rotation_minimises_mmd_alone(
    planted: Planted, weights: Any
) -> None:
    (minimum,) = planted.refine(slice(0), [planted.R], weights=weights)
    mmd = planted.mmd()
    alone = minimize(mmd.value_and_gradient, planted.R)
    assert minimum.mmd2 == pytest.approx(alone.value, rel=1e-3)
    np.testing.assert_allclose(minimum.rotation, alone.point, atol=1e-2)
    assert "MMD² alone" in minimum.status


def test_an_empty_array_of_labels_may_have_any_type() -> None:
    planted = Planted("classification", np.random.default_rng(3))
    planted.y_source = np.array(["a", "b", "c"])[planted.y_source]
    planted.y_target = np.array([], dtype=np.float64)
    (minimum,) = planted.refine(slice(0), [planted.R])
    assert minimum.weights[1] == 0.0


def test_weights_chosen_are_of_the_grid_and_given_ones_are_kept(planted: Planted) -> None:
    (given,) = planted.refine(slice(20), [planted.R], weights=(0.5, 0.25))
    assert given.weights == (0.5, 0.25)
    (few,) = planted.refine(slice(2), [planted.R])
    (many,) = planted.refine(slice(30), [planted.R])
    assert few.weights[1] / few.weights[0] == pytest.approx(joint.DEFAULT[1] / joint.DEFAULT[0])
    ratios = [w_t / w_s for w_s, w_t in joint.GRID]
    assert any(many.weights[1] / many.weights[0] == pytest.approx(ratio) for ratio in ratios)


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ({0.01: (0.3, 0.1), 0.1: (0.2, 0.9), 1.0: (0.4, 0.2)}, 0.1),
        ({0.01: (0.3, 0.5), 0.1: (0.3, 0.9), 1.0: (0.3, 0.2)}, 1.0),
        ({0.01: (0.3, 0.5), 0.1: (0.3, 0.5), 1.0: (0.3, 0.5)}, 0.01),
    ],
)
def test_weights_that_err_least_on_rows_left_out_win_then_lower_loss_then_smaller_weight(
    scores: dict[float, Any], best: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(loss: JointLoss, *_: Any) -> Any:
        return scores[round(loss.weights[1] / loss.weights[0], 6)]

    monkeypatch.setattr(joint, "_left_out", told)
    planted = Planted("classification", np.random.default_rng(3))
    (found,) = planted.refine(slice(30), [planted.R])
    assert found.weights[1] / found.weights[0] == pytest.approx(best)


def test_every_row_is_left_out_once_and_judged_by_the_sources_predictor(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def stay(loss: JointLoss, mmd: Any, R: Matrix, *_: Any) -> Any:
        seen.append(loss.labelled)
        return (R,)

    monkeypatch.setattr(joint, "descend", stay)
    loss, folds = planted.loss(slice(30)), np.arange(30) % joint.FOLDS
    W, R = loss.source_predictor(), random_orthogonal(planted.p, generator())
    error, missed = joint._left_out(loss, W, planted.mmd(), [R], folds)
    outputs, truth = loss.turned(R) @ W, loss.truth_labelled
    wrong = (
        outputs.argmax(axis=1) != truth.argmax(axis=1)
        if planted.task == "classification"
        else (outputs - truth) ** 2
    )
    assert error == pytest.approx(wrong.mean())
    assert missed == pytest.approx(loss.on_labels(R, W)[0])
    for fold, kept in enumerate(seen):
        np.testing.assert_array_equal(kept, loss.labelled[folds != fold])
    assert len(seen) == joint.FOLDS


@pytest.mark.parametrize(
    "weights",
    [
        *((0.0, 1.0), (1.0, -0.1), (np.nan, 1.0), (1.0, np.inf)),
        *((1.0,), (1.0, 2.0, 3.0), 3.0, None, "none", ("a", 1.0)),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights: Any) -> None:
    planted = Planted("classification", np.random.default_rng(3))
    message = r'loss_weights should be "auto", or \(w_s, w_t\) with w_s > 0.*; got '
    with pytest.raises(ValueError, match=message + re.escape(repr(weights))):
        planted.refine(slice(5), [planted.R], weights=weights)
    with pytest.raises(ValueError, match=message):
        align(planted.Z_source, planted.Z_target, loss_weights=weights)


def test_folds_hold_every_class_in_equal_parts() -> None:
    planted = Planted("classification", np.random.default_rng(3))
    loss = planted.loss(slice(40))
    folds = joint._folds(loss, generator())
    for members in loss.truth_labelled.T:
        counts = np.bincount(folds[members == 1], minlength=joint.FOLDS)
        assert counts.max() - counts.min() <= 1


def test_same_seed_gives_the_same_bits_and_leaves_inputs_alone(planted: Planted) -> None:
    starts = random_orthogonal(planted.p, generator(), size=2)
    before = [a.copy() for a in (planted.Z_source, planted.Z_target, starts)]
    first, second = (planted.refine(slice(20), starts) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.rotation, other.rotation)
        assert one.weights == other.weights
    for a, b in zip(before, (planted.Z_source, planted.Z_target, starts), strict=True):
        np.testing.assert_array_equal(a, b)
