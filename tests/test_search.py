"""The search over O(p): planted rotations are found, and the answer says how."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config, register_parallel_backend
from joblib.parallel import LokyBackend

from planted import lopsided_latent
from rotations import apart, planted_pair
from unshift.mmd import ExactMMD
from unshift.search import FINISHED, INTERRUPTED, SCANNED, SURE, SearchResult, search
from unshift.stiefel import random_orthogonal

Array = np.ndarray


def searched(source: Array, target: Array, **options: object) -> SearchResult:
    return search(source, target, sigma=1.0, rng=np.random.default_rng(0), **options)


@pytest.mark.parametrize("p", [1, 2, 3, 6])
@pytest.mark.parametrize("determinant", [1, -1])
def test_planted_rotation_is_found_in_both_components(p: int, determinant: int) -> None:
    source, target, rotation = planted_pair(p, determinant=determinant)
    result = searched(source, target)
    assert apart(result.found[0].rotation, rotation) < 0.25
    assert result.status == (SCANNED if p <= 2 else SURE)


def test_minima_are_orthogonal_distinct_and_in_order_of_their_exact_mmd2() -> None:
    source, target, _ = planted_pair(4)
    found = searched(source, target, n_starts=8).found
    exact = ExactMMD(source, target, 1.0)
    for minimum in found:
        np.testing.assert_allclose(minimum.rotation @ minimum.rotation.T, np.eye(4), atol=1e-10)
        assert minimum.mmd2 == pytest.approx(exact.value(minimum.rotation), rel=1e-3)
    values = [minimum.mmd2 for minimum in found]
    assert values == sorted(values)
    pairs = [(a, b) for i, a in enumerate(found) for b in found[:i]]
    assert min(apart(a.rotation, b.rotation) for a, b in pairs) > 0.2


def test_result_does_not_depend_on_the_number_of_jobs() -> None:
    source, target, _ = planted_pair(4)
    one, two = (searched(source, target, n_starts=8, n_jobs=jobs) for jobs in (1, 2))
    assert [f.mmd2 for f in one.found] == [f.mmd2 for f in two.found]
    for first, second in zip(one.found, two.found, strict=True):
        np.testing.assert_array_equal(first.rotation, second.rotation)


class Watched(LokyBackend):
    """Another backend than joblib's own, in processes, that counts the tasks sent to it."""

    sent = 0

    def submit(self, func: Any, callback: Any = None) -> Any:
        Watched.sent += 1
        return super().submit(func, callback)


def test_tasks_go_to_the_backend_that_is_configured_and_bring_back_the_same_bits() -> None:
    source, target, _ = planted_pair(4, n=200)
    alone = searched(source, target, n_starts=4)
    register_parallel_backend("watched", Watched)
    with parallel_config(backend="watched", n_jobs=2):
        spread = searched(source, target, n_starts=4)
    # a proposal each, and descents by twos
    assert Watched.sent > 4 + 3
    for first, second in zip(alone.found, spread.found, strict=True):
        np.testing.assert_array_equal(first.rotation, second.rotation)
        assert first.mmd2 == second.mmd2


def test_rotating_the_target_rotates_the_answer() -> None:
    source, target, _ = planted_pair(4)
    turn = random_orthogonal(4, np.random.default_rng(5), determinant=-1)
    before = searched(source, target).found[0]
    after = searched(source, target @ turn).found[0]
    assert apart(after.rotation, before.rotation @ turn) < 0.05
    assert after.mmd2 == pytest.approx(before.mmd2, rel=1e-2)


def test_a_start_that_is_given_is_reported_by_its_kind() -> None:
    source, target, rotation = planted_pair(4)
    anchor = random_orthogonal(4, np.random.default_rng(3))
    kinds = {f.kind for f in searched(source, target, anchor=anchor, n_starts=0).found}
    assert "anchor" in kinds
    best = searched(source, target, anchor=rotation).found[0]
    assert best.kind == "anchor"


def test_class_means_alone_lead_to_the_rotation() -> None:
    source, target, rotation = planted_pair(5)
    labels = [lopsided_latent(5, 500, seed)[1] for seed in (1, 2)]
    means = tuple(
        np.stack([rows[y == c].mean(axis=0) for c in range(1, 7)])
        for rows, y in zip((source, target), labels, strict=True)
    )
    best = searched(source, target, class_means=means, n_starts=0).found[0]
    assert best.kind == "class means"
    assert apart(best.rotation, rotation) < 0.25


def test_a_number_of_starts_draws_as_many_and_tells_of_the_progress() -> None:
    source, target, _ = planted_pair(3, n=200)
    told: list[tuple[str, int, int]] = []
    result = searched(source, target, n_starts=12, callback=lambda *seen: told.append(seen))
    assert told == [("starts", 4, 12), ("starts", 8, 12), ("starts", 12, 12)]
    assert result.n_starts == 12 + 2
    assert result.status == FINISHED


def test_an_interrupt_keeps_the_best_so_far() -> None:
    source, target, rotation = planted_pair(4)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    result = searched(source, target, callback=interrupt)
    assert result.status == INTERRUPTED
    assert result.n_starts == 4 + 2
    assert apart(result.found[0].rotation, rotation) < 0.3


def test_memory_does_not_grow_with_kernels_between_all_rows() -> None:
    source, target, _ = planted_pair(12, n=2000)
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        search(source, target, sigma=3.5, rng=rng, n_starts=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 15e6  # a 2000 x 2000 kernel alone would take 32 MB
