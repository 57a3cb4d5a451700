"""All that is decided about a job, as one object: its state machines, which of them there are depends on the job.

The state is a function of the journal. A master replays the journal into a ``JobState`` when it starts and adds to both
from then on; ``pliant status`` and ``pliant audit`` replay it to read a job whose master is away; a simulation drives it
without a journal. ``spec.initial_state`` makes the one that a job begins with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pliant.core.changes import DesiredState
from pliant.core.checkpoints.book import CheckpointBook
from pliant.core.errors import CorruptData, PliantError
from pliant.core.job import JobBook
from pliant.core.nodes.book import NodeBook
from pliant.core.parameters.book import ParameterBook
from pliant.core.planning.periods import PeriodBook
from pliant.core.planning.planner import Planner
from pliant.core.planning.usage_book import UsageBook
from pliant.core.progress import ProgressBook
from pliant.core.rendezvous.book import RendezvousBook
from pliant.core.rendezvous.groups import GroupBook
from pliant.core.shards.book import ShardBook
from pliant.core.state_machine import StateMachine
from pliant.core.training import TrainingBook


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a state machine's method: the unit of the journal."""

    machine: str  # the name of its field in ``JobState``
    method: str
    now: float
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A ``JobState`` as JSON values: what changes, and what is defined once and stored apart."""

    state: Mapping[str, Mapping[str, Any]]
    definitions: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The machines by name; those that the job does not need are None."""

    job: JobBook
    progress: ProgressBook = field(default_factory=ProgressBook)
    checkpoints: CheckpointBook = field(default_factory=CheckpointBook)
    nodes: NodeBook | None = None
    groups: GroupBook | None = None
    changes: DesiredState | None = None
    shards: ShardBook | None = None
    parameters: ParameterBook | None = None
    rendezvous: RendezvousBook | None = None
    training: TrainingBook | None = None
    periods: PeriodBook | None = None
    planner: Planner | None = None
    usage: UsageBook | None = None

    def machines(self) -> dict[str, StateMachine]:
        found = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: machine for name, machine in found if machine is not None}

    def apply(self, operation: Operation) -> Any:
        machine = self.machines().get(operation.machine)
        if machine is None:
            raise CorruptData(f"this job has no state machine {operation.machine!r}")
        return machine.apply(operation.method, operation.now, operation.arguments)

    def snapshot(self) -> JobSnapshot:
        machines = self.machines()
        return JobSnapshot(
            {name: machine.snapshot() for name, machine in machines.items()},
            {name: found for name, machine in machines.items() if (found := machine.definitions())},
        )

    def restore(self, snapshot: JobSnapshot) -> None:
        machines = self.machines()
        for name, state in snapshot.state.items():
            if name not in machines:
                raise CorruptData(f"this job has no state machine {name!r}")
            machines[name].restore_definitions(snapshot.definitions.get(name, {}))
            machines[name].restore(state)

    def replay(self, snapshot: JobSnapshot | None, operations: Sequence[Operation], *, source: str) -> None:
        """Become what the journal (``source``) says. ``CorruptData`` names the operation that cannot be carried out again."""
        at = "its snapshot"
        try:
            if snapshot is not None:
                self.restore(snapshot)
            for number, operation in enumerate(operations, start=1):
                at = f"operation {number} of {len(operations)} ({operation.machine}.{operation.method})"
                self.apply(operation)
        except (
            PliantError,
            AssertionError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
            ArithmeticError,
        ) as error:
            raise CorruptData(
                f"{source} cannot be replayed at {at}: {error!r:.500}",
                hint="check whether job.yaml or the journal was edited since the job started",
            ) from error
