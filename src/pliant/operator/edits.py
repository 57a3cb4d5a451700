"""What an edit of a running job changes: the fields that apply to Pods created from then on, and those that are immutable.

Replicas, resources and ``suspend`` are applied by the master. Master and nodes rely on the rest being what it was when the job
started, so Pods are created from that spec, whatever the ElasticJob says now. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pliant.spec import JobSpec

# Of ``platform.kubernetes``: where and how Pods run, not what runs in them.
MUTABLE = (
    "image",
    "image_pull_policy",
    "image_pull_secrets",
    "node_selector",
    "tolerations",
    "priority_class",
    "service_account",
)
APPLIED_BY_MASTER = ("replicas", "resources")  # of a role
MAX_NAMED = 5


def effective_spec(first: JobSpec, now: JobSpec) -> JobSpec:
    """The spec that Pods are created from: as the job started, with the mutable fields as they are now."""
    roles = {
        name: role.model_copy(update={"template": now.roles[name].template}) if name in now.roles else role
        for name, role in first.roles.items()
    }
    changed = {field: getattr(now.platform.kubernetes, field) for field in MUTABLE}
    options = first.platform.kubernetes.model_copy(update=changed)
    platform = first.platform.model_copy(update={"kubernetes": options})
    return first.model_copy(update={"roles": roles, "platform": platform})


def ineffective_fields(first: JobSpec, now: JobSpec) -> str:
    """The edited fields that have no effect, for people; empty: there are none."""
    is_decided = now.platform.kubernetes.journal.volume == "auto" or first.journal.store == "database"
    if is_decided:  # of the first spec, when the job started
        chosen = first.platform.kubernetes.journal.volume
        kubernetes = now.platform.kubernetes
        journal = kubernetes.journal.model_copy(update={"volume": chosen})
        platform = now.platform.model_copy(update={"kubernetes": kubernetes.model_copy(update={"journal": journal})})
        now = now.model_copy(update={"platform": platform})
    found = list(_differing(_immutable(effective_spec(first, now)), _immutable(now)))
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return ", ".join(found[:MAX_NAMED]) + more


def _immutable(spec: JobSpec) -> dict[str, Any]:
    plain = spec.to_json()
    plain.pop("suspend", None)
    for role in plain.get("roles", {}).values():
        for field in APPLIED_BY_MASTER:
            role.pop(field, None)
    return plain


def _differing(one: Mapping[str, Any], other: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key in sorted(one.keys() | other.keys()):
        a, b, here = one.get(key), other.get(key), f"{path}{key}"
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from _differing(a, b, f"{here}.")
        elif a != b:
            yield here
