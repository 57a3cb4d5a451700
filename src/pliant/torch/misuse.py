"""Mistakes of a training loop that would otherwise train something else in silence, each with what to write instead.

Who ports a plain PyTorch loop leaves ``loss.backward()`` or ``optimizer.step()`` in it, or passes the ``DataLoader`` on.
``StepController`` and ``Trainer`` ask here; what is found is an ``InvalidRequest``. A ``zero_grad()`` that is left does nothing:
gradients of earlier micro-batches are kept elsewhere (``gradients/partial_sums``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from pliant.core.errors import InvalidRequest, PliantError
from pliant.torch.step import Step

log = logging.getLogger(__name__)

OF_THE_TRAINER = (
    "leave out zero_grad(), backward() and optimizer.step(): step.backward(loss) computes the gradients, and the Trainer "
    "applies them when the inner loop ends"
)
MAX_NAMES = 3  # of parameters, in a message


def check_dataset(dataset: Any) -> None:
    """Only a map-style dataset can be shared by indices: refuse everything else, before anything starts."""
    kind = type(dataset).__name__
    if isinstance(dataset, torch.utils.data.DataLoader):
        batch = f", micro_batch={dataset.batch_size}" if dataset.batch_size else ", micro_batch=…"
        raise InvalidRequest(
            "steps() takes a dataset, and this is a DataLoader",
            hint=f"pass the dataset itself: trainer.steps(loader.dataset{batch}); the Trainer batches, shuffles and "
            "distributes, and collate_fn is an argument of steps()",
        )
    is_iterable = isinstance(dataset, torch.utils.data.IterableDataset)
    if is_iterable or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise InvalidRequest(
            f"steps() takes a map-style dataset, with __len__ and __getitem__; {kind} is not one",
            hint="workers share records by their numbers; for a stream use job.shards(…, stream=True)",
        )
    if not len(dataset):
        raise InvalidRequest(
            f"the dataset ({kind}) is empty", hint="check the path and the split that it was read from"
        )


def missing_backward(step: Step, params: Sequence[torch.nn.Parameter]) -> InvalidRequest:
    """The loop went on to the next micro-batch without ``step.backward``."""
    used_plain = any(param.grad is not None for param in params)
    why = ": loss.backward() was called instead" if used_plain else ""
    return InvalidRequest(
        f"step.backward was not called for a micro-batch of step {step.index}{why}",
        hint="call step.backward(loss) in the inner loop, once per micro-batch; it weighs the loss by the records, and "
        "the Trainer adds the gradients up over all workers",
    )


def not_committed(step: Step) -> PliantError:
    what = "not iterated to its end" if step.begun else "not iterated"
    return PliantError(
        f"step {step.index} was {what}",
        hint="iterate each step to its end: `for batch in step: …`, without `break`",
    )


def warn_of_untrained(model: torch.nn.Module, params: Sequence[torch.nn.Parameter]) -> None:
    """Parameters that want gradients and that no optimizer knows stay as they were initialized."""
    known = set(map(id, params))
    missing = [name for name, param in model.named_parameters() if param.requires_grad and id(param) not in known]
    if missing:
        shown = ", ".join(missing[:MAX_NAMES]) + (", …" if len(missing) > MAX_NAMES else "")
        log.warning(
            "%d parameters of the model are in no optimizer and stay as they are: %s "
            "(requires_grad_(False) says that they shall)",
            len(missing),
            shown,
        )


class LoopGuard:
    """Watches the optimizers, while a loop runs, for calls that only the Trainer makes."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._optimizers = optimizers
        self._hooks: list[Any] = []
        self._applies = False  # the Trainer itself

    def begin_loop(self) -> None:
        if self._hooks:
            return
        for optimizer in self._optimizers:
            if isinstance(optimizer, torch.optim.Optimizer):
                self._hooks.append(optimizer.register_step_pre_hook(self._before_step))

    def end_loop(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    @contextmanager
    def applying(self) -> Iterator[None]:
        """The Trainer's own update."""
        self._applies = True
        try:
            yield
        finally:
            self._applies = False

    def _before_step(self, *_: Any) -> None:
        if not self._applies:
            raise InvalidRequest("optimizer.step() was called in a loop of the Trainer", hint=OF_THE_TRAINER)
