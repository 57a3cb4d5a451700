"""The coordinator of parameter servers in a real master, over gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.core.errors import MasterUnavailable, NotFound, SessionExpired
from pliant.master.components.parameters.coordinator import ParameterCoordinator
from pliant.master.journal.store import Batch
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import RunningMaster, wait_until

SPEC = {
    "strategy": "ps-sync",
    "roles": {"worker": {"command": "train"}, "ps": {"replicas": {"min": 1, "max": 3, "wanted": 2}}},
    "parameters": {"batch_size": 8},
}


@pytest.fixture
def master(tmp_path: Path) -> Iterator[RunningMaster]:
    with RunningMaster(tmp_path, SPEC) as running:
        begin(running)
        yield running


def begin(master: RunningMaster) -> None:
    """Two servers, a table, and a worker with one shard of 16 records."""
    stubs, call = master.client.stubs, master.client.call
    for node in ("ps-0", "ps-1"):
        seat = call(stubs.parameters.JoinSeat, pb.JoinSeatRequest(node=node)).holder
        ready = pb.SeatReadyRequest(holder=seat, address=f"127.0.0.1:{7000 + seat.seat}")
        call(stubs.parameters.SeatReady, ready)
    call(stubs.parameters.Define, pb.DefineRequest(tables=[pb.TableSpec(name="t", dim=2)]))
    call(stubs.shards.CreateDataset, pb.Dataset(name="d", size=16, shard_size=16, type=pb.SHARD_TYPE_TRAIN, epochs=1))
    call(stubs.shards.OpenSession, pb.OpenSessionRequest(session="s", node="guest"))
    call(stubs.shards.Exchange, pb.ExchangeRequest(session="s", request=1, dataset="d", want=1))


def contribution(master: RunningMaster, sequence: int, records: int, *, based_on: int = 0) -> pb.ContributeRequest:
    found = master.client.call(master.client.stubs.parameters.GetMap, pb.GetMapRequest())
    return pb.ContributeRequest(
        session="s",
        sequence=sequence,
        based_on=based_on,
        examples=4,
        holders=[pb.SeatHolder(seat=s.seat, fencing_token=s.fencing_token) for s in found.seats],
        map_version=found.map.version,
        progress=[pb.LeaseProgress(lease=1, records=records)],
    )


def contribute(master: RunningMaster, request: pb.ContributeRequest) -> pb.ContributeReply:
    reply: pb.ContributeReply = master.client.call(master.client.stubs.parameters.Contribute, request)
    return reply


def standing(master: RunningMaster) -> tuple[int, int, int]:
    """Iteration, contributions, records done."""
    status = master.status()
    done = next(d.records_done for d in status.datasets if d.name == "d")
    assert status.parameters is not None
    return status.parameters.iteration, status.parameters.contributions, done


def test_gradients_gather_until_they_are_a_batch(master: RunningMaster) -> None:
    assert contribute(master, contribution(master, 1, 4)).iteration == 0
    assert standing(master) == (0, 1, 4)
    assert contribute(master, contribution(master, 2, 8)).iteration == 1
    assert standing(master) == (1, 2, 8)


def test_a_gradient_of_an_older_iteration_is_dropped_with_its_records(master: RunningMaster) -> None:
    contribute(master, contribution(master, 1, 4))
    contribute(master, contribution(master, 2, 8))
    assert contribute(master, contribution(master, 3, 12)).outcome == pb.PUSH_STALE
    assert standing(master) == (1, 2, 8)
    assert contribute(master, contribution(master, 4, 12, based_on=1)).outcome == pb.PUSH_ACCEPTED


def test_the_same_contribution_sent_again_counts_once_also_after_a_restart(master: RunningMaster) -> None:
    request = contribution(master, 1, 4)
    contribute(master, request)
    assert contribute(master, request).outcome == pb.PUSH_REPEATED
    master.restart()
    assert contribute(master, request).outcome == pb.PUSH_REPEATED
    assert standing(master) == (0, 1, 4)


def test_after_the_last_iteration_nothing_is_taken_and_no_record_is_given_out_also_after_a_restart(
    tmp_path: Path,
) -> None:
    spec = {**SPEC, "parameters": {"batch_size": 8, "max_iterations": 1}}
    with RunningMaster(tmp_path, spec) as master:
        begin(master)
        contribute(master, contribution(master, 1, 4))
        last = contribution(master, 2, 8)
        assert contribute(master, last).iteration == 1
        for _ in range(2):
            assert contribute(master, last).outcome == pb.PUSH_REPEATED
            assert contribute(master, contribution(master, 3, 12, based_on=1)).outcome == pb.PUSH_OVER
            assert standing(master) == (1, 2, 8)
            master.restart()
        back = pb.ExchangeRequest(session="s", request=2, dataset="d", want=1, released=[1])
        answer = master.client.call(master.client.stubs.shards.Exchange, back)
        assert (len(answer.shards), answer.availability) == (0, pb.AVAILABILITY_END)


@pytest.mark.parametrize("before", [True, False])
def test_a_kill_leaves_the_gradient_and_its_records_both_or_neither(master: RunningMaster, before: bool) -> None:
    store = master._store
    assert store is not None
    commit = store.commit

    def dies(batch: Batch) -> None:
        methods = [operation.method for operation in batch.operations]
        if "contribute_batch" not in methods:
            commit(batch)
            return
        assert "acknowledge" in methods, "they are in one transaction"
        if not before:
            commit(batch)
        store.die()
        raise OSError("killed")

    store.commit = dies  # type: ignore[method-assign]
    request = contribution(master, 1, 4)
    with pytest.raises(MasterUnavailable):
        contribute(master, request)
    master.kill()
    master.start()
    assert standing(master) == ((0, 0, 0) if before else (0, 1, 4))
    assert contribute(master, request).outcome == (pb.PUSH_ACCEPTED if before else pb.PUSH_REPEATED)
    assert standing(master) == (0, 1, 4)


def test_the_last_batch_may_be_smaller(master: RunningMaster) -> None:
    for sequence, records in enumerate((4, 8, 16), start=1):
        based_on = standing(master)[0]
        contribute(master, contribution(master, sequence, records, based_on=based_on))
    assert standing(master) == (2, 3, 16)


def test_a_gradient_whose_shard_went_to_another_worker_is_not_taken(master: RunningMaster) -> None:
    master.run_inside(
        lambda parts: parts.state.shards.expire(0.0, session="s", dataset="d") if parts.state.shards else None
    )
    reply = contribute(master, contribution(master, 1, 4))
    assert reply.outcome == pb.PUSH_LOST
    assert list(reply.lost_leases) == [1]
    assert standing(master)[:2] == (0, 0)


def test_records_of_which_some_were_accepted_with_others_are_lost_and_those_after_a_gap_come_again(
    master: RunningMaster,
) -> None:
    """A worker that pushed some of a shard beside its window: what can never be accepted is not computed for ever."""
    after_gap, overlapping = contribution(master, 1, 12), contribution(master, 3, 12)
    after_gap.progress[0].after = 8
    overlapping.progress[0].after = 2
    assert contribute(master, after_gap).outcome == pb.PUSH_GAP
    assert contribute(master, contribution(master, 2, 4)).outcome == pb.PUSH_ACCEPTED
    reply = contribute(master, overlapping)
    assert (reply.outcome, list(reply.lost_leases)) == (pb.PUSH_LOST, [1])


def test_what_was_staged_on_a_server_that_was_replaced_is_staged_again(master: RunningMaster) -> None:
    request = contribution(master, 1, 4)
    stubs = master.client.stubs
    master.run_inside(lambda parts: parts.require(ParameterCoordinator).program_gone("ps-1", for_good=True))
    assert contribute(master, request).outcome == pb.PUSH_MOVED
    seat = master.client.call(stubs.parameters.JoinSeat, pb.JoinSeatRequest(node="ps-7"))
    assert seat.holder.seat == 1
    assert contribute(master, request).outcome == pb.PUSH_MOVED
    assert contribute(master, contribution(master, 2, 4)).outcome == pb.PUSH_ACCEPTED


def test_a_server_that_lost_its_seat_is_told(master: RunningMaster) -> None:
    stubs = master.client.stubs
    master.run_inside(lambda parts: parts.require(ParameterCoordinator).program_gone("ps-1", for_good=True))
    with pytest.raises(SessionExpired):
        master.client.call(
            stubs.parameters.NextOrders, pb.NextOrdersRequest(holder=pb.SeatHolder(seat=1, fencing_token=2))
        )


def test_only_a_server_can_be_moved_off(master: RunningMaster) -> None:
    stubs = master.client.stubs
    with pytest.raises(NotFound, match="worker-0"):
        master.client.call(stubs.job.MoveOff, pb.MoveOffRequest(node="worker-0", share=1.0))
    reply = master.client.call(stubs.job.MoveOff, pb.MoveOffRequest(node="ps-1", share=0.5))
    assert (reply.seat, reply.partitions) == (1, 128)
    assert reply.weight == pytest.approx(1 / 3)


def test_a_server_whose_node_is_replaced_leaves_its_seat_to_the_next(master: RunningMaster) -> None:
    stubs, call = master.client.stubs, master.client.call
    wait_until(lambda: any(n.name == "ps-0" for n in call(stubs.job.GetStatus, pb.Empty()).nodes))
    call(stubs.nodes.Register, pb.RegisterRequest(node="ps-0", agent_pid=1))
    call(stubs.nodes.ProgramStarted, pb.ProgramStartedRequest(node="ps-0", pid=2))
    ended = pb.ProgramExitedRequest(node="ps-0", exit_reason=pb.EXIT_REASON_PREEMPTED, message="it ended in time")
    assert not call(stubs.nodes.ProgramExited, ended).restart

    def vacant() -> bool:
        return any(not seat.node for seat in call(stubs.parameters.GetMap, pb.GetMapRequest()).seats)

    wait_until(vacant)
    assert call(stubs.parameters.JoinSeat, pb.JoinSeatRequest(node="ps-2")).HasField("holder")
