"""The operator's copy of the cluster: ElasticJobs, ScalePlans and Pods of jobs, as last told.

Watches tell of changes; what was written by ourselves is put in at once, from the answer. So an older state may be told
later than a newer one, and is ignored. What vanished while nobody watched is found by ``compare`` with a list.
Each change names the job that it is about, whose keeper is woken.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from pliant.operator.seen import Key, Seen, uid_of
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, PODS, SCALE_PLANS, Kind, Object
from pliant.platforms.kubernetes.names import JOB_LABEL

KINDS = (ELASTIC_JOBS, SCALE_PLANS, PODS)
OF_CONTAINER = ("name", "image")


@dataclass(slots=True)
class Entry:
    object: Object
    told: float  # when, by the monotonic clock


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
        """It is there, in this state."""
        key, uid = key_of(kind, item), uid_of(item)
        known = self._entries[kind][key].get(uid)
        if known is not None and 0 < _version(item) <= _version(known.object):
            known.told = time.monotonic()
            return
        of_job, place = self._entries[kind][key], (kind, key[0], item["metadata"]["name"])
        other = self._uids.get(place, uid)
        if other != uid and other in of_job:
            if _version(of_job[other].object) > _version(item):
                return  # the name was given to a later one already
            del of_job[other]
        self._uids[place] = uid
        of_job[uid] = Entry(needed(kind, item), time.monotonic())
        self._on_change(key)

    def gone(self, kind: Kind, item: Object) -> None:
        """This very one is not there any more."""
        key = key_of(kind, item)
        of_job, uid = self._entries[kind].get(key), uid_of(item)
        if of_job is not None and of_job.pop(uid, None) is not None:
            place = (kind, key[0], item["metadata"]["name"])
            if self._uids.get(place) == uid:
                del self._uids[place]
            if not of_job:
                del self._entries[kind][key]
            self._on_change(key)

    def asked_to_go(self, kind: Kind, key: Key, uid: str, when: str) -> None:
        """We had it removed, and the watch will tell so: until then nobody should ask again."""
        entry = self._entries[kind].get(key, {}).get(uid)
        if entry is not None and not entry.object["metadata"].get("deletionTimestamp"):
            metadata = {**entry.object["metadata"], "deletionTimestamp": when}
            entry.object = {**entry.object, "metadata": metadata}

    def compare(self, kind: Kind, listed: Iterable[Object], *, began: float, namespaces: Collection[str] = ()) -> int:
        """Take over a list that was asked for at ``began``; gives how many objects had vanished unnoticed."""
        items = list(listed)
        for item in items:
            self.put(kind, item)
        there = {uid_of(item) for item in items}
        vanished = [
            entry.object
            for key, of_job in self._entries[kind].items()
            for uid, entry in of_job.items()
            if uid not in there and entry.told < began and (not namespaces or key[0] in namespaces)
        ]
        for item in vanished:
            self.gone(kind, item)
        return len(vanished)

    def view(self, key: Key) -> Seen:
        jobs, plans, pods = ([entry.object for entry in self._entries[kind].get(key, {}).values()] for kind in KINDS)
        return Seen(key, jobs[0] if jobs else None, tuple(plans), tuple(pods))

    def jobs(self) -> set[Key]:
        return {key for of_kind in self._entries.values() for key in of_kind if key[1]}

    def count(self, kind: Kind) -> int:
        return sum(len(of_job) for of_job in self._entries[kind].values())


def needed(kind: Kind, item: Object) -> Object:
    """What of an object is looked at. The rest, of a Pod nine tenths, would only take up memory."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    kept = {**item, "metadata": metadata}
    if kind is PODS:
        containers = [{key: each[key] for key in OF_CONTAINER if key in each} for each in item["spec"]["containers"]]
        machine = {"nodeName": item["spec"]["nodeName"]} if "nodeName" in item["spec"] else {}
        kept["spec"] = {**machine, "containers": containers}
    return kept


def _version(item: Object) -> int:
    """Resource versions are opaque by contract and numbers in fact; of others, each told one counts as newer."""
    text = str(item["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdigit() else 0
