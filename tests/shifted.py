"""Two small domains, side by side and stacked, for the tests of the estimators."""

from typing import Any

import numpy as np

# With "paper" only rotations compete, whatever else the default may weigh.
QUICK = {"n_components": 2, "n_starts": 2, "choice": "paper", "random_state": 0}


def two_domains(
    n_source: int = 50, n_target: int = 57, *, shift: float = 5.0, seed: int = 0
) -> tuple[Any, Any, Any, Any]:
    """Rows and classes of a source and of a target whose features are mixed and moved."""
    rng = np.random.default_rng(seed)
    y, y_target = np.arange(n_source) % 2, np.arange(n_target) % 2
    X, Z = rng.exponential(size=(n_source, 3)), rng.exponential(size=(n_target, 3))
    X[:, 0] += 3.0 * y
    Z[:, 0] += 3.0 * y_target
    return X, y, Z @ (np.eye(3) + 0.2 * rng.normal(size=(3, 3))) + shift, y_target


def stacked(n_known: int = 12) -> tuple[Any, Any, Any]:
    """X, y and sample_domain of 40 rows a side, shuffled; of the target's labels few are not -1.

    The target lies so far off that a row shows which domain it is from.
    """
    X, y, X_target, y_target = two_domains(40, 40, shift=50.0)
    both = np.concatenate([X, X_target])
    labels = np.concatenate([y, y_target])
    labels[40 + n_known :] = -1
    domains = np.repeat([1, -2], 40)
    order = np.random.default_rng(1).permutation(80)
    return both[order], labels[order], domains[order]
