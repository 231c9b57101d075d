"""The same seed gives the same bits, in any process and with any number of workers."""

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unshift
from planted import view
from unshift import AlignedClassifier, AlignedRegressor


def fingerprint(n_jobs: int | None) -> str:
    """Of all that an alignment of two domains, one of three and an estimator come to."""
    views = [view(width, seed, n=120) for seed, width in enumerate((4, 4, 5))]
    source, target, other = (v.rows for v in views)
    labels = np.where(np.arange(120) < 15, views[1].labels, np.nan)
    digest = hashlib.sha256()

    def note(*arrays: Any) -> None:
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())

    effort: dict[str, Any] = {"random_state": 3, "n_jobs": n_jobs, "n_starts": 4}
    for options in ({}, {"same_features": False}, {"choice": "paper"}, {"loss": "joint"}):
        alignment = unshift.align(source, target, views[0].labels, labels, **effort, **options)
        note(*(part for c in alignment.candidates for part in (c.target.matrix, c.mmd2, c.weight)))
        note(alignment.suggest_labels(target, 3).rows)
        note(alignment.update(target[:40]).target.matrix)
    many = unshift.align_many({"a": source, "b": target, "c": other}, **effort)
    note(*(map_.matrix for map_ in many.refit("b", target[:60], **effort).maps.values()))
    classifier = AlignedClassifier(**effort).fit(source, views[0].labels, X_target=target)
    note(classifier.predict_proba(target))
    return digest.hexdigest()


def test_bits_depend_neither_on_the_process_nor_on_the_workers() -> None:
    code = "from test_determinism import fingerprint; print(fingerprint(2))"
    command = [sys.executable, "-W", "error", "-c", code]
    here = Path(__file__).parent
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == fingerprint(None)


@pytest.mark.parametrize("random_state", [None, 0, np.random.default_rng(0)])
def test_numpys_global_generator_is_left_alone(random_state: Any) -> None:
    source, target = view(4, 0, n=60), view(4, 1, n=60)
    before = np.random.get_state()  # noqa: NPY002
    options: dict[str, Any] = {"random_state": random_state, "n_starts": 1}
    unshift.align(source.rows, target.rows, source.labels, loss="joint", **options)
    unshift.align_many({"a": source.rows, "b": target.rows}, **options)
    regressor = AlignedRegressor(**options)
    regressor.fit(source.rows, source.latent[:, 0], X_target=target.rows)
    after = np.random.get_state()  # noqa: NPY002
    assert before[0] == after[0]
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]


def test_generators_are_advanced_and_states_of_old_are_taken() -> None:
    source, target = view(4, 0, n=60).rows, view(4, 1, n=60).rows

    def drawn(random_state: Any) -> Any:
        options: dict[str, Any] = {"n_starts": 2, "choice": "paper", "same_features": False}
        alignment = unshift.align(source, target, random_state=random_state, **options)
        return np.concatenate([c.target.matrix.ravel() for c in alignment.candidates])

    for kind in (np.random.default_rng, np.random.RandomState):
        np.testing.assert_array_equal(drawn(kind(5)), drawn(kind(5)))
        generator, unused = kind(5), kind(5)
        drawn(generator)
        assert generator.uniform() != unused.uniform()
