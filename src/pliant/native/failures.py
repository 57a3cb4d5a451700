"""What ends a job at once: mistakes that another try would end in again, so that no time is lost on restarts.

A loss that is no number any more, or a metric that fails, comes from the model file and the data. The worker that sees it tells the
master, and the job fails with the reason. Everything else that ends a worker may be an accident, and is tried again.
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
from pliant.native.feed import Batch
from pliant.rpc import pliant_pb2 as pb

log = logging.getLogger(__name__)

SHOWN = 8  # records of a batch that are named
MEND = "lower the learning rate, look at these records, or keep the loss finite; checkpoints and versions from before are kept"


class CannotGoOn(PermanentError):
    """Another try would end in the same way: the job fails."""


def give_up(job: Job, error: CannotGoOn) -> None:
    """The job fails with this reason."""
    log.error("%s", error)
    reason = f"{job.node}: {error.message}" + (f"; what to do: {error.hint}" if error.hint else "")
    session = job.session()
    session.insist(session.master.stubs.job.Stop, pb.StopRequest(reason=reason, failed=True))


@contextmanager
def hopeless(what: Callable[[], str]) -> Iterator[None]:
    """A request that cannot be right now cannot be right the next time either; ``what`` says of what it was."""
    try:
        yield
    except (InvalidRequest, CannotGoOn) as error:
        raise CannotGoOn(f"{what()}: {error.message}", hint=error.hint) from error


def check_loss(loss: float, step: int, batch: Batch, reader: DataReader) -> None:
    """A model that learned from a loss of NaN would be NaN."""
    if not math.isfinite(loss):
        raise CannotGoOn(f"the loss of step {step} is {loss}, of {records_text(batch.ids, reader)}", hint=MEND)


def check_gradients(step: int, named: Iterable[tuple[str, torch.nn.Parameter]]) -> None:
    """Of a whole step, before the model learns from them."""
    grads = [(name, p.grad) for name, p in named if p.grad is not None]
    sums = [
        grad.sum() for _, grad in grads
    ]  # a number for each before the first is looked at: a GPU is waited for once
    for (name, grad), total in zip(grads, sums, strict=True):
        if not math.isfinite(float(total)) and not _is_finite(grad):
            raise CannotGoOn(f"the gradient of {name} in step {step} has NaN or infinity, the loss has not", hint=MEND)


def _is_finite(grad: torch.Tensor) -> bool:
    values = grad.coalesce().values() if grad.is_sparse else grad
    return bool(torch.isfinite(values).all())


def records_text(ids: Sequence[int], reader: DataReader) -> str:
    """``16 records: train.csv 96, 97, …``, as a person finds them."""
    places = [reader.locate(number) for number in ids[:SHOWN]]
    named = [
        f"{part} {', '.join(str(place) for _, place in some)}"
        for part, some in groupby(places, key=lambda found: found[0])
    ]
    more = ", …" if len(ids) > SHOWN else ""
    return f"{len(ids)} record{'s' * (len(ids) != 1)}: {'; '.join(named)}{more}"
