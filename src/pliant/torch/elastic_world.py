"""The world that this process trains in, as workers come and go: joining, re-forming, receiving the newest state.

In a new world the oldest member with the newest progress leads. Whoever has less progress, or no shared state, takes the
leader's; survivors that are equally far exchange nothing. ``Membership`` talks to the master, ``World`` is one set of peers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NoReturn
from weakref import WeakSet

import torch

from pliant.client.job import Job
from pliant.core.errors import InvalidRequest, PliantError
from pliant.core.rendezvous.virtual_workers import hosted_counts
from pliant.torch.loop_terms import WorkersDisagree
from pliant.torch.training_state import TrainingState
from pliant.torch.worlds.membership import Expelled, Membership, TrainingOver
from pliant.torch.worlds.state_transfer import receive_state, send_state
from pliant.torch.worlds.world import Peer, World, WorldBroken

log = logging.getLogger(__name__)

_in_use: WeakSet[Job] = WeakSet()  # jobs for which this process has a Trainer


class ElasticWorld:
    def __init__(self, state: TrainingState) -> None:
        self._state = state
        self._job: Job | None = None
        self._membership: Membership | None = None
        self.world = World(0, 0, [Peer("alone", 0, True, frozenset())])
        self.must_reform = False  # known to all members: they form a new world before the next step
        self.peer_units: list[frozenset[int]] | None = None  # by rank, if the world formed in the middle of a step
        self.over: TrainingOver | None = None  # all others are gone for good

    @property
    def is_member(self) -> bool:
        return self._membership is not None

    def open(self, job: Job) -> None:
        """Become a member of the job's worlds; ``form`` joins one."""
        if job in _in_use:
            raise InvalidRequest(
                "this program already has a Trainer",
                hint="one Trainer can have several optimizers, and `steps` can be called several times",
            )
        _in_use.add(job)
        self._job = job
        job.combines = True
        self._membership = Membership(job)

    def form(self) -> bool:
        """Join a new world with the newest state; False if that state was taken from another member."""
        assert self._membership is not None
        position, accumulator = self._state.position, self._state.accumulator
        before = position.progress
        self.must_reform = False
        self.world.leave()
        while True:
            try:
                # Of those who are equally far, one that shares the others' state comes before one that does not.
                newest = position.progress << 1 | self._state.is_shared
                world = self._membership.join(
                    newest,
                    has_state=self._state.is_shared,
                    units=frozenset(accumulator.units),
                    virtual_workers=self._state.virtual_workers,
                )
                received = self._share_state(world)
            except Expelled as error:
                log.warning("%s; joining again as a new member", error.message)
                self._state.is_shared = False  # the others' may differ in the last bits: theirs counts
                accumulator.discard()
                continue
            except WorldBroken as error:
                log.info("%s", error.message)
                world.leave()
                continue
            self.world = world
            newest = world.peers[0].progress
            self.peer_units = [p.units if p.has_state and p.progress == newest else frozenset() for p in world.peers]
            log.info("round %d: rank %d of %d, step %d", world.round, world.rank, world.size, position.step)
            return not received and before == position.progress

    @property
    def seats(self) -> Sequence[int]:
        """Virtual workers that each rank hosts, the same on every worker."""
        return self.world.seats or hosted_counts(self._state.virtual_workers, self.world.size)

    def wait_for_all(self, loop: int) -> None:
        """At the end of a loop: wait until every member has its last step, and admit late joiners, so that they end too."""
        while self._state.position.loop == loop and self.is_member and not self.world.alone:
            joiners = torch.tensor([self.world.waiting], dtype=torch.int64)
            try:
                self.world.finish([self.world.allreduce(joiners)])
                if int(joiners[0]) == 0:
                    return
                self.form()
            except WorldBroken:
                try:
                    self.form()
                except TrainingOver as over:
                    self.over = over  # the others are gone; this process has the last step of this loop too
                    return

    def fail_job(self, error: WorkersDisagree) -> NoReturn:
        """End the job for all workers with this error: some of them alone would seem to succeed."""
        try:
            if self._job is not None:
                self._job.fail(f"{error.message}; what to do: {error.hint}")
        except PliantError as gone:  # another worker was faster, and the job is over
            log.debug("not reported to the master: %s", gone)
        raise error

    def close(self, *, ends_process: bool = False) -> None:
        """Leave for good."""
        if self._membership is not None:
            self._membership.close(ends_process=ends_process)
            self._membership = None

    def _share_state(self, world: World) -> bool:
        """The leader sends its state to those who lack it; True if this process received it."""
        newest = world.peers[0].progress
        lacking = [r for r, p in enumerate(world.peers) if r > 0 and (p.progress < newest or not p.has_state)]
        if world.rank == 0:
            self._state.is_shared = True
        if not lacking or world.rank not in (0, *lacking):
            return False
        assert self._membership is not None
        group = self._membership.subgroup(world, (0, *lacking))
        try:
            if world.rank == 0:
                send_state(group, self._state.state_dict())
                return False
            state = receive_state(group)
        finally:
            group.release()
        try:
            self._state.receive(state, world.peers[0].name, world.peers[world.rank].name)
        except WorkersDisagree as error:
            self.fail_job(error)
        return True
