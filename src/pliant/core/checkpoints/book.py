"""What became of the checkpoints of a job, by destination: the newest that is there, and the current streak of failures.

Every part of a checkpoint is written by a node of its own, and any node may be the one that completes it. So a failure is
counted once per step, whoever reports it and however often, and a streak ends with a complete checkpoint of the same step or a
later one. One of an earlier step, which completed late or was reported late, ends nothing, and it is the newest only if none of a
later step is complete.

Agents and programs report (service ``Checkpoints`` of the proto), parameter servers do so with their dumps. ``policy`` decides what
follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from pliant.core.checkpoints.destination import Destination
from pliant.core.checkpoints.policy import CheckpointPolicy
from pliant.core.state_machine import StateMachine

MAX_DESTINATIONS = 20  # that are kept; a program has one or two
MAX_COUNTED_STEPS = 32  # remembered, so that the parts of one checkpoint are not counted as several


class CheckpointBook(StateMachine):
    def __init__(self, policy: CheckpointPolicy | None = None) -> None:
        self.policy = policy or CheckpointPolicy()
        self._destinations: dict[str, Destination] = {}

    def destinations(self) -> list[Destination]:
        return list(self._destinations.values())

    def find(self, directory: str) -> Destination | None:
        return self._destinations.get(directory)

    def failing(self) -> list[Destination]:
        return [found for found in self._destinations.values() if found.is_failing]

    def is_known_failure(self, directory: str, step: int) -> bool:
        """Whether this checkpoint is counted already: by another part, or by a report that arrived twice."""
        found = self._destinations.get(directory)
        return found is not None and found.is_failing and step in found.counted_steps

    def is_newest(self, directory: str, step: int) -> bool:
        """Whether this complete checkpoint is known already."""
        found = self._destinations.get(directory)
        return found is not None and bool(found.last_time) and found.last_step == step and not _ends(found, step)

    def failed(
        self, now: float, *, directory: str, step: int, node: str, reason: str, hint: str = ""
    ) -> Destination | None:
        """A checkpoint could not be written; None if it is counted already."""
        if self.is_known_failure(directory, step):
            return None
        before = self._entry(directory)
        changed = replace(
            before,
            failures=before.failures + 1,
            failures_in_a_row=before.failures_in_a_row + 1,
            failing_since=before.failing_since if before.is_failing else now,
            last_failure=now,
            failed_step=max(step, before.failed_step) if before.is_failing else step,
            first_reason=before.first_reason if before.is_failing else reason,
            reason=reason,
            hint=hint,
            node=node,
            counted_steps=(*before.counted_steps, step)[-MAX_COUNTED_STEPS:] if before.is_failing else (step,),
        )
        self._destinations[directory] = changed
        return changed

    def completed(self, now: float, *, directory: str, step: int) -> Destination | None:
        """A checkpoint is complete. Returns the streak of failures that ends with it, if one does."""
        before = self._entry(directory)
        ends = _ends(before, step)
        self._destinations[directory] = replace(
            before,
            written=before.written + 1,
            last_step=max(step, before.last_step),
            last_time=now,
            failures_in_a_row=0 if ends else before.failures_in_a_row,
            failing_since=0.0 if ends else before.failing_since,
        )
        return before if ends else None

    def reopen(self, now: float) -> None:
        """The job is resumed: its limit begins anew, and what failed before says nothing about now."""
        for found in self.failing():
            changed = replace(found, failures_in_a_row=0, failing_since=0.0, counted_steps=())
            self._destinations[found.directory] = changed

    def snapshot(self) -> dict[str, Any]:
        return {"destinations": [asdict(found) for found in self._destinations.values()]}

    def restore(self, state: Mapping[str, Any]) -> None:
        found = (
            Destination(**{**entry, "counted_steps": tuple(entry["counted_steps"])}) for entry in state["destinations"]
        )
        self._destinations = {entry.directory: entry for entry in found}

    def _entry(self, directory: str) -> Destination:
        if directory not in self._destinations and len(self._destinations) >= MAX_DESTINATIONS:
            dropped = min(self._destinations.values(), key=lambda d: (d.is_failing, max(d.last_time, d.last_failure)))
            del self._destinations[dropped.directory]
        return self._destinations.get(directory) or Destination(directory)


def _ends(failing: Destination, step: int) -> bool:
    return failing.is_failing and step >= failing.failed_step
