"""Many domains over one space: the plate model, its objective, and what may change alone."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unshift
from planted import View, gap, view
from unshift.many import ManyAlignment
from unshift.plate import Plate, descend_in_turn
from unshift.stiefel import random_orthogonal

WIDTHS = {"ash": 4, "birch": 3, "cedar": 6, "fir": 4, "elm": 5}
OPTIONS = {"same_features": False, "n_components": None, "n_starts": 6}


@pytest.fixture(scope="module")
def views() -> dict[str, View]:
    return {
        name: view(width, seed, n=350 + 30 * seed)
        for seed, (name, width) in enumerate(WIDTHS.items())
    }


@pytest.fixture(scope="module")
def five(views: dict[str, View]) -> ManyAlignment:
    domains = {name: v.rows for name, v in views.items()}
    return unshift.align_many(domains, reference="ash", random_state=0, **OPTIONS)


@pytest.fixture(scope="module")
def two(views: dict[str, View]) -> ManyAlignment:
    domains = {name: views[name].rows for name in ("ash", "birch")}
    return unshift.align_many(domains, reference="ash", random_state=0, **OPTIONS)


def same_maps(first: unshift.AffineMap, second: unshift.AffineMap) -> bool:
    parts = ("center", "matrix", "offset")
    equal = all(np.array_equal(getattr(first, part), getattr(second, part)) for part in parts)
    return equal and (first.names_in, first.names_out) == (second.names_in, second.names_out)


def plate_of(p: int, sizes: list[int], seed: int = 0) -> Plate:
    rng = np.random.default_rng(seed)
    rows = tuple(rng.exponential(size=(n, p)) - 1.0 for n in sizes)
    return Plate(rows, tuple(random_orthogonal(p, rng, size=len(sizes))), 1.3)


def kernel_mean(X: np.ndarray, Y: np.ndarray, sigma: float) -> float:
    squared = ((X[:, None] - Y[None]) ** 2).sum(axis=2)
    return float(np.exp(-squared / (2 * sigma**2)).mean())


def summed_discrepancy(plate: Plate) -> float:
    """``Σ_k MMD²(Z_k R_kᵀ, P)`` by its definition, from the kernel's means between domains."""
    rows = [plate.placed(k) for k in range(len(plate.rows))]
    inner = np.array([[kernel_mean(a, b, plate.sigma) for b in rows] for a in rows])
    return float(np.trace(inner) - 2 * inner.mean(axis=1).sum() + len(rows) * inner.mean())


# the objective


@pytest.mark.parametrize("sizes", [[40, 30], [20, 70, 30, 50]])
def test_discrepancies_against_the_others_add_up_to_those_against_the_pool_of_all(
    sizes: list[int],
) -> None:
    plate = plate_of(3, sizes)
    assert plate.objective() == pytest.approx(summed_discrepancy(plate), rel=1e-9)


def test_turning_one_domain_changes_the_sum_as_its_own_discrepancy_against_the_others() -> None:
    plate = plate_of(3, [20, 70, 30, 50])
    turned = plate.placing(2, plate.rows[2], random_orthogonal(3, np.random.default_rng(5)))
    change = turned.discrepancy(2) - plate.discrepancy(2)
    assert summed_discrepancy(turned) - summed_discrepancy(plate) == pytest.approx(0.75 * change)


def test_every_domain_counts_equally_whatever_its_rows() -> None:
    plate = plate_of(2, [30, 40, 50])
    doubled = plate.placing(1, np.repeat(plate.rows[1], 4, axis=0), plate.rotations[1])
    for k in range(3):
        assert doubled.discrepancy(k) == pytest.approx(plate.discrepancy(k), rel=1e-9)


def test_sum_never_rises_and_the_path_tells_it_truly() -> None:
    plate = plate_of(3, [60, 50, 40, 70])
    path = [summed_discrepancy(plate)]
    current = plate
    for k in [1, 2, 3] * 3:
        current, fall = current.descended(k)
        path.append(summed_discrepancy(current))
        assert path[-2] - path[-1] == pytest.approx(fall, abs=1e-12)
        assert fall >= 0.0
    assert path[-1] < 0.9 * path[0]
    _, told = descend_in_turn(plate, [1, 2, 3])
    assert told[: len(path)] == pytest.approx(np.array(path), rel=1e-9)


def test_a_domain_that_is_not_adapted_stays_where_it_is() -> None:
    plate = plate_of(3, [60, 50, 40])
    fixed = plate.placing(1, plate.rows[1], None)
    after, path = descend_in_turn(fixed, [1, 2])
    assert after.rotations[1] is None
    assert np.array_equal(after.rotations[0], fixed.rotations[0])
    assert path[-1] < path[0]


# all domains together


def test_planted_maps_of_five_domains_are_recovered(
    five: ManyAlignment, views: dict[str, View]
) -> None:
    reference = views["ash"]
    for name, v in views.items():
        shared = five.maps["ash"](reference.seen(v.latent))
        assert gap(five.maps[name](v.rows), shared) < 0.2, name
        assert gap(five.to_reference[name](v.rows), reference.seen(v.latent)) < 0.2, name


def test_joint_objective_never_rises(five: ManyAlignment) -> None:
    path = five.objective_path
    assert path.size >= len(WIDTHS)
    assert (np.diff(path) <= 0).all()
    assert path[-1] < path[0]
    evidence = five.evidence
    assert evidence is not None
    assert path[-1] == pytest.approx(summed_discrepancy(evidence.plate), rel=1e-3)
    assert path[-1] == pytest.approx((4 / 5) ** 2 * sum(five.mmd2.values()), rel=1e-3)


def test_rotations_are_orthogonal_and_the_reference_stays(
    five: ManyAlignment, views: dict[str, View]
) -> None:
    for R in five.rotations.values():
        assert R is not None
        assert np.abs(R @ R.T - np.eye(3)).max() < 1e-12
    assert np.array_equal(five.rotations["ash"], np.eye(3))
    rows = views["ash"].rows
    assert np.array_equal(five.to_reference["ash"](rows), rows)
    white = five.maps["ash"](rows)
    assert np.abs(white.T @ white / len(white) - np.eye(3)).max() < 1e-9


def test_answer_does_not_depend_on_the_order_of_the_domains(
    five: ManyAlignment, views: dict[str, View]
) -> None:
    domains = {name: views[name].rows for name in reversed(views)}
    again = unshift.align_many(domains, reference="ash", random_state=0, **OPTIONS)
    assert list(again.maps) == list(reversed(views))
    for name in views:
        assert same_maps(five.maps[name], again.maps[name])
        assert same_maps(five.to_reference[name], again.to_reference[name])
    assert five.mmd2 == {name: again.mmd2[name] for name in five.mmd2}


def test_two_domains_are_what_align_makes_of_them(
    two: ManyAlignment, views: dict[str, View]
) -> None:
    source, target = views["ash"].rows, views["birch"].rows
    pair = unshift.align(source, target, random_state=0, **OPTIONS)
    assert same_maps(two.alignments["birch"].target, pair.target)
    assert same_maps(two.maps["ash"], pair.source)
    assert gap(two.maps["birch"](target), pair.target(target)) < 0.01
    assert gap(two.to_reference["birch"](target), pair.target_to_source(target)) < 0.01
    assert two.mmd2["birch"] == pytest.approx(pair.mmd2, rel=0.01)
    assert two.objective_path[-1] == pytest.approx(0.5 * two.mmd2["birch"], rel=1e-3)


def test_unadapted_domains_keep_their_features(views: dict[str, View]) -> None:
    rows, labels = views["ash"].rows, views["ash"].labels
    halves = {"one": rows[::2], "two": rows[1::2]}
    y = {"one": labels[::2], "two": np.where(np.arange(175) < 40, labels[1::2], np.nan)}
    options = {"reference": "one", "choice": "paper", "n_starts": 2, "random_state": 0}
    many = unshift.align_many(halves, y=y, **options)
    assert many.alignments["two"].candidates[0].kind == "no adaptation"
    assert many.rotations["two"] is None
    assert np.array_equal(many.to_reference["two"](halves["two"]), halves["two"])
    assert np.array_equal(many.maps["two"](halves["two"]), many.maps["one"](halves["two"]))


def test_a_domain_stays_where_a_map_without_rotation_puts_it(views: dict[str, View]) -> None:
    rows = views["ash"].rows
    moved = {"one": rows[::2], "two": rows[1::2] + np.array([0.5, -0.3, 0.2, 0.1])}
    many = unshift.align_many(moved, reference="one", n_starts=2, random_state=0)
    best = many.alignments["two"].candidates[0]
    back = many.to_reference["two"](moved["two"])
    if best.rotation is None:
        assert np.array_equal(back, best.target_to_source(moved["two"]))
    assert gap(many.maps["two"](moved["two"]), many.maps["one"](back)) < 1e-9
    assert gap(back, rows[1::2]) < 0.3


def test_labels_of_each_domain_judge_its_candidates(views: dict[str, View]) -> None:
    names = ("ash", "birch", "cedar")
    y = {"ash": views["ash"].labels.astype(str), "cedar": views["cedar"].labels.astype(object)}
    y["cedar"] = np.array([str(c) if i < 60 else None for i, c in enumerate(y["cedar"])], object)
    domains = {name: views[name].rows for name in names}
    many = unshift.align_many(domains, reference="ash", y=y, random_state=0, **OPTIONS)
    assert many.alignments["cedar"].candidates[0].n_labelled == 60
    assert many.alignments["birch"].candidates[0].n_labelled == 0
    assert many.alignments["cedar"].candidates[0].error < 0.2


def test_reference_is_the_domain_with_most_rows_and_the_first_of_those() -> None:
    sizes = {"c": 90, "a": 99, "b": 99}
    domains = {name: view(2, n, p=2, n=n).rows for name, n in sizes.items()}
    many = unshift.align_many(domains, n_starts=1, random_state=0)
    assert many.reference == "a"
    assert set(many.alignments) == set(many.diagnosis) == {"b", "c"}


def test_progress_names_the_domain() -> None:
    told: list[str] = []
    domains = {name: view(2, seed, p=2, n=99).rows for seed, name in enumerate("ab")}
    unshift.align_many(
        domains, n_starts=1, random_state=0, callback=lambda stage, done, total: told.append(stage)
    )
    assert any(stage.startswith("b: ") for stage in told)
    assert "joint descent" in told


def test_frames_keep_their_names() -> None:
    domains = {
        name: pd.DataFrame(view(2, seed, p=2, n=99).rows, columns=[f"{name}0", f"{name}1"])
        for seed, name in enumerate("ab")
    }
    many = unshift.align_many(domains, reference="a", n_starts=1, random_state=0)
    assert list(many.to_reference["b"](domains["b"]).columns) == ["a0", "a1"]
    with pytest.raises(ValueError, match="feature names of X differ"):
        many.maps["b"](domains["a"])


# one domain alone


def test_refit_recovers_a_planted_change_and_leaves_the_others_to_the_last_bit(
    five: ManyAlignment, views: dict[str, View]
) -> None:
    moved = view(7, 99, n=450)
    again = five.refit("cedar", moved.rows, n_starts=6, random_state=1)
    for name in ("ash", "birch", "fir", "elm"):
        assert same_maps(five.maps[name], again.maps[name])
        assert same_maps(five.to_reference[name], again.to_reference[name])
        assert np.array_equal(five.rotations[name], again.rotations[name])
    assert list(again.maps) == list(five.maps)
    truth = five.maps["ash"](views["ash"].seen(moved.latent))
    assert gap(again.maps["cedar"](moved.rows), truth) < 0.2
    assert again.objective_path[-1] <= again.objective_path[0]
    assert five.maps["cedar"].width_in == 6


def test_refit_adds_a_domain_of_a_new_name(two: ManyAlignment, views: dict[str, View]) -> None:
    rows = views["elm"].rows
    three = two.refit("elm", rows, n_starts=6, random_state=0)
    assert list(three.maps) == list(three.mmd2) == ["ash", "birch", "elm"]
    assert same_maps(three.maps["birch"], two.maps["birch"])
    truth = two.maps["ash"](views["ash"].seen(views["elm"].latent))
    assert gap(three.maps["elm"](rows), truth) < 0.2
    birch = views["birch"].rows
    twice = three.refit("birch", birch, n_starts=6, random_state=0)
    assert same_maps(twice.maps["elm"], three.maps["elm"])
    assert gap(twice.maps["birch"](birch), three.maps["birch"](birch)) < 0.1


def test_refit_is_judged_by_labels(views: dict[str, View]) -> None:
    domains = {name: views[name].rows for name in ("ash", "birch")}
    y = {"ash": views["ash"].labels}
    many = unshift.align_many(domains, reference="ash", y=y, random_state=0, **OPTIONS)
    elm = views["elm"]
    labels = np.where(np.arange(len(elm.labels)) < 50, elm.labels.astype(float), np.nan)
    again = many.refit("elm", elm.rows, labels, n_starts=2, random_state=0)
    assert again.alignments["elm"].candidates[0].n_labelled == 50
    with pytest.raises(ValueError, match=r"y\['elm'\] has labels that y\['ash'\] lacks: \[77"):
        many.refit("elm", elm.rows, np.full(len(elm.labels), 77))


def test_same_seed_gives_the_same_to_the_last_bit(
    two: ManyAlignment, views: dict[str, View]
) -> None:
    domains = {name: views[name].rows for name in ("ash", "birch")}
    again = unshift.align_many(domains, reference="ash", random_state=0, n_jobs=2, **OPTIONS)
    assert same_maps(two.maps["birch"], again.maps["birch"])
    assert np.array_equal(two.objective_path, again.objective_path)
    refits = [two.refit("elm", views["elm"].rows, n_starts=2, random_state=3) for _ in range(2)]
    assert same_maps(refits[0].maps["elm"], refits[1].maps["elm"])


def test_saved_file_gives_the_same_bits_back(
    five: ManyAlignment, views: dict[str, View], tmp_path
) -> None:
    five.save(tmp_path / "five.unshift")
    again = unshift.load(tmp_path / "five.unshift")
    assert isinstance(again, ManyAlignment)
    assert repr(again) == repr(five)
    assert list(again.maps) == list(five.maps)
    for name in five.maps:
        assert same_maps(five.maps[name], again.maps[name])
        assert same_maps(five.to_reference[name], again.to_reference[name])
        assert np.array_equal(five.rotations[name], again.rotations[name])
    assert again.mmd2 == five.mmd2
    assert np.array_equal(again.objective_path, five.objective_path)
    assert str(again.diagnosis) == str(five.diagnosis)
    assert repr(again.diagnosis) == repr(five.diagnosis)  # equal, NaN included
    assert len(again.alignments["elm"].candidates) == len(five.alignments["elm"].candidates)
    assert same_maps(again.alignments["elm"].target, five.alignments["elm"].target)
    with pytest.raises(ValueError, match="comes from a file, which holds no rows"):
        again.refit("elm", views["elm"].rows)


# bad input


ROWS = view(2, 0, p=2, n=30).rows


@pytest.mark.parametrize(
    ("domains", "options", "error", "message"),
    [
        ([ROWS, ROWS], {}, TypeError, "domains should be a mapping of names.*got list"),
        ({1: ROWS, 2: ROWS}, {}, TypeError, r"Names of domains should be strings; got \[1, 2\]"),
        ({"a": ROWS}, {}, ValueError, r"at least two domains; got \['a'\]"),
        ({}, {}, ValueError, "at least two domains"),
        (
            {"a": ROWS, "b": ROWS},
            {"reference": "c"},
            ValueError,
            r"reference='c' is none of the domains: \['a', 'b'\]",
        ),
        (
            {"a": ROWS, "b": ROWS},
            {"y": {"c": [1] * 30}},
            ValueError,
            r"y has labels for \['c'\], which are none of the domains: \['a', 'b'\]",
        ),
        ({"a": ROWS, "b": ROWS}, {"y": [1, 2]}, TypeError, "y should be a mapping"),
        ({"a": ROWS, "b": ROWS}, {"reference": ["a"]}, ValueError, "is none of the domains"),
        (
            {"a": ROWS, "b": ROWS[:, :1]},
            {"same_features": True},
            ValueError,
            "reference 'a' has 2 columns and 'b' has 1: .* Use same_features=False",
        ),
        (
            {"a": ROWS, "b": ROWS},
            {"reference": "a", "y": {"b": [1] * 30}},
            ValueError,
            r"y\['b'\] was given without y\['a'\]",
        ),
        (
            {"a": ROWS, "b": ROWS},
            {"reference": "a", "y": {"a": [0, 1] * 15, "b": [2] * 30}},
            ValueError,
            r"y\['b'\] has labels that y\['a'\] lacks: \[2\]",
        ),
        (
            {"a": ROWS, "b": ROWS},
            {"y": {"a": [0, 1]}},
            ValueError,
            r"y\['a'\] should hold one label for each of the 30 rows",
        ),
        ({"a": ROWS, "b": ROWS * np.nan}, {}, ValueError, r"domains\['b'\] contains NaN"),
        ({"a": ROWS, "b": ROWS[:1]}, {}, ValueError, r"domains\['b'\] needs at least two rows"),
        ({"a": ROWS, "b": ROWS * 0}, {}, ValueError, r"domains\['b'\] is constant"),
        (
            {"a": ROWS, "b": ROWS},
            {"n_components": 3},
            ValueError,
            "n_components=3, but the domains",
        ),
        ({"a": ROWS, "b": ROWS}, {"choice": "best"}, ValueError, "choice should be one of"),
        ({"a": ROWS, "b": ROWS}, {"task": "ranking"}, ValueError, "task should be one of"),
    ],
)
def test_bad_input_is_refused_by_name(domains, options, error, message) -> None:
    with pytest.raises(error, match=message):
        unshift.align_many(domains, **options)


def test_refit_refuses_what_cannot_be(two: ManyAlignment, views: dict[str, View]) -> None:
    with pytest.raises(ValueError, match="'ash' is the reference"):
        two.refit("ash", views["ash"].rows)
    with pytest.raises(TypeError, match="Names of domains should be strings"):
        two.refit(3, views["elm"].rows)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"shared space has 3 dimensions.*support only 1 "):
        two.refit("elm", views["elm"].rows[:, :1])
    with pytest.raises(ValueError, match=r"domains\['elm'\] contains NaN"):
        two.refit("elm", views["elm"].rows * np.nan)
    with pytest.raises(ValueError, match="no rows of data, so no domain can be refitted"):
        replace(two, evidence=None).refit("elm", views["elm"].rows)
