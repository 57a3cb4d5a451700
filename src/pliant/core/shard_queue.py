"""The queue of one dataset: a cursor over computed epochs, what came back, what is parked, what is done.

A *piece* is a shard of an epoch with what is known of its history: ``offset`` records of it are done, it failed so many
times. Pieces come from two places: those that were given back (first), then the cursor. State is the cursor and what
is not in order: its size depends on what is in flight, never on the dataset.

Invariants: each (epoch, ordinal) is in exactly one of: ahead of the cursor, returned, out (held by someone), parked,
finished. ``finished_records`` counts each record of an epoch once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from pliant.core.datasets import LARGEST, DatasetSpec, Extent, Layout, ShardType
from pliant.core.errors import InvalidRequest
from pliant.core.permutation import Permutation

MOST_PRODUCERS = 1024  # of a stream, whose repeated calls are recognised
MOST_RETURNED = 1 << 21  # pieces; thousands of workers with a thousand each
PATIENCE = 3.0  # times the longest silence seen, before a lease is taken back


@dataclass(frozen=True, slots=True)
class Piece:
    epoch: int
    ordinal: int  # place in the epoch's order
    offset: int = 0  # records done, counted in the shard's own order
    failures: int = 0
    timeouts: int = 0

    def to_json(self) -> list[int]:
        return [self.epoch, self.ordinal, self.offset, self.failures, self.timeouts]


@dataclass(frozen=True, slots=True)
class Parked:
    piece: Piece
    extent: Extent
    message: str  # the last failure, for people


class ShardQueue:
    def __init__(self, spec: DatasetSpec) -> None:
        self.spec = spec
        self.layout = Layout(spec)
        self.length = 0  # of a stream, so far
        self.growths: dict[str, tuple[int, int]] = {}  # producer -> its last call and the answer; the latest are kept
        self.closed = not spec.stream
        self.epoch = 0
        self.cursor = 0
        self.returned: deque[Piece] = deque()
        self.parked: list[Parked] = []
        self.out = 0  # pieces held by someone
        self.finished_shards = 0
        self.finished_records = 0
        self.open_epochs: dict[int, int] = {}  # epoch -> records finished, for epochs that are not complete
        self.epochs_done = 0
        self.longest = 0.0  # seconds that the slowest shard took
        self.ended = False  # it was declared over before its last shard
        self.notes: dict[tuple[int, int], str] = {}  # (epoch, ordinal) -> what came with the acknowledgement
        self._orders: dict[int, Permutation] = {}

    # --- reading

    @property
    def records_per_epoch(self) -> int:
        return self.length if self.spec.stream else self.layout.records

    @property
    def shards_per_epoch(self) -> int:
        if not self.spec.stream:
            return self.layout.shards
        size = self.spec.shard_size
        return -(-self.length // size) if self.closed else self.length // size

    @property
    def exhausted(self) -> bool:
        """Nothing is left to hand out, now or later (what is out may still come back)."""
        if self.ended:
            return True
        last = self.epoch == self.spec.epochs - 1 or self.shards_per_epoch == 0
        return self.closed and last and self._epoch_cut() and not self.returned

    @property
    def complete(self) -> bool:
        return self.exhausted and self.out == 0

    def lease_timeout(self) -> float:
        return max(self.spec.lease_floor, PATIENCE * self.longest)

    def extent(self, piece: Piece) -> Extent:
        number = piece.ordinal
        if self.spec.shuffle:
            number = self._order(piece.epoch)[number]
        if not self.spec.stream:
            return self.layout.extent(number)
        start = number * self.spec.shard_size
        return Extent(self.spec.name, start, min(start + self.spec.shard_size, self.length))

    # --- changing

    def take(self) -> Piece | None:
        """The next piece to work on, or None while there is none."""
        if self.ended:
            return None
        if self.returned:
            self.out += 1
            return self.returned.popleft()
        if self._epoch_cut() and (self.shards_per_epoch == 0 or not self._open_next_epoch()):
            return None
        piece = Piece(self.epoch, self.cursor)
        self.cursor += 1
        self.out += 1
        return piece

    def advance(self, piece: Piece, offset: int) -> Piece:
        """Count records ``[piece.offset, offset)`` of a piece that is out as finished."""
        self._count(piece.epoch, offset - piece.offset)
        return replace(piece, offset=offset)

    def finish(self, piece: Piece, size: int) -> None:
        self.out -= 1
        self.finished_shards += 1
        self._count(piece.epoch, size - piece.offset)

    def give_back(self, piece: Piece, *, first: bool = True) -> None:
        self.out -= 1
        if self.ended:
            return  # nobody will do it
        self.returned.appendleft(piece) if first else self.returned.append(piece)

    def end(self) -> None:
        """Hand out no more: what is out may still be finished, what comes back stays undone."""
        self.ended = True
        self.returned.clear()

    def fail(self, piece: Piece, message: str) -> None:
        """The program failed on it: try again later, or park it."""
        self._blame(replace(piece, failures=piece.failures + 1), message)

    def time_out(self, piece: Piece, message: str) -> None:
        self._blame(replace(piece, timeouts=piece.timeouts + 1), message)

    def grow(self, records: int, *, close: bool, producer: str = "", number: int = 0) -> int:
        """Lengthen a stream, and close it if so told; gives the length. Without a producer nothing is a repetition."""
        if not self.spec.stream:
            raise InvalidRequest(f"dataset {self.spec.name!r} is no stream; its size is fixed")
        last, answered = self.growths.get(producer, (0, 0))
        if producer and (number < max(1, last) or len(producer) > 200):
            raise InvalidRequest(f"growth {number} of producer {producer:.200}, whose last was {last}")
        if producer and number == last:
            return answered
        if records < 0:
            raise InvalidRequest(f"a stream cannot grow by {records} records")
        if self.closed and (records or not close):
            raise InvalidRequest(f"stream {self.spec.name!r} is closed")
        if self.length + records > LARGEST:
            raise InvalidRequest(f"stream {self.spec.name!r} cannot hold over {LARGEST} records")
        self.length += records
        self.closed = self.closed or close
        if producer:
            self.growths.pop(producer, None)
            self.growths[producer] = (number, self.length)
            if len(self.growths) > MOST_PRODUCERS:
                del self.growths[next(iter(self.growths))]
        return self.length

    # --- inside

    def _epoch_cut(self) -> bool:
        return self.cursor >= self.shards_per_epoch

    def _open_next_epoch(self) -> bool:
        waits = self.spec.epoch_barrier and (self.out > 0 or self.returned)
        if self.spec.stream or self.epoch + 1 >= self.spec.epochs or waits:
            return False
        self.epoch += 1
        self.cursor = 0
        return True

    def _blame(self, piece: Piece, message: str) -> None:
        if piece.failures < self.spec.max_failures and piece.timeouts < self.spec.max_timeouts:
            self.give_back(piece, first=False)  # last: others should not wait behind a shard that fails
            return
        self.out -= 1
        self.parked.append(Parked(piece, self.extent(piece), message))

    def _count(self, epoch: int, records: int) -> None:
        self.finished_records += records
        done = self.open_epochs.get(epoch, 0) + records
        self.open_epochs[epoch] = done
        if not self.spec.stream and done == self.layout.records:
            del self.open_epochs[epoch]
            self.epochs_done += 1

    def _order(self, epoch: int) -> Permutation:
        order = self._orders.get(epoch)
        if order is None:
            order = Permutation(self.layout.shards, self.spec.seed, "shards", epoch)
            if len(self._orders) >= 4:  # epochs overlap a little; more than that is recomputed
                self._orders.pop(min(self._orders))
            self._orders[epoch] = order
        return order

    # --- as JSON

    def snapshot(self) -> dict[str, Any]:
        """All but the pieces that are out: those belong to whoever holds them."""
        return {
            "epoch": self.epoch,
            "cursor": self.cursor,
            "length": self.length,
            "closed": self.closed,
            "growths": [[producer, *last] for producer, last in self.growths.items()],
            "returned": pack(list(self.returned)),
            "parked": [[p.piece.to_json(), p.message] for p in self.parked],
            "finished_shards": self.finished_shards,
            "finished_records": self.finished_records,
            "open_epochs": [[e, n] for e, n in self.open_epochs.items()],
            "epochs_done": self.epochs_done,
            "longest": self.longest,
            **({"ended": True} if self.ended else {}),
            **({"notes": [[*key, note] for key, note in self.notes.items()]} if self.notes else {}),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.epoch, self.cursor = state["epoch"], state["cursor"]
        self.length, self.closed = state["length"], state["closed"]
        self.growths = {producer: (number, length) for producer, number, length in state["growths"]}
        self.returned = deque(unpack(state["returned"]))
        self.parked = []
        for fields, message in state["parked"]:
            piece = Piece(*fields)
            self.parked.append(Parked(piece, self.extent(piece), message))
        self.out = 0
        self.finished_shards = state["finished_shards"]
        self.finished_records = state["finished_records"]
        self.open_epochs = dict(state["open_epochs"])
        self.epochs_done = state["epochs_done"]
        self.longest = state["longest"]
        self.ended = bool(state.get("ended", False))
        self.notes = {(epoch, ordinal): note for epoch, ordinal, note in state.get("notes", ())}

    def check(self) -> None:
        """Refuse a state that no history leads to, such as that of a checkpoint which was cut or edited."""
        pieces = [*self.returned, *(p.piece for p in self.parked)]
        counts = [self.epoch, self.cursor, self.length, self.finished_shards, self.finished_records, self.epochs_done]
        counts += [number for entry in self.open_epochs.items() for number in entry]
        counts += [number for piece in pieces for number in piece.to_json()]
        if any(type(count) is not int for count in counts):
            raise InvalidRequest(f"dataset {self.spec.name!r} cannot be in this state: whole numbers are needed")
        shards, handed_out = self.shards_per_epoch, self.epoch * self.shards_per_epoch + self.cursor
        facts = {
            "cursor": 0 <= self.epoch < self.spec.epochs and 0 <= self.cursor <= shards,
            "length": 0 <= self.length <= (LARGEST if self.spec.stream else 0) and (self.spec.stream or self.closed),
            "finished_shards": self.finished_shards >= 0
            and (self.ended or handed_out == self.finished_shards + len(pieces) + self.out),
            "finished_records": 0 <= self.finished_records <= self.spec.epochs * self.records_per_epoch,
            "closed": type(self.closed) is bool,
            "longest": isinstance(self.longest, int | float) and 0 <= self.longest < float("inf"),
            "parked": all(isinstance(p.message, str) for p in self.parked),
            "growths": all(isinstance(p, str) and type(n) is type(m) is int for p, (n, m) in self.growths.items()),
            "returned": len({(p.epoch, p.ordinal) for p in pieces}) == len(pieces) and all(map(self._cut, pieces)),
        }
        if wrong := [name for name, holds in facts.items() if not holds]:
            raise InvalidRequest(f"dataset {self.spec.name!r} cannot be in this state: see {', '.join(wrong)}")

    def _cut(self, piece: Piece) -> bool:
        """Whether this piece was handed out and something of it is left."""
        if not (0 <= piece.epoch <= self.epoch and 0 <= piece.ordinal < self.shards_per_epoch):
            return False
        extent = self.extent(piece)
        behind = piece.epoch < self.epoch or piece.ordinal < self.cursor
        return behind and 0 <= piece.offset < extent.end - extent.start and min(piece.failures, piece.timeouts) >= 0

    @property
    def never_wanted(self) -> bool:
        """The shard of the end of training, of a job that trains nothing and so never asked for it."""
        return self.spec.type is ShardType.TRAIN_END and self.cursor == 0

    @property
    def is_training(self) -> bool:
        return self.spec.type is ShardType.TRAIN


def pack(pieces: list[Piece]) -> list[list[int]]:
    """Runs of untouched neighbours as ``[epoch, first, count]``, any other piece with all of its fields."""
    packed: list[list[int]] = []
    run: list[int] | None = None
    for piece in pieces:
        fresh = piece.offset == piece.failures == piece.timeouts == 0
        if fresh and run is not None and run[0] == piece.epoch and run[1] + run[2] == piece.ordinal:
            run[2] += 1
            continue
        run = [piece.epoch, piece.ordinal, 1] if fresh else None
        packed.append(run if run is not None else piece.to_json())
    return packed


def unpack(packed: list[list[int]]) -> list[Piece]:
    pieces: list[Piece] = []
    for fields in packed:
        if len(fields) == 3:
            epoch, first, count = fields
            if len(pieces) + count > MOST_RETURNED:
                raise ValueError(f"more than {MOST_RETURNED} shards came back")
            pieces.extend(Piece(epoch, ordinal) for ordinal in range(first, first + count))
        else:
            pieces.append(Piece(*fields))
    return pieces
