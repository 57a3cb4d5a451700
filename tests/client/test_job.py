from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pliant.client import Job, Shard
from pliant.client.lease_client import MAX_PREFETCH, LeaseClient
from pliant.core.errors import Conflict, InvalidRequest, JobFailed, NotAvailable, NotFound
from pliant.core.status import Progress
from pliant.data import DataReader, records_of
from pliant.master.components.stats import MemoryStats
from pliant.master.journal.store import read_audit
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.audits import audit_from
from pliant.testing import ManualClock, RunningMaster, wait_until
from pliant.testing.waiting import MAX_WAIT_S

Connect = Callable[..., Job]

DATASETS: list[dict[str, Any]] = [
    {"size": 95, "shard_size": 10},
    {"size": 95, "shard_size": 10, "epochs": 3, "shuffle": True, "seed": 7},
    {"size": 50, "shard_size": 7, "shuffle": True, "shuffle_records": False},
    {"size": 50, "shard_size": 7, "shuffle_records": True, "seed": -3},
    {"files": [("a", 5, 25), ("b", 0, 3), ("empty", 4, 4)], "shard_size": 6, "epochs": 2},
    {"indices": [9, 1, 7, 7, 4], "shard_size": 2},
    {"size": 0, "shard_size": 10},
    {"size": 20, "shard_size": 10, "epochs": 2, "epoch_barrier": True},
]


def seen(shards: Any) -> list[tuple[str, int, int, list[int]]]:
    return [(shard.name, shard.start, shard.epoch, list(shard)) for shard in shards]


def in_work(master: RunningMaster, dataset: str = "train") -> int:
    status = master.status()
    return next(int(d.shards_in_work) for d in status.datasets if d.name == dataset)


def queue(master: RunningMaster, dataset: str = "train") -> Any:
    return master.state()["shards"]["queues"][dataset]


@pytest.mark.parametrize("fields", DATASETS, ids=str)
def test_with_a_master_the_shards_are_those_of_a_program_alone(
    connect: Connect, alone: Job, fields: dict[str, Any]
) -> None:
    assert seen(connect().shards("train", **fields)) == seen(alone.shards("train", **fields))


def test_two_workers_share_a_dataset_and_each_record_goes_to_one(connect: Connect, master: RunningMaster) -> None:
    counts: Counter[int] = Counter()
    lock = threading.Lock()
    jobs = [connect(f"worker-{n}") for n in range(3)]

    def work(job: Job) -> None:
        for shard in job.shards("train", size=500, shard_size=3, shuffle=True):
            with lock:
                counts.update(shard)

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MAX_WAIT_S)
    assert counts == Counter(range(500))


def test_a_loop_that_is_left_gives_its_shards_back_without_blame(connect: Connect, master: RunningMaster) -> None:
    for shard in connect("leaver").shards("train", size=100, shard_size=10, prefetch=4):
        if shard.start == 10:
            break
    rest = seen(connect("other").shards("train"))
    assert [start for _, start, _, _ in sorted(rest)] == list(range(10, 100, 10)), "all but the one that was done"
    assert queue(master)["parked"] == []


def test_an_error_in_the_loop_gives_its_shards_back_if_the_program_goes_on(
    connect: Connect, master: RunningMaster
) -> None:
    job = connect()

    def loop() -> None:
        for _ in job.shards("train", size=30, shard_size=10):
            raise ValueError("a bad record")

    with pytest.raises(ValueError, match="a bad record"):
        loop()
    assert len(seen(job.shards("train"))) == 3
    assert queue(master)["parked"] == []


def test_alone_too_a_loop_that_was_left_can_be_taken_up_again(alone: Job) -> None:
    for _ in alone.shards("train", size=30, shard_size=10):
        break
    assert [start for _, start, _, _ in seen(alone.shards("train"))] == [0, 10, 20]


def test_closing_a_job_gives_everything_back_at_once(connect: Connect, master: RunningMaster) -> None:
    job = connect()
    stream = job.shards("train", size=100, shard_size=10, prefetch=5)
    next(stream)
    job.close()
    assert in_work(master) == 0
    assert master.state()["shards"]["sessions"] == {}
    assert list(stream) == []


def test_a_commit_is_true_once_the_master_has_it(connect: Connect, master: RunningMaster) -> None:
    stream = connect().shards("train", size=20, shard_size=10, prefetch=1)
    shard = next(stream)
    assert shard.commit()
    assert queue(master)["finished_records"] == 10
    assert shard.commit(), "again is no error"
    assert next(stream).commit()
    assert list(stream) == []
    assert queue(master)["finished_records"] == 20


def test_a_commit_is_false_if_the_program_was_given_up_meanwhile(
    connect: Connect, master: RunningMaster, clock: ManualClock
) -> None:
    frozen = connect("frozen")
    stream = frozen.shards("train", size=30, shard_size=10, prefetch=1)
    lost = next(stream)
    wait_until(lambda: in_work(master) == 2, what="the prefetch of the next shard")
    give_up_all(master, clock)
    assert not lost.commit()
    assert lost.lost
    assert [shard.commit() for shard in stream] == [True, True, True], "it goes on, with a new session"
    records = [row.start for row in read_audit(master.job_dir.journal)]
    assert sorted(records) == [0, 10, 20]


def give_up_all(master: RunningMaster, clock: ManualClock) -> None:
    clock.advance(31)
    wait_until(lambda: not master.run_inside(lambda parts: parts.state.shards.sessions() if parts.state.shards else []))


def test_a_lease_that_timed_out_is_lost_and_its_shard_is_given_out_again(
    connect: Connect, master: RunningMaster, clock: ManualClock
) -> None:
    stream = connect("slow").shards("train", size=10, shard_size=10, lease_floor=20.0, prefetch=1)
    shard = next(stream)
    clock.advance(25)
    events = master.client.stubs.job.GetEvents
    wait_until(
        lambda: "lease" in [e.kind for e in master.client.call(events, pb.EventsRequest()).events],
        what="the time-out of the lease",
    )
    assert not shard.commit()
    assert [again.commit() for again in stream] == [True]
    assert queue(master)["finished_records"] == 10


def test_progress_inside_a_shard_is_not_done_again(connect: Connect, master: RunningMaster) -> None:
    job = connect("first")
    shard = next(stream := job.shards("train", size=10, shard_size=10, shuffle_records=True, seed=3))
    begun = list(shard)[:4]
    shard.progress(4)
    wait_until(lambda: queue(master)["finished_records"] == 4, what="the report of progress")
    job.close()
    assert list(stream) == []
    (rest,) = connect("second").shards("train")
    assert sorted(begun + list(rest)) == list(range(10))
    assert rest.offset == 4


def test_a_shard_that_fails_is_tried_again_and_then_parked(connect: Connect, master: RunningMaster) -> None:
    tries = 0
    for shard in connect().shards("train", size=20, shard_size=10, max_failures=2):
        if shard.start == 0:
            tries += 1
            shard.fail("cannot be read")
    assert tries == 2
    assert [message for _, message in queue(master)["parked"]] == ["cannot be read"]


def test_alone_a_shard_that_keeps_failing_ends_the_job_by_name(alone: Job) -> None:
    def loop() -> None:
        for shard in alone.shards("train", size=20, shard_size=10, max_failures=2):
            shard.fail("cannot be read")

    with pytest.raises(JobFailed, match="cannot be read"):
        loop()


def test_two_datasets_at_once_do_not_get_in_each_others_way(connect: Connect) -> None:
    job = connect()
    left = job.shards("left", size=40, shard_size=10)
    right = job.shards("right", size=40, shard_size=10, shuffle=True)
    pairs = [(a.dataset, b.dataset) for a, b in zip(left, right, strict=True)]
    assert pairs == [("left", "right")] * 4


def test_a_stream_is_read_as_it_grows_until_it_is_closed(connect: Connect) -> None:
    producer, reader = connect("producer"), connect("reader")
    records: list[int] = []
    shards = reader.shards("log", stream=True, shard_size=4)
    assert producer.extend_stream("log", 10) == 10
    records += [*next(shards), *next(shards)]
    assert records == list(range(8))
    assert producer.extend_stream("log", 5) == 15
    records += next(shards)
    assert producer.extend_stream("log", 0, close=True) == 15
    records += [index for shard in shards for index in shard]
    assert records == list(range(15))
    assert producer.extend_stream("log", 0, close=True) == 15
    with pytest.raises(InvalidRequest, match="closed"):
        producer.extend_stream("log", 1)


def test_a_stream_in_partitions_is_read_from_their_offsets_and_goes_on_from_a_checkpoint(connect: Connect) -> None:
    producer, reader = connect("producer"), connect("reader")
    shards = reader.shards("topic", partitions={0: 1, 1: 0}, shard_size=4, prefetch=1)
    assert producer.extend_stream("topic", partition=0, end=9) == 9
    assert producer.extend_stream("topic", 8, partition=1) == 8
    first = [next(shards) for _ in range(3)]
    assert [(s.partition, s.start, s.end) for s in first] == [("0", 1, 5), ("1", 0, 4), ("0", 5, 9)]
    assert first[0].name == "0"
    first[2].done()
    shards.close()
    [topic] = reader.status().datasets
    assert [(p.name, p.start, p.end, p.records_done) for p in topic.partitions] == [("0", 1, 9, 8), ("1", 0, 8, 4)]
    saved = json.loads(json.dumps(reader.shard_checkpoint()))

    other = Job()  # another job, alone, goes on where this one stood
    rest = other.shards("topic", partitions={0: 1, 1: 0}, shard_size=4)
    other.restore_shards(saved)
    other.extend_stream("topic", partition="0", end=10)
    other.extend_stream("topic", close=True)
    assert [(s.partition, list(s)) for s in rest] == [("1", [4, 5, 6, 7]), ("0", [9])]
    with pytest.raises(NotFound, match="no partition '2'"):
        other.extend_stream("topic", 1, partition=2)
    with pytest.raises(InvalidRequest, match="specify which one"):
        producer.extend_stream("topic", 1)


def test_a_stream_in_partitions_survives_its_master_and_is_audited_by_partition(
    connect: Connect, master: RunningMaster
) -> None:
    job = connect()
    shards = job.shards("topic", partitions={"a": 7, "b": 0}, shard_size=3, prefetch=1)
    job.extend_stream("topic", partition="a", end=14)
    job.extend_stream("topic", partition="b", end=4)
    read = [index for _ in range(2) for index in next(shards)]
    master.restart()
    job.extend_stream("topic", partition="b", end=8)
    job.extend_stream("topic", close=True)
    read += [index for shard in shards for index in shard]
    assert sorted(read) == sorted([*range(7, 14), *range(8)])
    audit = audit_from(master.client.call(master.client.stubs.job.GetAudit, pb.Empty()))
    assert audit.exact
    [topic] = audit.datasets
    assert [(p.name, p.records_expected, p.records_covered) for p in topic.partitions] == [("a", 7, 7), ("b", 8, 8)]


def test_a_reader_of_a_source_gets_the_offsets_of_each_partition(alone: Job) -> None:
    class Log(DataReader):
        def create_shards(self) -> dict[str, int]:
            return {"0": 1 << 40, "1": 1 << 40}

        def read_records(self, shard: Any) -> Iterator[str]:
            return (f"{shard.name}@{offset}" for offset in range(shard.start, shard.end))

    shards = alone.shards("topic", partitions={0: 5, 1: 0}, shard_size=2, acknowledge=False)
    alone.extend_stream("topic", partition=0, end=8)
    alone.extend_stream("topic", 1, partition=1)
    alone.extend_stream("topic", close=True)
    assert list(records_of(shards, Log())) == ["0@5", "0@6", "1@0", "0@7"]


def test_many_producers_extend_a_stream_and_each_record_counts(connect: Connect, master: RunningMaster) -> None:
    jobs = [connect(f"producer-{n}") for n in range(4)]
    jobs[0].shards("log", stream=True, shard_size=10).close()

    def produce(job: Job) -> None:
        for _ in range(25):
            job.extend_stream("log", 2)

    threads = [threading.Thread(target=produce, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MAX_WAIT_S)
    assert queue(master, "log")["length"] == 200


def test_alone_a_stream_ends_where_nobody_would_bring_more(alone: Job) -> None:
    shards = alone.shards("log", stream=True, shard_size=4)
    alone.extend_stream("log", 10, close=True)
    assert [list(shard) for shard in shards] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_the_train_end_shard_waits_for_all_training(connect: Connect) -> None:
    trainer, ender = connect("trainer"), connect("ender")
    training = trainer.shards("train", size=20, shard_size=10)
    first = next(training)
    got: list[Shard] = []
    waiting = threading.Thread(target=lambda: got.extend(ender.shards("end", size=1, type="train_end")))
    waiting.start()
    assert first.commit()
    assert got == []
    assert [shard.commit() for shard in training] == [True]
    waiting.join(MAX_WAIT_S)
    assert [list(shard) for shard in got] == [[0]]


def test_a_dataset_that_nobody_defined_is_refused_by_name(connect: Connect, alone: Job) -> None:
    for job in (connect(), alone):
        with pytest.raises(NotFound, match="dataset 'train' not found"):
            job.shards("train")


def test_a_definition_that_cannot_be_is_refused_before_anything_is_sent(alone: Job) -> None:
    for wrong in ({"size": 1, "indices": [1]}, {"size": -1}, {"size": 1, "shard_size": 0}, {"size": 1, "epochs": 0}):
        with pytest.raises(InvalidRequest):
            alone.shards("train", **wrong)


def test_indices_may_be_an_array(alone: Job) -> None:
    numpy = pytest.importorskip("numpy")
    shards = alone.shards("train", indices=numpy.array([4, 2]), shard_size=2)
    assert [list(shard) for shard in shards] == [[4, 2]]


def test_how_many_shards_are_held_ahead_follows_the_speed_of_the_loop(connect: Connect) -> None:
    stream = connect().shards("train", size=10, shard_size=1)
    source = stream._source
    assert isinstance(source, LeaseClient)
    ahead = {}
    for pace in (0.0, 10.0, 0.1, 0.001, 1e-9):
        source._pace = pace
        ahead[pace] = source._prefetch_target()
    assert ahead == {0.0: 2, 10.0: 1, 0.1: 3, 0.001: 250, 1e-9: MAX_PREFETCH}
    stream.close()


def test_tiny_shards_travel_by_the_hundred(connect: Connect, master: RunningMaster) -> None:
    job = connect()
    assert sum(1 for _ in job.shards("train", size=5000, shard_size=1)) == 5000
    (session,) = master.state()["shards"]["sessions"].values()
    assert session["request"] < 1000


def test_a_prefetch_beyond_all_bounds_is_bounded(connect: Connect) -> None:
    assert sum(1 for _ in connect().shards("train", size=5000, shard_size=1, prefetch=10**6)) == 5000


@pytest.mark.parametrize("seed", range(3))
def test_a_loop_goes_on_exactly_while_the_master_is_killed_again_and_again(
    connect: Connect, master: RunningMaster, seed: int
) -> None:
    counts: Counter[int] = Counter()
    for number, shard in enumerate(
        connect().shards("train", size=300, shard_size=5, epochs=2, shuffle=True, seed=seed)
    ):
        if number in (1, 30, 31, 90):
            master.restart()
        counts.update(shard)
    assert counts == Counter(dict.fromkeys(range(300), 2))
    rows = read_audit(master.job_dir.journal)
    records = Counter((row.epoch, i) for row in rows for i in range(row.start + row.begin, row.start + row.end))
    assert records == Counter((epoch, record) for epoch in range(2) for record in range(300))


def test_a_loop_waits_for_a_master_that_is_away(connect: Connect, master: RunningMaster) -> None:
    stream = connect().shards("train", size=40, shard_size=10, prefetch=1)
    shard = next(stream)
    master.kill()
    committed: list[bool] = []
    waiting = threading.Thread(target=lambda: committed.append(shard.commit()))
    waiting.start()
    assert committed == []
    master.start()
    waiting.join(MAX_WAIT_S)
    assert committed == [True]
    assert len(list(stream)) == 3


def test_a_checkpoint_of_one_job_is_continued_by_another(connect: Connect, alone: Job) -> None:
    stream = connect().shards("train", size=40, shard_size=10, prefetch=1)
    assert next(stream).commit()
    next(stream)
    saved = connect("saver").shard_checkpoint()
    shards = alone.shards("train", size=40, shard_size=10)
    alone.restore_shards(saved)
    assert sorted(start for _, start, _, _ in seen(shards)) == [10, 20, 30]


def test_a_program_alone_says_that_there_is_no_master(alone: Job) -> None:
    assert not alone.elastic
    alone.report(3, loss=0.5)
    for ask in (alone.status, lambda: alone.master):
        with pytest.raises(NotAvailable, match="without a master"):
            ask()


def test_steps_and_metrics_reach_the_status(connect: Connect, master: RunningMaster) -> None:
    job = connect("worker-9")
    job.report(12, total=40, records=5, loss=0.25, accuracy=0.5)
    wait_until(lambda: job.status().global_step == 12, what="the report")
    expected = Progress(5, step=12, total_steps=40, metrics={"loss": 0.25, "accuracy": 0.5})
    assert job.status().progress == expected


def test_metrics_are_checked_where_they_are_given(connect: Connect, master: RunningMaster) -> None:
    job = connect("worker-9")
    for wrong in ({"accuracy": "high"}, {"": 1.0}, {"a\nb": 1.0}, {"x" * 300: 1.0}, {7: 1.0}, {"list": [1.0, 2.0]}):
        with pytest.raises(InvalidRequest, match="metric"):
            job.report(1, metrics=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="maximum is 1000"):
        job.report(1, metrics={f"m{number}": 1.0 for number in range(1001)})
    job.report(1, loss=float("nan"), metrics={"val/top-1": 0.5}, lr=0.1)
    wait_until(lambda: job.status().global_step == 1, what="the report")
    assert job.status().progress.metrics == {"loss": None, "val/top-1": 0.5, "lr": 0.1}


def test_nothing_is_left_of_a_job_that_is_closed(connect: Connect) -> None:
    job = connect()
    for _ in job.shards("train", size=100, shard_size=1):
        break
    job.close()
    ours = ("pliant-beat", "pliant-shards")
    wait_until(lambda: not [t for t in threading.enumerate() if t.name.startswith(ours)], what="the end of its threads")


def test_the_newest_step_reaches_a_master_that_was_away_and_each_record_counts_once(
    connect: Connect, master: RunningMaster
) -> None:
    job = connect("worker-9")
    job.report(1, total=100, records=10)
    wait_until(lambda: job.status().global_step == 1, what="the report")
    master.kill()
    for step in range(2, 101):
        job.report(step, records=10, loss=1.0 / step)  # none of them waits
    master.start()
    wait_until(lambda: job.status().global_step == 100, what="the newest step at the next master")
    assert job.status().progress.loss == 0.01
    assert master.run_inside(lambda parts: parts.require(MemoryStats).node("worker-9").records.total) in (990, 1000)


def test_the_last_report_is_there_when_the_program_has_ended(connect: Connect, master: RunningMaster) -> None:
    job, other = connect("worker-8"), connect("worker-9")
    for step in range(1, 501):
        job.report(step, total=500, records=2)
    job.close()
    progress = other.status().progress
    assert (progress.step, progress.total_steps, progress.records_done) == (500, 500, 1000)
    assert not [thread for thread in threading.enumerate() if thread.name == "pliant-progress"]


def test_two_workers_that_define_a_dataset_differently_are_told_by_which_values_and_who_was_first(
    master: RunningMaster, connect: Connect
) -> None:
    connect("worker-0").shards("train", size=100, shard_size=10, epochs=2)
    with pytest.raises(Conflict) as refused:
        connect("worker-1").shards("train", size=120, shard_size=10, epochs=3)
    assert refused.value.message == (
        "dataset 'train' already exists with size 100, epochs 2, defined by worker-0; worker-1 gave size 120, epochs 3"
    )
    master.restart()
    with pytest.raises(Conflict, match="with seed 0, defined by worker-0; worker-2 gave seed 1"):
        connect("worker-2").shards("train", size=100, shard_size=10, epochs=2, seed=1)


def test_a_program_without_a_job_is_told_how_to_become_one(alone: Job) -> None:
    with pytest.raises(NotAvailable) as refused:
        alone.status()
    assert "pliant run -- python" in refused.value.hint
