"""How parameter servers train and keep a model; for the strategies ps-sync and ps-async."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from pliant.core.parameters.contributions import MAX_WINDOW
from pliant.core.parameters.options import PsOptions
from pliant.core.parameters.partition_map import DEFAULT_PARTITIONS, MAX_PARTITIONS
from pliant.spec.base import Count, Model, Positive, Seconds

PS_STRATEGIES = frozenset({"ps-sync", "ps-async"})
PS_COMMAND = ("python", "-P", "-m", "pliant.ps")


class ParametersSpec(Model):
    """Of the job's parameter servers."""

    batch_size: Positive = Field(
        default=1, description="ps-sync: examples per iteration; gradients are collected until this number is reached."
    )
    staleness_power: Annotated[float, Field(ge=0, le=100)] = Field(
        default=0.0,
        description="ps-async: a gradient that is s iterations old is weighted 1 / (1 + s) to this power; 0: equal weights.",
    )
    max_staleness: Count = Field(
        default=0, description="ps-async: a gradient older than this many iterations is recomputed; 0: never."
    )
    push_window: Annotated[int, Field(strict=True, ge=1, le=MAX_WINDOW)] = Field(
        default=4,
        description="ps-async: pushes of a worker that may wait for the master's decision while it computes; 1: it waits for each.",
    )
    push_durability: Literal["process", "machine"] = Field(
        default="process",
        description="What a push survives once a server has it: process: the death of the server (the log is in the page cache); "
        "machine: a power loss, too (the log is on disk before the server answers, which takes as long as the disk does).",
    )
    max_iterations: Count = Field(
        default=0,
        description="Training ends with exactly this iteration: later gradients are rejected, and no more "
        "shards are leased; 0: no limit.",
    )
    dump_iterations: Count = Field(default=0, description="Iterations between dumps; 0: not by iterations.")
    dump_seconds: Seconds = Field(default=60.0, description="Seconds between dumps; 0: not by time.")
    full_every: Positive = Field(default=10, description="One dump in this many is full; the others are incremental.")
    keep_last: Positive = Field(default=2, description="Number of full dumps to keep, each with its incremental dumps.")
    partitions: Annotated[int, Field(strict=True, ge=1, le=MAX_PARTITIONS)] = Field(
        default=DEFAULT_PARTITIONS, description="Number of partitions of the tables' rows; fixed for a job."
    )
    restore: str | None = Field(
        default=None,
        min_length=1,
        description="Directory with dumps of another job to start from; the number of servers may differ.",
    )

    def to_core(self, strategy: str) -> PsOptions:
        return PsOptions(
            sync=strategy != "ps-async",
            batch=self.batch_size,
            alpha=self.staleness_power,
            max_staleness=self.max_staleness,
            window=self.push_window,
            durable_log=self.push_durability == "machine",
            max_iterations=self.max_iterations,
            dump_iterations=self.dump_iterations,
            dump_seconds=self.dump_seconds,
            full_every=self.full_every,
            keep=self.keep_last,
            partitions=self.partitions,
        )


def with_ps_command(value: Any) -> Any:
    """The description of a job, with the program of the role ``ps`` where it names none and the strategy needs it.

    Without shards no master coordinates servers of ours, so those are another framework's, and have a program of their own.
    """
    if not isinstance(value, dict) or str(value.get("strategy")) not in PS_STRATEGIES or _gives_no_shards(value):
        return value
    roles = value.get("roles")
    role = roles.get("ps") if isinstance(roles, dict) else None
    if isinstance(role, dict) and not role.get("command"):
        return {**value, "roles": {**roles, "ps": {**role, "command": list(PS_COMMAND)}}}  # type: ignore[dict-item]
    return value


def _gives_no_shards(value: dict[str, Any]) -> bool:
    flags = value.get("components")
    given = flags.get("need_task_manager") if isinstance(flags, dict) else getattr(flags, "need_task_manager", None)
    return given is False
