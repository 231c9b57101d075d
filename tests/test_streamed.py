"""One pass over rows too many to hold: the sample, the moments, and what align makes of them."""

import numpy as np
import pytest

import unshift
from unshift.datasets import make_mixture
from unshift.moments import moments
from unshift.streamed import Pass, Reservoir, TableRows


def objects(n: int, labelled: float = 0.0) -> np.ndarray:
    """Labels in the first column, unknown but for a share; places in the second."""
    cells = np.full((n, 2), None, dtype=object)
    cells[:, 1] = range(n)
    cells[: round(labelled * n), 0] = "known"
    return cells


def drawn(most: int, n: int, cuts: list[int], seed: int = 0) -> np.ndarray:
    reservoir = Reservoir(most, np.random.default_rng(seed))
    X, cells = np.arange(2.0 * n).reshape(n, 2), objects(n)
    for part in np.split(np.arange(n), cuts):
        reservoir.add(X[part], cells[part])
    places, rows, kept = reservoir.drawn()
    np.testing.assert_array_equal(rows, X[places])
    np.testing.assert_array_equal(kept, cells[places])
    return places


def test_the_sample_does_not_depend_on_how_the_stream_is_cut() -> None:
    whole = drawn(50, 1000, [])
    assert whole.size == 50
    assert (np.diff(whole) > 0).all(), "in the order of the stream"
    for cuts in ([1, 2, 3], [500], list(range(7, 1000, 7))):
        np.testing.assert_array_equal(drawn(50, 1000, cuts), whole)


def test_all_rows_are_kept_where_there_are_not_more() -> None:
    np.testing.assert_array_equal(drawn(50, 50, [13]), np.arange(50))


def test_every_row_is_drawn_as_often_as_any_other() -> None:
    counts = np.zeros(40)
    for seed in range(2000):
        counts[drawn(10, 40, [5, 30], seed)] += 1
    # Binomial(2000, 1/4) each; 4.5 deviations of 40 counts, once in 3,000 runs
    deviations = (counts - 500) / np.sqrt(2000 * 0.25 * 0.75)
    assert np.abs(deviations).max() < 4.5


def test_labelled_rows_are_kept_beside_the_sample_and_count_once() -> None:
    X = np.random.default_rng(0).standard_normal((1000, 3))
    passed = Pass(100, 4096, 0)
    for part in np.array_split(np.arange(1000), 7):
        passed.add(X[part], objects(1000, 0.03)[part])
    rows, cells = passed.ended(None)
    assert (rows.drawn, rows.rows.shape[0], passed.known) == (100, 130, 30)
    assert [cell is not None for cell in cells[:, 0]] == [False] * 100 + [True] * 30
    np.testing.assert_array_equal(rows.rows[100:], X[:30])
    assert rows.moments is not None
    np.testing.assert_allclose(rows.moments.center, X.mean(axis=0), atol=1e-14)


@pytest.mark.parametrize("same_features", [True, False])
def test_where_all_rows_are_drawn_align_gives_what_it_gives_in_memory(same_features: bool) -> None:
    data = make_mixture(4)
    y_target = data.y_target.astype(object)
    y_target[10:] = None
    labels = {"y_source": data.y_source, "y_target": y_target}
    tables = []
    for X in (data.X_source, data.X_target):
        merged = moments(X[:100])
        for first in (100, 170):
            merged = merged.merge(moments(X[first : {100: 170, 170: 300}[first]]))
        tables.append(TableRows(X, None, merged, X.shape[0]))
    settings = {"same_features": same_features, "random_state": 0}
    streamed = unshift.align(*tables, **labels, **settings)
    whole = unshift.align(data.X_source, data.X_target, **labels, **settings)
    assert streamed.candidates[0].kind == whole.candidates[0].kind
    np.testing.assert_allclose(streamed.target.matrix, whole.target.matrix, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(streamed.source.center, whole.source.center, rtol=1e-12)
