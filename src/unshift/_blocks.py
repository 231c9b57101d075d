"""Sums over rows, a block at a time, so that no temporary array outgrows the cache."""

from __future__ import annotations

from collections.abc import Iterator

# Half of a typical per-core L2 cache: a block and one result of its size stay in cache together.
CACHE_BYTES = 1 << 19


def rows_per_block(bytes_per_row: int, budget: int = CACHE_BYTES) -> int:
    """How many rows fit the budget: at least one, in multiples of 64 where there are that many."""
    rows = max(1, budget // max(1, bytes_per_row))
    return rows if rows < 64 else rows - rows % 64


def row_blocks(n_rows: int, bytes_per_row: int, budget: int = CACHE_BYTES) -> Iterator[slice]:
    """Slices that cover ``range(n_rows)`` in order, each of at most ``budget`` bytes."""
    step = rows_per_block(bytes_per_row, budget)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))
