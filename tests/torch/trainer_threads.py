"""Several Trainers in threads of the test around a real master, to be killed and frozen at a chosen point of a chosen step.

    with TrainerThreads(tmp_path, workers=3) as threads:
        threads.workers[0].dies("before the optimizer", step=2)
        threads.work()

A thread that dies closes its connections and the master is told, as by an agent. One that freezes keeps them open. The
random numbers of torch belong to the process, so the nets here have no dropout; tests with real processes have.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

import pliant.torch.elastic_world as elastic_world
from pliant.client.job import Job
from pliant.master.components.rendezvous import RendezvousServer
from pliant.master.controller import JobController
from pliant.testing import ManualClock, RunningMaster, wait_until
from pliant.testing.waiting import MAX_WAIT_S
from pliant.torch import Step, Trainer
from pliant.torch.gradients.tree_sum import TreeSum
from pliant.torch.step_control import StepController
from pliant.torch.worlds.shared_memory import WorldMemory

TIMEOUT_S = MAX_WAIT_S
Program = Callable[["Worker"], None]


class Died(BaseException):
    """As SIGKILL: nothing of the program catches it."""


def digits(records: int = 38) -> list[tuple[torch.Tensor, torch.Tensor]]:
    made = torch.Generator().manual_seed(5)
    inputs = torch.randn(records, 6, generator=made)
    return [(x, (x.sum() > 0).long()) for x in inputs]


def net(seed: int = 1) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def bits(model: nn.Module) -> dict[str, bytes]:
    """Every parameter and buffer, to be compared exactly."""
    return {name: value.detach().numpy().tobytes() for name, value in model.state_dict().items()}


def alone() -> Job:
    return Job(None)


def make_trainer(job: Job, *, weights: int = 1, optimizer: Any = None, **options: Any) -> Trainer:
    model = net(weights)
    optimizer = (optimizer or partial(torch.optim.Adam, lr=0.01))(model.parameters())
    return Trainer(model, optimizer, **{"virtual_workers": 4, "job": job, **options})


def train(worker: Worker) -> None:
    """Two epochs of four steps."""
    for step in worker.trainer.steps(worker.data, micro_batch=3, epochs=2):
        worker.learn(step)


@dataclass
class Worker:
    name: str
    trainer: Trainer
    data: Any
    program: Program = train
    computed: Counter[tuple[int, int, int]] = field(default_factory=Counter)  # (phase, step, unit)
    seen: list[tuple[int, int, int, tuple[int, ...]]] = field(default_factory=list)  # phase, step, unit, records
    committed: list[tuple[int, int]] = field(default_factory=list)
    error: BaseException | None = None
    frozen: threading.Event = field(default_factory=threading.Event)
    thawed: threading.Event = field(default_factory=threading.Event)
    joined: threading.Event = field(default_factory=threading.Event)
    died: bool = False
    _faults: dict[tuple[str, int | None], Callable[[], None]] = field(default_factory=dict)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.trainer.on_commit = lambda step: self.committed.append((self.trainer._position.loop, step.index))

    def learn(self, step: Step) -> None:
        for x, y in step:
            name = (self.trainer._position.loop, step.index, step.unit)
            self.computed[name] += 1
            self.seen.append((*name, tuple(self.trainer._state.plan.indices(step.index, step.unit))))  # type: ignore[union-attr]
            step.backward(nn.functional.cross_entropy(self.trainer.model(x), y))

    # --- faults

    def dies(self, point: str, step: int | None = None) -> None:
        self._faults[point, step] = self._die

    def freezes(self, point: str, step: int | None = None) -> None:
        self._faults[point, step] = self._freeze

    def does(self, deed: Callable[[], None], point: str, step: int | None = None) -> None:
        self._faults[point, step] = deed

    def at(self, point: str) -> None:
        """The thread of this worker has come to a point."""
        for name in ((point, self.trainer.step), (point, None)):
            if (fault := self._faults.pop(name, None)) is not None:
                fault()

    def _die(self) -> None:
        raise Died

    def _freeze(self) -> None:
        self.frozen.set()
        assert self.thawed.wait(TIMEOUT_S)

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()


class TrainerThreads:
    def __init__(
        self,
        folder: Path,
        *,
        workers: int,
        data: Any = None,
        seeds: bool = False,
        build: Callable[[Job], Trainer] | None = None,
        **options: Any,
    ) -> None:
        """``options`` are those of the Trainer, unless ``build`` makes it; ``seeds``: each has other first weights."""
        self._options, self._seeds, self._build = options, seeds, build
        self.data = digits() if data is None else data
        job = {"strategy": "allreduce", "roles": {"worker": {"command": ["true"], "replicas": f"1:{max(8, workers)}"}}}
        self.master = RunningMaster(folder, job, clock=ManualClock())
        self.workers: list[Worker] = []
        self._first = workers

    def __enter__(self) -> TrainerThreads:
        self.master.start()
        for _ in range(self._first):
            self.add_worker()
        self.expect(self._first)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for worker in self.workers:
            worker.thawed.set()
        if kind is not None and self.master.alive:
            self.master.run_inside(lambda parts: parts.require(RendezvousServer).close())
        for worker in self.workers:
            if worker._thread is not None:
                worker._thread.join(TIMEOUT_S)
        for worker in self.workers:
            if worker.trainer._job is not None:
                worker.trainer._job.close()
        self.master.close()

    def expect(self, count: int) -> None:
        def expect(parts: JobController) -> None:
            rendezvous = parts.require(RendezvousServer)
            rendezvous._journal.do(rendezvous.book.expect, count=count)  # not as many as there are nodes

        self.master.run_inside(expect)

    def add_worker(self, program: Program = train, **options: Any) -> Worker:
        """Not at work yet."""
        number = len(self.workers)
        job = Job(self.master.address)
        job.node = f"worker-{number}"
        if self._build is not None:
            trainer = self._build(job)
        else:
            trainer = make_trainer(job, **{"weights": number if self._seeds else 1, **self._options, **options})
        worker = Worker(job.node, trainer, self.data, program)
        self.workers.append(worker)
        return worker

    def start(self, *workers: Worker) -> None:
        for worker in workers or self.workers:
            if worker._thread is None:
                worker._thread = threading.Thread(target=self._work, args=(worker,), name=worker.name, daemon=True)
                worker._thread.start()

    def finish(self) -> None:
        """Wait for all; an error of one that was not to die is raised."""
        for worker in self.workers:
            if worker._thread is not None:
                worker._thread.join(TIMEOUT_S)
                assert not worker._thread.is_alive(), f"{worker.name} is stuck"
        for worker in self.workers:
            if worker.error is not None:
                raise worker.error

    def work(self) -> None:
        with self.points():
            self.start()
            self.finish()

    def declare_dead(self, worker: Worker) -> None:
        """What the master does with one that is silent or stopped."""
        self.master.run_inside(lambda parts: parts.require(RendezvousServer).died(worker.name))

    def wait_for_step(self, step: int, *workers: Worker) -> None:
        for worker in workers or self.workers:
            wait_until(lambda w=worker: w.trainer.step >= step or not w.alive, what=f"step {step}")  # type: ignore[misc]

    def wait_for_joiner(self, *members: Worker) -> None:
        """Until one of these members knows that somebody waits to join.

        Before that they may end without it, and since time stands still here, it would wait for a world for ever.
        """
        wait_until(lambda: any(w.trainer._elastic.world.waiting for w in members), what="word of the joiner")

    def waiting(self) -> int:
        return self.master.run_inside(lambda parts: len(parts.require(RendezvousServer).book.waiting))

    @property
    def survivors(self) -> list[Worker]:
        return [worker for worker in self.workers if not worker.died]

    @contextmanager
    def points(self) -> Iterator[None]:
        """Let each worker know when it comes to a point where it may be struck."""
        with (
            self._point(StepController, "_commit", "before the collective"),
            self._point(StepController, "_finish", "in the collective"),
            self._point(WorldMemory, "wait_for_readers", "sending"),
            self._point(TreeSum, "reduce", "adding"),
            self._point(StepController, "_apply", "before the optimizer"),
            self._point(StepController, "_end_step", "after the optimizer"),
            self._point(Trainer, "_end_loop", "at the end"),
            self._point(elastic_world, "send_state", "sending the state"),
            self._point(elastic_world, "receive_state", "receiving the state"),
        ):
            yield

    @contextmanager
    def _point(self, home: Any, function: str, point: str) -> Iterator[None]:
        original = getattr(home, function)

        def struck(*args: Any, **keywords: Any) -> Any:
            here = threading.current_thread()
            for worker in self.workers:
                if worker._thread is here:
                    worker.at(point)
            return original(*args, **keywords)

        with mock.patch.object(home, function, struck):
            yield

    def _work(self, worker: Worker) -> None:
        trainer = worker.trainer
        try:
            worker.program(worker)
        except Died:
            worker.died = True
            trainer._elastic.world.leave()
            if trainer._elastic._membership is not None:
                trainer._elastic._membership._closed = True
                if (watched := trainer._elastic._membership._watched) is not None:
                    watched.leave()
            self.declare_dead(worker)
        except BaseException as error:  # noqa: BLE001  # raised by ``finish``
            worker.error = error
            trainer.close()
        else:
            trainer.close()

    # --- what must hold

    def assert_all_equal(self, expected: dict[str, bytes]) -> None:
        for worker in self.survivors:
            assert bits(worker.trainer.model) == expected, f"{worker.name} has other weights"

    def assert_each_record_once(self, records: int, epochs: int = 2, phases: int = 1) -> None:
        """Over the committed steps; and a unit has the same records whoever computes it."""
        of_unit: dict[tuple[int, int, int], tuple[int, ...]] = {}
        for worker in self.workers:
            for phase, step, unit, indices in worker.seen:
                assert of_unit.setdefault((phase, step, unit), indices) == indices
        committed = {name for worker in self.workers for name in worker.committed}
        for phase in range(phases):
            steps = sorted(step for at, step in committed if at == phase)
            assert steps == list(range(len(steps))), f"phase {phase}: {steps}"
            counts = Counter(
                r for (at, step, _), rows in of_unit.items() if (at, step) in committed and at == phase for r in rows
            )
            assert counts == dict.fromkeys(range(records), epochs)


def alone_result(program: Program = train, data: Any = None, **options: Any) -> Worker:
    """The same training in one process, without a master."""
    worker = Worker("alone", make_trainer(alone(), **options), digits() if data is None else data, program)
    program(worker)
    return worker
