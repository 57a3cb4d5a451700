"""One step of training, as the user's loops see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch

from pliant.core.errors import InvalidRequest


class StepDriver(Protocol):
    """Who carries a step out: the ``StepController``."""

    def micro_batches(self, step: Step) -> Iterator[Any]: ...

    def backward(self, step: Step, loss: torch.Tensor) -> None: ...


class Step:
    """Iterating yields this worker's micro-batches; leaving the loop at its end commits the step."""

    def __init__(self, driver: StepDriver, index: int, epoch: int, number: int, records: int) -> None:
        self._driver = driver
        self.index = index  # counted over all epochs
        self.epoch = epoch
        self.number = number  # within the epoch
        self.records = records  # of all virtual workers together
        self.loss = float("nan")  # mean over the whole step, the same on every worker; known once it is committed
        self.unit = -1  # the current micro-batch
        self.committed = False
        self.backwards = 0
        self.begun = False  # its iteration

    def __iter__(self) -> Iterator[Any]:
        if self.begun:
            raise InvalidRequest("a step can be iterated only once")
        self.begun = True
        return self._driver.micro_batches(self)

    def backward(self, loss: torch.Tensor) -> None:
        """Compute the gradients of one micro-batch's mean loss; once per micro-batch."""
        if self.unit < 0:
            raise InvalidRequest("call step.backward inside `for batch in step`")
        if loss.numel() != 1:
            raise InvalidRequest(
                f"the loss must be a scalar, the mean over the micro-batch; it has shape {tuple(loss.shape)}"
            )
        if self.backwards:
            raise InvalidRequest(
                "step.backward was called twice for one micro-batch", hint="sum the losses and call it once"
            )
        self.backwards += 1
        self._driver.backward(self, loss)

    def __repr__(self) -> str:
        return f"Step({self.index}, epoch {self.epoch}, {'committed' if self.committed else 'in progress'})"
