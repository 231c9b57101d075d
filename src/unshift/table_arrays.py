"""NumPy's arrays and HDF5, among it AnnData: a matrix of rows, and columns beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from ._extras import extra
from .table_base import Batches, Table, arrow, batch_rows, listed, naming, unique

Array = npt.NDArray[Any]
# Rows from one to before another.
Slice = Callable[[int, int], Array]


class ArraysTable(Table):
    """A matrix whose columns may have names, and columns of their own beside it.

    ``matrix`` and each of ``beside`` give the rows of a slice.
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, int],
        dtype: Any,
        matrix: Slice,
        beside: Mapping[str, Slice],
        names: list[str] | None = None,
    ) -> None:
        self.name, self.rows, self.matrix, self.beside = name, shape[0], matrix, beside
        self.named = names is not None
        columns = names if names is not None else [f"column {j}" for j in range(shape[1])]
        self.place = {column: j for j, column in enumerate(columns)}
        unique([*columns, *beside], name)
        pa = arrow()
        self.types = dict.fromkeys(columns, pa.from_numpy_dtype(_native(np.dtype(dtype))))
        with naming(name):
            self.types |= {column: _column(rows(0, 1)).type for column, rows in beside.items()}

    def batches(self, columns: Mapping[str, str], start: int = 0) -> Batches:
        """Batches of the columns."""
        pa, rows = arrow(), self.rows or 0
        step = batch_rows(len(self.place))
        with naming(self.name):
            for first in range(start, rows, step):
                last = min(first + step, rows)
                matrix: Array = np.empty((0, 0))
                if any(column in self.place for column in columns):
                    matrix = self.matrix(first, last)
                    matrix = matrix.astype(_native(matrix.dtype), copy=False)
                read = [
                    pa.array(np.ascontiguousarray(matrix[:, self.place[column]]))
                    if column in self.place
                    else _column(self.beside[column](first, last))
                    for column in columns
                ]
                yield pa.RecordBatch.from_arrays(read, names=list(columns))


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind not in "biuf":
        raise ValueError(f"the matrix should hold numbers; it holds {dtype}")
    return dtype.newbyteorder("=")


def _column(values: Array) -> Any:
    """An arrow array; bytes are text."""
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.dtype.kind == "U":
        values = values.astype(object)
    if values.dtype.kind == "O":
        decoded = [v.decode() if isinstance(v, bytes) else v for v in values]
        return arrow().array(decoded)
    return arrow().array(values)


def npy_table(path: Path, name: str) -> Table:
    """The one matrix of a .npy file, read from disk as it is asked for."""
    with naming(name), path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, by_columns, dtype = read(file)
        offset = file.tell()
        if len(shape) != 2:
            raise ValueError(f"expected rows and columns; its shape is {shape}")
        native = _native(dtype)
        if path.stat().st_size < offset + shape[0] * shape[1] * dtype.itemsize:
            raise ValueError("it is shorter than its header says; copy it again")

    def rows(first: int, last: int) -> Array:
        if by_columns:
            mapped = np.memmap(path, dtype, "r", offset, shape, order="F")
            return np.array(mapped[first:last])
        values = np.fromfile(
            path,
            dtype,
            (last - first) * shape[1],
            offset=offset + first * shape[1] * dtype.itemsize,
        )
        return values.reshape(last - first, shape[1])

    return ArraysTable(name, (shape[0], shape[1]), native, rows, {})


def npz_table(path: Path, name: str) -> Table:
    """The matrix of a .npz file, with its arrays of as many entries beside it; held in memory."""
    with naming(name), np.load(path, allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    return _arrays_table(name, {key: (a.shape, a.dtype, _of(a)) for key, a in arrays.items()})


def hdf5_table(path: Path, name: str) -> Table:
    """An AnnData file, or the matrix of an HDF5 file with the arrays of as many entries."""
    h5py = extra("h5py", "hdf5")
    with naming(name):
        file = h5py.File(path, "r")
        if "X" in file and "obs" in file and "var" in file:
            return _anndata_table(file, name)
        found = {key: item for key, item in file.items() if isinstance(item, h5py.Dataset)}
    return _arrays_table(name, {key: (d.shape, d.dtype, _of(d)) for key, d in found.items()})


def _of(values: Any) -> Slice:
    return lambda first, last: np.asarray(values[first:last])


def _arrays_table(name: str, arrays: Mapping[str, tuple[Any, Any, Slice]]) -> Table:
    matrices = [key for key, (shape, _, _) in arrays.items() if len(shape) == 2]
    if len(matrices) != 1:
        raise ValueError(
            f"{name} should hold one matrix of rows and columns; it holds "
            + (
                f"{len(matrices)}: {listed(matrices)}. Save one of them to a file of its own."
                if matrices
                else "none."
            )
        )
    shape, dtype, rows = arrays[matrices[0]]
    beside = {
        key: values for key, (s, _, values) in arrays.items() if len(s) == 1 and s[0] == shape[0]
    }
    return ArraysTable(name, shape, dtype, rows, beside)


def _anndata_table(file: Any, name: str) -> Table:
    """X, dense or sparse, with the names of ``var`` and the columns of ``obs``."""
    names = [str(v) for v in _column(file["var"][_index(file["var"])][:]).to_pylist()]
    obs = file["obs"]
    columns = [str(column) for column in obs.attrs.get("column-order", [])]
    index = _index(obs)
    beside = {column: _annotation(obs[column]) for column in columns}
    beside["obs_names" if index == "_index" else index] = _annotation(obs[index])
    X = file["X"]
    if hasattr(X, "shape"):
        return ArraysTable(name, X.shape, X.dtype, _of(X), beside, names)
    shape = (int(X.attrs["shape"][0]), int(X.attrs["shape"][1]))
    rows = _sparse_rows(X, shape, str(X.attrs.get("encoding-type", "csr_matrix")))
    return ArraysTable(name, shape, X["data"].dtype, rows, beside, names)


def _index(group: Any) -> str:
    return str(group.attrs.get("_index", "_index"))


def _sparse_rows(X: Any, shape: tuple[int, int], encoding: str) -> Slice:
    """Rows of a sparse matrix, dense; by columns it must be held whole, by rows it need not."""
    if encoding.startswith("csc"):
        parts = (X["data"][:], X["indices"][:], X["indptr"][:])
        whole = scipy.sparse.csc_matrix(parts, shape=shape).tocsr()
        return lambda first, last: np.asarray(whole[first:last].toarray())
    starts = X["indptr"][:]

    def rows(first: int, last: int) -> Array:
        low, high = int(starts[first]), int(starts[last])
        parts = (X["data"][low:high], X["indices"][low:high], starts[first : last + 1] - low)
        dense = scipy.sparse.csr_matrix(parts, shape=(last - first, shape[1])).toarray()
        return np.asarray(dense)

    return rows


def _annotation(item: Any) -> Slice:
    """A column of ``obs``: plain values, categories with codes, or values with a mask."""
    if hasattr(item, "shape"):
        return lambda first, last: np.asarray(item[first:last])
    if "codes" in item:
        categories = np.array([*_column(item["categories"][:]).to_pylist(), None], dtype=object)
        return lambda first, last: categories[item["codes"][first:last]]

    def masked(first: int, last: int) -> Array:
        values = np.asarray(item["values"][first:last]).astype(object)
        values[np.asarray(item["mask"][first:last])] = None
        return values

    return masked
