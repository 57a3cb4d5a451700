"""Training that does not know that machines died.

N virtual workers share each step's micro-batches (*units*); a world of n processes hosts them. The invariants:

1. A step is committed with the gradient of every unit, each counted once. This is not only intended: each step's collective
   also adds up who brought which unit, and anything but a one for each is an error.
2. A committed step changes the state (model, optimizers, buffers, exponents) by a function of the state before and of the
   step's number alone. With ``deterministic=True`` that function is exact to the last bit.
3. What travels is a copy. When a world breaks, each survivor still has the gradients it computed; the new world's members
   tell each other which units they have, and compute only what is missing.
4. *Progress* is one number (phase, committed steps, attempt). In a new world the oldest with the newest progress leads, and
   whoever has less progress, or no state, takes the leader's state. So a step that some committed and others did not is
   committed for all, and one that nobody committed is finished by those who are left.
5. Joiners are let in between two steps, at a boundary that all learn of by the same collective.
"""

from __future__ import annotations

import logging
import math
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any
from weakref import WeakSet

import torch

from pliant.client.job import Job
from pliant.client.job import connect as connect_job
from pliant.core.errors import InvalidRequest, PliantError
from pliant.core.virtual import seats_of, share_missing
from pliant.torch.checkpoints import CheckpointOptions, Checkpoints, Notice
from pliant.torch.exact_sum import NOT_FINITE, ExactSum
from pliant.torch.float_sum import FloatSum
from pliant.torch.membership import MOST_UNITS, Expelled, Membership, TrainingOver
from pliant.torch.module_buffers import ModuleBuffers
from pliant.torch.plan import StepPlan, unit_seed
from pliant.torch.step import Step
from pliant.torch.transfer import receive_state, send_state
from pliant.torch.update import Update
from pliant.torch.worlds import Peer, World, WorldBroken

log = logging.getLogger(__name__)

# The control lane: what all workers learn of each other in a step, as int64 sums.
JOINERS, FLAGS, LOSS, LOST_LOSSES, LEAVING, SAVE, BUSY, STOP, HEAD = range(9)
LOSS_BITS = 32
REPORT_SECONDS = 0.2

_in_use: WeakSet[Job] = WeakSet()  # jobs for which this process has a Trainer


class Trainer:
    """Elastic data-parallel training.

    ``virtual_workers`` is fixed for the job and decides, with the micro-batch, what a step is; how many processes there
    are does not matter. ``deterministic`` makes the result independent of that to the last bit, at the price of one
    thread per process and twice the traffic.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        virtual_workers: int,
        deterministic: bool = False,
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
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_every_steps: int = 0,
        checkpoint_every_seconds: float = 0.0,
        keep_last: int = 3,
        keep_every: int = 0,
        job: Job | None = None,
    ) -> None:
        if virtual_workers < 1 or accumulate < 1:
            raise InvalidRequest(f"virtual_workers={virtual_workers}, accumulate={accumulate}; both must be 1 or more")
        if virtual_workers * accumulate > MOST_UNITS:
            raise InvalidRequest(f"a step has {virtual_workers * accumulate} micro-batches; allowed: {MOST_UNITS}")
        self.model = model
        self._update = Update(
            model,
            optimizer,
            scheduler=scheduler,
            scheduler_every=scheduler_every,
            scaler=scaler,
            clip_grad_norm=clip_grad_norm,
            clip_grad_value=clip_grad_value,
            on_gradients=on_gradients,
        )
        self.optimizers, self.schedulers = self._update.optimizers, self._update.schedulers
        self.scaler = scaler
        self.virtual_workers = virtual_workers
        self.units = virtual_workers * accumulate
        self.seed = seed
        self.deterministic = deterministic
        self._accumulate = accumulate
        size = int(bucket_mb * (1 << 20))
        self._sum: FloatSum | ExactSum
        if deterministic:
            torch.set_num_threads(1)  # sums inside an operator are split by threads: their number must not vary
            torch.use_deterministic_algorithms(True, warn_only=True)
            self._sum = ExactSum(bucket_bytes=size, units=self.units)
        else:
            self._sum = FloatSum(bucket_bytes=size, overlap=overlap)
        self._buffers = ModuleBuffers(model)
        self._job = job
        self._membership: Membership | None = None
        self._world = World(0, 0, [Peer("alone", "", 0, True, frozenset())])
        self._has_state = False
        self._entered = False
        self._phase = 0  # calls of ``steps`` that are over
        self._step = 0  # committed steps of this phase
        self._attempt = 0  # of the step in work: rises when exponents had to be agreed on anew
        self._next_phase = 0
        self._done: set[int] = set()  # units of the step in work whose gradients are here
        self._peers_done: list[frozenset[int]] | None = None  # as told when the world formed in the middle of a step
        self._loss_sum = 0
        self._lost_losses = 0
        self._weight = 1.0  # of the micro-batch in work
        self._admit = False
        self._reported = 0.0
        self._loss = math.nan  # of the last committed step
        self._current: Step | None = None
        self._stop_wanted = False  # by this worker
        self._stopped = False  # all agreed that this loop ends after the step that was committed last
        self._total = 0  # committed steps of all loops: the number of a checkpoint
        self._checkpoint_options = (
            CheckpointOptions(
                os.fspath(checkpoint_dir), checkpoint_every_steps, checkpoint_every_seconds, keep_last, keep_every
            )
            if checkpoint_dir is not None
            else CheckpointOptions.from_env()
        )
        self._checkpoints: Checkpoints | None = None
        self._notice = Notice()
        self._over: TrainingOver | None = None
        self._plan: StepPlan | None = None
        self._dataset: Any = None
        self._collate: Callable[[list[Any]], Any] = list
        self.on_commit: Callable[[Step], None] = lambda step: None

    # --- for users

    @property
    def world_size(self) -> int:
        return self._world.size

    @property
    def rank(self) -> int:
        """0 on one process of the world at a time: for logging and saving. It may move to another process."""
        return self._world.rank

    @property
    def step(self) -> int:
        """Committed steps of the current loop."""
        return self._step

    @property
    def total(self) -> int:
        """Committed steps of all loops."""
        return self._total

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
    ) -> Iterator[Step]:
        """The steps that are left to do, over a map-style dataset. Each must be iterated to its end."""
        plan = StepPlan(len(dataset), micro_batch, self.units, epochs, self.seed, shuffle, drop_last)
        limit = plan.steps if max_steps is None else min(plan.steps, max_steps)
        phase = self._next_phase
        self._end_loop_before(phase)
        self._next_phase += 1
        self._stop_wanted = False
        if self._phase == phase and self._entered:
            self._stopped = False
        self._plan, self._dataset = plan, dataset
        self._collate = collate_fn or torch.utils.data.default_collate
        self._enter()
        self._notice.hold()
        try:
            while self._phase == phase and self._step < limit and not self._stopped:
                if self._admit:
                    self._reform()
                    continue
                epoch, number = plan.place(self._step)
                self._current = Step(self, self._step, epoch, number, plan.size(self._step))
                yield self._current
                self._check_committed()
            self._end_phase(phase)
        finally:
            self._notice.release()
        self._notice.obey()

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
        """The two loops in one call: ``loss_fn(model, batch)`` gives the mean loss of a micro-batch."""
        for step in self.steps(dataset, micro_batch=micro_batch, epochs=epochs, **options):
            for batch in step:
                step.backward(loss_fn(self.model, batch))
            if on_step is not None:
                on_step(step)
        return self

    def stop(self) -> None:
        """End the current loop early: all workers end it after the same step, the next one that is committed."""
        self._stop_wanted = True

    @property
    def stopped(self) -> bool:
        """Whether the loop was ended by ``stop``."""
        return self._stopped

    def close(self) -> None:
        """Leave the world. Called at exit too."""
        self._notice.remove()
        self._sum.close()
        if self._checkpoints is not None:
            self._checkpoints.close()
            self._checkpoints = None
        if self._membership is not None:
            self._membership.close()
            self._membership = None

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on."""
        return {
            "model": self.model.state_dict(),
            **self._update.state(),
            "sum": self._sum.state(),
            "buffers": self._buffers.state(),
            "position": {
                "phase": self._phase,
                "step": self._step,
                "attempt": self._attempt,
                "loss": self._loss,
                "total": self._total,
                "stopped": self._stopped,
            },
            "plan": asdict(self._plan) if self._plan is not None else None,
            "shape": {"virtual_workers": self.virtual_workers, "units": self.units, "seed": self.seed},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        shape = {"virtual_workers": self.virtual_workers, "units": self.units, "seed": self.seed}
        if state["shape"] != shape:
            raise InvalidRequest(f"this state is of a training with {state['shape']}; here it is {shape}")
        position = state["position"]
        if self._plan is not None and position["phase"] == self._next_phase - 1 and state["plan"] != asdict(self._plan):
            raise InvalidRequest(f"this state is of a training on {state['plan']}; here it is {asdict(self._plan)}")
        self.model.load_state_dict(state["model"])
        self._update.load_state(state)
        self._sum.load_state(state["sum"])
        self._buffers.load_state(state["buffers"])
        self._phase, self._step, self._attempt = position["phase"], position["step"], position["attempt"]
        self._loss, self._total = position["loss"], position["total"]
        self._stopped = bool(position.get("stopped", False))
        self._has_state = True
        self._forget_units()

    # --- the world

    def _enter(self) -> None:
        """Join the job's world, once; alone there is nothing to join."""
        if self._entered:
            return
        self._entered = True
        self._job = self._job or connect_job()
        self._checkpoints = Checkpoints(self._checkpoint_options, self._job.name, self._job.node)
        if self._job.elastic or self._checkpoint_options.directory:
            self._notice.install()
        if (state := self._checkpoints.restore()) is not None:
            self.load_state_dict(state)
        if self._job.elastic:
            import atexit

            if self._job in _in_use:
                raise InvalidRequest(
                    "this program has a Trainer already",
                    hint="one Trainer can have several optimizers, and `steps` can be called several times",
                )
            _in_use.add(self._job)
            self._membership = Membership(self._job)
            atexit.register(self.close)
            self._reform()
        self._has_state = True

    def _progress(self) -> int:
        return ((self._phase << 40) | self._step) << 10 | min(self._attempt, 1023)

    def _reform(self) -> bool:
        """Be part of a new world with the newest state; False if that state was taken from another."""
        assert self._membership is not None
        before = self._progress()
        self._admit = False
        self._world.leave()
        while True:
            try:
                # Of those who are equally far, one that shares the others' state comes before one that does not.
                newest = self._progress() << 1 | self._has_state
                world = self._membership.join(newest, has_state=self._has_state, units=frozenset(self._done))
                taken = self._share_state(world)
            except Expelled as error:
                log.warning("%s; it comes back as a new one", error.message)
                self._has_state = False  # it has one, but the others' may differ in the last bits: theirs counts
                self._forget_units()
                continue
            except WorldBroken as error:
                log.info("%s", error.message)
                world.leave()
                continue
            self._world = world
            newest = world.peers[0].step
            self._peers_done = [p.units if p.has_state and p.step == newest else frozenset() for p in world.peers]
            log.info("round %d: rank %d of %d, step %d", world.round, world.rank, world.size, self._step)
            return not taken and before == self._progress()

    def _share_state(self, world: World) -> bool:
        """The leader's state goes to those who lack it; True if this process took it."""
        newest = world.peers[0].step
        lacking = [r for r, p in enumerate(world.peers) if r > 0 and (p.step < newest or not p.has_state)]
        if world.rank == 0:
            self._has_state = True
        if not lacking or world.rank not in (0, *lacking):
            return False
        assert self._membership is not None
        group = self._membership.subgroup(world, (0, *lacking))
        try:
            if world.rank == 0:
                send_state(group, self.state_dict())
                return False
            self.load_state_dict(receive_state(group))
            return True
        finally:
            group.put_aside()

    def _forget_units(self) -> None:
        self._done.clear()
        self._loss_sum = self._lost_losses = 0
        self._sum.redo()
        self._buffers.forget()

    # --- one step

    def _micro_batches(self, step: Step) -> Iterator[Any]:
        """This worker's micro-batches, as many times as it takes; commits the step at the end."""
        self._begin_step()
        progress = self._progress() >> 10
        while True:
            try:
                for unit, last in self._units_to_do():
                    indices = self._plan.indices(step.index, unit)  # type: ignore[union-attr]
                    if indices:
                        batch = self._begin_unit(step, unit, indices, last=last)
                        yield batch
                        self._end_unit(step, unit)
                    else:
                        self._done.add(unit)
                if self._commit(step):
                    return
            except WorldBroken as error:
                log.info("%s", error.message)
                self._sum.abandon()
                if self._reform():
                    continue
                if self._progress() >> 10 == progress:  # another's state, of before this step
                    self._begin_step()
                    continue
                step.committed = True  # by the others; this process has the state after it
                step.loss = self._loss if self._progress() >> 10 == progress + 1 else math.nan
                return

    def _begin_step(self) -> None:
        params = self._update.params()
        for param in params:
            param.grad = None  # also where it is no longer trained: optimizers would go on with its last gradient
        self._buffers.begin_step()
        self._sum.begin_step({number: param for number, param in enumerate(params) if param.requires_grad})
        self._done.clear()
        self._loss_sum = self._lost_losses = 0

    def _units_to_do(self) -> list[tuple[int, bool]]:
        """This worker's share of what nobody has yet, and whether it is the last of it."""
        peers = self._peers_done
        if peers is None or not any(peers):
            seats = seats_of(self._world.rank, self._world.size, self.virtual_workers)
            mine = range(seats.start * self._accumulate, seats.stop * self._accumulate)
            todo = [unit for unit in mine if unit not in self._done]
        else:
            todo = [u for u in share_missing(self.units, peers)[self._world.rank] if u not in self._done]
        return [(unit, place == len(todo) - 1) for place, unit in enumerate(todo)]

    def _begin_unit(self, step: Step, unit: int, indices: Sequence[int], *, last: bool) -> Any:
        seed = unit_seed(self.seed, step.index + (self._phase << 40), unit)
        random.seed(seed)
        torch.manual_seed(seed)
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed & 0xFFFFFFFF)
        step.unit, step.backwards = unit, 0
        self._weight = len(indices) / step.records
        batch = self._collate(_fetch(self._dataset, indices))
        self._sum.begin_unit(self._world, last=last)
        return batch

    def _backward(self, step: Step, loss: torch.Tensor) -> None:
        weighted = loss * self._weight
        value = float(weighted.detach())
        if math.isfinite(value) and abs(value) < 1 << 24:
            self._loss_sum += round(value * (1 << LOSS_BITS))
        else:
            self._lost_losses += 1
        self._update.scaled(weighted).backward()  # type: ignore[no-untyped-call]

    def _end_unit(self, step: Step, unit: int) -> None:
        if not step.backwards:
            raise InvalidRequest(f"step.backward was not called for a micro-batch of step {step.index}")
        step.unit = -1
        self._sum.end_unit()
        self._buffers.end_unit(unit)
        self._done.add(unit)

    def _commit(self, step: Step) -> bool:
        """Add up over all workers, and apply; False if the step must be computed again."""
        world = self._world
        if world.broken.is_set():  # a world of one has no collective that would fail
            raise WorldBroken(f"round {world.round} is over")
        used = self._sum.used()
        control = torch.zeros(HEAD + self.units + len(used) + self._buffers.words, dtype=torch.int64)
        control[JOINERS] = world.waiting
        control[FLAGS] = self._sum.flags()
        control[LOSS], control[LOST_LOSSES] = self._loss_sum, self._lost_losses
        control[LEAVING] = int(self._notice.given)
        control[STOP] = int(self._stop_wanted)
        if self._checkpoints is not None:
            control[SAVE] = int(self._checkpoints.wanted(self._total + 1, world.rank))
            control[BUSY] = int(self._checkpoints.busy())
        control[torch.tensor([HEAD + unit for unit in self._done], dtype=torch.int64)] = 1
        at = HEAD + self.units
        control[at : at + len(used)] = torch.tensor(used, dtype=torch.int64)
        self._buffers.put(control[at + len(used) :])
        works = self._sum.start(world)
        if not world.alone:
            world.finish([*works, world.allreduce(control)])
        brought = control[HEAD:at]
        if not bool((brought == 1).all()):
            raise PliantError(f"step {step.index}: micro-batches were counted {brought.tolist()} times, not once each")
        flags = int(control[FLAGS])
        if 0 < flags < NOT_FINITE:
            self._sum.calibrate(world)  # type: ignore[union-attr]  # only an exact sum has flags
            self._attempt += 1
            self._peers_done = None
            self._forget_units()
            return False
        self._buffers.take(control[at + len(used) :])
        totals = control[at : at + len(used)].tolist()
        if isinstance(self._sum, ExactSum):
            self._sum.store(totals, finite=flags == 0)
        else:
            self._sum.store(totals)
        self._apply(step)
        lost = int(control[LOST_LOSSES])
        step.loss = self._loss = math.nan if lost else int(control[LOSS]) / (1 << LOSS_BITS)
        self._admit = bool(control[JOINERS]) and self._membership is not None
        self._stopped = bool(control[STOP])
        self._finish(step)
        self._save_and_leave(save=bool(control[SAVE]) and not control[BUSY], leaving=int(control[LEAVING]))
        return True

    def _apply(self, step: Step) -> None:
        assert self._plan is not None
        self._update.apply(ends_epoch=step.number == self._plan.steps_per_epoch - 1)

    def _save_and_leave(self, *, save: bool, leaving: int) -> None:
        """Take the checkpoint that all agreed on. Who has notice to end goes now: between two steps nothing is lost."""
        everybody = leaving == self._world.size
        if save or everybody:
            self._take_checkpoint(wait=everybody)
        if self._notice.given and leaving:
            log.info("had notice to end, and leaves after step %d", self._step)
            self.close()
            raise SystemExit(128 + signal.SIGTERM)

    def _take_checkpoint(self, *, wait: bool) -> None:
        if self._checkpoints is not None:
            world = self._world
            self._checkpoints.take(self._total, self.state_dict, world.rank, world.size, world.round, wait=wait)

    def _finish(self, step: Step) -> None:
        self._step += 1
        self._total += 1
        self._attempt = 0
        self._done.clear()
        self._peers_done = None
        step.committed = True
        self.on_commit(step)
        now = time.monotonic()
        if self._job is not None and self._job.elastic and now - self._reported > REPORT_SECONDS:
            self._reported = now
            self._job.report_step(self._step, loss=step.loss)

    def _check_committed(self) -> None:
        if self._current is not None and not self._current.committed:
            raise PliantError(
                f"step {self._current.index} was left before its end",
                hint="iterate each step to its end: `for batch in step: …`, without `break`",
            )

    def _end_loop_before(self, phase: int) -> None:
        """The loop before may have been left by ``break`` between two steps."""
        self._check_committed()
        if self._entered and self._phase == phase - 1:
            self._end_phase(phase - 1)
        if self._over is not None:
            raise self._over

    def _end_phase(self, phase: int) -> None:
        """Wait until everybody has the last step, and let late joiners in, so that they end with us."""
        while self._phase == phase and self._membership is not None and not self._world.alone:
            control = torch.tensor([self._world.waiting], dtype=torch.int64)
            try:
                self._world.finish([self._world.allreduce(control)])
                if int(control[0]) == 0:
                    break
                self._reform()
            except WorldBroken:
                try:
                    self._reform()
                except TrainingOver as over:
                    self._over = over  # the others are gone; this process has the last step of this loop too
                    break
        if self._phase == phase:
            self._phase, self._step, self._attempt = phase + 1, 0, 0
            self._stop_wanted = False
            self._take_checkpoint(wait=True)


def _fetch(dataset: Any, indices: Sequence[int]) -> list[Any]:
    many = getattr(dataset, "__getitems__", None)
    return list(many(list(indices))) if many is not None else [dataset[i] for i in indices]
