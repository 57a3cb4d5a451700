"""A Ray cluster, through Ray's client: actors of one job made, watched, asked to stop and killed. Runs in the ``bridge``
process.

The truth about an actor is what Ray's control store (GCS) says of it, also after its death. ``follow`` awaits a call that
ends only with the actor, which tells of its death within milliseconds, and asks the store now and then, should that call be
lost.

A name is used once in a job's life. Ray forgets that once an actor is dead, so each node has a record in the job's folder:
written before its actor is made, completed with the actor's id, and with how it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray._private import state as ray_state
from ray._private import worker as ray_worker
from ray.core.generated import gcs_pb2
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pliant.core.nodes.fault_policy import ExitReason
from pliant.files.atomic import read_json, write_json
from pliant.platforms.ray.actor import CommandActor
from pliant.platforms.ray.deaths import DeathCause, classify, took_the_memory
from pliant.platforms.ray.names import MASTER, NAMESPACE, RECORD, NameTaken, actor_name, host_name

MB = 1 << 20
PENDING_SAID_S = 2.0  # a node that is pending for longer waits for room
RECONCILE_S = 5.0
FORCE_AFTER_S = 5.0  # beyond the grace, for an actor that does not end when asked
PREDECESSOR_S = 30.0
MAX_DRAIN_S = 600.0  # for a program to leave a machine that is drained without a deadline, or a far one
MAX_CALLS = 100  # at a time, of one actor
Event = dict[str, Any]
_ALIVE = ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING")


@dataclass(slots=True)
class Followed:
    node: str
    actor: Any
    asked: Mapping[str, Any]
    task: asyncio.Task[None] | None = None
    was_asked_to_stop: bool = False
    stop_asked_at: float | None = None
    host: str = ""
    ray_node: str = ""
    is_leaving: bool = False  # its machine is drained
    used_mb: float = 0.0  # when it was asked last


class RayCluster:
    def __init__(self, job: str, job_dir: Path, tell: Callable[[Event], None]) -> None:
        """``tell``: an event of a node, as ``link`` reads it."""
        self._job = job
        self._nodes_dir = job_dir / "nodes"
        self._tell = tell
        self._followed: dict[str, Followed] = {}
        self._make = ray.remote(CommandActor)

    # --- changes

    def launch(self, launch: Mapping[str, Any]) -> None:
        node = launch["node"]
        if node in self._followed:
            return
        record = self._record(node)
        if record is not None and (found := self._actor_info(node, record)) is not None:
            self._adopt_or_tell(node, record, found)
            return
        if record is not None and "actor" in record:  # it ended so long ago that Ray forgot it
            self._tell(self._end_by_record(node, ExitReason.KILLED, "its actor no longer exists"))
            return
        name = actor_name(self._job, node)
        if self._alive_by_name(name) is not None:
            raise ValueError(f"an actor {name} of another job of this name still runs")
        self._write(node, {"asked": launch["asked"]})
        actor = self._options(launch).remote(launch["command"])
        self._write(node, {"asked": launch["asked"], "actor": actor._ray_actor_id.hex()})
        self._follow(Followed(node, actor, launch["asked"]))

    def remove(self, node: str, grace: float) -> None:
        followed = self._followed.get(node)
        if followed is None:
            record = self._record(node)
            found = self._actor_info(node, record) if record is not None else None
            if record is None or found is None:
                self._tell(self._end(node, ExitReason.KILLED, "it was removed"))
                return
            self._adopt_or_tell(node, record, found)
            if (followed := self._followed.get(node)) is None:
                return
        followed.was_asked_to_stop = True
        now = time.monotonic()
        info = self._info_of(followed.actor)
        is_running = (
            info is not None and info.state == gcs_pb2.ActorTableData.ALIVE
        )  # a pending one has nothing to stop
        is_overdue = followed.stop_asked_at is not None and now > followed.stop_asked_at + grace + FORCE_AFTER_S
        if grace <= 0 or not is_running or is_overdue:
            ray.kill(followed.actor, no_restart=True)
        else:
            followed.stop_asked_at = followed.stop_asked_at or now
            followed.actor.stop.remote(grace)

    def nodes(self) -> list[Event]:
        """All nodes that have a record: actors of that name without one are another job's."""
        records = {path.parent.name: read_json(path) or {} for path in self._nodes_dir.glob(f"*/{RECORD}")}
        events = []
        for node, record in sorted(records.items()):
            if (followed := self._followed.get(node)) is not None:
                events.append(self._alive(node, followed.host))
                continue
            info = self._actor_info(node, record)
            if info is not None and _is_alive(info):
                self._adopt(node, record)
                events.append(self._alive(node, ""))
            elif info is not None:
                events.append(self._end_of(node, info, was_asked=False))
            elif "actor" in record:
                events.append(self._end_by_record(node, ExitReason.KILLED, "its actor no longer exists"))
        return events

    def start_master(self, launch: Mapping[str, Any]) -> None:
        """It comes back wherever Ray starts it again, and for as long as its command has not ended."""
        # On this machine while it is there, else on another: agents look up where it listens.
        name = actor_name(self._job, MASTER)
        deadline = time.monotonic() + PREDECESSOR_S
        while self._alive_by_name(name) is not None:  # the master of a job that has just ended lingers
            if time.monotonic() > deadline:
                raise NameTaken(f"a job named {self._job} is already running on this Ray cluster")
            time.sleep(0.1)
        options = self._make.options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            max_restarts=-1,
            num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True),
            max_concurrency=MAX_CALLS,
            **launch["options"],
        )
        ray.get(options.remote(launch["command"]).place.remote())

    def master_state(self) -> str:
        """As Ray names it; empty: there is none."""
        name = actor_name(self._job, MASTER)
        found = [info for info in self._all_actors() if info.name == name]
        states = [gcs_pb2.ActorTableData.ActorState.Name(info.state) for info in found]
        return next((state for state in states if state in _ALIVE), states[0] if states else "")

    def kill_all(self) -> None:
        """Nodes and master, at once."""
        for info in self._all_actors():
            if info.name.startswith(f"{self._job}/") and _is_alive(info):
                with contextlib.suppress(ValueError):  # it is gone
                    ray.kill(ray.get_actor(info.name, namespace=NAMESPACE), no_restart=True)

    def close(self) -> None:
        for followed in self._followed.values():
            if followed.task is not None:
                followed.task.cancel()

    # --- following

    def _follow(self, followed: Followed) -> None:
        self._followed[followed.node] = followed
        followed.task = asyncio.get_running_loop().create_task(self._until_gone(followed))

    async def _until_gone(self, followed: Followed) -> None:
        waiting = asyncio.ensure_future(_awaited(followed.actor.wait.remote()))
        placing = asyncio.get_running_loop().create_task(self._until_placed(followed))
        try:
            while not waiting.done():
                await asyncio.wait([waiting], timeout=RECONCILE_S)
                if not waiting.done() and followed.host:
                    await self._measure(followed)
                    self._leave_if_drained(followed)
                info = self._info_of(followed.actor)
                if info is not None and not _is_alive(info):
                    break
        finally:
            placing.cancel()
        ended: Mapping[str, Any] | None = None
        if waiting.done():
            with contextlib.suppress(ray.exceptions.RayError):
                ended = waiting.result()
        else:
            waiting.cancel()
        self._followed.pop(followed.node, None)
        if ended is not None:
            ray.kill(followed.actor, no_restart=True)  # its resources are free before its successor asks for them
            self._tell(self._end_of_command(followed.node, ended))
            return
        info = await self._dead_info(followed.actor)
        if info is None:
            self._tell(self._end_by_record(followed.node, ExitReason.KILLED, "its actor no longer exists"))
        else:
            others = [o.used_mb for o in self._followed.values() if o.host == followed.host]
            blamed = took_the_memory(followed.used_mb, int(followed.asked["memory_mb"]), others)
            self._tell(self._end_of(followed.node, info, was_asked=followed.was_asked_to_stop, took_memory=blamed))

    async def _measure(self, followed: Followed) -> None:
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            async with asyncio.timeout(RECONCILE_S):
                followed.used_mb = await _awaited(followed.actor.memory_mb.remote())

    @staticmethod
    def _leave_if_drained(followed: Followed) -> None:
        """A machine that the cluster is about to take away, with notice: the program is told in time to leave in good order."""
        if followed.is_leaving or followed.was_asked_to_stop:
            return
        deadline_ms = ray_state.state.get_draining_nodes().get(followed.ray_node)
        if deadline_ms is None:
            return
        left = deadline_ms / 1000 - time.time() if deadline_ms else MAX_DRAIN_S
        followed.is_leaving = True
        followed.actor.stop.remote(min(MAX_DRAIN_S, max(0.0, left - FORCE_AFTER_S)))

    async def _until_placed(self, followed: Followed) -> None:
        """Tell where it runs, or what it waits for."""
        placed = asyncio.ensure_future(_awaited(followed.actor.place.remote()))
        said = ""
        while not placed.done():
            await asyncio.wait([placed], timeout=PENDING_SAID_S)
            info = self._info_of(followed.actor)
            is_pending = info is not None and info.state == gcs_pb2.ActorTableData.PENDING_CREATION
            why = self._why_pending(followed.asked) if not placed.done() and is_pending else ""
            if why != said:
                said = why
                self._tell({**self._alive(followed.node, ""), "unschedulable": why})
        with contextlib.suppress(ray.exceptions.RayError):
            followed.host, followed.ray_node = placed.result()["host"], placed.result()["ray_node"]
            self._tell(self._alive(followed.node, followed.host))

    def _why_pending(self, asked: Mapping[str, Any]) -> str:
        """Empty: there is room, it is only being started."""
        wanted = _demand(asked)
        text = ", ".join(
            f"{amount / MB:.0f} MB" if kind == "memory" else f"{amount:g} {kind}" for kind, amount in wanted.items()
        )
        machines = [node for node in ray.nodes() if node["Alive"]]
        if not any(
            all(node["Resources"].get(kind, 0) >= amount for kind, amount in wanted.items()) for node in machines
        ):
            return f"{text} requested; no machine of the Ray cluster is large enough"
        free = ray_state.state.available_resources_per_node()
        if any(all(left.get(kind, 0) >= amount for kind, amount in wanted.items()) for left in free.values()):
            return ""
        return f"{text} requested; no machine of the Ray cluster has that free now"

    # --- what Ray knows

    def machines(self) -> list[dict[str, Any]]:
        """Totals and what is free, of those that live."""
        free = ray_state.state.available_resources_per_node()
        found = []
        for node in ray.nodes():
            if not node["Alive"]:
                continue
            total, left = node["Resources"], free.get(node["NodeID"], {})
            found.append(
                {
                    "host": host_name(node["NodeManagerAddress"], node["NodeID"]),
                    "ray_node": node["NodeID"],
                    "total": _amounts(total),
                    "free": _amounts(left),
                }
            )
        return found

    @staticmethod
    def dashboard_url() -> str:
        """host:port; empty: there is none."""
        return str(ray_worker.get_dashboard_url() or "")

    def actors(self) -> list[dict[str, Any]]:
        """All nodes and masters of all jobs that live, for a monitor."""
        found = []
        for info in self._all_actors():
            job, _, node = info.name.partition("/")
            if node and _is_alive(info):
                phase = gcs_pb2.ActorTableData.ActorState.Name(info.state)
                machine = host_name(info.address.ip_address, info.node_id.hex()) if info.node_id else ""
                asked = _amounts(dict(info.required_resources))
                found.append({"job": job, "node": node, "phase": phase, "machine": machine, "asked": asked})
        return found

    def _all_actors(self) -> list[Any]:
        tables = _accessor().get_actor_table(None, None)
        infos = (gcs_pb2.ActorTableData.FromString(data) for data in tables)
        return [info for info in infos if info.ray_namespace == NAMESPACE]

    def _info_of(self, actor: Any) -> Any:
        return self._info_by_id(actor._ray_actor_id)

    @staticmethod
    def _info_by_id(actor_id: Any) -> Any:
        data = _accessor().get_actor_info(actor_id)
        return gcs_pb2.ActorTableData.FromString(data) if data is not None else None

    def _actor_info(self, node: str, record: Mapping[str, Any]) -> Any:
        if "actor" in record:
            return self._info_by_id(ray.ActorID.from_hex(record["actor"]))
        return self._alive_by_name(actor_name(self._job, node))  # the master died between making it and writing its id

    def _alive_by_name(self, name: str) -> Any:
        return next((info for info in self._all_actors() if info.name == name and _is_alive(info)), None)

    async def _dead_info(self, actor: Any) -> Any:
        """The call that awaited it may hear of its death before the store shows it."""
        deadline = time.monotonic() + RECONCILE_S
        while (info := self._info_of(actor)) is not None and _is_alive(info) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        return info

    # --- records and events

    def _adopt_or_tell(self, node: str, record: Mapping[str, Any], info: Any) -> None:
        if _is_alive(info):
            self._adopt(node, record)
        else:
            self._tell(self._end_of(node, info, was_asked=False))

    def _adopt(self, node: str, record: Mapping[str, Any]) -> None:
        try:
            actor = ray.get_actor(actor_name(self._job, node), namespace=NAMESPACE)
        except ValueError:  # it ended just now
            self._tell(self._end_by_record(node, ExitReason.KILLED, "its actor no longer exists"))
            return
        asked = record.get("asked") or {"cpu": 0.0, "memory_mb": 0, "gpu": 0}
        self._follow(Followed(node, actor, asked))

    def _end_of(self, node: str, info: Any, *, was_asked: bool, took_memory: bool = False) -> Event:
        if (left := self._exit_record(node)) is not None:
            return self._end(node, ExitReason(left["exit_reason"]), left["message"])
        reason, message = classify(_cause_of(info), was_asked=was_asked, took_memory=took_memory)
        return self._end(node, reason, message)

    def _end_of_command(self, node: str, ended: Mapping[str, Any]) -> Event:
        left = ended["exit"]
        if left is not None:
            return self._end(node, ExitReason(left["exit_reason"]), left["message"])
        code = int(ended["code"])
        if code == 128 + 15:
            return self._end(node, ExitReason.PREEMPTED, "preempted before its agent was ready")
        if code > 128:
            return self._end(node, ExitReason.KILLED, f"its agent was killed by signal {code - 128}")
        return self._end(node, ExitReason.UNKNOWN, f"its agent ended with exit code {code}; check agents.log")

    def _end_by_record(self, node: str, reason: ExitReason, message: str) -> Event:
        left = self._exit_record(node)
        return self._end(
            node, ExitReason(left["exit_reason"]) if left else reason, left["message"] if left else message
        )

    def _exit_record(self, node: str) -> dict[str, Any] | None:
        return read_json(self._nodes_dir / node / "exit.json")

    def _record(self, node: str) -> dict[str, Any] | None:
        return read_json(self._nodes_dir / node / RECORD)

    def _write(self, node: str, record: Mapping[str, Any]) -> None:
        (self._nodes_dir / node).mkdir(parents=True, exist_ok=True)
        write_json(self._nodes_dir / node / RECORD, dict(record))

    @staticmethod
    def _alive(node: str, host: str) -> Event:
        return {"node": node, "alive": True, "host": host, "unschedulable": ""}

    @staticmethod
    def _end(node: str, reason: ExitReason, message: str) -> Event:
        return {"node": node, "alive": False, "exit_reason": reason.value, "message": message}

    def _options(self, launch: Mapping[str, Any]) -> Any:
        asked, options = launch["asked"], dict(launch["options"])
        avoided = {node["ray_node"] for node in self.machines() if node["host"] in launch["avoid_hosts"]}
        if avoided:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(avoided))})"}
        return self._make.options(
            name=actor_name(self._job, launch["node"]),
            namespace=NAMESPACE,
            lifetime="detached",
            max_restarts=0,
            num_cpus=asked["cpu"],
            num_gpus=asked["gpu"] or None,
            memory=asked["memory_mb"] * MB or None,
            max_concurrency=MAX_CALLS,
            **options,
        )


def _accessor() -> Any:
    ray_state.state._connect_and_get_accessor()
    return ray_state.state._global_state_accessor


def _is_alive(info: Any) -> bool:
    return bool(info.state != gcs_pb2.ActorTableData.DEAD)


def _cause_of(info: Any) -> DeathCause:
    cause = info.death_cause
    kind = cause.WhichOneof("context")
    if kind == "creation_task_failure_context":
        return DeathCause("CREATION_FAILED", cause.creation_task_failure_context.formatted_exception_string)
    if kind == "runtime_env_failed_context":
        return DeathCause("RUNTIME_ENV", cause.runtime_env_failed_context.error_message)
    if kind == "oom_context":
        return DeathCause("OOM", cause.oom_context.error_message)
    if kind == "actor_died_error_context":
        died = cause.actor_died_error_context
        reason = type(died).Reason.Name(died.reason) if hasattr(type(died), "Reason") else str(died.reason)
        return DeathCause(reason, died.error_message, bool(info.preempted))
    return DeathCause(str(kind or ""), "")


def _demand(asked: Mapping[str, Any]) -> dict[str, float]:
    wanted = {"CPU": asked["cpu"], "memory": asked["memory_mb"] * MB, "GPU": asked["gpu"]}
    return {kind: float(amount) for kind, amount in wanted.items() if amount}


def _amounts(resources: Mapping[str, float]) -> dict[str, Any]:
    return {
        "cpu": float(resources.get("CPU", 0.0)),
        "memory_mb": int(resources.get("memory", 0.0) / MB),
        "gpu": int(resources.get("GPU", 0)),
    }


async def _awaited(reference: Any) -> Any:
    return await reference
