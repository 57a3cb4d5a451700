"""The actor that a node is, and the one that keeps a job's master: a command on a machine of the cluster.

The command runs behind a ``leash``, so nothing of it is left when the actor ends, however that comes. It is started when the
actor is made, not by a call: a client that dies in between leaves no actor without a program. ``wait`` is a call that never
ends before the command does; who awaits it hears of the actor's death at once, with its cause. A command that ended takes
its actor along; one that must be kept alive (the master's supervisor) and was killed is started again by Ray, with the actor.

This class runs in Ray's workers, which import it from the installed package. It is an asyncio actor, so calls do not wait
for another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import ray

from pliant.core.nodes.environment import variable_of, without_node_variables
from pliant.platforms.ray import leash
from pliant.platforms.ray.names import host_name

LINGER_S = 3.0  # of an actor whose command has ended: whoever waits for it gets the answer
FORCE_AFTER_S = 2.0  # beyond the grace, for an agent that is frozen itself
PYTHON, ADDRESS = "{python}", "{address}"  # in a command: of the machine
THREADS = "OMP_NUM_THREADS"  # Ray sets it to 1 for an actor that asks for no CPU
WORKER_VARIABLES = frozenset({"RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_RUNTIME_ENV_HASH", THREADS})


class CommandActor:
    """``launch``: argv, sweep, env, working_dir, log, cpu, node_dir and ends_with (the exit codes after which the command is not
    started again; none: after any), as ``platform`` and ``submission`` make it."""

    def __init__(self, launch: Mapping[str, Any]) -> None:
        context = ray.get_runtime_context()
        self._ray_node = context.get_node_id()
        self._address = ray.util.get_node_ip_address()
        self._node_dir = Path(launch["node_dir"]) if launch.get("node_dir") else None
        self._ends_with = tuple(launch["ends_with"])
        hear, self._hold = os.pipe()
        try:
            self._leash = self._start(launch, hear, context.gcs_address)
        finally:
            os.close(hear)
        self._stop_grace: float | None = None
        itself = context.current_actor
        threading.Thread(target=self._end_with_command, args=(itself,), name="end", daemon=True).start()

    async def place(self) -> dict[str, Any]:
        """Where it runs. It answers, so the command was started."""
        host = host_name(self._address, self._ray_node)
        return {"host": host, "address": self._address, "ray_node": self._ray_node, "pid": os.getpid()}

    async def wait(self) -> dict[str, Any]:
        """Until the command has ended, with all that it started."""
        code = await asyncio.to_thread(self._leash.wait)
        return {"code": 128 - code if code < 0 else code, "exit": self._read_exit()}

    async def memory_mb(self) -> float:
        """Of all that it started."""
        used = 0
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self._leash.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    used += process.memory_info().rss
        return used / (1 << 20)

    async def stop(self, grace: float) -> None:
        """SIGTERM to the command, and after the grace period SIGKILL. May be repeated."""
        if self._stop_grace is not None and grace >= self._stop_grace:
            return
        if self._stop_grace is None:
            self._leash.send_signal(signal.SIGTERM)
        self._stop_grace = grace
        asyncio.get_running_loop().call_later(grace + FORCE_AFTER_S, self._force)

    def _force(self) -> None:
        """The end of the pipe is the end of all that runs."""
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1

    def _start(self, launch: Mapping[str, Any], pipe: int, gcs_address: str) -> subprocess.Popen[bytes]:
        mine = {variable_of("host"): host_name(self._address, self._ray_node), variable_of("address"): self._address}
        kept = {name: value for name, value in os.environ.items() if name not in WORKER_VARIABLES}
        env = {**without_node_variables(kept), "PYTHONUNBUFFERED": "1", "RAY_ADDRESS": gcs_address}
        if launch["cpu"] >= 1:
            env[THREADS] = str(int(launch["cpu"]))
        places = {PYTHON: sys.executable, ADDRESS: self._address}
        command = [places.get(part, part) for part in launch["argv"]]
        sweep = [places.get(part, part) for part in launch["sweep"]]
        folder = launch["working_dir"]
        with open(launch["log"], "ab") as output:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", leash.__file__, str(pipe), "0", str(len(sweep)), *sweep, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**env, **launch["env"], **mine},
                cwd=folder or None,
                pass_fds=(pipe,),
                start_new_session=True,  # Ray kills the process group of a worker that died, before anything is swept
            )

    def _end_with_command(self, itself: Any) -> None:
        """Whether or not anybody waits: what it asked for is free again."""
        code = self._leash.wait()
        time.sleep(LINGER_S)
        if self._ends_with and code not in self._ends_with:
            os._exit(1)  # Ray starts the actor again, here or on another machine
        ray.kill(itself, no_restart=True)

    def _read_exit(self) -> dict[str, Any] | None:
        """What the agent wrote as its last act."""
        if self._node_dir is None:
            return None
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self._node_dir / "exit.json").read_text())
            return found
        return None
