"""Gradients added up along one canonical tree over the units of a step, whoever computes them: equal to the last bit.

Each worker keeps the partial sums of its units (``partial_sums``); a transport brings those of all workers together, the
cheapest that this world allows (``transport``). What is added to what follows from the units' numbers alone, so the result
does not depend on the number of workers, on who has which unit, or on what happened to the machines (``unit_tree``). Nothing
is converted but 16-bit gradients, which are added up in 32 bits; infinity and NaN travel as they are (of a NaN, which of its
bit patterns is not defined).

While the last micro-batch of a step is in its backward pass, each bucket starts to travel as soon as its parameters are
finished. What this worker has computed survives a world that breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from pliant.core.errors import InvalidRequest, PliantError
from pliant.torch.gradients.buckets import Bucket, holders, layout_of, make_buckets, slices
from pliant.torch.gradients.mixed_transport import Mixed
from pliant.torch.gradients.partial_sums import PartialSums
from pliant.torch.gradients.shared_transport import Layout, SharedMemory
from pliant.torch.gradients.transport import NOTHING, Allreduce, Holdings, Scatter, Transport
from pliant.torch.gradients.unit_tree import UnitTree
from pliant.torch.worlds.shared_memory import WorldMemory, machine_id, share
from pliant.torch.worlds.world import World, WorldBroken


class TreeSum:
    def __init__(self, *, bucket_bytes: int, units: int, overlap: bool, shared_memory: bool = True) -> None:
        self._bucket_bytes, self._overlap = bucket_bytes, overlap
        self.machine = machine_id() if shared_memory else None
        self._tree = UnitTree(units)
        self._params: list[torch.nn.Parameter] = []
        self._layout: list[tuple[int, torch.Size, torch.dtype]] = []
        self._slots: list[torch.Tensor] = []  # per parameter: shape and type of its sum, without memory
        self._buckets: list[Bucket] = []
        self._bucket_of: dict[int, int] = {}
        self._hooks: list[Any] = []
        self._sums = PartialSums(self._tree)
        self._used: list[int] = []
        self._world: World | None = None
        self._held: tuple[frozenset[int], ...] = ()
        self._holdings: Holdings | None = None
        self._transport: Transport | None = None  # None: alone
        self._holders: list[int] = []  # of each result, while no gradient is a view of it
        self._memory: WorldMemory | None = None
        self._memory_world: World | None = None  # the one that ``_memory`` is of, or that has none
        self._inputs: dict[int, list[torch.Tensor]] = {}  # per parameter, where each partial sum is to be
        self._is_ready = False  # the inputs may be written
        self._is_backward = False
        self._is_last = False  # the unit at work
        self._unfinished: list[set[int]] = []  # per bucket: parameters that the backward pass at work has not reached
        self._sent = 0  # buckets of this step
        self._problem: WorldBroken | None = None

    def begin_step(self, params: Mapping[int, torch.nn.Parameter]) -> None:
        """``params``: those that are trained in this step, by their numbers among all."""
        wanted = list(params.values())
        if layout_of(wanted) != self._layout:
            self._lay_out(wanted)
        self.discard()
        if self._result_holders() != self._holders:  # the program keeps a gradient of the last step
            self._holdings = self._transport = None

    def begin_round(self, world: World, held: Sequence[frozenset[int]]) -> None:
        """``held``: the units that each rank of this world brings to the step. Called once per step, and again after each break."""
        if world is not self._world or tuple(held) != self._held or self._holdings is None:
            self._world, self._held = world, tuple(held)
            self._holdings = Holdings(self._tree, world.rank, held)
            if world.alone:
                self._transport = self._memory = self._memory_world = None
            else:
                self._transport = self._choose(world, self._holdings)
            self._inputs = self._input_views()
            self._holders = self._result_holders()
        self._sent, self._problem, self._is_ready = 0, None, False

    def begin_unit(self, unit: int, *, last: bool) -> None:
        """``last``: the last micro-batch of this worker in this step; its gradients may travel as they appear."""
        for param in self._params:
            param.grad = None
        self._is_last = last
        self._sums.begin(unit, len(self._params))

    def begin_backward(self) -> None:
        self._unfinished = [set(bucket.params) for bucket in self._buckets]
        self._is_backward = self._overlap and self._transport is not None

    @torch.no_grad()
    def end_backward(self) -> None:
        self._is_backward = False
        for bucket in self._unfinished:
            for index in bucket:
                self._take(index, None)
        self._sums.end()

    @torch.no_grad()
    def skip_unit(self, unit: int) -> None:
        """A unit without records has no gradients."""
        self._sums.add_nothing(unit, len(self._params))

    def used(self) -> list[int]:
        """Per parameter, how many of this worker's units used it."""
        return list(self._used)

    @torch.no_grad()
    def start(self) -> list[Any]:
        """Start the collectives that have not started yet; returns all that are in flight."""
        assert self._holdings is not None
        if self._problem is not None:
            raise self._problem
        if self._sums.nodes != self._holdings.own:
            raise PliantError(f"this worker has the sums {self._sums.nodes}; the others count on {self._holdings.own}")
        if self._transport is None:
            return []
        while self._sent < len(self._buckets):
            self._send()
        return self._transport.sent()

    @torch.no_grad()
    def reduce(self) -> None:
        """All workers' parts have arrived: add them up. May need further collectives."""
        if self._transport is not None:
            self._transport.reduce()

    @torch.no_grad()
    def store(self, used: Sequence[int]) -> None:
        """The sums become ``param.grad``; a parameter that no unit used has none."""
        for at, bucket in enumerate(self._buckets):
            for index, total in zip(bucket.params, self._totals(at, bucket), strict=True):
                param = self._params[index]
                param.grad = None if total is None or not used[index] else _as_gradient(total, param)

    def abandon(self) -> None:
        """The world broke: buffers that were given to it are never written again."""
        self._world = self._transport = self._holdings = None
        self._memory = self._memory_world = None
        self._inputs = {}
        self._is_backward = False

    def discard(self) -> None:
        """Forget this step's gradients: the state was replaced."""
        self._sums.clear()
        self._used = [0] * len(self._params)
        for param in self._params:
            param.grad = None

    def close(self) -> None:
        self._remove_hooks()
        self.abandon()

    # --- inside

    def _lay_out(self, params: list[torch.nn.Parameter]) -> None:
        self._remove_hooks()
        self._world = self._transport = None
        self._params, self._layout = params, layout_of(params)
        self._slots = [_slot(param) for param in params]
        self._buckets = make_buckets(self._slots, self._bucket_bytes)
        self._bucket_of = {index: at for at, bucket in enumerate(self._buckets) for index in bucket.params}
        if self._overlap:
            for index, param in enumerate(params):
                hook = param.register_post_accumulate_grad_hook(self._finished(index))  # type: ignore[no-untyped-call]
                self._hooks.append(hook)

    def _choose(self, world: World, holdings: Holdings) -> Transport:
        whole = Layout(self._buckets, 1, holdings.most)
        if self._memory_world is not world or (self._memory is not None and self._memory.size < whole.size):
            self._memory = share(world, whole.size, self.machine)
            self._memory_world = world
        if self._memory is not None:
            if len(self._memory.hosts) > 1:
                return Mixed(world, self._memory, self._buckets, holdings, whole)
            layout = Layout(self._buckets, world.size, holdings.most)
            return SharedMemory(self._memory, self._buckets, holdings, layout)
        if Allreduce.is_exact(holdings):
            return Allreduce(world, self._buckets, holdings)
        return Scatter(world, self._buckets, holdings)

    def _input_views(self) -> dict[int, list[torch.Tensor]]:
        views: dict[int, list[torch.Tensor]] = {index: [] for index in range(len(self._params))}
        if self._transport is not None:
            for at, bucket in enumerate(self._buckets):
                for flat in self._transport.inputs(at):
                    for index, view in zip(bucket.params, slices(bucket, flat, self._slots), strict=True):
                        views[index].append(view)
        return views

    def _result_holders(self) -> list[int]:
        if self._transport is None:
            return []
        return [holders(self._transport.result(at)) for at in range(len(self._buckets))]

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _finished(self, index: int) -> Callable[[torch.Tensor], None]:
        def hook(_param: torch.Tensor) -> None:
            if not self._is_backward:
                return
            at = self._bucket_of[index]
            if index not in self._unfinished[at]:
                raise InvalidRequest(
                    "a gradient was changed after it was sent to the other workers",
                    hint="re-entrant checkpointing does that; create the Trainer with overlap=False",
                )
            self._unfinished[at].discard(index)
            with torch.no_grad():
                self._take(index, self._target(index) if self._is_last else None)
                if self._is_last:
                    self._send_finished()

        return hook

    def _take(self, index: int, target: torch.Tensor | None) -> None:
        param = self._params[index]
        grad, param.grad = param.grad, None
        if grad is not None:
            self._used[index] += 1
        self._sums.add(index, None if grad is None else _as_summand(grad, self._slots[index]), target)

    def _target(self, index: int) -> torch.Tensor | None:
        """Where the last partial sum of a parameter can be written at once, instead of being copied there."""
        assert self._transport is not None
        assert self._holdings is not None
        if not self._transport.keeps_inputs or self._params[index].device.type != "cpu" or self._problem is not None:
            return None
        try:
            self._make_ready()
        except WorldBroken as error:
            self._problem = error
            return None
        return self._inputs[index][self._holdings.own.index(self._sums.node)]

    def _make_ready(self) -> None:
        assert self._transport is not None
        if not self._is_ready:
            self._transport.begin_step()
            self._is_ready = True

    def _send_finished(self) -> None:
        while self._problem is None and self._sent < len(self._buckets) and not self._unfinished[self._sent]:
            try:
                self._send()
            except WorldBroken as error:  # not out of a backward pass; ``start`` raises it
                self._problem = error

    def _send(self) -> None:
        """Write this worker's partial sums of the next bucket to where others find them."""
        assert self._transport is not None
        assert self._holdings is not None
        at, bucket = self._sent, self._buckets[self._sent]
        self._make_ready()
        for number, node in enumerate(self._holdings.own):
            partial = self._sums[node]
            for index in bucket.params:
                value, view = partial.values[index], self._inputs[index][number]
                if value is None:
                    view.fill_(NOTHING)
                    continue
                if value is not view:
                    view.copy_(value)
                if self._transport.keeps_inputs:
                    partial.values[index] = view
                    partial.lent = True
        self._transport.send(at)
        self._sent += 1

    def _totals(self, at: int, bucket: Bucket) -> list[torch.Tensor | None]:
        """The sum of each parameter of a bucket, in memory of its own."""
        if self._transport is not None:
            return list(slices(bucket, self._transport.result(at), self._slots))
        whole = self._sums[self._tree.root]
        totals = [whole.values[index] for index in bucket.params]
        return [total if total is None or not whole.lent else total.clone() for total in totals]


def _slot(param: torch.nn.Parameter) -> torch.Tensor:
    """What the gradients of a parameter are added up as."""
    if param.dtype.itemsize < 2 or not (param.is_floating_point() or param.is_complex()):
        raise InvalidRequest(f"gradients of type {param.dtype} cannot be summed")
    real = torch.view_as_real(param) if param.is_complex() else param
    dtype = real.dtype if real.dtype.itemsize >= 4 else torch.float32
    return torch.empty(real.shape, dtype=dtype, device="meta")


def _as_summand(grad: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
    dense = grad.to_dense() if grad.is_sparse else grad
    return (torch.view_as_real(dense) if dense.is_complex() else dense).to(slot.dtype)


def _as_gradient(total: torch.Tensor, param: torch.nn.Parameter) -> torch.Tensor:
    """Always contiguous: what is computed over a gradient, such as its norm, goes by its layout."""
    made = torch.view_as_complex(total.contiguous()) if param.is_complex() else total
    return made.to(device=param.device, dtype=param.dtype).contiguous()
