"""Names that every part of Pliant on Kubernetes agrees on: kinds, labels, and what the objects of a job are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GROUP, VERSION = "pliant.dev", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
JOB_KIND, JOBS = "ElasticJob", "elasticjobs"
PLAN_KIND, PLANS = "ScalePlan", "scaleplans"

JOB_LABEL = f"{GROUP}/job"
ROLE_LABEL = f"{GROUP}/role"
NODE_LABEL = f"{GROUP}/node"
MADE_BY_LABEL = f"{GROUP}/made-by"
MADE_BY_MASTER, MADE_BY_PERSON = "master", "person"
MASTER_ROLE = "master"
LIFE_ANNOTATION = f"{GROUP}/life"  # of Pods: which life of the job they belong to, see ``pods.kept_folder``

MASTER_PORT = 7777
SPEC_FOLDER = "/etc/pliant/job"  # the ConfigMap with job.yaml
SECRET_FOLDER = "/etc/pliant/secret"
BRAIN_FOLDER = "/etc/pliant/brain"  # the job's token for the Brain, in the master's Pod only
FILES_FOLDER = "/pliant/files"  # the user's files
SHARED_FOLDER = "/pliant/shared"  # the job's shared claim, in all of its Pods
JOB_FOLDER = "/var/lib/pliant"  # the master's own: journal, logs, summary
CONTAINER = "main"  # of the node's own program, or the master's
SPEC_KEY, TOKEN_KEY, SUMMARY_KEY = "job.yaml", "token", "summary.json"  # in ConfigMaps and Secrets
SERIES_KEY = "series.json"  # beside the summary
RUN_AS = 10001  # user and group of every process in a Pod


def master_name(job: str) -> str:
    """Of the master's Pod, Service, Secret, ConfigMap, ServiceAccount, Role, RoleBinding and NetworkPolicy."""
    return f"{job}-master"


def node_secret_name(job: str) -> str:
    return f"{job}-node"


def brain_secret_name(job: str) -> str:
    return f"{job}-brain"


def node_policy_name(job: str) -> str:
    return f"{job}-node"


def files_name(job: str) -> str:
    return f"{job}-files"


def summary_name(job: str) -> str:
    return f"{job}-summary"


def claim_name(job: str) -> str:
    return f"{job}-journal"


def pod_name(job: str, node: str) -> str:
    return f"{job}-{node}"


def plan_name(job: str, sequence: int) -> str:
    """Of a plan that the master made."""
    return f"{job}-plan-{sequence}"


def job_selector(job: str) -> str:
    return f"{JOB_LABEL}={job}"


def worker_selector(job: str) -> str:
    """What ``kubectl scale`` and autoscalers count."""
    return f"{JOB_LABEL}={job},{ROLE_LABEL}=worker"


def labels_of(job: str, *, role: str = "", node: str = "") -> dict[str, str]:
    found = {JOB_LABEL: job, ROLE_LABEL: role, NODE_LABEL: node}
    return {label: value for label, value in found.items() if value}


def selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{label}={value}" for label, value in sorted(labels.items()))


def node_of(pod: Mapping[str, Any]) -> str:
    """The node that a Pod is, such as worker-0; empty: it is none (the master, or not ours)."""
    return str((pod["metadata"].get("labels") or {}).get(NODE_LABEL, ""))


def life_of(pod: Mapping[str, Any]) -> str:
    """Which life of its job a Pod belongs to; empty: it does not say."""
    return str((pod["metadata"].get("annotations") or {}).get(LIFE_ANNOTATION, ""))


def owner_reference(owner: Mapping[str, Any], *, controller: bool = True) -> dict[str, Any]:
    """For ``metadata.ownerReferences`` of whatever belongs to ``owner``."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": False,
    }
