"""Evidence without labels, labels worth having, and verdicts: what keeps adaptation from harm."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_t
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression

import unshift
from unshift.balance import BALANCED
from unshift.choice import BLEND, NO_ADAPTATION, Candidate, concord_scores, judge, rank, weigh
from unshift.contrast import kernel_means, standard_errors_apart, whitened_functions
from unshift.mixture import FREEDOM, fit_mixture, half_log_volume
from unshift.mmd import ExactMMD
from unshift.moments import moments
from unshift.residual import residual_test
from unshift.stiefel import minimize, random_orthogonal
from unshift.strengths import CORAL, LOCATION_SCALE, MEAN, TRANSPORT, strengths
from unshift.views import see
from unshift.whitening import whiten


def classes(rng: np.random.Generator, n: int, shares: Any = (0.5, 0.3, 0.2)) -> tuple[Any, Any]:
    """Three classes in four dimensions, with unlike spreads."""
    centers = np.array([[3, 0, 0, 0], [-2, 3, 0, 1], [0, -3, 2, 0]], dtype=float)
    y = rng.choice(3, size=n, p=shares)
    return centers[y] + rng.standard_normal((n, 4)) * [1.0, 0.7, 1.3, 1.0], y


def halves(X: Any, y: Any, seed: int) -> tuple[Any, ...]:
    rows = np.random.default_rng(seed).permutation(len(y))
    a, b = rows[: len(y) // 2], rows[len(y) // 2 :]
    return X[a], y[a], X[b], y[b]


# --- the mixture of the source's classes ---


def test_mixture_densities_are_students() -> None:
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((200, 3))
    mixture = fit_mixture(Z, np.zeros(200, dtype=int), seed=0)
    total = np.zeros(200)
    for mean, factor, share in zip(mixture.means, mixture.factors, mixture.shares, strict=True):
        total += share * multivariate_t(mean, factor @ factor.T, df=FREEDOM).pdf(Z)
    assert np.allclose(mixture.log_densities(Z)[:, 0], np.log(total), rtol=1e-9)


def test_source_rows_have_no_misfit_to_themselves() -> None:
    X, y = classes(np.random.default_rng(1), 600)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    mixture = fit_mixture(Z, y, seed=0)
    misfit, balance, _ = mixture.misfit(Z)
    assert abs(misfit) < 0.01
    assert np.allclose(balance, mixture.balance, atol=0.02)


def test_shifted_balance_is_not_taken_for_a_shift_of_features() -> None:
    rng = np.random.default_rng(2)
    X, y = classes(rng, 800)
    T, t = classes(rng, 800, shares=(0.1, 0.2, 0.7))
    mixture = fit_mixture(X, y, seed=0)
    misfit, balance, _ = mixture.misfit(T)
    assert np.allclose(balance, np.bincount(t) / t.size, atol=0.05)
    centred, *_ = mixture.misfit(T - T.mean(axis=0) + X.mean(axis=0))
    assert misfit < 0.1 < centred


def test_volume_takes_out_the_gain_of_drawing_rows_together() -> None:
    Z = np.random.default_rng(3).standard_normal((500, 2))
    assert np.isclose(half_log_volume(0.5 * Z) - half_log_volume(Z), 2 * np.log(0.5))
    mixture = fit_mixture(Z, None, seed=0)
    assert mixture.misfit(0.01 * Z)[0] > mixture.misfit(Z)[0]


# --- maps of every strength ---


def test_each_strength_matches_what_it_claims() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((3000, 4)) @ rng.standard_normal((4, 4)) + 5
    T = rng.standard_normal((3000, 4)) @ rng.standard_normal((4, 4)) - 3
    found = {s.kind: s.map(T) for s in strengths(moments(X), moments(T))}
    for mapped in (found[MEAN], found[LOCATION_SCALE], found[CORAL], found[TRANSPORT]):
        assert np.allclose(mapped.mean(axis=0), X.mean(axis=0))
    assert np.allclose(found[LOCATION_SCALE].std(axis=0), X.std(axis=0))
    unit = np.diag(0.1 * X.var(axis=0))  # the ridge, on columns of deviation 1

    def regular(rows: Any) -> Any:
        return np.cov(rows.T, bias=True) + unit

    matrix = next(s.map.matrix for s in strengths(moments(X), moments(T)) if s.kind == TRANSPORT)
    assert np.allclose(matrix.T @ regular(T) @ matrix, regular(X))
    scaled = matrix * X.std(axis=0)[:, None] / X.std(axis=0)
    assert np.allclose(scaled, scaled.T)  # the transport map is symmetric, so it moves rows least


# --- how sure a difference in MMD² is ---


def test_kernel_means_give_the_difference_in_mmd2() -> None:
    rng = np.random.default_rng(5)
    X, Y = rng.standard_normal((70, 3)), rng.standard_normal((90, 3))
    turn = random_orthogonal(3, rng)
    exact = ExactMMD(X, Y, 1.3)
    one, two = kernel_means(X, Y, 1.3), kernel_means(X, Y @ turn.T, 1.3)
    gap = exact.value(turn) - exact.value(np.eye(3))
    assert np.isclose(2 * (one.source - two.source).mean(), gap)
    assert np.isclose(2 * (one.target - two.target).mean(), gap)
    fixed = (whitened_functions(X), whitened_functions(Y))
    assert standard_errors_apart(one, one, fixed) == 0.0
    assert np.isclose(
        standard_errors_apart(one, two, fixed), -standard_errors_apart(two, one, fixed)
    )


# --- what a fitted map leaves ---


def fitted_residual(seed: int, bend: float) -> float:
    """The level of the test after whitening and rotation were fitted to both domains."""
    rng = np.random.default_rng(seed)
    (X, y), (T, _) = classes(rng, 250), classes(rng, 200)
    T = T if bend == 0 else np.sinh(bend * T) / bend
    T = T @ (np.eye(4) + 0.3 * rng.standard_normal((4, 4))) + 5
    Z, W = (whiten(moments(rows)).whitener(4)(rows) for rows in (X, T))
    turn = np.linalg.svd(rng.standard_normal((4, 4)))[0] if bend else np.eye(4)
    found = minimize(ExactMMD(Z, W, 2.0).value_and_gradient, turn, max_iter=30)
    return residual_test(Z, W @ found.point.T, y, 2.0, seed).p


def test_residual_test_keeps_its_level_after_fitting() -> None:
    levels = np.array([fitted_residual(seed, 0.0) for seed in range(40)])
    # 40 draws at .05 give more than 6 about once in 300 times
    assert np.sum(levels <= 0.05) <= 6
    # nor is it far too kind, as exchanging rows without regard to the fit is: all near 1 then
    assert np.median(levels) < 0.9
    assert np.min(levels) < 0.3


def test_residual_test_sees_features_that_bend() -> None:
    assert sum(fitted_residual(seed, 0.8) <= 0.05 for seed in range(20)) >= 16


def test_residual_test_is_blind_to_the_balance_of_the_classes() -> None:
    below = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        (X, y), (T, _) = classes(rng, 400), classes(rng, 400, shares=(0.2, 0.2, 0.6))
        numbers = unshift.align(X, T, y, random_state=0).diagnosis.numbers
        below += numbers["residual_p"] <= 0.05
        assert residual_test(X, T, None, 3.0, 0).p <= 0.01
    assert below <= 2


# --- predictors that disagree ---


def test_discord_is_the_dissent_of_other_kinds_of_predictor() -> None:
    X, y = load_wine(return_X_y=True)
    source, labels, target, truth = halves(X, y, 1)
    alignment = unshift.align(source, target * 1.3, labels, random_state=0)
    views = see(alignment.candidates, alignment.evidence, heard=True)
    for candidate, own, others in zip(
        views.candidates, views.predictors, views.witnesses, strict=True
    ):
        rows = candidate.target(target * 1.3)
        said = own.predict(rows)
        dissent = [np.mean(other.predict(rows) != said) for other, _ in others]
        assert np.isclose(candidate.discord, np.dot(dissent, [share for _, share in others]))
        # where two predictors differ one is wrong
        wrong = [np.mean(other.predict(rows) != truth) for other, _ in others]
        assert all(d <= w + np.mean(said != truth) for d, w in zip(dissent, wrong, strict=True))
        assert 0.0 <= candidate.information <= 1.0


def test_of_maps_that_predict_alike_the_least_is_preferred() -> None:
    keep = unshift.AffineMap.identity(2)
    kinds = ((NO_ADAPTATION, 0.0), (MEAN, 1.0), (LOCATION_SCALE, 2.0))
    found = [
        Candidate(
            kind, keep, keep, keep, None, 0.0,
            freedom=f, misfit=0.1, discord=0.2, own_discord=0.01, information=0.5, outside=0.5,
        )
        for kind, f in kinds
    ]  # fmt: skip
    credit = concord_scores(found, 300.0, "classification")
    assert credit[0] > credit[1] > credit[2]


def test_rows_from_a_part_of_the_source_are_left_alone() -> None:
    rng = np.random.default_rng(12)
    X, y = classes(rng, 600)
    T, t = classes(rng, 3000)
    near = T[:, 0] + 0.5 * T[:, 1] > 1.0  # another density, the same features
    alignment = unshift.align(X, T[near][:500], y, random_state=0)
    assert alignment.candidates[0].kind == NO_ADAPTATION
    assert alignment.diagnosis.verdict == "adaptation not needed"
    assert np.bincount(t[near][:500], minlength=3).min() < 60  # the balance differs, too


def test_balance_and_moments_are_estimated_together() -> None:
    rng = np.random.default_rng(13)
    X, y = classes(rng, 900)
    T, t = classes(rng, 900, shares=(0.1, 0.2, 0.7))
    gain, offset = np.array([2.0, 0.5, 1.5, 0.7]), np.array([4.0, -3.0, 2.0, 1.0])
    alignment = unshift.align(X, T * gain + offset, y, random_state=0)
    maps = {c.kind: c.target(T * gain + offset) for c in alignment.candidates}
    spread = T.std(axis=0)
    plain, together = (
        np.abs((maps[kind] - T) / spread).mean()
        for kind in (LOCATION_SCALE, LOCATION_SCALE + BALANCED)
    )
    assert together < 0.15 < plain
    assert BALANCED in alignment.candidates[0].kind
    shares = [alignment.diagnosis.class_balance[str(k)][1] for k in range(3)]
    assert np.allclose(shares, np.bincount(t) / t.size, atol=0.05)


def test_numbers_without_a_sure_rotation_are_shrunk_to_what_rotations_agree_on() -> None:
    rng = np.random.default_rng(14)
    z, w = rng.standard_normal((40, 3)), rng.standard_normal((40, 3))
    X, T = z @ rng.standard_normal((3, 6)), w @ rng.standard_normal((3, 9))
    y = z[:, 0] + 0.1 * rng.standard_normal(40)
    alignment = unshift.align(X, T, y, random_state=0)
    assert alignment.candidates[0].kind == BLEND
    assert alignment.rotation is None
    rotated = [c for c in alignment.candidates if c.rotation is not None]
    placed = np.stack([c.target(T) for c in rotated])
    # inside the convex hull of what the rotations say and the source's mean
    longest = np.linalg.norm(placed, axis=2).max(axis=0)
    assert (np.linalg.norm(alignment.target(T), axis=1) < longest).all()
    told = alignment.update(T[:20], w[:20, 0])
    assert told.candidates[0].n_labelled == 20


# --- verdicts ---


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
@pytest.mark.parametrize("seed", range(3))
def test_no_shift_is_left_alone(load: Any, seed: int) -> None:
    X, y = load(return_X_y=True)
    source, labels, target, _ = halves(X, y, seed)
    alignment = unshift.align(source, target, labels, random_state=0)
    assert alignment.candidates[0].kind == NO_ADAPTATION
    assert alignment.diagnosis.verdict == "adaptation not needed"
    assert alignment.target(target) is not target
    assert np.array_equal(alignment.target(target), target)


@pytest.mark.parametrize("seed", range(3))
def test_changed_gains_are_put_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = load_wine(return_X_y=True)
    source, labels, target, truth = halves(X, y, seed)
    target = (target - X.mean(axis=0)) * np.exp(rng.normal(0, 0.7, 13)) + X.std(axis=0)
    alignment = unshift.align(source, target, labels, random_state=0)
    model = LogisticRegression(max_iter=5000)
    scale = source.std(axis=0)
    model.fit(alignment.source(source) / scale, labels)
    assert alignment.candidates[0].kind != NO_ADAPTATION
    assert alignment.diagnosis.verdict != "adaptation not needed"
    assert model.score(alignment.target(target) / scale, truth) > 0.93


@pytest.mark.parametrize("same_features", ["auto", False])
def test_symmetric_data_are_called_ambiguous_with_both_alignments(same_features: Any) -> None:
    called = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y, t = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
        X = rng.standard_normal((400, 2)) + np.outer(np.where(y, 3.0, -3.0), [1, 0])
        T = rng.standard_normal((400, 2)) + np.outer(np.where(t, 3.0, -3.0), [1, 0])
        T = T @ rng.standard_normal((2, 2)) + 10
        alignment = unshift.align(X, T, y, same_features=same_features, random_state=0)
        called += alignment.diagnosis.verdict == "ambiguous"
        model = LogisticRegression()
        scores = []
        for candidate in alignment.candidates:
            model.fit(candidate.source(X), y)
            scores.append(model.score(candidate.target(T), t))
        assert max(scores) > 0.98
        assert min(scores) < 0.02
    assert called >= 9


def test_shifted_balance_is_reported_with_weights_that_undo_it() -> None:
    rng = np.random.default_rng(6)
    X, y = classes(rng, 900)
    T, t = classes(rng, 900, shares=(0.1, 0.2, 0.7))
    alignment = unshift.align(X, T, y, random_state=0)
    assert alignment.candidates[0].kind == NO_ADAPTATION
    assert any("other shares in the target" in reason for reason in alignment.diagnosis.reasons)
    weights = alignment.balance_weights(y)
    for k in range(3):
        assert np.isclose(weights[y == k].sum() / weights.sum(), np.mean(t == k), atol=0.06)
    with pytest.raises(ValueError, match="classes that were not aligned"):
        alignment.balance_weights(["other"])


def test_numbers_of_a_shift_that_is_not_affine() -> None:
    rng = np.random.default_rng(7)
    X, y = classes(rng, 600)
    T = np.sign(X) * np.abs(X) ** 3 + rng.standard_normal(X.shape) * 5
    alignment = unshift.align(X, T[rng.permutation(600)], y, random_state=0)
    assert alignment.diagnosis.verdict in ("not an affine shift", "ambiguous")


# --- labels worth having ---


@pytest.fixture(scope="module")
def open_question() -> tuple[Any, ...]:
    rng = np.random.default_rng(8)
    y, t = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    X = rng.standard_normal((300, 2)) + np.outer(np.where(y, 2.5, -2.5), [1, 0])
    T = rng.standard_normal((300, 2)) + np.outer(np.where(t, 2.5, -2.5), [1, 0])
    T = T @ rng.standard_normal((2, 2))
    return unshift.align(X, T, y, same_features=False, random_state=0), X, y, T, t


def test_suggested_labels_settle_what_is_open(open_question: tuple[Any, ...]) -> None:
    alignment, X, y, T, t = open_question
    rows = alignment.suggest_labels(T, 5)
    assert len(rows) == 5
    assert len(set(rows)) == 5
    assert T[rows].shape == (5, 2)
    assert rows.belief_then > rows.belief_now
    assert "expected to raise the belief" in str(rows)
    settled = alignment.update(T[rows], t[rows])
    model = LogisticRegression().fit(settled.source(X), y)
    assert model.score(settled.target(T), t) > 0.98
    assert settled.candidates[0].n_labelled == 5


def test_suggestions_are_rows_that_candidates_see_differently(
    open_question: tuple[Any, ...],
) -> None:
    alignment, X, y, T, _ = open_question
    first, *others = alignment.candidates
    model = LogisticRegression().fit(first.source(X), y)
    row = list(alignment.suggest_labels(T, 1))
    seen = [model.predict(c.target(T[row]))[0] for c in (first, *others)]
    assert len(set(seen)) == 2


def test_one_wrong_label_does_not_flip_a_clear_answer() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    source, labels, target, truth = halves(X, y, 0)
    few = np.full(truth.size, np.nan)
    few[:6] = truth[:6]
    few[0] = 1 - few[0]
    alignment = unshift.align(source, target, labels, few, random_state=0)
    assert alignment.candidates[0].kind == NO_ADAPTATION


@pytest.mark.parametrize(
    ("places", "labels", "first"),
    [
        ([3.0, -1.0], [1, 0], 1),  # both are right: what the score claims stands
        ([0.5, 0.7], [1, 0], 0),  # told apart, and no better than rows left as they are
        ([0.5, 0.7, 0.9], [1, 0, 0], 1),  # one label more is earned
    ],
)
def test_adaptation_has_to_earn_itself_on_the_labels(
    places: list[float], labels: list[int], first: int
) -> None:
    keep = unshift.AffineMap.identity(1)
    left = unshift.AffineMap(np.array([1.5]), np.eye(1), np.zeros(1))
    found = [
        Candidate(NO_ADAPTATION, keep, keep, keep, None, 0.0),
        Candidate(MEAN, keep, left, left, None, 0.0, displacement=1.0),
    ]
    source = np.repeat([[-1.0], [1.0]], 20, axis=0), np.repeat([0, 1], 20)
    target = np.array(places)[:, None], np.array(labels)
    judged = judge(found, source, target, "classification", LogisticRegression())
    credit = np.array([0.0, 3.0])
    assert rank(weigh(judged, credit), "auto", credit)[0] == first


def test_suggestions_need_labels_of_the_source(open_question: tuple[Any, ...]) -> None:
    alignment, X, _, T, _ = open_question
    with pytest.raises(ValueError, match="k should be a whole number from 1 to the 300 rows"):
        alignment.suggest_labels(T, 0)
    bare = unshift.align(X, T, same_features=False, random_state=0)
    with pytest.raises(ValueError, match="made without y_source"):
        bare.suggest_labels(T, 2)
