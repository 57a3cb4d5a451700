"""What is sent to a cluster for a job: the ElasticJob, and the ConfigMap with the user's files. Pure.

A job is read from a YAML file that is either a job's spec, as ``pliant run`` takes it, or a whole ElasticJob, as kubectl
takes it. Both are checked by the same model before anything is sent.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from pliant.core.errors import InvalidRequest, NotFound, SpecError
from pliant.handles.job_dirs import fresh_name
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import API_VERSION, FILES_FOLDER, JOB_KIND, files_name, labels_of
from pliant.spec import JobSpec
from pliant.spec import text as yaml_text

MAX_BYTES = 1 << 20  # of all files of a ConfigMap together, which is Kubernetes' own limit
KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
TOO_LARGE = (
    "put larger files into the image (--image) or on a volume (`template` of the role), or read them from storage"
)


@dataclass(frozen=True)
class Submission:
    """A job to be created."""

    spec: JobSpec
    namespace: str = ""  # empty: that of the kubeconfig
    files: Mapping[str, bytes] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    says_mode: bool = False  # who plans is written, also if it is as by default: an operator may have another default

    @property
    def name(self) -> str:
        return self.spec.name

    def elastic_job(self) -> Object:
        metadata: Object = {"name": self.name}
        for key, value in (("labels", self.labels), ("annotations", self.annotations)):
            if value:
                metadata[key] = dict(value)
        if self.namespace:
            metadata["namespace"] = self.namespace
        spec = self.spec.differences()
        if self.says_mode:
            spec["optimize"] = {"mode": self.spec.optimize.mode, **spec.get("optimize", {})}
        return {"apiVersion": API_VERSION, "kind": JOB_KIND, "metadata": metadata, "spec": spec}

    def files_map(self) -> Object | None:
        """None: no files were given."""
        if not self.files:
            return None
        data, binary = {}, {}
        for name, content in self.files.items():
            try:
                data[name] = content.decode("utf-8")
            except UnicodeDecodeError:
                binary[name] = base64.b64encode(content).decode()
        metadata: Object = {"name": files_name(self.name), "labels": labels_of(self.name)}
        if self.namespace:
            metadata["namespace"] = self.namespace
        made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        return {**made, **({"data": data} if data else {}), **({"binaryData": binary} if binary else {})}

    def objects(self) -> list[Object]:
        return [found for found in (self.files_map(), self.elastic_job()) if found is not None]

    def to_yaml(self) -> str:
        return "---\n".join(yaml_text.write(found) for found in self.objects())


def platform_of(path: Path) -> str:
    """That the file names; empty: it names none."""
    value = yaml_text.read(yaml_text.read_file(path), str(path))
    inside = value.get("platform", "") if isinstance(value, Mapping) else ""
    return str(inside.get("kind", "") if isinstance(inside, Mapping) else inside)


def read_job(path: Path, *, name: str | None, namespace: str | None) -> Submission:
    """From a file with a job's spec, or with an ElasticJob."""
    value = yaml_text.read(yaml_text.read_file(path), str(path))
    if not isinstance(value, Mapping):
        raise SpecError(f"{path} does not contain a job: expected a mapping, either a job spec or an {JOB_KIND}")
    if "apiVersion" in value or "kind" in value:
        return _from_resource(value, str(path), name, namespace)
    made = on_kubernetes(JobSpec.from_dict(dict(value), source=str(path)), name=name, namespace=namespace)
    return replace(made, says_mode="optimize" in value)


def on_kubernetes(
    spec: JobSpec, *, name: str | None, namespace: str | None, files: Mapping[str, bytes] | None = None
) -> Submission:
    """A job for any platform, set to run there."""
    platform = spec.platform
    if platform.kind not in ("local", "kubernetes"):
        raise InvalidRequest(f"the job's platform is {platform.kind}, but it was to be submitted to Kubernetes")
    options = platform.kubernetes
    given = options.namespace if "namespace" in options.model_fields_set and options.namespace != "default" else ""
    where = namespace or given
    changed = options.entries() | ({"namespace": where} if where else {})
    spec = spec.replaced(
        name=name or spec.name, platform={**platform.entries(), "kind": "kubernetes", "kubernetes": changed}
    )
    return Submission(spec, where, files or {})


def _from_resource(value: Mapping[str, Any], source: str, name: str | None, namespace: str | None) -> Submission:
    if (value.get("apiVersion"), value.get("kind")) != (API_VERSION, JOB_KIND):
        found = f"{value.get('kind')} of {value.get('apiVersion')}"
        raise SpecError(f"{source} contains a {found}; allowed: a job's spec, or an {JOB_KIND} of {API_VERSION}")
    metadata, inside = value.get("metadata") or {}, value.get("spec")
    if not isinstance(metadata, Mapping) or not isinstance(inside, Mapping):
        raise SpecError(f"{source}: an {JOB_KIND} needs metadata and spec")
    known, named = metadata.get("name"), inside.get("name")
    if known and named and known != named:
        raise SpecError(
            f"{source}: metadata.name is {known!r} and spec.name is {named!r}; they must match, or leave one out"
        )
    spec = JobSpec.from_dict(dict(inside), source=f"{source}: spec")
    made = on_kubernetes(spec, name=name or known or named, namespace=namespace or metadata.get("namespace"))
    labels = {str(k): str(v) for k, v in (metadata.get("labels") or {}).items()}
    annotations = {str(k): str(v) for k, v in (metadata.get("annotations") or {}).items()}
    return replace(made, labels=labels, annotations=annotations, says_mode="optimize" in inside)


def read_files(paths: Iterable[Path]) -> dict[str, bytes]:
    """By the name that each has in ``/pliant/files``."""
    files: dict[str, bytes] = {}
    for path in paths:
        if path.is_dir():
            raise InvalidRequest(f"{path} is a directory", hint=f"pass --file for each file; {TOO_LARGE}")
        if not KEY.fullmatch(path.name):
            raise InvalidRequest(
                f"{path.name!r} is not a valid file name in a ConfigMap", hint="use letters, digits, '.', '-', '_'"
            )
        if path.name in files:
            raise InvalidRequest(
                f"two files are named {path.name}, and all files go into one directory, {FILES_FOLDER}"
            )
        try:
            files[path.name] = path.read_bytes()
        except FileNotFoundError:
            raise NotFound(f"file {path} not found", hint="check the path") from None
        except OSError as error:
            raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from None
    total = sum(len(name) + len(content) for name, content in files.items())
    if total > MAX_BYTES:
        raise InvalidRequest(
            f"the files total {total:,} bytes; a ConfigMap holds at most {MAX_BYTES:,}", hint=TOO_LARGE
        )
    return files


def completed(submission: Submission, files: list[Path], image: str | None) -> Submission:
    """With a name, its files and its image."""
    spec = submission.spec
    if not spec.name:
        spec = spec.replaced(name=fresh_name())
    if image:
        platform = spec.platform
        options = platform.kubernetes.entries() | {"image": image}
        spec = spec.replaced(platform={**platform.entries(), "kubernetes": options})
    sent = {**submission.files, **read_files(files)}
    return replace(submission, spec=spec, files=sent)


def script_of(command: Sequence[str]) -> int | None:
    """Where in a command the Python file is that it runs; None: it runs none."""
    if command and command[0].endswith(".py"):
        return 0
    is_python = bool(command) and PurePosixPath(command[0]).name.startswith("python")
    return 1 if is_python and len(command) > 1 and command[1].endswith(".py") else None


def with_script(command: Sequence[str], sent: Iterable[str]) -> tuple[list[str], Path | None]:
    """The command as it runs in a Pod, and the local file that has to be sent along for it."""
    changed, at, sent = list(command), script_of(command), set(sent)
    if at is None:
        return changed, None
    local, folder = Path(changed[at]), PurePosixPath(FILES_FOLDER)
    if local.is_file():
        changed[at] = str(folder / local.name)
        return changed, None if local.name in sent else local
    if local.name in sent:
        changed[at] = str(folder / local.name)
    elif not local.is_absolute():
        raise NotFound(
            f"file {local} not found, so it cannot be sent",
            hint="check the path; for a file in the image use an absolute path, such as /app/train.py",
        )
    return changed, None


def with_scripts(spec: JobSpec, files: list[Path]) -> tuple[JobSpec, list[Path]]:
    """The commands as they run in Pods, and the local Python files that have to be sent along for them."""
    if spec.working_dir:
        return spec, []  # the commands refer to a folder of the image
    scripts: list[Path] = []
    roles = {}
    for name, role in spec.roles.items():
        sent = {path.name for path in (*files, *scripts)}
        command, script = with_script(role.command, sent)
        scripts += [script] if script is not None else []
        roles[name] = {**role.entries(), "command": command}
    return spec.replaced(roles=roles), scripts
