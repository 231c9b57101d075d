"""The shared space before any rotation: how many dimensions, and whether columns correspond."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import unshift
from unshift.domain import (
    AUTO_COMPONENTS,
    AUTO_CORRESPONDING,
    choose_components,
    features_correspond,
    read_domain,
    whiten_domain,
)
from unshift.whitening import Whitening


def whitened(variances: Any, n: int = 500, seed: int = 0) -> Whitening:
    """Whitening of rows with these variances to the letter."""
    rows = np.random.default_rng(seed).standard_normal((n, len(variances)))
    rows -= rows.mean(axis=0)
    left, _, right = np.linalg.svd(rows, full_matrices=False)
    rows = left @ right * np.sqrt(n) * np.sqrt(np.asarray(variances, dtype=np.float64))
    domain = read_domain(rows, "rows", None, np.random.default_rng(0))
    return whiten_domain(domain, scaled=False, shrinkage=None)


def test_a_share_is_kept_of_every_domain() -> None:
    # 90, 99 and 100 % of the one, 50, 90 and 100 % of the other
    both = [whitened([90, 9, 1]), whitened([50, 40, 10], seed=1)]
    for share, p in ((0.5, 1), (0.9, 2), (0.95, 3), (0.999, 3)):
        assert choose_components(both, share, 500.0, True) == p
    assert choose_components(both[:1], "auto", 500.0, True) == 2
    assert choose_components([whitened([90, 8, 2])], "auto", 500.0, True) == 3


def test_none_is_all_that_is_common() -> None:
    both = [whitened([3, 2, 1]), whitened([3, 2, 1, 1, 1])]
    assert choose_components(both, None, 500.0, False) == 3
    flat = [whitened([3, 2, 1]), whitened([3, 2, 0, 0])]
    assert choose_components(flat, None, 500.0, False) == 2


@pytest.mark.parametrize(
    ("rows", "correspond", "p"),
    [
        (500.0, True, AUTO_CORRESPONDING),
        (500.0, False, AUTO_COMPONENTS),
        (79.0, True, 7),
        (79.0, False, 7),
        (19.0, False, 1),
        (3.0, False, 1),
    ],
)
def test_auto_takes_a_tenth_of_the_rows_and_no_more_than_its_limit(
    rows: float, correspond: bool, p: int
) -> None:
    assert choose_components([whitened(np.ones(25))] * 2, "auto", rows, correspond) == p


def test_more_dimensions_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="n_components=4, but the domains support 3, 5 dimensions"):
        choose_components([whitened([1, 1, 1]), whitened(np.ones(5))], 4, 500.0, False)


@pytest.mark.parametrize(
    ("source", "target", "widths", "asked", "same"),
    [
        (None, None, (3, 3), "auto", True),
        (None, None, (3, 4), "auto", False),
        (("a", "b"), ("a", "b"), (2, 2), "auto", True),
        (("a", "b"), ("b", "a"), (2, 2), "auto", False),
        (("a", "b"), None, (2, 2), "auto", False),
        (None, ("a", "b"), (2, 2), "auto", False),
        (("a", "b"), ("c", "d"), (2, 2), True, True),
        (("a", "b"), ("a", "b"), (2, 2), False, False),
    ],
)
def test_columns_correspond_by_name_or_where_unnamed_by_number(
    source: Any, target: Any, widths: Any, asked: Any, same: bool
) -> None:
    answer, sentence = features_correspond(source, target, widths, asked)
    assert answer is same
    assert sentence.startswith("Columns were")


def test_names_are_those_of_a_frame_and_only_if_all_are_strings() -> None:
    rows, rng = np.eye(4)[:, :2], np.random.default_rng(0)
    assert read_domain(rows, "rows", None, rng).names is None
    named = pd.DataFrame(rows, columns=["a", "b"])
    assert read_domain(named, "rows", None, rng).names == ("a", "b")
    assert read_domain(named.rename(columns={"a": 1}), "rows", None, rng).names is None


def test_rows_that_drown_a_dimension_are_refused_by_what_they_leave() -> None:
    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((60, 2)).astype(np.float32) for _ in range(2))
    options: dict[str, Any] = {"scale": None, "outliers": "keep", "n_starts": 1, "random_state": 0}
    alignment = unshift.align(X, Y, n_components=None, **options)
    louder = np.float32([1e9, 1.0]) * rng.standard_normal((60, 2)).astype(np.float32)
    with pytest.raises(ValueError, match="space has 2 dimensions, but the new rows support only 1"):
        alignment.update(louder)
