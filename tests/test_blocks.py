"""Blocks of rows: every row once, in order, within the budget."""

from hypothesis import given, settings
from hypothesis import strategies as st

from unshift._blocks import row_blocks, rows_per_block


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 5000), st.integers(1, 3000), st.integers(1, 100_000))
def test_blocks_cover_all_rows_in_order_within_the_budget(
    n_rows: int, row_bytes: int, budget: int
) -> None:
    blocks = list(row_blocks(n_rows, row_bytes, budget))
    assert [i for block in blocks for i in range(n_rows)[block]] == list(range(n_rows))
    for block in blocks:
        rows = block.stop - block.start
        assert rows == 1 or rows * row_bytes <= budget


def test_blocks_are_whole_multiples_of_64_rows_where_there_are_that_many() -> None:
    assert rows_per_block(8, 8 * 200) == 192
    assert rows_per_block(8, 8 * 63) == 63
    assert rows_per_block(1 << 30) == 1
