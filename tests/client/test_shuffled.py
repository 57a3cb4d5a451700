"""Elements of a shuffled order are the same, one by one and many at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pliant.client.shards import Shard
from pliant.client.shuffled import elements_of
from pliant.core.shards.permutation import Permutation


@given(size=st.one_of(st.integers(1, 5000), st.integers(1, 1 << 63)), key=st.integers(), at=st.integers(0, 1 << 63))
def test_many_elements_are_those_that_come_one_by_one(size: int, key: int, at: int) -> None:
    order = Permutation(size, key, "test")
    first = at % size
    last = min(size, first + 300)
    assert elements_of(order, first, last) == [order[i] for i in range(first, last)]


def test_indices_of_a_shard_are_what_iterating_it_yields() -> None:
    for options in ({"shuffle_key": (7, "x")}, {}, {"indices": tuple(range(9000, 13000))}):
        for offset in (0, 1500, 4000):
            shard = Shard(None, 1, "d", "n", 100, 4100, offset=offset, **options)  # type: ignore[arg-type]
            assert shard.indices() == list(shard)
