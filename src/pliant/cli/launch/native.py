"""From the options of ``train``, ``evaluate`` and ``predict`` to a job: the model file is checked and copied, the job launched.

Nothing is created before the model file satisfies its contract and, where the data can be read from here, one batch of it passed
through ``dataset_fn``, the model and the loss.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pliant.cli.launch.local import start
from pliant.cli.launch.outcome import check_summary, leave, say_output
from pliant.cli.launch.resuming import check_same, differences, resume
from pliant.cli.options.run import RunOptions
from pliant.cli.render.terminal import warn
from pliant.core.errors import Conflict, InvalidRequest
from pliant.core.summary import JobSummary
from pliant.files.atomic import read_json
from pliant.handles.job_dirs import jobs_home
from pliant.launch.job_folder import check_exists, folder_of, prepare
from pliant.launch.job_spec import check_launchable, make_spec
from pliant.launch.paths import ON_A_VOLUME, absolute, pod_path
from pliant.master.job_dir import JobDir
from pliant.platforms.kubernetes.names import FILES_FOLDER
from pliant.spec import load_spec

if TYPE_CHECKING:
    from pliant.native.model_file.description import Description
    from pliant.spec import JobSpec


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
    from pliant.native.preflight import run_preflight

    check_summary(options)
    options.check()
    in_cluster = options.platform == "kubernetes"
    if in_cluster:
        description = _with_pod_paths(description, options.claim, servers=strategy.startswith("ps"))
    else:
        paths = {"output": absolute(description.output), "trained": absolute(description.trained)}
        description = description.model_copy(update=paths)
    run_preflight(description, model, data_is_here=not in_cluster)
    spec = _spec(options, workers, strategy, spec_changes or {}, FILES_FOLDER if in_cluster else "")
    check_launchable(spec)
    if in_cluster:
        result = _run_in_cluster(spec, description, model, options)
        say_output(description.task, description.output, result, options)
        leave(result, options)
    if options.image or options.claim:
        raise InvalidRequest("--image and --claim require --platform kubernetes")
    if options.resume:
        leave(_resume(spec, description, options), options)
    job = prepare(spec, options, warn)
    try:
        _put_files(job.home, description, model)
    except BaseException:
        job.undo()
        raise
    if description.task == "predict":
        _clear_parts(description, spec.name)
    result = start(job, options)
    say_output(description.task, description.output, result, options)
    leave(result, options)


def _resume(spec: JobSpec, description: Description, options: RunOptions) -> JobSummary:
    """The command is given again, and must be the same; `pliant resume` needs none."""
    home = folder_of(spec.name, options)
    check_exists(home)
    check_same(home, load_spec(home.spec), spec)
    given, stored = description.model_dump(mode="json"), read_json(home.path / "native.json") or {}
    found = list(differences({**stored, "model": ""}, {**given, "model": ""}))  # the copy has a path of its own
    if found:
        raise Conflict(
            f"job {spec.name} was started otherwise: {'; '.join(found)}",
            hint=f"`pliant resume {spec.name}` continues it as it was started",
        )
    return resume(home, options)


def _clear_parts(description: Description, job: str) -> None:
    """Of an earlier job of this name that was stopped or failed, and that nobody resumed."""
    from pliant.native.prediction.outputs import parts_folder

    shutil.rmtree(parts_folder(Path(description.output), job), ignore_errors=True)


def _run_in_cluster(spec: JobSpec, description: Description, model: Path, options: RunOptions) -> JobSummary:
    """On Kubernetes: the description, the model file and the modules beside it travel as files of the job."""
    from pliant.cli.launch.kubernetes import run_on_kubernetes
    from pliant.native.model_file.module_files import files_of

    names = files_of(model.resolve())
    if packages := [str(name) for name in names if len(name.parts) > 1]:
        raise InvalidRequest(
            f"{model} imports the package of {packages[0]}; directories cannot be sent to a cluster",
            hint="use modules next to the model file, or put the package into the image",
        )
    with TemporaryDirectory() as folder:
        saved = description.save(Path(folder))
        return run_on_kubernetes(spec, options, [saved, *(model.resolve().parent / name for name in names)])


def _with_pod_paths(description: Description, claim: str | None, *, servers: bool) -> Description:
    """With paths as Pods see them: relative ones are below the shared claim. Refuses those that no Pod sees or that are lost."""
    if servers and not claim:
        raise InvalidRequest(
            "parameter servers on Kubernetes need a directory shared by all Pods of the job", hint=ON_A_VOLUME
        )
    return description.model_copy(
        update={
            "data": [pod_path(path, "--data", claim) for path in description.data],
            "eval_data": [pod_path(path, "--eval-data", claim) for path in description.eval_data],
            "output": pod_path(description.output, "--output", claim),
            "trained": pod_path(description.trained, "--trained", claim),
        }
    )


def _spec(
    options: RunOptions, workers: tuple[int, int], strategy: str, changes: dict[str, Any], folder: str
) -> JobSpec:
    """``folder``: where the description lies on a node; empty: in the job's directory."""
    given = {**options.changes(), "workers": f"{workers[0]}:{workers[1]}"}
    if "optimize" in changes:
        given["optimize"] = changes.pop("optimize")
    spec = make_spec(["python", "-P", "-m", "pliant.native"], options.name, given)
    value = spec.entries()
    home = JobDir((options.job_dir or jobs_home() / spec.name).absolute())
    roles = {name: role.entries() for name, role in value["roles"].items()}
    roles["worker"]["command"] = ["python", "-P", "-m", "pliant.native", f"{folder or home.path}/native.json"]
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


def _put_files(home: JobDir, description: Description, model: Path) -> None:
    from pliant.native.model_file.description import FOLDER
    from pliant.native.model_file.module_files import copy_files

    copy_files(model, home.path / FOLDER)
    description.save(home.path)
