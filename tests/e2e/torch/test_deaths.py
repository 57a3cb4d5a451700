"""A worker may be gone at any point of a step: the others go on in their process, and the result is the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.torch.trainer_threads import TIMEOUT_S, TrainerThreads, Worker, alone, alone_result, bits, digits, net, train

from pliant.client import Job
from pliant.master.components.rendezvous import RendezvousServer
from pliant.master.controller import JobController
from pliant.testing import wait_until
from pliant.testing.waiting import MAX_WAIT_S
from pliant.torch import Step, Trainer
from pliant.torch.random_state import RandomState

pytestmark = pytest.mark.e2e  # a real master, and several trainers around it

POINTS = (
    "sending",
    "before the collective",
    "in the collective",
    "adding",
    "before the optimizer",
    "after the optimizer",
)


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    return bits(alone_result().trainer.model)


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_the_result_does_not_depend_on_the_number_of_workers(
    tmp_path: Path, workers: int, expected: dict[str, bytes]
) -> None:
    with TrainerThreads(tmp_path, workers=workers) as threads:
        threads.work()
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_dies_at_any_point_changes_nothing(
    tmp_path: Path, point: str, victim: int, expected: dict[str, bytes]
) -> None:
    with TrainerThreads(tmp_path, workers=3) as threads:
        threads.workers[victim].dies(point, step=3)
        threads.work()
        assert [w.died for w in threads.workers] == [i == victim for i in range(3)]
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


@pytest.mark.parametrize("point", POINTS)
def test_what_was_read_ahead_is_right_after_a_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, expected: dict[str, bytes]
) -> None:
    def read_ahead(worker: Worker) -> None:
        for step in worker.trainer.steps(worker.data, micro_batch=3, epochs=2, num_threads=2, prefetch=5):
            worker.learn(step)

    # All trainers of the test share the generators of one process, and each would take the others' numbers for its records'.
    monkeypatch.setattr(RandomState, "now", classmethod(lambda cls: None))
    with TrainerThreads(tmp_path, workers=3) as threads:
        for worker in threads.workers:
            worker.program = read_ahead
        threads.workers[1].dies(point, step=3)
        threads.work()
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


@pytest.mark.parametrize("victims", [(0, 1), (1, 2), (0, 1, 2)])
def test_several_that_die_at_once_change_nothing(
    tmp_path: Path, victims: tuple[int, ...], expected: dict[str, bytes]
) -> None:
    with TrainerThreads(tmp_path, workers=4) as threads:
        for victim, point in zip(victims, POINTS, strict=False):
            threads.workers[victim].dies(point, step=2)
        threads.work()
        assert sum(w.died for w in threads.workers) == len(victims)
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


def test_survivors_compute_nothing_twice(tmp_path: Path) -> None:
    with TrainerThreads(tmp_path, workers=3) as threads:
        threads.workers[1].dies("before the collective", step=2)
        threads.workers[0].dies("in the collective", step=5)
        threads.work()
        for worker in threads.workers:
            assert set(worker.computed.values()) == {1}
        threads.assert_each_record_once(38)


def test_with_threads_as_they_are_the_result_is_the_same_within_rounding(tmp_path: Path) -> None:
    options: dict[str, Any] = {"deterministic": False, "optimizer": partial(torch.optim.SGD, lr=0.1, momentum=0.9)}
    plain = alone_result(**options).trainer.model.state_dict()
    with TrainerThreads(tmp_path, workers=3, **options) as threads:
        threads.workers[2].dies("in the collective", step=3)
        threads.work()
        for worker in threads.survivors:
            for name, value in worker.trainer.model.state_dict().items():
                torch.testing.assert_close(value, plain[name], rtol=1e-4, atol=1e-5)


def test_all_begin_with_the_first_weights_of_one(tmp_path: Path) -> None:
    with TrainerThreads(tmp_path, workers=3, seeds=True) as threads:
        threads.work()
        threads.assert_all_equal(bits(threads.workers[0].trainer.model))


def test_of_those_equally_far_one_that_shares_the_state_leads_although_it_is_younger(tmp_path: Path) -> None:
    with TrainerThreads(tmp_path, workers=2, seeds=True) as threads:
        older, younger = threads.workers
        younger.trainer.load_state_dict(younger.trainer.state_dict())
        threads.start(older)
        wait_until(threads.waiting, what="its arrival")
        threads.start(younger)
        threads.finish()
        assert younger.trainer.rank == 0
        threads.assert_all_equal(bits(alone_result(weights=1).trainer.model))


@pytest.mark.parametrize("point", ["sending the state", "receiving the state"])
def test_a_death_while_the_state_is_sent_changes_nothing(
    tmp_path: Path, point: str, expected: dict[str, bytes]
) -> None:
    with TrainerThreads(tmp_path, workers=3) as threads, threads.points():
        joiner = threads.add_worker()

        def word_of_it() -> None:
            wait_until(
                lambda: (
                    not joiner.alive
                    or joiner.trainer.world_size > 1  # it was fast, and is in already
                    or any(w.trainer._elastic.world.waiting for w in threads.workers)
                ),
                what="the joiner",
            )

        for worker in threads.workers[:3]:
            worker.does(lambda: threads.start(joiner), "before the collective", step=2)
            worker.does(word_of_it, "before the collective", step=3)
        victims = [joiner] if point == "receiving the state" else threads.workers[:1]
        for victim in victims:
            victim.dies(point, step=0 if victim is joiner else None)
        threads.start(*threads.workers[:3])
        threads.finish()
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


def test_a_joiner_takes_part_from_a_step_boundary_on(tmp_path: Path, expected: dict[str, bytes]) -> None:
    with TrainerThreads(tmp_path, workers=2) as threads, threads.points():
        joiner = threads.add_worker(weights=99)

        def let_it_in() -> None:
            threads.start(joiner)
            threads.wait_for_joiner(*threads.workers[:2])

        threads.workers[0].does(let_it_in, "before the collective", step=2)
        threads.start(*threads.workers[:2])
        threads.finish()
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)
        assert joiner.computed, "it had a share"


def test_a_frozen_worker_comes_back_as_a_new_one(tmp_path: Path, expected: dict[str, bytes]) -> None:
    with TrainerThreads(tmp_path, workers=3) as threads, threads.points():
        frozen = threads.workers[1]
        frozen.freezes("before the collective", step=2)

        def let_it_back() -> None:
            frozen.thawed.set()
            threads.wait_for_joiner(threads.workers[0], threads.workers[2])

        threads.workers[0].does(let_it_back, "before the collective", step=4)
        threads.start()
        assert frozen.frozen.wait(MAX_WAIT_S)
        threads.declare_dead(frozen)
        threads.finish()
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


def test_a_worker_alone_in_its_world_notices_that_it_was_given_up(tmp_path: Path, expected: dict[str, bytes]) -> None:
    with TrainerThreads(tmp_path, workers=1) as threads, threads.points():
        first, second = threads.workers[0], threads.add_worker()
        first.freezes("before the collective", step=3)
        threads.start(first)
        assert first.frozen.wait(MAX_WAIT_S)
        threads.declare_dead(first)
        second.freezes("before the collective", step=1)
        threads.start(second)
        assert second.frozen.wait(MAX_WAIT_S)
        wait_until(first.trainer._elastic.world.broken.is_set, what="word that it is out")
        first.thawed.set()
        threads.wait_for_joiner(second)
        second.thawed.set()
        threads.finish()
        threads.assert_all_equal(expected)
        # Who ends last may have heard of the other's end in time to form a world alone.
        assert max(worker.trainer._elastic.world.size for worker in (first, second)) == 2, "they were in one world"


def test_more_workers_than_virtual_workers_leave_hot_spares_that_take_over(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    with TrainerThreads(tmp_path, workers=6) as threads:
        for victim in range(4):
            threads.workers[victim].dies("before the collective", step=1 + victim)
        threads.work()
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


def two_loops(worker: Worker) -> None:
    for step in worker.trainer.steps(worker.data, micro_batch=3):
        worker.learn(step)
    for step in worker.trainer.steps(worker.data, micro_batch=3):
        worker.learn(step)


def test_a_joiner_in_the_second_loop_skips_the_first(tmp_path: Path) -> None:
    expected = bits(alone_result(two_loops).trainer.model)
    with TrainerThreads(tmp_path, workers=2) as threads, threads.points():
        joiner = threads.add_worker(two_loops)
        for worker in threads.workers[:2]:
            worker.program = two_loops

        def let_it_in() -> None:
            threads.workers[0].does(really, "before the collective", step=1)

        def really() -> None:
            threads.start(joiner)
            # Its own word: it is told in this very step, and a later one may have no share for a third.
            threads.wait_for_joiner(threads.workers[0])

        threads.workers[0].does(let_it_in, "at the end", step=4)
        threads.start(*threads.workers[:2])
        threads.finish()
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38, epochs=1, phases=2)
        assert {phase for phase, _, _ in joiner.computed} == {1}


def test_a_loop_left_by_break_between_two_steps_is_over_for_all(tmp_path: Path) -> None:
    def program(worker: Worker) -> None:
        for step in worker.trainer.steps(worker.data, micro_batch=3, epochs=9):
            worker.learn(step)
            if step.index == 2:
                break
        for step in worker.trainer.steps(worker.data, micro_batch=3):
            worker.learn(step)

    expected = bits(alone_result(program).trainer.model)
    with TrainerThreads(tmp_path, workers=3) as threads:
        for worker in threads.workers:
            worker.program = program
        threads.workers[1].dies("before the optimizer", step=2)
        threads.work()
        threads.assert_all_equal(expected)
        steps = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]
        lists = [worker.committed for worker in threads.survivors]
        # One of them may have received step 2 with the other's state, instead of committing it itself.
        assert all(committed in (steps, [step for step in steps if step != (0, 2)]) for committed in lists), lists
        assert steps in lists


def test_a_loop_that_one_worker_stops_ends_on_all_after_the_same_step(tmp_path: Path) -> None:
    def program(worker: Worker) -> None:
        for step in worker.trainer.steps(worker.data, micro_batch=3, epochs=9):
            if (worker.name, step.index) == ("worker-1", 2):
                worker.trainer.stop()
            worker.learn(step)

    with TrainerThreads(tmp_path, workers=3) as threads:
        for worker in threads.workers:
            worker.program = program
        threads.work()
        assert [worker.committed[-1] for worker in threads.workers] == [(0, 2)] * 3
        assert all(worker.trainer.stopped for worker in threads.workers)


def test_an_average_of_weights_that_is_a_buffer_is_the_same_for_all_after_a_death_and_a_join(tmp_path: Path) -> None:
    def build(job: Job) -> Trainer:
        model = net()
        model.register_buffer("average", torch.zeros(8, 6))
        return Trainer(model, torch.optim.Adam(model.parameters()), virtual_workers=4, job=job)

    def program(worker: Worker) -> None:
        told = worker.trainer.on_commit

        def commit(step: Step) -> None:
            model: Any = worker.trainer.model
            model.average.mul_(0.5).add_(model[0].weight.detach())
            told(step)

        worker.trainer.on_commit = commit
        train(worker)

    alone_worker = Worker("alone", build(alone()), digits(), program)
    program(alone_worker)
    expected = bits(alone_worker.trainer.model)
    with TrainerThreads(tmp_path, workers=2, build=build) as threads:
        for worker in threads.workers:
            worker.program = program
        threads.workers[0].dies("before the optimizer", step=2)
        joiner = threads.add_worker(program)

        def let_it_in() -> None:
            threads.start(joiner)
            threads.wait_for_joiner(threads.workers[1])

        threads.workers[1].does(let_it_in, "before the collective", step=4)
        with threads.points():
            threads.start(*threads.workers[:2])
            threads.finish()
        threads.assert_all_equal(expected)


def test_training_goes_on_while_the_master_is_away(tmp_path: Path, expected: dict[str, bytes]) -> None:
    with TrainerThreads(tmp_path, workers=2) as threads, threads.points():
        for worker in threads.workers:
            worker.freezes("before the collective", step=1)
        threads.start()
        for worker in threads.workers:
            assert worker.frozen.wait(MAX_WAIT_S)
        threads.master.kill()
        for worker in threads.workers:
            worker.thawed.set()
        threads.wait_for_step(5)
        threads.master.start()
        threads.finish()
        threads.assert_all_equal(expected)


@contextmanager
def losing_the_journal(folder: Path, workers: int) -> Iterator[TrainerThreads]:
    """All are before the collective of step 1 when the master is killed and its journal lost."""
    with TrainerThreads(folder, workers=workers) as threads, threads.points():
        for worker in threads.workers:
            worker.freezes("before the collective", step=1)
        threads.start()
        for worker in threads.workers:
            assert worker.frozen.wait(TIMEOUT_S)
        threads.master.takes_over = True
        threads.master.lose_journal()
        yield threads


def take_over(threads: TrainerThreads) -> None:
    """The nodes of the platform that have no trainer here say nothing, as if they had ended."""

    def leave_out_the_others(parts: JobController) -> None:
        server = parts.require(RendezvousServer)
        for name in server.book.awaited - {worker.name for worker in threads.workers}:
            server.died(name)

    threads.master.start()
    wait_until(lambda: threads.master.run_inside(lambda parts: parts.state.nodes.started), TIMEOUT_S, "the start")  # type: ignore[union-attr]
    threads.master.run_inside(leave_out_the_others)


def round_of(threads: TrainerThreads) -> int:
    """As the trainers know it."""
    return max(worker.trainer._elastic.world.round for worker in threads.workers)


def latest_round(threads: TrainerThreads) -> int:
    """As the master knows it."""
    return threads.master.run_inside(lambda parts: parts.require(RendezvousServer).book.round)


def test_training_goes_on_in_its_world_under_a_master_that_lost_its_journal(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    with losing_the_journal(tmp_path, workers=2) as threads:
        take_over(threads)
        wait_until(lambda: latest_round(threads) == round_of(threads), TIMEOUT_S, "the announcement of the world")
        for worker in threads.workers:
            worker.thawed.set()
        threads.finish()
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


def test_a_worker_dies_under_a_master_that_lost_its_journal_and_the_step_is_finished_by_the_others(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    with losing_the_journal(tmp_path, workers=3) as threads:
        before = round_of(threads)
        take_over(threads)
        threads.workers[1].dies("in the collective", step=2)
        for worker in threads.workers:
            worker.thawed.set()
        threads.finish()
        assert latest_round(threads) > before, "no number of a round is used twice"
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


def test_a_world_that_broke_while_there_was_no_master_is_formed_anew_by_one_that_lost_its_journal(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    with losing_the_journal(tmp_path, workers=2) as threads:
        before = round_of(threads)
        for worker in threads.workers:
            worker.trainer._elastic.world.break_up()
            worker.thawed.set()
        take_over(threads)
        threads.finish()
        assert latest_round(threads) > before
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


def test_a_gradient_that_suddenly_grows_is_summed_with_the_same_result(tmp_path: Path) -> None:
    data = [(x * (1.0 if i < 30 else 1e9), y) for i, (x, y) in enumerate(alone_result().data)]
    expected = bits(alone_result(data=data).trainer.model)
    with TrainerThreads(tmp_path, workers=3, data=data) as threads:
        threads.workers[0].dies("in the collective", step=2)
        threads.work()
        threads.assert_all_equal(expected)
        threads.assert_each_record_once(38)


def test_fifty_worlds_leave_no_connection_and_no_thread_behind(tmp_path: Path) -> None:
    import os

    def program(worker: Worker) -> None:
        for step in worker.trainer.steps(worker.data, micro_batch=3, epochs=13):
            worker.learn(step)
            if step.index % 4 == 0:
                counts.append((len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))))
            worker.trainer._elastic.must_reform = True  # as if somebody waited

    counts: list[tuple[int, int]] = []
    with TrainerThreads(tmp_path, workers=2) as threads:
        for worker in threads.workers:
            worker.program = program
        threads.work()
        assert threads.workers[0].trainer._elastic.world.round > 40
    early, late = counts[len(counts) // 4 : len(counts) // 2], counts[-len(counts) // 4 :]
    assert min(files for files, _ in late) <= max(files for files, _ in early)
    assert min(threads for _, threads in late) <= max(threads for _, threads in early)
