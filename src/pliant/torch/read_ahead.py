"""The micro-batches of a loop: read when they are wanted, or ahead of that while others are computed.

What a micro-batch holds is a function of the plan, its step and its unit, so reading ahead is a guess about *which* are wanted and
never about what is in them: after a change of the world those that went to others are dropped, and the rest is as good as before.
At most ``depth`` are held or being read.

Processes make any dataset's records while this one computes. They seed the random generators by the unit, as this process does,
and report how far the records moved them, so that the model draws the same numbers as without them. Threads share those generators
with the model; they are for records that draw none, which is checked with the first micro-batch.

Neighbours: ``step_control`` says which units come next and takes them; ``plan`` knows their records.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
import torch.multiprocessing  # tensors travel between processes through shared memory

from pliant.core.errors import InvalidRequest, PliantError
from pliant.torch.random_state import RandomState, seed_all

log = logging.getLogger(__name__)

Collate = Callable[[list[Any]], Any]
MAX_READERS = 256


@dataclass(frozen=True, slots=True)
class Unit:
    """One micro-batch: which one, its records, and what seeds its random numbers."""

    step: int
    number: int
    indices: Sequence[int]
    seed: int

    @property
    def key(self) -> tuple[int, int]:
        return self.step, self.number


class UnitReader:
    """Reads when asked: nothing runs beside the training."""

    def __init__(self, dataset: Any, collate: Collate) -> None:
        self._dataset, self._collate = dataset, collate

    def expect(self, units: Iterable[Unit]) -> None:
        """Those that will be taken next, as things are; called again whenever that changes."""

    def take(self, unit: Unit) -> Any:
        """Its micro-batch; the random generators are then as if it was made here and now."""
        seed_all(unit.seed)
        return read_unit(self._dataset, self._collate, unit.indices)

    def close(self) -> None:
        """End what runs beside the training."""


class ReadAhead(UnitReader):
    def __init__(
        self, dataset: Any, collate: Collate, executor: Executor, read: Callable[[Unit], Any], depth: int
    ) -> None:
        super().__init__(dataset, collate)
        self._executor, self._read, self._depth = executor, read, depth
        self._coming: dict[tuple[int, int], Future[Any]] = {}
        self._expected: Iterator[Unit] = iter(())

    def expect(self, units: Iterable[Unit]) -> None:
        self._expected = iter(units)
        wanted = list(islice(self._expected, self._depth))
        keys = {unit.key for unit in wanted}
        for key in self._coming.keys() - keys:
            self._coming.pop(key).cancel()
        for unit in wanted:
            self._begin(unit)

    def _begin(self, unit: Unit) -> None:
        if unit.key not in self._coming:
            self._coming[unit.key] = self._executor.submit(self._read, unit)

    def _result(self, unit: Unit) -> Any:
        self._begin(unit)
        result = self._coming.pop(unit.key).result()
        for following in islice(self._expected, max(0, self._depth - len(self._coming))):
            self._begin(following)
        return result

    def close(self) -> None:
        self._coming.clear()
        self._executor.shutdown(wait=True, cancel_futures=True)


class ProcessReader(ReadAhead):
    """``processes`` read; each has a copy of the dataset, and computes as this process does, with ``operator_threads``."""

    def __init__(self, dataset: Any, collate: Collate, processes: int, depth: int, operator_threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        given = (dataset, collate, os.getpid(), operator_threads, torch.get_default_dtype())
        executor = ProcessPoolExecutor(processes, context, initializer=_begin_process, initargs=given)
        super().__init__(dataset, collate, executor, _read_in_process, depth)

    def expect(self, units: Iterable[Unit]) -> None:
        with suppress(BrokenProcessPool):  # ``take`` says so
            super().expect(units)

    def take(self, unit: Unit) -> Any:
        try:
            batch, moved = self._result(unit)
        except BrokenProcessPool as error:
            raise PliantError(
                f"a process that reads records ended while step {unit.step} was read",
                hint="it was killed, perhaps for memory, or could not import the dataset: see the log; a program that uses "
                "num_workers starts below `if __name__ == '__main__':`",
            ) from error
        seed_all(unit.seed)
        if moved is not None:
            moved.restore()
        return batch


class ThreadReader(ReadAhead):
    """``threads`` of this process read, for records that wait for a disk or a network and draw no random numbers."""

    def __init__(self, dataset: Any, collate: Collate, threads: int, depth: int) -> None:
        def read(unit: Unit) -> Any:
            return read_unit(dataset, collate, unit.indices)

        super().__init__(dataset, collate, ThreadPoolExecutor(threads, "pliant-records"), read, depth)
        self._is_checked = False
        self._is_random = False
        self._later: Iterable[Unit] = ()  # expected, until the first one is read

    def expect(self, units: Iterable[Unit]) -> None:
        if self._is_checked and not self._is_random:
            super().expect(units)
        else:
            self._later = units

    def take(self, unit: Unit) -> Any:
        if self._is_checked and not self._is_random:
            seed_all(unit.seed)
            return self._result(unit)
        seed_all(unit.seed)
        before = RandomState.now()
        batch = read_unit(self._dataset, self._collate, unit.indices)
        self._is_checked = True
        if self._is_random:
            return batch
        self._is_random = before != RandomState.now()
        if not self._is_random:
            self.expect(other for other in self._later if other.key != unit.key)
        else:
            log.warning(
                "the dataset draws random numbers, which threads cannot do reproducibly: its records are read when they are "
                "wanted; use num_workers for processes that read ahead"
            )
        return batch


def make_reader(
    dataset: Any, collate: Collate, *, processes: int, threads: int, depth: int | None, operator_threads: int = 1
) -> UnitReader:
    """``operator_threads``: of each process that reads; sums inside an operator depend on them."""
    for name, number in (("num_workers", processes), ("num_threads", threads)):
        if not 0 <= number <= MAX_READERS:
            raise InvalidRequest(f"{name} is {number}; allowed: 0 to {MAX_READERS}")
    if processes and threads:
        raise InvalidRequest(
            f"num_workers={processes} and num_threads={threads}: records are read by either, not by both"
        )
    readers = processes or threads
    if depth is not None and (depth < 1 or not readers):
        raise InvalidRequest(f"prefetch={depth} needs num_workers or num_threads, and must be 1 micro-batch or more")
    if not readers:
        return UnitReader(dataset, collate)
    if processes:
        return ProcessReader(dataset, collate, readers, depth or 2 * readers, operator_threads)
    return ThreadReader(dataset, collate, readers, depth or 2 * readers)


def read_unit(dataset: Any, collate: Collate, indices: Sequence[int]) -> Any:
    many = getattr(dataset, "__getitems__", None)
    return collate(list(many(list(indices))) if many is not None else [dataset[i] for i in indices])


# --- in a process that reads

_source: tuple[Any, Collate] | None = None


def _begin_process(dataset: Any, collate: Collate, trainer: int, operator_threads: int, dtype: torch.dtype) -> None:
    """``trainer``: the process that wants the records."""
    global _source
    _source = dataset, collate
    torch.set_num_threads(operator_threads)
    torch.set_default_dtype(dtype)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C and a notice to end concern who trains
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.platform == "linux":  # nobody else ends it if its parent is killed
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != trainer:  # it was killed while this process started
        os._exit(1)


def _read_in_process(unit: Unit) -> tuple[Any, RandomState | None]:
    """The micro-batch, and where it left the random generators, if it moved them."""
    assert _source is not None
    seed_all(unit.seed)
    before = RandomState.now()
    batch = read_unit(*_source, unit.indices)
    after = RandomState.now()
    return batch, after if after != before else None
