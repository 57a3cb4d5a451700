"""Submitting a job: a function, a script or a command becomes a spec, and is launched as ``pliant run --detach`` launches it.

What the workers need of this process is put where they find it before anything starts: the payload of a function and ``files`` in
the job's folder, on Kubernetes among the files that travel with the ElasticJob.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pliant.api.functions.packing import pack
from pliant.api.functions.payload import FILE_NAME, SENT_FILES, digest_of
from pliant.api.functions.references import folder_of_imports, is_installed
from pliant.api.submitted_job import SubmittedJob
from pliant.core.errors import InvalidRequest, NotFound
from pliant.files.atomic import write_bytes
from pliant.files.private import FILE_MODE, FOLDER_MODE
from pliant.handles.job_dirs import fresh_name
from pliant.launch.background import launch_in_background
from pliant.launch.intervals import interval
from pliant.launch.job_folder import folder_of, prepare
from pliant.launch.job_spec import check_launchable, make_spec
from pliant.platforms.kubernetes.names import FILES_FOLDER

if TYPE_CHECKING:
    from pliant.spec import JobSpec

SOURCE = "submit()"
RUNNER = ("python", "-P", "-m", "pliant.api.functions")

Target = Callable[..., Any] | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class _Folder:
    """As ``prepare`` wants it."""

    job_dir: Path | None
    overwrite: bool
    log_dir: Path | None = None


@dataclass(frozen=True)
class _Program:
    """What workers run, and what has to be where they find it."""

    command: list[str]
    payload: bytes = b""  # of a function
    modules: frozenset[str] = frozenset()


def submit(
    target: Target,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    workers: int | str | tuple[int, int] | None = None,
    strategy: str | None = None,
    cpu: float | None = None,
    memory: str | None = None,
    gpu: int | None = None,
    env: Mapping[str, str] | None = None,
    files: Sequence[str | os.PathLike[str]] = (),
    auto: bool | Mapping[str, Any] = False,
    platform: str | None = None,
    namespace: str | None = None,
    context: str | None = None,
    image: str | None = None,
    claim: str | None = None,
    ray_address: str | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: str | None = None,
    max_restarts: int | None = None,
    tls: bool = False,
    audit: bool = False,
    job_dir: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> SubmittedJob:
    """Start a job in the background, and return its handle. The job does not depend on this process.

    ``target``: a function, called with ``args`` and ``kwargs`` on each worker, in a fresh process; or a script (``"train.py"``), a
    command (``["python", "-m", "training"]``) or a job's file (``"job.yaml"``), of which ``args`` are the arguments.
    ``workers``: a number, or a range such as ``"1:4"``. ``files``: sent along; modules among them can be imported.
    ``auto``: plan the resources while the job runs, ``True`` or options of the section ``optimize`` such as
    ``{"objective": "fastest"}``. ``platform``: local (the default), kubernetes (with ``namespace``, ``image``, ``claim``) or ray.
    The others are those of ``pliant run``.

        job = pliant.submit(train, args=(3,), kwargs={"rate": 0.1}, workers="1:4", memory="4Gi")
        job = pliant.submit("train.py", args=("--epochs", 3), workers=2)
    """
    folder = _Folder(Path(job_dir).absolute() if job_dir is not None else None, overwrite)
    kind = platform or ("kubernetes" if namespace or context else None)
    in_cluster = kind == "kubernetes"
    sent = [Path(file) for file in files]
    changes = _changes(
        workers=_workers(workers),
        strategy=strategy,
        cpu=cpu,
        memory=memory,
        gpu=gpu,
        env=_environment(env),
        optimize=_optimize(auto),
        platform=kind,
        claim=claim,
        ray_address=ray_address,
        checkpoint=_checkpoint(checkpoint_dir, checkpoint_every),
        max_restarts=max_restarts,
        tls=tls or None,
        audit=audit or None,
    )
    _refuse_elsewhere(in_cluster, namespace=namespace, context=context, image=image, claim=claim)
    if callable(target):
        name = name or fresh_name()
        where = FILES_FOLDER if in_cluster else str(folder_of(name, folder).path)
        program = _function_program(target, args, kwargs or {}, where, has_path=not in_cluster)
    else:
        program = _command_program(target, args, kwargs)
    spec = make_spec(program.command, name, changes, source=SOURCE)
    in_cluster = spec.platform.kind == "kubernetes"
    check_launchable(spec)
    if in_cluster:
        if folder.job_dir is not None:
            raise InvalidRequest("job_dir is a folder of this machine, and the job runs on Kubernetes")
        return _submit_to_kubernetes(spec, program, sent, namespace or "", context, image, overwrite=overwrite)
    return _launch_here(spec, program, sent, folder)


# --- what is asked for


def _changes(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _workers(given: int | str | tuple[int, int] | None) -> int | str | None:
    """The spec checks the rest."""
    if isinstance(given, tuple):
        if len(given) != 2:
            raise InvalidRequest(f"workers is {given!r}; allowed: a number, (least, most) or text such as '1:4'")
        return f"{given[0]}:{given[1]}"
    if isinstance(given, bool):
        raise InvalidRequest(f"workers is {given!r}; allowed: a number, (least, most) or text such as '1:4'")
    return given


def _environment(given: Mapping[str, str] | None) -> dict[str, str] | None:
    for name, value in (given or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidRequest(
                f"env has {name!r:.60}: {value!r:.60}; names and values are text",
                hint=f"for example: env={{{name!r}: '1'}}",
            )
    return dict(given) if given else None


def _optimize(auto: bool | Mapping[str, Any]) -> dict[str, Any] | None:
    if auto is False:
        return None
    options = {} if auto is True else dict(auto)
    return {"mode": "cluster" if options.get("brain") else "single-job", **options}


def _checkpoint(folder: str | os.PathLike[str] | None, every: str | None) -> dict[str, Any] | None:
    section: dict[str, Any] = dict(interval(every, "checkpoint_every")) if every is not None else {}
    if folder is not None:
        section["dir"] = os.fspath(folder)
    return section or None


def _refuse_elsewhere(in_cluster: bool, **options: str | None) -> None:
    if not in_cluster and (given := [name for name, value in options.items() if value is not None]):
        raise InvalidRequest(f"{', '.join(given)} requires platform='kubernetes'")


def _function_program(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], folder: str, *, has_path: bool
) -> _Program:
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise InvalidRequest(f"args is {args!r:.60}, not a tuple of arguments", hint="one argument is args=(value,)")
    packed = pack(function, args, kwargs, has_path=has_path)
    content = packed.payload.to_bytes()
    command = [*RUNNER, f"{folder}/{FILE_NAME}", "--sha256", digest_of(content)]
    return _Program(command, content, packed.modules)


def _command_program(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> _Program:
    if kwargs:
        raise InvalidRequest("kwargs are for a function; a script or a command has args")
    words = [target] if isinstance(target, str | os.PathLike) else target
    if not isinstance(words, Sequence) or not words:
        raise InvalidRequest(
            f"cannot submit {target!r:.100}", hint="submit a function, a script such as 'train.py', or a list of words"
        )
    if isinstance(args, str | bytes):
        raise InvalidRequest(f"args is {args!r:.60}, not a list of arguments", hint="one argument is args=(value,)")
    command = []
    for word in (*words, *args):
        if not isinstance(word, str | os.PathLike | int | float) or isinstance(word, bool):
            raise InvalidRequest(
                f"{word!r:.60} is not an argument of a command",
                hint="text, paths and numbers are; a function takes any value",
            )
        command.append(os.fspath(word) if isinstance(word, os.PathLike) else str(word))
    return _Program(command)


# --- launching


def _launch_here(spec: JobSpec, program: _Program, files: Sequence[Path], folder: _Folder) -> SubmittedJob:
    """On this machine, or on a Ray cluster whose machines share the job's folder."""
    from pliant.handles.local import LocalJob

    home = folder_of(spec.name, folder)
    if files and not program.payload:
        spec = _with_import_path(spec, home.path / SENT_FILES)
    job = prepare(spec, folder)
    try:
        if program.payload:
            write_bytes(home.path / FILE_NAME, program.payload, mode=FILE_MODE)
        _copy(files, home.path / SENT_FILES)
    except BaseException:
        job.undo()
        raise
    if job.platform == "ray":
        from pliant.handles.ray import RayJob
        from pliant.launch.ray import launch_on_ray

        launch_on_ray(job)
        return SubmittedJob(RayJob(home))
    launch_in_background(job)
    return SubmittedJob(LocalJob(home))


def _with_import_path(spec: JobSpec, folder: Path) -> JobSpec:
    roles = {}
    for name, role in spec.roles.items():
        before = role.env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        path = os.pathsep.join(filter(None, [str(folder), before]))
        roles[name] = {**role.entries(), "env": {**role.env, "PYTHONPATH": path}}
    return spec.replaced(roles=roles)


def _copy(files: Sequence[Path], to: Path) -> None:
    if not files:
        return
    to.mkdir(mode=FOLDER_MODE)
    inside = to.resolve()
    for file in files:
        if file.name in ("", ".."):
            raise InvalidRequest(
                f"files has {str(file)!r}, a directory without a name",
                hint="name what is in it, for example files=[*Path('.').glob('*.py')]",
            )
        if file.is_dir() and inside.is_relative_to(file.resolve()):
            raise InvalidRequest(
                f"{file} cannot be copied to the job's folder, which is inside it: {to.parent}",
                hint="name what is needed of it, or choose a job_dir outside of it",
            )
        if (to / file.name).exists():
            raise InvalidRequest(f"two files are named {file.name}, and all of them go into one directory")
        try:
            if file.is_dir():
                shutil.copytree(file, to / file.name)
            else:
                shutil.copyfile(file, to / file.name)
        except FileNotFoundError:
            raise NotFound(f"file {file} not found", hint="check files=[…]") from None
        except (OSError, shutil.Error) as error:
            raise InvalidRequest(f"{file} cannot be copied to the job's folder: {error}") from None


def _submit_to_kubernetes(
    spec: JobSpec,
    program: _Program,
    files: Sequence[Path],
    namespace: str,
    context: str | None,
    image: str | None,
    *,
    overwrite: bool,
) -> SubmittedJob:
    from pliant.api.find import close_at_end
    from pliant.handles.cluster import Cluster
    from pliant.handles.find import open_session
    from pliant.handles.open_handles import close_at_exit
    from pliant.launch.manifest import completed, on_kubernetes, with_scripts

    close_at_end()
    sent = [*files, *_module_files(program.modules, files)]
    spec, scripts = with_scripts(spec, sent)
    with ExitStack() as stack:
        if program.payload:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            write_bytes(folder / FILE_NAME, program.payload, mode=FILE_MODE)
            sent.append(folder / FILE_NAME)
        submission = completed(on_kubernetes(spec, name=None, namespace=namespace), [*sent, *scripts], image)
    session = open_session(Cluster(submission.namespace, context))
    from pliant.launch.submitting import submit as send  # needs the same packages

    try:
        return SubmittedJob(close_at_exit(send(session, submission, overwrite=overwrite)))
    except BaseException:
        session.close()
        raise


def _module_files(modules: frozenset[str], given: Sequence[Path]) -> list[Path]:
    """The user's own modules that a function names, with what they import from beside them; what is installed is in the image."""
    from pliant.native.model_file.module_files import files_of

    found: dict[Path, None] = {}
    names = {path.name for path in given}
    for module in sorted(modules):
        if is_installed(module) or module.partition(".")[0] == "pliant":
            continue
        folder = folder_of_imports(module)
        origin = getattr(sys.modules[module], "__file__", None)
        if folder is None or origin is None:
            raise InvalidRequest(
                f"the function needs the module {module}, which cannot be sent", hint="put it into the image"
            )
        for name in files_of(Path(origin).resolve()):
            if len(name.parts) > 1 or "." in module or Path(origin).name == "__init__.py":
                raise InvalidRequest(
                    f"the function needs the package of {module}; directories cannot be sent to a cluster",
                    hint="put the package into the image, or use modules that are single files",
                )
            if name.name not in names:
                found[folder / name] = None
    return list(found)
