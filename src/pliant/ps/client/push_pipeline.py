"""A loop over the batches of shards whose pushes go through a window: what is refused comes again, in order.

    with parameters.pipeline() as pipeline:
        for batch in pipeline.batches(shards, cut):      # cut(shard): (work, records of the shard that are done with it), …
            model = parameters.pull({"users": user_ids(batch.work)})
            ...
            pipeline.push(batch, model.iteration, examples=…, dense=…, rows=…)

1. Each batch of a shard is pushed until it is accepted, or its shard is lost to another worker, or training is over; then what
   is left of the shard is released.
2. While a push is undecided, nothing is waited for that another worker could hold up: before the loop waits for a shard, the
   window is drained and what was refused is done.
3. Of one shard, batches are pushed in the order in which they came, and all of them are: the master takes records without a gap.
   The next batches may be taken before one is pushed, but not waited for.
4. A shard whose last records were in no batch is reported as done once all of its batches are accepted.

Neighbours: ``push_window``; ``client`` (makes one).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from pliant.core.errors import InvalidRequest
from pliant.ps.client.push_window import Decided, PushWindow, WindowShard

W = TypeVar("W")


class PipelineShard(WindowShard, Protocol):
    finished: bool

    def done(self) -> None: ...

    def release(self) -> None: ...


class ShardSource(Protocol):
    """``pliant.client.shards.ShardStream`` is one, with ``acknowledge=False``."""

    def __iter__(self) -> Iterator[PipelineShard]: ...

    def __next__(self) -> PipelineShard: ...

    def poll(self) -> PipelineShard | None: ...


@dataclass(frozen=True)
class ShardBatch(Generic[W]):
    shard: Any
    work: W
    begin: int  # records of the shard, as iterated, from here
    end: int  # to here


class _Share:
    """How far the loop is with one shard."""

    def __init__(self) -> None:
        self.open = 0  # batches that are not accepted yet
        self.is_cut = False  # there are no more of it
        self.taken: list[ShardBatch[Any]] = []  # by the loop, and not pushed yet


class PushPipeline(Generic[W]):
    def __init__(self, window: PushWindow, on_decided: Callable[[Decided], None] | None = None) -> None:
        """``on_decided`` is called with each push that was decided; its work is a ``ShardBatch``."""
        self.window = window
        self.is_over = False  # training is: the last iteration was reached
        self._on_decided = on_decided
        self._again: deque[ShardBatch[W]] = deque()
        self._shares: dict[Any, _Share] = {}  # by shard

    def batches(self, shards: ShardSource, cut: Callable[[Any], Iterable[tuple[W, int]]]) -> Iterator[ShardBatch[W]]:
        """Batches of all shards that this worker gets; those that were refused come again, before newer ones."""
        cutting: Iterator[ShardBatch[W]] = iter(())
        while True:
            self.collect()
            if self.is_over:
                self._release_all()
                return
            batch = self._again.popleft() if self._again else next(cutting, None)
            if batch is None:
                shard = self._next_shard(shards)
                if shard is not None:
                    cutting = self._cut(shard, cut)
                elif not self._again and not self.is_over:
                    return
            elif _is_gone(batch.shard):
                self._shares.pop(batch.shard, None)
            else:
                if (share := self._shares.get(batch.shard)) is not None:
                    share.taken.append(batch)
                yield batch

    def push(
        self,
        batch: ShardBatch[W],
        based_on: int,
        *,
        examples: int,
        dense: Mapping[str, Any] | None = None,
        rows: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> None:
        """The gradient of this batch."""
        share = self._shares.get(batch.shard)  # None: the shard was leased to another worker
        if share is not None and not _is_gone(batch.shard):
            self._check_turn(share, batch)
        shards = [(batch.shard, batch.begin, batch.end)]
        self.window.push(based_on, examples=examples, dense=dense, rows=rows, shards=shards, work=batch)
        if share is not None:
            share.taken = [one for one in share.taken if one is not batch]

    def collect(self) -> None:
        """Take notice of what was decided."""
        self._take(self.window.collect())

    def drain(self) -> bool:
        """Wait until everything is decided; False: something was refused, and comes again."""
        self._take(self.window.drain())
        return not self._again

    def close(self) -> None:
        self.window.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Left without an error, the loop knows what became of all pushes; what was refused is released."""
        try:
            if kind is None:
                self.drain()
                self._release_all()
        finally:
            self.close()

    # --- inside

    def _check_turn(self, share: _Share, batch: ShardBatch[W]) -> None:
        if not any(one is batch for one in share.taken):
            raise InvalidRequest(f"records {batch.begin} to {batch.end} of {batch.shard!r} were pushed before")
        for one in share.taken:
            if one.end <= batch.begin:
                raise _left_out(one)

    def _next_shard(self, shards: ShardSource) -> PipelineShard | None:
        """None: there is something to do before, or there are no more."""
        if (shard := shards.poll()) is not None:
            return shard
        for held, share in self._shares.items():
            if share.taken and not _is_gone(held):
                raise _left_out(share.taken[0])
        if not self.drain() or self.is_over:
            return None
        return next(shards, None)

    def _cut(self, shard: Any, cut: Callable[[Any], Iterable[tuple[W, int]]]) -> Iterator[ShardBatch[W]]:
        share = self._shares[shard] = _Share()
        begin = 0
        for work, end in cut(shard):
            if _is_gone(shard):
                break
            share.open += 1
            yield ShardBatch(shard, work, begin, end)
            begin = end
        share.is_cut = True
        self._end(shard)

    def _take(self, decided: Iterable[Decided]) -> None:
        for one in decided:
            batch: ShardBatch[W] = one.work
            if one.pushed.accepted:
                if (share := self._shares.get(batch.shard)) is not None:
                    share.open -= 1
                    self._end(batch.shard)
            elif one.pushed.stale:
                self._again.append(batch)
            else:
                self.is_over = self.is_over or not one.pushed.lost
                self._shares.pop(batch.shard, None)
                batch.shard.release()
            if self._on_decided is not None:
                self._on_decided(one)

    def _end(self, shard: Any) -> None:
        share = self._shares.get(shard)
        if share is not None and share.is_cut and not share.open:
            del self._shares[shard]
            shard.done()

    def _release_all(self) -> None:
        """Of shards that are not done; what is undecided and accepted after that counts all the same."""
        for shard in self._shares:
            shard.release()
        self._shares.clear()
        self._again.clear()


def _is_gone(shard: PipelineShard) -> bool:
    """Nothing more of it is to be pushed."""
    return shard.finished or shard.lost


def _left_out(batch: ShardBatch[Any]) -> InvalidRequest:
    return InvalidRequest(
        f"records {batch.begin} to {batch.end} of {batch.shard!r} were not pushed",
        hint="push every batch, those of a shard in their order; what is not to be learned from, leave out of the batches in cut",
    )
