"""From a command line to a job's spec, and the checks that need nothing to be started."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pliant.core.errors import InvalidRequest, NotAvailable, NotFound
from pliant.core.plurals import counted
from pliant.handles.job_dirs import fresh_name
from pliant.launch.paths import absolute, pod_path

if TYPE_CHECKING:
    from pliant.spec import JobSpec
    from pliant.spec.faults import FaultSpec
    from pliant.spec.platform import RayOptions
    from pliant.spec.sections import CheckpointSpec


def make_spec(
    command: list[str],
    name: str | None,
    changes: dict[str, Any],
    *,
    stored: JobSpec | None = None,
    source: str = "the command line",
) -> JobSpec:
    """The job's spec, from a YAML file or from a command, with the changes that the options ask for. Without a command it is
    ``stored``, that of an earlier start, which is changed."""
    from pliant.spec import JobSpec, load_spec, text

    from_file = bool(command) and command[0].endswith((".yaml", ".yml"))
    if from_file and len(command) > 1:
        raise InvalidRequest(f"a job's file takes no arguments, and {' '.join(command[1:])!r} is given")
    if not command:
        assert stored is not None
        spec = stored
    else:
        if from_file:
            spec, source = load_spec(Path(command[0])), command[0]
            given = text.read(text.read_file(Path(command[0])), source)
        else:
            program = ["python", *command] if command[0].endswith(".py") else command
            given = {"roles": {"worker": {"command": program}}}
            spec = JobSpec.from_dict(given)
        if "optimize" in changes:  # as if it had been written there: what is given by number becomes a bound
            section = {**spec.optimize.entries(), **changes["optimize"]}
            spec = JobSpec.from_dict({**given, "optimize": section}, source=source)
    flags = spec.component_flags
    if flags.need_rendezvous is None and spec.components().nodes:
        # A program may want shards or a world, and says so only when it asks: both are there for it.
        spec = spec.replaced(components={**flags.entries(), "need_rendezvous": True})
    value: dict[str, Any] = spec.entries()
    value["name"] = name or spec.name or fresh_name()
    worker = value["roles"].get("worker")
    if worker is None and changes.keys() & {"workers", "cpu", "memory", "gpu", "env"}:
        raise InvalidRequest("these options apply to the role `worker`, which this job does not have")
    roles = {role: entry.entries() for role, entry in value["roles"].items()}
    if "optimize" in changes and not command:
        value["optimize"] = {**spec.optimize.entries(), **changes["optimize"]}
    if "workers" in changes:
        roles["worker"]["replicas"] = changes["workers"]
    resources = {key: changes[key] for key in ("cpu", "memory", "gpu") if key in changes}
    if resources:
        roles["worker"]["resources"] = {**roles["worker"]["resources"].entries(), **resources}
    if "optimize" in changes and (bounds := {key: resources[key] for key in ("cpu", "memory") if key in resources}):
        roles["worker"]["max_resources"] = {**roles["worker"]["max_resources"].entries(), **bounds}
    if "env" in changes:
        roles["worker"]["env"] = {**roles["worker"]["env"], **changes["env"]}
    value["roles"] = roles
    for key in ("strategy", "audit", "metrics_port"):
        if key in changes:
            value[key] = changes[key]
    platform = value["platform"].entries()
    if "platform" in changes:
        platform["kind"] = changes["platform"]
    if "claim" in changes:
        platform["kubernetes"] = {**platform["kubernetes"].entries(), "shared_claim": changes["claim"]}
    if "ray_address" in changes:
        platform["ray"] = {**platform["ray"].entries(), "address": changes["ray_address"]}
    value["platform"] = platform
    if changes.get("tls"):
        value["security"] = {"tls": True}
    value["fault"] = _fault(value["fault"], changes)
    if "checkpoint" in changes:
        value["checkpoint"] = _checkpoint(value["checkpoint"], changes["checkpoint"], platform)
    if platform["kind"] == "ray":
        platform["ray"] = with_uploads(platform["ray"])
    made = JobSpec.from_dict(value, source=source)
    here = made.platform.kind != "kubernetes"  # in a Pod, programs start among the files that were sent along
    return made.replaced(working_dir=os.getcwd()) if here and not made.working_dir else made


def with_uploads(options: RayOptions | dict[str, Any]) -> dict[str, Any]:
    """The working directory that Ray brings to its machines; a relative one is one of where the command is given."""
    value = options if isinstance(options, dict) else options.entries()
    folder = value.get("runtime_env", {}).get("working_dir")
    if not isinstance(folder, str) or "://" in folder:
        return value
    if not Path(folder).is_dir() and not folder.endswith(".zip"):
        raise NotFound(f"runtime_env.working_dir {folder} is not a directory of this machine", hint="check the path")
    return {**value, "runtime_env": {**value["runtime_env"], "working_dir": absolute(folder)}}


def _checkpoint(spec: CheckpointSpec, given: dict[str, Any], platform: dict[str, Any]) -> dict[str, Any]:
    """A relative directory is one of where the command is given; on Kubernetes, of the shared claim."""
    section = {**spec.entries(), **given}
    if "dir" in given and platform["kind"] == "kubernetes":
        kubernetes = platform["kubernetes"]
        claim = kubernetes["shared_claim"] if isinstance(kubernetes, dict) else kubernetes.shared_claim
        section["dir"] = pod_path(given["dir"], "--checkpoint-dir", claim)
    elif "dir" in given:
        section["dir"] = absolute(given["dir"])
    return section


def _fault(spec: FaultSpec, changes: dict[str, Any]) -> dict[str, Any]:
    fault = spec.entries()
    if "max_restarts" in changes:
        fault["error"] = {**spec.error.entries(), "limit": changes["max_restarts"]}
    if "warm_standby" in changes:
        fault["warm_standby"] = changes["warm_standby"]
    if "give_up_after" in changes:
        fault["unschedulable"] = {**spec.unschedulable.entries(), "give_up_after": changes["give_up_after"]}
    return fault


def check_launchable(spec: JobSpec) -> None:
    """Find here what would otherwise show only as a job that keeps failing."""
    if spec.platform.kind != "local":
        from pliant.platforms.registry import platform_names

        if spec.platform.kind not in platform_names():
            hint = f"known: {', '.join(platform_names())}"
            raise NotFound(f"unknown platform {spec.platform.kind!r}", hint=hint)
        return
    if spec.optimize.is_automatic and find_spec("numpy") is None:
        raise NotAvailable(
            "a job that plans its own resources needs a package that is not installed: numpy",
            hint="pip install 'pliant[auto]'",
        )
    for role in spec.roles.values():
        if role.command and "PATH" not in role.env:
            _check_program(role.command, Path(spec.working_dir or "."))
    _check_gpus(spec)
    if spec.optimize.is_automatic:
        from pliant.core.planning.registry import DEFAULT_CHAIN, chain

        chain(spec.optimize.algorithms or DEFAULT_CHAIN)


def _check_gpus(spec: JobSpec) -> None:
    """The GPUs of this machine do not change: what they cannot meet now they never can."""
    least = {name: role.min_resources.gpu or role.resources.gpu for name, role in spec.roles.items()}
    if not any(least.values()):
        return
    from pliant.platforms.gpus import usable_gpus

    have = len(usable_gpus())
    has = f"this machine has {have or 'none'}"
    for name, gpus in least.items():
        if gpus > have:
            hint = "`pliant doctor` shows the GPUs of this machine, also those hidden by CUDA_VISIBLE_DEVICES"
            raise InvalidRequest(f"each {name} node requests {counted(gpus, 'GPU')}; {has}", hint=hint)
    minimum = {name: spec.roles[name].replicas.min for name, gpus in least.items() if gpus}
    needed = sum(least[name] * count for name, count in minimum.items())
    if needed > have:
        nodes = ", ".join(
            f"{counted(count, f'{name} node')} with {least[name]} each" for name, count in minimum.items()
        )
        raise InvalidRequest(f"the job needs at least {needed} GPUs ({nodes}); {has}", hint="use fewer workers or GPUs")


def _check_program(command: Sequence[str], folder: Path) -> None:
    if not folder.is_dir():
        raise NotFound(f"working directory {folder} does not exist", hint="check working_dir")
    program = command[0]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    if os.sep in program:
        found = os.access(folder / program, os.X_OK) and not (folder / program).is_dir()
    else:
        found = shutil.which(program, path=path) is not None
    if not found:
        raise NotFound(f"program {program!r} not found", hint="check the spelling and PATH")
    runs_a_file = len(command) > 1 and Path(program).name.startswith("python") and command[1].endswith(".py")
    if runs_a_file and not (folder / command[1]).is_file():
        raise NotFound(f"file {command[1]} not found in {folder.absolute()}", hint="check the path")
