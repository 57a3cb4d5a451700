"""What a node learns from its environment: every ``PLIANT_*`` variable that platforms and agents write and programs read.

A platform writes it for the agent (``to_env``), the agent adds what it knows of a run and writes it for the program; agent,
client, parameter server and trainer read it (``from_env``). Fields are the whole contract: nobody else knows the names.
Variables by which *people* set something (``PLIANT_HOME``, ``PLIANT_NAMESPACE``, …) are not part of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pliant.core.errors import PermanentError
from pliant.core.resources import Resources


class LimitMode(StrEnum):
    """Who enforces a node's limits of CPU and memory."""

    AUTO = "auto"  # the agent: by a cgroup where it may create one, else by watching memory
    OFF = "off"
    CONTAINER = "container"  # the platform; the agent's own cgroup is that of the node


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """When and where a program writes checkpoints, as the job's spec says."""

    directory: str = ""
    every_steps: int = 0
    every_seconds: float = 0.0
    keep_last: int = 3
    keep_every: int = 0

    @classmethod
    def from_json(cls, text: str) -> CheckpointSettings:
        try:
            return cls(**json.loads(text))
        except TypeError as error:  # other fields than these
            raise ValueError(str(error)) from None

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class NodeEnvironment:
    # the job
    job: str = ""
    job_dir: Path | None = None  # where the platform shares it with the node
    strategy: str = ""
    grace: float = 10.0  # seconds that a program has to stop
    orphan_timeout: float = 600.0  # seconds without a master before a node gives up
    checkpoint: CheckpointSettings | None = None
    parameters_dir: Path | None = None  # shared by the parameter servers and the master
    # the way to its master
    master_addr: str = ""  # unix:PATH, or host:port
    master_file: Path | None = None  # where a master that may move to another machine publishes its address
    token_file: Path | None = None
    tls_dir: Path | None = None
    allows_plaintext: bool = False  # the token may be sent over TCP without TLS
    is_supervised: bool = False  # the master is started again on this machine if it dies
    # the node
    node: str = ""
    role: str = ""
    cpu: float = 0.0  # cores; 0: no limit
    memory_mb: int = 0  # 0: no limit
    gpus: tuple[str, ...] = ()  # that it was given for itself, as CUDA_VISIBLE_DEVICES names them
    limits: LimitMode = LimitMode.AUTO
    host: str = ""  # the machine; empty: as it calls itself
    address: str = ""  # where other nodes reach this one
    node_dir: Path | None = None  # for the agent's own records
    log_file: Path | None = None
    copies_log: bool = False  # to the agent's standard output as well
    last_words: Path | None = None  # where the platform reads why the node ended
    warm_standby: bool = False  # its agent keeps a process ready that succeeds its program
    # this run of its program
    incarnation: int | None = None  # 0, 1, 2, …; None: no agent started it
    snapshot_dir: Path | None = None
    meter: str = ""  # the page on which it counts where its time goes

    @property
    def resources(self) -> Resources:
        return Resources(self.cpu, self.memory_mb, len(self.gpus))

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> NodeEnvironment:
        """Raises ``PermanentError`` for a value that cannot be read, naming the variable."""
        return cls(
            **{name: _read(variable, text) for name, variable in _VARIABLES.items() if (text := env.get(variable.name))}
        )

    def to_env(self) -> dict[str, str]:
        """Only what differs from the default; see ``without_node_variables``."""
        defaults = NodeEnvironment()
        return {
            variable.name: variable.encode(value)
            for name, variable in _VARIABLES.items()
            if (value := getattr(self, name)) != getattr(defaults, name)
        }

    @staticmethod
    def marks(*, job_dir: Path, node: str = "") -> dict[str, str]:
        """Variables by which the processes of a job, or of one node of it, are found on a machine."""
        return NodeEnvironment(job_dir=job_dir, node=node).to_env()


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable that is not set, or empty, means the default of its field."""

    name: str
    decode: Callable[[str], Any] = str
    encode: Callable[[Any], str] = str


def _read(variable: _Variable, text: str) -> Any:
    try:
        return variable.decode(text)
    except ValueError as error:
        raise PermanentError(
            f"the environment variable {variable.name} is {text!r}: {error}",
            hint="it is set by Pliant; do not change it",
        ) from None


def _decimal(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _is_set(text: str) -> bool:
    return text == "1"


def _flag(value: bool) -> str:
    return "1" if value else ""


_VARIABLES = {
    "job": _Variable("PLIANT_JOB"),
    "job_dir": _Variable("PLIANT_JOB_DIR", Path),
    "strategy": _Variable("PLIANT_STRATEGY"),
    "grace": _Variable("PLIANT_GRACE", float, _decimal),
    "orphan_timeout": _Variable("PLIANT_ORPHAN_TIMEOUT", float, _decimal),
    "checkpoint": _Variable("PLIANT_CHECKPOINT", CheckpointSettings.from_json, CheckpointSettings.to_json),
    "parameters_dir": _Variable("PLIANT_PS_DIR", Path),
    "master_addr": _Variable("PLIANT_MASTER_ADDR"),
    "master_file": _Variable("PLIANT_MASTER_FILE", Path),
    "token_file": _Variable("PLIANT_TOKEN_FILE", Path),
    "tls_dir": _Variable("PLIANT_TLS_DIR", Path),
    "allows_plaintext": _Variable("PLIANT_ALLOW_PLAINTEXT", _is_set, _flag),
    "is_supervised": _Variable("PLIANT_SUPERVISED", _is_set, _flag),
    "node": _Variable("PLIANT_NODE"),
    "role": _Variable("PLIANT_ROLE"),
    "cpu": _Variable("PLIANT_CPU", float, _decimal),
    "memory_mb": _Variable("PLIANT_MEMORY_MB", int),
    "gpus": _Variable("PLIANT_GPUS", _names, ",".join),
    "limits": _Variable("PLIANT_LIMITS", LimitMode),
    "host": _Variable("PLIANT_HOST"),
    "address": _Variable("PLIANT_ADDRESS"),
    "node_dir": _Variable("PLIANT_NODE_DIR", Path),
    "log_file": _Variable("PLIANT_LOG_FILE", Path),
    "copies_log": _Variable("PLIANT_LOG_COPY", _is_set, _flag),
    "last_words": _Variable("PLIANT_LAST_WORDS", Path),
    "warm_standby": _Variable("PLIANT_WARM_STANDBY", _is_set, _flag),
    "incarnation": _Variable("PLIANT_INCARNATION", int),
    "snapshot_dir": _Variable("PLIANT_SNAPSHOT_DIR", Path),
    "meter": _Variable("PLIANT_METER"),
}
NODE_VARIABLES = frozenset(variable.name for variable in _VARIABLES.values())


def variable_of(field: str) -> str:
    """The variable that carries a field, for platforms that let the machine fill in its value."""
    return _VARIABLES[field].name


def without_node_variables(env: Mapping[str, str]) -> dict[str, str]:
    """For the environment of another node: a job may be started by a program of a job."""
    return {name: value for name, value in env.items() if name not in NODE_VARIABLES}
