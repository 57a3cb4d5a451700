"""The platform of a master that runs on a Ray cluster: nodes are detached actors, made and watched through the ``bridge``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from pliant.core.nodes.capacity import Capacity, Machine
from pliant.core.nodes.environment import LimitMode
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.planning.history import Room
from pliant.files.atomic import read_json
from pliant.platforms.base import JobContext, NodeEvent, NodeLaunch, NodeWatcher, Platform, Refusal, ScalePlan, Scaler
from pliant.platforms.cgroup import cgroup_job
from pliant.platforms.ray.link import BridgeLink, RayUnavailable
from pliant.platforms.ray.names import RECORD
from pliant.platforms.ray.traits import TRAITS
from pliant.spec import RayOptions

PYTHON = "{python}"  # as in ``actor``, which needs Ray


class RayPlatform(Platform):
    name = "ray"
    traits = TRAITS

    def __init__(self) -> None:
        self._link: BridgeLink | None = None

    def open(self, context: JobContext) -> tuple[Scaler, NodeWatcher]:
        given = context.options.get("ray", {})
        options = RayOptions.model_validate(given if isinstance(given, Mapping) else {})
        (context.job_dir / "nodes").mkdir(exist_ok=True)
        (context.job_dir / "logs").mkdir(exist_ok=True)
        submitted = read_json(context.job_dir / RECORD) or {}
        runtime_env = submitted.get("runtime_env", options.runtime_env)
        self._link = BridgeLink(options.address, context.job, context.job_dir, runtime_env)
        return RayScaler(self._link, context, ships_files="working_dir" in runtime_env), RayWatcher(self._link)

    async def capacity(self) -> Capacity | None:
        assert self._link is not None
        try:
            machines = await self._link.call("machines")
        except RayUnavailable:
            return None
        totals = (machine["total"] for machine in machines)
        return Capacity(tuple(Machine(total["cpu"], total["memory_mb"], total["gpu"]) for total in totals))

    async def free_room(self) -> Room | None:
        assert self._link is not None
        try:
            machines = await self._link.call("machines")
        except RayUnavailable:
            return None
        free = [machine["free"] for machine in machines]
        totals = [machine["total"] for machine in machines]
        return Room(
            sum(each["cpu"] for each in free),
            float(sum(each["memory_mb"] for each in free)),
            max((each["cpu"] for each in totals), default=0.0),
            float(max((each["memory_mb"] for each in totals), default=0)),
        )

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()


class RayScaler(Scaler):
    def __init__(self, link: BridgeLink, context: JobContext, *, ships_files: bool) -> None:
        """``ships_files``: programs start in a folder that Ray brings along."""
        self._link = link
        self._context = context
        self._ships_files = ships_files

    async def scale(self, plan: ScalePlan) -> list[Refusal]:
        for removal in plan.remove:
            await self._link.call("remove", removal.node, removal.grace)
        refused = []
        for launch in plan.launch:
            try:
                await self._link.call("launch", self._request(launch))
            except RayUnavailable as error:
                refused.append(Refusal(launch.node, error.message, unschedulable=True))
        return refused

    def _request(self, launch: NodeLaunch) -> dict[str, Any]:
        context = self._context
        node_dir = context.job_dir / "nodes" / launch.node
        environment = replace(
            launch.environment,
            job=context.job,
            job_dir=context.job_dir,
            node=launch.node,
            role=launch.role,
            master_addr=context.master_addr,
            master_file=context.job_dir / "master.json",
            token_file=context.token_file,
            tls_dir=context.tls_dir,
            node_dir=node_dir,
            log_file=context.job_dir / "logs" / f"{launch.node}.log",
            memory_mb=launch.resources.memory_mb,
            cpu=launch.resources.cpu,
            limits=LimitMode.AUTO,
        )
        command = {
            "argv": [PYTHON, "-P", "-m", "pliant.agent", "--", *launch.command],
            "sweep": [
                PYTHON,
                "-P",
                "-m",
                "pliant.platforms.ray.sweep",
                cgroup_job(context.job, context.job_dir),
                launch.node,
            ],
            "env": {**launch.env, **environment.to_env()},
            "working_dir": "" if self._ships_files else launch.working_dir,
            "log": str(context.job_dir / "logs" / "agents.log"),
            "cpu": launch.resources.cpu,
            "node_dir": str(node_dir),
            "ends_with": [],
        }
        return {
            "node": launch.node,
            "asked": launch.resources.to_json(),
            "avoid_hosts": list(launch.avoid_hosts),
            "options": {},
            "command": command,
        }


class RayWatcher(NodeWatcher):
    def __init__(self, link: BridgeLink) -> None:
        self._link = link

    async def list(self) -> list[NodeEvent]:
        return [_event(value) for value in await self._link.call("nodes")]

    async def watch(self) -> AsyncIterator[NodeEvent]:
        while True:
            yield _event(await self._link.watch())
            await asyncio.sleep(0)


def _event(value: Mapping[str, Any]) -> NodeEvent:
    if value["alive"]:
        return NodeEvent(value["node"], True, unschedulable=value["unschedulable"], host=value["host"])
    return NodeEvent(value["node"], False, ExitReason(value["exit_reason"]), value["message"])
