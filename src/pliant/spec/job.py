"""The whole job, and what must hold between its parts."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, model_validator

from pliant.core.changes import DesiredJob, DesiredRole
from pliant.core.errors import SpecError
from pliant.core.nodes.fault_policy import FaultPolicy
from pliant.core.rendezvous.book import Limits
from pliant.core.shards.datasets import DatasetSpec as CoreDataset
from pliant.core.shards.datasets import ShardType
from pliant.spec import text
from pliant.spec.base import Contradiction, Flag, Model, Problem, ShortForms, refuse
from pliant.spec.components import ComponentFlags, ComponentSet, Strategy, resolve
from pliant.spec.datasets import DatasetSpec
from pliant.spec.faults import FaultSpec
from pliant.spec.parameters import PS_STRATEGIES, ParametersSpec, with_ps_command
from pliant.spec.planning import with_open_replicas
from pliant.spec.platform import PlatformSpec
from pliant.spec.problems import spec_error
from pliant.spec.roles import RoleSpec
from pliant.spec.schema import LIST_KEYS, LIST_TYPE, json_schema_of, structural_schema_of
from pliant.spec.sections import CheckpointSpec, JournalSpec, OptimizeSpec, RendezvousSpec, SecuritySpec

MAX_NAME = 52  # so that the name of a node, with role and number, still is a DNS label
LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
CRITICAL_ROLES = frozenset({"ps", "chief"})
SHORT = ShortForms(({"type": "string"},))


def _check_job_name(name: str) -> str:
    if name and (len(name) > MAX_NAME or not re.fullmatch(LABEL, name)):
        raise refuse(f"a letter, then letters, digits and -, all lower case, at most {MAX_NAME} characters")
    return name


def _check_role_name(name: str) -> str:
    if name == "master":
        raise refuse("any role but master, which every job already has")
    if len(name) > 20 or not re.fullmatch(LABEL, name):
        raise refuse("a role such as worker or ps: lower-case letters, digits and -, at most 20 characters")
    return name


def _settle_critical(roles: dict[str, RoleSpec]) -> dict[str, RoleSpec]:
    return {
        name: role if role.critical is not None else role.model_copy(update={"critical": name in CRITICAL_ROLES})
        for name, role in roles.items()
    }


class JobSpec(Model):
    """One training run."""

    name: Annotated[str, AfterValidator(_check_job_name)] = Field(
        default="",
        json_schema_extra={"pattern": f"^({LABEL})?$", "maxLength": MAX_NAME},
        description="The job's name, a DNS label of at most 52 characters. Default: generated.",
    )
    strategy: Strategy = Field(
        default="none",
        description="How it trains: none (any program, with the shard queue or its own framework),"
        " local, allreduce, ps-sync or ps-async.",
    )
    roles: Annotated[
        dict[Annotated[str, AfterValidator(_check_role_name)], RoleSpec], AfterValidator(_settle_critical)
    ] = Field(default={}, description="The nodes by role: worker, ps, chief, or any other name.")
    datasets: tuple[DatasetSpec, ...] = Field(
        default=(),
        json_schema_extra={LIST_TYPE: "map", LIST_KEYS: ["name"]},
        description="Datasets defined at the start; programs may define more.",
    )
    fault: FaultSpec = Field(default=FaultSpec(), description="What happens after failures.")
    rendezvous: RendezvousSpec = Field(default=RendezvousSpec(), description="Worlds of workers; for allreduce.")
    checkpoint: CheckpointSpec = Field(
        default=CheckpointSpec(), description="When and where training state is written."
    )
    parameters: ParametersSpec = Field(
        default=ParametersSpec(), description="How parameter servers train; for ps-sync and ps-async."
    )
    platform: Annotated[PlatformSpec, SHORT] = Field(
        default=PlatformSpec(), description="Where the nodes run; in YAML also just the kind."
    )
    optimize: Annotated[OptimizeSpec, SHORT] = Field(
        default=OptimizeSpec(), description="Who plans resources; in YAML also just the mode."
    )
    security: SecuritySpec = Field(default=SecuritySpec(), description="How nodes communicate.")
    component_flags: ComponentFlags = Field(
        default=ComponentFlags(),
        alias="components",
        description="Components of the master to run, if different from the strategy's defaults.",
    )
    journal: JournalSpec = Field(default=JournalSpec(), description="How the master's decisions are written to disk.")
    metrics_port: Annotated[int, Field(strict=True, ge=0, le=65535)] | None = Field(
        None, description="The port of the Prometheus metrics; 0: any free port. Default: none."
    )
    audit: Flag = Field(default=False, description="Record every accepted range of records, for `pliant audit`.")
    suspend: Flag = Field(default=False, description="If true, the job has no nodes; it resumes when set to false.")
    working_dir: str | None = Field(
        default=None, min_length=1, description="Working directory of programs. Default: where the job was started."
    )

    @classmethod
    def long_form(cls, value: Any) -> Any:
        return with_open_replicas(with_ps_command(value))

    @model_validator(mode="after")
    def _parts_agree(self) -> JobSpec:
        if problems := [
            *self._role_problems(),
            *self._dataset_problems(),
            *self._rendezvous_problems(),
            *self._journal_problems(),
        ]:
            raise Contradiction(problems)
        return self

    # --- what follows from it ---

    def desired(self) -> DesiredJob:
        """What it asks for, of all that may change while the job runs."""
        roles = {
            name: DesiredRole(role.replicas.min, role.replicas.max, role.replicas.target, role.resources.to_core())
            for name, role in self.roles.items()
            if role.command
        }
        return DesiredJob(roles, self.suspend)

    def components(self) -> ComponentSet:
        return resolve(self.component_flags, self.strategy)

    def fault_policy(self, role: str | None = None) -> FaultPolicy:
        """Of the job, or of one role with its own limits."""
        return self.fault.to_policy(self.roles[role].restarts if role else None)

    def rendezvous_limits(self) -> Limits:
        """Of its worlds: what the spec says, else the replicas of the workers."""
        low, high = self._world_size()
        return Limits(low, high, self.rendezvous.node_unit, self.rendezvous.wait_seconds)

    def core_datasets(self) -> tuple[CoreDataset, ...]:
        return tuple(dataset.to_core() for dataset in self.datasets)

    def evaluation_dataset(self) -> CoreDataset | None:
        """What the training service evaluates models on."""
        return next((d for d in self.core_datasets() if d.type is ShardType.EVAL), None)

    # --- reading and writing ---

    @classmethod
    def from_dict(cls, value: object, *, source: str = "the spec") -> JobSpec:
        try:
            return cls.model_validate(value)
        except ValidationError as found:
            raise spec_error(found, structural_schema(), source) from None

    @classmethod
    def from_yaml(cls, yaml_text: str, *, source: str = "the spec") -> JobSpec:
        value = text.read(yaml_text, source)
        if not isinstance(value, Mapping):
            given = "empty" if value is None else f"a {type(value).__name__}"
            known = ", ".join(structural_schema()["properties"])
            raise SpecError(f"{source} is {given}; allowed: a mapping with {known}")
        return cls.from_dict(value, source=source)

    def to_yaml(self, *, full: bool = False) -> str:
        """What differs from the defaults; ``full`` pins every default of this version as well."""
        return text.write(self.to_json() if full else self.differences())

    def differences(self, base: Model | None = None) -> dict[str, Any]:
        """Of a job that plans its own resources every range of nodes is written: one that is missing would be an open one."""
        found = super().differences(base)
        if self.optimize.is_automatic:
            for name, role in self.roles.items():
                found["roles"][name].setdefault("replicas", role.replicas.to_json())
        return found

    def replaced(self, **changes: Any) -> JobSpec:
        """A copy with other values for top-level fields, checked as a whole."""
        return self.from_dict(self.entries() | changes)

    # --- what must hold between the parts ---

    def _role_problems(self) -> list[Problem]:
        parts = self.components()
        if not parts.nodes:
            return []
        problems = []
        if not any(role.command for role in self.roles.values()):
            problems.append(Problem(("roles",), None, "at least one role needs a command, such as worker"))
        if self.optimize.is_automatic and not ((worker := self.roles.get("worker")) and worker.command):
            problems.append(
                Problem(("roles", "worker"), None, "a role with a command, since its nodes are planned (optimize)")
            )
        needed = {"none": (), "local": ("worker",), "allreduce": ("worker",)}.get(self.strategy, ("ps", "worker"))
        for name in needed:
            if name not in self.roles:
                problems.append(Problem(("roles", name), None, f"missing; strategy {self.strategy} needs this role"))
        if self.strategy in PS_STRATEGIES and (servers := self.roles.get("ps")) and not servers.command:
            allowed = "the program of another framework's servers, since need_task_manager is false"
            problems.append(Problem(("roles", "ps", "command"), None, allowed))
        if self.strategy == "local" and (worker := self.roles.get("worker")) and worker.replicas.max > 1:
            path = ("roles", "worker", "replicas", "max")
            problems.append(Problem(path, worker.replicas.max, "1, since strategy local trains in one process"))
        return problems

    def _journal_problems(self) -> list[Problem]:
        if self.journal.store == "database" and not self.optimize.uses_brain:
            allowed = "file, since no Brain is named (optimize.brain, or mode: cluster)"
            return [Problem(("journal", "store"), self.journal.store, allowed)]
        return []

    def _dataset_problems(self) -> list[Problem]:
        problems, names = [], [dataset.name for dataset in self.datasets]
        for at, name in enumerate(names):
            if name in names[:at]:
                problems.append(Problem(("datasets", at, "name"), name, "a name that no other dataset has"))
        if names and not self.components().shards:
            problems.append(Problem(("datasets",), names, "none, since components.need_task_manager is false"))
        return problems

    def _world_size(self) -> tuple[int, int]:
        worker = self.roles.get("worker")
        low, high = 1, worker.replicas.max if worker else 1  # survivors continue, however few
        given_low, given_high = self.rendezvous.min, self.rendezvous.max
        high = given_high or max(high, given_low or 1)
        return given_low or min(low, high), high

    def _rendezvous_problems(self) -> list[Problem]:
        (low, high), unit, worker = self._world_size(), self.rendezvous.node_unit, self.roles.get("worker")
        if low > high:
            return [Problem(("rendezvous", "min"), low, f"at most the largest world, which is {high}")]
        if not self.components().rendezvous:
            return []
        if worker and low > worker.replicas.max:
            most = f"at most roles.worker.replicas.max, which is {worker.replicas.max}"
            return [Problem(("rendezvous", "min"), low, most)]
        if high // unit * unit < low:
            return [Problem(("rendezvous", "node_unit"), unit, f"a number with a multiple from {low} to {high}")]
        return []


@functools.cache
def json_schema() -> dict[str, Any]:
    """The JSON schema of a spec file, for editors and other tools."""
    return json_schema_of(JobSpec)


@functools.cache
def structural_schema() -> dict[str, Any]:
    """The OpenAPI v3 structural schema of a spec, for a custom resource of Kubernetes."""
    return structural_schema_of(JobSpec)


def load_spec(path_or_text: str | os.PathLike[str]) -> JobSpec:
    """From a file, or from YAML itself where the text is no path of a file."""
    if isinstance(path_or_text, str) and not _is_path(path_or_text):
        return JobSpec.from_yaml(path_or_text)
    path = Path(path_or_text)
    return JobSpec.from_yaml(text.read_file(path), source=str(path))


def _is_path(given: str) -> bool:
    if not given or "\n" in given or given.startswith("{"):
        return False
    return given.endswith((".yaml", ".yml", ".json")) or ":" not in given or Path(given).is_file()
