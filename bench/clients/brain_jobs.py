"""Jobs that report to a Brain as plain clients do, so that a thousand of them cost little, and new ones that wait for their offer.

What they send is a real report of a master with ten nodes (``brain_masters.py``), with other names, times and counts.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from brain_masters import INTERVAL_S, NAMESPACE, NODES, RECORDS, ReportingMaster, Seen

from pliant.core.errors import PliantError
from pliant.core.planning.cluster.offer import Offer
from pliant.master.components.planning.history import Surroundings
from pliant.rpc import brain_pb2 as bp
from pliant.rpc.brain.access import BrainAccess, local_brain
from pliant.rpc.brain.channel import AsyncBrainClient
from pliant.rpc.brain.identity import PROTOCOL, Caller, credentials, job_token
from pliant.rpc.brain.messages import brain_message_from, report_message

CHANNELS = 20
TIMEOUT_S = 60.0
SETTLE_S = 10.0  # after the last job's first report
PAUSE_S = 0.5  # between two tries


class Jobs:
    def __init__(self, folder: Path) -> None:
        self._brain = local_brain(folder)
        self._clients = [AsyncBrainClient(self._brain) for _ in range(CHANNELS)]
        self._first, self._next = bp.ReportRequest(), bp.ReportRequest()
        self._tasks: list[asyncio.Task[None]] = []
        self._spent: list[float] = []
        self._failed = 0

    async def start(self, jobs: int, **_: Any) -> dict[str, Any]:
        self._first, self._next = await templates(self._brain)
        begun = [asyncio.Event() for _ in range(jobs)]
        self._tasks = [asyncio.create_task(self._report_on(number, begun[number])) for number in range(jobs)]
        for event in begun:
            await event.wait()
        await asyncio.sleep(SETTLE_S)
        return {}

    async def _report_on(self, number: int, begun: asyncio.Event) -> None:
        await asyncio.sleep(random.uniform(0, INTERVAL_S))
        name, sequence = f"other-{number}", 0
        request, client = bp.ReportRequest(), self._clients[number % CHANNELS]
        headers = credentials(job_token(self._brain.token, NAMESPACE, name), Caller(NAMESPACE, name))
        due = time.monotonic()
        while True:
            sequence += 1
            request.CopyFrom(self._first if sequence == 1 else self._next)
            stamp(request, name, sequence)
            began = time.perf_counter()
            try:
                await client.stubs.planning.Report(request, metadata=headers, timeout=10.0)
                self._spent.append(time.perf_counter() - began)
            except Exception:  # noqa: BLE001  # counted; a report that got no answer is lost here
                self._failed += 1
            begun.set()
            due += INTERVAL_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def probe(self, tries: int, **_: Any) -> dict[str, Any]:
        first = (await self._try("first"))[0]  # starts the process that algorithms run in
        self._spent, self._failed = [], 0
        seconds, reports = [], []
        for number in range(tries):
            offered, answered = await self._try(f"new-{number}")
            seconds.append(offered)
            reports.append(answered)
            await asyncio.sleep(PAUSE_S)
        return {
            "first": first,
            "seconds": seconds,
            "reports": reports,
            "others": self._spent,
            "failed": self._failed,
        }

    async def _try(self, name: str) -> tuple[float, float]:
        """Seconds from the first report until its offer is there, and until the report is answered."""
        token = job_token(self._brain.token, NAMESPACE, name)
        access = BrainAccess(self._brain.address, token, Caller(NAMESPACE, name), self._brain.ca)
        client, request = AsyncBrainClient(access), bp.ReportRequest()
        request.CopyFrom(self._first)
        for part in ("nodes", "samples", "periods"):
            request.ClearField(part)
        history = json.loads(request.history)
        request.history = json.dumps({**history, "nodes": []}).encode()
        stamp(request, name, 1)
        follow = bp.FollowRequest(protocol=PROTOCOL, job=request.job)
        arrived = asyncio.create_task(self._offer(client, follow))
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await asyncio.sleep(0.1)  # the stream is open
                began = time.perf_counter()
                await client.call(client.stubs.planning.Report, request)
                answered = time.perf_counter() - began
                return await arrived - began, answered
        finally:
            arrived.cancel()
            await client.close()

    async def _offer(self, client: AsyncBrainClient, follow: bp.FollowRequest) -> float:
        async for message in client.stream(client.stubs.planning.Follow, follow):
            content = brain_message_from(message)
            if content is not None and isinstance(content.content, Offer):
                return time.perf_counter()
        raise RuntimeError("the Brain has ended the stream")

    async def stop(self, **_: Any) -> dict[str, Any]:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            await client.close()
        return {}


def stamp(request: bp.ReportRequest, name: str, sequence: int) -> None:
    """Make it the report of that job, of now."""
    now = time.time()
    request.job.CopyFrom(bp.JobIdentity(namespace=NAMESPACE, name=name, uid=f"uid-{name}"))
    request.sequence, request.time, request.sample.time = sequence, now, now
    request.sample.records = RECORDS * NODES * sequence
    for sample in request.samples:
        sample.time, sample.records = now, RECORDS * sequence


async def templates(brain: BrainAccess) -> tuple[bp.ReportRequest, bp.ReportRequest]:
    """The first and the second report of a master."""
    master = ReportingMaster("template", brain, Seen())
    found = []
    for is_led in (False, True):
        master.feed()
        master.reports.sample()
        report = master.reports.next("Running", Surroundings(), is_led=is_led, taught=None)
        found.append(report_message(report))
        master.reports.answered(wants_all=False)
        await asyncio.sleep(INTERVAL_S + 0.1)
    await master.stop()
    return found[0], found[1]


async def main() -> None:
    jobs = Jobs(Path(sys.argv[1]))
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        try:
            answer = await getattr(jobs, order.pop("do"))(**order)
        except (PliantError, TimeoutError) as error:
            sys.exit(f"{error!r}")
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
