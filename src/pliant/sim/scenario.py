"""A scenario as people write it: machines, hardships and jobs with their truths, in YAML, validated.

``load_scenario`` reads one, by a path or by the name of one that is shipped (``scenarios/*.yaml``); ``Scenario.specs`` makes the
jobs of it for a seed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass, replace
from importlib import resources
from pathlib import Path
from random import Random
from typing import Annotated, Any, get_type_hints

from pydantic import AfterValidator, Field, PlainValidator, ValidationError, create_model, model_validator

from pliant.core.errors import NotFound, SpecError
from pliant.core.planning.configuration import Bounds, RoleBounds
from pliant.core.planning.history import JobKind, Objective
from pliant.sim.cluster import MachineSize
from pliant.sim.fleet import Grants
from pliant.sim.job import SimulatedSpec
from pliant.sim.policies.registry import DEFAULT_POLICIES, is_policy, known_policies
from pliant.sim.random_jobs import KINDS, random_job
from pliant.sim.simulation import Outage, World
from pliant.sim.truth.allreduce import AllreduceTruth
from pliant.sim.truth.base import Truth
from pliant.sim.truth.queue import QueueTruth
from pliant.sim.truth.servers import ServersTruth
from pliant.sim.truth.trace import TraceTruth, read_trace
from pliant.spec import text
from pliant.spec.base import Contradiction, Flag, Model, Positive, Problem, Seconds, Text, refuse
from pliant.spec.problems import spec_error
from pliant.spec.quantities import Cpu as CpuCores
from pliant.spec.quantities import Memory as MemoryMb
from pliant.spec.schema import structural_schema_of

Share = Annotated[float, Field(ge=0, le=1)]
Number = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
MAX_JOBS = 100_000


def _not_empty(found: tuple[Any, ...]) -> tuple[Any, ...]:
    if not found:
        raise refuse("a list with at least one entry")
    return found


NOT_EMPTY = AfterValidator(_not_empty)  # min_length would blame the list too for what is wrong inside of it


def _section(kind: type[Any]) -> type[Model]:
    """The section of a scenario that has the fields of a dataclass, all of them optional and not negative."""
    hints, entries = get_type_hints(kind), {}
    for entry in fields(kind):
        if entry.name.startswith("_") or (entry.name == "virtual_workers" and kind is not AllreduceTruth):
            continue
        hint = hints[entry.name]
        simple: dict[Any, Any] = {float: Number, int: Annotated[int, Field(ge=0)], bool: Flag}
        of: Any = _section(hint) if is_dataclass(hint) and isinstance(hint, type) else simple[hint]
        entries[entry.name] = (of | None, None)
    made: type[Model] = create_model(kind.__name__, __base__=Model, **entries)  # type: ignore[call-overload]
    return made


def _filled(kind: type[Any], given: Model, default: Any = None) -> Any:
    """The dataclass with what is given; the rest as it is by default."""
    hints, values = get_type_hints(kind), {}
    for entry in fields(kind):
        value = getattr(given, entry.name, None)
        if isinstance(value, Model):
            inner = getattr(default, entry.name) if default is not None else _default_of(entry)
            value = _filled(hints[entry.name], value, inner)
        if value is not None:
            values[entry.name] = value
    return replace(default, **values) if default is not None else kind(**values)


def _default_of(entry: Any) -> Any:
    return entry.default_factory() if entry.default_factory is not MISSING else entry.default


QueueSection, AllreduceSection, ServersSection = _section(QueueTruth), _section(AllreduceTruth), _section(ServersTruth)


class RandomSection(Model):
    """A truth that is drawn from the seed."""

    kinds: tuple[JobKind, ...] = KINDS
    shortest_s: Seconds = 1800.0
    longest_s: Seconds = 21_600.0
    max_workers: Positive = 32


class TraceSection(Model):
    file: Text  # beside the scenario, or absolute
    records: Positive | None = None


class RoleSection(Model):
    min: Positive = 1
    max: Positive = 16
    unit: Positive = 1
    min_cpu: CpuCores = 1.0
    max_cpu: CpuCores = 4.0
    min_memory: MemoryMb = 0
    max_memory: MemoryMb = 32_768

    @model_validator(mode="after")
    def _check(self) -> RoleSection:
        problems = [
            Problem((high,), getattr(self, high), f"at least {low}, {getattr(self, low)}")
            for low, high in (("min", "max"), ("min_cpu", "max_cpu"), ("min_memory", "max_memory"))
            if getattr(self, high) and getattr(self, high) < getattr(self, low)
        ]
        if problems:
            raise Contradiction(problems)
        return self

    def to_core(self) -> RoleBounds:
        return RoleBounds(
            *(self.min, self.max, self.unit, self.min_cpu, self.max_cpu, self.min_memory, self.max_memory)
        )


class JobSection(Model):
    name: Text = "job"
    count: Annotated[int, Field(ge=1, le=MAX_JOBS)] = 1
    at: Seconds = 0.0  # arrival of the first
    every_s: Seconds = 0.0  # mean time between arrivals; 0: all at once
    objective: Objective = Objective.FASTEST
    deadline_s: Seconds | None = None
    workers: RoleSection = RoleSection()
    servers: RoleSection | None = None
    queue: QueueSection | None = None  # type: ignore[valid-type]
    allreduce: AllreduceSection | None = None  # type: ignore[valid-type]
    parameter_servers: ServersSection | None = None  # type: ignore[valid-type]
    random: RandomSection | None = None
    trace: TraceSection | None = None

    @model_validator(mode="after")
    def _check(self) -> JobSection:
        given = [name for name in ("queue", "allreduce", "parameter_servers", "random", "trace") if getattr(self, name)]
        if len(given) != 1:
            allowed = "exactly one of queue, allreduce, parameter_servers, random and trace"
            raise Contradiction([Problem((), ", ".join(given) or "none of them", allowed)])
        return self


class MachineSection(Model):
    count: Annotated[int, Field(ge=1, le=MAX_JOBS)] = 16
    cpu: CpuCores = 16.0
    memory: MemoryMb = 65_536


class OutageSection(Model):
    at: Seconds
    duration_s: Seconds
    share: Share
    preempts: Flag = True


class ClusterSection(Model):
    machines: Annotated[tuple[MachineSection, ...], NOT_EMPTY] = (MachineSection(),)
    grant_delay_s: Seconds = 3.0
    grant_delay_sigma: Number = 0.5
    preemptions_per_node_hour: Number = 0.0
    can_resize: Flag = True
    outages: tuple[OutageSection, ...] = ()
    quota_cpu: Number = 0.0  # cores that all jobs together may have; 0: no limit


def _policy_name(value: object) -> str:
    if not isinstance(value, str) or not is_policy(value):
        raise refuse(f"one of {', '.join(known_policies())} (such as static-4)")
    return value


PolicyName = Annotated[str, PlainValidator(_policy_name, json_schema_input_type=str)]


class Scenario(Model):
    """What is simulated."""

    name: Text
    about: Text = ""
    seed: Annotated[int, Field(ge=0, le=1 << 62)] = 1
    horizon_s: Annotated[float, Field(gt=0, le=1e8)] = 86_400.0
    policies: Annotated[tuple[PolicyName, ...], NOT_EMPTY] = DEFAULT_POLICIES
    cluster: ClusterSection = ClusterSection()
    jobs: Annotated[tuple[JobSection, ...], NOT_EMPTY]

    @classmethod
    def from_yaml(cls, source_text: str, source: str) -> Scenario:
        value = text.read(source_text, source)
        if not isinstance(value, dict):
            raise SpecError(f"{source} is not a scenario: a mapping with name and jobs is expected")
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise spec_error(error, _schema(), source, "scenario") from None

    def world(self, horizon_s: float | None = None) -> World:
        cluster = self.cluster
        return World(
            tuple(MachineSize(m.count, m.cpu, m.memory) for m in cluster.machines),
            Grants(
                *(cluster.grant_delay_s, cluster.grant_delay_sigma, cluster.preemptions_per_node_hour),
                can_resize=cluster.can_resize,
            ),
            tuple(Outage(o.at, o.duration_s, o.share, o.preempts) for o in cluster.outages),
            cluster.quota_cpu,
            horizon_s or self.horizon_s,
        )

    def specs(self, seed: int, folder: Path, *, shortened: float = 1.0) -> list[SimulatedSpec]:
        """The jobs, for a seed. ``folder``: of traces. ``shortened``: the share of the records that is simulated."""
        machines = self.cluster.machines
        cores, memory = sum(m.count * m.cpu for m in machines), sum(m.count * m.memory for m in machines)
        cores = min(cores, self.cluster.quota_cpu or cores)
        found = (spec for n, section in enumerate(self.jobs) for spec in _jobs(section, n, seed, folder, shortened))
        return [replace(spec, bounds=replace(spec.bounds, max_cpu=cores, max_memory_mb=memory)) for spec in found]


def _jobs(section: JobSection, number: int, seed: int, folder: Path, shortened: float) -> Iterator[SimulatedSpec]:
    random, arrival = Random(f"{seed} arrivals {number}"), section.at
    fixed = None if section.random is not None else _fixed_truth(section, folder)
    for index in range(section.count):
        name = section.name if section.count == 1 else f"{section.name}-{index}"
        if fixed is not None:
            server = section.servers or RoleSection() if fixed.kind in (JobKind.PS_ASYNC, JobKind.PS_SYNC) else None
            truth, bounds = fixed, Bounds(section.workers.to_core(), server.to_core() if server is not None else None)
        else:
            drawn = section.random or RandomSection()
            found = random_job(
                f"{seed} {number} {index}",
                kinds=drawn.kinds,
                objective=section.objective,
                shortest_s=drawn.shortest_s,
                longest_s=drawn.longest_s,
                max_workers=drawn.max_workers,
            )
            truth, bounds = found.truth, found.bounds
        truth = replace(truth, records=max(1, int(truth.records * shortened)))
        yield SimulatedSpec(name, truth, bounds, section.objective, arrival, section.deadline_s)
        arrival += random.expovariate(1 / section.every_s) if section.every_s else 0.0


def _fixed_truth(section: JobSection, folder: Path) -> Truth:
    if section.trace is not None:
        others = {"records": section.trace.records} if section.trace.records else {}
        return TraceTruth.of(read_trace(folder / section.trace.file), **others)
    kinds: tuple[tuple[type[Truth], Any], ...] = (
        (QueueTruth, section.queue),
        (AllreduceTruth, section.allreduce),
        (ServersTruth, section.parameter_servers),
    )
    found: Truth = next(_filled(kind, given) for kind, given in kinds if given is not None)
    return found


@functools.cache
def _schema() -> dict[str, Any]:
    return structural_schema_of(Scenario)


# --- where scenarios are


def shipped() -> dict[str, Path]:
    """By name."""
    folder = Path(str(resources.files("pliant.sim") / "scenarios"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def load_scenario(name_or_path: str) -> tuple[Scenario, Path]:
    """A shipped one by its name, or a file; and the folder in which its traces are."""
    found = shipped().get(name_or_path)
    path = found or Path(name_or_path)
    if found is None and not path.is_file():
        raise NotFound(
            f"scenario {name_or_path!r} not found: neither a file nor one of {', '.join(shipped())}",
            hint="run `pliant simulate --list` to list the scenarios that come with Pliant",
        )
    try:
        source_text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} cannot be read: {error}") from None
    return Scenario.from_yaml(source_text, str(path)), path.parent
