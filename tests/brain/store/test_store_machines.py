"""Random histories of reports and of journals, against models that say in a few lines what must be there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import func, select
from tests.brain.store.reporting import DESCRIPTION, identity, report
from tests.databases import Databases

from pliant.brain.store.database import Database
from pliant.brain.store.errors import FencedOff
from pliant.brain.store.jobs import recorded_jobs
from pliant.brain.store.journals import JournalBatch, commit, open_journal, read_from
from pliant.brain.store.reports import Acknowledged, write_reports
from pliant.brain.store.tables import job_samples
from pliant.core.errors import Conflict

SETTINGS = settings(
    max_examples=15,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class OnSqlite(RuleBasedStateMachine):
    databases: ClassVar[Databases]

    def __init__(self) -> None:
        super().__init__()
        self._opened = self.databases.migrated("sqlite")
        self.database: Database = self._opened.__enter__()

    def teardown(self) -> None:
        self._opened.__exit__(None, None, None)


@dataclass
class ModelJob:
    session: int = 0
    sequence: int = 0
    records: int = 0
    lost: int = 0
    wants_all: bool = False


class Reports(OnSqlite):
    """Masters of two jobs, each of which may be made anew (another uid); anything is sent twice, late, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[tuple[str, str], ModelJob] = {}
        self.newest: dict[str, str] = {}

    @rule(
        batch=st.lists(
            st.tuples(
                st.sampled_from(["a", "A"]),
                st.sampled_from(["u1", "u2"]),
                st.integers(1, 3),
                st.integers(1, 5),
                st.integers(0, 1000),
                st.booleans(),
            ),
            min_size=1,
            max_size=5,
        )
    )
    def write(self, batch: list[tuple[Any, ...]]) -> None:
        reports = [
            report(
                sequence, records, job=identity(name, uid), session=session, description=DESCRIPTION if says else None
            )
            for name, uid, session, sequence, records, says in batch
        ]
        for name, uid, _, _, _, says in batch:  # new jobs replace those of their name before any report is taken
            if says and (name, uid) not in self.jobs:
                self.jobs[name, uid] = ModelJob()
                self.newest[name] = uid
        for each in batch:
            self._take(*each)
        answers = write_reports(self.database, reports, 1.0)
        for (name, uid, *_), answer in zip(batch, answers, strict=True):
            job = self.jobs.get((name, uid))
            if job is None:
                assert answer == Acknowledged(0, 0, True)
            elif self.newest[name] != uid:
                assert answer.refused
            else:
                assert answer == Acknowledged(job.session, job.sequence, job.wants_all)

    def _take(self, name: str, uid: str, session: int, sequence: int, records: int, says: bool) -> None:
        job = self.jobs.get((name, uid))
        if job is None or self.newest[name] != uid or (session, sequence) <= (job.session, job.sequence):
            return
        is_new = session > job.session
        skipped = sequence - 1 - (0 if is_new else job.sequence)
        job.lost += skipped
        job.wants_all = not says and (job.wants_all or skipped > 0 or is_new)
        job.session, job.sequence, job.records = session, sequence, records

    @invariant()
    def the_database_has_what_the_model_has(self) -> None:
        stored = {(each.identity.name, each.identity.uid): each for each in recorded_jobs(self.database)}
        assert set(stored) == set(self.jobs)
        with self.database.reading() as connection:
            total = func.sum(job_samples.c.accepted)
            sums = dict(
                map(tuple, connection.execute(select(job_samples.c.job_id, total).group_by(job_samples.c.job_id)))
            )
        for key, job in self.jobs.items():
            found = stored[key]
            assert (found.session, found.sequence) == (job.session, job.sequence)
            assert (found.sample.records, found.reports_lost) == (job.records, job.lost)
            assert sums.get(found.id, 0) == job.records
            assert found.is_running == (self.newest[key[0]] == key[1])


class Journals(OnSqlite):
    """Masters that replace each other, and go on writing as if they did not know."""

    def __init__(self) -> None:
        super().__init__()
        self.fence = 0
        self.writer = ""
        self.batches: list[JournalBatch] = []

    @rule(writer=st.sampled_from(["m1", "m2", "m3"]))
    def open(self, writer: str) -> None:
        opened = open_journal(self.database, identity(), writer, 1.0)
        if writer != self.writer:
            self.fence, self.writer = self.fence + 1, writer
        assert (opened.fence, opened.last) == (self.fence, len(self.batches))

    @rule(behind=st.integers(0, 1), ahead=st.integers(-2, 1), content=st.binary(max_size=3), snapshot=st.booleans())
    def commit(self, behind: int, ahead: int, content: bytes, snapshot: bool) -> None:
        if not self.fence:
            return
        number = len(self.batches) + 1 + ahead
        batch = JournalBatch(number, snapshot, content, content[:1])
        arguments: Any = (self.database, identity(), self.fence - behind, number, batch.operations, batch.lasting)
        if behind:
            with pytest.raises(FencedOff):
                commit(*arguments, is_snapshot=snapshot, now=1.0)
        elif ahead == 0:
            assert commit(*arguments, is_snapshot=snapshot, now=1.0) == number
            self.batches.append(batch)
        elif number > 0 and ahead == -1 and self.batches[-1] == batch:
            assert commit(*arguments, is_snapshot=snapshot, now=1.0) == number
        else:
            with pytest.raises(Conflict):
                commit(*arguments, is_snapshot=snapshot, now=1.0)

    @invariant()
    def everything_that_lasts_and_all_since_the_snapshot_is_there(self) -> None:
        if not self.fence:
            return
        snapshot = max((batch.number for batch in self.batches if batch.is_snapshot), default=0)
        expected = [
            batch if batch.number >= snapshot else replace(batch, operations=b"")
            for batch in self.batches
            if batch.number >= snapshot or batch.lasting
        ]
        assert list(read_from(self.database, identity())) == expected


def test_any_history_of_reports_counts_each_of_them_once(databases: Databases) -> None:
    Reports.databases = databases
    run_state_machine_as_test(Reports, settings=SETTINGS)


def test_any_history_of_a_journal_has_one_writer_and_no_gap(databases: Databases) -> None:
    Journals.databases = databases
    run_state_machine_as_test(Journals, settings=SETTINGS)
