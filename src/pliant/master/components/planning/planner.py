"""The resource planner of one job: measures what a configuration achieves, asks ``core/planning``, and carries plans out.

The shell around ``PeriodBook`` and ``Planner``, which are journaled. A step of the planner, the request for changes that it leads
to and the answer are noted without an ``await`` in between, so a killed master leaves either none or all of them: its successor
goes on with a plan that is under way, and carries none out twice. Algorithms compute in a thread, since fits take a while; what
they found is dropped if somebody changed the job meanwhile. One that fails or hangs is named in an event and harms nobody else.

The first configuration is planned before any node is launched. A person's request pauses the planner (``ChangeApplied``). Programs
of a torchrun group are restarted whenever a worker comes or goes, so such jobs only get advice.

With a Brain (``brain_link.py``) that leads, its offers are planned instead of what the algorithms here would propose. What it
grants under a quota bounds the job in any case; a job that is granted nothing is suspended until it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pliant.core.changes import ChangeRequest, RequestSource, Resume, Suspend, plan_request
from pliant.core.clock import Clock
from pliant.core.errors import NotAvailable, PliantError
from pliant.core.events import AlgorithmFailed, PlanEnded, PlanMade, PlannerPaused, QuotaGranted
from pliant.core.job import Phase
from pliant.core.job_state import JobState
from pliant.core.nodes.capacity import Capacity
from pliant.core.planning.cluster.offer import Grant, grant_to_json
from pliant.core.planning.configuration import Bounds
from pliant.core.planning.history import Room
from pliant.core.planning.past_jobs import Fingerprint, PastJob
from pliant.core.planning.periods import PeriodBook
from pliant.core.planning.plan import ResourcePlan
from pliant.core.planning.plan_record import Outcome, PlanRecord
from pliant.core.planning.planner import Planner, Step
from pliant.master.components.base import BackgroundComponent
from pliant.master.components.changes import ChangeHandler
from pliant.master.components.planning.brain_link import BrainLink
from pliant.master.components.planning.daemon_thread import compute
from pliant.master.components.planning.history import WORKER, HistoryBuilder, Surroundings
from pliant.master.components.planning.past_jobs import PastJobs
from pliant.master.components.signals import ChangeApplied, JobOver, Signal
from pliant.master.journal.journal import Journal

if TYPE_CHECKING:
    from pliant.core.planning.explanation import Explanation

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_STEPS = 8  # of one moment: settled, judged, planned again
ALGORITHM_LIMIT_S = 60.0  # to ask all of them: far more than the built-in ones take on a busy machine
ROOM_S = 5.0  # between two questions for free room
MAX_FIRST_PER_CORE = 4  # workers, of which the first configuration takes a part
GROUP_PAUSE_S = 3600.0
FIRST_ANSWER_S = 10.0  # for which a new job waits for the Brain to say how to begin
ASK_AGAIN_S = 5.0
QUOTA_REASON = "waiting for the quota"  # how a suspension by a grant begins
GROUP_REASON = (
    "the programs form a torchrun group, which every change of its workers restarts; plans are not carried out"
)


class ResourcePlanner(BackgroundComponent):
    name = "planner"
    title = "resource planner"
    enabled_by = "optimize: single-job or cluster"

    def __init__(
        self,
        state: JobState,
        journal: Journal,
        clock: Clock,
        builder: HistoryBuilder,
        changes: ChangeHandler,
        *,
        interval_s: float,
        capacity: Callable[[], Awaitable[Capacity | None]],
        room: Callable[[], Awaitable[Room | None]],
        fingerprint: Fingerprint,
        past: PastJobs | None = None,
        is_start_given: bool = False,
        around: Surroundings | None = None,
        brain: BrainLink | None = None,
        is_led: bool = False,
    ) -> None:
        """``interval_s``: between two samples. ``past``: jobs that ended, for the first configuration. ``is_start_given``: the
        job's description says with how many nodes it begins. ``is_led``: by the Brain's offers, while it is heard."""
        super().__init__()
        assert state.planner is not None
        assert state.periods is not None
        self.planner: Planner = state.planner
        self._periods: PeriodBook = state.periods
        self._state, self._journal, self._clock = state, journal, clock
        self._builder, self._changes = builder, changes
        self._interval_s = interval_s
        self._capacity, self._room, self._past = capacity, room, past
        self._fingerprint = fingerprint
        self._is_start_given = is_start_given
        self._around = around or Surroundings()
        self._brain, self._is_led = brain, is_led
        if brain is not None:
            brain.waits, brain.around, brain.teach = True, lambda: self._around, self._taught
        self._next_sample = 0.0
        self._next_room = 0.0
        self._next_ask = 0.0  # to be suspended or resumed, after it was refused for the same grant
        self._is_remembered = False
        self._asking = asyncio.Lock()
        self._failures: dict[str, str] = {}  # that were noted, by algorithm
        self._generation = 0  # rises when somebody else changes the job
        self._task: asyncio.Task[None] | None = None

    # --- life

    async def start(self) -> None:
        """Before nodes are started: the first configuration, if the job has none yet."""
        nodes = self._state.nodes
        assert nodes is not None
        await self._look_around()
        is_new = not nodes.started and not self.planner.records() and not self._state.job.over
        if self._brain is not None:
            self._brain.begin()
            if is_new and await self._brain.first_answer(FIRST_ANSWER_S, with_offer=self._is_led):
                self._keep_to_grants(self._brain)
                if self._is_led and not self._is_start_given:
                    await self._plan()
                    return
        if is_new and not self._is_start_given:
            similar = await asyncio.to_thread(self._past.similar) if self._past is not None else ()
            # What is free now is no limit for each node: without one, a node may use what the machine has.
            history = self._builder.build(self._clock.now(), replace(self._around, similar=similar, room=None))
            if self._past is not None and not similar:
                history = replace(history, bounds=self._near_cores(history.bounds))
            try:
                step = self.planner.first_step(history, self._clock.now())
            except Exception:  # whatever an algorithm does wrong, the job begins with what its description says
                log.exception("cannot plan the first configuration; starting as desired")
                return
            if step is not None:
                self._apply(step)

    def _near_cores(self, bounds: Bounds) -> Bounds:
        """For the first configuration on one machine, if nobody knows the job: not many more workers than it has cores."""
        cores = self._around.capacity.largest("cpu") if self._around.capacity is not None else None
        if not cores:
            return bounds
        worker = bounds.worker
        most = max(worker.min_replicas, min(worker.max_replicas, round(MAX_FIRST_PER_CORE * cores)))
        return replace(bounds, worker=replace(worker, max_replicas=most))

    async def tick(self) -> None:
        now = self._clock.now()
        if self._brain is not None and not self._state.job.over:
            self._keep_to_grants(self._brain)
        if self._state.job.over or now < self._next_sample:
            return
        self._next_sample = now + self._interval_s
        self._sample()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._plan_on())
            self._task.add_done_callback(self._log_failure)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await super().stop()

    def on_event(self, signal: Signal) -> None:
        match signal:
            case ChangeApplied(source=source, reason=reason) if source is not RequestSource.GENERATOR:
                self._generation += 1
                before = self.planner.under_way
                self._journal.do(self.planner.person_changed, reason=reason or f"by {source.value}")
                self._note_end(before)
                self._journal.event(PlannerPaused(seconds=self.planner.settings.pause_s, reason=reason or source.value))
            case JobOver():
                before = self.planner.under_way
                if before is not None:
                    self._journal.do(self.planner.job_ended)
                    self._note_end(before)
                self._remember()
            case _:
                return

    def _remember(self) -> None:
        """Teach what this job learned to those that come after it."""
        taught = self._taught() if self._past is not None else None
        if self._past is not None and taught is not None and not self._is_remembered:
            self._is_remembered = True
            self.run_beside(asyncio.to_thread(self._past.remember, taught))

    def _taught(self) -> PastJob | None:
        succeeded = self._state.job.phase is Phase.SUCCEEDED
        return self._builder.past_job(self._clock.now(), self._fingerprint, succeeded=succeeded)

    # --- for people

    def plans(self) -> tuple[PlanRecord, ...]:
        return self.planner.records()

    async def explain(self) -> Explanation:
        from pliant.core.planning.explain import explain  # needs numpy

        now = self._clock.now()
        history = self._builder.build(now, self._around)
        explanation = await self._compute(partial(explain, self.planner, history, now))
        if explanation is None:
            raise NotAvailable(
                f"no explanation within {ALGORITHM_LIMIT_S:g} s",
                hint="the planner's log says which algorithm hangs",
            )
        return explanation

    # --- measuring

    def _sample(self) -> None:
        parts = self._builder.parts()
        self._journal.do(
            self._periods.observe,
            configuration=self._builder.running().to_json(),
            records=self._builder.records(),
            parts=asdict(parts) if parts is not None else None,
            ready=self._builder.is_ready(),
        )

    async def _look_around(self) -> None:
        now = self._clock.now()
        if now < self._next_room:
            return
        self._next_room = now + ROOM_S
        try:
            capacity, room = await self._capacity(), await self._room()
        except PliantError as error:
            log.warning("cannot read what the platform has: %s", error)
            return
        self._around = replace(self._around, capacity=capacity, room=room)

    # --- planning

    async def _plan_on(self) -> None:
        await self._look_around()
        if self._is_restarted_by_changes():
            if self.planner.paused is None:
                self._journal.do(self.planner.pause, seconds=GROUP_PAUSE_S, reason=GROUP_REASON)
                self._journal.event(PlannerPaused(seconds=GROUP_PAUSE_S, reason=GROUP_REASON))
            return
        if not self._builder.is_draining():
            await self._plan()

    async def _plan(self) -> None:
        for _ in range(MAX_STEPS):
            generation, now = self._generation, self._clock.now()
            history = self._builder.build(now, self._around)
            offers = (
                self._brain.offers() if self._brain is not None and self._is_led and self._brain.is_leading else None
            )
            step = await self._compute(partial(self.planner.next_step, history, now, offers))
            self._note_failures()
            if step is None or generation != self._generation or self._state.job.over:
                return
            is_plan = self._apply(step)
            if self._brain is not None:
                self._brain.drop(str(step.arguments.get("origin") or step.arguments.get("offer") or ""))
            if is_plan:
                return

    async def _compute(self, call: Callable[[], T]) -> T | None:
        """One thread at a time asks the algorithms. None: one of them did not answer, and is not asked again before it does."""
        async with self._asking:
            try:
                return await compute(call, ALGORITHM_LIMIT_S)
            except TimeoutError:
                self.planner.give_up(f"did not answer within {ALGORITHM_LIMIT_S:g} s")
                return None

    def _note_failures(self) -> None:
        """Each reason once."""
        failing = {each.name: each for each in self.planner.failing}
        for name, each in failing.items():
            if self._failures.get(name) != each.failure:
                log.error("algorithm %s failed: %s\n%s", name, each.failure, each.traceback)
                self._journal.event(AlgorithmFailed(algorithm=name, reason=each.failure))
        self._failures |= {name: each.failure for name, each in failing.items()}

    def _apply(self, step: Step) -> bool:
        """Note it and carry out the plan that it makes, if it makes one; whether it did."""
        before = self.planner.under_way
        made = self._journal.do(getattr(self.planner, step.method), **step.arguments)
        self._note_end(before)
        if step.method == "plan":
            self._note_made(self.planner.records()[-1])
        if not isinstance(made, ResourcePlan):
            return False
        if step.method != "plan":  # a rollback
            self._note_made(self.planner.records()[-1])
        self._carry_out(made)
        return True

    def _carry_out(self, plan: ResourcePlan) -> None:
        answer = self._changes.handle(plan_request(plan))
        before = self.planner.under_way
        if answer.refusal:
            self._journal.do(self.planner.refused, plan=plan.id, reason=answer.refusal)
        else:
            self._journal.do(self.planner.accepted, plan=plan.id)
        self._note_end(before)

    # --- what the Brain grants

    def _keep_to_grants(self, brain: BrainLink) -> None:
        """Whatever is granted is journaled before the planner looks again."""
        for grant in brain.take_grants():
            if not self._journal.do(self.planner.granted, grant=grant_to_json(grant)):
                continue
            limit = "no limit" if grant.is_unlimited else str(grant.limit or "")
            if not grant.is_unlimited or grant.number > 1:
                self._journal.event(QuotaGranted(number=grant.number, limit=limit, reason=grant.reason))
            self._generation += 1
            self._next_ask = 0.0
        if self.planner.grant is not None and self._clock.now() >= self._next_ask:
            self._keep_to(self.planner.grant)

    def _keep_to(self, grant: Grant) -> None:
        """A job that is granted nothing has no nodes, also if a person resumed it: the quota is that of others, too. A person's
        suspension is not ended by a grant."""
        nodes = self._state.nodes
        assert nodes is not None
        is_nothing = grant.limit is None and not grant.is_unlimited
        if is_nothing and not nodes.suspended:
            self._ask(grant, Suspend())
        elif not is_nothing and nodes.suspended.startswith(QUOTA_REASON):
            self._ask(grant, Resume())

    def _ask(self, grant: Grant, change: Suspend | Resume) -> None:
        now = self._clock.now()
        reason = f"{QUOTA_REASON}: {grant.reason}" if isinstance(change, Suspend) else grant.reason
        what = "suspend" if isinstance(change, Suspend) else "resume"
        name = f"grant-{grant.number}-{what}-{round(now * 1000)}"  # a person may have undone the one before
        answer = self._changes.handle(ChangeRequest(name, RequestSource.GENERATOR, (change,), reason))
        if answer.refusal:
            self._next_ask = now + ASK_AGAIN_S

    def _is_restarted_by_changes(self) -> bool:
        groups = self._state.groups
        return groups is not None and self._state.parameters is None and groups.group(WORKER).connected

    # --- events

    def _note_made(self, record: PlanRecord) -> None:
        proposal = record.proposal
        is_advice = record.outcome is Outcome.ADVISED
        self._journal.event(
            PlanMade(plan=record.id, algorithm=proposal.algorithm, reason=proposal.reason, advice=is_advice)
        )

    def _note_end(self, before: PlanRecord | None) -> None:
        """Of the plan that was under way, if it is not any more."""
        if before is None or self.planner.under_way == before:
            return
        now = next((record for record in self.planner.records() if record.id == before.id), None)
        if now is not None and now.ended_at is not None:
            self._journal.event(PlanEnded(plan=now.id, outcome=now.outcome.value, judgement=now.judgement))
