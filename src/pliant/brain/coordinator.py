"""Plans for all running jobs: the shell around an administor per job, the optimize processor and the algorithm executor.

Reports come in (after they are in the database), offers and grants go out (after they are). Invariants:

- What a master is sent is in the database before, fenced by the term of this Brain: one that lost its lease sends nothing.
- One event per job is dealt with at a time, and never more than ``MAX_AT_ONCE`` over all jobs; a job whose algorithms take long
  does not hold up others.
- A proposal is checked against the bounds of the job, narrowed by its grant, before it is offered; the master checks it again.
- A job that was not heard of for ``GONE_S`` while a Brain listened is forgotten here, and counts no more against its quota; at its
  next report it is asked to say everything, and is known again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

from pliant.brain.administor import Administor, AdministorState, ReportedState
from pliant.brain.executor.algorithm_executor import AlgorithmExecutor
from pliant.brain.executor.results import Execution, RunResult
from pliant.brain.job_view import JobView
from pliant.brain.optimize_events import EventKind, OptimizeEvent
from pliant.brain.processor import chain_of
from pliant.brain.quota_sharing import QuotaSharing
from pliant.brain.store import cluster, events, jobs, past_jobs, plans, quotas
from pliant.brain.store.database import Database
from pliant.brain.store.errors import FencedOff
from pliant.brain.subscribers import Subscribers
from pliant.core.errors import CorruptData, NotFound, PliantError
from pliant.core.planning.cluster.limits import excess, within_grant
from pliant.core.planning.cluster.offer import BrainMessage, Grant, NothingToDo, Offer
from pliant.core.planning.cluster.report import JobIdentity, JobReport
from pliant.core.planning.history import JobHistory, Room
from pliant.core.planning.proposal import Proposal
from pliant.core.planning.registry import algorithm_names

log = logging.getLogger(__name__)

MAX_AT_ONCE = 16  # events
OFFER_HOLDS_S = 120.0
GONE_S = 600.0  # without a report
ROOM_S = 5.0  # for which what the monitors saw is used
SHARE_S = 2.0  # between two looks at the quotas
MAX_SIMILAR = 20


class Coordinator:
    def __init__(
        self,
        database: Database,
        executor: AlgorithmExecutor,
        term: Callable[[], int],
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._executor, self._term = database, executor, term
        self._clock, self._monotonic = clock, monotonic
        self._jobs: dict[JobIdentity, JobView] = {}
        self._administors: dict[JobIdentity, Administor] = {}
        self._sharing = QuotaSharing()
        self.subscribers = Subscribers()
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)
        self._rooms: dict[str, tuple[float, Room | None]] = {}
        self._share_now = asyncio.Event()
        self.fenced_off: Callable[[], None] = lambda: None
        self.offered = 0
        self.failed_runs = 0

    # --- reading

    @property
    def views(self) -> list[JobView]:
        return list(self._jobs.values())

    def state_of(self, job: JobIdentity) -> AdministorState | None:
        found = self._administors.get(job)
        return found.state if found is not None else None

    # --- life

    async def load(self) -> None:
        """What the database has of running jobs: this Brain has just become the active one."""
        mono = self._monotonic()
        granted = await asyncio.to_thread(quotas.last_grants, self._database)
        running = await asyncio.to_thread(jobs.running_jobs, self._database)
        was_alive = max((stored.last_heard_at for stored in running), default=0.0)  # some Brain, not this one
        for stored in running:
            if was_alive - stored.last_heard_at > GONE_S:
                continue
            try:
                await self._load_one(stored, granted.get(stored.identity), mono)
            except CorruptData as error:  # it is asked to say everything at its next report
                log.error("what the database has of job %s cannot be used: %s", stored.identity, error)
        known_quotas = await asyncio.to_thread(quotas.list_quotas, self._database)
        self._sharing.restore(self._clock(), known_quotas, self.views)
        log.info("%d running jobs are known", len(self._jobs))

    async def _load_one(self, stored: jobs.StoredJob, granted: Grant | None, mono: float) -> None:
        view = JobView(stored.identity, stored.description, stored.first_heard_at)
        view.phase, view.session, view.sequence = stored.phase, stored.session, stored.sequence
        view.heard_at, view.master_time = mono, stored.sample.time
        history = await asyncio.to_thread(jobs.history_of, self._database, stored)
        if history is not None:
            view.history, view.similar = replace(history, periods=(), similar=()), history.similar
        for numbered in await asyncio.to_thread(jobs.periods_of, self._database, stored.id):
            view.periods[numbered.number] = numbered.period
        for node in await asyncio.to_thread(jobs.nodes_of, self._database, stored.id):
            view.nodes[node.name] = node
        view.granted = granted
        known = await asyncio.to_thread(events.events_of, self._database, stored.id)
        self._jobs[view.identity] = view
        self._administors[view.identity] = Administor(has_begun=any(event.ended_at for event in known))

    async def run(self) -> None:
        """Look after quotas and jobs that fell silent, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SHARE_S):
                    await self._share_now.wait()
            self._share_now.clear()
            try:
                self._forget_silent()
                await self._share()
            except FencedOff:
                self.fenced_off()
                return
            except PliantError as error:
                log.warning("cannot share quotas now: %s", error)

    async def close(self) -> None:
        self.subscribers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- reports

    async def reported(self, report: JobReport) -> bool:
        """Of a report that is in the database. False: nothing is known here of its job, which has to say everything."""
        view = self._jobs.get(report.job)
        if view is None:
            if report.description is None:
                return False
            self._replace_former(report.job)
            view = JobView(report.job, report.description, self._clock(), heard_at=self._monotonic())
            self._jobs[report.job] = view
            self._administors[report.job] = Administor()
            with suppress(PliantError):
                mark = report.description.fingerprint
                view.similar = await asyncio.to_thread(past_jobs.similar_jobs, self._database, mark, MAX_SIMILAR)
            self._share_now.set()
        is_new_session = view.session != report.session
        view.take(report, self._monotonic())
        if view.is_over:
            self._end(view)
            return True
        if self._sharing.reported(self._clock(), view) or is_new_session:
            self._share_now.set()
        administor = self._administors[report.job]
        reported = ReportedState(view.phase, view.session, view.planner, await self._history(view), report.plans)
        self._begin(view, administor.reported(view.master_now(self._monotonic()), reported))
        return True

    def _replace_former(self, job: JobIdentity) -> None:
        """A job of the same name was made anew: the former one is over."""
        for other in [each for each in self._jobs.values() if str(each.identity) == str(job)]:
            self._end(other)

    def _end(self, view: JobView) -> None:
        self._jobs.pop(view.identity, None)
        self._administors.pop(view.identity, None)
        self._sharing.ended(self._clock(), view)
        self._share_now.set()

    def _forget_silent(self) -> None:
        for view in self.views:
            if self._monotonic() - view.heard_at > GONE_S:
                log.warning("job %s was silent for %.0f s: it is taken for gone", view.identity, GONE_S)
                self._end(view)

    # --- events

    async def _history(self, view: JobView) -> JobHistory | None:
        """With what is granted as bounds; None: the Brain does not plan for this job."""
        history = view.full_history(await self._room(view)) if view.is_planned else None
        if history is None:
            return None
        grant = self._sharing.grant_of(view) or view.granted
        return replace(history, bounds=within_grant(history.bounds, grant))

    async def _room(self, view: JobView) -> Room | None:
        name, now = view.description.platform, self._monotonic()
        at, room = self._rooms.get(name, (float("-inf"), None))
        if now - at > ROOM_S:
            room = None
            with suppress(PliantError):
                room = await asyncio.to_thread(cluster.free_room, self._database, name)
            self._rooms[name] = (now, room)
        return room

    def _begin(self, view: JobView, event: OptimizeEvent | None) -> None:
        if event is None:
            return
        task = asyncio.create_task(self._deal_with(view, event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deal_with(self, view: JobView, event: OptimizeEvent) -> None:
        administor = self._administors.get(view.identity)
        if administor is None:
            return
        try:
            async with self._slots:
                offer = await self._offer(view, event)
        except FencedOff:
            self.fenced_off()
            return
        except PliantError as error:
            log.warning("cannot deal with %s of job %s: %s", event.kind.value, view.identity, error)
            administor.failed(self._master_now(view))
            return
        except Exception:
            log.exception("internal error while dealing with %s of job %s", event.kind.value, view.identity)
            administor.processed(self._master_now(view))
            return
        now = self._master_now(view)
        if offer is not None:
            administor.processed(now, offer=offer.id, holds_s=offer.holds_s)
            self.offered += 1
            self._send(view.identity, offer)
        else:
            administor.processed(now)
            if event.kind is EventKind.CREATED:
                self._send(view.identity, NothingToDo("nothing is known of jobs like this one"))

    async def _offer(self, view: JobView, event: OptimizeEvent) -> Offer | None:
        raised = events.StoredEvent(uuid4().hex, view.identity, event.kind.value, event.facts, self._clock())
        term = self._term()
        await asyncio.to_thread(events.store_event, self._database, raised, term=term)
        history = await self._history(view)
        if history is not None and event.kind is EventKind.CREATED and view.description.platform == "local":
            history = replace(history, room=None)  # what is free now is no limit for each node
        chain = chain_of(event.kind, _installed(view.description.algorithms))
        if history is None or not chain:
            await self._end_event(raised.id, "nothing to ask", term)
            return None
        execution = await self._executor.run(chain, history, self._master_now(view), job=view.key)
        offer = self._checked(view, raised.id, history, execution.proposal)
        await self._note_runs(view, raised.id, execution, offer, term)
        if offer is None:
            await self._end_event(raised.id, "nothing to change", term)
            return None
        made = self._clock()
        await asyncio.to_thread(
            plans.store_offer, self._database, view.identity, offer, made, made + offer.holds_s, term=term
        )
        await self._end_event(raised.id, "offered", term)
        return offer

    def _checked(self, view: JobView, event: str, history: JobHistory, proposal: Proposal | None) -> Offer | None:
        """The executor has checked it against the history; here against the quota, which may have changed meanwhile."""
        if proposal is None or (proposal.configuration == history.configuration and not _does_something(proposal)):
            return None
        grant = self._sharing.grant_of(view) or view.granted
        is_growth = proposal.configuration.cpu > history.configuration.cpu
        if is_growth and (over := excess(proposal.configuration, grant)):
            log.info("a proposal for job %s would take %s", view.identity, over)
            return None
        return Offer(uuid4().hex, proposal, history.version, OFFER_HOLDS_S, event)

    async def _note_runs(self, view: JobView, event: str, execution: Execution, offer: Offer | None, term: int) -> None:
        began = self._clock()
        for run in execution.runs:
            if run.result is RunResult.NOTHING:
                continue
            self.failed_runs += run.result.is_failure
            if run.result.is_failure:
                log.warning(
                    "algorithm %s for job %s: %s %s", run.algorithm, view.identity, run.result.value, run.message
                )
            is_chosen = offer is not None and run.algorithm == offer.proposal.algorithm
            stored = events.AlgorithmRun(
                *(view.identity, event, run.algorithm, began, run.seconds, run.result.value, run.message),
                offer=offer.id if offer is not None and is_chosen else "",
            )
            await asyncio.to_thread(events.store_run, self._database, stored, term=term)

    async def _end_event(self, event: str, outcome: str, term: int) -> None:
        await asyncio.to_thread(events.end_event, self._database, event, outcome, self._clock(), term=term)

    def _master_now(self, view: JobView) -> float:
        return view.master_now(self._monotonic())

    # --- quotas

    async def _share(self) -> None:
        known = await asyncio.to_thread(quotas.list_quotas, self._database)
        for view, grant in await self._sharing.share(self._clock(), known, self.views):
            if view.identity not in self._jobs:
                continue
            await asyncio.to_thread(
                quotas.store_grant, self._database, view.identity, grant, self._clock(), term=self._term()
            )
            self._sharing.sent(view, grant)
            self._send(view.identity, grant)

    # --- sending

    def _send(self, job: JobIdentity, content: Offer | Grant | NothingToDo) -> None:
        self.subscribers.send(job, BrainMessage(self._term(), content))

    async def follow(self, job: JobIdentity) -> AsyncIterator[BrainMessage]:
        """What holds now, then what comes."""
        subscription = self.subscribers.open(job)
        try:
            for message in await self._holding(job):
                yield message
            async for message in subscription.messages():
                yield message
        finally:
            subscription.close()

    async def _holding(self, job: JobIdentity) -> list[BrainMessage]:
        view, administor = self._jobs.get(job), self._administors.get(job)
        if view is None or administor is None:
            return []
        found: list[Offer | Grant | NothingToDo] = []
        grant = self._sharing.grant_of(view)
        if grant is not None:
            found.append(grant)
        offers: tuple[plans.StoredPlan, ...] = ()
        with suppress(NotFound):
            offers = await asyncio.to_thread(plans.open_offers, self._database, self._clock(), job)
        for each in offers:
            left = each.expires_at - self._clock()
            found.append(Offer(each.offer, each.proposal, each.base_version, left, each.event))
        if not offers and administor.state in (AdministorState.OBSERVING, AdministorState.WAITING):
            found.append(NothingToDo())
        return [BrainMessage(self._term(), content) for content in found]


def _installed(chosen: tuple[str, ...]) -> tuple[str, ...]:
    """Jobs choose among what is installed with the Brain; ``module:Class``, which a job's own planner takes, would run anything
    here that a report names."""
    known = set(algorithm_names())
    return tuple(name for name in chosen if name in known)


def _does_something(proposal: Proposal) -> bool:
    return bool(proposal.replace or proposal.seats or proposal.moves or proposal.advice)
