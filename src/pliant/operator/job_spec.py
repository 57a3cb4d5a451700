"""From an ElasticJob to the ``JobSpec`` that its master gets.

Name and namespace are those of the object. ``replicas.wanted`` is changed by ``kubectl scale``, which knows nothing of
``min`` and ``max``: it is clamped to them here, and the master reports what became of it.
"""

from __future__ import annotations

from typing import Any

from pliant.platforms.kubernetes.elastic_job import within_limits
from pliant.platforms.kubernetes.kinds import Object
from pliant.spec import JobSpec
from pliant.spec.planning import MAX_OPEN, is_automatic, with_open_replicas


def spec_of(job: Object) -> JobSpec:
    """Raises a ``SpecError`` that names each problem."""
    metadata = job["metadata"]
    value, _ = within_limits(job["spec"])
    value["name"] = metadata["name"]
    platform = value.setdefault("platform", {})
    platform["kind"] = "kubernetes"
    platform.setdefault("kubernetes", {})["namespace"] = metadata["namespace"]
    return JobSpec.from_dict(value, source=f"ElasticJob {metadata['namespace']}/{metadata['name']}")


def missing_replicas(job: Object) -> dict[str, Any] | None:
    """A patch that fills in ``replicas.wanted`` where it is not given, which ``kubectl scale`` needs; None: all are there.

    A job that plans its own resources decides with how many nodes it begins: there only the range is filled in.
    """
    roles: dict[str, Any] = {}
    is_planned = is_automatic(job["spec"].get("optimize"))
    opened = with_open_replicas(job["spec"]).get("roles") or {}
    for name, role in (job["spec"].get("roles") or {}).items():
        replicas = role.get("replicas")
        if is_planned and name in MAX_OPEN:
            if not replicas:
                roles[name] = {"replicas": opened[name]["replicas"]}
        elif not replicas:
            roles[name] = {"replicas": {"min": 1, "max": 1, "wanted": 1}}
        elif replicas.get("wanted") is None and isinstance(replicas.get("max"), int):
            roles[name] = {"replicas": {"wanted": replicas["max"]}}
    return {"spec": {"roles": roles}} if roles else None
