"""Events through the master's own door."""

from __future__ import annotations

from pathlib import Path

from pliant.core.events import EventRecord, ServerReported
from pliant.master.controller import JobController
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.events import event_from
from pliant.testing import RunningMaster

SPEC = {"roles": {"worker": {"command": ["true"]}}}
LONG = "\N{SNOWMAN}" * 4000
EVENTS = 900  # 20 MB of them


def report_at_length(controller: JobController) -> None:
    for number in range(EVENTS):
        controller.journal.event(ServerReported(node=f"ps-{number}", message=LONG))


def test_events_that_no_single_message_can_carry_are_read_page_by_page(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, SPEC) as master:
        master.run_inside(report_at_length)
        found: list[EventRecord] = []
        while True:
            request = pb.EventsRequest(after=found[-1].number if found else 0, limit=1000)
            reply = master.client.call(master.client.stubs.job.GetEvents, request)
            if not reply.events:
                break
            found += map(event_from, reply.events)
    assert [record.node for record in found if isinstance(record.event, ServerReported)] == [
        f"ps-{number}" for number in range(EVENTS)
    ]
