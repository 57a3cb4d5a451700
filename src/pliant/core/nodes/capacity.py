"""What a platform could give to one node at most: its machines by size, as if they were empty.

Whether there is room *now* is the platform's business (``platforms/base.py``: it refuses a launch, or queues it). This is about
requests that no waiting helps, and about how far the memory of a node may grow. ``NodeBook`` (``core/nodes/book.py``) decides
by it; the master asks the platform for it now and then, since a cluster may get other machines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.resources import Resources

UNITS = {"cpu": "CPU", "memory_mb": "MB of memory", "gpu": "GPU"}


@dataclass(frozen=True, slots=True)
class Machine:
    """What one node can be given if it is alone there. None: any amount."""

    cpu: float | None = None
    memory_mb: int | None = None
    gpu: int | None = None

    def fits(self, asked: Resources) -> bool:
        amounts = ((getattr(self, kind), getattr(asked, kind)) for kind in UNITS)
        return all(have is None or wanted <= have for have, wanted in amounts)

    def to_json(self) -> dict[str, Any]:
        return {"cpu": self.cpu, "memory_mb": self.memory_mb, "gpu": self.gpu}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Machine:
        cpu, memory, gpu = value["cpu"], value["memory_mb"], value["gpu"]
        return cls(
            None if cpu is None else float(cpu),
            None if memory is None else int(memory),
            None if gpu is None else int(gpu),
        )


@dataclass(frozen=True, slots=True)
class Capacity:
    """One entry per size of machine that a node of the job may run on; none: there is no such machine now."""

    machines: tuple[Machine, ...] = ()

    def largest(self, kind: str) -> float | None:
        """The most that any machine has of ``cpu``, ``memory_mb`` or ``gpu``; None: there is no limit, or no machine."""
        amounts = [getattr(machine, kind) for machine in self.machines]
        return max(amounts, default=None) if None not in amounts else None

    @property
    def max_memory_mb(self) -> int | None:
        """Of the largest machine; None: there is no limit, or no machine."""
        found = self.largest("memory_mb")
        return None if found is None else int(found)

    def problem(self, asked: Resources) -> str:
        """Why no machine can ever run this node, with the numbers; empty: one can."""
        if not self.machines:
            return "no machine of the platform is available to the job"
        if any(machine.fits(asked) for machine in self.machines):
            return ""
        wanted = {kind: getattr(asked, kind) for kind in UNITS}
        short = [
            f"{amount:.12g} {UNITS[kind]} requested, the largest machine has {most:.12g}"
            for kind, amount in wanted.items()
            if (most := self.largest(kind)) is not None and amount > most
        ]
        if short:
            return "; ".join(short)
        together = ", ".join(f"{amount:.12g} {UNITS[kind]}" for kind, amount in wanted.items() if amount)
        return f"{together} requested, but no machine has all of that"

    def to_json(self) -> list[dict[str, Any]]:
        return [machine.to_json() for machine in self.machines]

    @classmethod
    def from_json(cls, value: Sequence[Mapping[str, Any]]) -> Capacity:
        try:
            return cls(tuple(Machine.from_json(machine) for machine in value))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidRequest(f"capacity {value!r}: cpu, memory_mb and gpu are numbers, or null") from error
