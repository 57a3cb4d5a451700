from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event, Lock

import pytest


class FakeShard:
    """A lease that writes down what it is told."""

    def __init__(self, start: int, end: int, name: str = "dataset", offset: int = 0) -> None:
        self.name, self.start, self.end, self.offset = name, start, end, offset
        self.reports: list[int] = []
        self.finished = 0

    def indices(self) -> list[int]:
        return list(range(self.start + self.offset, self.end))

    def progress(self, records: int) -> None:
        self.reports.append(records)

    def done(self) -> None:
        self.finished += 1

    @property
    def acknowledged(self) -> int:
        """Records that would not be given to another worker."""
        left = len(self.indices())
        return left if self.finished else max(self.reports, default=0)


class FakeMaster:
    """Gives out shards; like the real one it does not end before all that it gave out are done."""

    def __init__(self, total: int, size: int, *, patient: bool = False) -> None:
        self.shards = [FakeShard(start, min(start + size, total)) for start in range(0, total, size)]
        self.given: list[FakeShard] = []
        self.patient = patient
        self.stopped = Event()
        self._lock = Lock()

    def __iter__(self) -> Iterator[FakeShard]:
        for shard in self.shards:
            with self._lock:
                self.given.append(shard)
            yield shard
        while self.patient and not self.all_done and not self.stopped.wait(0.001):
            pass

    def cancel(self) -> None:
        self.stopped.set()

    @property
    def all_done(self) -> bool:
        return all(shard.finished == 1 for shard in self.shards)

    @property
    def acknowledged(self) -> int:
        return sum(shard.acknowledged for shard in self.given)


@pytest.fixture(scope="session")
def master() -> Callable[..., FakeMaster]:
    return FakeMaster
