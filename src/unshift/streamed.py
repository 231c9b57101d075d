"""Rows too many to hold: the moments of all, and a random sample drawn in the same pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._arrays import FloatArray
from .moments import Moments, moments

Array = npt.NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows (k, d) of a table, with its names; of a large one some rows and the moments of all.

    The first ``drawn`` rows are then a uniform sample in the order of the table; behind them come
    labelled rows that count as labelled only. Where all rows are here ``moments`` is None.
    """

    rows: FloatArray
    names: tuple[str, ...] | None
    moments: Moments | None = None
    drawn: int = 0


class Reservoir:
    """A uniform sample of ``most`` rows of a stream, with what belongs to each of them.

    Every row gets a random key, and the rows of the smallest keys stay: which they are does not
    depend on how the stream is cut into batches.
    """

    def __init__(self, most: int, rng: np.random.Generator) -> None:
        self.most, self.rng, self.seen = most, rng, 0
        self.parts: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.intp], FloatArray, Array]]
        self.parts = []
        self.held, self.limit = 0, float("inf")

    def add(self, X: FloatArray, cells: Array) -> None:
        """The next rows (n, d), and objects of each (n, k)."""
        n = X.shape[0]
        keys: npt.NDArray[np.float64] = self.rng.random((n,))
        places = np.arange(self.seen, self.seen + n)
        self.seen += n
        low = keys < self.limit
        if low.all():
            self.parts.append((keys, places, X, cells))
        else:
            self.parts.append((keys[low], places[low], X[low], cells[low]))
        self.held += int(low.sum())
        if self.held > 2 * self.most:
            self._drop()

    def _drop(self) -> None:
        """Keep the ``most`` smallest keys."""
        keys, *others = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        if keys.size > self.most:
            self.limit = float(np.partition(keys, self.most - 1)[self.most - 1])
            kept = np.flatnonzero(keys <= self.limit)
            keys, others = keys[kept], [other[kept] for other in others]
        self.parts = [(keys, others[0], others[1], others[2])]
        self.held = keys.size

    def drawn(self) -> tuple[npt.NDArray[np.intp], FloatArray, Array]:
        """Places in the stream, in order, with their rows and objects."""
        self._drop()
        _, places, X, cells = self.parts[0]
        return places, X, cells


class Pass:
    """One pass over a domain: moments of all rows, a sample and, if asked for, labelled rows."""

    def __init__(self, most: int, most_labelled: int, seed: int) -> None:
        first, second = np.random.default_rng(seed).spawn(2)
        self.sample = Reservoir(most, first)
        self.labelled = Reservoir(most_labelled, second) if most_labelled else None
        self.moments: Moments | None = None
        self.known = 0

    def add(self, X: FloatArray, cells: Array) -> None:
        """The next rows (n, d) with objects of each (n, k), of which the first is the label."""
        stats = moments(X)
        self.moments = stats if self.moments is None else self.moments.merge(stats)
        self.sample.add(X, cells)
        known = np.array([label is not None for label in cells[:, 0]], dtype=bool)
        self.known += int(known.sum())
        if self.labelled is not None and known.any():
            self.labelled.add(X[known], cells[known])

    def ended(self, names: tuple[str, ...] | None) -> tuple[TableRows, Array]:
        """Rows for ``align``, all of them if all could be kept, and the objects of each."""
        _, X, cells = self.sample.drawn()
        if self.sample.seen == X.shape[0]:
            return TableRows(X, names), cells
        drawn = X.shape[0]
        if self.labelled is not None and self.labelled.seen:
            _, more, given = self.labelled.drawn()
            cells[:, 0] = None  # a labelled row counts once: among those behind the sample
            X, cells = np.concatenate([X, more]), np.concatenate([cells, given])
        return TableRows(X, names, self.moments, drawn), cells
