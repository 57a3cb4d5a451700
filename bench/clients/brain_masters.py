"""Masters that report to a Brain, many in one process: their real state, statistics and reporting code, without nodes or platform.

Each has a ``JobState`` with ten running nodes, periods and a planner, ``MemoryStats`` that is fed every five seconds as agents
would, a ``ReportBuilder`` and a ``BrainLink`` over a channel of its own. Offers are planned and then refused, so that their
outcomes are reported too. Journals are real but written to memory: those disks are on other machines.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pliant.core.errors import PliantError
from pliant.core.job_state import JobState
from pliant.core.planning.cluster.offer import grant_to_json
from pliant.core.planning.cluster.report import JobDescription, JobIdentity
from pliant.core.planning.past_jobs import Fingerprint
from pliant.core.planning.plan import ResourcePlan
from pliant.core.planning.samples import NodeUsage
from pliant.core.progress import StepReport, TrainingProgress
from pliant.master.assembly import planning_terms
from pliant.master.clock import SystemClock
from pliant.master.components.planning.brain_link import BrainLink
from pliant.master.components.planning.history import HistoryBuilder, Surroundings
from pliant.master.components.planning.report_builder import ReportBuilder
from pliant.master.components.stats import MemoryStats
from pliant.master.journal.journal import Journal
from pliant.master.journal.store import Batch, JournalStore, Recovered
from pliant.rpc.brain.access import BrainAccess, local_brain
from pliant.rpc.brain.channel import AsyncBrainClient
from pliant.rpc.brain.identity import Caller, job_token
from pliant.spec import JobSpec
from pliant.spec.state import initial_state

NAMESPACE = "bench"
NODES = 10
INTERVAL_S = 5.0
RECORDS = 500  # of a node in an interval, about
SETTLE_S = 120.0
CLOCK = SystemClock()


class MemoryStore(JournalStore):
    def load(self) -> Recovered:
        return Recovered(None, [], 0)

    def commit(self, batch: Batch) -> None:
        return

    def close(self) -> None:
        return


@dataclass
class Seen:
    """By all masters of this process, since the last order to measure."""

    seconds: list[float] = field(default_factory=list)  # of calls that were answered
    calls: int = 0
    failed: int = 0


class TimedClient(AsyncBrainClient):
    """Times reports; knows which the Brain has acknowledged."""

    def __init__(self, access: BrainAccess, seen: Seen) -> None:
        super().__init__(access)
        self._seen = seen
        self.records = 0  # of the last report that was acknowledged
        self.sequence = 0

    async def call(self, method: Callable[..., Any], request: Any, *, timeout: float = 10.0) -> Any:
        began = time.perf_counter()
        self._seen.calls += 1
        try:
            reply = await super().call(method, request, timeout=timeout)
        except PliantError:
            self._seen.failed += 1
            raise
        self._seen.seconds.append(time.perf_counter() - began)
        self.records, self.sequence = request.sample.records, reply.sequence
        return reply


class ReportingMaster:
    def __init__(self, name: str, brain: BrainAccess, seen: Seen) -> None:
        spec = JobSpec.from_dict(
            {
                "name": name,
                "roles": {"worker": {"command": ["train"], "replicas": f"2:{2 * NODES}"}},
                "optimize": {"mode": "cluster", "interval": INTERVAL_S},
            }
        )
        self.state: JobState = initial_state(spec)
        self.stats = MemoryStats(CLOCK, self.state)
        self.journal = Journal(MemoryStore(), CLOCK, self.state)
        self.nodes = self._start_nodes()
        self.history = HistoryBuilder(self.state, self.stats, planning_terms(spec))
        self.identity = JobIdentity(NAMESPACE, name, f"uid-{name}")
        mark = Fingerprint(spec.strategy, f"command of {name}", "train.py", name)
        description = JobDescription("bench", "", 0, False, "cluster", "local", (), mark)
        self.reports = ReportBuilder(self.identity, description, self.state, self.stats, CLOCK, self.history, session=1)
        access = BrainAccess(brain.address, job_token(brain.token, NAMESPACE, name), Caller(NAMESPACE, name), brain.ca)
        self.client = TimedClient(access, seen)
        self.link = BrainLink(
            self.client,
            self.identity,
            self.reports,
            self.journal,
            CLOCK,
            phase=lambda: "Running",
            interval_s=INTERVAL_S,
        )
        self._trained = dict.fromkeys(self.nodes, 0)  # records
        self._step = 0
        self.is_fed = True

    def _start_nodes(self) -> list[str]:
        book, do = self.state.nodes, self.journal.do
        assert book is not None
        do(book.scale, role="worker", replicas=NODES, reason="bench")
        do(book.start)
        names = [node.name for node in book.live()]
        for number, name in enumerate(names):
            do(book.accepted, node=name)
            do(book.registered, node=name, agent_pid=1000 + number, host=f"host-{number}")
            do(book.program_started, node=name, incarnation=book.get(name).incarnation, pid=2000 + number)
        return names

    async def run(self) -> None:
        await asyncio.sleep(random.uniform(0, INTERVAL_S))  # as jobs start whenever they do
        self.feed()
        await self.link.start()
        while True:
            await asyncio.sleep(INTERVAL_S)
            if self.is_fed:
                self.feed()
            await self.link.tick()
            self._plan()

    def feed(self) -> None:
        """What agents and programs report in an interval, and the planner's own sample of it."""
        now = CLOCK.now()
        self._step += 1
        for name in self.nodes:
            records = round(RECORDS * random.uniform(0.95, 1.05))
            self._trained[name] += records
            self.stats.add_records(name, records)
            usage = NodeUsage(now, random.uniform(0.7, 0.9), random.uniform(900, 1000), 4096.0, 1.0, 0.01)
            self.stats.collect_node_resource_usage(name, usage)
        for name in self.nodes:
            progress = StepReport(name, TrainingProgress(self._step), run=f"run of {name}", records=self._trained[name])
            self.stats.report_step(progress)
        periods, parts = self.state.periods, self.history.parts()
        assert periods is not None
        self.journal.do(
            periods.observe,
            configuration=self.history.running().to_json(),
            records=self.history.records(),
            parts=asdict(parts) if parts is not None else None,
            ready=self.history.is_ready(),
        )

    def _plan(self) -> None:
        """Offers and grants as a planner takes them, but whatever it plans is refused."""
        planner, now = self.state.planner, CLOCK.now()
        assert planner is not None
        for grant in self.link.take_grants():
            self.journal.do(planner.granted, grant=grant_to_json(grant))
        offers = self.link.offers()
        if not offers or not self.link.is_leading:
            return
        step = planner.next_step(self.history.build(now, Surroundings()), now, offers)
        if step is None:
            return
        made = self.journal.do(getattr(planner, step.method), **step.arguments)
        self.link.drop(str(step.arguments.get("origin") or step.arguments.get("offer") or ""))
        if isinstance(made, ResourcePlan):
            self.journal.do(planner.refused, plan=made.id, reason="a bench changes nothing")

    @property
    def counted(self) -> int:
        return self.stats.accepted_records()

    async def stop(self) -> None:
        await self.link.stop()
        await self.journal.close()


class Masters:
    def __init__(self, folder: Path) -> None:
        self._brain = local_brain(folder)
        self._seen = Seen()
        self._masters: list[ReportingMaster] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, first: int, masters: int, **_: Any) -> dict[str, Any]:
        for number in range(first, first + masters):
            self._masters.append(ReportingMaster(f"job-{number}", self._brain, self._seen))
        self._tasks = [asyncio.create_task(master.run()) for master in self._masters]
        return {"started": len(self._masters)}

    async def measure(self, seconds: float, **_: Any) -> dict[str, Any]:
        seen = self._seen
        seen.seconds, seen.calls, seen.failed = [], 0, 0
        before, cpu = sum(master.client.sequence for master in self._masters), time.process_time()
        await asyncio.sleep(seconds)
        return {
            **asdict(seen),
            "acknowledged": sum(master.client.sequence for master in self._masters) - before,
            "cpu": (time.process_time() - cpu) / seconds,
        }

    async def settle(self, **_: Any) -> dict[str, Any]:
        """Nothing new is fed, and everyone gets to report what there is."""
        for master in self._masters:
            master.is_fed = False
        deadline = time.monotonic() + SETTLE_S
        while any(master.client.records != master.counted for master in self._masters):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.2)
        return {
            "counted": sum(master.counted for master in self._masters),
            "acknowledged_records": sum(master.client.records for master in self._masters),
            "broken": sum(task.done() for task in self._tasks),
        }

    async def stop(self, **_: Any) -> dict[str, Any]:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(master.stop() for master in self._masters))
        return {}


async def main() -> None:
    masters = Masters(Path(sys.argv[1]))
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        answer = await getattr(masters, order.pop("do"))(**order)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
