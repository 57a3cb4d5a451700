"""The handler that torchrun loads, against a real master, without torchrun's processes (see tests/e2e/test_torchrun.py)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("torch")

from torch.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousTimeoutError,
    rendezvous_handler_registry,
)

from pliant.core.errors import Unauthenticated
from pliant.master.components.rendezvous import RendezvousServer
from pliant.master.controller import JobController
from pliant.testing import RunningMaster, wait_until
from pliant.testing.waiting import MAX_WAIT_S

pytestmark = pytest.mark.e2e  # a real master, and several workers around it

SPEC: dict[str, Any] = {
    "components": {"need_pod_manager": False, "need_task_manager": False, "need_rendezvous": True},
    "fault": {"session_timeout": 10.0},  # which nobody who runs exceeds
}


class Meeting:
    """Agents of torchrun as threads; closed at the end."""

    def __init__(self, master: RunningMaster) -> None:
        self.master = master
        self.pool = ThreadPoolExecutor(8)
        self.handlers: list[RendezvousHandler] = []

    def agent(self, nodes: str = "1:2", **config: Any) -> RendezvousHandler:
        low, high = map(int, nodes.split(":"))
        given = {"token_file": str(self.master.job_dir.token), "last_call_timeout": "30", "run_id": "tested", **config}
        run_id = given.pop("run_id")
        endpoint = given.pop("endpoint", self.master.address.target)
        parameters = RendezvousParameters("pliant", endpoint, run_id, low, high, **given)
        handler = rendezvous_handler_registry.create_handler(parameters)
        self.handlers.append(handler)
        return handler

    def join(self, *handlers: RendezvousHandler) -> list[RendezvousInfo]:
        """All at once, in the order of their ranks."""
        joining = [self.pool.submit(handler.next_rendezvous) for handler in handlers]
        return sorted((each.result(MAX_WAIT_S) for each in joining), key=lambda info: info.rank)

    def close(self) -> None:
        for handler in self.handlers:
            handler.shutdown()
        self.pool.shutdown()


@pytest.fixture
def meeting(tmp_path: Path) -> Iterator[Meeting]:
    with RunningMaster(tmp_path, SPEC) as master:
        made = Meeting(master)
        yield made
        made.close()


def test_torch_finds_the_handler_by_its_entry_point() -> None:
    [found] = entry_points(group="torchrun.handlers", name="pliant")
    assert found.load()().__name__ == "create"


def test_agents_get_ranks_and_share_the_store_of_rank_0(meeting: Meeting) -> None:
    first, second = meeting.join(meeting.agent("2:2"), meeting.agent("2:2"))
    assert [(info.rank, info.world_size) for info in (first, second)] == [(0, 2), (1, 2)]
    first.store.set("greeting", "hello")
    assert second.store.get("greeting") == b"hello"
    told = [info.bootstrap_store_info for info in (first, second)]
    assert told[0] == told[1]


@pytest.mark.parametrize("local_addr", ["127.0.0.2", "localhost", ""])
def test_the_store_listens_on_the_nodes_own_address_only(meeting: Meeting, local_addr: str) -> None:
    config = {"local_addr": local_addr} if local_addr else {}
    [info] = meeting.join(meeting.agent("1:1", **config))
    told = info.bootstrap_store_info
    assert told is not None
    assert told.master_addr == ("127.0.0.2" if local_addr == "127.0.0.2" else "127.0.0.1")
    mine = [c.laddr for c in psutil.Process().net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert [each.ip for each in mine if each.port == told.master_port] == [told.master_addr]


def test_a_joiner_is_waited_for_by_those_who_are_there_and_gets_a_store_without_old_keys(meeting: Meeting) -> None:
    old, new = meeting.agent(last_call_timeout="0"), meeting.agent(last_call_timeout="0")
    [alone] = meeting.join(old)
    alone.store.set("stale", "1")
    assert old.num_nodes_waiting() == 0
    coming = meeting.pool.submit(new.next_rendezvous)
    wait_until(lambda: old.num_nodes_waiting() == 1, what="the news of the joiner")
    both = [old.next_rendezvous(), coming.result(MAX_WAIT_S)]
    assert sorted(info.rank for info in both) == [0, 1]
    assert not both[0].store.check(["stale"])
    assert old.num_nodes_waiting() == new.num_nodes_waiting() == 0


def test_the_loss_of_a_silent_member_is_news_and_the_others_form_a_world(meeting: Meeting) -> None:
    stays, dies = meeting.agent(), meeting.agent()
    meeting.join(stays, dies)
    dies._ended.set()  # type: ignore[attr-defined]  # its thread says nothing any more
    wait_until(lambda: stays.num_nodes_waiting() == 1, what="the news of the loss")
    [info] = meeting.join(stays)
    assert (info.rank, info.world_size) == (0, 1)


def test_who_was_given_up_and_wakes_joins_as_new(meeting: Meeting) -> None:
    one, other = meeting.agent(), meeting.agent()
    meeting.join(one, other)
    meeting.master.run_inside(
        lambda parts: parts.require(RendezvousServer).died(one._member)  # type: ignore[attr-defined]
    )
    wait_until(lambda: one.num_nodes_waiting() == 1 and other.num_nodes_waiting() == 1, what="the news")
    coming = meeting.pool.submit(one.next_rendezvous)
    while other.next_rendezvous().world_size < 2:  # the survivor does not wait for who comes back
        wait_until(lambda: other.num_nodes_waiting() == 1, what="the news of the joiner")
    assert coming.result(MAX_WAIT_S).world_size == 2


def test_a_master_that_is_restarted_is_waited_for(meeting: Meeting) -> None:
    one, other = meeting.agent("2:2"), meeting.agent("2:2")
    joining = meeting.pool.submit(one.next_rendezvous)
    meeting.master.restart()
    assert other.next_rendezvous().world_size == joining.result(MAX_WAIT_S).world_size == 2


def test_shutdown_closes_the_rendezvous_for_all(meeting: Meeting) -> None:
    one, other = meeting.agent(), meeting.agent()
    meeting.join(one, other)
    assert one.shutdown()
    wait_until(other.is_closed, what="the news of the end")
    with pytest.raises(RendezvousClosedError, match="closed"):
        other.next_rendezvous()


def test_too_few_agents_within_the_time_is_a_time_out_of_torchrun(meeting: Meeting) -> None:
    with pytest.raises(RendezvousTimeoutError, match="no world of tested within 1 s"):
        meeting.agent("2:2", join_timeout=1).next_rendezvous()


def test_mistakes_in_the_options_are_named(meeting: Meeting) -> None:
    with pytest.raises(ValueError, match="is the master of 'tested', but --rdzv-id is 'other'"):
        meeting.agent(run_id="other")
    with pytest.raises(ValueError, match="token_file=FILE"):
        meeting.agent(token_file="")
    with pytest.raises(RendezvousConnectionError, match="wait_seconds must be a number of at least 0"):
        meeting.agent("3:3", last_call_timeout="-1").next_rendezvous()


def test_calls_from_other_machines_are_encrypted_and_the_token_is_not_sent_otherwise(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, SPEC, host="127.0.0.1") as master:
        meeting = Meeting(master)
        there = {"endpoint": master.tcp_address.target}
        tls = {**there, "tls_dir": str(master.job_dir.tls)}
        assert [info.rank for info in meeting.join(meeting.agent(**tls), meeting.agent(**tls))] == [0, 1]
        meeting.close()
        with pytest.raises(Unauthenticated, match="without TLS"):
            meeting.agent(**there)


def test_a_world_is_announced_to_a_master_that_lost_its_journal_and_its_next_round_is_above(meeting: Meeting) -> None:
    one, other = meeting.agent(last_call_timeout="0"), meeting.agent(last_call_timeout="0")
    meeting.join(one, other)

    def take_over(parts: JobController) -> None:
        book = parts.require(RendezvousServer).book
        parts.journal.do(book.take_over, members=[])

    def latest(parts: JobController) -> int:
        return parts.require(RendezvousServer).book.round

    meeting.master.lose_journal().start()
    meeting.master.run_inside(take_over)
    wait_until(lambda: meeting.master.run_inside(latest), what="the announcement")
    assert one.num_nodes_waiting() == other.num_nodes_waiting() == 0, "nobody is restarted for that"
    before = meeting.master.run_inside(latest)
    infos = meeting.join(one, other)
    assert [info.world_size for info in infos] == [2, 2]
    assert meeting.master.run_inside(latest) > before
