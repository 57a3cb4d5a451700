"""A node as a Pod: what the operator creates for one entry of a ScalePlan. Pure: the same entry always yields the same Pod.

The Pod runs the agent, which runs the role's program, as everywhere. A plan carries neither command nor environment: they
follow from the job's spec. What the job's template says is merged in last (``merged``), so that a team can add volumes,
sidecars, labels and what else ``pod_policy`` allows; what Pliant finds its Pods by cannot be changed.

Pods run without root, without privileges, with a read-only root file system, and without a token of the API server.
What must be written goes to ``/tmp``, ``/dev/shm`` (snapshots; counts as the Pod's memory) and the job's folder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pliant.core.nodes.environment import LimitMode, variable_of, without_node_variables
from pliant.core.resources import Resources
from pliant.platforms.job_environment import job_environment
from pliant.platforms.kubernetes import names
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.plans import PodToCreate
from pliant.platforms.kubernetes.traits import uses_tls
from pliant.spec import JobSpec, KubernetesOptions

REPORT_GRACE_S = 5  # seconds that an agent has beyond its program's grace, to report
TERMINATION_LOG = "/dev/termination-log"
HOSTNAME_LABEL = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
# Lists of a Pod whose items have a name of their own: items of equal name are merged, others are added.
KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "ports": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
}
WHOLE = frozenset({"env", "volumes"})  # of these an item is of one sort: it replaces its namesake as a whole
ADDED = frozenset({"tolerations", "matchExpressions"})  # lists of which both sides hold


def node_pod(
    job: Mapping[str, Any], spec: JobSpec, entry: PodToCreate, *, master_address: str, image: str, life: str = ""
) -> Object:
    """The Pod of one node. ``job`` is the ElasticJob; ``image`` is used where the spec names none; ``life`` is the job's, see
    ``kept_folder``."""
    name, options = job["metadata"]["name"], spec.platform.kubernetes
    labels = names.labels_of(name, role=entry.role, node=entry.node)
    pod: Object = {
        "metadata": {
            "name": names.pod_name(name, entry.node),
            "labels": labels,
            "ownerReferences": [names.owner_reference(job)],
            **({"annotations": {names.LIFE_ANNOTATION: life}} if life else {}),
        },
        "spec": {
            **pod_defaults(options, node_selector=options.node_selector),
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": math.ceil(spec.fault.grace) + REPORT_GRACE_S,
            "containers": [_container(job, spec, entry, master_address, options.image or image, life)],
            "volumes": [*_volumes(name), *shared_volumes(options)],
        },
    }
    inside = pod["spec"]
    if options.service_account:
        inside["serviceAccountName"] = options.service_account
    if priority := (entry.high_priority and options.high_priority_class) or options.priority_class:
        inside["priorityClassName"] = priority
    if entry.avoid_hosts:
        inside["affinity"] = {"nodeAffinity": avoid(entry.avoid_hosts)}
    whole: Object = merged(pod, spec.roles[entry.role].template)
    whole["metadata"]["labels"] |= labels  # by these the master finds it
    whole["metadata"] |= {key: pod["metadata"][key] for key in ("name", "ownerReferences")}
    whole["spec"]["restartPolicy"] = "Never"  # the master decides what follows
    return with_restricted_sidecars(whole)


def pod_defaults(options: KubernetesOptions, *, node_selector: Mapping[str, str]) -> Object:
    """What Pods of master and nodes have in common, as a part of their ``spec``."""
    spec: Object = {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": names.RUN_AS,
            "runAsGroup": names.RUN_AS,
            "fsGroup": names.RUN_AS,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if node_selector:
        spec["nodeSelector"] = dict(node_selector)
    if options.tolerations:
        spec["tolerations"] = [dict(toleration) for toleration in options.tolerations]
    if options.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret} for secret in options.image_pull_secrets]
    return spec


def shared_volumes(options: KubernetesOptions) -> list[Object]:
    claim = options.shared_claim
    return [{"name": "shared", "persistentVolumeClaim": {"claimName": claim}}] if claim else []


def shared_mounts(options: KubernetesOptions) -> list[Object]:
    return [{"name": "shared", "mountPath": names.SHARED_FOLDER}] if options.shared_claim else []


def has_durable_journal(spec: JobSpec) -> bool:
    """It outlives the Pod of the master."""
    return spec.journal.store == "database" or spec.platform.kubernetes.journal.volume == "claim"


def kept_folder(job: Mapping[str, Any], spec: JobSpec, life: str) -> str:
    """Where a job's checkpoints and parameters go: seen by all of its Pods if it has a claim, else lost with the Pod.

    On a claim each life of a job has a folder of its own. Another job of the same name does not go on with what this one
    left, and neither does this one when it starts over, since its journal was lost with a Pod. ``life``: the uid of the Pod of the
    master that this life began with.
    """
    if not spec.platform.kubernetes.shared_claim:
        return names.JOB_FOLDER
    folder = job["metadata"]["uid"] if has_durable_journal(spec) else life
    return f"{names.SHARED_FOLDER}/{job['metadata']['name']}/{folder}"


def container_security() -> Object:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def with_restricted_sidecars(pod: Object) -> Object:
    """Containers that a template adds have no rights either, unless it says more and the policy allows it (``pod_policy``)."""
    spec = dict(pod["spec"])
    main, added = spec["containers"][:1], spec["containers"][1:]  # what is merged comes first
    spec["containers"] = [*main, *map(_restricted, added)]
    if "initContainers" in spec:
        spec["initContainers"] = [_restricted(container) for container in spec["initContainers"]]
    return {**pod, "spec": spec}


def _restricted(container: Object) -> Object:
    given = container.get("securityContext") or {}
    restricted = {"allowPrivilegeEscalation": bool(given.get("privileged")), "capabilities": {"drop": ["ALL"]}}
    return {**container, "securityContext": merged(restricted, given)}


def resources_of(asked: Resources) -> Object:
    """Requests equal to limits, so that a node gets what it was planned with; zero asks for nothing."""
    amounts: dict[str, str] = {}
    if asked.cpu:
        amounts["cpu"] = f"{round(asked.cpu * 1000)}m"
    if asked.memory_mb:
        amounts["memory"] = f"{asked.memory_mb}Mi"
    if asked.gpu:
        amounts[GPU] = str(asked.gpu)
    return {"requests": dict(amounts), "limits": dict(amounts)} if amounts else {}


def avoid(hosts: Sequence[str]) -> Object:
    """A node affinity that keeps off these machines."""
    term = {"matchExpressions": [{"key": HOSTNAME_LABEL, "operator": "NotIn", "values": sorted(hosts)}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def merged(base: Any, more: Any, key: str = "") -> Any:
    """``more`` over ``base``: mappings field by field, named lists item by item, anything else as ``more`` has it."""
    if isinstance(base, Mapping) and isinstance(more, Mapping):
        return {**base, **{k: merged(base[k], v, k) if k in base else v for k, v in more.items()}}
    if isinstance(base, list) and isinstance(more, list | tuple):
        if key == "nodeSelectorTerms":  # any of theirs, and with each of them all of ours
            return [merged(ours, theirs) for theirs in more for ours in base]
        if key in ADDED:
            return [*base, *more]
        if key in KEYS:
            return _merged_by_name(base, list(more), KEYS[key], whole=key in WHOLE)
    return more


def _merged_by_name(base: list[Any], more: list[Any], name: str, *, whole: bool) -> list[Any]:
    theirs = {item[name]: item for item in more if isinstance(item, Mapping) and name in item}
    kept = []
    for item in base:
        change = theirs.pop(item[name], None)
        kept.append(item if change is None else change if whole else merged(item, change))
    unnamed = [item for item in more if not (isinstance(item, Mapping) and name in item)]
    return [*kept, *theirs.values(), *unnamed]


def _container(
    job: Mapping[str, Any], spec: JobSpec, entry: PodToCreate, master_address: str, image: str, life: str
) -> Object:
    options, role = spec.platform.kubernetes, spec.roles[entry.role]
    return {
        "name": names.CONTAINER,
        "image": image,
        "imagePullPolicy": options.image_pull_policy,
        "command": ["python", "-P", "-m", "pliant.agent", "--", *role.command],
        "workingDir": spec.working_dir or names.FILES_FOLDER,
        "env": _environment(job, spec, entry, master_address, life),
        "resources": resources_of(entry.resources.to_core()),
        "securityContext": container_security(),
        "terminationMessagePath": TERMINATION_LOG,  # the agent's last words, see ``exits``
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "secret", "mountPath": names.SECRET_FOLDER, "readOnly": True},
            {"name": "files", "mountPath": names.FILES_FOLDER, "readOnly": True},
            {"name": "job", "mountPath": names.JOB_FOLDER},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
            *shared_mounts(options),
        ],
    }


def _environment(
    job: Mapping[str, Any], spec: JobSpec, entry: PodToCreate, master_address: str, life: str
) -> list[Object]:
    asked = entry.resources.to_core()
    kept = kept_folder(job, spec, life)
    given = spec.roles[entry.role].env
    parameters_dir = Path(given.get(variable_of("parameters_dir")) or f"{kept}/parameters")
    environment = replace(
        job_environment(spec, checkpoint_dir=f"{kept}/checkpoints", parameters_dir=parameters_dir),
        job=job["metadata"]["name"],
        node=entry.node,
        role=entry.role,
        master_addr=master_address,
        token_file=Path(names.SECRET_FOLDER) / names.TOKEN_KEY,
        tls_dir=Path(names.SECRET_FOLDER) if uses_tls(spec) else None,
        log_file=Path(names.JOB_FOLDER) / f"{entry.node}.log",
        copies_log=True,  # for kubectl logs
        last_words=Path(TERMINATION_LOG),
        memory_mb=asked.memory_mb,
        cpu=asked.cpu,
        limits=LimitMode.CONTAINER,
    )
    values = {"HOME": "/tmp", "PYTHONUNBUFFERED": "1", **without_node_variables(given), **environment.to_env()}
    if asked.cpu:  # else a program starts a thread for each core of the machine, and they wait for each other
        values.setdefault("OMP_NUM_THREADS", str(math.ceil(asked.cpu)))
    from_pod = {variable_of("host"): "spec.nodeName", variable_of("address"): "status.podIP"}
    return [
        *({"name": name, "value": value} for name, value in sorted(values.items())),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in from_pod.items()),
    ]


def _volumes(job: str) -> list[Object]:
    return [
        {"name": "secret", "secret": {"secretName": names.node_secret_name(job), "defaultMode": 0o440}},
        {"name": "files", "configMap": {"name": names.files_name(job), "optional": True}},
        {"name": "job", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
