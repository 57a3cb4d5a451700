"""A worker may be gone at any point of a step: the others go on in their process, and the result is the same."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.torch.crew import Crew, Worker, alone_result, bits

from pliant.testing import wait_until

pytestmark = pytest.mark.e2e  # a real master, and several trainers around it

POINTS = ("before the collective", "in the collective", "before the optimizer", "after the optimizer")


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    return bits(alone_result().trainer.model)


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_the_result_does_not_depend_on_the_number_of_workers(
    tmp_path: Path, workers: int, expected: dict[str, bytes]
) -> None:
    with Crew(tmp_path, workers=workers) as crew:
        crew.work()
        crew.assert_all_equal(expected)
        crew.assert_each_record_once(38)


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_dies_at_any_point_changes_nothing(
    tmp_path: Path, point: str, victim: int, expected: dict[str, bytes]
) -> None:
    with Crew(tmp_path, workers=3) as crew:
        crew.workers[victim].dies(point, step=3)
        crew.work()
        assert [w.died for w in crew.workers] == [i == victim for i in range(3)]
        crew.assert_all_equal(expected)
        crew.assert_each_record_once(38)


@pytest.mark.parametrize("victims", [(0, 1), (1, 2), (0, 1, 2)])
def test_several_that_die_at_once_change_nothing(
    tmp_path: Path, victims: tuple[int, ...], expected: dict[str, bytes]
) -> None:
    with Crew(tmp_path, workers=4) as crew:
        for victim, point in zip(victims, POINTS, strict=False):
            crew.workers[victim].dies(point, step=2)
        crew.work()
        assert sum(w.died for w in crew.workers) == len(victims)
        crew.assert_all_equal(expected)
        crew.assert_each_record_once(38)


def test_survivors_compute_nothing_twice(tmp_path: Path) -> None:
    with Crew(tmp_path, workers=3, deterministic=False) as crew:
        crew.workers[1].dies("before the collective", step=2)
        crew.workers[0].dies("in the collective", step=5)
        crew.work()
        for worker in crew.workers:
            assert set(worker.computed.values()) == {1}
        crew.assert_each_record_once(38)


def test_in_floating_point_the_result_is_the_same_within_rounding(tmp_path: Path) -> None:
    options: dict[str, Any] = {"deterministic": False, "optimizer": partial(torch.optim.SGD, lr=0.1, momentum=0.9)}
    plain = alone_result(**options).trainer.model.state_dict()
    with Crew(tmp_path, workers=3, **options) as crew:
        crew.workers[2].dies("in the collective", step=3)
        crew.work()
        for worker in crew.survivors:
            for name, value in worker.trainer.model.state_dict().items():
                torch.testing.assert_close(value, plain[name], rtol=1e-4, atol=1e-5)


def test_all_begin_with_the_first_weights_of_one(tmp_path: Path) -> None:
    with Crew(tmp_path, workers=3, seeds=True) as crew:
        crew.work()
        crew.assert_all_equal(bits(crew.workers[0].trainer.model))


def test_of_those_equally_far_one_that_shares_the_state_leads_although_it_is_younger(tmp_path: Path) -> None:
    with Crew(tmp_path, workers=2, seeds=True) as crew:
        older, younger = crew.workers
        younger.trainer.load_state_dict(younger.trainer.state_dict())
        crew.start(older)
        wait_until(crew.waiting, what="its arrival")
        crew.start(younger)
        crew.finish()
        assert younger.trainer.rank == 0
        crew.assert_all_equal(bits(alone_result(weights=1).trainer.model))


@pytest.mark.parametrize("point", ["sending", "receiving"])
def test_a_death_while_the_state_is_sent_changes_nothing(
    tmp_path: Path, point: str, expected: dict[str, bytes]
) -> None:
    with Crew(tmp_path, workers=3) as crew, crew.points():
        joiner = crew.hire()

        def word_of_it() -> None:
            wait_until(
                lambda: (
                    not joiner.alive
                    or joiner.trainer.world_size > 1  # it was fast, and is in already
                    or any(w.trainer._world.waiting for w in crew.workers)
                ),
                what="the joiner",
            )

        for worker in crew.workers[:3]:
            worker.does(lambda: crew.start(joiner), "before the collective", step=2)
            worker.does(word_of_it, "before the collective", step=3)
        victims = [joiner] if point == "receiving" else crew.workers[:1]
        for victim in victims:
            victim.dies(point, step=0 if victim is joiner else None)
        crew.start(*crew.workers[:3])
        crew.finish()
        crew.assert_all_equal(expected)
        crew.assert_each_record_once(38)


def test_a_joiner_takes_part_from_a_step_boundary_on(tmp_path: Path, expected: dict[str, bytes]) -> None:
    with Crew(tmp_path, workers=2) as crew, crew.points():
        joiner = crew.hire(weights=99)

        def let_it_in() -> None:
            crew.start(joiner)
            wait_until(crew.waiting, what="the joiner")
            wait_until(lambda: any(w.trainer._world.waiting for w in crew.workers[:2]), what="word of it")

        crew.workers[0].does(let_it_in, "before the collective", step=2)
        crew.start(*crew.workers[:2])
        crew.finish()
        crew.assert_all_equal(expected)
        crew.assert_each_record_once(38)
        assert joiner.computed, "it had a share"


def test_a_frozen_worker_comes_back_as_a_new_one(tmp_path: Path, expected: dict[str, bytes]) -> None:
    with Crew(tmp_path, workers=3) as crew, crew.points():
        frozen = crew.workers[1]
        frozen.freezes("before the collective", step=2)
        crew.workers[0].does(frozen.thawed.set, "before the collective", step=4)
        crew.start()
        assert frozen.frozen.wait(20)
        crew.declare_dead(frozen)
        crew.finish()
        crew.assert_all_equal(expected)
        crew.assert_each_record_once(38)


def test_a_worker_alone_in_its_world_notices_that_it_was_given_up(tmp_path: Path, expected: dict[str, bytes]) -> None:
    with Crew(tmp_path, workers=1) as crew, crew.points():
        first, second = crew.workers[0], crew.hire()
        first.freezes("before the collective", step=3)
        crew.start(first)
        assert first.frozen.wait(20)
        crew.declare_dead(first)
        second.freezes("before the collective", step=1)
        crew.start(second)
        assert second.frozen.wait(20)
        wait_until(first.trainer._world.broken.is_set, what="word that it is out")
        first.thawed.set()
        wait_until(crew.waiting, what="its return")
        second.thawed.set()
        crew.finish()
        crew.assert_all_equal(expected)
        assert first.trainer._world.round == second.trainer._world.round


def test_more_workers_than_virtual_workers_leave_hot_spares_that_take_over(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    with Crew(tmp_path, workers=6) as crew:
        for victim in range(4):
            crew.workers[victim].dies("before the collective", step=1 + victim)
        crew.work()
        crew.assert_all_equal(expected)
        crew.assert_each_record_once(38)


def two_loops(worker: Worker) -> None:
    for step in worker.trainer.steps(worker.data, micro_batch=3):
        worker.learn(step)
    for step in worker.trainer.steps(worker.data, micro_batch=3):
        worker.learn(step)


def test_a_joiner_in_the_second_loop_skips_the_first(tmp_path: Path) -> None:
    expected = bits(alone_result(two_loops).trainer.model)
    with Crew(tmp_path, workers=2) as crew, crew.points():
        joiner = crew.hire(two_loops)
        for worker in crew.workers[:2]:
            worker.program = two_loops

        def let_it_in() -> None:
            crew.workers[0].does(really, "before the collective", step=1)

        def really() -> None:
            crew.start(joiner)
            # Its own word: it is told in this very step, and a later one may have no share for a third.
            wait_until(lambda: crew.workers[0].trainer._world.waiting, what="word of it")

        crew.workers[0].does(let_it_in, "at the end", step=4)
        crew.start(*crew.workers[:2])
        crew.finish()
        crew.assert_all_equal(expected)
        crew.assert_each_record_once(38, epochs=1, phases=2)
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
    with Crew(tmp_path, workers=3) as crew:
        for worker in crew.workers:
            worker.program = program
        crew.workers[1].dies("before the optimizer", step=2)
        crew.work()
        crew.assert_all_equal(expected)
        assert crew.workers[0].committed == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]


def test_training_goes_on_while_the_master_is_away(tmp_path: Path, expected: dict[str, bytes]) -> None:
    with Crew(tmp_path, workers=2) as crew, crew.points():
        for worker in crew.workers:
            worker.freezes("before the collective", step=1)
        crew.start()
        for worker in crew.workers:
            assert worker.frozen.wait(20)
        crew.master.kill()
        for worker in crew.workers:
            worker.thawed.set()
        crew.wait_for_step(5)
        crew.master.start()
        crew.finish()
        crew.assert_all_equal(expected)


def test_a_gradient_that_does_not_fit_is_computed_again_with_the_same_result(tmp_path: Path) -> None:
    data = [(x * (1.0 if i < 30 else 1e9), y) for i, (x, y) in enumerate(alone_result().data)]
    expected = bits(alone_result(data=data).trainer.model)
    with Crew(tmp_path, workers=3, data=data) as crew:
        crew.workers[0].dies("in the collective", step=2)
        crew.work()
        crew.assert_all_equal(expected)
        crew.assert_each_record_once(38)


def test_fifty_worlds_leave_no_connection_and_no_thread_behind(tmp_path: Path) -> None:
    import os

    def program(worker: Worker) -> None:
        for step in worker.trainer.steps(worker.data, micro_batch=3, epochs=13):
            worker.learn(step)
            if step.index % 4 == 0:
                counts.append((len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))))
            worker.trainer._admit = True  # as if somebody waited

    counts: list[tuple[int, int]] = []
    with Crew(tmp_path, workers=2, deterministic=False) as crew:
        for worker in crew.workers:
            worker.program = program
        crew.work()
        assert crew.workers[0].trainer._world.round > 40
    early, late = counts[len(counts) // 4 : len(counts) // 2], counts[-len(counts) // 4 :]
    assert min(files for files, _ in late) <= max(files for files, _ in early)
    assert min(threads for _, threads in late) <= max(threads for _, threads in early)
