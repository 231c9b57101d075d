"""Images of MNIST and USPS from a folder or from OpenML, checked against known digests.

Only training the networks anew needs them; the embeddings come with the package.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import fetch_openml

SIDE = 28
Arrays = dict[str, npt.NDArray[np.uint16]]
Fetcher = Callable[[int], tuple[npt.NDArray[Any], npt.NDArray[Any]]]
"""From the number of a dataset on OpenML to its rows (n, pixels) and targets (n,)."""


@dataclass(frozen=True)
class Edition:
    """One dataset as it should be: whole grey levels from 0 to `levels`, training rows first.

    `digests` are SHA-256 of X_train, y_train, X_test, y_test as little-endian 16-bit integers.
    """

    data_id: int
    side: int
    levels: int
    n_train: int
    n_test: int
    digests: Mapping[str, str]


EDITIONS: dict[str, Edition] = {
    "mnist": Edition(
        554,
        side=28,
        levels=255,
        n_train=60000,
        n_test=10000,
        digests={
            "X_train": "b1723c2022bd589c67657f3dc66c7f29f9b90503b0acf060d434892654087b4b",
            "y_train": "3abd1e7221cdf6d5ba97fd38301abf01d2fc1322fc51dcb72dc297ff82a8fdfa",
            "X_test": "e2cb179d0c475cdc18d855284925acd745ce83ec9ed81b4dfa3e474c65085855",
            "y_test": "6875842d3fb960a6fe28e2af3db7b7d8b726b1d7baeb8a1c9746031a85fa84a1",
        },
    ),
    # The file on OpenML is LIBSVM's: grey from -1 to 1 with three decimals, so 2001 levels, and
    # labels 1 to 10 for the digits 0 to 9.
    "usps": Edition(
        41082,
        side=16,
        levels=2000,
        n_train=7291,
        n_test=2007,
        digests={
            "X_train": "4cc10903414bb4be4b10f0203b73ceab02be2ac780faa3aafea3cfe226ec62fc",
            "y_train": "00bdeb51f8ddc0f081e6bafae12dd7c69b4f823415dbbf61e62409841589852b",
            "X_test": "c8d20aa8f19bae84192211340054be91bc13731398616889e78aef4ce6d72f78",
            "y_test": "e5df79e6840408e8e98e5c7fdccc911e0b387f67d29ca5cf6bc9b8dc3db8b807",
        },
    ),
}


@dataclass(frozen=True, eq=False)
class DigitImages:
    """By part ("mnist_train", "mnist_test", "usps_train", "usps_test"): images and digits.

    Images (n, 28, 28) run from 0, the paper, to 1, the ink; digits (n,).
    """

    X: Mapping[str, npt.NDArray[np.float32]]
    y: Mapping[str, npt.NDArray[np.int64]]


def load_images(
    data_dir: Path | None = None,
    cache_dir: Path | None = None,
    *,
    fetch: Fetcher | None = None,
    editions: Mapping[str, Edition] = EDITIONS,
) -> DigitImages:
    """All images, USPS scaled to 28 x 28 as the paper does, without a margin like MNIST's.

    Parameters
    ----------
    data_dir
        Holds mnist.npz and usps.npz, each with X_train, y_train, X_test and y_test; nothing is
        fetched then.
    cache_dir
        Where what was fetched is kept, so that it is fetched once, also after an interruption.
    fetch
        Stands in for OpenML.
    editions
        What is expected of each dataset.
    """
    X: dict[str, npt.NDArray[np.float32]] = {}
    y: dict[str, npt.NDArray[np.int64]] = {}
    for name, edition in editions.items():
        if data_dir is not None:
            arrays = _from_file(data_dir / f"{name}.npz", edition)
        else:
            arrays = _from_cache(name, edition, cache_dir, fetch or fetch_from_openml)
        for part in ("train", "test"):
            images = arrays[f"X_{part}"].astype(np.float32) / np.float32(edition.levels)
            X[f"{name}_{part}"] = images if edition.side == SIDE else resize(images, SIDE)
            y[f"{name}_{part}"] = arrays[f"y_{part}"].astype(np.int64)
    return DigitImages(X, y)


def resize(images: npt.NDArray[Any], side: int) -> npt.NDArray[np.float32]:
    """Images (m, n, n) to (m, side, side): bilinear, W X Wᵀ, pixel centres at half integers."""
    n = images.shape[1]
    centres = np.clip((np.arange(side) + 0.5) * n / side - 0.5, 0, n - 1)
    below = np.minimum(centres.astype(int), n - 2)
    W = np.zeros((side, n))
    W[np.arange(side), below] = 1 - (centres - below)
    W[np.arange(side), below + 1] = centres - below
    return np.clip(W @ images.astype(np.float64) @ W.T, 0, 1).astype(np.float32)


def fetch_from_openml(data_id: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Rows and targets of one dataset from OpenML."""
    parser = "pandas" if importlib.util.find_spec("pandas") else "liac-arff"
    try:
        X, y = fetch_openml(
            data_id=data_id, as_frame=False, return_X_y=True, parser=parser, cache=False
        )
    except OSError as error:
        raise ConnectionError(
            f"Dataset {data_id} could not be fetched from OpenML ({error}). Try again later, or "
            "pass data_dir, a folder with mnist.npz and usps.npz."
        ) from error
    return X, y


def _from_cache(name: str, edition: Edition, cache_dir: Path | None, fetch: Fetcher) -> Arrays:
    path = None if cache_dir is None else cache_dir / f"{name}.npz"
    if path is not None and path.exists():
        return _from_file(path, edition)
    X, y = fetch(edition.data_id)
    total = edition.n_train + edition.n_test
    if len(X) != total:
        raise ValueError(f"{name} from OpenML has {len(X)} rows; expected {total}.")
    cut = edition.n_train
    given = {"X_train": X[:cut], "y_train": y[:cut], "X_test": X[cut:], "y_test": y[cut:]}
    arrays = _checked(given, edition, f"{name} from OpenML")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part.npz")
        np.savez_compressed(unfinished, **arrays)  # type: ignore[arg-type]
        os.replace(unfinished, path)  # an interruption leaves no half file under the real name
    return arrays


def _from_file(path: Path, edition: Edition) -> Arrays:
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is not there. The folder should hold mnist.npz and usps.npz, each with "
            "X_train, y_train, X_test and y_test."
        )
    with np.load(path, allow_pickle=False) as file:
        missing = {"X_train", "y_train", "X_test", "y_test"} - set(file.files)
        if missing:
            raise ValueError(f"{path} has no {', '.join(sorted(missing))}; it has {file.files}.")
        return _checked(dict(file), edition, str(path))


def _checked(given: Mapping[str, npt.NDArray[Any]], edition: Edition, where: str) -> Arrays:
    """Images as grey levels and labels as digits, of the shapes and with the digests expected."""
    arrays: Arrays = {}
    for part, n in (("train", edition.n_train), ("test", edition.n_test)):
        X, y = given[f"X_{part}"], given[f"y_{part}"]
        pixels = edition.side**2
        if X.size != n * pixels or len(y) != n:
            raise ValueError(
                f"{where}: X_{part} has shape {X.shape} and y_{part} {y.shape}; expected "
                f"{n} images of {edition.side} x {edition.side} and their labels."
            )
        grey = _grey_levels(X, edition.levels, f"{where}: X_{part}")
        arrays[f"X_{part}"] = grey.reshape(n, edition.side, edition.side)
        arrays[f"y_{part}"] = _digits(y, f"{where}: y_{part}")
    for key, values in arrays.items():
        digest = hashlib.sha256(values.astype("<u2").tobytes()).hexdigest()
        if digest != edition.digests[key]:
            raise ValueError(
                f"{where}: {key} has the right shape and range but not the content that the "
                f"published numbers rest on (SHA-256 {digest[:12]}..., expected "
                f"{edition.digests[key][:12]}...): another edition, other rows or another order. "
                "Pass data_dir, a folder with the original mnist.npz and usps.npz."
            )
    return arrays


def _grey_levels(X: npt.NDArray[Any], levels: int, where: str) -> npt.NDArray[np.uint16]:
    """Whole numbers from 0 to `levels`, from values in 0 to 1, in −1 to 1 or in 0 to `levels`."""
    values = np.asarray(X, dtype=np.float64)
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        scaled = values * levels
    elif low >= -1 and high <= 1:
        scaled = (values + 1) / 2 * levels
    elif low >= 0 and high <= levels:
        scaled = values
    else:
        raise ValueError(
            f"{where} has values from {low:g} to {high:g}; expected 0 to 1, -1 to 1 "
            f"or 0 to {levels}."
        )
    whole = np.rint(scaled)
    if np.abs(whole - scaled).max() > 0.05:  # float32 and printed decimals stay far below
        raise ValueError(f"{where} has values that are no multiples of 1/{levels} of the range.")
    return whole.astype(np.uint16)


def _digits(y: npt.NDArray[Any], where: str) -> npt.NDArray[np.uint16]:
    """Digits 0 to 9, from numbers or strings, from labels 0 to 9 or 1 to 10."""
    try:
        labels = np.asarray(y).astype(np.float64)
    except ValueError as error:
        raise ValueError(f"{where} holds labels that are no numbers: {error}.") from error
    low, high = labels.min(), labels.max()
    if (low, high) == (1, 10):
        labels = labels - 1
    elif (low, high) != (0, 9):
        raise ValueError(
            f"{where} has labels from {low:g} to {high:g}; expected 0 to 9 or 1 to 10."
        )
    return labels.astype(np.uint16)
