"""What an edit of a running job changes: the fields that Pods made from then on take up, and those that are fixed since it began.

Numbers of nodes, their resources and ``suspend`` are the master's to take up. Master and nodes rely on the rest being what it was
when the job began, so Pods are made by that, whatever the ElasticJob says now. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pliant.spec import JobSpec

# Of ``platform.kubernetes``: where and how Pods run, not what runs in them.
TAKEN_UP = (
    "image",
    "image_pull_policy",
    "image_pull_secrets",
    "node_selector",
    "tolerations",
    "priority_class",
    "service_account",
)
MASTERS = ("replicas", "resources")  # of a role
MOST_NAMED = 5


def taken_up(first: JobSpec, now: JobSpec) -> JobSpec:
    """The spec that Pods are made by: of the job as it began, with what can be changed as it is now."""
    roles = {
        name: role.model_copy(update={"template": now.roles[name].template}) if name in now.roles else role
        for name, role in first.roles.items()
    }
    changed = {field: getattr(now.platform.kubernetes, field) for field in TAKEN_UP}
    options = first.platform.kubernetes.model_copy(update=changed)
    platform = first.platform.model_copy(update={"kubernetes": options})
    return first.model_copy(update={"roles": roles, "platform": platform})


def without_effect(first: JobSpec, now: JobSpec) -> str:
    """The fields of an edit that change nothing any more, for people; empty: there are none."""
    found = list(_differing(_fixed(taken_up(first, now)), _fixed(now)))
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more


def _fixed(spec: JobSpec) -> dict[str, Any]:
    plain = spec.to_json()
    plain.pop("suspend", None)
    for role in plain.get("roles", {}).values():
        for field in MASTERS:
            role.pop(field, None)
    return plain


def _differing(one: Mapping[str, Any], other: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key in sorted(one.keys() | other.keys()):
        a, b, here = one.get(key), other.get(key), f"{path}{key}"
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from _differing(a, b, f"{here}.")
        elif a != b:
            yield here
