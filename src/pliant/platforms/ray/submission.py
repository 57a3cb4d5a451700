"""A job's master on a Ray cluster: started as a detached actor, asked for, and ended with all of the job's actors.

For whoever submits a job or looks after one; each call starts a client of Ray and ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant.core.nodes.environment import without_node_variables
from pliant.files.atomic import read_json, write_json
from pliant.platforms.ray.addresses import check_listening
from pliant.platforms.ray.link import BridgeLink
from pliant.platforms.ray.names import RECORD

ENDS_WITH = (0, 1)  # of the supervisor: the job is over, or no master can serve it (``master/supervisor.py``)
KEPT = ("PLIANT_HOME", "PLIANT_NAMESPACE")  # of the environment of whoever submits


def start_master(job: str, job_dir: Path, address: str, runtime_env: Mapping[str, Any], env: Mapping[str, str]) -> None:
    """Returns once its actor runs. ``env``: the environment of whoever submits."""
    found = check_listening(address)
    command = {
        "argv": [
            "{python}",
            "-P",
            "-m",
            "pliant.master.supervisor",
            "--job-dir",
            str(job_dir),
            "--start",
            "--host",
            "{address}",
        ],
        "sweep": [],
        "env": {name: value for name, value in without_node_variables(env).items() if name in KEPT},
        "working_dir": "",
        "log": str(job_dir / "logs" / "master.log"),
        "cpu": 0.0,
        "node_dir": None,
        "ends_with": ENDS_WITH,
    }
    asyncio.run(
        _start(BridgeLink(found, job, job_dir, runtime_env), found, job_dir, {"options": {}, "command": command})
    )


async def _start(link: BridgeLink, address: str, job_dir: Path, launch: Mapping[str, Any]) -> None:
    """The record comes first: the master starts its nodes with the files that were uploaded here, on whatever machine it runs."""
    try:
        await link.connect()
        write_json(job_dir / RECORD, {"address": address, "runtime_env": link.runtime_env})
        await link.call("start_master", launch)
    finally:
        await link.close()


def master_state(job: str, job_dir: Path) -> str:
    """Of the actor, as Ray names it; empty: there is none."""
    return str(asyncio.run(_call(_address(job_dir), job, job_dir, {}, "master_state")))


def kill_all(job: str, job_dir: Path) -> None:
    asyncio.run(_call(_address(job_dir), job, job_dir, {}, "kill_all"))


def _address(job_dir: Path) -> str:
    return str((read_json(job_dir / RECORD) or {}).get("address", "auto"))


async def _call(address: str, job: str, job_dir: Path, runtime_env: Mapping[str, Any], name: str, *given: Any) -> Any:
    link = BridgeLink(address, job, job_dir, runtime_env)
    try:
        return await link.call(name, *given)
    finally:
        await link.close()
