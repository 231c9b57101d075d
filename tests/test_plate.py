"""Where rows of a domain stand among many, and how rows that come later are treated."""

from typing import Any

import numpy as np

import unshift
from planted import view


def test_rows_that_do_not_turn_lie_where_their_own_map_puts_them() -> None:
    rows = view(4, 1, n=350).rows
    moved = {"one": rows[::2], "two": rows[1::2] * 2.0 + 3.0}
    many = unshift.align_many(moved, reference="one", n_starts=1, random_state=0)
    evidence, pair = many.evidence, many.alignments["two"]
    assert evidence is not None
    unturned = [i for i, c in enumerate(pair.candidates) if c.rotation is None]
    assert len(unturned) > 1
    for i in unturned:
        plate = evidence.placed(1, pair.prefer(i), np.random.default_rng(0))
        back = pair.candidates[i].target_to_source(moved["two"])
        np.testing.assert_allclose(plate.placed(1), many.maps["one"](back), atol=1e-4)


def test_rows_that_come_later_are_weighed_as_the_others_were() -> None:
    rng = np.random.default_rng(0)
    domains = {name: rng.standard_normal((200, 2)) for name in "ab"}
    later = rng.standard_normal((200, 2))
    later[0] = 8.0  # far, but not so far that it alone would call for anything
    options: dict[str, Any] = {"n_starts": 1, "random_state": 0}
    for far, treated in ((1.0, False), (1e4, True)):
        domains["a"][0] *= far
        many = unshift.align_many(domains, reference="a", **options).refit("b", later, **options)
        assert many.evidence is not None
        assert (many.evidence.space.domains[1].tamed > 0) is treated
