"""A map tells of each shard what the queue knows, in a bounded number of cells."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.shards.book import ShardBook
from pliant.core.shards.shard_map import MAX_CELLS, MAX_EPOCHS, ShardMap, shard_map, shard_maps
from pliant.rpc.shard_maps import shard_maps_from, shard_maps_message


def book_of(**dataset: object) -> ShardBook:
    book = ShardBook()
    book.create(0.0, dataset={"name": "d", "shard_size": 10, **dataset})
    book.open_session(0.0, session="s", node="worker-0", incarnation=0)
    return book


def lease(book: ShardBook, request: int, want: int, done: list[int] | None = None, **reports: object) -> list[int]:
    answer = book.exchange(0.0, session="s", request=request, dataset="d", want=want, done=done or [], **reports)  # type: ignore[arg-type]
    return [found.number for found in answer.leases]


def the_map(book: ShardBook, cells: int = MAX_CELLS) -> ShardMap:
    return shard_map(book, book.queue("d"), cells)


def test_each_shard_is_shown_by_what_became_of_it() -> None:
    book = book_of(size=100, max_failures=1)
    lease(book, 1, 5)
    lease(book, 2, 0, done=[1, 2], failed=[[3, "bad"]], released=[5])
    (epoch,) = the_map(book).epochs
    assert epoch.cells == "ddplr....."
    assert epoch.held == ((3, 0),)
    assert the_map(book).holders == ("worker-0",)
    assert [(held.node, held.ordinal, held.start, held.end) for held in the_map(book).leases] == [
        ("worker-0", 3, 30, 40)
    ]


def test_a_finished_epoch_is_complete() -> None:
    book = book_of(size=30, epochs=2)
    lease(book, 1, 3)
    lease(book, 2, 1, done=[1, 2, 3])
    first, second = the_map(book).epochs
    assert first.complete
    assert first.cells == "ddd"
    assert (second.cells, second.complete) == ("l..", False)


def test_a_trillion_records_have_as_many_cells_as_asked_for() -> None:
    book = book_of(size=10**12)
    lease(book, 1, 7)
    (epoch,) = the_map(book, 100).epochs
    assert len(epoch.cells) == len(epoch.done) == 100
    assert epoch.cells[0] == "l"
    assert epoch.per_cell == 10**9


def test_old_epochs_are_left_out_but_for_those_with_something_open() -> None:
    book = book_of(size=10, epochs=50, max_failures=1, skip_parked=True)
    lease(book, 1, 1)
    lease(book, 2, 1, failed=[[1, "bad"]])
    for request in range(3, 30):
        lease(book, request, 1, done=[request - 1])
    found = the_map(book)
    assert len(found.epochs) == MAX_EPOCHS
    assert found.epochs[0].cells == "p"
    assert found.left_out_epochs == book.queue("d").epoch + 1 - MAX_EPOCHS


def test_a_stream_grows() -> None:
    book = book_of(stream=True)
    book.grow(0.0, dataset="d", records=40, close=False)
    lease(book, 1, 2)
    lease(book, 2, 0, done=[1])
    assert the_map(book).epochs[0].cells == "dl.."


def test_maps_survive_the_wire() -> None:
    book = book_of(size=1000, epochs=2)
    lease(book, 1, 40)
    lease(book, 2, 0, done=[1, 2, 3])
    maps = shard_maps(book, 30)
    assert shard_maps_from(shard_maps_message(maps)) == maps


@given(
    size=st.integers(1, 400),
    cells=st.integers(1, 50),
    steps=st.lists(st.sampled_from(["take", "done", "fail", "release"]), max_size=60),
)
def test_cells_add_up_to_the_shards(size: int, cells: int, steps: list[str]) -> None:
    book = book_of(size=size, max_failures=2)
    held: list[int] = []
    for request, step in enumerate(steps, 1):
        if step == "take" or not held:
            held += lease(book, request, 3)
        elif step == "done":
            lease(book, request, 0, done=[held.pop(0)])
        elif step == "fail":
            lease(book, request, 0, failed=[[held.pop(0), "bad"]])
        else:
            lease(book, request, 0, released=[held.pop()])
    (epoch,) = the_map(book, cells).epochs
    queue = book.queue("d")
    assert len(epoch.cells) <= cells
    assert epoch.shards == queue.shards_per_epoch
    if epoch.per_cell == 1:
        counts = Counter(epoch.cells)
        assert counts["d"] == queue.finished_shards
        assert counts["l"] == queue.out == len(held)
        assert counts["r"] == len(queue.returned)
        assert counts["p"] == len(queue.parked)
    assert sum(epoch.done) <= 100 * len(epoch.cells)


@pytest.mark.parametrize("cells", [0, -5, 10**9])
def test_a_senseless_number_of_cells_is_corrected(cells: int) -> None:
    book = book_of(size=100_000)
    assert 1 <= len(the_map(book, cells).epochs[0].cells) <= MAX_CELLS
    assert asdict(the_map(book, cells))
