from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pliant.checkpoint import CheckpointWriter
from pliant.checkpoint.slots import SlotFolder
from pliant.checkpoint.writeout import Drain


class Cluster:
    """Workers on this machine, each with slots and an agent that writes out only when told."""

    def __init__(self, memory: Path, directory: str, **rules: Any) -> None:
        self.memory = memory
        self.directory = directory
        self.rules = rules
        self._workers: dict[int, tuple[CheckpointWriter, Drain, SlotFolder]] = {}

    def worker(self, rank: int) -> CheckpointWriter:
        return self._worker(rank)[0]

    def folder(self, rank: int) -> SlotFolder:
        return self._worker(rank)[2]

    def snapshot(self, step: int, state: Any, world: int = 1, round: int = 0, ranks: list[int] | None = None) -> None:
        for rank in range(world) if ranks is None else ranks:
            report = self._worker(rank)[0].snapshot(step, state, rank, world, round=round)
            assert not report.skipped, report.reason

    def write_out(self, *ranks: int) -> list[str]:
        """The problems there were."""
        return [w.problem for rank in ranks or list(self._workers) for w in self._worker(rank)[1].once() if w.problem]

    def save(self, step: int, state: Any, world: int = 1, round: int = 0) -> None:
        self.snapshot(step, state, world, round)
        assert self.write_out() == []

    def lose_memory(self) -> None:
        for writer, _, folder in self._workers.values():
            writer.close()
            folder.remove()
        self._workers.clear()

    def _worker(self, rank: int) -> tuple[CheckpointWriter, Drain, SlotFolder]:
        if rank not in self._workers:
            folder = SlotFolder(self.memory / "job" / f"worker-{rank}")
            folder.create()
            assert folder.watch()
            writer = CheckpointWriter("job", f"worker-{rank}", self.directory, folder=folder.path, **self.rules)
            self._workers[rank] = writer, Drain(folder), folder
        return self._workers[rank]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "memory", str(tmp_path / "checkpoints"))
    yield made
    made.lose_memory()


def make_state(step: int, rows: int = 300) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(step)
    return {
        "model": {
            "embedding": torch.randn(rows, 1000, generator=generator),
            "layer.weight": torch.randn(64, 64, generator=generator).to(torch.bfloat16),
            "layer.bias": torch.randn(64, generator=generator),
        },
        "optimizer": {
            "state": {0: {"step": torch.tensor(float(step))}},
            "groups": [{"lr": 0.1, "betas": (0.9, 0.999)}],
        },
        "step": step,
    }


@pytest.fixture(scope="session")
def state_of() -> Any:
    return make_state


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        same = left.dtype == right.dtype and left.shape == right.shape
        return same and left.contiguous().reshape(-1).view(torch.uint8).equal(
            right.contiguous().reshape(-1).view(torch.uint8)
        )
    if isinstance(left, dict):
        return type(left) is type(right) and [*left] == [*right] and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(equal, left, right))
    return type(left) is type(right) and (left == right or repr(left) == repr(right))


@pytest.fixture(scope="session")
def same() -> Any:
    return equal
