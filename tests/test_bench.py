"""The quality suite: its problems, its scores, and the page made of them."""

from itertools import islice

import numpy as np
import pytest
from bench import held_out, peers, problems, quality, quality_page

from unshift import choice

NO_DATA = problems.Data(None)
SHIPPED = ("digits", "planted", "planted, unknown columns", "controls", "symmetric")


def first(family, skipped=0):
    return next(islice(problems.FAMILIES[family](NO_DATA), skipped, None))


@pytest.mark.parametrize("family", SHIPPED)
def test_a_problem_is_the_same_whenever_it_is_made(family):
    one, other = first(family), first(family)
    for name in ("X_source", "y_source", "X_target", "y_target"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("family", SHIPPED)
def test_problems_have_names_of_their_own_and_small_sources(family):
    made = list(problems.FAMILIES[family](NO_DATA))
    assert len({(p.variety, p.name) for p in made}) == len(made)
    for problem in made:
        assert len(problem.X_source) == len(problem.y_source) <= problems.MOST_ROWS
        assert len(problem.X_target) == len(problem.y_target)
        assert np.isin(problem.y_target, problem.y_source).any()


@pytest.mark.parametrize("family", ["gas", "office", "sugarcane"])
def test_families_whose_data_are_not_there_have_no_problems(family):
    assert list(problems.FAMILIES[family](NO_DATA)) == []


def test_sugarcane_has_no_sample_on_both_sides(tmp_path):
    ids = np.array([f"{i}" for i in range(100, 160)])
    arrays = {"References": np.arange(240.0).reshape(60, 4), "References_id": ids}
    for width, name in enumerate(problems.INSTRUMENTS):
        order = np.random.default_rng(width).permutation(60)
        # every spectrum holds its sample's number, in whatever order the instrument saw them
        arrays[name] = np.repeat(np.arange(60.0)[order, None], width + 2, axis=1)
        arrays[f"{name}_id"] = ids[order]
    np.savez(tmp_path / "sugarcane.npz", **arrays)
    for problem in problems.sugarcane(problems.Data(tmp_path)):
        assert set(problem.X_source[:, 0]).isdisjoint(problem.X_target[:, 0])
        column = problem.y_source[0] % 4
        np.testing.assert_array_equal(problem.y_source, 4 * problem.X_source[:, 0] + column)
        np.testing.assert_array_equal(problem.y_target, 4 * problem.X_target[:, 0] + column)
        assert problem.X_source.shape[1] != problem.X_target.shape[1]
        assert not problem.same_features


def test_symmetric_targets_are_the_source_turned_by_half_the_angle_between_corners():
    known = next(p for p in problems.symmetric(NO_DATA) if p.name.startswith("4 corners"))
    means = [
        [np.mean(X[y == c, :2], axis=0) for c in range(4)]
        for X, y in ((known.X_source, known.y_source), (known.X_target, known.y_target))
    ]
    inner = np.sum(np.array(means[0]) * np.array(means[1]), axis=1) / 4.0
    np.testing.assert_allclose(inner, np.cos(np.pi / 4), atol=0.1)


def test_classes_are_scored_by_the_mean_of_their_recalls_without_classes_the_source_lacks():
    truth = np.array([0, 0, 0, 0, 1, 1, 2])
    predicted = np.array([0, 0, 0, 1, 1, 0, 0])
    assert quality.score(truth, predicted, "classification", np.array([0, 1])) == 62.5


def test_numbers_are_scored_by_r2_down_to_minus_100():
    truth = np.array([0.0, 1.0, 2.0, 3.0])
    assert quality.score(truth, truth, "regression") == 100.0
    assert quality.score(truth, np.full(4, 1.5), "regression") == 0.0
    assert quality.score(truth, 50.0 + truth, "regression") == -100.0


def test_rows_whose_labels_are_given_are_few_known_and_not_scored():
    problem = first("digits")
    judge = quality.Judge(problem)
    assert judge.given.size == quality.LABELS
    assert np.isin(problem.y_target[judge.given], problem.y_source).all()
    predicted = problem.y_target.copy()
    predicted[judge.given] = -1
    assert judge(predicted) == 100.0


def test_fixed_strategies_undo_the_shifts_that_they_are_made_for():
    rng = np.random.default_rng(0)
    source = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 3))
    target = 3.0 * source + 5.0
    for method in ("location and scale", "POT LinearTransport"):
        mapped, other = peers.FIXED[method](source, target)
        np.testing.assert_allclose(mapped, other, atol=0.05)
    mapped, other = peers.mean_shift(source, source + 5.0)
    np.testing.assert_allclose(mapped, other)


def test_where_columns_do_not_correspond_only_the_constant_applies():
    problem = first("planted, unknown columns")
    with pytest.raises(peers.SkippedError, match="columns do not correspond"):
        peers.predict("CORAL", problem)
    assert np.unique(peers.predict("none", problem)).size == 1


def test_a_run_writes_its_tables_and_page_and_keeps_rows_of_other_methods(tmp_path):
    problem = first("planted", 9)
    for methods in (["none"], ["unshift", "unshift, 10 labels"]):
        quality.run_problems(tmp_path, [problem], methods, ["planted"], n_jobs=1)
    rows = quality.read(tmp_path / "quality.csv")
    candidates = quality.read(tmp_path / "quality_candidates.csv")
    assert {row["method"] for row in rows} == {"none", "unshift", "unshift, 10 labels"}
    assert (tmp_path / "crashes.txt").read_text() == ""
    answer = next(row for row in rows if row["method"] == "unshift")
    assert float(answer["best_in_hindsight"]) == max(float(c["score"]) for c in candidates)
    page = quality_page.page(rows, candidates)
    assert "| planted | 1 |" in page


def test_a_method_that_fails_leaves_a_note_and_the_others_their_results(monkeypatch):
    def fails(source, target):
        raise ZeroDivisionError("nothing left")

    monkeypatch.setitem(peers.FIXED, "CORAL", fails)
    rows, _, crashes = quality.solve(first("planted"), ["CORAL", "none"])
    assert rows[0]["note"] == "failed: ZeroDivisionError: nothing left"
    assert rows[1]["score"] > 0
    assert "Traceback" in crashes


def test_the_choice_made_again_with_the_shipped_constants_is_the_choice_made():
    problem = first("planted", 9)
    attempt = quality.Attempt(problem)
    attempt.row("unshift")
    stored = [{k: str(v) for k, v in row.items()} for row in attempt.candidates]
    (found,) = held_out.grouped(stored)["planted"]
    again = held_out.chosen(found, held_out.shipped())
    assert again.kind == attempt.alignment.candidates[0].kind
    before = choice.STEP
    held_out.chosen(found, (0.0, 1e9, 0.0, 0.0))
    assert before == choice.STEP
