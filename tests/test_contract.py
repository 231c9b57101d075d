"""scikit-learn's whole contract, with two domains in either form.

``check_estimator`` gives an estimator one domain. Here it gives the same rows to classes that make
two domains of them, so that every check also holds where something is aligned.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import issparse

from unshift import AffineAligner, AlignedClassifier, AlignedRegressor

TWICE = [
    *("AlignerSideBySide", "ClassifierSideBySide", "RegressorSideBySide"),
    *("AlignerStacked", "ClassifierStacked", "RegressorStacked"),
]


class SideBySide:
    """The rows are their own target."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        return super().fit(X, y, X_target=X, sample_weight=sample_weight)  # type: ignore[misc]


class Stacked:
    """The rows twice in one X, the second time as the target's, without labels."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        frame = hasattr(X, "iloc")
        rows = X.to_numpy() if frame else np.asarray(None if issparse(X) else X)
        labels = None if y is None else np.asarray(y)
        n = rows.shape[0] if rows.ndim == 2 else 0
        if n < 2 or not (labels is None or labels.size == n):
            return super().fit(X, y, sample_weight=sample_weight)  # type: ignore[misc]
        both = np.concatenate([rows, rows])
        if labels is not None:
            unknown = np.full(labels.shape, None, dtype=object)
            labels = np.concatenate([labels.astype(object), unknown])
        weights = None if sample_weight is None else np.tile(np.asarray(sample_weight), 2)
        return super().fit(  # type: ignore[misc]
            type(X)(both, columns=X.columns) if frame else both,
            labels,
            sample_domain=np.repeat([0, -1], n),
            sample_weight=weights,
        )


class _FitTransform:
    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        return self.fit(X, y, sample_weight).transform(X, domain="source")  # type: ignore[attr-defined]


class AlignerSideBySide(_FitTransform, SideBySide, AffineAligner): ...


class ClassifierSideBySide(SideBySide, AlignedClassifier): ...


class RegressorSideBySide(SideBySide, AlignedRegressor): ...


class AlignerStacked(_FitTransform, Stacked, AffineAligner): ...


class ClassifierStacked(Stacked, AlignedClassifier): ...


class RegressorStacked(Stacked, AlignedRegressor): ...


@pytest.mark.parametrize("name", TWICE)
def test_every_check_passes_with_two_domains(name: str) -> None:
    # SciPy reads SCIPY_ARRAY_API when it is imported; without, a check is skipped.
    code = f"""
import warnings
from sklearn.utils.estimator_checks import check_estimator
from test_contract import {name}
warnings.simplefilter("ignore")
estimator = {name}(n_starts=1, random_state=0)
for done in check_estimator(estimator, on_fail=None, on_skip=None):
    assert not done["expected_to_fail"], done
    assert done["status"] == "passed", done
"""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-c", code]
    here = Path(__file__).parent
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, cwd=here
    )
    assert done.returncode == 0, done.stderr
