"""Rows of a table through a function into a file: reading, computing and writing at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .outputs import Output
from .table_base import BATCH_BYTES, BATCH_ROWS, Table, arrow

# What is told now and then: rows done, rows in all or None, share of the file read or None.
Told = Callable[[int, int | None, float | None], object]


def unit_rows(block: int, width: int) -> int:
    """Rows of a batch: a multiple of a map's own blocks.

    A batch is then cut into the blocks that the rows as a whole would be cut into, and every row
    gets the same bits, however the file is cut.
    """
    most = min(BATCH_ROWS, max(1, BATCH_BYTES // (8 * max(1, width))))
    return block * max(1, most // block)


def rebatched(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """The same rows in batches of ``rows``, the last of what is left."""
    waiting: list[Any] = []
    held = 0
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, rows - held)
            waiting.append(part)
            held += part.num_rows
            batch = batch.slice(part.num_rows)
            if held == rows:
                yield _joined(waiting)
                waiting, held = [], 0
    if held:
        yield _joined(waiting)


def _joined(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    return arrow().Table.from_batches(batches).combine_chunks().to_batches()[0]


def ahead(batches: Iterator[Any], reader: ThreadPoolExecutor) -> Iterator[Any]:
    """The batches, each read while the one before it is worked on."""
    future = reader.submit(next, batches, None)
    while (batch := future.result()) is not None:
        future = reader.submit(next, batches, None)
        yield batch


def stream(
    table: Table,
    columns: Mapping[str, str],
    unit: int,
    work: Callable[[Any, int], Any],
    output: Output,
    told: Told,
) -> int:
    """Write ``work(batch, first row)`` of every batch, from where the output stands; its rows."""
    first = output.rows
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as writer:
        written = None
        for batch in ahead(rebatched(table.batches(columns, first), unit), reader):
            result = work(batch, first)
            first += batch.num_rows
            if written is not None:
                written.result()
            written = writer.submit(output.write, result)
            told(first, table.rows, table.share_read())
        if written is not None:
            written.result()
    return output.finish()
