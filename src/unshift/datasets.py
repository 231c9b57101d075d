"""Data that comes with the package: embeddings of digits, and the paper's simulated mixture."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ._checks import check_option, generator

Floats32 = npt.NDArray[np.float32]
Floats64 = npt.NDArray[np.float64]
Digits = npt.NDArray[np.int64]

DIGITS_PARTS = ("mnist_train", "mnist_test", "usps_train", "usps_test")
DIGITS_NETWORKS = ("paper", "fast_0", "fast_1", "mlp")
"""Networks whose embeddings come with the package; `digits_networks()` says what they are."""

_PACKAGED = resources.files("unshift") / "data"

MIXTURE_MEANS = np.array([[1.0, 1.0], [5.0, -5.0]])
MIXTURE_COVARIANCES = np.array([[[2.0, 0.7], [0.7, 1.0]], [[2.0, 1.0], [1.0, 4.0]]])


@dataclass(frozen=True, eq=False)
class DigitsEmbeddings:
    """Digits as 20 numbers each: MNIST is the source, USPS the target. X (n, 20), y (n,)."""

    network: str
    X_source: Floats32
    y_source: Digits
    X_source_test: Floats32
    y_source_test: Digits
    X_target_train: Floats32
    y_target_train: Digits
    X_target: Floats32
    y_target: Digits


def load_digits_embeddings(network: str = "paper", folder: Path | None = None) -> DigitsEmbeddings:
    """Embeddings of MNIST (60,000 and 10,000 rows) and USPS (7,291 and 2,007) by one network.

    Each is the output of the network's last hidden layer; every network has seen MNIST's training
    rows only. The values were rounded to half precision when they were stored: on the 45 pairs of
    digits, converged logistic regressions then err on one more image of USPS in all, with the
    paper's network, and on none with the others. `folder` is where `unshift.networks.retrain`
    wrote others; without it, those of the package.
    """
    check_option(network, "network", DIGITS_NETWORKS)
    where = _PACKAGED if folder is None else folder
    X = _arrays(where / f"digits_{network}.npz")
    y = _arrays(where / "digits_labels.npz")
    rows = {name: np.ascontiguousarray(values, dtype=np.float32) for name, values in X.items()}
    labels = {name: values.astype(np.int64) for name, values in y.items()}
    return DigitsEmbeddings(
        network=network,
        X_source=rows["mnist_train"],
        y_source=labels["mnist_train"],
        X_source_test=rows["mnist_test"],
        y_source_test=labels["mnist_test"],
        X_target_train=rows["usps_train"],
        y_target_train=labels["usps_train"],
        X_target=rows["usps_test"],
        y_target=labels["usps_test"],
    )


def digits_networks(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """How each network was trained and how well it does, by the network's name."""
    where = _PACKAGED if folder is None else folder
    record: dict[str, dict[str, Any]] = json.loads((where / "networks.json").read_text("utf-8"))
    return record


def _arrays(path: Traversable) -> dict[str, npt.NDArray[Any]]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Two affine views x = θ z + μ of one mixture, with all that a user would not know.

    X (n, 5) and y (n,) are seen; Z (n, 2) holds the rows in the shared space, `theta` (5, 2) and
    `mu` (5,) the true maps.
    """

    X_source: Floats64
    y_source: Digits
    X_target: Floats64
    y_target: Digits
    Z_source: Floats64
    Z_target: Floats64
    theta_source: Floats64
    theta_target: Floats64
    mu_source: Floats64
    mu_target: Floats64


def make_mixture(random_state: Any = 0, *, n_rows: int = 600, n_features: int = 5) -> Mixture:
    """The paper's simulated data (its section 4.1): a mixture of two Gaussians in two dimensions.

    `n_rows` draws, either Gaussian with probability 1/2, are cut at random into two halves, and
    each half is shown through its own random map and translation. The paper does not say how these
    were drawn; its published code draws all entries uniformly from 0 to 10, and so does this.
    """
    if n_rows < 4 or n_rows % 2:
        raise ValueError(f"n_rows should be even and at least 4, for two halves; got {n_rows}.")
    if n_features < 2:
        raise ValueError(f"n_features should be at least 2, the width of z; got {n_features}.")
    rng = generator(random_state)
    y = rng.integers(0, 2, size=n_rows)
    noise = rng.standard_normal((n_rows, 2))
    roots = np.linalg.cholesky(MIXTURE_COVARIANCES)
    Z = MIXTURE_MEANS[y] + np.einsum("nij,nj->ni", roots[y], noise)
    # The rows are independent draws already: the first half is as random as any other.
    source, target = slice(0, n_rows // 2), slice(n_rows // 2, n_rows)
    thetas = rng.uniform(0, 10, size=(2, n_features, 2))
    mus = rng.uniform(0, 10, size=(2, n_features))
    return Mixture(
        X_source=Z[source] @ thetas[0].T + mus[0],
        y_source=y[source],
        X_target=Z[target] @ thetas[1].T + mus[1],
        y_target=y[target],
        Z_source=Z[source],
        Z_target=Z[target],
        theta_source=thetas[0],
        theta_target=thetas[1],
        mu_source=mus[0],
        mu_target=mus[1],
    )
