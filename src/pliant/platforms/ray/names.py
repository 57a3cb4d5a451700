"""What things are called on a Ray cluster: one namespace for all jobs, and in it ``JOB/NODE`` for each actor."""

from __future__ import annotations

NAMESPACE = "pliant"
MASTER = "master"
RECORD = "ray.json"  # in a job's folder: its cluster; in a node's folder: its actor


class NameTaken(Exception):
    """A master of a job of this name runs on the cluster."""


def actor_name(job: str, node: str) -> str:
    return f"{job}/{node}"


def host_name(address: str, ray_node: str) -> str:
    """A machine, for people and for ``avoid_hosts``: several nodes of Ray may have one address."""
    return f"{address}-{ray_node[:8]}"
