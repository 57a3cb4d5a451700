"""What one step does on this worker: compute its share, commit with all others, repair after a lost peer.

If the world breaks, a new one forms, the units that no survivor has are distributed again, and the collective runs once more.
The step is committed when every unit was counted once; then the update is applied, on all workers to the same sums.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import torch

from pliant.core.errors import PliantError
from pliant.core.rendezvous.virtual_workers import share_missing
from pliant.files.time_meter import time_meter
from pliant.torch.accumulator import mean_loss
from pliant.torch.checkpoints import Checkpointer
from pliant.torch.control_lane import ControlLane, Word
from pliant.torch.elastic_world import ElasticWorld
from pliant.torch.gradients.unit_tree import hosted_units
from pliant.torch.loop_progress import LoopProgress
from pliant.torch.loop_terms import are_equal, digest, disagreement, gather
from pliant.torch.misuse import LoopGuard, missing_backward
from pliant.torch.plan import StepPlan, unit_seed
from pliant.torch.read_ahead import Unit, UnitReader
from pliant.torch.step import Step
from pliant.torch.termination import TerminationNotice
from pliant.torch.training_state import TrainingState
from pliant.torch.worlds.world import World, WorldBroken

log = logging.getLogger(__name__)


class StepController:
    def __init__(
        self,
        state: TrainingState,
        elastic: ElasticWorld,
        notice: TerminationNotice,
        *,
        on_commit: Callable[[Step], None],
        on_leave: Callable[[], None],
    ) -> None:
        """``on_leave`` releases what the Trainer holds, before the process exits upon notice."""
        self._state, self._elastic, self._notice = state, elastic, notice
        self._position, self._accumulator = state.position, state.accumulator
        self._on_commit, self._on_leave = on_commit, on_leave
        self._guard = LoopGuard(state.update.optimizers)
        self._meter = time_meter()
        self._unit_began = 0.0
        self.progress = LoopProgress(state.position)
        self._reader: UnitReader | None = None
        self._params: Sequence[torch.nn.Parameter] = ()  # of the current step
        self._weight = 1.0  # of the current micro-batch: its share of the step's records
        self._leaves = False  # after this step, as the others know
        self.checkpointer: Checkpointer | None = None
        self.stop_requested = False  # by this worker

    def begin_loop(self, reader: UnitReader) -> None:
        self._reader = reader
        self._guard.begin_loop()

    def end_loop(self) -> None:
        self._guard.end_loop()
        if self._reader is not None:
            self._reader.close()

    @property
    def _plan(self) -> StepPlan:
        assert self._state.plan is not None
        return self._state.plan

    # --- for ``Step``

    def micro_batches(self, step: Step) -> Iterator[Any]:
        """This worker's micro-batches, as many times as it takes; commits the step at the end."""
        self._begin_step()
        before = self._position.progress
        while True:
            try:
                todo = self._begin_round()
                self._expect(step.index, [unit for unit, _ in todo])
                for unit, last in todo:
                    wanted = self._unit(step.index, unit)
                    if wanted.indices:
                        batch = self._begin_unit(step, wanted, last=last)
                        yield batch
                        self._end_unit(step, unit)
                    else:
                        self._accumulator.skip_unit(unit)
                self._commit(step)
                return
            except WorldBroken as error:
                log.info("%s", error.message)
                self._accumulator.gradients.abandon()
                if self._elastic.form():
                    continue
                if self._position.progress == before:  # another's state, of before this step
                    self._begin_step()
                    continue
                step.committed = True  # by the others; this process has the state after it
                step.loss = self._position.loss if self._position.progress == before + 1 else math.nan
                return

    def backward(self, step: Step, loss: torch.Tensor) -> None:
        weighted = loss * self._weight
        self._accumulator.add_loss(float(weighted.detach()))
        self._accumulator.gradients.begin_backward()
        self._state.update.scaled(weighted).backward()  # type: ignore[no-untyped-call]
        self._accumulator.gradients.end_backward()

    # --- computing

    def _begin_step(self) -> None:
        self._params = self._state.update.params()
        self._accumulator.begin_step(self._params)

    def _begin_round(self) -> list[tuple[int, bool]]:
        """This worker's share of the missing units, each with whether it is the last."""
        world, done = self._elastic.world, self._accumulator.units
        held = self._held()
        self._accumulator.gradients.begin_round(world, held)
        todo = sorted(held[world.rank] - done)
        return [(unit, number == len(todo)) for number, unit in enumerate(todo, start=1)]

    def _held(self) -> list[frozenset[int]]:
        """The units that each rank brings to this step, the same on every worker: what it has and its share of what is missing."""
        peer_units, seats = self._elastic.peer_units, self._elastic.seats
        if peer_units is None or not any(peer_units):
            return [frozenset(units) for units in self._hosted()]
        shares = share_missing(self._state.units, peer_units, seats)
        return [units | frozenset(share) for units, share in zip(peer_units, shares, strict=True)]

    def _hosted(self) -> tuple[range, ...]:
        """The units of each rank in a step that nobody has begun."""
        return hosted_units(tuple(n * self._state.accumulate for n in self._elastic.seats))

    def _unit(self, step: int, number: int) -> Unit:
        seed = unit_seed(self._state.seed, step + (self._position.loop << 40), number)
        return Unit(step, number, self._plan.indices(step, number), seed)

    def _expect(self, step: int, todo: Sequence[int]) -> None:
        """What comes next, if the world stays as it is: the rest of this step, and this worker's share of the following ones."""
        assert self._reader is not None
        share = self._hosted()[self._elastic.world.rank]
        following = ((later, unit) for later in range(step + 1, self._state.limit) for unit in share)
        units = (self._unit(*key) for key in chain(((step, unit) for unit in todo), following))
        self._reader.expect(unit for unit in units if unit.indices)

    def _begin_unit(self, step: Step, wanted: Unit, *, last: bool) -> Any:
        assert self._reader is not None
        step.unit, step.backwards = wanted.number, 0
        self._unit_began = time.monotonic()
        self._weight = len(wanted.indices) / step.records
        with self._meter.data:
            batch = self._reader.take(wanted)
        self._accumulator.begin_unit(wanted.number, last=last)
        return batch

    def _end_unit(self, step: Step, unit: int) -> None:
        if not step.backwards:
            raise missing_backward(step, () if self._accumulator.units else self._params)
        step.unit = -1
        self._accumulator.end_unit(unit)
        self._meter.unit(time.monotonic() - self._unit_began)

    # --- committing

    def _commit(self, step: Step) -> None:
        """Add up over all workers, and apply."""
        world, gradients = self._elastic.world, self._accumulator.gradients
        if world.broken.is_set():  # a world of one has no collective that would fail
            raise WorldBroken(f"round {world.round} has ended")
        lane = self._fill_lane()
        works = gradients.start()
        if not world.alone:
            with self._meter.peers:
                self._finish(world, [*works, world.allreduce(lane.tensor)])
            if not are_equal(lane[Word.TERMS], lane[Word.TERMS_SQUARED], world.size):
                members = zip(world.peers, gather(world, self._state.terms), strict=True)
                self._elastic.fail_job(disagreement({peer.name: terms for peer, terms in members}))
        counts = lane.unit_counts()
        if any(count != 1 for count in counts):
            raise PliantError(f"step {step.index}: micro-batches were counted {counts} times instead of once each")
        with self._meter.peers:
            gradients.reduce()
        self._accumulator.buffers.take(lane.buffers)
        gradients.store(lane.used())
        self._apply(step)
        step.loss = self._position.loss = mean_loss(lane[Word.LOSS], lane[Word.LOST_LOSSES])
        self._elastic.must_reform = bool(lane[Word.REFORM]) and self._elastic.is_member
        self._position.stopped = bool(lane[Word.STOP])
        self._end_step(step)
        self._save_and_leave(save=bool(lane[Word.SAVE]) and not lane[Word.BUSY], leaving=lane[Word.LEAVING])

    def _fill_lane(self) -> ControlLane:
        """What this worker contributes to the control lane."""
        accumulator, world = self._accumulator, self._elastic.world
        used = accumulator.gradients.used()
        lane = ControlLane(self._state.units, len(used), accumulator.buffers.words)
        lane[Word.REFORM] = world.waiting + world.outdated
        lane[Word.LOSS], lane[Word.LOST_LOSSES] = accumulator.loss, accumulator.lost_losses
        self._leaves = self._notice.given
        lane[Word.LEAVING] = int(self._leaves)
        lane[Word.STOP] = int(self.stop_requested)
        lane[Word.TERMS] = digest(self._state.terms)
        lane[Word.TERMS_SQUARED] = lane[Word.TERMS] ** 2
        if self.checkpointer is not None:
            lane[Word.SAVE] = int(self.checkpointer.is_due(self._position.total + 1, world.rank))
            lane[Word.BUSY] = int(self.checkpointer.is_busy())
        lane.set_units(accumulator.units)
        lane.set_used(used)
        accumulator.buffers.put(lane.buffers)
        return lane

    def _apply(self, step: Step) -> None:
        with self._guard.applying():
            self._state.update.apply(ends_epoch=step.number == self._plan.steps_per_epoch - 1)

    def _finish(self, world: World, works: Sequence[Any]) -> None:
        """Wait for the collectives of the step; when they are done, all know of all."""
        world.finish(works)

    def _end_step(self, step: Step) -> None:
        self._position.commit_step()
        units = set(self._accumulator.units)
        self._accumulator.end_step()
        self._elastic.peer_units = None
        step.committed = True
        self._on_commit(step)
        self.progress.committed(step.index, units)

    # --- checkpoints and notice

    def _save_and_leave(self, *, save: bool, leaving: int) -> None:
        """Take the checkpoint that all agreed on. Who was asked to terminate goes now: between two steps nothing is lost.

        Who was asked after it had reported for this step stays for another one: the others count on it, and if they all
        go, it has the only state and takes the checkpoint.
        """
        everybody = leaving == self._elastic.world.size
        if save or everybody:
            self.take_checkpoint(wait=everybody)
        if self._leaves:
            log.info("was asked to terminate (SIGTERM); leaves after step %d", self._position.step)
            self._on_leave()
            self._notice.exit()

    def take_checkpoint(self, *, wait: bool) -> None:
        if self.checkpointer is not None:
            world = self._elastic.world
            self.checkpointer.take(
                self._position.total, self._state.state_dict, world.rank, world.size, world.round, wait=wait
            )
