"""Where the journal of a master lies, and what is said of that."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.operator.builders import job

from pliant.operator.edits import ineffective_fields
from pliant.operator.executor import Executor
from pliant.operator.job_objects import supporting_objects
from pliant.operator.job_spec import spec_of
from pliant.operator.journal_volume import (
    JournalVolume,
    StorageClasses,
    choose_volume,
    decided_volume,
    durability,
    given_volume,
    resolved,
    storage_classes,
)
from pliant.operator.master_pod import master_pod
from pliant.operator.store import Store
from pliant.platforms.kubernetes.errors import Forbidden
from pliant.platforms.kubernetes.kinds import CLAIMS, STORAGE_CLASSES, Kind, Object
from pliant.platforms.kubernetes.names import SPEC_KEY, owner_reference
from pliant.spec import JobSpec

if TYPE_CHECKING:
    from pliant.operator.lease import Lease
    from pliant.platforms.kubernetes.api import KubeApi


def spec(journal: dict[str, Any] | None = None, **rest: Any) -> JobSpec:
    return spec_of(job(platform={"kubernetes": {"journal": journal or {}}}, **rest))


def storage_class(name: str, **annotations: str) -> Object:
    return {"metadata": {"name": name, "annotations": annotations}}


DEFAULT = "storageclass.kubernetes.io/is-default-class"
BETA = "storageclass.beta.kubernetes.io/is-default-class"


@pytest.mark.parametrize(
    ("items", "default", "others"),
    [
        ([], "", ()),
        ([storage_class("slow"), storage_class("fast", **{DEFAULT: "true"})], "fast", ("slow",)),
        ([storage_class("old", **{BETA: "true"})], "old", ()),
        ([storage_class("no", **{DEFAULT: "false"})], "", ("no",)),
        ([{"metadata": {"name": "bare"}}], "", ("bare",)),
    ],
)
def test_the_default_class_is_found_by_its_annotation(items: list[Object], default: str, others: tuple[str]) -> None:
    assert storage_classes(items) == StorageClasses(default, others)


def test_a_job_that_says_nothing_leaves_it_to_the_cluster() -> None:
    assert spec().platform.kubernetes.journal.volume == "auto"
    assert given_volume(spec()) is None
    claim = choose_volume(StorageClasses("fast"))
    assert (claim.volume, claim.reason) == ("claim", "Claim")
    none = choose_volume(StorageClasses("", ("slow",)))
    assert (none.volume, none.reason) == ("emptyDir", "NoDefaultStorageClass")
    assert "slow" in none.why
    unknown = choose_volume(StorageClasses(problem="cannot list storageclasses"))
    assert (unknown.volume, unknown.reason) == ("emptyDir", "StorageClassesUnknown")
    assert "cannot list storageclasses" in unknown.why


@pytest.mark.parametrize(
    ("journal", "volume"),
    [({"volume": "claim"}, "claim"), ({"volume": "emptyDir"}, "emptyDir"), ({"storage_class": "fast"}, "claim")],
)
def test_a_job_that_says_where_gets_it_there(journal: dict[str, Any], volume: str) -> None:
    found = given_volume(spec(journal))
    assert found is not None
    assert found.volume == volume


def test_the_decision_is_in_the_objects_of_the_job_and_in_the_spec_that_they_keep() -> None:
    claim, none = choose_volume(StorageClasses("fast")), choose_volume(StorageClasses())
    for volume, is_claimed in ((claim, True), (none, False)):
        decided = resolved(spec(), volume)
        made = [body for kind, body in supporting_objects(job(), decided) if kind is CLAIMS]
        assert bool(made) is is_claimed
        if made:
            assert "storageClassName" not in made[0]["spec"], "the cluster fills in its default"
        volumes = {v["name"]: v for v in master_pod(job(), decided, "10.0.0.1", "pliant:1")["spec"]["volumes"]}
        assert ("persistentVolumeClaim" in volumes["job"]) is is_claimed
        first = JobSpec.from_yaml(decided.to_yaml(full=True))
        assert first.platform.kubernetes.journal.volume == volume.volume
        again = decided_volume(first, spec())
        assert again is not None
        assert again.volume == volume.volume
        assert again.reason == volume.reason, "also of a job that asked for nothing"
        assert ineffective_fields(first, spec()) == "", "nobody edited that"


def test_a_later_edit_does_not_move_the_journal() -> None:
    first = spec({"volume": "emptyDir"})
    found = decided_volume(first, spec({"volume": "claim"}))
    assert found is not None
    assert (found.volume, found.reason) == ("emptyDir", "EmptyDir")


EMPTY = JournalVolume("emptyDir", "NoDefaultStorageClass", "the cluster has no default storage class")


@pytest.mark.parametrize(
    ("rest", "datasets", "cost"),
    [
        ({"strategy": "allreduce"}, [], "takes over the running workers"),
        ({"strategy": "allreduce"}, None, "takes over the running workers"),
        (
            {"strategy": "allreduce"},
            ["clicks"],
            "restart from scratch, because only the journal holds which records of clicks",
        ),
        ({"strategy": "none"}, [], "restart from scratch, because only the journal holds the progress of its workers"),
        ({"strategy": "none", "datasets": [{"name": "train", "size": 9, "shard_size": 3}]}, [], "records of train"),
    ],
)
def test_without_a_claim_the_condition_says_what_a_lost_machine_would_cost(
    rest: dict[str, Any], datasets: list[str] | None, cost: str
) -> None:
    said = durability(spec(**rest), EMPTY, datasets)
    assert said.reason == "NoDefaultStorageClass"
    assert cost in said.message
    assert "storage_class" in said.message, "and what to do about it"


def test_with_a_claim_it_costs_nothing() -> None:
    said = durability(spec(), choose_volume(StorageClasses("fast")), ["train"])
    assert "continues from it" in said.message


class Cluster:
    """An API server with these storage classes; None: they may not be listed."""

    def __init__(self, classes: list[Object] | None) -> None:
        self.classes = classes
        self.first: JobSpec | None = None

    async def list(self, kind: Kind) -> Listed:
        assert kind is STORAGE_CLASSES
        if self.classes is None:
            raise Forbidden("cannot list storageclasses")
        return Listed(self.classes)

    async def find(self, kind: Kind, name: str, namespace: str) -> Object | None:
        if self.first is None:
            return None
        owner = job()
        return {**supporting_metadata(owner), "data": {SPEC_KEY: self.first.to_yaml(full=True)}}


@dataclass(frozen=True)
class Listed:
    items: list[Object]


def supporting_metadata(owner: Object) -> Object:
    return {"metadata": {"name": "digits-master", "ownerReferences": [owner_reference(owner)]}}


def volume_of(cluster: Cluster, owner: Object) -> JournalVolume:
    store = Store(lambda key: None)
    executor = Executor(cast("KubeApi", cluster), cast("Lease", None), store, image="pliant:1")
    return asyncio.run(executor.journal_volume(owner, spec_of(owner)))


def test_an_operator_that_may_not_list_storage_classes_makes_no_claim_and_says_so() -> None:
    found = volume_of(Cluster(None), job())
    assert (found.volume, found.reason) == ("emptyDir", "StorageClassesUnknown")
    assert "cannot list storageclasses" in durability(spec(), found, []).message


def test_an_operator_that_is_restarted_finds_what_was_decided_and_does_not_decide_again() -> None:
    cluster = Cluster([storage_class("fast", **{DEFAULT: "true"})])
    assert volume_of(cluster, job()).volume == "claim"
    cluster.first = resolved(spec(), choose_volume(StorageClasses()))
    assert volume_of(cluster, job(status={"phase": "Running"})).volume == "emptyDir", "the class came later"
    cluster.first = resolved(spec(), choose_volume(StorageClasses("fast")))
    cluster.classes = None
    assert volume_of(cluster, job(status={"phase": "Running"})).volume == "claim"
