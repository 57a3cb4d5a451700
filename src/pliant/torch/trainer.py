"""Training whose result does not depend on what happened to the machines: the public ``Trainer``.

N virtual workers share each step's micro-batches (*units*); a world of n processes hosts them. The invariants:

1. A step is committed with the gradient of every unit, each counted once. This is checked, too: each step's collective
   also adds up who brought which unit, and anything but a one for each is an error (``step_control``).
2. A committed step changes the state (model, optimizers, buffers) by a function of the state before and of the
   step's number alone. Unless ``deterministic=False`` that function is exact to the last bit (``training_state``).
3. What travels is a copy. When a world breaks, each survivor still has the gradients it computed; the new world's members
   tell each other which units they have, and compute only what is missing (``accumulator``).
4. *Progress* is one number (loop, committed steps). In a new world the oldest with the newest progress leads, and
   whoever has less progress, or no state, takes the leader's state. So a step that some committed and others did not is
   committed for all, and one that no worker committed is finished by the survivors (``position``, ``elastic_world``).
5. Joiners are admitted, and virtual workers change hands, between two steps, at a boundary that all learn of by the same
   collective (``control_lane``).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from pliant.client.job import Job
from pliant.client.job import connect as connect_job
from pliant.client.metric_values import metric_values
from pliant.core.errors import InvalidRequest
from pliant.torch.accumulator import StepAccumulator
from pliant.torch.checkpoints import Checkpointer, checkpoint_settings
from pliant.torch.elastic_world import ElasticWorld
from pliant.torch.gradients.tree_sum import TreeSum
from pliant.torch.misuse import check_dataset, not_committed, warn_of_untrained
from pliant.torch.module_buffers import ModuleBuffers
from pliant.torch.plan import StepPlan
from pliant.torch.read_ahead import make_reader
from pliant.torch.step import Step
from pliant.torch.step_control import StepController
from pliant.torch.termination import TerminationNotice
from pliant.torch.training_state import TrainingState
from pliant.torch.update import Update
from pliant.torch.worlds.membership import MAX_UNITS

log = logging.getLogger(__name__)


class Trainer:
    """Elastic data-parallel training.

    ``virtual_workers`` is fixed for the job and decides, with the micro-batch, what a step is; how many processes there
    are does not matter, to the last bit: gradients are added up in an order of their own (``gradients/unit_tree``), and operators
    run with ``threads`` threads, the same number everywhere. With ``deterministic=False`` the number of threads and torch's
    choice of kernels are left as they are, and the result is the same within their rounding. ``shared_memory=False`` sends
    gradients through sockets also on one machine.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        virtual_workers: int,
        deterministic: bool = True,
        threads: int = 1,
        seed: int = 0,
        accumulate: int = 1,
        scheduler: Any = None,
        scheduler_every: str = "step",
        scaler: Any = None,
        clip_grad_norm: float | None = None,
        clip_grad_value: float | None = None,
        on_gradients: Callable[[], None] | None = None,
        bucket_mb: float = 8.0,
        overlap: bool = True,
        shared_memory: bool = True,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_every_steps: int = 0,
        checkpoint_every_seconds: float = 0.0,
        keep_last: int | None = None,
        keep_every: int | None = None,
        job: Job | None = None,
    ) -> None:
        if virtual_workers < 1 or accumulate < 1:
            raise InvalidRequest(f"virtual_workers={virtual_workers}, accumulate={accumulate}; both must be 1 or more")
        if threads < 1:
            raise InvalidRequest(f"threads is {threads}; the minimum is 1")
        units = virtual_workers * accumulate
        if units > MAX_UNITS:
            raise InvalidRequest(f"a step has {units} micro-batches; the maximum is {MAX_UNITS}")
        update = Update(
            model,
            optimizer,
            scheduler=scheduler,
            scheduler_every=scheduler_every,
            scaler=scaler,
            clip_grad_norm=clip_grad_norm,
            clip_grad_value=clip_grad_value,
            on_gradients=on_gradients,
        )
        warn_of_untrained(model, update.params())
        self.model = model
        self.optimizers, self.schedulers, self.scaler = update.optimizers, update.schedulers, scaler
        self.virtual_workers = virtual_workers
        self.units = units
        self.seed = seed
        self.deterministic = deterministic
        self.on_commit: Callable[[Step], None] = lambda step: None
        bucket_bytes = int(bucket_mb * (1 << 20))
        if deterministic:
            _make_deterministic(threads)
        self._gradients = TreeSum(bucket_bytes=bucket_bytes, units=units, overlap=overlap, shared_memory=shared_memory)
        self._state = TrainingState(
            model,
            update,
            StepAccumulator(self._gradients, ModuleBuffers(model)),
            virtual_workers=virtual_workers,
            accumulate=accumulate,
            seed=seed,
        )
        self._position = self._state.position
        self._elastic = ElasticWorld(self._state)
        self._notice = TerminationNotice(on_exit=self._close_job)
        self._control = StepController(
            self._state,
            self._elastic,
            self._notice,
            on_commit=lambda step: self.on_commit(step),
            on_leave=self.close,
        )
        self._checkpoint_options = checkpoint_settings(
            checkpoint_dir,
            every_steps=checkpoint_every_steps,
            every_seconds=checkpoint_every_seconds,
            keep_last=keep_last,
            keep_every=keep_every,
        )
        self._job = job
        self._entered = False
        self._next_loop = 0
        self._current: Step | None = None

    @property
    def world_size(self) -> int:
        return self._elastic.world.size

    @property
    def rank(self) -> int:
        """0 on one process of the world at a time: for logging and saving. It may move to another process."""
        return self._elastic.world.rank

    @property
    def step(self) -> int:
        """Committed steps of the current loop."""
        return self._position.step

    @property
    def total(self) -> int:
        """Committed steps of all loops."""
        return self._position.total

    def steps(
        self,
        dataset: Any,
        *,
        micro_batch: int,
        epochs: int = 1,
        shuffle: bool = True,
        drop_last: bool = False,
        max_steps: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        num_threads: int = 0,
        prefetch: int | None = None,
    ) -> Iterator[Step]:
        """The remaining steps, over a map-style dataset. Each must be iterated to its end.

        ``num_workers``: processes that read and collate the next micro-batches while this one computes; ``num_threads``: threads
        that do, for records that wait and draw no random numbers. ``prefetch``: micro-batches ahead, 2 for each reader by
        default. The result is the same to the last bit, with or without them.
        """
        check_dataset(dataset)
        collate = collate_fn or torch.utils.data.default_collate
        reader = make_reader(
            dataset,
            collate,
            processes=num_workers,
            threads=num_threads,
            depth=prefetch,
            operator_threads=torch.get_num_threads() if self.deterministic else 1,
        )
        plan = StepPlan(len(dataset), micro_batch, self.units, epochs, self.seed, shuffle, drop_last)
        loop = self._next_loop
        self._end_loop_before(loop)
        self._next_loop += 1
        self._control.stop_requested = False
        if self._position.loop == loop and self._entered:
            self._position.stopped = False
        self._state.begin_loop(plan, loop, max_steps)
        limit = self._state.limit
        self._control.progress.begin_loop(plan, loop, limit)
        self._control.begin_loop(reader)
        self._enter()
        if self._position.loop > loop or self._position.step >= limit:
            log.warning("%s", self._nothing_left(loop, limit))
        self._notice.hold()
        try:
            while self._position.loop == loop and self._position.step < limit and not self._position.stopped:
                if self._elastic.must_reform:
                    self._elastic.form()
                    continue
                index = self._position.step
                epoch, number = plan.epoch_and_step(index)
                self._current = Step(self._control, index, epoch, number, plan.size(index))
                yield self._current
                self._check_committed()
            self._end_loop(loop)
        finally:
            self._control.end_loop()
            self._notice.release()
        self._notice.exit_if_given()

    def fit(
        self,
        loss_fn: Callable[[torch.nn.Module, Any], torch.Tensor],
        dataset: Any,
        *,
        micro_batch: int,
        epochs: int = 1,
        on_step: Callable[[Step], None] | None = None,
        **options: Any,
    ) -> Trainer:
        """The two loops in one call: ``loss_fn(model, batch)`` returns the mean loss of a micro-batch."""
        for step in self.steps(dataset, micro_batch=micro_batch, epochs=epochs, **options):
            for batch in step:
                step.backward(loss_fn(self.model, batch))
            if on_step is not None:
                on_step(step)
        return self

    def report(self, metrics: Mapping[str, float] | None = None, **more: float) -> None:
        """Report metrics of your own, as of the step that was committed last; the loss and the progress are reported anyway.
        What several workers report of one step is averaged."""
        self._control.progress.report(metric_values({**(metrics or {}), **more}))

    def stop(self) -> None:
        """End the current loop early: all workers end it after the same step, the next one that is committed."""
        self._control.stop_requested = True

    @property
    def stopped(self) -> bool:
        """Whether the loop was ended by ``stop``."""
        return self._position.stopped

    def close(self) -> None:
        """Leave the world. Called at exit too."""
        self._notice.remove()
        self._gradients.close()
        if (checkpointer := self._control.checkpointer) is not None:
            checkpointer.close()
            self._control.checkpointer = None
        self._elastic.close(ends_process=self._notice.ends_process)

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on."""
        return self._state.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._state.load_state_dict(state)

    # --- inside

    def _close_job(self) -> None:
        if self._job is not None:
            self._job.close()

    def _enter(self) -> None:
        """Restore the newest checkpoint and join the job's world, once; without a job there is nothing to join."""
        if self._entered:
            return
        self._entered = True
        self._job = self._job or connect_job()
        self._control.progress.report_to(self._job)
        checkpointer = self._control.checkpointer = Checkpointer(self._checkpoint_options, self._job)
        if self._job.elastic or self._checkpoint_options.directory:
            self._notice.install()
        if (state := checkpointer.restore()) is not None:
            self.load_state_dict(state)
            if self._state.extend():
                log.info("training was extended: continuing after step %d of %d", self.step, self._state.limit)
        if self._job.elastic:
            import atexit

            self._elastic.open(self._job)
            atexit.register(self.close)
            self._elastic.form()
        self._state.is_shared = True

    def _nothing_left(self, loop: int, limit: int) -> str:
        directory = self._checkpoint_options.directory
        done = f"the checkpoint in {directory} has all {limit} steps of this loop" if directory else "it has no steps"
        if self._position.loop > loop + 1:
            done = f"the checkpoint in {directory} was taken in a later loop"
        extended = (
            "; raise epochs or max_steps to extend the training" if loop == 0 and self._position.loop <= 1 else ""
        )
        return f"nothing left to do: {done}{extended}"

    def _check_committed(self) -> None:
        if self._current is not None and not self._current.committed:
            raise not_committed(self._current)

    def _end_loop_before(self, loop: int) -> None:
        """The loop before may have been left by ``break`` between two steps."""
        self._check_committed()
        if self._entered and self._position.loop == loop - 1:
            self._end_loop(loop - 1)
        if self._elastic.over is not None:
            raise self._elastic.over

    def _end_loop(self, loop: int) -> None:
        self._elastic.wait_for_all(loop)
        self._control.progress.end_loop()
        if self._position.loop == loop:
            self._position.end_loop()
            self._control.stop_requested = False
            self._control.take_checkpoint(wait=True)


def _make_deterministic(threads: int) -> None:
    """What one operator computes must not depend on the process that it runs in."""
    if (before := torch.get_num_threads()) > threads:
        log.warning(
            "operators run with %d of %d threads, so that the result is the same with any number of workers; "
            "Trainer(threads=...) sets another number for all of them, deterministic=False leaves it as it is",
            threads,
            before,
        )
    torch.set_num_threads(threads)  # sums inside an operator are split by threads: their number must not vary
    torch.set_deterministic_debug_mode("warn")  # use_deterministic_algorithms() would import the compiler, for seconds
    # Filling what is allocated costs time, and only shows mistakes.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if (compiler := sys.modules.get("torch._inductor.config")) is not None:
        compiler.deterministic = True  # type: ignore[attr-defined]
