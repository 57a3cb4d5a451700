"""The small sections of a job: rendezvous, checkpoint, optimize, security, journal."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from pliant.core.checkpoints.policy import DEFAULT_MAX_FAILURES, CheckpointPolicy, OnCheckpointFailure
from pliant.spec.base import Contradiction, Count, Flag, Model, Positive, Problem, Seconds, refuse
from pliant.spec.quantities import Duration

MODES = ("manual", "single-job")  # of OptimizeSpec: those that this version carries out


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


def _check_mode(mode: str) -> str:
    if mode not in MODES:
        raise refuse("manual or single-job, since this version has no Brain (cluster)")
    return mode


class OptimizeSpec(Model):
    """Who plans resources, and towards what: ``manual``, ``single-job``, or with options ``{mode: single-job, deadline: 2h}``.

    The mode that does not exist yet is known by name, so that a job which asks for it learns that instead of running without.
    """

    mode: Annotated[Literal["manual", "single-job", "cluster"], AfterValidator(_check_mode)] = Field(
        default="manual",
        json_schema_extra={"enum": [*MODES]},
        description="Who plans resources: a person (manual), or the job's master (single-job). The mode cluster is not part"
        " of this version.",
    )
    objective: Literal["fastest", "balanced", "cheapest"] = Field(
        default="balanced",
        description="single-job: what plans aim at; balanced takes more nodes only while they pay.",
    )
    deadline: Duration = Field(
        default=0.0,
        description="single-job: time from the start of the job within which it should finish, such as 2h; the cheapest"
        " configuration that does is chosen; 0: none.",
    )
    budget: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = Field(
        default=0.0, description="single-job: node hours that the job may use; 0: no limit."
    )
    algorithms: tuple[str, ...] = Field(
        default=(),
        description="single-job: the algorithms that plan, in the order in which they are asked. Default: all built-in ones.",
    )
    dry_run: Flag = Field(default=False, description="single-job: plans are made and shown, but not carried out.")
    interval: Duration = Field(
        default=0.0,
        description="single-job: time between two measurements; a plan is judged after a few of them. 0: 1 s on one machine,"
        " 5 s on a cluster.",
    )
    brain: str | None = Field(
        default=None, min_length=1, description="The address of the Brain, for the mode cluster; refused until then."
    )

    @classmethod
    def long_form(cls, value: Any) -> Any:
        return {"mode": value} if isinstance(value, str) else value

    @property
    def is_automatic(self) -> bool:
        return self.mode == "single-job"

    @model_validator(mode="after")
    def _fits_mode(self) -> OptimizeSpec:
        if self.brain is not None:
            raise Contradiction([Problem(("brain",), self.brain, "nothing, since this version has no Brain")])
        if not self.is_automatic:
            given = {
                "objective": self.objective != "balanced",
                "deadline": self.deadline,
                "budget": self.budget,
                "algorithms": self.algorithms,
                "dry_run": self.dry_run,
            }
            problems = [
                Problem((name,), getattr(self, name), "only with mode: single-job")
                for name, is_set in given.items()
                if is_set
            ]
            if problems:
                raise Contradiction(problems)
        return self


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
