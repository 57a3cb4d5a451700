"""The two sides of ``bench/idle.py --only nodes``: a master whose platform is a fake, and the agents of all its nodes.

The agents are the real ``MasterLink`` with a connection each, and no program: to sample one would cost the agent, not the master.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from pliant.agent.limits import NodeLimits
from pliant.agent.master_link import MasterLink
from pliant.agent.program_runner import ProgramRunner
from pliant.agent.rank_assignment import GroupSlot
from pliant.agent.stop_request import StopRequest
from pliant.core.nodes.environment import NodeEnvironment
from pliant.master.job_dir import JobDir
from pliant.master.services import nodes as nodes_service
from pliant.rpc.channel import AsyncMasterClient
from pliant.testing import RunningMaster

AT_ONCE = 50  # registrations


def serve(home: Path, nodes: int) -> None:
    """Says when it serves; then a line in is answered with the number of heartbeats so far."""
    count = 0
    inner = nodes_service.NodesServicer.Heartbeat

    async def counted(self, request, context):  # type: ignore[no-untyped-def]
        nonlocal count
        count += 1
        return await inner(self, request, context)

    nodes_service.NodesServicer.Heartbeat = counted  # type: ignore[method-assign]
    roles = {"worker": {"replicas": nodes, "command": ["true"], "resources": {"cpu": 0.1, "memory": "64Mi"}}}
    with RunningMaster(home, {"roles": roles}):
        print("ready", flush=True)
        for _ in sys.stdin:
            print(count, flush=True)


def link_of(job: JobDir, name: str) -> tuple[MasterLink, AsyncMasterClient]:
    own = replace(NodeEnvironment(), job="tested", node=name, role="worker", log_file=job.logs / f"{name}.log")
    slot = GroupSlot()
    stop = StopRequest(own.grace, slot.wake)
    limits = NodeLimits(own)
    runner = ProgramRunner(own, ["true"], job.logs / f"{name}.log", limits, slot, stop)
    master = AsyncMasterClient(job.address())
    return MasterLink(own, master, runner, limits, slot, stop), master


async def agents(home: Path, nodes: int) -> None:
    job = JobDir(home / "job")
    gate = asyncio.Semaphore(AT_ONCE)
    links = [link_of(job, f"worker-{number}") for number in range(nodes)]

    async def register(number: int, link: MasterLink) -> None:
        async with gate:
            assert await link.register()
            await link.program_started(100_000 + number)

    await asyncio.gather(*(register(number, link) for number, (link, _) in enumerate(links)))
    beating = [asyncio.create_task(link.send_heartbeats()) for link, _ in links]
    print("ready", flush=True)
    await asyncio.gather(*beating)


if __name__ == "__main__":
    kind, folder, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    if kind == "master":
        serve(folder, number)
    else:
        asyncio.run(agents(folder, number))
