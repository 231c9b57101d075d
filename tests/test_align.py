"""align(): what it refuses, what it takes, and the theorems its answer obeys."""

import hashlib
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

import unshift
from planted import View, gap, lopsided_latent, view
from unshift import storage
from unshift.choice import NO_ADAPTATION
from unshift.evidence import with_misfits
from unshift.mmd import ExactMMD

FEW = {"n_starts": 2, "random_state": 0}
PLANTED = {"same_features": False, "n_components": None, "random_state": 0}


@pytest.fixture(scope="module")
def source() -> View:
    return view(4, 0)


@pytest.fixture(scope="module")
def target() -> View:
    return view(5, 1)


@pytest.fixture(scope="module")
def planted(source: View, target: View) -> unshift.Alignment:
    return unshift.align(source.rows, target.rows, source.labels, **PLANTED)


@pytest.fixture(scope="module")
def shifted(source: View) -> View:
    """Columns as in the source, a little off."""
    fresh, labels = lopsided_latent(3, 400, 5)
    mixing = source.mixing * [1.2, 0.9, 1.1, 0.8]
    shift = source.shift + 0.3
    return View(fresh @ mixing + shift, fresh, mixing, shift, labels)


def some(labels: np.ndarray, known: int) -> np.ndarray:
    """The labels as floats, all but the first few unknown."""
    return np.where(np.arange(labels.size) < known, labels.astype(float), np.nan)


def same_maps(first: unshift.AffineMap, second: unshift.AffineMap) -> bool:
    parts = ("center", "matrix", "offset")
    equal = all(np.array_equal(getattr(first, part), getattr(second, part)) for part in parts)
    return equal and (first.names_in, first.names_out) == (second.names_in, second.names_out)


def same_alignments(first: unshift.Alignment, second: unshift.Alignment) -> bool:
    names = ("source", "target", "target_to_source")
    pairs = zip(first.candidates, second.candidates, strict=True)
    equal = all(same_maps(getattr(a, n), getattr(b, n)) for a, b in pairs for n in names)
    numbers = (first.diagnosis == second.diagnosis) and first.mmd2 == second.mmd2
    return equal and numbers and repr(first.candidates) == repr(second.candidates)


# what it finds


@pytest.mark.parametrize(("widths", "p"), [((4, 6), 3), ((6, 4), 3), ((5, 5), 5)])
def test_planted_maps_are_recovered_for_widths_alike_and_unlike(
    widths: tuple[int, int], p: int
) -> None:
    A, B = view(widths[0], 3, p=p, n=500), view(widths[1], 4, p=p, n=450)
    alignment = unshift.align(A.rows, B.rows, **PLANTED)
    assert gap(alignment.target(B.rows), alignment.source(A.seen(B.latent))) < 0.2
    assert gap(alignment.target_to_source(B.rows), A.seen(B.latent)) < 0.2
    assert alignment.rotation is not None
    assert np.abs(alignment.rotation @ alignment.rotation.T - np.eye(p)).max() < 1e-12


def test_maps_have_the_moments_that_whitening_promises(
    planted: unshift.Alignment, source: View, target: View
) -> None:
    for rows in (planted.source(source.rows), planted.target(target.rows)):
        assert np.abs(rows.mean(axis=0)).max() < 1e-9
        assert np.abs(rows.T @ rows / len(rows) - np.eye(3)).max() < 1e-9


def test_target_to_source_is_the_target_map_undone_by_the_source_map(
    planted: unshift.Alignment, source: View, target: View
) -> None:
    back = planted.target_to_source(target.rows)
    assert back.shape == (len(target.rows), source.rows.shape[1])
    assert gap(planted.source(back), planted.target(target.rows)) < 1e-9


def test_mmd2_is_that_of_the_aligned_rows(
    planted: unshift.Alignment, source: View, target: View
) -> None:
    rows = planted.source(source.rows), planted.target(target.rows)
    assert planted.mmd2 == pytest.approx(unshift.mmd2(*rows, planted.bandwidth), abs=1e-6)


def test_the_standard_error_is_that_of_the_aligned_rows(
    planted: unshift.Alignment, source: View, target: View
) -> None:
    rows = planted.source(source.rows), planted.target(target.rows)
    expected = ExactMMD(*rows, planted.bandwidth).standard_error(np.eye(3))
    assert planted.diagnosis.numbers["mmd2_error"] == pytest.approx(expected, rel=1e-6)
    assert f"± {expected:.2g}; two samples" in str(planted.diagnosis)


@pytest.mark.parametrize("p", [3, 5])
@pytest.mark.parametrize("changed", ["source", "target"])
def test_invertible_affine_changes_of_either_domain_do_not_matter(p: int, changed: str) -> None:
    A, B = view(p, 10, p=p), view(p, 11, p=p)
    rng = np.random.default_rng(p)
    left, right = (np.linalg.qr(rng.standard_normal((p, p)))[0] for _ in range(2))
    change = left * np.geomspace(1.0, 1e4, p) @ right
    X, Y = A.rows, B.rows
    first = unshift.align(X, Y, **PLANTED)
    x, y = first.source(X), first.target(Y)
    if changed == "source":
        X = X @ change + 100.0
    else:
        Y = Y @ change - 100.0
    second = unshift.align(X, Y, **PLANTED)
    x_again, y_again = second.source(X), second.target(Y)
    turn, _, back = np.linalg.svd(x_again.T @ x)
    common = turn @ back
    assert gap(x_again @ common, x) < 1e-6
    assert gap(y_again @ common, y) < 1e-4
    neighbours = [
        KNeighborsClassifier(15).fit(rows, A.labels).predict(other)
        for rows, other in ((x, y), (x_again, y_again))
    ]
    assert np.array_equal(neighbours[0], neighbours[1])


def test_no_adaptation_predicts_what_the_plain_estimator_does(source: View, shifted: View) -> None:
    alignment = unshift.align(source.rows, shifted.rows, source.labels, **FEW)
    kinds = [candidate.kind for candidate in alignment.candidates]
    kept = alignment.prefer(kinds.index(NO_ADAPTATION))
    assert kept.rotation is None
    assert np.array_equal(kept.source(source.rows), source.rows)
    assert np.array_equal(kept.target(shifted.rows), shifted.rows)
    assert np.array_equal(kept.target_to_source(shifted.rows), shifted.rows)
    plain = KNeighborsClassifier().fit(source.rows, source.labels)
    fitted = KNeighborsClassifier().fit(kept.source(source.rows), source.labels)
    assert np.array_equal(plain.predict(shifted.rows), fitted.predict(kept.target(shifted.rows)))
    assert kept.diagnosis.reasons[0].startswith(f"Candidate {kinds.index(NO_ADAPTATION)}")


def test_no_adaptation_is_offered_only_where_columns_correspond(
    planted: unshift.Alignment,
) -> None:
    assert not planted.same_features
    assert NO_ADAPTATION not in {candidate.kind for candidate in planted.candidates}


def test_paper_choice_takes_the_lowest_mmd_and_with_labels_the_lowest_error(
    source: View, shifted: View
) -> None:
    options = {**FEW, "choice": "paper"}
    blind = unshift.align(source.rows, shifted.rows, source.labels, **options)
    values = [candidate.mmd2 for candidate in blind.candidates]
    assert values == sorted(values)
    seen = unshift.align(
        source.rows, shifted.rows, source.labels, some(shifted.labels, 40), **options
    )
    errors = [candidate.error for candidate in seen.candidates]
    assert errors == sorted(errors)
    assert all(candidate.n_labelled == 40 for candidate in seen.candidates)


def test_joint_loss_starts_from_the_best_rotations() -> None:
    A, B = view(4, 0, n=200), view(5, 1, n=200)
    options = {**PLANTED, "loss": "joint", "loss_weights": (1.0, 1.0)}
    alignment = unshift.align(A.rows, B.rows, A.labels, some(B.labels, 60), **options)
    assert gap(alignment.target(B.rows), alignment.source(A.seen(B.latent))) < 0.4
    with pytest.raises(ValueError, match=r'loss="joint" weighs MMD² .* needs y_source'):
        unshift.align(A.rows, B.rows, loss="joint")


# what it leaves alone


def test_same_seed_gives_the_same_to_the_last_bit(source: View, target: View) -> None:
    labels = source.labels, some(target.labels, 30)
    first = unshift.align(source.rows, target.rows, *labels, **FEW)
    second = unshift.align(source.rows, target.rows, *labels, n_jobs=2, **FEW)
    third = unshift.align(
        source.rows, target.rows, *labels, n_starts=2, random_state=np.random.default_rng(0)
    )
    assert same_alignments(first, second)
    assert same_alignments(first, third)


def test_inputs_are_not_modified(source: View, target: View) -> None:
    inputs = [source.rows, target.rows, source.labels, some(target.labels, 30)]
    before = [array.copy() for array in inputs]
    weights = np.ones(len(source.rows))
    for array in (*inputs, weights):
        array.flags.writeable = False
    alignment = unshift.align(*inputs, sample_weight_source=weights, **FEW)
    alignment.update(target.rows[:50])
    alignment.update(target.rows[:50], target.labels[:50])
    for array, old in zip(inputs, before, strict=True):
        assert np.array_equal(array, old, equal_nan=array.dtype.kind == "f")
        array.flags.writeable = True


def test_float32_comes_back_as_float32(source: View, target: View) -> None:
    X, Y = source.rows.astype(np.float32), target.rows.astype(np.float32)
    alignment = unshift.align(X, Y, **PLANTED)
    maps = ((alignment.source, X), (alignment.target, Y), (alignment.target_to_source, Y))
    for map_, rows in maps:
        assert map_(rows).dtype == np.float32
        assert map_(rows.astype(np.float64)).dtype == np.float64
    double = unshift.align(source.rows, target.rows, **PLANTED)
    assert gap(alignment.target_to_source(Y), double.target_to_source(target.rows)) < 0.02


def test_whole_weights_are_repetitions(source: View, target: View) -> None:
    counts = np.random.default_rng(0).integers(0, 3, len(source.rows))
    options = {**PLANTED, "n_starts": 2}
    weighted = unshift.align(source.rows, target.rows, sample_weight_source=counts, **options)
    repeated = unshift.align(np.repeat(source.rows, counts, axis=0), target.rows, **options)
    assert gap(weighted.source(source.rows), repeated.source(source.rows)) < 1e-6
    assert gap(weighted.target(target.rows), repeated.target(target.rows)) < 0.02


# what it takes


def test_more_columns_than_rows() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 80)), rng.standard_normal((25, 100))
    alignment = unshift.align(X, Y, **FEW)
    assert alignment.n_components <= 2
    assert alignment.target_to_source(Y).shape == (25, 80)
    everything = unshift.align(X, Y, n_components=None, **FEW)
    assert everything.n_components == 24
    assert everything.diagnosis.verdict == "too little data"


def test_constant_and_duplicate_columns_change_nothing(source: View, target: View) -> None:
    def padded(rows: np.ndarray) -> np.ndarray:
        return np.column_stack([rows, np.full(len(rows), 7.0), rows[:, 0]])

    X, Y = padded(source.rows), padded(target.rows)
    alignment = unshift.align(X, Y, **PLANTED)
    assert alignment.n_components == 3
    truth = source.seen(target.latent)
    assert gap(alignment.target_to_source(Y)[:, :4], truth) < 0.2
    assert gap(alignment.target_to_source(Y)[:, 5], truth[:, 0]) < 0.2
    assert np.allclose(alignment.target_to_source(Y)[:, 4], 7.0)


@pytest.mark.parametrize("scales", [(1e150, 1e150), (1e-150, 1e150), (1e150, 1.0), (1.0, 1e-150)])
def test_units_of_any_size(source: View, shifted: View, scales: tuple[float, float]) -> None:
    X, Y = source.rows * scales[0], shifted.rows * scales[1]
    alignment = unshift.align(X, Y, **FEW)
    for candidate in alignment.candidates:
        assert np.isfinite(candidate.mmd2)
        assert np.isfinite(candidate.displacement)
        assert np.isfinite(candidate.target(Y)).all()
    plain = unshift.align(source.rows, shifted.rows, same_features=False, **FEW)
    scaled = unshift.align(X, Y, same_features=False, **FEW)
    assert gap(scaled.target(Y), plain.target(shifted.rows)) < 1e-3


def test_columns_of_unlike_units(source: View, target: View) -> None:
    units = np.array([1e150, 1e-150, 1.0, 1e-100])
    X, Y = source.rows * units, target.rows
    alignment = unshift.align(X, Y, **PLANTED)
    back = alignment.target_to_source(Y)
    assert gap(back / units, source.seen(target.latent)) < 0.2
    assert any("units differ widely" in reason for reason in alignment.diagnosis.reasons)


@pytest.mark.parametrize("far", [30.0, 1e5])
def test_far_rows_count_less(far: float) -> None:
    A, B = view(4, 0, p=4), view(4, 1, p=4)
    X = A.rows.copy()
    X[:12] += far * np.random.default_rng(0).standard_normal((12, 4))
    truth = A.seen(B.latent)
    tamed = unshift.align(X, B.rows, **PLANTED)
    assert gap(tamed.target_to_source(B.rows), truth) < 0.4
    assert any("far rows of the source counted less" in r for r in tamed.diagnosis.reasons)
    kept = unshift.align(X, B.rows, outliers="keep", **PLANTED)
    assert gap(kept.target_to_source(B.rows), truth) > 0.8


@pytest.mark.parametrize(
    "kind", ["strings", "minus one", "booleans", "None", "pandas NA", "categorical", "column"]
)
def test_labels_of_every_kind(source: View, target: View, kind: str) -> None:
    y, z = source.labels, target.labels
    unknown = np.arange(z.size) >= 50
    if kind == "strings":
        y, labels = y.astype(str), np.where(unknown, None, z.astype(str).astype(object))
    elif kind == "minus one":
        y, labels = y - 1, np.where(unknown, np.nan, z - 1.0)
        assert (y == -1).any()
    elif kind == "booleans":
        y, labels = y > 2, np.where(unknown, None, z > 2)
    elif kind == "None":
        labels = [None if u else int(c) for u, c in zip(unknown, z, strict=True)]
    elif kind == "pandas NA":
        labels = pd.Series(np.where(unknown, -5, z)).astype("Int64").mask(unknown, pd.NA)
    elif kind == "categorical":
        y = pd.Series(y.astype(str)).astype("category")
        labels = pd.Series(z.astype(str)).where(~unknown).astype("category")
    else:
        y, labels = y[:, None], some(z, 50)[:, None]
    options = {**PLANTED, "n_starts": 4}
    alignment = unshift.align(source.rows, target.rows, y, labels, **options)
    best = alignment.candidates[0]
    assert best.n_labelled == 50
    assert best.error < 0.2
    plain = unshift.align(source.rows, target.rows, source.labels, some(z, 50), **options)
    if kind != "booleans":
        assert same_maps(alignment.target, plain.target)


def test_labels_for_regression(source: View, target: View) -> None:
    y, z = source.latent @ [1.0, -2.0, 0.5], target.latent @ [1.0, -2.0, 0.5]
    labels = np.where(np.arange(z.size) < 40, z, np.nan)
    alignment = unshift.align(source.rows, target.rows, y, labels, **PLANTED)
    assert alignment.candidates[0].error < 0.1 * z.var()
    assert gap(alignment.target(target.rows), alignment.source(source.seen(target.latent))) < 0.2


@pytest.mark.parametrize("library", [pd, pl])
def test_frames_keep_their_names(source: View, target: View, library: object) -> None:
    X = library.DataFrame(source.rows, list("abcd") if library is pl else None)
    if library is pd:
        X.columns = list("abcd")
    Y = library.DataFrame(dict(zip("vwxyz", target.rows.T, strict=True)))
    alignment = unshift.align(X, Y, **FEW)
    assert not alignment.same_features
    back = alignment.target_to_source(Y)
    assert isinstance(back, library.DataFrame)
    assert list(back.columns) == list("abcd")
    with pytest.raises(ValueError, match="the same names in another order"):
        alignment.target(Y[list("wvxyz")])
    with pytest.raises(ValueError, match=r"missing \['z'\], unexpected \[\]"):
        alignment.target(Y[list("vwxy")])
    with pytest.raises(ValueError, match="X has 3 features, but this map was fitted on 5"):
        alignment.target(target.rows[:, :3])


def test_no_adaptation_takes_frames_under_their_own_names(source: View) -> None:
    X = pd.DataFrame(source.rows[::2], columns=list("abcd"))
    Y = pd.DataFrame(source.rows[1::2], columns=list("ABCD"))
    alignment = unshift.align(X, Y, same_features=True, **FEW)
    kinds = [candidate.kind for candidate in alignment.candidates]
    kept = alignment.candidates[kinds.index(NO_ADAPTATION)]
    assert list(kept.target(Y).columns) == list(kept.source(X).columns) == list("abcd")
    assert np.array_equal(kept.target(Y).to_numpy(), Y.to_numpy())


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    rows=st.tuples(st.integers(2, 60), st.integers(2, 60)),
    widths=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    dtype=st.sampled_from([np.float32, np.float64]),
    exponents=st.tuples(st.integers(-30, 30), st.integers(-30, 30)),
    n_components=st.sampled_from(["auto", None, 0.8, 1]),
    seed=st.integers(0, 3),
)
def test_any_shape_type_and_scale(rows, widths, dtype, exponents, n_components, seed) -> None:
    rng = np.random.default_rng(seed)
    X, Y = (
        (rng.exponential(size=(n, d)) * 10.0**e).astype(dtype)
        for n, d, e in zip(rows, widths, exponents, strict=True)
    )
    alignment = unshift.align(X, Y, n_components=n_components, n_starts=1, random_state=seed)
    p = alignment.n_components
    assert 1 <= p <= min(*widths, *(n - 1 for n in rows))
    for candidate in alignment.candidates:
        mapped = candidate.source(X), candidate.target(Y)
        for Z, original in zip(mapped, (X, Y), strict=True):
            assert Z.dtype == dtype
            assert Z.shape == (len(original), mapped[0].shape[1])
            assert np.isfinite(Z).all()
        assert candidate.target_to_source(Y).shape == (len(Y), X.shape[1])
        assert candidate.mmd2 >= 0.0
        if candidate.rotation is not None:
            q = candidate.rotation.shape[0]
            assert np.abs(candidate.rotation @ candidate.rotation.T - np.eye(q)).max() < 1e-9
    assert str(alignment.diagnosis)


# more evidence later


def test_update_with_labels_weighs_the_same_maps_again(
    planted: unshift.Alignment, source: View, target: View
) -> None:
    once = planted.update(target.rows[:30], target.labels[:30])
    twice = once.update(target.rows[30:50], target.labels[30:50])
    assert planted.candidates[0].n_labelled == 0
    assert once.candidates[0].n_labelled == 30
    assert twice.candidates[0].n_labelled == 50
    assert twice.candidates[0].error < 0.2

    def bits(alignment: unshift.Alignment) -> set[bytes]:
        return {candidate.target.matrix.tobytes() for candidate in alignment.candidates}

    assert bits(planted) == bits(once) == bits(twice)
    unknown = planted.update(target.rows[:30], some(target.labels[:30], 10))
    assert unknown.candidates[0].n_labelled == 10


def test_labels_change_nothing_that_rows_have_told(
    planted, target: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [c.misfit for c in planted.candidates]
    again = [c.misfit for c in with_misfits(planted.candidates, planted.evidence)]
    assert known == again, "so they need not be measured anew"
    monkeypatch.setattr(unshift.alignment, "with_misfits", None)
    told = planted.update(target.rows[:30], target.labels[:30])
    assert sorted(c.misfit for c in told.candidates) == sorted(known)


def test_update_with_rows_goes_on_from_where_it_stands(source: View) -> None:
    target = view(5, 1, n=900)
    first = unshift.align(source.rows, target.rows[:450], **PLANTED)
    second = first.update(target.rows[450:])
    white = second.target(target.rows)
    assert np.abs(white.mean(axis=0)).max() < 1e-9
    assert np.abs(white.T @ white / len(white) - np.eye(3)).max() < 1e-9
    truth = source.seen(target.latent)
    assert gap(second.target_to_source(target.rows), truth) < 0.2
    assert same_maps(first.source, second.source)


def test_update_refuses_other_columns_and_new_classes(
    planted: unshift.Alignment, source: View, target: View
) -> None:
    with pytest.raises(ValueError, match=r"X_target has 4 features, but .* fitted on 5"):
        planted.update(source.rows)
    with pytest.raises(ValueError, match=r"y_target has labels that y_source lacks: \[9\]"):
        planted.update(target.rows[:2], [9, 9])
    unlabelled = unshift.align(source.rows, target.rows, **FEW)
    with pytest.raises(ValueError, match="this alignment was made without y_source"):
        unlabelled.update(target.rows[:2], [1, 1])


# files


def test_saved_alignment_gives_the_same_bits_back(
    source: View, shifted: View, tmp_path: Path
) -> None:
    X = pd.DataFrame(source.rows, columns=list("abcd"))
    Y = pd.DataFrame(shifted.rows, columns=list("abcd"))
    alignment = unshift.align(X, Y, source.labels, some(shifted.labels, 30), **FEW)
    alignment.save(tmp_path / "model")
    again = unshift.load(tmp_path / "model")
    assert isinstance(again, unshift.Alignment)
    assert same_alignments(alignment, again)
    assert again.n_components == alignment.n_components
    assert again.bandwidth == alignment.bandwidth
    assert again.same_features is True
    assert again.target_to_source(Y).equals(alignment.target_to_source(Y))
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert not (tmp_path / "model.partial").exists()
    with pytest.raises(ValueError, match="comes from a file, which holds no rows of data"):
        again.update(Y)


def test_damaged_files_are_refused(planted: unshift.Alignment, tmp_path: Path) -> None:
    path = tmp_path / "model"
    planted.save(path)
    whole = path.read_bytes()
    first, payload = whole.split(b"\n", 1)
    flipped = bytearray(whole)
    flipped[-200] ^= 1
    junk = b"no archive"
    honest_junk = b"unshift 1 " + hashlib.sha256(junk).hexdigest().encode() + b"\n" + junk
    nothing = b"unshift 1 " + hashlib.sha256(b"").hexdigest().encode() + b"\n"
    cases = [
        (whole[:-10], "is damaged: its checksum does not match"),
        (bytes(flipped), "is damaged: its checksum does not match"),
        (first.replace(b"unshift 1", b"unshift 2") + b"\n" + payload, "has format version 2, and"),
        (b"", "is not a file that unshift saved"),
        (b"a,b\n1,2\n", "is not a file that unshift saved"),
        (whole[:40], "is not a file that unshift saved"),
        (honest_junk, "holds no archive that unshift saved"),
        (nothing, "holds no archive that unshift saved"),
    ]
    for content, message in cases:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            unshift.load(path)
    with pytest.raises(FileNotFoundError):
        unshift.load(tmp_path / "absent")


def test_files_hold_no_objects_that_python_would_run(tmp_path: Path) -> None:
    evil = np.array([print], dtype=object)
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        storage.write(tmp_path / "model", {"kind": "alignment"}, {"x": evil})
    assert not (tmp_path / "model").exists()


# memory


def test_memory_stays_below_a_quarter_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((50, 50)).astype(np.float32)
    X, Y = (rng.exponential(size=(200_000, 50)).astype(np.float32) @ mixing for _ in range(2))
    unshift.align(X[:200], Y[:200], n_starts=1, random_state=0)  # imports count once
    tracemalloc.start()
    try:
        unshift.align(X, Y, n_components=8, n_starts=1, random_state=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (X.nbytes + Y.nbytes) / 4


# what it refuses

ROWS = view(3, 0, n=60).rows
HOLE = ROWS.copy()
HOLE[7, 2] = np.nan
ENDLESS = ROWS.copy()
ENDLESS[3, 1] = np.inf
FRAME = pd.DataFrame(HOLE, columns=["height", "width", "depth"])
MISSING = pd.DataFrame({"a": pd.array([1, 2, None] * 20, dtype="Int64"), "b": ROWS[:, 0]})
DATES = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=60), "b": ROWS[:, 0]})
WORDS = pd.DataFrame({"name": ["x", "y", "z"] * 20, "b": ROWS[:, 0]})
TEXT = np.array([["a", 1], ["b", 2]], dtype=object)
CLASSES = np.arange(60) % 3


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (HOLE, ValueError, "contains NaN. The first is in row 7, column 2. .* fill them"),
        (ENDLESS, ValueError, "contains infinity .* The first is in row 3, column 1"),
        (FRAME, ValueError, "The first is in row 7, column 'depth'"),
        (MISSING, ValueError, "contains NaN. The first is in row 2, column 'a'"),
        (ROWS[:1], ValueError, "needs at least two rows"),
        (ROWS[:0], ValueError, "needs at least two rows"),
        (ROWS[:, :0], ValueError, r"0 feature\(s\)"),
        (np.ones((60, 3)), ValueError, "is constant: all its 60 rows are equal"),
        (TEXT, ValueError, "should hold numbers only: could not convert string .*'a'"),
        (WORDS, ValueError, "these columns do not: name. Drop them or encode them"),
        (DATES, ValueError, "these columns do not: day"),
        (ROWS[:, 0], ValueError, r"Expected 2D array, got 1D array instead. Reshape your data"),
        (ROWS[None], ValueError, "dim 3"),
        (ROWS * 1j, ValueError, "Complex data not supported$"),
        (scipy.sparse.csr_array(ROWS), TypeError, r"is sparse; .*\.toarray\(\)"),
        (None, ValueError, "Expected 2D array, got scalar array"),
    ],
)
@pytest.mark.parametrize("side", ["X_source", "X_target"])
def test_bad_rows_are_refused(rows: object, error: type, message: str, side: str) -> None:
    domains = {"X_source": ROWS, "X_target": ROWS, side: rows}
    with pytest.raises(error, match=f"(?s){side}.*{message}|{message}.*{side}"):
        unshift.align(**domains)


@pytest.mark.parametrize(
    ("y_source", "y_target", "message"),
    [
        (CLASSES, [7] * 60, r"y_target has labels that y_source lacks: \[7\] .*\[0, 1, 2\]"),
        (CLASSES, [None] * 60, "y_target holds no label at all: .* Leave y_target out"),
        (CLASSES, np.full(60, np.nan), "y_target holds no label at all"),
        (CLASSES, CLASSES[:5], r"y_target should hold one label for each of the 60 rows.*\(5,\)"),
        (CLASSES[:5], None, r"y_source should hold one label for each of the 60 rows.*\(5,\)"),
        (None, CLASSES, "y_target was given without y_source"),
        (some(CLASSES, 50), None, "y_source has 10 unknown labels of 60"),
        (CLASSES, CLASSES.astype(str), "use the same labels in both"),
        (np.array(["a", 1] * 30, dtype=object), None, r"mix kinds .*\(int, str\)"),
        (np.where(CLASSES > 1, np.inf, 0.0), None, "y_source contains infinity"),
        (np.zeros(60), np.zeros(60), r"y_source holds a single class, \[0.0\]"),
    ],
)
def test_bad_labels_are_refused(y_source: object, y_target: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unshift.align(ROWS, ROWS, y_source, y_target)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_components": 4}, ValueError, "n_components=4, but the domains support 3, 3 dim.* 3,"),
        ({"n_components": 0}, ValueError, "n_components should be .*; got 0"),
        ({"n_components": 1.0}, ValueError, "n_components should be .*; got 1.0"),
        ({"n_components": True}, ValueError, "n_components should be .*; got True"),
        ({"n_components": "all"}, ValueError, "n_components should be .*; got 'all'"),
        ({"bandwidth": -1}, ValueError, "bandwidth should be a finite number above zero; got -1"),
        ({"bandwidth": None}, ValueError, "bandwidth should be .*; got None"),
        ({"bandwidth": "wide"}, ValueError, "bandwidth should be .*; got 'wide'"),
        ({"same_features": "x"}, ValueError, "same_features should be one of 'auto', True, False"),
        ({"choice": "x"}, ValueError, "choice should be one of 'auto', 'paper'; got 'x'"),
        ({"loss": "x"}, ValueError, "loss should be one of 'mmd', 'joint'; got 'x'"),
        ({"task": "x"}, ValueError, "task should be one of"),
        ({"scale": "x"}, ValueError, "scale should be one of 'auto', 'std', None; got 'x'"),
        ({"outliers": "x"}, ValueError, "outliers should be one of 'auto', 'keep'; got 'x'"),
        ({"shrinkage": "x"}, ValueError, "shrinkage should be one of"),
        ({"shrinkage": 2}, ValueError, "shrinkage should be .* from 0 to 1; got 2"),
        ({"n_starts": 0}, ValueError, "n_starts should be 'auto' or a whole number .*; got 0"),
        ({"n_starts": 2.5}, ValueError, "n_starts should be .*; got 2.5"),
        ({"random_state": "x"}, TypeError, "random_state should be None, .*; got 'x'"),
        ({"random_state": -1}, ValueError, "random_state should be None, .*; got -1"),
        ({"sample_weight_source": [1.0]}, ValueError, r"X_source should have shape \(60,\)"),
        ({"sample_weight_target": -np.ones(60)}, ValueError, "X_target should be finite and not"),
        (
            {"sample_weight_target": np.arange(60) == 1},
            ValueError,
            "X_target leaves fewer than two rows",
        ),
        (
            {"y_source": CLASSES.astype(str), "task": "regression"},
            ValueError,
            "y_source should hold numbers for regression",
        ),
    ],
)
def test_bad_options_are_refused(options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        unshift.align(ROWS, ROWS, **options)


def test_widths_must_agree_where_columns_are_said_to_correspond() -> None:
    with pytest.raises(
        ValueError, match=r"source has 3 columns and the target 2: .* Use same_features=False"
    ):
        unshift.align(ROWS, ROWS[:, :2], same_features=True)
