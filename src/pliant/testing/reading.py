"""A job whose workers read datasets and write down each record, so that the master's word can be held against theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant.testing.jobs import LocalJob
from pliant.testing.traces import Record, accepted_records, read_traces

READER = ("python", "-m", "pliant.testing.reader")


class ReadingJob(LocalJob):
    def __init__(
        self,
        folder: Path,
        read: Mapping[str, Mapping[str, Any]],
        *,
        pace: float = 0.01,
        gated: bool = False,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        """``read`` is {dataset: arguments of ``job.shards``}, ``pace`` the seconds that a shard takes.

        A ``gated`` job does not end before ``open_gate``: until then each worker does a few shards and sits on another.
        """
        self.read = read
        self._gate = folder / "gate"
        self.traces = folder / "traces"
        self.traces.mkdir(exist_ok=True)
        given = {"READ": json.dumps(read), "PACE": str(pace), "TRACE": str(self.traces), **(env or {})}
        if gated:
            given["GATE"] = str(self._gate)
        super().__init__(folder, READER, env=given, **options)

    def open_gate(self) -> None:
        self._gate.touch()

    def wait_until_all_work(self, workers: int) -> None:
        """Until this many workers have done something. Counted since the master's last start."""
        what = f"{workers} workers that work"
        self.wait_for(
            lambda s: sum(n.state == "Running" and n.pid > 0 and n.records > 0 for n in s.nodes) == workers, what
        )

    def expected(self) -> set[Record]:
        """Every record of every epoch."""
        return {
            (dataset, epoch, name, record)
            for dataset, arguments in self.read.items()
            for epoch in range(arguments.get("epochs", 1))
            for name, record in _records(dataset, arguments)
        }

    def assert_each_record_once(self, expected: set[Record] | None = None) -> None:
        """None missing, none accepted twice, and each done by the worker from whom it was accepted."""
        expected = self.expected() if expected is None else expected
        counts = accepted_records(read_traces(self.traces), self.audit())
        problems = {
            "accepted more than once": {record for record, count in counts.items() if count > 1},
            "missing": expected - counts.keys(),
            "accepted although they do not exist": counts.keys() - expected,
        }
        for what, records in problems.items():
            assert not records, f"{len(records)} records are {what}, such as {sorted(records)[:5]}\n{self.report()}"


def _records(dataset: str, arguments: Mapping[str, Any]) -> list[tuple[str, int]]:
    if files := arguments.get("files"):
        return [(name, record) for name, start, end in files for record in range(start, end)]
    return [(dataset, record) for record in arguments.get("indices") or range(arguments.get("size", 0))]
