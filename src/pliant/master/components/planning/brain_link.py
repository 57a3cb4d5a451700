"""The link to the Brain: reports go out, offers and grants come in, and nothing of the job waits for either.

- The Brain *leads* from its first message until it was silent for ``fallback_s``: then the job's planner asks its own algorithms,
  and hands over when the Brain is heard again. Either way plans are made by the one planner of the job, so none is made twice.
- A message of an older term than one that was heard is ignored: it comes from a Brain that is no longer the active one, or from a
  database that was restored. A Brain that has lost reports which it had answered is told everything again.
- A Brain that speaks another version, or that does not accept the token, is asked again every ``REFUSED_S`` seconds; the job plans
  by itself meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from pliant.core.clock import Clock
from pliant.core.errors import BrainUnavailable, Conflict, PliantError, RetryableError
from pliant.core.events import BrainFound, BrainLost
from pliant.core.job import Phase
from pliant.core.planning.cluster.offer import BrainMessage, Grant, NothingToDo, Offer
from pliant.core.planning.cluster.report import JobIdentity
from pliant.core.planning.past_jobs import PastJob
from pliant.core.status import BRAIN_AWAY, BRAIN_LEADS
from pliant.core.status_builder import LiveFigures
from pliant.master.components.base import BackgroundComponent
from pliant.master.components.planning.history import Surroundings
from pliant.master.components.planning.report_builder import ReportBuilder
from pliant.master.journal.journal import Journal
from pliant.rpc import brain_pb2 as bp
from pliant.rpc.brain.channel import AsyncBrainClient
from pliant.rpc.brain.identity import PROTOCOL
from pliant.rpc.brain.messages import brain_message_from, identity_message, report_message

log = logging.getLogger(__name__)

FALLBACK_S = 60.0
MAX_PAUSE_S = 5.0  # between two tries to reach it
FIRST_PAUSE_S = 0.2
REFUSED_S = 60.0
REPORT_TIMEOUT_S = 10.0
LAST_REPORT_S = 5.0  # for which an ended job waits, at most, until the Brain knows
MAX_OFFERS = 16  # that wait to be planned


@dataclass(frozen=True, slots=True)
class _Held:
    offer: Offer
    until: float  # of this master's clock


class BrainLink(BackgroundComponent):
    name = "brain"
    title = "link to the Brain"
    enabled_by = "optimize: {mode: cluster}"

    def __init__(
        self,
        client: AsyncBrainClient,
        identity: JobIdentity,
        reports: ReportBuilder,
        journal: Journal,
        clock: Clock,
        *,
        phase: Callable[[], str],
        interval_s: float,
        fallback_s: float = FALLBACK_S,
    ) -> None:
        super().__init__()
        self._client, self._identity, self._reports = client, identity, reports
        self._journal, self._clock, self._phase = journal, clock, phase
        self._interval_s, self._fallback_s = interval_s, fallback_s
        self._term = 0
        self._acknowledged = (0, 0)  # session and number of the last report that was answered
        self._heard_at: float | None = None
        self._was_led = False
        self._held: list[_Held] = []
        self._grants: list[Grant] = []
        self._seen: set[str] = set()
        self._granted = asyncio.Event()  # a grant has come
        self._began = asyncio.Event()  # and an offer, or that there is none
        self._first: set[type] = set()
        self._taught: PastJob | None = None
        self.waits = False  # until its planner calls ``begin``
        self.around: Callable[[], Surroundings] = Surroundings
        self.teach: Callable[[], PastJob | None] = lambda: None

    # --- life

    async def start(self) -> None:
        if not self.waits:
            self.begin()

    def begin(self) -> None:
        self.run_beside(self._report_on())
        self.run_beside(self._follow_on())

    async def tick(self) -> None:
        self._reports.sample()
        is_led = self.is_leading
        if is_led != self._was_led:
            self._was_led = is_led
            self._journal.event(BrainFound() if is_led else BrainLost(seconds=self._fallback_s))

    async def stop(self) -> None:
        if Phase(self._phase()).is_final:
            await self._report_the_end()
        await super().stop()
        await self._client.close()

    def status(self, live: LiveFigures) -> LiveFigures:
        return replace(live, brain=self.standing)

    # --- for the planner

    @property
    def standing(self) -> str:
        """As a job's status has it."""
        return BRAIN_LEADS if self.is_leading else BRAIN_AWAY

    @property
    def is_leading(self) -> bool:
        return self._heard_at is not None and self._clock.now() - self._heard_at < self._fallback_s

    async def first_answer(self, timeout_s: float, *, with_offer: bool) -> bool:
        """Wait until the Brain has said how much is granted and, if it plans for the job, how to begin; False: it did not."""
        try:
            async with asyncio.timeout(timeout_s):
                await (self._began if with_offer else self._granted).wait()
        except TimeoutError:
            return False
        return True

    def offers(self) -> list[Offer]:
        """That hold now, oldest first."""
        now = self._clock.now()
        self._held = [held for held in self._held if held.until > now]
        return [held.offer for held in self._held]

    def drop(self, offer: str) -> None:
        """It was planned or declined."""
        self._held = [held for held in self._held if held.offer.id != offer]

    def take_grants(self) -> list[Grant]:
        taken, self._grants = self._grants, []
        return taken

    # --- reports

    async def _report_on(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            try:
                await self._report()
                pause = FIRST_PAUSE_S
                await asyncio.sleep(self._interval_s)
            except PliantError as error:
                is_passing = isinstance(error, RetryableError)
                log.log(logging.INFO if is_passing else logging.WARNING, "cannot report to the Brain: %s", error)
                if not is_passing:
                    self._reports.withdraw()  # it would be refused again
                await asyncio.sleep(pause if is_passing else REFUSED_S)
                pause = min(MAX_PAUSE_S, pause * 2)

    async def _report(self, *, is_last: bool = False) -> None:
        """The end is reported last, when nothing is left of the job: its nodes take room until then."""
        phase = self._phase()
        if Phase(phase).is_final and not is_last:
            phase = Phase.RUNNING.value
        report = self._reports.next(phase, self.around(), is_led=self.is_leading, taught=self._taught)
        await self._journal.durable()  # nothing is reported that a successor of this master would not know
        message = report_message(report)
        message.term = self._term
        reply = await self._client.call(self._client.stubs.planning.Report, message, timeout=REPORT_TIMEOUT_S)
        if not self._is_current(reply.term):
            raise BrainUnavailable(f"a Brain of term {reply.term} answered; {self._term} was heard before")
        if reply.session > report.session:
            raise Conflict(
                f"the Brain hears of master {reply.session} of this job, this is number {report.session}",
                hint="two masters run, or the job's journal was lost; the job plans by itself",
            )
        acknowledged = (reply.session, reply.sequence)
        is_behind = acknowledged < self._acknowledged
        if is_behind:
            log.warning("the Brain has lost reports that it had answered: %s < %s", acknowledged, self._acknowledged)
        self._acknowledged = acknowledged
        self._heard()
        self._reports.answered(wants_all=reply.wants_all or is_behind)

    async def _report_the_end(self) -> None:
        """How the job ended, if the Brain can be reached; it learns it from the platform otherwise."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._taught = self.teach()
        try:
            async with asyncio.timeout(LAST_REPORT_S):
                await self._report(is_last=True)  # perhaps one that was under way
                await self._report(is_last=True)
                while not self._reports.is_complete:
                    await self._report(is_last=True)
        except (PliantError, TimeoutError) as error:
            log.warning("cannot report the end of the job to the Brain: %s", error)

    # --- offers and grants

    async def _follow_on(self) -> None:
        pause = FIRST_PAUSE_S
        request = bp.FollowRequest(protocol=PROTOCOL, job=identity_message(self._identity))
        while True:
            try:
                async for message in self._client.stream(self._client.stubs.planning.Follow, request):
                    pause = FIRST_PAUSE_S
                    self._take(brain_message_from(message), message.term)
            except PliantError as error:
                is_passing = isinstance(error, RetryableError)
                log.log(logging.INFO if is_passing else logging.WARNING, "the Brain sends no plans: %s", error)
                pause = pause if is_passing else REFUSED_S
            await asyncio.sleep(pause)
            pause = min(MAX_PAUSE_S, pause * 2)

    def _take(self, message: BrainMessage | None, term: int) -> None:
        if not self._is_current(term):
            log.warning("ignored a message of term %d of the Brain; %d was heard before", term, self._term)
            return
        self._heard()
        if message is None:
            return
        match message.content:
            case Offer() as offer if offer.id not in self._seen:
                self._seen.add(offer.id)
                self._held.append(_Held(offer, self._clock.now() + offer.holds_s))
                del self._held[:-MAX_OFFERS]
            case Grant() as grant:
                self._grants.append(grant)
            case NothingToDo() | Offer():
                pass
        self._first.add(Grant if isinstance(message.content, Grant) else Offer)
        if Grant in self._first:
            self._granted.set()
        if len(self._first) > 1:
            self._began.set()

    def _is_current(self, term: int) -> bool:
        """Terms only rise."""
        if term < self._term:
            return False
        self._term = term
        return True

    def _heard(self) -> None:
        self._heard_at = self._clock.now()
