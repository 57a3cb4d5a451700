"""Saving and restoring positions as a program does it, with a master and alone."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pliant
from pliant.client import Job
from pliant.core.errors import Conflict
from pliant.data import open_reader
from pliant.master.journal.store import read_audit
from pliant.testing import ManualClock, RunningMaster, wait_until
from pliant.testing.waiting import MAX_WAIT_S

Connect = Callable[..., Job]
GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"
TRAIN: dict[str, Any] = {"size": 100, "shard_size": 10}


@pytest.fixture(params=["with a master", "alone"])
def make_job(request: pytest.FixtureRequest) -> Iterator[Connect]:
    if request.param == "with a master":
        yield request.getfixturevalue("connect")
        return
    made: list[Job] = []

    def make(node: str = "") -> Job:
        made.append(Job())
        return made[-1]

    yield make
    for job in made:
        job.close()


def position_after(shards: int) -> dict[str, Any]:
    """Of another job, in which this many shards were done."""
    with Job() as earlier:
        stream = earlier.shards("train", **TRAIN)
        for _ in range(shards + 1):
            next(stream)
        saved: dict[str, Any] = json.loads(json.dumps(earlier.shard_checkpoint()))
        return saved


def starts(shards: Any) -> list[int]:
    return sorted(shard.start for shard in shards)


def test_a_position_can_be_restored_until_the_loop_begins(make_job: Connect) -> None:
    job = make_job()
    shards = job.shards("train", **TRAIN)
    assert job.restore_shards(position_after(3)) == ["train"]
    assert starts(shards) == list(range(30, 100, 10))


def test_nothing_is_leased_before_the_loop_begins(connect: Connect, master: RunningMaster) -> None:
    job = connect()
    shards = job.shards("train", **TRAIN)
    assert master.state()["shards"]["sessions"] == {} or not any(
        session["granted"] for session in master.state()["shards"]["sessions"].values()
    )
    assert len(list(shards)) == 10


def test_the_example_of_the_guide_works_with_a_master_and_alone(
    make_job: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = GUIDE.read_text().partition("## Saving and restoring positions")[2].partition("\n## ")[0]
    examples = re.findall(r"^```python.*\n((?:.*\n)*?)```$", section, re.MULTILINE)
    assert examples
    monkeypatch.setattr(pliant, "connect", lambda: make_job())
    for example in examples:
        exec(compile(example, str(GUIDE), "exec"), {})


def test_a_program_that_is_started_again_and_restores_again_does_each_record_once(
    connect: Connect, master: RunningMaster
) -> None:
    saved = position_after(3)
    for run, leaves_after in (("first", 4), ("second", 2), ("third", None)):
        job = connect(run)
        shards = job.shards("train", **TRAIN)
        assert job.restore_shards(saved) == (["train"] if run == "first" else [])
        for number, shard in enumerate(shards):
            if number == leaves_after:
                break
            assert shard.commit()
        job.close()
        master.restart()
    assert sorted(row.start for row in read_audit(master.job_dir.journal)) == list(range(30, 100, 10))
    (dataset,) = master.status().datasets
    assert (dataset.exact, dataset.records_done, dataset.records_restored) == (True, 100, 30)


def test_workers_that_all_restore_the_same_position_share_what_is_left(connect: Connect, master: RunningMaster) -> None:
    saved, seen = position_after(5), list[int]()
    everyone = threading.Barrier(3)

    def work(job: Job) -> None:
        shards = job.shards("train", **TRAIN)
        everyone.wait(MAX_WAIT_S)
        job.restore_shards(saved)
        seen.extend(shard.start for shard in shards)

    threads = [threading.Thread(target=work, args=(connect(f"worker-{n}"),)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MAX_WAIT_S)
    assert sorted(seen) == [50, 60, 70, 80, 90]
    assert master.status().datasets[0].exact


def test_another_position_is_refused_once_a_shard_was_handed_out(make_job: Connect) -> None:
    job = make_job()
    shards = job.shards("train", **TRAIN)
    next(shards)
    with pytest.raises(Conflict, match="'train' has already started"):
        job.restore_shards(position_after(3))
    assert len(list(shards)) == 9


def test_a_position_survives_other_limits_and_names_what_it_does_not_survive(make_job: Connect) -> None:
    saved = position_after(3)
    job = make_job()
    shards = job.shards("train", **TRAIN, epochs=2, max_failures=7, lease_floor=20.0, skip_parked=True)
    job.restore_shards(saved)
    assert len(list(shards)) == 17
    other = make_job("other")
    other.shards("test", size=40, shard_size=10)
    renamed = {**saved, "datasets": {"test": saved["datasets"]["train"]}}
    with pytest.raises(Conflict, match="size: 100 in the checkpoint, 40 in this job"):
        other.restore_shards(renamed)


# --- a checkpoint covers all that the program did before it


def done_at(saved: dict[str, Any]) -> int:
    return int(saved["datasets"]["train"]["state"]["finished_records"])


def test_a_checkpoint_has_every_shard_that_was_finished_before_it(make_job: Connect) -> None:
    job = make_job()
    for number, _ in enumerate(job.shards("train", size=400, shard_size=1)):
        if number % 40 == 0:
            assert done_at(job.shard_checkpoint()) == number


def test_a_checkpoint_has_the_progress_inside_a_shard(make_job: Connect) -> None:
    job = make_job()
    shard = next(shards := job.shards("train", **TRAIN))
    for records in range(1, 10):
        shard.progress(records)
        assert done_at(job.shard_checkpoint()) == records
    shards.close()


@pytest.mark.parametrize(
    "dataset_fn", [None, lambda dataset, mode, metadata: dataset.map(str)], ids=["plain", "mapped"]
)
def test_a_checkpoint_has_every_record_that_the_loop_over_a_reader_has_consumed(
    make_job: Connect, dataset_fn: Any
) -> None:
    job = make_job()
    reader = open_reader(list(range(300)))
    for number, _ in enumerate(job.dataset(reader, shard_size=100, dataset_fn=dataset_fn)):
        if number % 30 == 0:
            assert done_at(job.shard_checkpoint()) == number


def test_a_checkpoint_has_every_batch_that_a_loader_of_torch_has_delivered(make_job: Connect) -> None:
    pytest.importorskip("torch")
    job = make_job()
    loader = job.dataset(open_reader(list(range(300))), shard_size=100).torch().loader(batch_size=7)
    for number, _ in enumerate(loader):
        if number % 10 == 0:
            assert done_at(job.shard_checkpoint()) == 7 * number


def test_a_checkpoint_waits_for_a_master_that_is_away(connect: Connect, master: RunningMaster) -> None:
    job = connect()
    shards = job.shards("train", **TRAIN, prefetch=1)
    next(shards)
    wait_until(lambda: master.status().datasets[0].shards_in_work == 2, what="its prefetch")
    master.kill()
    next(shards)
    saved: list[int] = []
    waiting = threading.Thread(target=lambda: saved.append(done_at(job.shard_checkpoint())))
    waiting.start()
    master.start()
    waiting.join(MAX_WAIT_S)
    assert saved == [10]
    shards.close()


@pytest.mark.parametrize("ending", ["release", "fail", "leave"])
def test_progress_counts_whatever_becomes_of_the_shard(make_job: Connect, ending: str) -> None:
    job = make_job()
    shards = job.shards("train", size=10, shard_size=10)
    shard = next(shards)
    shard.progress(4)
    if ending == "leave":
        shards.close()
    else:
        getattr(shard, ending)(*(["no"] if ending == "fail" else []))
    (rest,) = list(shards) if ending != "leave" else list(job.shards("train"))
    assert (rest.offset, len(rest)) == (4, 6)


# --- hanging


def test_a_hung_loop_is_given_nothing_and_its_shards_go_to_another(
    connect: Connect, master: RunningMaster, clock: ManualClock
) -> None:
    hung = connect("hung").shards("train", size=3, shard_size=1, lease_floor=20.0, prefetch=2)
    shard = next(hung)
    wait_until(lambda: master.status().datasets[0].shards_in_work == 3, what="its prefetch")
    done: list[int] = []
    other = threading.Thread(target=lambda: done.extend(s.start for s in connect("other").shards("train")))
    other.start()
    clock.advance(25)
    other.join(MAX_WAIT_S)
    assert sorted(done) == [0, 1, 2], "all went to the other one, though the client of the first asks for more"
    assert not shard.commit()
    assert not any(again.commit() for again in hung)
    assert master.status().datasets[0].exact


def test_a_loop_that_reports_again_after_a_time_out_goes_on(
    connect: Connect, master: RunningMaster, clock: ManualClock
) -> None:
    shards = connect("slow").shards("train", size=3, shard_size=1, lease_floor=20.0, prefetch=1)
    next(shards)
    clock.advance(25)
    wait_until(lambda: master.status().datasets[0].shards_in_work == 0, what="the time-out")
    assert {shard.start for shard in shards if shard.commit()} == {0, 1, 2}
