"""What the master learns of a node's checkpoints, also if it is away for a while."""

from __future__ import annotations

import asyncio

import pytest

from pliant.agent import checkpoint_reports
from pliant.agent.checkpoint_reports import MAX_WAITING, CheckpointReports
from pliant.checkpoint.slots import WriteResult
from pliant.core.errors import InvalidRequest, MasterUnavailable


def result(step: int, problem: str = "", *, complete: bool = False) -> WriteResult:
    return WriteResult(step, problem, 0.1, step, "/there", "", complete)


class FakeMaster:
    def __init__(self, *errors: Exception) -> None:
        self.steps: list[int] = []
        self.errors = list(errors)

    async def send(self, report: WriteResult) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.steps.append(report.step)


def test_failures_and_complete_checkpoints_are_reported_in_order_and_single_parts_are_not() -> None:
    reports, master = CheckpointReports(), FakeMaster()
    reports.add(result(1), result(2, "no space left"), result(3, complete=True))
    asyncio.run(reports.deliver(master.send))
    asyncio.run(reports.deliver(master.send))
    assert master.steps == [2, 3]


def test_a_report_waits_for_a_master_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_reports, "RETRY_PAUSE_S", 0.0)
    reports, master = CheckpointReports(), FakeMaster(MasterUnavailable("away"))
    reports.add(result(1, "full"), result(2, "full"))
    asyncio.run(reports.offer(master.send))
    assert master.steps == []
    asyncio.run(reports.offer(master.send))
    assert master.steps == [1, 2]


def test_a_report_that_must_arrive_raises_what_keeps_it_from_arriving() -> None:
    reports, master = CheckpointReports(), FakeMaster(MasterUnavailable("away"))
    reports.add(result(1, "full"))
    with pytest.raises(MasterUnavailable):
        asyncio.run(reports.deliver(master.send))
    asyncio.run(reports.deliver(master.send))
    assert master.steps == [1]


def test_a_report_that_the_master_rejects_does_not_hold_up_the_others() -> None:
    reports, master = CheckpointReports(), FakeMaster(InvalidRequest("what is this?"))
    reports.add(result(1, "full"), result(2, "full"))
    asyncio.run(reports.deliver(master.send))
    assert master.steps == [2]


def test_the_newest_reports_are_kept() -> None:
    reports, master = CheckpointReports(), FakeMaster()
    reports.add(*(result(step, "full") for step in range(2 * MAX_WAITING)))
    asyncio.run(reports.deliver(master.send))
    assert master.steps == list(range(MAX_WAITING, 2 * MAX_WAITING))


def test_a_report_that_arrives_while_too_many_wait_pushes_out_none_but_the_oldest() -> None:
    reports, master = CheckpointReports(), FakeMaster()
    reports.add(*(result(step, "full") for step in range(MAX_WAITING)))

    async def send(report: WriteResult) -> None:
        if report.step == 0:
            reports.add(result(MAX_WAITING, "full"))
        await master.send(report)

    asyncio.run(reports.deliver(send))
    assert master.steps == list(range(MAX_WAITING + 1))
