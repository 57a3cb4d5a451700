"""Gradients added up as whole numbers, so that the sum does not depend on who added what, or in which order.

Each micro-batch's gradient is turned into int64 fixed point with an exponent that all workers agree on, one per parameter,
and added to a local int64 sum; the workers' sums are added by the collective. Addition of whole numbers is associative, so
the result is bit for bit the same for any number of workers and any history of failures.

The exponent of a step follows from the sum of the step before (``HEADROOM`` bits above its largest value), which everybody
knows. If it does not fit - the first step, or a gradient that grew by more than the head-room - no worker's sum is used: the
workers agree on new exponents by one collective (``calibrate``) and compute the step again. Gradients that are not finite
are not added up at all: the result is NaN everywhere, on every worker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from pliant.core.errors import InvalidRequest
from pliant.torch.gradients.buckets import Bucket, make_buckets, slices
from pliant.torch.gradients.gradient_sum import FITS, MISFIT, NOT_FINITE
from pliant.torch.worlds.world import World

HEADROOM = 16  # bits between the last step's largest value and what fits
MAX_VALUE = 2.0**960  # values from here on count as not finite: their exponents would overflow
MIN_EXPONENT = -900  # likewise


class ExactSum:
    def __init__(self, *, bucket_bytes: int, units: int) -> None:
        self._bucket_bytes = bucket_bytes
        self._bits = 61 - math.ceil(math.log2(max(units, 1)))  # of one unit's value, so that the sum cannot overflow
        self._params: list[torch.nn.Parameter] = []
        self._buckets: list[Bucket] = []
        self._sums: list[torch.Tensor] = []  # int64, per bucket: what this worker has
        self._views: list[torch.Tensor] = []  # the same, per parameter
        self._sent: list[torch.Tensor] = []  # the copies that travel
        self._numbers: list[int] = []  # per parameter: its number among all, also those that are not trained now
        self._exponents: dict[int, int] = {}  # by number, where known
        self._largest: list[float] = []  # per parameter, over this worker's units of this step
        self._used: list[int] = []
        self._flags = FITS

    def begin_step(self, params: Mapping[int, torch.nn.Parameter]) -> None:
        """``params``: those that are trained in this step, by their numbers among all."""
        wanted = list(params.values())
        if list(map(id, wanted)) != list(map(id, self._params)):
            self._lay_out(wanted)
        self._numbers = list(params)
        self.discard()

    def begin_unit(self, world: World, *, last: bool) -> None:
        for param in self._params:
            param.grad = None

    @torch.no_grad()
    def end_unit(self) -> None:
        """Add this micro-batch's gradients."""
        for index, param in enumerate(self._params):
            grad = param.grad
            if grad is None:
                continue
            self._used[index] += 1
            param.grad = None
            dense = grad.to_dense() if grad.is_sparse else grad
            largest = float(dense.abs().max()) if dense.numel() else 0.0
            if not largest < MAX_VALUE:
                self._flags += NOT_FINITE
                continue
            self._largest[index] = max(self._largest[index], largest)
            exponent = self._exponents.get(self._numbers[index])
            if largest == 0.0:
                continue
            if exponent is None or largest >= math.ldexp(1.0, exponent):
                self._flags += MISFIT
                continue
            scaled = dense.to(device="cpu", dtype=torch.float64).mul_(math.ldexp(1.0, self._bits - exponent))
            self._views[index].add_(scaled.round_().to(torch.int64))

    def used(self) -> list[int]:
        return list(self._used)

    def flags(self) -> int:
        return self._flags

    def start(self, world: World) -> list[Any]:
        self._sent = [total.clone() for total in self._sums] if not world.alone else self._sums
        return [world.allreduce(flat) for flat in self._sent] if not world.alone else []

    def calibrate(self, world: World) -> None:
        """Agree on exponents that fit this step's gradients; raises ``WorldBroken`` like any collective."""
        largest = torch.tensor(self._largest, dtype=torch.float64)
        if not world.alone:
            world.finish([world.allreduce(largest, dist.ReduceOp.MAX)])
        for index, value in enumerate(largest.tolist()):
            if value > 0.0:
                number = self._numbers[index]
                fitting = math.frexp(value)[1] + HEADROOM // 2
                self._exponents[number] = max(self._exponents.get(number, MIN_EXPONENT), fitting)

    @torch.no_grad()
    def store(self, used: Sequence[int], *, finite: bool = True) -> None:
        for at, bucket in enumerate(self._buckets):
            for index, view in zip(bucket.params, slices(bucket, self._sent[at], self._params), strict=True):
                param, number = self._params[index], self._numbers[index]
                exponent = self._exponents.get(number)
                if not used[index]:
                    param.grad = None
                    continue
                if not finite:
                    param.grad = torch.full_like(param, math.nan)
                    continue
                if exponent is None:  # every unit's gradient was zero
                    param.grad = torch.zeros_like(param)
                    continue
                mean = view.to(torch.float64).mul_(math.ldexp(1.0, exponent - self._bits))
                param.grad = mean.to(param.dtype).to(param.device)
                largest = float(mean.abs().max()) if mean.numel() else 0.0
                if largest > 0.0:  # sink slowly: one quiet step should not cost a calibration after it
                    self._exponents[number] = max(math.frexp(largest)[1] + HEADROOM, exponent - 1, MIN_EXPONENT)

    def abandon(self) -> None:
        self._sent = []

    def discard(self) -> None:
        for total in self._sums:
            total.zero_()
        self._largest = [0.0] * len(self._params)
        self._used = [0] * len(self._params)
        self._flags = FITS
        for param in self._params:
            param.grad = None

    def state(self) -> dict[str, Any]:
        return {"exponents": dict(self._exponents)}

    def load_state(self, state: dict[str, Any]) -> None:
        self._exponents = dict(state["exponents"])

    def close(self) -> None:
        return

    def _lay_out(self, params: list[torch.nn.Parameter]) -> None:
        if any(p.is_complex() for p in params):
            raise InvalidRequest("complex parameters cannot be trained with deterministic=True")
        self._params = params
        self._buckets = make_buckets(params, self._bucket_bytes)
        self._sums = [torch.zeros(bucket.numel, dtype=torch.int64) for bucket in self._buckets]
        self._views = [torch.empty(0)] * len(params)
        for bucket, total in zip(self._buckets, self._sums, strict=True):
            for index, view in zip(bucket.params, slices(bucket, total, params), strict=True):
                self._views[index] = view
