"""The master's side of the outbox (a transactional outbox): how its plans and answers reach the operator.

It lies in the status of the job's own ElasticJob, which RBAC can limit to one name; creating an object cannot be limited so.
Entries are maps, so that a merge patch adds and removes single ones without reading the others first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pliant.platforms.kubernetes import names
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, Object
from pliant.platforms.kubernetes.plans import PlanRequest, status_of


def outbox_of(job: Object) -> Object:
    """Of an ElasticJob; empty where there is none yet."""
    return status_of(job).get("outbox") or {}


def requested_plans(job: Object) -> dict[int, Object]:
    """The entries of its master's plans, in the order of their numbers."""
    found = outbox_of(job).get("plans") or {}
    return {int(number): found[number] for number in sorted(found, key=_number) if number.isdecimal()}


def recorded_sequence(job: Object) -> int:
    """The last number that became a ScalePlan."""
    return int(outbox_of(job).get("recorded") or 0)


def as_plan(job: str, sequence: int, request: Mapping[str, Any]) -> Object:
    """A master's plan as a ScalePlan, but for its owner."""
    labels = {**names.labels_of(job), names.MADE_BY_LABEL: names.MADE_BY_MASTER}
    return {
        "metadata": {"name": names.plan_name(job, sequence), "labels": labels},
        "spec": {"job": job, "sequence": sequence, **request},
    }


def _number(key: str) -> int:
    return int(key) if key.isdecimal() else 0


class OutboxWriter:
    def __init__(self, api: KubeApi, job: str, namespace: str) -> None:
        self._api, self._job, self._namespace = api, job, namespace

    async def read(self) -> Object:
        """The ElasticJob with its outbox."""
        return await self._api.get(ELASTIC_JOBS, self._job, self._namespace)

    async def write_plan(self, sequence: int, request: PlanRequest, *, done: Iterable[int] = ()) -> None:
        """Ask for a plan, and remove the entries of those that are done."""
        await self._patch({"plans": {**_nothing(done), str(sequence): request.to_json()}})

    async def remove_plans(self, done: Iterable[int]) -> None:
        await self._patch({"plans": _nothing(done)})

    async def write_answer(self, uid: str, refusal: str, *, done: Iterable[str] = ()) -> None:
        """Answer a manual ScalePlan, and remove the answers that the operator has passed on."""
        await self._patch({"answers": {**dict.fromkeys(done), uid: {"refusal": refusal} if refusal else {}}})

    async def _patch(self, outbox: Mapping[str, Any]) -> None:
        patch = {"status": {"outbox": outbox}}
        await self._api.patch(ELASTIC_JOBS, self._job, patch, self._namespace, subresource="status")


def _nothing(done: Iterable[int]) -> dict[str, Any]:
    """What removes these entries in a merge patch."""
    return dict.fromkeys(map(str, done))
