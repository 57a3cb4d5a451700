"""The options of any job, shared by ``run``, ``train``, ``evaluate`` and ``predict``: its name and files, where it runs, and its
workers' resources."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pliant.cli.options.common import Context, Namespace
from pliant.core.errors import InvalidRequest
from pliant.handles.cluster import Cluster

NO_RESUME_IN_A_CLUSTER = (
    "a job in a cluster continues by itself after a loss; to pause and continue one, set `spec.suspend` of its ElasticJob "
    "(docs/kubernetes.md) instead of stopping it"
)


@dataclass(frozen=True)
class FollowOptions:
    """Of every command that follows a job to its end."""

    summary: Annotated[Path | None, typer.Option(help="Write the job's summary to this file as JSON.")] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print only the summary, as JSON, on standard output.")] = (
        False
    )
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress and worker output.")] = False

    def shown(self, *, output: bool = True) -> dict[str, bool]:
        """What a follower shows. ``output``: of the workers."""
        return {"show_output": output and not self.quiet, "progress": not self.quiet, "to_stderr": self.as_json}


@dataclass(frozen=True)
class StartOptions(FollowOptions):
    """Of every command that starts a job and follows it."""

    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start the job in the background; `pliant attach` follows it.")
    ] = False

    def check(self) -> None:
        if self.detach and self.summary is not None:
            raise InvalidRequest(
                "--summary is written by a command that follows the job, and --detach does not",
                hint="pass it to `pliant attach`; `pliant status --json` shows the same",
            )


@dataclass(frozen=True)
class RunOptions(StartOptions):
    name: Annotated[str | None, typer.Option("--name", "--job-name", help="The job's name. [default: generated]")] = (
        None
    )
    job_dir: Annotated[Path | None, typer.Option(help="The job's directory. [default: ~/.pliant/jobs/NAME]")] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished job of the same name.")] = False
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a job that was stopped or interrupted, or that failed.")
    ] = False
    platform: Annotated[str | None, typer.Option(help="Where nodes run. [default: local]")] = None
    cpu: Annotated[float | None, typer.Option(help="CPUs per worker; enforced where the system supports it.")] = None
    memory: Annotated[
        str | None,
        typer.Option(metavar="512Mi | 2Gi", help="Memory per worker; enforced where the system supports it."),
    ] = None
    gpu: Annotated[
        int | None,
        typer.Option("--gpu", "--gpus", min=0, help="GPUs per worker, which no other worker uses. [default: 0]"),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            "-e",
            metavar="NAME=VALUE | NAME",
            help="Environment variable for the workers; without =VALUE, as it is set here.",
        ),
    ] = None
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt all of the job's TCP traffic with mutual TLS.")] = False
    audit: Annotated[
        bool, typer.Option("--audit", help="Record every accepted range of records for `pliant audit`.")
    ] = False
    metrics_port: Annotated[int | None, typer.Option(help="Serve Prometheus metrics on this port.")] = None
    max_restarts: Annotated[int | None, typer.Option(help="Restarts per node after program errors. [default: 3]")] = (
        None
    )
    warm_standby: Annotated[
        bool,
        typer.Option(
            "--warm-standby",
            help="Keep a process beside each worker that has imported its libraries and succeeds it if it is killed; "
            "about 250 MB of memory each with torch.",
        ),
    ] = False
    give_up_after: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Give up on a node that fits no machine after this time; 0: never. [default: 600]",
        ),
    ] = None
    log_dir: Annotated[Path | None, typer.Option(help="Write logs to this directory.")] = None
    ray_address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="On Ray: the cluster. [default: that of this machine]")
    ] = None
    namespace: Namespace = None
    context: Context = None
    image: Annotated[str | None, typer.Option(help="On Kubernetes: image of master and nodes.")] = None
    claim: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="On Kubernetes: volume claim that all Pods mount at /pliant/shared."),
    ] = None

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.namespace or "", self.context)

    def changes(self) -> dict[str, Any]:
        """The changes to a job's spec that they ask for; see ``pliant.launch.job_spec.make_spec``."""
        changes = {
            "platform": self.platform,
            "cpu": self.cpu,
            "memory": self.memory,
            "gpu": self.gpu,
            "env": environment(self.env or []) or None,
            "tls": self.tls or None,
            "audit": self.audit or None,
            "metrics_port": self.metrics_port,
            "max_restarts": self.max_restarts,
            "warm_standby": self.warm_standby or None,
            "give_up_after": self.give_up_after,
            "claim": self.claim,
            "ray_address": self.ray_address,
        }
        return {key: value for key, value in changes.items() if value is not None}

    def refuse_folders(self) -> None:
        """For a job that does not run on this machine."""
        if self.resume:
            raise InvalidRequest("--resume applies only to local jobs", hint=NO_RESUME_IN_A_CLUSTER)
        given = {"--job-dir": self.job_dir, "--log-dir": self.log_dir}
        if flag := next((flag for flag, value in given.items() if value), ""):
            hint = "a job in a cluster has no launcher; use `pliant status NAME -N NAMESPACE`"
            raise InvalidRequest(f"{flag} applies only to local jobs", hint=hint)


def environment(given: list[str], here: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Of ``NAME=VALUE``, or of ``NAME`` with its value here: a secret on a command line can be read by every user."""
    found: dict[str, str] = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not name:
            raise InvalidRequest(f"--env {entry!r} is neither NAME=VALUE nor NAME")
        if not equals and name not in here:
            raise InvalidRequest(
                f"--env {name}: the variable is not set here", hint=f"set it, or use --env {name}=VALUE"
            )
        found[name] = value if equals else here[name]
    return found


def pairs(text: str, option: str) -> dict[str, Any]:
    """JSON, or ``name=value`` separated by commas or semicolons; values are JSON where they can be."""
    if not text.strip():
        return {}
    if text.lstrip().startswith("{"):
        try:
            value: dict[str, Any] = json.loads(text)
            return value
        except ValueError as error:
            raise InvalidRequest(f"{option} {text!r} is not a JSON object: {error}") from None
    found: dict[str, Any] = {}
    for entry in text.replace(";", ",").split(","):
        name, equals, value_text = entry.partition("=")
        if not equals or not name.strip().isidentifier():
            raise InvalidRequest(f"{option} {entry.strip()!r} is not name=value", hint="JSON works too")
        try:
            found[name.strip()] = json.loads(value_text)
        except ValueError:
            found[name.strip()] = value_text.strip().strip("'\"")
    return found
