"""After a node ran out of memory: more for its whole role, so that the next one does not.

An OOM is a censored sample: the node would have used more than its limit, nobody knows how much. So the first one grows memory
by the growth rule (half as much again), repeats double it. At the maximum more memory cannot be had: servers get another one to
take rows. Of an allreduce job only its owner can help: smaller micro-batches with more virtual workers are the same global batch,
but they change the numbers of training (batch norm, randomness), so this is advice and never carried out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pliant.core.nodes.fault_policy import MemoryGrowth
from pliant.core.planning.candidates import is_possible
from pliant.core.planning.configuration import Shape
from pliant.core.planning.history import JobHistory, JobKind, OutOfMemory
from pliant.core.planning.objectives import SERVER, shape_of, with_shape
from pliant.core.planning.proposal import Proposal
from pliant.core.plurals import counted

PEAK_MARGIN = 1.2  # as Kubernetes' vertical autoscaler


@dataclass(frozen=True, slots=True)
class OomRecover:
    name: str = "oom_recover"
    growth: MemoryGrowth = field(default_factory=MemoryGrowth)

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        for event in sorted(history.out_of_memory, key=lambda oom: (-oom.time, oom.role)):
            shape = shape_of(history.configuration, event.role)
            if shape is None or not shape.memory_mb or event.limit_mb < shape.memory_mb:
                continue  # it has more by now
            return self._grown(history, event, shape)
        return None

    def _grown(self, history: JobHistory, event: OutOfMemory, shape: Shape) -> Proposal | None:
        bounds = history.bounds.worker if event.role != SERVER else history.bounds.server
        if bounds is None:
            return None
        repeats = sum(oom.role == event.role for oom in history.out_of_memory)
        wanted = self.growth.grown(shape.memory_mb) if repeats == 1 else 2 * shape.memory_mb
        wanted = max(wanted, round(event.peak_mb * PEAK_MARGIN))
        larger = bounds.clip(replace(shape, memory_mb=wanted))
        new = with_shape(history.configuration, event.role, larger)
        times = "" if repeats == 1 else f" ({counted(repeats, 'time')})"
        why = f"{event.role} ran out of memory with {event.limit_mb:.0f} MB{times}"
        if larger.memory_mb > shape.memory_mb and history.bounds.allows(new):
            return Proposal(self.name, f"{why}: {larger.memory_mb} MB for each {event.role}", new, urgent=True)
        if event.role == SERVER:
            more = bounds.clip(replace(shape, replicas=shape.replicas + bounds.unit))
            new = with_shape(history.configuration, event.role, more)
            if more.replicas > shape.replicas and is_possible(history, new):
                return Proposal(self.name, f"{why}, the maximum: one more server takes rows", new, urgent=True)
        batch = history.configuration.micro_batch
        if history.kind is JobKind.ALLREDUCE and batch > 1:
            parts = next(divisor for divisor in range(2, batch + 1) if batch % divisor == 0)
            return Proposal(
                self.name,
                f"{why}, the maximum: start the job with {_smaller(batch, parts, history.virtual_workers)},"
                " which is the same global batch",
                replace(history.configuration, micro_batch=batch // parts),
                advice=True,
            )
        return None


def _smaller(batch: int, parts: int, virtual_workers: int) -> str:
    if virtual_workers:
        return f"micro_batch={batch // parts} and virtual_workers={virtual_workers * parts}"
    often = "twice" if parts == 2 else f"{parts} times"
    return f"micro_batch={batch // parts} and {often} as many virtual workers"
