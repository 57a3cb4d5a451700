"""What a job's master needs around its Pod, as plain objects: Service, Secrets, ConfigMap, RBAC, claim, network policy.

Each is created once and never changed. All are owned by the job and deleted with it.
"""

from __future__ import annotations

import base64
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pliant.platforms.kubernetes import names
from pliant.platforms.kubernetes.kinds import (
    CLAIMS,
    CONFIG_MAPS,
    NETWORK_POLICIES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Kind,
    Object,
)
from pliant.platforms.kubernetes.traits import uses_tls
from pliant.rpc.brain.access import CA, BrainAccess
from pliant.rpc.brain.identity import job_token
from pliant.rpc.certificates import write_certificates
from pliant.spec import JobSpec
from pliant.spec.quantities import write_memory

NODE_FILES = ("ca.crt", "node.crt", "node.key")  # the TLS files that nodes get
RBAC = "rbac.authorization.k8s.io"


def metadata(job: Object, name: str, role: str = "") -> Object:
    labels = names.labels_of(job["metadata"]["name"], role=role)
    return {"name": name, "labels": labels, "ownerReferences": [names.owner_reference(job)]}


def service(job: Object) -> Object:
    """One address for the master, whichever Pod it is in. Nodes dial it by its cluster IP, so no DNS is needed."""
    name = job["metadata"]["name"]
    return {
        "metadata": metadata(job, names.master_name(name), names.MASTER_ROLE),
        "spec": {
            "selector": names.labels_of(name, role=names.MASTER_ROLE),
            "ports": [{"name": "grpc", "port": names.MASTER_PORT, "targetPort": names.MASTER_PORT}],
            "publishNotReadyAddresses": True,  # nodes retry by themselves, sooner than a probe notices
        },
    }


def master_secret(job: Object, spec: JobSpec, cluster_ip: str) -> Object:
    """A fresh token, and fresh certificates where the job uses TLS."""
    content = {names.TOKEN_KEY: secrets.token_hex(32).encode()}
    if uses_tls(spec):
        name, namespace = names.master_name(job["metadata"]["name"]), job["metadata"]["namespace"]
        hosts = (
            cluster_ip,
            name,
            f"{name}.{namespace}",
            f"{name}.{namespace}.svc",
            f"{name}.{namespace}.svc.cluster.local",
        )
        with tempfile.TemporaryDirectory() as folder:
            write_certificates(Path(folder), hosts)
            content |= {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    encoded = {key: base64.b64encode(value).decode() for key, value in content.items()}
    return _secret(job, names.master_name(job["metadata"]["name"]), encoded)


def node_secret(job: Object, of_master: Object) -> Object:
    """What nodes get of the master's Secret: all but the master's own key."""
    data = of_master["data"]
    kept = {key: data[key] for key in (names.TOKEN_KEY, *NODE_FILES) if key in data}
    return _secret(job, names.node_secret_name(job["metadata"]["name"]), kept)


def brain_secret(job: Object, cluster: BrainAccess) -> Object:
    """What the master needs to reach the Brain: a token that is good for this job only, and how the Brain proves itself."""
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    content = {names.TOKEN_KEY: job_token(cluster.token, namespace, name).encode(), CA: cluster.ca or b""}
    encoded = {key: base64.b64encode(value).decode() for key, value in content.items() if value}
    return _secret(job, names.brain_secret_name(name), encoded)


def _secret(job: Object, name: str, data: dict[str, str]) -> Object:
    return {"metadata": metadata(job, name), "type": "Opaque", "immutable": True, "data": data}


def supporting_objects(
    job: Object, spec: JobSpec, metrics_from: Sequence[Object] = ()
) -> Iterator[tuple[Kind, Object]]:
    """All that does not depend on the Service's address. ``metrics_from``: see ``master_network_policy``."""
    name = names.master_name(job["metadata"]["name"])
    started = spec.replaced(
        suspend=False
    )  # a master is created only for a job that runs; later edits it watches itself
    yield (
        CONFIG_MAPS,
        {
            "metadata": metadata(job, name),
            "immutable": True,
            "data": {names.SPEC_KEY: started.to_yaml(full=True)},
        },
    )
    yield CONFIG_MAPS, {"metadata": metadata(job, names.summary_name(job["metadata"]["name"]))}  # the master fills it
    yield SERVICE_ACCOUNTS, {"metadata": metadata(job, name), "automountServiceAccountToken": False}
    yield ROLES, {"metadata": metadata(job, name), "rules": master_rules(job["metadata"]["name"])}
    yield (
        ROLE_BINDINGS,
        {
            "metadata": metadata(job, name),
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": job["metadata"]["namespace"]}],
        },
    )
    yield NETWORK_POLICIES, master_network_policy(job, spec, metrics_from)
    yield NETWORK_POLICIES, node_network_policy(job)
    journal = spec.platform.kubernetes.journal
    if journal.volume == "claim":
        claim: Object = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": str(write_memory(journal.size))}},
        }
        if journal.storage_class:
            claim["storageClassName"] = journal.storage_class
        yield CLAIMS, {"metadata": metadata(job, names.claim_name(job["metadata"]["name"])), "spec": claim}


def master_rules(job: str) -> list[Object]:
    """What a master may do. It writes its own job's status (with its outbox, see ``platforms/kubernetes/plans.py``), number of
    workers and summary, which is limited by their names. It creates nothing, since no rule can limit that by name, so what it needs
    is created before. It reads Pods, ScalePlans and measured usage of the namespace: rules cannot select by label, and the names of
    nodes are not known in advance."""
    return [
        _rule(names.GROUP, ["elasticjobs"], ["get", "list", "watch"], [job]),
        _rule(names.GROUP, ["elasticjobs/status", "elasticjobs/scale"], ["patch"], [job]),
        _rule(names.GROUP, ["scaleplans"], ["list", "watch"]),
        _rule("", ["pods"], ["get", "list", "watch"]),
        _rule("", ["configmaps"], ["patch"], [names.summary_name(job)]),
        _rule("metrics.k8s.io", ["pods"], ["list"]),
    ]


def _rule(group: str, resources: list[str], verbs: list[str], only: list[str] | None = None) -> Object:
    rule: Object = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return {**rule, "resourceNames": only} if only else rule


def master_network_policy(job: Object, spec: JobSpec, metrics_from: Sequence[Object] = ()) -> Object:
    """Only the job's own Pods reach the master, and its metrics only ``metrics_from`` (peers as in a NetworkPolicy). A port-forward
    comes from the Pod's own machine, which Kubernetes always lets in."""
    name = job["metadata"]["name"]
    ingress: list[Object] = [{"from": [_own_pods(name)], "ports": [{"protocol": "TCP", "port": names.MASTER_PORT}]}]
    if spec.metrics_port:
        readers = [_own_pods(name), *metrics_from]
        ingress.append({"from": readers, "ports": [{"protocol": "TCP", "port": spec.metrics_port}]})
    return {
        "metadata": metadata(job, names.master_name(name)),
        "spec": {
            "podSelector": {"matchLabels": names.labels_of(name, role=names.MASTER_ROLE)},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    }


def node_network_policy(job: Object) -> Object:
    """Only the job's own Pods reach its nodes, on any port: collectives of workers are neither encrypted nor authenticated. One
    policy for each job, since no selector can say "of the same job"."""
    name = job["metadata"]["name"]
    return {
        "metadata": metadata(job, names.node_policy_name(name)),
        "spec": {
            "podSelector": {
                "matchLabels": names.labels_of(name),
                "matchExpressions": [{"key": names.NODE_LABEL, "operator": "Exists"}],
            },
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [_own_pods(name)]}],
        },
    }


def _own_pods(job: str) -> Object:
    return {"podSelector": {"matchLabels": names.labels_of(job)}}
