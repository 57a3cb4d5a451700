"""A map of a dataset's shards, for people: which are done, leased and by whom, returned, parked or lost, epoch by epoch.

An epoch may have 10^12 shards, so a map has cells of equally many neighbours. It is computed of the queue's cursor and of
what is out of order (``core/shards/queue.py``), so it costs what is in flight and the cells, never what the dataset has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from pliant.core.shards.book import ShardBook
from pliant.core.shards.queue import ShardQueue

MAX_CELLS = 2000  # of an epoch
MAX_EPOCHS = 6  # of a dataset
MAX_MAPS = 50  # datasets of a job
MAX_LEASES = 500  # that are listed
MAX_HELD = 2000  # cells whose holder is named, of an epoch
MAX_EXCEPTIONS = 200_000  # shards out of order that are looked at; more are shown as done

PARKED, LOST, RETURNED, LEASED, DONE, PARTLY, TO_DO = "pxrldh."  # of a cell: the most noteworthy of its shards


@dataclass(frozen=True, slots=True)
class EpochMap:
    epoch: int
    shards: int
    per_cell: int
    cells: str  # a letter per cell
    done: tuple[int, ...] = ()  # percent of each cell's shards; empty: a cell is one shard
    held: tuple[tuple[int, int], ...] = ()  # a cell with leased shards, and a number in the map's ``holders``
    complete: bool = False


@dataclass(frozen=True, slots=True)
class LeasedShard:
    node: str
    epoch: int
    ordinal: int
    start: int  # of its records
    end: int
    done: int  # records


@dataclass(frozen=True, slots=True)
class ShardMap:
    dataset: str
    epochs: tuple[EpochMap, ...] = ()  # ascending
    holders: tuple[str, ...] = ()  # nodes that hold leases
    leases: tuple[LeasedShard, ...] = ()
    leases_total: int = 0
    left_out_epochs: int = 0  # before the newest one that are not in the map
    ended_early: bool = False  # shards that were returned after that count as done here


def shard_maps(book: ShardBook, max_cells: int = MAX_CELLS) -> tuple[ShardMap, ...]:
    """Of the first ``MAX_MAPS`` datasets."""
    return tuple(shard_map(book, queue, max_cells) for queue in book.queues()[:MAX_MAPS])


def shard_map(book: ShardBook, queue: ShardQueue, max_cells: int = MAX_CELLS) -> ShardMap:
    max_cells = min(max(1, max_cells), MAX_CELLS)
    name = queue.spec.name
    leases = [(node, lease) for node, lease in book.leases() if lease.dataset == name]
    holders = {node: number for number, node in enumerate(dict.fromkeys(node for node, _ in leases))}
    out_of_order: list[tuple[int, int, str, int]] = [  # epoch, ordinal, letter, holder
        *((lease.shard.epoch, lease.shard.ordinal, LEASED, holders[node]) for node, lease in leases),
        *((shard.epoch, shard.ordinal, RETURNED, -1) for shard in islice(queue.returned, MAX_EXCEPTIONS)),
        *((parked.shard.epoch, parked.shard.ordinal, PARKED, -1) for parked in queue.parked),
        *((lost.shard.epoch, lost.shard.ordinal, LOST, -1) for lost in queue.lost),
    ]
    by_epoch: dict[int, list[tuple[int, str, int]]] = {}
    for epoch, ordinal, letter, holder in out_of_order[:MAX_EXCEPTIONS]:
        by_epoch.setdefault(epoch, []).append((ordinal, letter, holder))
    shown = _shown_epochs(queue, by_epoch)
    return ShardMap(
        name,
        tuple(_epoch_map(queue, epoch, by_epoch.get(epoch, ()), max_cells) for epoch in shown),
        tuple(holders),
        tuple(
            LeasedShard(
                node, lease.shard.epoch, lease.shard.ordinal, lease.extent.start, lease.extent.end, lease.shard.offset
            )
            for node, lease in leases[:MAX_LEASES]
        ),
        leases_total=len(leases),
        left_out_epochs=queue.epoch + 1 - len(shown),
        ended_early=queue.ended,
    )


def _shown_epochs(queue: ShardQueue, out_of_order: Iterable[int]) -> list[int]:
    """The newest one, those in which something is open, and of the others the newest."""
    noteworthy = sorted({*out_of_order, *queue.open_epochs} - {queue.epoch}, reverse=True)[: MAX_EPOCHS - 2]
    chosen = {queue.epoch, *noteworthy}
    newest = range(queue.epoch - 1, max(-1, queue.epoch - 1 - MAX_EPOCHS), -1)
    for epoch in newest:
        if len(chosen) < MAX_EPOCHS:
            chosen.add(epoch)
    return sorted(chosen)


def _epoch_map(queue: ShardQueue, epoch: int, out_of_order: Iterable[tuple[int, str, int]], max_cells: int) -> EpochMap:
    ranges = queue.ordinals()
    begins, total = [], 0  # where each range begins on one line
    for part in ranges:
        begins.append(total)
        total += len(part)
    if not total:
        return EpochMap(epoch, 0, 1, "")
    per_cell = -(-total // max_cells)
    cells = -(-total // per_cell)
    handed_out = [0] * cells
    for begin, part in zip(begins, queue.handed_out(epoch), strict=True):
        _add_range(handed_out, begin, begin + len(part), per_cell)
    found: dict[str, Counter[int]] = {letter: Counter() for letter in (PARKED, LOST, RETURNED, LEASED)}
    held: dict[tuple[int, int], None] = {}
    starts = [part.start for part in ranges]
    for ordinal, letter, holder in out_of_order:
        at = max(0, bisect_right(starts, ordinal) - 1)
        cell = min(cells - 1, max(0, begins[at] + ordinal - starts[at]) // per_cell)
        found[letter][cell] += 1
        if holder >= 0 and len(held) < MAX_HELD:
            held[cell, holder] = None
    letters, shares = [], []
    for cell in range(cells):
        size = min(per_cell, total - cell * per_cell)
        undone = sum(counter[cell] for counter in found.values())
        done = max(0, handed_out[cell] - undone)
        noteworthy = next((letter for letter, counter in found.items() if counter[cell]), "")
        letters.append(noteworthy or (DONE if done == size else PARTLY if done else TO_DO))
        shares.append(100 * done // size)
    text = "".join(letters)
    return EpochMap(
        epoch,
        total,
        per_cell,
        text,
        tuple(shares) if per_cell > 1 else (),
        tuple(held),
        complete=text.count(DONE) == cells and queue.closed,
    )


def _add_range(counts: list[int], begin: int, end: int, per_cell: int) -> None:
    """Add to each cell how many of [begin, end) are in it."""
    if end <= begin:
        return
    first, last = begin // per_cell, (end - 1) // per_cell
    for cell in range(first, last + 1):
        counts[cell] += min(end, (cell + 1) * per_cell) - max(begin, cell * per_cell)
