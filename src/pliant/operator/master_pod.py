"""The Pod of a job's master. Pure: the same job results in the same Pod.

The kubelet restarts the master in the same Pod when it dies, so a journal in an ``emptyDir`` outlives the process. The
operator creates another Pod when this one is lost. Of ``journal: {volume: auto}`` the spec says here what became of it
(``journal_volume``).
"""

from __future__ import annotations

from pliant.core.resources import Resources
from pliant.operator.job_objects import metadata
from pliant.platforms.kubernetes import names
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.pods import (
    container_security,
    has_durable_journal,
    kept_folder,
    merged,
    pod_defaults,
    resources_of,
    shared_mounts,
    shared_volumes,
    with_restricted_sidecars,
)
from pliant.platforms.kubernetes.traits import uses_tls
from pliant.spec import JobSpec

GRACE_S = 10  # for the master to write its state
OWN_UID = "$(PLIANT_POD_UID)"  # Kubernetes fills it in, in a command
UNREACHABLE_TOLERATION_S, UNREACHABLE_TOLERATION_EMPTY_DIR_S = (
    10,
    60,
)  # of its machine; a journal in an emptyDir is lost with it


def master_pod(
    job: Object, spec: JobSpec, cluster_ip: str, image: str, *, takes_over: bool = False, life: str = ""
) -> Object:
    """``image`` is used where the spec names none. ``takes_over``: the nodes of a master whose journal is lost, in the ``life`` of
    the job that they belong to."""
    name, options = job["metadata"]["name"], spec.platform.kubernetes
    pod: Object = {
        "metadata": metadata(job, names.master_name(name), names.MASTER_ROLE),
        "spec": {
            **pod_defaults(options, node_selector=options.master.node_selector or options.node_selector),
            "serviceAccountName": names.master_name(name),
            "automountServiceAccountToken": True,
            "terminationGracePeriodSeconds": GRACE_S,
            "containers": [_container(job, spec, cluster_ip, options.image or image, takes_over)],
            "volumes": [*_volumes(name, spec), *shared_volumes(options)],
        },
    }
    if life:
        pod["metadata"]["annotations"] = {names.LIFE_ANNOTATION: life}
    tolerated = UNREACHABLE_TOLERATION_S if has_durable_journal(spec) else UNREACHABLE_TOLERATION_EMPTY_DIR_S
    lost = [_evicted_after(state, tolerated) for state in ("not-ready", "unreachable")]
    pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", ()), *lost]
    if priority := options.high_priority_class or options.priority_class:
        pod["spec"]["priorityClassName"] = priority
    whole: Object = merged(pod, options.master.template)
    whole["metadata"]["labels"] |= pod["metadata"]["labels"]  # by these the Service and the operator find it
    whole["metadata"] |= {key: pod["metadata"][key] for key in ("name", "ownerReferences")}
    whole["spec"]["restartPolicy"] = "OnFailure"
    return with_restricted_sidecars(whole)


def _evicted_after(state: str, seconds: int) -> Object:
    return {
        "key": f"node.kubernetes.io/{state}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }


def _container(job: Object, spec: JobSpec, cluster_ip: str, image: str, takes_over: bool) -> Object:
    name, options, port = job["metadata"]["name"], spec.platform.kubernetes, names.MASTER_PORT
    asked = Resources(options.master.resources.cpu, options.master.resources.memory)
    command = [
        *("python", "-P", "-m", "pliant.master"),
        *("--job-dir", f"{names.JOB_FOLDER}/{name}"),
        *("--spec", f"{names.SPEC_FOLDER}/{names.SPEC_KEY}"),
        *("--host", "0.0.0.0"),
        *("--port", str(port)),
        *("--advertise", f"{cluster_ip}:{port}"),
        *("--token-file", f"{names.SECRET_FOLDER}/{names.TOKEN_KEY}"),
    ]
    if spec.components().parameters and options.shared_claim:
        command += ["--parameters-dir", f"{kept_folder(job, spec, OWN_UID)}/parameters"]
    if uses_tls(spec):
        command += ["--tls-dir", names.SECRET_FOLDER]
    if spec.optimize.uses_brain:
        command += ["--brain-dir", names.BRAIN_FOLDER]
    if takes_over:
        command.append("--take-over")
    ports = [{"name": "grpc", "containerPort": port}]
    if spec.metrics_port:
        ports.append({"name": "metrics", "containerPort": spec.metrics_port})
    return {
        "name": names.CONTAINER,
        "image": image,
        "imagePullPolicy": options.image_pull_policy,
        "command": command,
        "env": [
            {"name": "HOME", "value": "/tmp"},
            {"name": "PYTHONUNBUFFERED", "value": "1"},
            {"name": "PLIANT_JOB", "value": name},
            {"name": "PLIANT_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "PLIANT_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "PLIANT_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        ],
        "ports": ports,
        "resources": _resources(asked),
        "securityContext": container_security(),
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 2, "failureThreshold": 2},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "spec", "mountPath": names.SPEC_FOLDER, "readOnly": True},
            {"name": "secret", "mountPath": names.SECRET_FOLDER, "readOnly": True},
            {"name": "files", "mountPath": names.FILES_FOLDER, "readOnly": True},
            {"name": "job", "mountPath": names.JOB_FOLDER},
            {"name": "tmp", "mountPath": "/tmp"},
            *_brain_mounts(spec),
            *shared_mounts(options),
        ],
    }


def _resources(asked: Resources) -> Object:
    """A limit of memory only: a throttled master would keep all of its nodes waiting."""
    resources = resources_of(asked)
    resources.get("limits", {}).pop("cpu", None)
    return resources


def _volumes(name: str, spec: JobSpec) -> list[Object]:
    claimed = spec.platform.kubernetes.journal.volume == "claim"
    claim: Object = {"persistentVolumeClaim": {"claimName": names.claim_name(name)}}
    return [
        {"name": "spec", "configMap": {"name": names.master_name(name)}},
        {"name": "secret", "secret": {"secretName": names.master_name(name), "defaultMode": 0o440}},
        {"name": "files", "configMap": {"name": names.files_name(name), "optional": True}},
        {"name": "job", **(claim if claimed else {"emptyDir": {}})},
        {"name": "tmp", "emptyDir": {}},
        *_brain_volumes(name, spec),
    ]


def _brain_volumes(name: str, spec: JobSpec) -> list[Object]:
    """Optional: a job goes on where the operator knows of its Brain no more, and so made no Secret."""
    if not spec.optimize.uses_brain:
        return []
    secret = {"secretName": names.brain_secret_name(name), "defaultMode": 0o440, "optional": True}
    return [{"name": "brain", "secret": secret}]


def _brain_mounts(spec: JobSpec) -> list[Object]:
    return [{"name": "brain", "mountPath": names.BRAIN_FOLDER, "readOnly": True}] if spec.optimize.uses_brain else []
