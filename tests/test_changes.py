"""What a map does to each feature: told exactly where it is known."""

import numpy as np
import pytest

from unshift.affine import AffineMap
from unshift.cards import KINDS, about, meaning
from unshift.changes import MOST, feature_changes


def test_shift_and_stretch_of_a_column_are_told_in_the_sources_deviations() -> None:
    rng = np.random.default_rng(0)
    source = rng.standard_normal((4000, 3)) * [1.0, 10.0, 1.0]
    target = rng.standard_normal((500, 3))
    moved = AffineMap(np.zeros(3), np.diag([1.0, 1.0, 3.0]), np.array([0.5, 40.0, 0.0]))
    changes = {one["feature"]: one for one in feature_changes(moved, source, target, True)}
    spread = source.std(axis=0)
    first, second, third = (changes[f"column {j}"] for j in range(3))
    assert first["shift"] == pytest.approx(0.5 / spread[0])
    assert first["moved"] == pytest.approx(0.5 / spread[0])
    assert second["moved"] == pytest.approx(40.0 / spread[1])
    assert (first["scale"], third["scale"]) == pytest.approx((1.0, 3.0))
    assert third["moved"] == pytest.approx(np.sqrt(np.mean((2 * target[:, 2]) ** 2)) / spread[2])
    assert [one["mixed"] for one in changes.values()] == pytest.approx([0.0] * 3, abs=1e-12)


def test_most_moved_come_first_and_the_identity_moves_none() -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((50, 40))
    stay = feature_changes(AffineMap.identity(40), rows, rows, True)
    assert len(stay) == MOST
    assert {one["moved"] for one in stay} == {0.0}
    shift = AffineMap(np.zeros(40), np.eye(40), np.arange(40.0) * rows.std(axis=0))
    told = feature_changes(shift, rows, rows, True)
    assert [one["feature"] for one in told] == [f"column {j}" for j in range(39, 39 - MOST, -1)]


def test_mixed_is_the_share_of_variance_that_other_columns_bring() -> None:
    target = np.linalg.qr(np.random.default_rng(2).standard_normal((400, 3)))[0][:, :2]
    target = target - target.mean(axis=0)
    target = np.linalg.qr(target)[0] * np.sqrt(400)  # uncorrelated, of deviation 1
    map_ = AffineMap(np.zeros(2), np.array([[3.0, 0.0], [4.0, 1.0]]), np.zeros(2), ("a", "b"))
    changes = feature_changes(map_.renamed(("a", "b"), ("a", "b")), target, target, True)
    mixed = {one["feature"]: one["mixed"] for one in changes}
    assert mixed == pytest.approx({"a": 16.0 / 25.0, "b": 0.0}, abs=1e-9)


def test_features_that_do_not_correspond_are_told_by_what_they_are_made_of() -> None:
    target = np.array([[1.0, 0.0, 0.0], [-1.0, 10.0, 0.0], [0.0, -10.0, 0.0]])
    map_ = AffineMap(np.zeros(3), np.array([[1.0], [0.3], [50.0]]), np.zeros(1), tuple("xyz"))
    (told,) = feature_changes(map_, np.array([[2.0], [-2.0]]), target, False)
    spread = target.std(axis=0)
    weights = np.array([1.0, 0.3]) * spread[:2]
    assert [name for name, _ in told["made"]] == ["y", "x", "z"]
    shares = weights[::-1] / weights.sum()
    assert [share for _, share in told["made"]] == pytest.approx([*shares, 0.0])
    assert told["kept"] == pytest.approx((target @ [1.0, 0.3, 50.0]).var() / 4.0)


def test_constant_columns_are_moved_by_numbers_that_are_finite() -> None:
    rows = np.column_stack([np.ones(20), np.arange(20.0)])
    for one in feature_changes(AffineMap(np.zeros(2), np.eye(2), np.ones(2)), rows, rows, True):
        assert all(np.isfinite(value) for key, value in one.items() if key != "feature")


def test_ten_thousand_columns_are_told_by_the_first() -> None:
    rng = np.random.default_rng(3)
    source = rng.standard_normal((30, 10_000))
    map_ = AffineMap(np.zeros(4), rng.standard_normal((4, 10_000)), np.zeros(10_000))
    assert len(feature_changes(map_, source, rng.standard_normal((30, 4)), False)) == MOST


def test_every_kind_of_candidate_has_a_meaning() -> None:
    from unshift import strengths

    names = ("HALF_MEAN", "MEAN", "LOCATION_SCALE", "CORAL", "TRANSPORT")
    for kind in [getattr(strengths, name) for name in names]:
        assert meaning(kind)
    assert meaning("anchor, 5 components") == KINDS["anchor"]
    assert meaning("joint, from anchor") == KINDS["joint"]
    assert meaning("something new") == ""


def test_an_estimate_is_never_all() -> None:
    assert about(0.934) == "about 93%"
    assert about(0.999) == "nearly all"
