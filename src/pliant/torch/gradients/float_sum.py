"""Gradients added up in floating point: fast, and equal for any number of workers within rounding.

What this worker has computed gathers in ``param.grad``. What travels is a copy, so that a world which breaks in the middle
costs nothing: the gradients are still there. While the last micro-batch of a step is in its backward pass, each bucket
starts to travel as soon as its parameters are finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from pliant.core.errors import InvalidRequest
from pliant.torch.gradients.buckets import Bucket, holders, layout_of, make_buckets, slices
from pliant.torch.worlds.world import World, WorldBroken


class FloatSum:
    def __init__(self, *, bucket_bytes: int, overlap: bool) -> None:
        self._bucket_bytes = bucket_bytes
        self._overlap = overlap
        self._params: list[torch.nn.Parameter] = []
        self._layout: list[tuple[int, torch.Size, torch.dtype]] = []
        self._buckets: list[Bucket] = []
        self._sent: list[torch.Tensor | None] = []  # per bucket, the copy that travels
        self._kept: dict[int, torch.Tensor] = {}  # buffers of the last good step, to be used again
        self._works: list[Any] = []
        self._hooks: list[Any] = []
        self._unfinished: list[set[int]] = []  # per bucket: parameters that the last backward pass has not reached
        self._bucket_of: dict[int, int] = {}
        self._world = World(0, 0, ())  # nobody's, until a round begins
        self._travels = False  # the gradients of the backward pass at work
        self._problem: WorldBroken | None = None

    def begin_step(self, params: Mapping[int, torch.nn.Parameter]) -> None:
        """``params``: those that are trained in this step, by their numbers among all."""
        wanted = list(params.values())
        if layout_of(wanted) != self._layout:
            self._lay_out(wanted)
        for param in self._params:
            param.grad = None
        self._kept = {at: flat for at, flat in self._kept.items() if holders(flat) == 1}

    def begin_round(self, world: World, held: Sequence[frozenset[int]]) -> None:
        self._world = world

    def begin_unit(self, unit: int, *, last: bool) -> None:
        """``last``: the last micro-batch of this worker in this step; its gradients may travel as they appear."""
        if last and self._overlap and not self._world.alone:
            self._travels = True
            self._unfinished = [set(bucket.params) for bucket in self._buckets]

    def begin_backward(self) -> None:
        return

    def end_backward(self) -> None:
        return  # autograd has added to param.grad by itself

    def skip_unit(self, unit: int) -> None:
        return

    def used(self) -> list[int]:
        return [0 if param.grad is None else 1 for param in self._params]

    def start(self) -> list[Any]:
        """Send what has not been sent; returns all that is in flight."""
        self._travels = False
        if self._world.alone:
            return []
        if self._problem is not None:
            raise self._problem
        for at in range(len(self._works), len(self._buckets)):
            self._send(at)
        return self._works

    def reduce(self) -> None:
        return  # it arrived as a sum

    def store(self, used: Sequence[int]) -> None:
        """The sums become ``param.grad``; a parameter that no micro-batch used has none."""
        for at, bucket in enumerate(self._buckets):
            flat = self._sent[at]
            if flat is None:  # alone: the gradients are where they belong
                self._make_dense(bucket)
                continue
            for index, view in zip(bucket.params, slices(bucket, flat, self._params), strict=True):
                param = self._params[index]
                param.grad = view.to(param.device) if used[index] else None
            self._kept[at] = flat
        self._reset()

    def abandon(self) -> None:
        """The world broke. Whatever travels may still write into its buffers, so they are not used again."""
        self._kept.clear()
        self._reset()

    def discard(self) -> None:
        """Forget this step's gradients; they are computed again."""
        self._reset()
        for param in self._params:
            param.grad = None

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    # --- inside

    def _lay_out(self, params: list[torch.nn.Parameter]) -> None:
        if odd := {str(p.dtype) for p in params if p.dtype.itemsize < 2}:
            raise InvalidRequest(f"gradients of type {', '.join(odd)} cannot be summed")
        self.close()
        self._params, self._layout = params, layout_of(params)
        self._buckets = make_buckets(params, self._bucket_bytes)
        self._bucket_of = {index: at for at, bucket in enumerate(self._buckets) for index in bucket.params}
        self._kept.clear()
        self._reset()
        if self._overlap:
            for index, param in enumerate(params):
                hook = param.register_post_accumulate_grad_hook(self._finished(index))  # type: ignore[no-untyped-call]
                self._hooks.append(hook)

    def _reset(self) -> None:
        self._sent = [None] * len(self._buckets)
        self._works = []
        self._travels = False
        self._problem = None

    def _finished(self, index: int) -> Callable[[torch.Tensor], None]:
        def hook(_param: torch.Tensor) -> None:
            if not self._travels or self._problem is not None:
                return
            at = self._bucket_of[index]
            if at < len(self._works):
                raise InvalidRequest(
                    "a gradient was changed after it was sent to the other workers",
                    hint="re-entrant checkpointing does that; create the Trainer with overlap=False",
                )
            self._unfinished[at].discard(index)
            while len(self._works) < len(self._buckets) and not self._unfinished[len(self._works)]:
                try:
                    self._send(len(self._works))
                except WorldBroken as error:  # not out of a backward pass; ``start`` raises it
                    self._problem = error
                    return

        return hook

    def _make_dense(self, bucket: Bucket) -> None:
        """As they would be if they had travelled."""
        for index in bucket.params:
            param = self._params[index]
            if param.grad is not None and param.grad.is_sparse:
                param.grad = param.grad.to_dense()

    @torch.no_grad()
    def _send(self, at: int) -> None:
        bucket = self._buckets[at]
        flat = self._kept.pop(at, None)
        if flat is None:
            flat = torch.empty(bucket.numel, dtype=bucket.dtype)
        for index, view in zip(bucket.params, slices(bucket, flat, self._params), strict=True):
            grad = self._params[index].grad
            if grad is None:
                view.zero_()
            else:
                view.copy_(grad.to_dense() if grad.is_sparse else grad)
        self._sent[at] = flat
        self._works.append(self._world.allreduce(flat))
