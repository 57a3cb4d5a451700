"""The operator's cache of the cluster: the last known ElasticJobs, ScalePlans and Pods of jobs.

Watches deliver changes; what the operator itself wrote is put in at once, from the response. So an older version may arrive
after a newer one, and is ignored. Deletions that the watches missed are found by ``replace_listed``.
Each change wakes the reconciler of the job that it is about.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from pliant.operator.observed import Key, ObservedJob, uid_of
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, PODS, SCALE_PLANS, Kind, Object
from pliant.platforms.kubernetes.names import JOB_LABEL

KINDS = (ELASTIC_JOBS, SCALE_PLANS, PODS)
OF_CONTAINER = ("name", "image")


@dataclass(slots=True)
class Entry:
    object: Object
    updated_at: float  # monotonic


def key_of(kind: Kind, item: Object) -> Key:
    """The job that an object names; its name is empty if it names none."""
    metadata = item["metadata"]
    if kind is ELASTIC_JOBS:
        name = metadata["name"]
    elif kind is SCALE_PLANS:
        name = item["spec"]["job"]
    else:
        name = (metadata.get("labels") or {}).get(JOB_LABEL, "")
    return (metadata["namespace"], str(name))


class Store:
    def __init__(self, on_change: Callable[[Key], None]) -> None:
        self._on_change = on_change
        self._entries: dict[Kind, dict[Key, dict[str, Entry]]] = {kind: defaultdict(dict) for kind in KINDS}
        self._uids: dict[tuple[Kind, str, str], str] = {}  # by kind, namespace and name: of the newest

    def put(self, kind: Kind, item: Object) -> None:
        """Add an object, or update it to this version."""
        key, uid = key_of(kind, item), uid_of(item)
        known = self._entries[kind][key].get(uid)
        if known is not None and 0 < _version(item) <= _version(known.object):
            known.updated_at = time.monotonic()
            return
        objects, name_key = self._entries[kind][key], (kind, key[0], item["metadata"]["name"])
        other = self._uids.get(name_key, uid)
        if other != uid and other in objects:
            if _version(objects[other].object) > _version(item):
                return  # a newer object has the name already
            del objects[other]
        self._uids[name_key] = uid
        objects[uid] = Entry(trimmed(kind, item), time.monotonic())
        self._on_change(key)

    def remove(self, kind: Kind, item: Object) -> None:
        """This very object (by uid) was deleted."""
        key = key_of(kind, item)
        objects, uid = self._entries[kind].get(key), uid_of(item)
        if objects is not None and objects.pop(uid, None) is not None:
            name_key = (kind, key[0], item["metadata"]["name"])
            if self._uids.get(name_key) == uid:
                del self._uids[name_key]
            if not objects:
                del self._entries[kind][key]
            self._on_change(key)

    def mark_deleting(self, kind: Kind, key: Key, uid: str, when: str) -> None:
        """We have deleted it; until the watch confirms that, no other reconciliation should delete it again."""
        entry = self._entries[kind].get(key, {}).get(uid)
        if entry is not None and not entry.object["metadata"].get("deletionTimestamp"):
            metadata = {**entry.object["metadata"], "deletionTimestamp": when}
            entry.object = {**entry.object, "metadata": metadata}

    def replace_listed(
        self, kind: Kind, listed: Iterable[Object], *, requested_at: float, namespaces: Collection[str] = ()
    ) -> int:
        """Take over a list that was requested at ``requested_at``; returns how many objects had been deleted unnoticed."""
        items = list(listed)
        for item in items:
            self.put(kind, item)
        there = {uid_of(item) for item in items}
        vanished = [
            entry.object
            for key, objects in self._entries[kind].items()
            for uid, entry in objects.items()
            if uid not in there and entry.updated_at < requested_at and (not namespaces or key[0] in namespaces)
        ]
        for item in vanished:
            self.remove(kind, item)
        return len(vanished)

    def view(self, key: Key) -> ObservedJob:
        jobs, plans, pods = ([entry.object for entry in self._entries[kind].get(key, {}).values()] for kind in KINDS)
        return ObservedJob(key, jobs[0] if jobs else None, tuple(plans), tuple(pods))

    def jobs(self) -> set[Key]:
        return {key for of_kind in self._entries.values() for key in of_kind if key[1]}

    def count(self, kind: Kind) -> int:
        return sum(len(objects) for objects in self._entries[kind].values())


def trimmed(kind: Kind, item: Object) -> Object:
    """The fields that decisions read. The rest, nine tenths of a Pod, would only take memory."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    kept = {**item, "metadata": metadata}
    if kind is PODS:
        containers = [{key: each[key] for key in OF_CONTAINER if key in each} for each in item["spec"]["containers"]]
        machine = {"nodeName": item["spec"]["nodeName"]} if "nodeName" in item["spec"] else {}
        kept["spec"] = {**machine, "containers": containers}
    return kept


def _version(item: Object) -> int:
    """Resource versions are opaque by contract and numbers in fact; where they are not, every update counts as newer."""
    text = str(item["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdigit() else 0
