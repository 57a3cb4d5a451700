"""Permanent failures: mistakes that would repeat after a restart, and so fail the job at once.

A loss that is not finite, or a metric that fails, comes from the model file and the data. The worker that sees it reports it to the
master, and the job fails with the reason. Everything else that ends a worker may be transient, and is retried.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

import torch

from pliant.client.job import Job
from pliant.core.errors import InvalidRequest, PermanentError
from pliant.data import DataReader
from pliant.native.model_file.feed import Batch

log = logging.getLogger(__name__)

MAX_RECORDS_SHOWN = 8  # of a batch, in a message
HINT = (
    "lower the learning rate, check these records, or keep the loss finite; earlier checkpoints and versions are kept"
)


class PermanentFailure(PermanentError):
    """A retry would fail in the same way, so the job fails."""


def fail_job(job: Job, error: PermanentFailure) -> None:
    """Fail the job with this reason."""
    log.error("%s", error)
    job.fail(error.message + (f"; what to do: {error.hint}" if error.hint else ""))


@contextmanager
def failing_permanently(what: Callable[[], str]) -> Iterator[None]:
    """An invalid request stays invalid when it is retried; ``what`` names what it was about."""
    try:
        yield
    except (InvalidRequest, PermanentFailure) as error:
        raise PermanentFailure(f"{what()}: {error.message}", hint=error.hint) from error


def check_loss(loss: float, step: int, batch: Batch, reader: DataReader) -> None:
    """A model that learned from a loss of NaN would be NaN."""
    if not math.isfinite(loss):
        raise PermanentFailure(f"the loss of step {step} is {loss}, of {records_text(batch.ids, reader)}", hint=HINT)


def check_gradients(step: int, named: Iterable[tuple[str, torch.nn.Parameter]]) -> None:
    """Of a whole step, before the model learns from them."""
    grads = [(name, p.grad) for name, p in named if p.grad is not None]
    sums = [
        grad.sum() for _, grad in grads
    ]  # a number for each before the first is looked at: a GPU is waited for once
    for (name, grad), total in zip(grads, sums, strict=True):
        if not math.isfinite(float(total)) and not _is_finite(grad):
            raise PermanentFailure(
                f"the gradient of {name} in step {step} has NaN or infinity, although the loss is finite", hint=HINT
            )


def _is_finite(grad: torch.Tensor) -> bool:
    values = grad.coalesce().values() if grad.is_sparse else grad
    return bool(torch.isfinite(values).all())


def records_text(ids: Sequence[int], reader: DataReader) -> str:
    """``16 records: train.csv 96, 97, …``, for a person to find them."""
    found = [reader.locate(number) for number in ids[:MAX_RECORDS_SHOWN]]
    named = [
        f"{part} {', '.join(str(record) for _, record in some)}"
        for part, some in groupby(found, key=lambda location: location[0])
    ]
    more = ", …" if len(ids) > MAX_RECORDS_SHOWN else ""
    return f"{len(ids)} record{'s' * (len(ids) != 1)}: {'; '.join(named)}{more}"
