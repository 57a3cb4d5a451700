"""The options of any job, shared by ``run``, ``train``, ``evaluate`` and ``predict``: its name and files, where it runs, and its
workers' resources."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pliant.cli.handles.cluster import Cluster
from pliant.cli.options.common import Context, Namespace
from pliant.core.errors import InvalidRequest


@dataclass(frozen=True)
class RunOptions:
    name: Annotated[str | None, typer.Option("--name", "--job-name", help="The job's name. [default: one is made]")] = (
        None
    )
    job_dir: Annotated[Path | None, typer.Option(help="The job's folder. [default: ~/.pliant/jobs/NAME]")] = None
    summary: Annotated[Path | None, typer.Option(help="Write the summary of the job to this file, as JSON.")] = None
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON on standard output, and nothing else there.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no output of the workers.")] = False
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an ended job of the same name.")] = False
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a job that was interrupted (power loss, reboot).")
    ] = False
    platform: Annotated[str | None, typer.Option(help="Where nodes run. [default: local]")] = None
    cpu: Annotated[float | None, typer.Option(help="CPUs per worker; enforced where the system supports it.")] = None
    memory: Annotated[
        str | None,
        typer.Option(metavar="512Mi | 2Gi", help="Memory per worker; enforced where the system supports it."),
    ] = None
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", metavar="NAME=VALUE", help="Environment of the workers.")
    ] = None
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt the job's traffic by mutual TLS.")] = False
    audit: Annotated[
        bool, typer.Option("--audit", help="Record every accepted range of records, for `pliant audit`.")
    ] = False
    metrics_port: Annotated[int | None, typer.Option(help="Serve Prometheus metrics on this port.")] = None
    max_restarts: Annotated[
        int | None, typer.Option(help="Restarts per node after errors of the program. [default: 3]")
    ] = None
    give_up_after: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Give up a node that no machine is large enough for; 0: wait for ever. [default: 600]",
        ),
    ] = None
    log_dir: Annotated[Path | None, typer.Option(help="Write the logs to this folder.")] = None
    namespace: Namespace = None
    context: Context = None
    image: Annotated[str | None, typer.Option(help="On Kubernetes: image of master and nodes.")] = None
    claim: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="On Kubernetes: a volume claim that all Pods mount at /pliant/shared."),
    ] = None

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.namespace or "", self.context)

    def changes(self) -> dict[str, Any]:
        """The changes to a job's spec that they ask for; see ``launch.job_spec.make_spec``."""
        changes = {
            "platform": self.platform,
            "cpu": self.cpu,
            "memory": self.memory,
            "env": environment(self.env or []) or None,
            "tls": self.tls or None,
            "audit": self.audit or None,
            "metrics_port": self.metrics_port,
            "max_restarts": self.max_restarts,
            "give_up_after": self.give_up_after,
            "claim": self.claim,
        }
        return {key: value for key, value in changes.items() if value is not None}

    def shown(self, *, output: bool = True) -> dict[str, bool]:
        """What a follower shows. ``output``: of the workers."""
        return {"show_output": output and not self.quiet, "progress": not self.quiet, "to_stderr": self.as_json}

    def refuse_folders(self) -> None:
        """For a job that does not run on this machine."""
        given = {"--job-dir": self.job_dir, "--log-dir": self.log_dir, "--resume": self.resume}
        if flag := next((flag for flag, value in given.items() if value), ""):
            hint = "a job in a cluster needs no launcher; see `pliant status NAME -N NAMESPACE`"
            raise InvalidRequest(f"{flag} is for jobs of this machine", hint=hint)


def environment(given: list[str]) -> dict[str, str]:
    pairs = [entry.partition("=") for entry in given]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise InvalidRequest(f"--env {name!r} is not NAME=VALUE")
    return {name: value for name, _, value in pairs}


def pairs(text: str, option: str) -> dict[str, Any]:
    """JSON, or ``name=value`` separated by commas or semicolons; values are JSON where they can be."""
    if not text.strip():
        return {}
    if text.lstrip().startswith("{"):
        try:
            value: dict[str, Any] = json.loads(text)
            return value
        except ValueError as error:
            raise InvalidRequest(f"{option} {text!r} is no JSON object: {error}") from None
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
