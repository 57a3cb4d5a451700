"""What an operator does with the plans of one job's master, in the smallest form: for tests of the platform alone."""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType
from typing import Self

from tests.kubernetes.harness import LOOK_EVERY, PATIENCE, Space

from pliant.core.errors import PliantError
from pliant.platforms.kubernetes import names
from pliant.platforms.kubernetes.errors import AlreadyExists
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, PODS, SCALE_PLANS, Object
from pliant.platforms.kubernetes.outbox import as_plan, outbox_of, recorded_sequence, requested_plans
from pliant.platforms.kubernetes.plans import ScalePlanSpec
from pliant.platforms.kubernetes.pods import node_pod
from pliant.platforms.kubernetes.view import is_open, is_ours
from pliant.spec import JobSpec


class PlanExecutor:
    """Executes in order, until the block ends."""

    def __init__(self, space: Space, job: Object) -> None:
        self._space = space
        self._job = job
        self._spec = JobSpec.from_dict(job["spec"])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plan-executor", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY):
            with contextlib.suppress(PliantError):
                self._record()
                plans = [plan for plan in self._space.list(SCALE_PLANS) if is_ours(plan) and is_open(plan)]
                for plan in sorted(plans, key=lambda plan: int(plan["spec"]["sequence"])):
                    self._execute(plan)

    def _record(self) -> None:
        job = self._space.get(ELASTIC_JOBS, self._job["metadata"]["name"])
        answers = outbox_of(job).get("answers") or {}
        for plan in self._space.list(SCALE_PLANS):
            if (answer := answers.get(plan["metadata"]["uid"])) is not None and is_open(plan):
                refusal = answer.get("refusal")
                status = {"phase": "Refused", "message": refusal} if refusal else {"phase": "Succeeded"}
                self._space.patch(SCALE_PLANS, plan["metadata"]["name"], {"status": status}, subresource="status")
        for number, request in requested_plans(job).items():
            if number > recorded_sequence(job):
                with contextlib.suppress(AlreadyExists):
                    self._space.create(SCALE_PLANS, as_plan(job["metadata"]["name"], number, request))
                mark = {"status": {"outbox": {"recorded": number}}}
                self._space.patch(ELASTIC_JOBS, job["metadata"]["name"], mark, subresource="status")

    def _execute(self, plan: Object) -> None:
        spec, job = ScalePlanSpec.model_validate(plan["spec"]), self._job["metadata"]["name"]
        for gone in spec.remove:
            self._space.delete(PODS, names.pod_name(job, gone.node), grace=gone.grace)
        for entry in spec.create:
            pod = node_pod(self._job, self._spec, entry, master_address="192.0.2.1:7777", image="localhost/nothing:1")
            with contextlib.suppress(AlreadyExists):
                self._space.create(PODS, pod)
        status = {"status": {"phase": "Succeeded"}}
        self._space.patch(SCALE_PLANS, plan["metadata"]["name"], status, subresource="status")
