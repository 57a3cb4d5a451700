"""The book of grants of one quota: how its jobs get from what they have to their shares, without ever exceeding it on the way.

A state machine by the rules of ``core/__init__.py``. ``shares`` says what jobs should have, ``used`` what the nodes of a job have,
as its master reports it, ``ended`` that a job is over or gone. Each returns the grants to be sent. A *grant* is an upper limit: its
job may have any configuration whose amount fits into that of the limit; None means nothing, the job waits or is suspended, and a
later grant resumes it.

What a job *holds* is the maximum of three things: what its nodes have, its newest grant, and every grant before it that the job
may still act by, because it has not confirmed a newer one. Invariants, held by ``tests/core/planning/sharing/test_grants*.py``:

- **A shrink is confirmed before others grow.** No grant makes the sum of what jobs hold exceed the quota. It is exceeded only
  where jobs have more than they were granted (a person's doing, or a job's before it had a grant), or the quota was lowered; then
  nobody gets more of it until enough is free.
- Growth is granted in the order of the shares, each as soon as what is really free suffices; one that does not fit yet does not
  hold up those behind it. Shares that fit into the quota together are all granted in the end, once jobs confirm.
- What is not confirmed is not free, however long it takes: a job that is not heard of keeps what it has until it is declared gone
  (``ended``). One that does not confirm within its grace is named (``overdue``), no more.
- Reports may be lost, late or duplicated: they are numbered by their job, and an older one than the newest is ignored; so is
  one of a job that has ended.
- Grants are numbered by job, rising; equal ones are not sent again.

A change that takes more of one thing and less of another (fewer nodes with more memory) and does not fit yet is granted in two
steps, first what both configurations have in common: else two such jobs would wait for each other for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.sharing.demand import Amount, Quota, Share
from pliant.core.state_machine import StateMachine

MEMORY_OF_ENDED = 1000  # jobs: late reports of older ones would have them counted again


@dataclass(frozen=True, slots=True)
class GrantSettings:
    grace_s: float = 120.0  # for a job to shrink
    suspend_grace_s: float = 120.0  # for a job to give up everything


@dataclass(frozen=True, slots=True)
class Grant:
    job: str
    number: int  # rising, of the job
    limit: Configuration | None  # None: nothing
    reason: str  # for people
    grace_s: float  # within which nodes beyond the limit are to be given up; 0: it only allows more


@dataclass(frozen=True, slots=True)
class Overdue:
    """A job that has, or may still take, more than its grant, although its grace is over."""

    job: str
    since: float  # when it was told to shrink
    excess: Amount


@dataclass(slots=True)
class _Entry:
    has_share: bool = False
    share: Configuration | None = None
    reason: str = ""
    used: Amount = field(default_factory=Amount)
    report: int = 0  # the newest
    grants: list[tuple[int, Configuration | None]] = field(
        default_factory=list
    )  # that it may act by; the newest is last
    sent: Grant | None = None
    shrinks_since: float | None = None
    held: Amount = field(default_factory=Amount)  # computed

    @property
    def granted(self) -> Amount:
        return Amount.of(self.grants[-1][1]) if self.grants else Amount()

    def hold(self) -> None:
        self.held = self.used
        for _, limit in self.grants:
            self.held = self.held.maximum(Amount.of(limit))

    def add(self, number: int, limit: Configuration | None) -> None:
        """Of those before it, the ones that say no more than this one no longer matter."""
        amount = Amount.of(limit)
        others = [one for one in self.grants if not Amount.of(one[1]).excess(amount).is_nothing]
        self.grants = [*others, (number, limit)]

    @property
    def is_granted(self) -> bool:
        """It has its share."""
        return not self.has_share or (bool(self.grants) and self.grants[-1][1] == self.share)


class GrantBook(StateMachine):
    def __init__(self, quota: Quota, settings: GrantSettings | None = None) -> None:
        self.quota = quota
        self.settings = settings or GrantSettings()
        self._jobs: dict[str, _Entry] = {}
        self._held = Amount()  # by all of them
        self._order: list[str] = []  # of the shares
        self._ended: list[str] = []

    # --- reading

    @property
    def jobs(self) -> tuple[str, ...]:
        return tuple(self._jobs)

    def grant_of(self, job: str) -> Grant | None:
        """The newest; to be sent again to a master that was away."""
        return self._jobs[job].sent if job in self._jobs else None

    def used_by(self, job: str) -> Amount:
        return self._jobs[job].used if job in self._jobs else Amount()

    def held_by(self, job: str) -> Amount:
        """Counted as taken."""
        return self._jobs[job].held if job in self._jobs else Amount()

    def held(self) -> Amount:
        return self._held

    def free(self) -> Amount:
        """Negative where more is held than the quota allows."""
        return self.quota.room(self._held)

    def waiting(self) -> tuple[str, ...]:
        """Jobs whose share is not granted yet, in the order in which it will be."""
        return tuple(job for job in self._order if not self._jobs[job].is_granted)

    def overdue(self, now: float) -> tuple[Overdue, ...]:
        """Jobs that did not confirm in time that they have no more than their grant."""
        return tuple(
            Overdue(job, entry.shrinks_since, self.quota.counted(entry.held.excess(entry.granted)))
            for job, entry in self._jobs.items()
            if entry.shrinks_since is not None
            and entry.sent is not None
            and now - entry.shrinks_since >= entry.sent.grace_s
        )

    # --- operations

    def shares(self, now: float, *, shares: Sequence[Mapping[str, Any]]) -> tuple[Grant, ...]:
        """What jobs should have from now on, in the order in which they are granted it. Jobs that are not named keep what they
        have and what they were promised, behind the others."""
        given = [Share.from_json(share) for share in shares]
        names = [share.job for share in given]
        if len(set(names)) < len(names):
            raise InvalidRequest(f"a job has two shares of the quota {self.quota.name}")
        ended = set(self._ended)
        for share in given:
            if share.job in ended:
                continue
            entry = self._jobs.setdefault(share.job, _Entry())
            entry.has_share, entry.share, entry.reason = True, share.configuration, share.reason
        named = dict.fromkeys(name for name in names if name in self._jobs)
        self._order = [*named, *(job for job in self._order if job not in named)]
        return self._settle(now)

    def used(
        self,
        now: float,
        *,
        job: str,
        amount: Mapping[str, float],
        report: int,
        grant: int,
        limit: Mapping[str, Any] | None = None,
    ) -> tuple[Grant, ...]:
        """What the nodes of a job have, those included that are being launched or removed. ``report``: rising, of the job.
        ``grant``: the newest that the job acts by (0: none), and ``limit``, what that one said: a book that has lost its memory
        goes on from there."""
        used = Amount.from_json(amount)
        if report < 1 or grant < 0:
            raise InvalidRequest(f"reports of job {job} are numbered from 1, grants from 0: {report}, {grant}")
        if job in self._ended:
            return ()
        entry = self._jobs.get(job)
        if entry is not None and report <= entry.report:
            return ()
        known = _from_json(limit)
        entry = self._jobs.setdefault(job, _Entry())
        before = entry.held
        entry.used, entry.report = used, report
        if grant > (entry.grants[-1][0] if entry.grants else 0):  # by another book, before this one
            entry.add(grant, known)
            entry.sent = Grant(job, grant, known, "as it was granted before", 0.0)
        entry.grants = [one for one in entry.grants if one[0] >= grant]
        self._note_held(now, entry)
        return () if before.excess(entry.held).is_nothing else self._settle(now)

    def ended(self, now: float, *, job: str) -> tuple[Grant, ...]:
        """The job is over, or was declared gone: it has nothing any more."""
        entry = self._jobs.pop(job, None)
        if job not in self._ended:  # one of which nothing was heard yet, too: its reports may still be on their way
            self._ended = [*self._ended, job][-MEMORY_OF_ENDED:]
        if entry is None:
            return ()
        self._held -= entry.held
        self._order = [name for name in self._order if name != job]
        return self._settle(now)

    def submitted(self, now: float, *, job: str) -> None:
        """A new job by the name of one that has ended."""
        self._ended = [name for name in self._ended if name != job]

    def limited(self, now: float, *, limit: Mapping[str, float]) -> tuple[Grant, ...]:
        """The quota was changed. A lower one takes nothing away by itself: new shares do."""
        self.quota = Quota(self.quota.name, Amount.from_json(limit))
        return self._settle(now)

    # --- what can be granted now

    def _settle(self, now: float) -> tuple[Grant, ...]:
        """What frees something first, then growth in the order of the shares, then first steps of what did not fit."""
        made: list[Grant] = []
        for may_grant in (self._frees, self._fits, self._is_mixed):
            for job in self.waiting():
                entry = self._jobs[job]
                if not may_grant(entry):
                    continue
                common = self._in_common(entry) if may_grant == self._is_mixed else None
                limit, reason = (common, f"on the way: {entry.reason}") if common else (entry.share, entry.reason)
                made.append(self._grant(now, job, entry, limit, reason))
        return tuple(made)

    def _more(self, entry: _Entry) -> Amount:
        """What its share would take beside what it holds."""
        return self.quota.counted(Amount.of(entry.share).excess(entry.held))

    def _frees(self, entry: _Entry) -> bool:
        return self._more(entry).is_nothing

    def _fits(self, entry: _Entry) -> bool:
        return self._more(entry).fits(self.free())

    def _is_mixed(self, entry: _Entry) -> bool:
        return self._in_common(entry) is not None

    def _in_common(self, entry: _Entry) -> Configuration | None:
        """The first step of a change that takes more of one thing and less of another; None: there is none."""
        before = entry.grants[-1][1] if entry.grants else None
        if before is None or entry.share is None:
            return None
        common = _common(before, entry.share)
        less = Amount.of(before).excess(Amount.of(common))
        return common if not self.quota.counted(less).is_nothing else None

    def _grant(self, now: float, job: str, entry: _Entry, limit: Configuration | None, reason: str) -> Grant:
        number = entry.grants[-1][0] + 1 if entry.grants else 1
        entry.add(number, limit)
        self._note_held(now, entry)
        grace = 0.0
        if entry.shrinks_since is not None:
            grace = self.settings.suspend_grace_s if limit is None else self.settings.grace_s
        entry.sent = Grant(job, number, limit, reason, grace)
        return entry.sent

    def _note_held(self, now: float, entry: _Entry) -> None:
        """What it holds, whether that is more than its newest grant, and since when."""
        before = entry.held
        entry.hold()
        self._held += entry.held - before
        has_more = bool(entry.grants) and not self.quota.counted(entry.held.excess(entry.granted)).is_nothing
        entry.shrinks_since = (now if entry.shrinks_since is None else entry.shrinks_since) if has_more else None

    # --- snapshot

    def snapshot(self) -> dict[str, Any]:
        return {
            "limit": self.quota.limit.to_json(),
            "order": list(self._order),
            "ended": list(self._ended),
            "jobs": {
                job: {
                    "has_share": entry.has_share,
                    "share": _to_json(entry.share),
                    "reason": entry.reason,
                    "used": entry.used.to_json(),
                    "report": entry.report,
                    "grants": [[number, _to_json(limit)] for number, limit in entry.grants],
                    "sent": {**asdict(entry.sent), "limit": _to_json(entry.sent.limit)} if entry.sent else None,
                    "shrinks_since": entry.shrinks_since,
                }
                for job, entry in self._jobs.items()
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.quota = Quota(self.quota.name, Amount.from_json(state["limit"]))
        self._order, self._ended = list(state["order"]), list(state["ended"])
        self._jobs = {
            job: _Entry(
                entry["has_share"],
                _from_json(entry["share"]),
                entry["reason"],
                Amount.from_json(entry["used"]),
                entry["report"],
                [(number, _from_json(limit)) for number, limit in entry["grants"]],
                Grant(**{**entry["sent"], "limit": _from_json(entry["sent"]["limit"])}) if entry["sent"] else None,
                entry["shrinks_since"],
            )
            for job, entry in state["jobs"].items()
        }
        for entry in self._jobs.values():
            entry.hold()
        self._held = Amount.sum(entry.held for entry in self._jobs.values())


def _to_json(configuration: Configuration | None) -> dict[str, Any] | None:
    return configuration.to_json() if configuration is not None else None


def _from_json(value: Mapping[str, Any] | None) -> Configuration | None:
    return Configuration.from_json(value) if value is not None else None


def _common(one: Configuration, other: Configuration) -> Configuration:
    """Of each role, as few nodes and as little of each node as either has: no more than any of both."""
    servers = _smaller(one.server, other.server) if one.server is not None and other.server is not None else None
    return Configuration(_smaller(one.worker, other.worker), servers, other.micro_batch)


def _smaller(one: Shape, other: Shape) -> Shape:
    return Shape(
        min(one.replicas, other.replicas),
        min(one.cpu, other.cpu, key=lambda cpu: cpu or 1.0),
        min(one.memory_mb, other.memory_mb),
        min(one.gpu, other.gpu),
    )
