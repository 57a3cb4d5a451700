"""The small sections of a job: rendezvous, checkpoint, optimize, security, journal."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from pliant.core.checkpoints.policy import DEFAULT_MAX_FAILURES, CheckpointPolicy, OnCheckpointFailure
from pliant.spec.base import Contradiction, Count, Flag, Model, Positive, Problem, Seconds
from pliant.spec.quantities import Duration

MAX_PRIORITY = 1_000_000
_QUOTA = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
_BRAIN = r"^(unix:/.+|[^\s/:]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5})$"


class RendezvousSpec(Model):
    """How large a world may be, and how long to wait for it."""

    min: Positive | None = Field(
        default=None,
        description="Minimum size of a world. Default: 1, so any number of survivors continues.",
    )
    max: Positive | None = Field(
        default=None, description="Maximum size of a world. Default: the maximum of the workers."
    )
    node_unit: Positive = Field(default=1, description="The size of a world must be a multiple of this.")
    wait_seconds: Seconds = Field(
        default=30.0, description="Seconds to wait for more workers after the last one joined."
    )


class CheckpointSpec(Model):
    """When and where the state of training is written."""

    dir: str | None = Field(
        default=None, min_length=1, description="The checkpoint directory. Default: inside the job's directory."
    )
    every_steps: Count = Field(default=0, description="Steps between checkpoints; 0: not by steps.")
    every_seconds: Seconds = Field(default=0.0, description="Seconds between checkpoints; 0: not by time.")
    keep_last: Positive = Field(default=3, description="Number of latest checkpoints to keep.")
    keep_every: Count = Field(
        default=0, description="Checkpoints at multiples of this number of steps are kept forever; 0: none."
    )
    on_failure: Literal["warn", "fail"] = Field(
        default="warn",
        description="If checkpoints cannot be written: warn and continue, or fail the job, also when only the last is missing.",
    )
    max_failures: Positive = Field(
        default=DEFAULT_MAX_FAILURES,
        description="With on_failure: fail, checkpoints in a row that could not be written before the job fails.",
    )

    def policy(self) -> CheckpointPolicy:
        return CheckpointPolicy(OnCheckpointFailure(self.on_failure), self.max_failures)


class OptimizeSpec(Model):
    """Who plans resources, and towards what: ``manual``, ``single-job``, ``cluster``, or with options
    ``{mode: single-job, deadline: 2h}``. With the address of a Brain a job of any mode reports to it and counts under its quota."""

    mode: Literal["manual", "single-job", "cluster"] = Field(
        default="manual",
        description="Who plans resources: a person (manual), the job's master (single-job), or the Brain, for all jobs at once"
        " (cluster).",
    )
    objective: Literal["fastest", "balanced", "cheapest"] = Field(
        default="balanced",
        description="Automatic: what plans aim at; balanced takes more nodes only while they pay.",
    )
    deadline: Duration = Field(
        default=0.0,
        description="Automatic: time from the start of the job within which it should finish, such as 2h; the cheapest"
        " configuration that does is chosen; 0: none.",
    )
    budget: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = Field(
        default=0.0, description="Automatic: node hours that the job may use; 0: no limit."
    )
    algorithms: tuple[str, ...] = Field(
        default=(),
        description="Automatic: the algorithms that plan, in the order in which they are asked. Default: all built-in ones.",
    )
    dry_run: Flag = Field(default=False, description="Automatic: plans are made and shown, but not carried out.")
    interval: Duration = Field(
        default=0.0,
        description="Automatic: time between two measurements; a plan is judged after a few of them. 0: 1 s on one machine,"
        " 5 s on a cluster.",
    )
    brain: str | None = Field(
        default=None,
        pattern=_BRAIN,
        description="The address of the Brain: host:port, or unix:PATH. Default, with mode: cluster: the Brain of this machine, or"
        " the one that the operator names.",
    )
    quota: str | None = Field(
        default=None,
        pattern=_QUOTA,
        description="With a Brain: the quota that the job shares with others. Default: none.",
    )
    priority: Annotated[int, Field(strict=True, ge=-MAX_PRIORITY, le=MAX_PRIORITY)] = Field(
        default=0,
        description="With a quota: jobs of higher priority get their minimum first, and more of what is left.",
    )
    preemptible: Flag = Field(
        default=False,
        description="With a quota: the job may be suspended, with grace, so that one of higher priority gets its minimum.",
    )

    @classmethod
    def long_form(cls, value: Any) -> Any:
        return {"mode": value} if isinstance(value, str) else value

    @property
    def is_automatic(self) -> bool:
        return self.mode != "manual"

    @property
    def uses_brain(self) -> bool:
        return self.mode == "cluster" or self.brain is not None

    @model_validator(mode="after")
    def _fits_mode(self) -> OptimizeSpec:
        automatic = {
            "objective": self.objective != "balanced",
            "deadline": self.deadline,
            "budget": self.budget,
            "algorithms": self.algorithms,
            "dry_run": self.dry_run,
        }
        shared = {"quota": self.quota, "priority": self.priority, "preemptible": self.preemptible}
        problems = []
        if not self.is_automatic:
            problems += self._unused(automatic, "only with mode: single-job or cluster")
        if not self.uses_brain:
            problems += self._unused(shared, "only with a Brain: mode: cluster, or its address")
        if problems:
            raise Contradiction(problems)
        return self

    def _unused(self, given: dict[str, Any], why: str) -> list[Problem]:
        return [Problem((name,), getattr(self, name), why) for name, is_set in given.items() if is_set]


class SecuritySpec(Model):
    """How the job's nodes talk to each other; the token of the job is always needed."""

    tls: Flag | None = Field(
        default=None,
        description="Encrypt TCP traffic with mutual TLS, using certificates that Pliant generates; false sends the token in plain "
        "text. Default: true where a master listens on TCP, else false.",
    )

    def uses_tls(self, *, default: bool) -> bool:
        """``default``: what the job's platform does where the spec does not say (``PlatformTraits``)."""
        return default if self.tls is None else self.tls


class JournalSpec(Model):
    """How the master's decisions reach the disk."""

    sync: Literal["full", "normal"] = Field(
        default="full",
        description="full survives a power failure; normal is faster but survives only a crash of the master.",
    )
    store: Literal["file", "database"] = Field(
        default="file",
        description="Where the journal is: a file in the job's folder, or the Brain's database, from which a master on any machine"
        " continues the job.",
    )
