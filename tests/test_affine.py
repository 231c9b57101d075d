"""Affine maps: composition, inversion, tables, types, plain numbers, and what they refuse."""

import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unshift
from unshift.affine import AffineMap, pseudo_inverse

Matrix = np.ndarray

quick = settings(max_examples=40, deadline=None, derandomize=True)
widths = st.integers(1, 6)
seeds = st.integers(0, 999)


def some_map(n_in: int, n_out: int, rng: np.random.Generator, **names: Any) -> AffineMap:
    return AffineMap(
        rng.standard_normal(n_in),
        rng.standard_normal((n_in, n_out)),
        rng.standard_normal(n_out),
        **names,
    )


@quick
@given(widths, widths, seeds)
def test_a_map_is_its_formula(n_in: int, n_out: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f, X = some_map(n_in, n_out, rng), rng.standard_normal((9, n_in))
    np.testing.assert_allclose(f(X), (X - f.center) @ f.matrix + f.offset, rtol=1e-12, atol=1e-12)
    assert (f.width_in, f.width_out) == (n_in, n_out)


@quick
@given(widths, widths, widths, widths, seeds)
def test_composition_is_one_after_the_other_and_associative(
    a: int, b: int, c: int, d: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    f, g, h = some_map(a, b, rng), some_map(b, c, rng), some_map(c, d, rng)
    X = rng.standard_normal((7, a))
    np.testing.assert_allclose(f.then(g)(X), g(f(X)), atol=1e-10)
    np.testing.assert_allclose(f.then(g).then(h)(X), f.then(g.then(h))(X), atol=1e-9)


@quick
@given(widths, widths, seeds)
def test_the_inverse_undoes_the_map_where_it_can(n_in: int, n_out: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    f, X = some_map(n_in, n_out, rng), rng.standard_normal((7, n_in))
    Y = f(X)
    np.testing.assert_allclose(f(f.inverse()(Y)), Y, atol=1e-6)
    if n_in <= n_out:
        np.testing.assert_allclose(f.inverse()(Y), X, atol=1e-6)
    np.testing.assert_allclose(f.inverse().inverse()(X), Y, atol=1e-6)


@quick
@given(widths, widths, seeds)
def test_the_pseudo_inverse_survives_units_of_any_size(n_in: int, n_out: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((n_in, n_out))
    units = 10.0 ** rng.integers(-150, 150, max(n_in, n_out))
    M = M * units[:n_out] if n_in >= n_out else M * units[:n_in, None]
    inverse = pseudo_inverse(M)
    identity = inverse @ M if n_in >= n_out else M @ inverse
    size = units[: min(n_in, n_out)]
    balanced = size[:, None] * identity / size if n_in >= n_out else identity / size[:, None] * size
    np.testing.assert_allclose(balanced, np.eye(len(size)), atol=1e-6)


def test_the_pseudo_inverse_of_a_singular_matrix_is_that_of_penrose() -> None:
    rng = np.random.default_rng(0)
    M = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 5))
    P = pseudo_inverse(M)
    np.testing.assert_allclose(M @ P @ M, M, atol=1e-10)
    np.testing.assert_allclose(P @ M @ P, P, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_identity_gives_rows_back_to_the_last_bit(dtype: Any) -> None:
    X = np.random.default_rng(1).standard_normal((20, 3)).astype(dtype)
    f = AffineMap.identity(3)
    assert f.is_identity
    assert f(X).dtype == dtype
    np.testing.assert_array_equal(f(X), X)
    assert f(X) is not X
    assert not np.shares_memory(f(X), X)
    assert not AffineMap(np.ones(3), np.eye(3), np.ones(3)).is_identity
    assert not AffineMap(np.zeros(2), np.eye(2, 3), np.zeros(3)).is_identity


def test_float32_in_float32_out() -> None:
    rng = np.random.default_rng(2)
    f, X = some_map(4, 3, rng), rng.standard_normal((50, 4))
    single = f(X.astype(np.float32))
    assert single.dtype == np.float32
    assert f(X).dtype == np.float64
    np.testing.assert_allclose(single, f(X), atol=1e-5)


@pytest.mark.parametrize("scale", [1e-36, 1e33])
def test_entries_beyond_float32_are_applied_in_float64(scale: float) -> None:
    rng = np.random.default_rng(3)
    f = AffineMap(np.zeros(3), rng.standard_normal((3, 3)) / scale, np.zeros(3))
    X = (rng.standard_normal((10, 3)) * scale).astype(np.float32)
    assert f(X).dtype == np.float32
    np.testing.assert_allclose(f(X), X.astype(np.float64) @ f.matrix, rtol=1e-4, atol=1e-5)


def test_a_mean_that_is_large_beside_the_spread_costs_no_precision() -> None:
    rng = np.random.default_rng(4)
    noise = np.round(rng.standard_normal((100, 2)) * 64) / 64
    X = (1e4 + noise).astype(np.float32)
    f = AffineMap(np.full(2, 1e4), np.eye(2) * 3.0, np.zeros(2))
    np.testing.assert_allclose(f(X), 3.0 * noise, rtol=1e-6)


@pytest.mark.parametrize("center", [1e5 + 0.3, 1e6 + 1 / 3])
def test_float32_rows_lose_no_digit_of_a_centre_that_float32_does_not_hold(center: float) -> None:
    rng = np.random.default_rng(14)
    X = (center + rng.standard_normal((200, 2))).astype(np.float32)
    f = AffineMap(np.full(2, center), rng.standard_normal((2, 3)), rng.standard_normal(3))
    exact = (X.astype(np.float64) - f.center) @ f.matrix + f.offset
    np.testing.assert_allclose(f(X), exact, rtol=1e-6, atol=1e-6)


def test_inputs_are_not_modified_and_any_layout_is_taken() -> None:
    rng = np.random.default_rng(5)
    f, X = some_map(4, 2, rng), rng.standard_normal((3000, 4))
    kept, expected = X.copy(), f(X)
    np.testing.assert_array_equal(X, kept)
    np.testing.assert_allclose(f(np.asfortranarray(X)), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(f(X[::-2]), expected[::-2], rtol=1e-12, atol=1e-12)
    X.setflags(write=False)
    np.testing.assert_array_equal(f(X), expected)
    np.testing.assert_allclose(f(X[:1].tolist()), expected[:1])


NAMES = ("height", "weight")


def test_pandas_frames_keep_their_index_and_get_the_maps_names() -> None:
    f = some_map(2, 3, np.random.default_rng(6), names_in=NAMES, names_out=("a", "b", "c"))
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=list(NAMES), index=["x", "y"])
    mapped = f(frame)
    assert isinstance(mapped, pd.DataFrame)
    assert list(mapped.columns) == ["a", "b", "c"]
    assert list(mapped.index) == ["x", "y"]
    np.testing.assert_allclose(mapped.to_numpy(), f(frame.to_numpy()))


def test_polars_frames_get_the_maps_names() -> None:
    f = some_map(2, 3, np.random.default_rng(7), names_in=NAMES, names_out=("a", "b", "c"))
    frame = pl.DataFrame([[1.0, 2.0], [3.0, 4.0]], schema=list(NAMES), orient="row")
    mapped = f(frame)
    assert isinstance(mapped, pl.DataFrame)
    assert mapped.columns == ["a", "b", "c"]
    np.testing.assert_allclose(mapped.to_numpy(), f(frame.to_numpy()))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_names_where_the_map_has_none(kind: Any) -> None:
    frame = kind({"height": [1.0, 3.0], "weight": [2.0, 4.0]})
    f = some_map(2, 3, np.random.default_rng(8))
    assert list(f(frame).columns) == ["shared0", "shared1", "shared2"]
    assert list(AffineMap.identity(2)(frame).columns) == list(NAMES)
    single = kind({name: np.ones(2, np.float32) for name in NAMES})
    assert all(np.asarray(f(single)[name]).dtype == np.float32 for name in f(single).columns)


def test_names_follow_composition_inversion_and_renaming() -> None:
    rng = np.random.default_rng(9)
    f = some_map(2, 3, rng, names_in=NAMES, names_out=("a", "b", "c"))
    g = some_map(3, 1, rng, names_in=("a", "b", "c"), names_out=("z",))
    assert (f.then(g).names_in, f.then(g).names_out) == (NAMES, ("z",))
    assert (f.inverse().names_in, f.inverse().names_out) == (("a", "b", "c"), NAMES)
    renamed = f.renamed(None, ("u", "v", "w"))
    assert (renamed.names_in, renamed.names_out) == (None, ("u", "v", "w"))
    np.testing.assert_array_equal(renamed.matrix, f.matrix)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["weight", "height"], "the same names in another order"),
        (["height", "mass"], r"missing \['weight'\], unexpected \['mass'\]"),
        (["height"], r"missing \['weight'\]"),
    ],
)
def test_other_names_are_refused_by_name(columns: list[str], message: str) -> None:
    f = some_map(2, 2, np.random.default_rng(10), names_in=NAMES)
    with pytest.raises(ValueError, match=message):
        f(pd.DataFrame(np.ones((2, len(columns))), columns=columns))


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.ones((2, 3)), ValueError, "X has 3 features, but this map was fitted on 2 features"),
        (np.array([[1.0, np.nan]]), ValueError, "row 0, column 1"),
        (np.ones(2), ValueError, "Expected 2D array"),
        (pd.DataFrame({"height": [1.0], "weight": ["heavy"]}), ValueError, "do not: weight"),
    ],
)
def test_what_it_cannot_map_is_refused(X: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        some_map(2, 2, np.random.default_rng(11))(X)


def test_maps_that_do_not_fit_together_are_refused() -> None:
    rng = np.random.default_rng(12)
    with pytest.raises(ValueError, match="gives 3 columns, but the second takes 2"):
        some_map(2, 3, rng).then(some_map(2, 2, rng))


def test_the_class_is_public() -> None:
    assert unshift.AffineMap is AffineMap


@quick
@given(widths, widths, seeds, st.sampled_from([1e-150, 1e-3, 1.0, 1e150]), st.booleans())
def test_plain_numbers_give_the_same_bits_back(
    n_in: int, n_out: int, seed: int, scale: float, named: bool
) -> None:
    f = some_map(n_in, n_out, np.random.default_rng(seed))
    f = AffineMap(f.center * scale, f.matrix / scale, -f.offset)
    if named:
        names = tuple(f'a "{i}" é\n' for i in range(n_in))
        f = f.renamed(names, tuple(f"z{i}" for i in range(n_out)))
    through_text = json.loads(json.dumps(f.to_dict()))
    for back in (AffineMap.from_dict(f.to_dict()), AffineMap.from_dict(through_text)):
        for part in ("center", "matrix", "offset"):
            assert getattr(back, part).tobytes() == getattr(f, part).tobytes()
            assert getattr(back, part).shape == getattr(f, part).shape
        assert (back.names_in, back.names_out) == (f.names_in, f.names_out)
    again = AffineMap.from_json(f.to_json())
    assert again.to_dict() == f.to_dict()


def plain(**changes: Any) -> dict[str, Any]:
    fields = AffineMap.identity(2, NAMES).to_dict() | changes
    return {name: value for name, value in fields.items() if value is not Ellipsis}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([1.0], "Expected the dictionary of AffineMap.to_dict.*got format None"),
        (plain(format="another"), "got format 'another'"),
        (plain(version=2), "got format 'unshift affine map', version 2"),
        (plain(matrix=..., center=...), "lacks center, matrix"),
        (plain(center=["a", 0.0]), "center of the affine map holds what is no number"),
        (plain(offset=[0.0, float("nan")]), "offset .* finite numbers, a list.*1 that are not"),
        (plain(matrix=[0.0, 1.0]), "matrix of the affine map should hold finite numbers, lists of"),
        (plain(offset=[0.0]), r"matrix should have shape \(2, 1\); got \(2, 2\)"),
        (plain(names_in=["a"]), "names_in of the affine map should be null or 2 strings"),
        (plain(names_out=[1, 2]), "names_out of the affine map should be null or 2 strings"),
    ],
)
def test_plain_numbers_of_something_else_are_refused(fields: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AffineMap.from_dict(fields)
