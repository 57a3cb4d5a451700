"""What the nodes of one role are: how many, how large, what they run, how often they may fail."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pliant.core.resources import Resources
from pliant.spec.base import Contradiction, Count, Flag, Limit, Model, Problem, ShortForms, Text, refuse
from pliant.spec.quantities import Cpu, Memory

MAX_REPLICAS = 100_000
SHELL_OPERATORS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>&1"})

NodeCount = Annotated[int, Field(strict=True, ge=0, le=MAX_REPLICAS)]


class Replicas(Model):
    """How many nodes: ``4``, ``"2:8"`` or ``{min: 2, max: 8, wanted: 4}``."""

    min: NodeCount = Field(
        description="Minimum number of nodes: with fewer, the job waits or fails; 0 allows scaling to zero."
    )
    max: Annotated[int, Field(strict=True, ge=1, le=MAX_REPLICAS)] = Field(description="Maximum number of nodes.")
    wanted: NodeCount | None = Field(
        default=None, description="Initial number of nodes; changed by kubectl scale. Default: max."
    )

    @classmethod
    def long_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            found = re.fullmatch(r"\s*([0-9]{1,9})\s*(?::\s*([0-9]{1,9})\s*)?", value)
            if not found:
                raise refuse("a number such as 4, a range such as 2:8, or {min, max}")
            return {"min": int(found[1]), "max": int(found[2] or found[1])}
        if isinstance(value, int) and not isinstance(value, bool):
            return {"min": value, "max": value}
        return value

    @property
    def target(self) -> int:
        """With how many the job starts."""
        return self.max if self.wanted is None else self.wanted

    @model_validator(mode="after")
    def _ordered(self) -> Replicas:
        if self.min > self.max:
            raise Contradiction([Problem(("min",), self.min, f"at most max, which is {self.max}")])
        if not self.min <= self.target <= self.max:
            raise Contradiction([Problem(("wanted",), self.wanted, f"from min to max, {self.min} to {self.max}")])
        return self


class Capacity(Model):
    """An amount of CPU and memory."""

    cpu: Cpu = Field(default=0.0, description="Cores, such as 2, 0.5 or 500m; 0: not limited.")
    memory: Memory = Field(default=0, description="Memory, such as 512Mi or 2Gi, or a number of MB; 0: not limited.")


class ResourcesSpec(Capacity):
    """What one node is given."""

    gpu: Count = Field(default=0, description="Number of GPUs.")

    def to_core(self) -> Resources:
        return Resources(self.cpu, self.memory, self.gpu)


class RestartLimits(Model):
    """How often each kind of failure is forgiven for this role, where it differs from the job's fault policy."""

    error: Limit | None = Field(default=None, description="The program ended with an error.")
    killed: Limit | None = Field(default=None, description="The program was killed by a signal.")
    oom: Limit | None = Field(default=None, description="The node ran out of memory.")
    preempted: Limit | None = Field(default=None, description="The platform preempted the node.")
    hang: Limit | None = Field(default=None, description="The node sent no heartbeat or made no progress.")
    unknown: Limit | None = Field(default=None, description="The node ended for an unknown reason.")


def _split(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise refuse(f"a command whose quotes match ({str(error).lower()})") from None
    if operators := SHELL_OPERATORS.intersection(words):
        raise refuse(
            f"a program and its arguments; it is not run by a shell, so write [sh, -c, ...] to use {min(operators)}"
        )
    return words or [""]


def _check_command(words: tuple[str, ...]) -> tuple[str, ...]:
    if words and not words[0]:
        raise refuse("a program and its arguments, as a list or as one line")
    return words


def _check_variable(name: str) -> str:
    if not name or "=" in name or "\0" in name:
        raise refuse("a name of an environment variable: not empty, without = and NUL")
    return name


Command = Annotated[
    tuple[Text, ...], BeforeValidator(_split), AfterValidator(_check_command), ShortForms(({"type": "string"},))
]


class RoleSpec(Model):
    """The nodes of one role."""

    replicas: Annotated[
        Replicas,
        ShortForms(
            (
                {"type": "integer", "minimum": 1, "maximum": MAX_REPLICAS},
                {"type": "string", "pattern": "^ *[0-9]+ *(: *[0-9]+ *)?$"},
            )
        ),
    ] = Field(
        default_factory=lambda: Replicas(min=1, max=1),
        description='Number of nodes: {min, max, wanted}; in YAML also 4 or "2:8". Default: 1.',
    )
    command: Command = Field(
        default=(),
        description="The program and its arguments, as a list; in YAML also one line, split without a shell.",
    )
    env: dict[Annotated[str, AfterValidator(_check_variable)], Text] = Field(
        default={}, description="Environment variables of the program."
    )
    resources: ResourcesSpec = Field(default=ResourcesSpec(), description="Resources of each node.")
    min_resources: ResourcesSpec = Field(
        default=ResourcesSpec(),
        description="Minimum resources to try when a node is unschedulable; 0: do not lower this one.",
    )
    max_resources: Capacity = Field(
        default=Capacity(),
        description="Maximum resources of a node that are planned (optimize); 0: what a machine has.",
    )
    critical: Flag | None = Field(
        default=None,
        description="Whether giving up on one node fails the job. Default: true for ps and chief, else false.",
    )
    restarts: RestartLimits = Field(
        default=RestartLimits(), description="Overrides of the job's fault policy for this role."
    )
    template: dict[str, Any] = Field(
        default={},
        description="On Kubernetes, merged into each Pod of this role: metadata (labels, annotations) and spec as a"
        " Pod has them; in spec.containers the one called main is the node's own, others run beside it.",
    )

    @model_validator(mode="after")
    def _minimum_is_less(self) -> RoleSpec:
        most, least = self.resources.entries(), self.min_resources.entries()
        problems = [
            Problem(
                ("min_resources", kind), least[kind], f"at most resources.{kind}, which is {most[kind] or 'not set'}"
            )
            for kind in most
            if least[kind] > most[kind]
        ]
        high = self.max_resources.entries()
        problems += [
            Problem(("max_resources", kind), high[kind], f"at least resources.{kind}, which is {most[kind]}")
            for kind in high
            if 0 < high[kind] < most[kind]
        ]
        if problems:
            raise Contradiction(problems)
        return self
