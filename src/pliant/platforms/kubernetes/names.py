"""Names that every part of Pliant on Kubernetes agrees on: kinds, labels, and what the objects of a job are called."""

from __future__ import annotations

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

MASTER_PORT = 7777
SPEC_FOLDER = "/etc/pliant/job"  # the ConfigMap with job.yaml
SECRET_FOLDER = "/etc/pliant/secret"
FILES_FOLDER = "/pliant/files"  # the user's files
JOB_FOLDER = "/var/lib/pliant"  # the master's own: journal, logs, summary
RUN_AS = 10001  # user and group of every process in a Pod


def master_name(job: str) -> str:
    """Of the master's Pod, Service, Secret, ConfigMap, ServiceAccount, Role, RoleBinding and NetworkPolicy."""
    return f"{job}-master"


def node_secret_name(job: str) -> str:
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
