"""What became of a plan: every plan that the planner makes is kept as a record, from the proposal to the judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import Objective
from pliant.core.planning.objectives import SERVER, WORKER, is_alike, shape_of, with_shape
from pliant.core.planning.plan import Replacement, ResourcePlan, RolePlan
from pliant.core.planning.proposal import Proposal
from pliant.core.resources import Resources, RolloutMode


class Outcome(StrEnum):
    ADVISED = "advised"  # only shown: a dry run, or an algorithm that predicted badly
    PLANNED = "planned"
    CARRIED_OUT = "carried out"  # accepted; not judged yet, or never since the job ended
    KEPT = "kept"
    ROLLED_BACK = "rolled back"
    REFUSED = "refused"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"  # by a person, or by something urgent


@dataclass(frozen=True, slots=True)
class PlanRecord:
    id: str
    time: float
    proposal: Proposal
    before: Configuration
    before_rate: float  # records per second; 0: not known
    before_error: float
    objective: Objective
    base_version: int
    expires: float
    outcome: Outcome = Outcome.PLANNED
    accepted_at: float | None = None
    ended_at: float | None = None
    achieved_rate: float | None = None
    achieved_error: float | None = None
    judgement: str = ""  # for people
    rolls_back: str = ""  # the plan that this one takes back
    origin: str = ""  # the Brain's offer that it was made of; empty: planned by the master itself

    @property
    def standing(self) -> str:
        """For people: the outcome, or that there is none yet."""
        is_open = self.outcome in (Outcome.PLANNED, Outcome.CARRIED_OUT) and self.ended_at is None
        return "under way" if is_open else self.outcome.value

    @property
    def changes_speed(self) -> bool:
        """It can be measured as a period of its own, and be taken back."""
        return not self.proposal.at_next_restart and not is_alike(self.before, self.proposal.configuration)

    def is_reached_by(self, configuration: Configuration) -> bool:
        """In all that the plan changes and that decides the speed. Nodes may have other CPU than they would be launched with."""
        wanted = self.proposal.configuration
        for role in (WORKER, SERVER):
            before, after, there = (shape_of(each, role) for each in (self.before, wanted, configuration))
            if before is not None and after is not None and there is not None and before.cpu == after.cpu:
                wanted = with_shape(wanted, role, replace(after, cpu=there.cpu))
        return is_alike(configuration, wanted)

    @property
    def can_be_rolled_back(self) -> bool:
        return self.changes_speed and not self.proposal.urgent and not self.rolls_back and self.before_rate > 0

    def resource_plan(self) -> ResourcePlan:
        proposal, new = self.proposal, self.proposal.configuration
        rollout = RolloutMode.NEW_NODES if proposal.at_next_restart else RolloutMode.AUTO
        roles = {
            name: plan
            for name, old, shape in ((SERVER, self.before.server, new.server), (WORKER, self.before.worker, new.worker))
            if (plan := _role_plan(old, shape, rollout)) is not None
        }
        return ResourcePlan(
            self.id,
            proposal.reason,
            roles,
            tuple(Replacement(node) for node in proposal.replace),
            self.base_version,
            algorithm=proposal.algorithm,
            prediction=proposal.prediction,
            expires=self.expires,
            seats=proposal.seats,
            moves=proposal.moves,
            micro_batch=new.micro_batch if new.micro_batch != self.before.micro_batch else 0,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "proposal": self.proposal.to_json(),
            "objective": self.objective.value,
            "outcome": self.outcome.value,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PlanRecord:
        return cls(
            **{
                "origin": "",
                **value,
                "proposal": Proposal.from_json(value["proposal"]),
                "before": Configuration.from_json(value["before"]),
                "objective": Objective(value["objective"]),
                "outcome": Outcome(value["outcome"]),
            }
        )


def _role_plan(old: Shape | None, new: Shape | None, rollout: RolloutMode) -> RolePlan | None:
    if old is None or new is None or old == new:
        return None
    is_resized = (old.cpu, old.memory_mb, old.gpu) != (new.cpu, new.memory_mb, new.gpu)
    return RolePlan(
        new.replicas if new.replicas != old.replicas else None,
        Resources(new.cpu, new.memory_mb, new.gpu) if is_resized else None,
        rollout if is_resized else RolloutMode.NEW_NODES,
    )
