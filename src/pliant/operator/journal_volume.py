"""Where the journal of a job's master lies: a claim that outlives its Pod, an ``emptyDir`` that does not, or the Brain's database.
Pure.

``journal: {volume: auto}`` is a claim where the cluster has a default storage class, or the job names one. That is decided once,
before the job's first master: the spec that the ConfigMap keeps says ``claim`` or ``emptyDir``, and holds for the job's life. Where
there is no claim, a condition of the ElasticJob says what the loss of the master's machine would cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pliant.core.takeover import what_only_the_journal_knows
from pliant.operator.observed import StatusReason
from pliant.platforms.kubernetes.kinds import Object
from pliant.spec import JobSpec

Volume = Literal["claim", "emptyDir"]
DEFAULT_CLASS_MARKS = (  # annotations; the second is of older clusters
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


@dataclass(frozen=True, slots=True)
class JournalVolume:
    """``why``: for people."""

    volume: Volume
    reason: str
    why: str
    is_in_database: bool = False  # the volume has only what can be made anew

    @property
    def is_durable(self) -> bool:
        return self.is_in_database or self.volume == "claim"


@dataclass(frozen=True, slots=True)
class StorageClasses:
    """Those of the cluster, as far as the operator may know."""

    default: str = ""
    others: tuple[str, ...] = ()
    problem: str = ""  # why they could not be listed


def storage_classes(items: Iterable[Object]) -> StorageClasses:
    names = {item["metadata"]["name"]: _is_default(item) for item in items}
    default = next((name for name, is_default in sorted(names.items()) if is_default), "")
    return StorageClasses(default, tuple(sorted(name for name in names if name != default)))


def _is_default(item: Object) -> bool:
    marks = item["metadata"].get("annotations") or {}
    return any(marks.get(mark) == "true" for mark in DEFAULT_CLASS_MARKS)


def given_volume(spec: JobSpec) -> JournalVolume | None:
    """As the job says; None: it leaves that to the cluster."""
    if spec.journal.store == "database":
        return JournalVolume("emptyDir", "Database", "the journal is in the Brain's database", is_in_database=True)
    journal = spec.platform.kubernetes.journal
    if journal.volume == "claim" or (journal.volume == "auto" and journal.storage_class):
        return JournalVolume("claim", "Claim", "the journal is on its own PersistentVolumeClaim")
    if journal.volume == "emptyDir":
        return JournalVolume("emptyDir", "EmptyDir", "the job requests an emptyDir")
    return None


def decided_volume(first: JobSpec, now: JobSpec) -> JournalVolume | None:
    """Of a job that has started: as ``first`` says, the spec that it started with."""
    given = given_volume(first)
    if given is None or given.is_durable or given_volume(now) is not None:
        return given
    why = "the operator found no default storage class when the job started"
    return JournalVolume("emptyDir", "NoDefaultStorageClass", why)


def choose_volume(classes: StorageClasses) -> JournalVolume:
    """For a job that leaves it to the cluster."""
    if classes.problem:
        why = f"the operator may not list storage classes, so no claim was made ({classes.problem})"
        return JournalVolume("emptyDir", "StorageClassesUnknown", why)
    if classes.default:
        return JournalVolume("claim", "Claim", f"the journal is on a claim of storage class {classes.default}")
    others = f"; found: {', '.join(classes.others)}" if classes.others else ""
    return JournalVolume("emptyDir", "NoDefaultStorageClass", f"the cluster has no default storage class{others}")


def resolved(spec: JobSpec, volume: JournalVolume) -> JobSpec:
    """The spec with the decision in it."""
    options = spec.platform.kubernetes
    journal = options.journal.model_copy(update={"volume": volume.volume})
    kubernetes = options.model_copy(update={"journal": journal})
    return spec.model_copy(update={"platform": spec.platform.model_copy(update={"kubernetes": kubernetes})})


def durability(spec: JobSpec, volume: JournalVolume, datasets: Sequence[str] | None) -> StatusReason:
    """For the condition ``JournalDurable``: what the loss of the master's machine would cost."""
    if volume.is_durable:
        return StatusReason(volume.reason, f"{volume.why}; a new master continues from it")
    known = [dataset.name for dataset in spec.datasets]
    lost = what_only_the_journal_knows(
        strategy=spec.strategy,
        has_parameters=spec.components().parameters,
        datasets=[*known, *(name for name in datasets or () if name not in known)],
    )
    cost = (
        f"the job would restart from scratch, because only the journal holds {lost}"
        if lost
        else "a successor takes over the running workers; work is lost only if all of them are lost at the same time"
    )
    hint = "" if volume.reason == "EmptyDir" else "; set a storage class in platform.kubernetes.journal.storage_class"
    message = f"{volume.why}: the journal is lost with the master's Pod. If its node is lost, {cost}{hint}"
    return StatusReason(volume.reason, message)
