"""From the options of ``train``, ``evaluate`` and ``predict`` to a job: the model file is checked and copied, the job launched.

Nothing is created before the model file keeps its contract and, where the data can be read from here, one batch of it went
through ``dataset_fn``, the model and the loss.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pliant.cli.run import check_launchable, environment, launch, leave, make_spec, prepare, refuse_folders
from pliant.core.errors import InvalidRequest
from pliant.master.job_dir import JobDir
from pliant.platforms.kubernetes.names import FILES_FOLDER

if TYPE_CHECKING:
    from pliant.native.description import Description
    from pliant.spec import JobSpec


@dataclass(frozen=True)
class RunOptions:
    """Those of ``pliant run``."""

    name: str | None = None
    job_dir: Path | None = None
    summary: Path | None = None
    as_json: bool = False
    quiet: bool = False
    overwrite: bool = False
    resume: bool = False
    log_dir: Path | None = None
    namespace: str | None = None
    context: str | None = None
    image: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)  # as of ``make_spec``

    @classmethod
    def gather(cls, given: dict[str, Any]) -> RunOptions:
        changes = {
            "platform": given["platform"],
            "cpu": given["cpu"],
            "memory": given["memory"],
            "env": environment(given["env"] or []) or None,
            "tls": given["tls"] or None,
            "audit": given["audit"] or None,
            "metrics_port": given["metrics_port"],
            "max_restarts": given["max_restarts"],
        }
        kept = {key: value for key, value in changes.items() if value is not None}
        own: tuple[str, ...] = ("name", "job_dir", "summary", "as_json", "quiet", "overwrite", "resume", "log_dir")
        own += ("namespace", "context", "image")
        return cls(**{key: given[key] for key in own}, changes=kept)


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


def world_size(min_workers: int | None, max_workers: int | None) -> tuple[int, int]:
    high = max_workers or max(1, min_workers or 1)
    low = min_workers or 1
    if low > high:
        raise InvalidRequest(f"--min-workers {low} is more than --max-workers {high}")
    return low, high


def run_native(
    description: Description,
    model: Path,
    options: RunOptions,
    *,
    workers: tuple[int, int],
    strategy: str,
    spec_changes: dict[str, Any] | None = None,
) -> None:
    """Check, launch, follow to the end, and exit as the job did."""
    from pliant.native.trial import check

    there = options.changes.get("platform") == "kubernetes"
    check(description, model, data_is_here=not there)
    spec = _spec(options, workers, strategy, spec_changes or {}, FILES_FOLDER if there else "")
    check_launchable(spec)
    if there:
        refuse_folders(job_dir=options.job_dir, log_dir=options.log_dir, resume=options.resume)
        leave(_run_there(spec, description, model, options), options.summary, options.as_json)
    if options.image:
        raise InvalidRequest("--image is for --platform kubernetes")
    home = prepare(spec, options.job_dir, overwrite=options.overwrite, resume=options.resume, log_dir=options.log_dir)
    if not options.resume:
        _put_files(home, description, model)
    result = launch(home, show_output=not options.quiet, progress=not options.quiet, to_stderr=options.as_json)
    leave(result, options.summary, options.as_json)


def _run_there(spec: JobSpec, description: Description, model: Path, options: RunOptions) -> dict[str, Any]:
    """On Kubernetes: the description, the model file and the modules beside it travel as files of the job."""
    from pliant.cli.kubernetes.running import run_there
    from pliant.cli.places import Cluster
    from pliant.native.module_files import files_of

    names = files_of(model.resolve())
    if packages := [str(name) for name in names if len(name.parts) > 1]:
        raise InvalidRequest(
            f"{model} imports the package that {packages[0]} is of; files are sent to a cluster without folders",
            hint="put it into modules beside the model file, or into the image",
        )
    with TemporaryDirectory() as folder:
        saved = description.save(Path(folder))
        files = [saved, *(model.resolve().parent / name for name in names)]
        return run_there(
            spec,
            Cluster(options.namespace or "", options.context),
            files,
            options.image,
            overwrite=options.overwrite,
            show_output=not options.quiet,
            progress=not options.quiet,
            to_stderr=options.as_json,
        )


def _spec(
    options: RunOptions, workers: tuple[int, int], strategy: str, changes: dict[str, Any], folder: str
) -> JobSpec:
    """``folder``: where the description lies on a node; empty: in the job's directory."""
    given = {**options.changes, "workers": f"{workers[0]}:{workers[1]}"}
    spec = make_spec(["python", "-m", "pliant.native"], options.name, given)
    value = spec.entries()
    home = JobDir((options.job_dir or _home_of(spec.name)).absolute())
    roles = {name: role.entries() for name, role in value["roles"].items()}
    roles["worker"]["command"] = ["python", "-m", "pliant.native", f"{folder or home.path}/native.json"]
    roles["worker"]["env"] = {"KERAS_BACKEND": "torch", **roles["worker"]["env"]}
    value["roles"] = {**roles, **changes.pop("roles", {})}
    value["strategy"] = strategy
    service = changes.pop("training_service", True)
    value["components"] = {"need_training_service": service, "need_rendezvous": strategy in ("local", "allreduce")}
    value.pop("component_flags", None)
    value |= changes
    if not folder:
        value["working_dir"] = os.getcwd()
    return type(spec).from_dict(value, source="the command line")


def _home_of(name: str) -> Path:
    from pliant.cli.homes import jobs_home

    return jobs_home() / name


def _put_files(home: JobDir, description: Description, model: Path) -> None:
    from pliant.native.description import FOLDER
    from pliant.native.module_files import copy_files

    copy_files(model, home.path / FOLDER)
    description.save(home.path)
