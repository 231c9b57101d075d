"""The search's benchmarks: problems with a known truth, peers that answer in kind, and the page."""

from dataclasses import asdict

import numpy as np
import pytest
from bench import paper_task, planted, planted_peers, planted_problems, search_page

from rotations import apart
from unshift.stiefel import polar

DIGITS = planted_problems.data_sets(None)["digits"]


def problem(p=3, seed=0):
    return planted_problems.plant("digits", *DIGITS, p, seed)


def test_the_planted_map_is_undone_by_the_true_inverse_and_whitening_leaves_a_rotation():
    planted_one = problem()
    source, target = planted_one.rows
    for rows in (source, target):
        np.testing.assert_allclose(np.cov(rows.T, bias=True), np.eye(3), atol=1e-8)
    to_true = np.linalg.lstsq(target, planted_one.true_target, rcond=None)[0].T
    # the halves' covariances differ by sampling, and so does the inverse from a rotation
    assert apart(to_true, polar(to_true)) < 0.1
    assert apart(planted_one.true_minimum.point, polar(to_true)) < 0.2


def test_the_truth_solves_its_own_problem_and_a_reflection_of_it_does_not():
    truth = problem()
    solved = planted.judge(truth, "truth", truth.true_minimum.point, 1.0)
    assert solved.solved
    assert solved.differ_map == solved.floor
    wrong = planted.judge(truth, "mirror", -truth.true_minimum.point, 1.0)
    assert not wrong.solved
    assert not wrong.lower
    assert wrong.mmd2 > solved.mmd2


@pytest.mark.parametrize("peer", ["restarts, exact", "restarts, spectral", "linear GW"])
def test_peers_answer_with_a_rotation(peer):
    pytest.importorskip("ot")
    R = planted_peers.PEERS[peer](problem(), np.random.default_rng(0), 0.0)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-8)


def test_the_plain_loop_takes_the_same_steps_on_either_kernel():
    rng = np.random.default_rng(0)
    Z, T = rng.standard_normal((200, 5)) ** 3, rng.standard_normal((150, 5)) ** 3
    plain = paper_task.plain_loop(paper_task.plain_kernel(Z, T), np.eye(5))
    blocks = paper_task.plain_loop(paper_task.in_blocks(Z, T).value_and_gradient, np.eye(5))
    assert apart(plain, blocks) < 1e-3


def test_means_of_neighbours_keep_the_mean_and_lose_little_of_the_spread():
    rows = np.random.default_rng(0).standard_normal((4096, 2))
    means = paper_task.condensed(rows, 8)
    assert means.shape == (256, 2)
    np.testing.assert_allclose(means.mean(axis=0), rows.mean(axis=0), atol=1e-12)
    lost = np.var(rows, axis=0) - np.var(means, axis=0)
    assert np.all(lost > 0)
    assert np.all(lost < 0.05)


def test_the_page_counts_runs_by_what_became_of_them(tmp_path):
    truth = problem()
    good = planted.judge(truth, "unshift", truth.true_minimum.point, 1.0)
    bad = planted.judge(truth, "unshift", -truth.true_minimum.point, 3.0)
    peer = planted.judge(truth, "linear GW", -truth.true_minimum.point, 2.0)
    rows = [{k: str(v) for k, v in asdict(each).items()} for each in (good, bad, peer)]
    table = search_page.recovery(rows)
    assert "| p <= 5 | all | 1/2 (50%) | 0 | 1 |" in table
    assert "| linear GW | 0/1 |" in search_page.peers(rows)
    task = [
        {"pair": "0 or 1", "ours": 0.1, "reference": 0.2, "ours, s": 1.0, "reference, s": 300.0}
    ]
    assert "at or below Algorithm 1 on 1 of 1 pairs" in search_page.paper_task(task)
    assert "300 times less" in search_page.paper_task(task)
