"""One block of a dense variable: its value, the optimizer's state, and readers who hold the value while they send it.

A value that somebody holds is never written: an update then works on a copy. So a block is sent straight from its memory,
and what arrives is of one iteration. Not safe for threads by itself: ``store`` guards it.
"""

from __future__ import annotations

import numpy as np

from pliant.ps.compiled.memory import address_of
from pliant.ps.payloads import BlockState, Floats
from pliant.ps.placement import blocks_of
from pliant.ps.specs import DenseSpec
from pliant.ps.store.kernels import begin_values, steps
from pliant.ps.store.optimizer_steps import hyper_parameters
from pliant.ps.store.table import begin_of, table_seed


class Block:
    """``holders`` counts the readers of ``value``; the store changes it under its lock."""

    def __init__(self, spec: DenseSpec, number: int) -> None:
        first, length = blocks_of(spec.size)[number]
        fan = spec.shape[-1] if spec.shape else 1
        begin = begin_of(spec.initializer, fan, spec.optimizer.initial_accumulator)
        self.spec = spec
        self.number = number
        self.changed = 0
        self.value: Floats = np.empty(length, np.float32)
        begin_values(self.value, np.int64(first), np.uint64(table_seed(spec.name, spec.seed)), np.int64(0), begin)
        self.state: Floats = np.zeros((len(spec.optimizer.states), length), np.float32)
        if len(self.state):
            self.state[0] = spec.optimizer.initial_accumulator if spec.optimizer.kind in ("adagrad", "ftrl") else 0.0
        self.held: dict[int, int] = {}  # address of a value that is being read: by how many
        self._spare: Floats | None = None

    @property
    def nbytes(self) -> int:
        return self.value.nbytes + self.state.nbytes + (self._spare.nbytes if self._spare is not None else 0)

    def hold(self) -> Floats:
        address = address_of(self.value)
        self.held[address] = self.held.get(address, 0) + 1
        return self.value

    def let_go(self, value: Floats) -> None:
        address = address_of(value)
        self.held[address] -= 1
        if not self.held[address]:
            del self.held[address]

    def _writable(self, keep: bool) -> None:
        """Make ``value`` an array that nobody reads, with the same content if ``keep``."""
        old = self.value
        if address_of(old) not in self.held:
            return
        spare = self._spare
        if spare is None or address_of(spare) in self.held:
            spare = np.empty_like(old)
        if keep:
            np.copyto(spare, old)
        self.value, self._spare = spare, old

    def update(self, gradient: Floats, weight: float, scale: float, iteration: int) -> None:
        self._writable(keep=True)
        hyper = hyper_parameters(self.spec.optimizer, scale, iteration)
        value = np.array([address_of(self.value)], np.int64)
        states = address_of(self.state) - address_of(self.value)
        steps(value, address_of(gradient), states, self.value.size, weight, hyper)
        self.changed = iteration

    def assign(self, value: Floats, iteration: int) -> None:
        self._writable(keep=False)
        np.copyto(self.value, value)
        self.changed = iteration

    def copy(self) -> BlockState:
        return BlockState(self.spec.name, self.number, np.concatenate([self.value[None], self.state]), self.changed)

    def write(self, state: BlockState) -> None:
        self._writable(keep=False)
        np.copyto(self.value, state.data[0])
        np.copyto(self.state, state.data[1:])
        self.changed = state.changed
