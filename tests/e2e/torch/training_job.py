"""A real job of ``traced_training.py``, and what must hold of what its workers wrote down."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from pliant.rpc import pliant_pb2 as pb
from pliant.testing.jobs import LocalJob

PROGRAM = Path(__file__).with_name("traced_training.py")
LIGHT = Path(__file__).parents[2] / "light"
RECORDS, STEPS_PER_EPOCH = 70, 5
TIMEOUT_S = 150.0


class TrainingJob(LocalJob):
    def __init__(
        self,
        folder: Path,
        *,
        workers: int | str,
        pace: float = 0.0,
        gated: bool = False,
        epochs: int = 4,
        kill: str = "",
        slow: str = "",
        transport: str = "memory",
        checkpoint: Mapping[str, float] | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> None:
        """``gated``: it takes its time to end, until ``open_gate``. ``transport`` of gradients: memory, sockets, mixed."""
        self._gate = folder / "gate"
        self.traces = folder / "traces"
        self.traces.mkdir(parents=True)
        self.epochs = epochs
        env = {
            "TRACE": str(self.traces),
            "PACE": str(pace),
            "EPOCHS": str(epochs),
            "KILL": kill,
            "TRANSPORT": transport,
            "SLOW": slow,
            "GATE": str(self._gate) if gated else "",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(LIGHT), os.environ.get("PYTHONPATH")))),
        }
        super().__init__(
            folder,
            [sys.executable, str(PROGRAM)],
            workers=workers,
            env=env,
            spec={"components": {"need_rendezvous": True}, "checkpoint": dict(checkpoint or {}), **(spec or {})},
        )

    def open_gate(self) -> None:
        self._gate.touch()

    def lines(self) -> list[dict[str, Any]]:
        found = []
        for file in sorted(self.traces.glob("*.jsonl")):
            for line in file.read_text().splitlines():
                if line.endswith("}"):  # a process may have been killed while it wrote
                    found.append(json.loads(line))
        return found

    def committed(self) -> int:
        """Steps that somebody committed."""
        return len({line["commit"] for line in self.lines() if "commit" in line})

    def wait_for_step(self, step: int) -> None:
        self.until(lambda: self.committed() >= step, f"step {step}", TIMEOUT_S)

    def scale(self, workers: int) -> None:
        self.call(lambda c: c.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=workers))

    def ends_well(self) -> None:
        assert self.wait(TIMEOUT_S) == 0, self.report()
        self.assert_each_record_once()

    def hashes(self) -> set[str]:
        return {line["hash"] for line in self.lines() if "hash" in line}

    def weights(self) -> list[dict[str, torch.Tensor]]:
        ended = [line["weights"] for line in self.lines() if "weights" in line]
        return [{name: torch.tensor(value) for name, value in weights.items()} for weights in ended]

    def assert_each_record_once(self) -> None:
        """Each step committed, its units with the same records whoever computed them, each record once per epoch."""
        records: dict[tuple[int, int, int], list[int]] = {}
        for line in self.lines():
            if "unit" in line:
                epoch, step, unit = line["unit"]
                assert records.setdefault((epoch, step, unit), line["records"]) == line["records"]
        steps = {line["commit"] for line in self.lines() if "commit" in line}
        assert steps == set(range(self.epochs * STEPS_PER_EPOCH)), self.report()
        counts = Counter((epoch, record) for (epoch, _, _), rows in records.items() for record in rows)
        assert counts == Counter((epoch, record) for epoch in range(self.epochs) for record in range(RECORDS))

    def computed_twice(self) -> dict[tuple[int, ...], int]:
        """What one process computed more than once."""
        counts = Counter((line["pid"], *line["unit"]) for line in self.lines() if "unit" in line)
        return {name: count for name, count in counts.items() if count > 1}
