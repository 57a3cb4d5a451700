"""The planner of a job: when to ask the algorithms, what to do with their proposals, and how to judge what came of them.

A state machine by the rules of ``core/__init__.py``. ``next_step(history, now)`` only reads: it says which operation is due,
and the caller journals and applies that (``step.method``, ``step.arguments``). ``plan`` and ``judged`` return the
``ResourcePlan`` to be carried out, by one path with the requests of persons (``core/changes.py``); its answer comes back as
``accepted`` or ``refused``.

    observing -> planned -> settling (probing, if it is a try) -> judging -> observing
                    |            |                                  |-> rolled back -> observing
                    v            v
              refused, expired, superseded: observing           a person changes the job: paused, from any state

Invariants, held by ``tests/core/planning/test_planner*.py``:

- At most one plan is under way. A plan is made for one version of the desired state, and expires.
- No plan leaves the bounds, nor goes beyond where nodes were unschedulable a while ago.
- A person's request wins: what is under way is abandoned, and the planner pauses and says so.
- In constant conditions it comes to rest. A change needs a gain beyond the hysteresis; one that brings nothing doubles the
  cool-down; a configuration that was rolled back is not tried again for a while that doubles, too.
- An algorithm whose rates lie outside its own intervals by more than 30 % only advises, until its advice came true or time has
  passed. Advice is judged when the job comes to have what was advised, by whomever.
- Urgent proposals (memory, nodes without room, stragglers that all wait for) wait for no cool-down and supersede what settles.
  If they leave the configuration as it is (other nodes, seats or memory), what they interrupted is judged after them.
- An algorithm that raises, or answers what makes no sense, is passed over: the rest of the chain is heard.
- All plans are kept as records, the last ``max_records`` of them.
- While the Brain leads, its offers take the place of the algorithms' proposals and are checked like them. An offer becomes at most
  one plan, however often it comes. What the Brain granted stays the limit while it is away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import log
from typing import Any
from zlib import crc32

from pliant.core.errors import Conflict, InvalidRequest, NotFound
from pliant.core.planning.algorithms.judge import Judge, Judgement, Measured
from pliant.core.planning.chain_order import questions
from pliant.core.planning.cluster.limits import excess, memory_of, within_grant
from pliant.core.planning.cluster.offer import Grant, Offer, grant_from_json, grant_to_json
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds
from pliant.core.planning.guarded_algorithm import GuardedAlgorithm, guarded, own_name
from pliant.core.planning.history import JobHistory, Objective, Period
from pliant.core.planning.objectives import MIN_GAIN, SERVER, WORKER, current_period, is_alike, rollout_s, shape_of
from pliant.core.planning.plan import ResourcePlan
from pliant.core.planning.plan_record import Outcome, PlanRecord
from pliant.core.planning.planner_state import PlannerState
from pliant.core.planning.proposal import Algorithm, Proposal
from pliant.core.planning.proposal_check import problem_of
from pliant.core.planning.registry import DEFAULT_CHAIN, algorithm, chain
from pliant.core.state_machine import StateMachine

__all__ = ["Planner", "PlannerSettings", "PlannerState", "Step", "Verdict"]

LOOK_AGAIN_S = 600.0  # even if nothing has changed: the job is older
_STEPS_OF_MANY = ("probe", "straggler")  # more follow at once as long as they bring something
_UNDER_WAY = (PlannerState.PROBING, PlannerState.SETTLING, PlannerState.JUDGING)


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    dry_run: bool = False  # plans are only shown
    algorithms: tuple[str, ...] = ()  # by name, in the order in which they are asked; empty: the default chain
    cool_down_s: float = 60.0  # after a plan; doubles if it brought nothing
    max_cool_down_s: float = 3600.0
    expiry_s: float = 120.0  # of a plan that is not answered
    settle_timeout_s: float = 900.0
    judge_s: float = 20.0  # a plan is measured at least so long, at most four times, ...
    judge_error: float = 0.03  # ... until the relative error of its rate is below this
    pause_s: float = 900.0  # after a person's request
    max_error: float = 0.3  # of an algorithm, until it only advises
    trust_half_life_s: float = 1800.0
    room_s: float = 600.0  # nodes were unschedulable: no more of them for so long, doubles
    max_records: int = 200


@dataclass(frozen=True, slots=True)
class Step:
    """An operation that is due."""

    method: str
    arguments: Mapping[str, Any]
    reason: str  # for people


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the chain of algorithms says now, and why nothing is done about it if nothing is."""

    proposal: Proposal | None
    blocked: str = ""  # for people; empty: it can be planned
    is_advice: bool = False


class Planner(StateMachine):
    def __init__(
        self,
        settings: PlannerSettings | None = None,
        algorithms: Sequence[Algorithm] | None = None,
        create: Algorithm | None = None,
    ) -> None:
        """``algorithms``: asked in their order; None: those of the settings. ``create``: for the first configuration."""
        self.settings = settings or PlannerSettings()
        self._asked = guarded(algorithms, [own_name(each) for each in algorithms]) if algorithms is not None else None
        self._create = create
        self._judge = Judge()
        self.state = PlannerState.OBSERVING
        self._since = 0.0  # of the state
        self._records: list[PlanRecord] = []
        self._made = 0
        self._under_way: str | None = None
        self._interrupted: str | None = None  # by the urgent plan that is under way; its configuration stays
        self._not_before = 0.0
        self._cool_down_s = self.settings.cool_down_s
        self._paused_until = 0.0
        self._pause_reason = ""
        self._errors: dict[str, tuple[float, float]] = {}  # by algorithm: its error, and when that was
        self._ceilings: dict[str, tuple[int, float, float]] = {}  # by role: replicas, until, and how long it was
        self._failed: list[tuple[Configuration, float, float]] = []  # rolled back: not again until, and how long it was
        self._looked = ""  # at what nothing was found: not again until something has changed
        self._grant: Grant | None = None

    # --- reading

    @property
    def under_way(self) -> PlanRecord | None:
        return self._find(self._under_way) if self._under_way is not None else None

    @property
    def paused(self) -> tuple[float, str] | None:
        """Until when, and why."""
        return (self._paused_until, self._pause_reason) if self.state is PlannerState.PAUSED else None

    @property
    def not_before(self) -> float:
        """The end of the cool-down."""
        return self._not_before

    def records(self) -> tuple[PlanRecord, ...]:
        """Oldest first."""
        return tuple(self._records)

    def error_of(self, name: str, at: float) -> float:
        """Of an algorithm: how far outside its intervals the rates were; fades with time."""
        error, since = self._errors.get(name, (0.0, at))
        return float(error * 0.5 ** (max(0.0, at - since) / self.settings.trust_half_life_s))

    @property
    def grant(self) -> Grant | None:
        """The most that the job may have, as the Brain last said; None: nobody limits it."""
        return self._grant

    def next_step(self, history: JobHistory, now: float, offers: Sequence[Offer] | None = None) -> Step | None:
        """The operation that is due, if any. ``offers``: of the Brain, which leads then; None: the algorithms are asked here. Only
        reads."""
        if self.state is PlannerState.PAUSED:
            return Step("resume", {}, "the pause is over") if now >= self._paused_until else None
        record = self.under_way
        if record is not None:
            step = self._next_of_plan(record, history, now)
            if step is not None and step.method == "judged" and offers is None:
                step = self._next_urgent(history, now) or step
            if step is not None or self.state not in _UNDER_WAY:
                return step
        first = self._next_of_grant(history) or self._next_of_advice(history)
        if first is not None or offers is None:
            return first or self._next_proposal(history, now)
        return self._next_offer(offers, history, now)

    def first_step(self, history: JobHistory, now: float) -> Step | None:
        """Before any node is launched: the configuration to begin with, if it is another one than desired. Only reads."""
        if history.nodes or history.periods or self._records:
            return None
        history = replace(history, bounds=self._bounds(history, now))
        create = self._create or algorithm("create_from_history")
        proposal = create(history, now)
        if proposal is None or proposal.configuration == history.configuration:
            return None
        found = self._check(proposal, history, now)
        return self._planning(proposal, history, is_advice=found.is_advice) if not found.blocked else None

    def verdict(self, history: JobHistory, now: float, *, is_urgent_only: bool = False) -> Verdict:
        """The first proposal of the chain that may be planned, urgent ones first; else the first that may not, and why. Only
        reads."""
        history = replace(history, bounds=self._bounds(history, now))
        blocked = Verdict(None)
        for proposal in self._proposals(history, now, is_urgent_only):
            found = self._check(proposal, history, now)
            if not found.blocked:
                return found
            if blocked.proposal is None:
                blocked = found
        return blocked

    def _proposals(self, history: JobHistory, now: float, is_urgent_only: bool) -> Iterator[Proposal]:
        asked = self._chain()
        answers: dict[int, Proposal | None] = {}
        for question in questions([each.name for each in asked], is_urgent_only=is_urgent_only):
            if question.position not in answers:
                answers[question.position] = asked[question.position](history, now)
            proposal = answers[question.position]
            if proposal is not None and question.hears(proposal):
                yield proposal

    @property
    def failing(self) -> tuple[GuardedAlgorithm, ...]:
        """Those that raised, or answered no proposal, when they were asked last, or never answered."""
        return tuple(each for each in self._asked or () if each.failure)

    def give_up(self, reason: str) -> None:
        """Nobody waits any more for the algorithm that is being asked in another thread."""
        for each in self._asked or ():
            each.give_up(reason)

    # --- operations: plans

    def plan(
        self,
        now: float,
        *,
        proposal: dict[str, Any],
        before: dict[str, Any],
        version: int,
        objective: str,
        rate: float = 0.0,
        error: float = 0.0,
        advice: bool = False,
        origin: str = "",
    ) -> ResourcePlan | None:
        """Make a plan of a proposal; None if it is only advice. ``rate``: of the configuration ``before``; 0: not known.
        ``origin``: the Brain's offer, if it is one."""
        made = Proposal.from_json(proposal)
        is_advice = advice or made.advice or self.settings.dry_run
        if not is_advice and self.state not in (PlannerState.OBSERVING, *(_UNDER_WAY if made.urgent else ())):
            raise Conflict(f"the planner is {self.state.value}: no plan can be made now")
        record = PlanRecord(
            f"auto-{self._made + 1}",
            now,
            made,
            Configuration.from_json(before),
            rate,
            error,
            Objective(objective),
            version,
            now + self.settings.expiry_s,
            outcome=Outcome.ADVISED if is_advice else Outcome.PLANNED,
            origin=origin,
        )
        if not is_advice and self._under_way is not None:
            self._interrupt(now, self._current(self._under_way), record)
        self._made += 1
        if is_advice:
            self._keep(record)
            return None
        self._under_way = record.id
        self._keep(record)
        self._enter(PlannerState.PLANNED, now)
        if made.algorithm == "pending_fit":
            self._lower_ceilings(now, record)
        return record.resource_plan()

    def accepted(self, now: float, *, plan: str) -> None:
        """The job's desired state is what the plan says; now nodes change."""
        record = self._current(plan)
        if record.accepted_at is not None:
            return
        if record.proposal.at_next_restart or (not record.before_rate and not record.rolls_back):
            is_first = not record.before_rate and not record.proposal.urgent
            why = (
                "for nodes that are launched from now on"
                if record.proposal.at_next_restart
                else "nothing to compare with"
            )
            self._end(now, plan, Outcome.KEPT, why)
            self._rest(now, 0.0 if is_first else self._cool_down_s)
            self._take_up(now)
            return
        self._update(replace(record, outcome=Outcome.CARRIED_OUT, accepted_at=now))
        if self.state is PlannerState.PLANNED:
            is_try = record.proposal.algorithm == "probe"
            self._enter(PlannerState.PROBING if is_try else PlannerState.SETTLING, now)

    def refused(self, now: float, *, plan: str, reason: str) -> None:
        self._current(plan)
        self._end(now, plan, Outcome.REFUSED, reason)
        self._grow_cool_down()
        self._rest(now, self._cool_down_s)
        self._take_up(now)

    def expired(self, now: float, *, plan: str, reason: str) -> None:
        self._current(plan)
        self._end(now, plan, Outcome.EXPIRED, reason)
        self._grow_cool_down()
        self._rest(now, self._cool_down_s)
        self._take_up(now)

    def settled(self, now: float, *, plan: str) -> None:
        record = self._current(plan)
        if record.rolls_back:
            self._end(now, plan, Outcome.KEPT, "as before")
            self._rest(now, self._cool_down_s)
        else:
            self._enter(PlannerState.JUDGING, now)

    def judged(self, now: float, *, plan: str, rate: float, error: float, version: int) -> ResourcePlan | None:
        """Judge a plan by what it achieved; returns the plan that takes it back, if it is worse."""
        record = self._current(plan)
        if rate < 0 or error < 0:
            raise InvalidRequest(f"a rate cannot be negative: {rate} with error {error}")
        found = self._judgement(record, rate, error)
        if record.proposal.prediction is not None and record.proposal.prediction.rate and record.before_rate:
            self._learn(now, record.proposal.algorithm, found.error)
        self._update(replace(record, achieved_rate=rate, achieved_error=error, judgement=found.reason))
        if found.is_kept or not record.can_be_rolled_back:
            self._end(now, plan, Outcome.KEPT, found.reason)
            if found.gain >= MIN_GAIN / 2:
                self._cool_down_s = self.settings.cool_down_s
            else:
                self._grow_cool_down()
            goes_on = record.proposal.algorithm in _STEPS_OF_MANY and found.gain >= MIN_GAIN / 2
            self._rest(now, 0.0 if goes_on else self._cool_down_s)
            self._take_up(now)
            return None
        self._end(now, plan, Outcome.ROLLED_BACK, found.reason)
        self._avoid(now, record.proposal.configuration)
        self._grow_cool_down()
        return self._roll_back(now, record, found.reason, version)

    def unsettled(self, now: float, *, plan: str, reason: str, version: int) -> ResourcePlan | None:
        """What was carried out never came to a steady rate: taken back if possible. Says nothing of the algorithm."""
        record = self._current(plan)
        if not record.can_be_rolled_back:
            self._end(now, plan, Outcome.EXPIRED if record.changes_speed else Outcome.KEPT, reason)
            self._grow_cool_down()
            self._rest(now, self._cool_down_s)
            self._take_up(now)
            return None
        self._end(now, plan, Outcome.ROLLED_BACK, reason)
        self._avoid(now, record.proposal.configuration)
        self._grow_cool_down()
        return self._roll_back(now, record, reason, version)

    def advice_judged(self, now: float, *, plan: str, rate: float, error: float) -> None:
        """The job has what was advised: does it run as predicted?"""
        record = self._find(plan)
        if record is None:
            raise NotFound(f"plan {plan!r} not found")
        if record.outcome is not Outcome.ADVISED or record.ended_at is not None or record.proposal.prediction is None:
            raise Conflict(f"plan {plan!r} is not advice, or is judged already")
        found = self._judgement(record, rate, error)
        self._learn(now, record.proposal.algorithm, found.error)
        self._update(
            replace(
                record, achieved_rate=rate, achieved_error=error, ended_at=now, judgement=f"as advice, {found.reason}"
            )
        )

    def looked(self, now: float, *, key: str) -> None:
        """Nothing was found to change; the algorithms that are not urgent are asked again when something is new."""
        self._looked = key

    # --- operations: the Brain

    def declined(
        self,
        now: float,
        *,
        offer: str,
        proposal: dict[str, Any],
        before: dict[str, Any],
        version: int,
        objective: str,
        reason: str,
    ) -> None:
        """An offer that cannot be planned: kept as a record, so that the Brain learns why."""
        self._made += 1
        self._keep(
            PlanRecord(
                f"auto-{self._made}",
                now,
                Proposal.from_json(proposal),
                Configuration.from_json(before),
                0.0,
                0.0,
                Objective(objective),
                version,
                now,
                outcome=Outcome.REFUSED,
                ended_at=now,
                judgement=reason,
                origin=offer,
            )
        )

    def granted(self, now: float, *, grant: dict[str, Any]) -> bool:
        """The most that the job may have from now on; whether that is news."""
        found = grant_from_json(grant)
        if self._grant is not None and found.number <= self._grant.number:
            return False
        self._grant = found
        self._looked = ""
        return True

    # --- operations: persons

    def person_changed(self, now: float, *, reason: str) -> None:
        """A person changed the job: that wins."""
        self._pause(now, self.settings.pause_s, f"a person changed the job: {reason}")

    def pause(self, now: float, *, seconds: float, reason: str) -> None:
        if seconds < 0:
            raise InvalidRequest(f"a pause cannot be negative: {seconds} s")
        self._pause(now, seconds, reason)

    def job_ended(self, now: float) -> None:
        """What is under way is never judged. The job may be continued later."""
        record = self.under_way
        if record is not None:
            outcome = Outcome.EXPIRED if record.accepted_at is None else Outcome.CARRIED_OUT
            self._end(now, record.id, outcome, "the job ended before it was judged")
            self._interrupted = None
            self._rest(now, 0.0)

    def resume(self, now: float) -> None:
        if self.state is PlannerState.PAUSED:
            self._enter(PlannerState.OBSERVING, now)

    # --- what is due

    def _next_of_plan(self, record: PlanRecord, history: JobHistory, now: float) -> Step | None:
        name = {"plan": record.id}
        if record.accepted_at is None:
            if now >= record.expires:
                return Step("expired", {**name, "reason": "not answered in time"}, "not answered in time")
            return None
        period = self._period_of(record, history)
        if self.state is PlannerState.JUDGING:
            if period is None and not self._is_present(record, history):
                why = "the configuration changed before it could be judged"
                return Step("expired", {**name, "reason": why}, why)
            if period is None or not self._is_enough(record, period, now):
                return None
            measured = {"rate": period.rate, "error": period.error, "version": history.version}
            return Step("judged", {**name, **measured}, "measured for long enough to be judged")
        if period is not None:
            return Step("settled", name, "the rate has settled")
        timeout = self.settings.settle_timeout_s + rollout_s(history, record.before, record.proposal.configuration)
        if now - self._since >= timeout:
            why = f"did not settle within {timeout:.0f} s"
            return Step("unsettled", {**name, "reason": why, "version": history.version}, why)
        return None

    def _next_of_advice(self, history: JobHistory) -> Step | None:
        period = current_period(history)
        if period is None or not self._records:
            return None
        for record in self._records[-20:]:
            if record.outcome is not Outcome.ADVISED or record.ended_at is not None or not record.before_rate:
                continue
            is_new = period.began >= record.time and period.ended - period.began >= self.settings.judge_s
            if record.proposal.prediction is None or not record.proposal.prediction.rate or not is_new:
                continue
            if is_alike(period.configuration, record.proposal.configuration):
                arguments = {"plan": record.id, "rate": period.rate, "error": period.error}
                return Step("advice_judged", arguments, "the job has what was advised")
        return None

    def _next_proposal(self, history: JobHistory, now: float) -> Step | None:
        is_free = self.state is PlannerState.OBSERVING and now >= self._not_before
        key = self._key(history, now)
        is_urgent_only = not is_free or key == self._looked
        found = self.verdict(history, now, is_urgent_only=is_urgent_only)
        if found.proposal is None or found.blocked:
            is_news = is_free and not is_urgent_only
            return Step("looked", {"key": key}, "nothing to change now") if is_news else None
        return self._planning(found.proposal, history, is_advice=found.is_advice)

    def _next_urgent(self, history: JobHistory, now: float) -> Step | None:
        """What would spoil a judgement comes before it."""
        found = self.verdict(history, now, is_urgent_only=True)
        if found.proposal is None or found.blocked or found.is_advice or not found.proposal.urgent:
            return None
        return self._planning(found.proposal, history, is_advice=False)

    def _next_of_grant(self, history: JobHistory) -> Step | None:
        """The job has more than is granted: less, at once."""
        grant = self._grant
        if grant is None or grant.limit is None or not excess(history.configuration, grant):
            return None
        bounds = within_grant(history.bounds, grant)
        less = grant.limit if bounds.allows(grant.limit) else bounds.clip(history.configuration)
        if less == history.configuration or less.nodes > history.configuration.nodes:
            return None
        proposal = Proposal("share_quota", grant.reason or "the quota grants less", less, urgent=True)
        return self._planning(proposal, history, is_advice=self.settings.dry_run)

    def _next_offer(self, offers: Sequence[Offer], history: JobHistory, now: float) -> Step | None:
        history = replace(history, bounds=self._bounds(history, now))
        is_free = self.state is PlannerState.OBSERVING and now >= self._not_before
        for offer in offers:
            if any(record.origin == offer.id for record in self._records):
                continue
            proposal = offer.proposal
            reason = problem_of(proposal, history)
            if not reason and offer.base_version != history.version:
                reason = f"it was made for version {offer.base_version} of the job, which is now at {history.version}"
            found = Verdict(proposal) if reason else self._check(proposal, history, now)
            if reason or found.blocked:
                return self._declining(offer, history, reason or found.blocked)
            can_supersede = proposal.urgent and self.state in (PlannerState.OBSERVING, *_UNDER_WAY)
            if is_free or can_supersede or found.is_advice:
                step = self._planning(proposal, history, is_advice=found.is_advice)
                return replace(step, arguments={**step.arguments, "origin": offer.id})
        return None

    def _declining(self, offer: Offer, history: JobHistory, reason: str) -> Step:
        arguments = {
            "offer": offer.id,
            "proposal": offer.proposal.to_json(),
            "before": history.configuration.to_json(),
            "version": history.version,
            "objective": history.objective.value,
            "reason": reason,
        }
        return Step("declined", arguments, reason)

    def _planning(self, proposal: Proposal, history: JobHistory, *, is_advice: bool) -> Step:
        period = current_period(history)
        arguments = {
            "proposal": proposal.to_json(),
            "before": history.configuration.to_json(),
            "version": history.version,
            "objective": _judged_by(history, proposal, period).value,
            "rate": period.rate if period is not None else 0.0,
            "error": period.error if period is not None else 0.0,
            "advice": is_advice,
        }
        return Step("plan", arguments, proposal.reason)

    def _check(self, proposal: Proposal, history: JobHistory, now: float) -> Verdict:
        """Whether it may be planned now, apart from what is under way."""
        new = proposal.configuration
        if not history.bounds.allows(new) and new != history.configuration:
            return Verdict(proposal, "it is beyond the bounds of the job, or of where nodes were unschedulable")
        if problem := problem_of(proposal, history):
            return Verdict(proposal, f"it makes no sense: {problem}")
        if proposal.advice:
            why = "it is advice: only a person can carry it out" if self._is_known_advice(proposal) else ""
            return Verdict(proposal, why, is_advice=True)
        is_growth = new.nodes > history.configuration.nodes or new.cpu > history.configuration.cpu
        if (is_growth or memory_of(new) > memory_of(history.configuration)) and (over := excess(new, self._grant)):
            return Verdict(proposal, f"it would take more than the quota grants: {over}")
        for tried, until, _ in self._failed:
            if not proposal.urgent and now < until and is_alike(tried, new):
                return Verdict(proposal, f"it was tried and rolled back; not again for {until - now:.0f} s")
        is_known = self._is_known_advice(proposal)
        if self.settings.dry_run:
            return Verdict(proposal, "plans are only shown (dry run)" if is_known else "", is_advice=True)
        error = self.error_of(proposal.algorithm, now)
        if error > self.settings.max_error:
            why = f"predictions of {proposal.algorithm} were wrong by {error:.0%}: it only advises"
            return Verdict(proposal, why if is_known else "", is_advice=True)
        return Verdict(proposal)

    def _chain(self) -> Sequence[GuardedAlgorithm]:
        if self._asked is None:
            names = self.settings.algorithms or DEFAULT_CHAIN
            self._asked = guarded(chain(names), names)
        return self._asked

    def _bounds(self, history: JobHistory, now: float) -> Bounds:
        bounds = within_grant(history.bounds, self._grant)
        worker = self._lowered(bounds.worker, WORKER, now)
        return replace(bounds, worker=worker, server=bounds.server and self._lowered(bounds.server, SERVER, now))

    def _lowered(self, bounds: RoleBounds, role: str, now: float) -> RoleBounds:
        replicas, until, _ = self._ceilings.get(role, (0, 0.0, 0.0))
        if now >= until:
            return bounds
        return replace(bounds, max_replicas=max(bounds.min_replicas, min(bounds.max_replicas, replicas)))

    def _key(self, history: JobHistory, now: float) -> str:
        """Equal for histories in which nothing has changed that an algorithm would decide by."""
        newest = history.periods[-1] if history.periods else None
        rate: tuple[int, ...] = ()
        if newest is not None and newest.rate > 0:
            samples = sum(period.samples for period in history.periods if period.configuration == newest.configuration)
            rate = (round(log(newest.rate) / (2 * MIN_GAIN)), min(samples, 32) // 4)
        tried = len({period.configuration for period in history.periods})
        is_settling = history.settling_since is not None
        nodes = tuple(node.name for node in history.nodes)
        room = _room_that_matters(history)
        wanted = (history.version, history.objective.value, history.deadline, history.bounds)
        facts = (tried, rate, is_settling, nodes, room, wanted, int(now // LOOK_AGAIN_S))
        return f"{crc32(repr(facts).encode()):08x}"

    def _is_known_advice(self, proposal: Proposal) -> bool:
        same = [record for record in self._records if record.proposal.algorithm == proposal.algorithm]
        return bool(same) and same[-1].outcome is Outcome.ADVISED and _is_same(same[-1].proposal, proposal)

    # --- a plan that is under way

    def _period_of(self, record: PlanRecord, history: JobHistory) -> Period | None:
        """What was measured of the plan."""
        assert record.accepted_at is not None
        period = current_period(history)
        if period is None:
            return None
        if not record.changes_speed:
            return period if period.ended >= record.accepted_at + self.settings.judge_s else None
        is_new = period.began >= record.accepted_at or period.ended - record.accepted_at >= 2 * self.settings.judge_s
        return period if is_new and record.is_reached_by(period.configuration) else None

    def _is_present(self, record: PlanRecord, history: JobHistory) -> bool:
        return record.is_reached_by(history.configuration)

    def _is_enough(self, record: PlanRecord, period: Period, now: float) -> bool:
        assert record.accepted_at is not None
        seconds = period.ended - max(period.began, record.accepted_at)
        is_sure = period.error <= self.settings.judge_error * period.rate
        return seconds >= self.settings.judge_s and (is_sure or seconds >= 4 * self.settings.judge_s)

    def _judgement(self, record: PlanRecord, rate: float, error: float) -> Judgement:
        before = Measured(record.before, record.before_rate, record.before_error)
        after = Measured(record.proposal.configuration, rate, error)
        if not record.before_rate:
            return Judgement(True, 0.0, 0.0, f"{rate:.4g} records per second; nothing was measured before")
        return self._judge.judge(record.objective, before, after, record.proposal.prediction)

    def _roll_back(self, now: float, record: PlanRecord, reason: str, version: int) -> ResourcePlan:
        self._made += 1
        back = PlanRecord(
            f"auto-{self._made}",
            now,
            self._judge.rollback(record.proposal.configuration, record.before, reason),
            record.proposal.configuration,
            record.achieved_rate or 0.0,
            record.achieved_error or 0.0,
            record.objective,
            version,
            now + self.settings.expiry_s,
            rolls_back=record.id,
        )
        self._under_way = back.id
        self._keep(back)
        self._enter(PlannerState.ROLLED_BACK, now)
        return back.resource_plan()

    # --- changes of the state

    def _enter(self, state: PlannerState, now: float) -> None:
        self.state, self._since = state, now

    def _rest(self, now: float, seconds: float) -> None:
        self._enter(PlannerState.OBSERVING, now)
        self._not_before = now + seconds

    def _grow_cool_down(self) -> None:
        self._cool_down_s = min(2 * self._cool_down_s, self.settings.max_cool_down_s)

    def _pause(self, now: float, seconds: float, reason: str) -> None:
        if self._under_way is not None:
            self._end(now, self._under_way, Outcome.SUPERSEDED, reason)
        self._interrupted = None
        self._paused_until, self._pause_reason = now + seconds, reason
        self._enter(PlannerState.PAUSED, now)

    def _end(self, now: float, plan: str, outcome: Outcome, judgement: str) -> None:
        record = self._find(plan)
        assert record is not None
        self._update(replace(record, outcome=outcome, ended_at=now, judgement=judgement))
        self._under_way = None

    def _interrupt(self, now: float, record: PlanRecord, urgent: PlanRecord) -> None:
        """``record`` is under way, and something urgent comes before it."""
        self._end(now, record.id, Outcome.SUPERSEDED, f"something urgent came up: {urgent.proposal.reason}")
        stays = record.is_reached_by(urgent.proposal.configuration)
        if record.changes_speed and record.accepted_at is not None and not record.rolls_back:
            self._interrupted = record.id if stays else None
        elif not stays:
            self._interrupted = None

    def _take_up(self, now: float) -> None:
        """What something urgent interrupted is still in place: it is judged now, by what is measured from here on."""
        record, self._interrupted = self._find(self._interrupted), None
        if record is None or self.state is not PlannerState.OBSERVING:
            return
        self._update(replace(record, outcome=Outcome.CARRIED_OUT, accepted_at=now, ended_at=None, judgement=""))
        self._under_way = record.id
        is_try = record.proposal.algorithm == "probe"
        self._enter(PlannerState.PROBING if is_try else PlannerState.SETTLING, now)

    def _learn(self, now: float, name: str, error: float) -> None:
        self._errors[name] = (
            (self.error_of(name, now) + error) / 2 if error <= self.settings.max_error else error,
            now,
        )

    def _avoid(self, now: float, configuration: Configuration) -> None:
        before = [entry for entry in self._failed if is_alike(entry[0], configuration)]
        length = 2 * before[0][2] if before else self.settings.max_cool_down_s
        others = [entry for entry in self._failed if entry not in before]
        self._failed = [*others, (configuration, now + length, length)][-self.settings.max_records :]

    def _lower_ceilings(self, now: float, record: PlanRecord) -> None:
        for role in (WORKER, SERVER):
            old, new = shape_of(record.before, role), shape_of(record.proposal.configuration, role)
            if old is not None and new is not None and new.replicas < old.replicas:
                length = self._ceilings[role][2] * 2 if role in self._ceilings else self.settings.room_s
                self._ceilings[role] = (new.replicas, now + length, length)

    def _current(self, plan: str) -> PlanRecord:
        record = self._find(plan)
        if record is None:
            raise NotFound(f"plan {plan!r} not found")
        if plan != self._under_way:
            raise Conflict(f"plan {plan!r} is not under way: {record.outcome.value}")
        return record

    def _find(self, plan: str | None) -> PlanRecord | None:
        return next((record for record in reversed(self._records) if record.id == plan), None)

    def _keep(self, record: PlanRecord) -> None:
        """The oldest makes room, but never the one that is under way."""
        kept = [*self._records, record]
        if len(kept) > self.settings.max_records:
            oldest = next(i for i, other in enumerate(kept) if other.id != self._under_way)
            kept.pop(oldest)
        self._records = kept

    def _update(self, record: PlanRecord) -> None:
        self._records = [record if other.id == record.id else other for other in self._records]

    # --- snapshot

    def snapshot(self) -> dict[str, Any]:
        return {
            "state": self.state.value,
            "since": self._since,
            "records": [record.to_json() for record in self._records],
            "made": self._made,
            "under_way": self._under_way,
            "interrupted": self._interrupted,
            "not_before": self._not_before,
            "cool_down_s": self._cool_down_s,
            "paused_until": self._paused_until,
            "pause_reason": self._pause_reason,
            "errors": {name: list(entry) for name, entry in self._errors.items()},
            "ceilings": {role: list(entry) for role, entry in self._ceilings.items()},
            "looked": self._looked,
            "failed": [[asdict(tried), until, length] for tried, until, length in self._failed],
            "grant": grant_to_json(self._grant) if self._grant is not None else None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.state = PlannerState(state["state"])
        self._since = state["since"]
        self._records = [PlanRecord.from_json(record) for record in state["records"]]
        self._made = state["made"]
        self._under_way = state["under_way"]
        self._interrupted = state.get("interrupted")  # older journals have none
        self._not_before = state["not_before"]
        self._cool_down_s = state["cool_down_s"]
        self._paused_until = state["paused_until"]
        self._pause_reason = state["pause_reason"]
        self._errors = {name: (entry[0], entry[1]) for name, entry in state["errors"].items()}
        self._ceilings = {role: (entry[0], entry[1], entry[2]) for role, entry in state["ceilings"].items()}
        self._failed = [(Configuration.from_json(entry[0]), entry[1], entry[2]) for entry in state["failed"]]
        self._looked = state["looked"]
        grant = state.get("grant")  # a journal of before there was a Brain has none
        self._grant = grant_from_json(grant) if grant is not None else None


def _room_that_matters(history: JobHistory) -> tuple[int, int]:
    """Free cores and GB, no more of them than the job could ever take: what others do on a large cluster is no news."""
    if history.room is None:
        return (0, 0)
    cpu = memory_mb = 0.0
    for role, bounds in ((WORKER, history.bounds.worker), (SERVER, history.bounds.server)):
        shape = shape_of(history.configuration, role)
        if bounds is not None and shape is not None:
            cpu += bounds.max_replicas * (bounds.max_cpu or 2 * shape.cpu or 1.0)
            memory_mb += bounds.max_replicas * max(bounds.max_memory_mb, 2 * shape.memory_mb)
    room = history.room
    return int(min(room.free_cpu, cpu)), int(
        min(room.free_memory_mb, memory_mb) if memory_mb else room.free_memory_mb
    ) >> 10


def _judged_by(history: JobHistory, proposal: Proposal, period: Period | None) -> Objective:
    """A plan for a deadline or a budget may be slower, or dearer, than the objective alone would have it."""
    prediction = proposal.prediction
    if (history.deadline is None and history.budget_node_s is None) or prediction is None or period is None:
        return history.objective
    return Objective.FASTEST if prediction.rate >= period.rate else Objective.CHEAPEST


def _is_same(one: Proposal, other: Proposal) -> bool:
    return (one.configuration, one.replace, dict(one.seats), dict(one.moves)) == (
        other.configuration,
        other.replace,
        dict(other.seats),
        dict(other.moves),
    )
