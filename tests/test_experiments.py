"""The paper's experiments: its protocol step by step, the baselines, and how rows are counted."""

import dataclasses

import numpy as np
import pytest

from unshift import align, claims, scoreboard
from unshift import experiments_digits as digits
from unshift import experiments_simulated as simulated
from unshift.datasets import load_digits_embeddings, make_mixture
from unshift.moments import moments
from unshift.protocols import (
    NOTEBOOK,
    TEXT,
    Aligned,
    Judge,
    Pair,
    algorithm_2,
    baselines,
    coral,
    draw_labels,
    logistic,
    seed_points,
    semi_supervised,
    shifts_at_true_balance,
    unsupervised,
)

Matrix = np.ndarray


def small_pair(rows: int = 60) -> Pair:
    """Two views of one mixture, cut into the parts that a pair of digits has."""
    data = make_mixture(0, n_rows=4 * rows)
    (X, y), (T, t) = (data.X_source, data.y_source), (data.X_target, data.y_target)
    half = slice(0, rows), slice(rows, 2 * rows)
    return Pair(
        "0 1", X[half[0]], y[half[0]], X[half[1]], T[half[0]], t[half[0]], T[half[1]], t[half[1]]
    )


def whitened(X: Matrix, p: int) -> Matrix:
    """Lines 1 to 8 of Algorithm 2 on rows: (θᵀθ)⁻¹θᵀ(x − μ) with θ = U S^{1/2}."""
    U, S, _ = np.linalg.svd(np.cov(X.T, bias=True))
    theta = U[:, :p] * np.sqrt(S[:p])
    return (X - X.mean(axis=0)) @ theta @ np.linalg.inv(theta.T @ theta)


def mmd2(X: Matrix, Y: Matrix, sigma: float) -> float:
    """Equation 8, sum by sum."""

    def k(A: Matrix, B: Matrix) -> float:
        squares = ((A[:, None] - B[None]) ** 2).sum(axis=2)
        return float(np.exp(-squares / (2 * sigma**2)).mean())

    return k(X, X) + k(Y, Y) - 2 * k(X, Y)


def gradient(X: Matrix, Y: Matrix, R: Matrix, sigma: float) -> Matrix:
    """Equation 11, term by term."""
    total = np.zeros_like(R)
    for x in X:
        for y in Y:
            total += np.exp(-np.sum((x - R @ y) ** 2) / (2 * sigma**2)) * np.outer(x, y)
    return -2 * total / (X.shape[0] * Y.shape[0] * sigma**2)


@pytest.mark.parametrize("protocol", [TEXT, NOTEBOOK], ids=lambda protocol: protocol.name)
def test_protocol_is_algorithm_2_with_its_choices(protocol) -> None:
    pair, p = small_pair(), 2
    aligned = algorithm_2(protocol, pair, p, np.random.default_rng(0))
    assert len(aligned.maps) == protocol.starts == aligned.mmd2.size
    X = pair.X_source_test if protocol.test_moments else pair.X_source
    Z_A, Z_B = whitened(X, p), whitened(pair.X_target, p)
    for (source, target), value in zip(aligned.maps, aligned.mmd2, strict=True):
        # lines 1 to 8, up to the arbitrary signs of eigenvectors
        ours_A, ours_B = source(X), target(pair.X_target)
        np.testing.assert_allclose(np.abs(ours_A), np.abs(Z_A), atol=1e-8)
        # line 10: an orthogonal image of the whitened target, with the MMD² of equation 8
        R = np.linalg.lstsq(Z_B, ours_B, rcond=None)[0].T
        np.testing.assert_allclose(R @ R.T, np.eye(p), atol=1e-8)
        assert value == pytest.approx(mmd2(ours_A, ours_B, protocol.sigma), abs=1e-6)
        # line 9: no step along the manifold lowers it
        G = gradient(ours_A, ours_B, np.eye(p), protocol.sigma)
        assert np.linalg.norm(G - G.T) < 2e-3 * np.linalg.norm(G)


def test_seed_points_are_both_identities_then_both_components() -> None:
    points = seed_points(5, 8, np.random.default_rng(0))
    np.testing.assert_array_equal(points[:2], [np.eye(5), -np.eye(5)])
    np.testing.assert_allclose(points @ points.transpose(0, 2, 1), [np.eye(5)] * 8, atol=1e-12)
    signs = np.linalg.det(points[2:]).round()
    assert signs.tolist() == [1, -1, 1, -1, 1, -1]


def chosen(protocol, mmd2, errors, none):
    identity = (None, None)
    aligned = Aligned((identity,) * len(mmd2), np.array(mmd2))
    return unsupervised(protocol, aligned), semi_supervised(
        protocol, aligned, np.array(errors), none
    )


def test_text_takes_the_lowest_mmd2_and_with_labels_the_lowest_error() -> None:
    assert chosen(TEXT, [0.3, 0.1, 0.2], [0.0, 0.5, 0.1], 0.0) == (1, 0)
    assert chosen(TEXT, [0.3, 0.1, 0.2], [0.2, 0.5, 0.2], 0.0) == (1, 2), "ties by MMD²"


def test_notebook_takes_identity_and_with_labels_the_best_of_three() -> None:
    assert chosen(NOTEBOOK, [0.3, 0.1], [0.2, 0.1], 0.15) == (0, 1)
    assert chosen(NOTEBOOK, [0.3, 0.1], [0.2, 0.1], 0.1) == (0, None), "ties go to 'none'"
    assert chosen(NOTEBOOK, [0.3, 0.1], [0.1, 0.1], 0.4) == (0, 0), "then to I"


def test_dimensions_are_no_more_than_either_domain_has() -> None:
    aligned = algorithm_2(NOTEBOOK, small_pair(), 5, np.random.default_rng(0))
    assert aligned.maps[0][0].width_out == 2


def test_baselines_match_the_moments_that_they_say() -> None:
    pair = small_pair(300)
    maps = baselines(pair)
    X, T = pair.X_source, pair.X_target
    assert maps["none"] == (None, None)
    shifted = maps["mean shift"][1](T)
    np.testing.assert_allclose(shifted.mean(axis=0), X.mean(axis=0))
    np.testing.assert_allclose(shifted.std(axis=0), T.std(axis=0))
    scaled = maps["location and scale"][1](T)
    np.testing.assert_allclose(scaled.mean(axis=0), X.mean(axis=0))
    np.testing.assert_allclose(scaled.std(axis=0), X.std(axis=0))
    recoloured = coral(moments(X), moments(T))(X)
    np.testing.assert_allclose(recoloured.mean(axis=0), T.mean(axis=0))
    # (C_A + I)^{-1/2} (C_B + I)^{1/2} takes covariance C_A + I to C_B + I
    noise = recoloured - recoloured.mean(axis=0)
    A = coral(moments(X), moments(T)).matrix
    expected = np.cov(T.T, bias=True) + np.eye(5) - A.T @ A
    np.testing.assert_allclose(noise.T @ noise / len(noise), expected, rtol=1e-6, atol=1e-6)


def test_at_the_true_balance_a_change_of_shares_alone_moves_nothing() -> None:
    pair = small_pair(200)
    keep = np.flatnonzero((pair.y_source == 0) | (np.arange(pair.y_source.size) % 3 == 0))
    same = dataclasses.replace(pair, X_target=pair.X_source[keep], y_target=pair.y_source[keep])
    rows = same.X_target
    for name, maps in shifts_at_true_balance(same).items():
        assert name.endswith("in hindsight")
        # within a class the rows left are others, so that deviations of means remain
        moved = np.abs(maps[1](rows) - rows) / rows.std(axis=0)
        plain = np.abs(baselines(same)[name.split(",")[0]][1](rows) - rows) / rows.std(axis=0)
        assert moved.mean() < 0.3 * plain.mean()


def test_at_the_true_balance_the_means_are_those_of_the_target() -> None:
    pair = small_pair()
    for _, target in shifts_at_true_balance(pair).values():
        mapped = target(pair.X_target.astype(float))
        expected = sum(
            np.mean(pair.y_target == label) * pair.X_source[pair.y_source == label].mean(axis=0)
            for label in np.unique(pair.y_source)
        )
        np.testing.assert_allclose(mapped.mean(axis=0), expected, rtol=1e-9)


def test_logistic_regression_has_converged() -> None:
    pair = digits.pair_of(load_digits_embeddings("paper"), (4, 9))
    X, y = pair.X_source.astype(float), (pair.y_source == 9).astype(float)
    model = logistic(X, pair.y_source)
    p = 1 / (1 + np.exp(-(X @ model.coef_[0] + model.intercept_)))
    slope = X.T @ (p - y) + model.coef_[0]
    scale = np.abs(X).sum(axis=0).max()
    assert np.abs(slope).max() < 1e-8 * scale


def test_draws_of_labels_are_nested() -> None:
    long, short = (draw_labels(50, n, np.random.default_rng(3)) for n in (20, 5))
    np.testing.assert_array_equal(long[:5], short)
    assert np.unique(long).size == 20


@pytest.fixture(scope="module")
def found() -> dict:
    data = load_digits_embeddings("fast_0")
    return digits.run_network(data, pairs=[(0, 1)], ten=False, draws=2)


def test_every_method_is_scored_on_the_pair(found) -> None:
    keys = {(r["method"], r["components"], r["labels"]) for r in found["accuracies"]}
    shares = (0.0, *digits.SHARES)
    for form in (TEXT.name, NOTEBOOK.name):
        assert {(form, p, share) for p in ("5", "all") for share in shares} <= keys
    assert {(digits.UNSHIFT, "auto", share) for share in shares} <= keys
    assert {r["network"] for r in found["accuracies"]} == {"fast_0"}
    assert {r["pair"] for r in found["accuracies"]} == {"0 1"}


def test_unadapted_accuracy_is_that_of_a_logistic_regression(found) -> None:
    pair = digits.pair_of(load_digits_embeddings("fast_0"), (0, 1))
    model = logistic(pair.X_source.astype(float), pair.y_source)
    expected = model.score(pair.X_target.astype(float), pair.y_target)
    none = [r["accuracy"] for r in found["accuracies"] if r["method"] == "none"]
    assert none == [expected]


def test_hindsight_is_at_least_what_was_chosen(found) -> None:
    scores = scoreboard.Scores(found["accuracies"])
    best = scores.accuracy(("fast_0", digits.HINDSIGHT, "auto", 0.0))["0 1"]
    for share in (0.0, *digits.SHARES):
        for accuracy in scores.draws[("fast_0", digits.UNSHIFT, "auto", share)]["0 1"]:
            assert accuracy <= best


def test_hindsight_tells_candidates_of_one_kind_apart(monkeypatch) -> None:
    data = load_digits_embeddings("fast_0")
    pair = digits.pair_of(data, (0, 9))
    alignment = align(pair.X_source, pair.X_target, pair.y_source, random_state=0)
    best = max(Judge(pair).accuracy((c.source, c.target)) for c in alignment.candidates)
    same = [dataclasses.replace(c, kind="same") for c in alignment.candidates]
    one_kind = dataclasses.replace(alignment, candidates=tuple(same))
    monkeypatch.setattr(digits, "align", lambda *_, **__: one_kind)
    rows = digits._unshift_rows(Judge(pair), [])
    assert rows[2]["method"] == digits.HINDSIGHT
    assert rows[2]["accuracy"] == best


def test_a_pair_on_which_nothing_had_to_be_searched_has_its_rows_too() -> None:
    data = make_mixture(0, n_rows=800)
    X, y = (np.array_split(part, 4) for part in (data.X_source, data.y_source))
    pair = Pair("0 1", X[0], y[0], X[1], X[2], y[2], X[3], y[3])
    rows = digits._unshift_rows(Judge(pair), [np.arange(10)])
    assert [row["method"] for row in rows[:3]] == [digits.UNSHIFT, digits.LOWEST, digits.HINDSIGHT]
    assert rows[0]["chosen"] == "no adaptation"
    assert all(row["components"] == "auto" for row in rows)


def test_results_do_not_depend_on_the_number_of_processes(found) -> None:
    again = digits.run_network(
        load_digits_embeddings("fast_0"), pairs=[(0, 1)], ten=False, draws=2, n_jobs=2
    )
    assert again == found


def test_labels_never_count_the_rows_that_are_scored() -> None:
    data = load_digits_embeddings("paper")
    pair = digits.pair_of(data, (2, 7))
    assert pair.X_labelled.shape[0] == np.isin(data.y_target_train, (2, 7)).sum()
    assert digits.label_count(pair, 0.10) == int(0.10 * pair.y_target.size)
    assert digits.label_count(pair, 1e-9) == 1


def test_judge_scores_maps_as_if_applied_by_hand() -> None:
    pair = small_pair()
    judge = Judge(pair)
    source, target = algorithm_2(TEXT, pair, 2, np.random.default_rng(0)).maps[0]
    model = logistic(source(pair.X_source), pair.y_source)
    assert judge.accuracy((source, target)) == model.score(target(pair.X_target), pair.y_target)


def test_published_gains_are_those_of_the_paper() -> None:
    for labels, mean, least, worse in ((0.0, -0.0016, -0.922, 20), (0.1, 0.0772, -0.028, 2)):
        gains = [r["gain"] for r in scoreboard.published_gains() if r["labels"] == labels]
        assert len(gains) == 45
        assert np.mean(gains) == pytest.approx(mean, abs=1e-4)
        assert min(gains) == pytest.approx(least, abs=1e-3)
        assert sum(gain < 0 for gain in gains) == worse


def accuracy(pair: str, value: float, method: str = "none", labels: float = 0.0, draw: int = 0):
    return {
        "network": "n",
        "pair": pair,
        "method": method,
        "components": "–",
        "labels": labels,
        "draw": draw,
        "accuracy": value,
        "chosen": "",
    }


def test_summary_counts_harm_by_the_mean_over_draws_and_leaves_out_all_ten() -> None:
    rows = [accuracy("0 1", 0.9), accuracy("0 2", 0.8), accuracy(digits.TEN, 0.1)]
    rows += [accuracy("0 1", 0.83 + 0.02 * d, "m", 0.1, d) for d in (0, 1)]
    rows += [accuracy("0 2", v, "m", 0.1, d) for d, v in enumerate((0.4, 0.9))]
    rows += [accuracy(digits.TEN, 0.2, "m", 0.1, d) for d in (0, 1)]
    row = scoreboard.find(scoreboard.summary_rows(scoreboard.Scores(rows)), "n", "m", "–", 0.1)
    assert row["pairs"] == 2
    assert row["mean"] == pytest.approx((0.84 + 0.65) / 2)
    assert row["lowest"] == pytest.approx(0.65)
    assert row["turned"] == pytest.approx((0.84 + 0.75) / 2), "0.4 turned round is 0.6"
    assert row["harmed_5"] == row["harmed_1"] == 2
    assert row["least_gain"] == pytest.approx(-0.15)
    assert row["least_gain_of_a_draw"] == pytest.approx(-0.4)
    assert row["anti_aligned"] == pytest.approx(0.5), "in one of two draws"
    assert row["all_ten"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("few", "many", "verdict"),
    [
        ((0.9, 0.7), (0.9, 0.85), claims.CONFIRMED),
        ((0.9, 0.7), (0.9, 0.75), claims.PARTLY),
        ((0.9, 0.7), (0.9, 0.7), claims.REFUTED),
        ((0.7, 0.9), (0.9, 0.9), claims.REFUTED),
    ],
)
def test_hypothesis_on_rows_is_judged_by_the_gap_that_they_close(few, many, verdict) -> None:
    rows = [
        {"network": "n", "components": p, "rows": n, "pairs": 3, "turned": value, "misled": 0.0}
        for n, values in ((75, few), (1200, many))
        for p, value in zip(("5", "all"), values, strict=True)
    ]
    assert claims._rows_are_too_few(rows, "n")["verdict"] == verdict


def test_wanted_says_by_how_much_it_falls_short() -> None:
    row = claims._wanted("n", "at least", 0.95, 0.96)
    assert row["short"] == pytest.approx(0.01)
    assert claims._wanted("n", "at least", 0.97, 0.96)["short"] == 0.0
    assert claims._wanted("n", "at most", 3.0, 0.0, -1)["short"] == 3.0
    assert claims._wanted("n", "at most", 0.0, 0.0, -1)["short"] == 0.0


def test_angles_and_matrices_are_each_others_inverse() -> None:
    for component in simulated.COMPONENTS:
        for degrees in (10.0, 200.0, 359.0):
            R = simulated.orthogonal(np.radians(degrees), component)
            assert simulated.angle_of(R) == (component, pytest.approx(degrees))


def test_the_rotation_of_the_true_maps_puts_the_shared_rows_upon_each_other() -> None:
    mixture = make_mixture(1)
    whitened_ = simulated.Whitened(mixture)
    M_B = whitened_.target.matrix.T @ mixture.theta_target
    M_A = whitened_.source.matrix.T @ mixture.theta_source
    np.testing.assert_allclose(whitened_.truth() @ M_B, M_A, atol=0.35 * np.linalg.norm(M_A))


def test_minima_are_local_minima_and_the_lowest_comes_first() -> None:
    whitened_ = simulated.Whitened(make_mixture(0))
    minima = whitened_.minima(whitened_.landscape(simulated.SOUGHT))
    values = [minimum.value for minimum in minima]
    assert values == sorted(values)
    for minimum in minima:
        for turn in (-0.05, 0.05):
            near = simulated.orthogonal(turn, "rotation") @ minimum.point
            assert whitened_.exact.value(near) > minimum.value


def test_anti_alignment_has_the_same_mmd2_and_the_classes_swapped() -> None:
    aligned, swapped = simulated.anti_alignment(0)["rows"]
    assert aligned["mmd2"] == pytest.approx(swapped["mmd2"], rel=1e-9)
    assert aligned["accuracy"] == pytest.approx(1.0 - swapped["accuracy"])


def test_starts_are_reproducible_and_the_first_is_the_lowest() -> None:
    rows = simulated.starts_of(0)
    assert rows == simulated.starts_of(0)
    assert rows[0]["start"] == simulated.GLOBAL
    assert all(row["mmd2"] >= rows[0]["mmd2"] - 1e-9 for row in rows)
    kinds = {row["start"] for row in rows}
    assert {"I", "−I", "unshift, no labels", "unshift, 5 labels"} < kinds
