"""Whether a proposal makes sense at all: algorithms come from many teams, and nothing that they return is taken on trust.

This is about soundness, not about wisdom: a sound proposal may still be a bad one, which is for the judge (``algorithms/judge.py``)
to find out. Whether it may be planned *now* is up to the planner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pliant.core.decoding import decode, plain
from pliant.core.errors import CorruptData
from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory
from pliant.core.planning.objectives import SERVER, WORKER, shape_of
from pliant.core.planning.proposal import Prediction, Proposal
from pliant.core.printable import escaped_line

MAX_REASON = 2000  # characters
MAX_CPU = 100_000.0  # cores of one node: bounds may set no maximum
MAX_MEMORY_MB = 1_000_000_000
MAX_MICRO_BATCH = 1_000_000_000


def problem_of(proposal: Proposal, history: JobHistory) -> str:
    """What is wrong with it, for people; empty if it is sound."""
    try:
        decode(Proposal, plain(proposal), "proposal")  # types, and numbers that are finite
        return next(_problems(proposal, history), "")
    except (CorruptData, TypeError) as error:
        return str(error)
    except RecursionError:
        return "the proposal is nested too deeply"


def _problems(proposal: Proposal, history: JobHistory) -> Iterator[str]:
    if not proposal.reason.strip():
        yield "the reason is empty"
    if len(proposal.reason) > MAX_REASON:
        yield f"the reason has {len(proposal.reason)} characters, at most {MAX_REASON} are allowed"
    if escaped_line(proposal.reason) != proposal.reason:
        yield "the reason has line ends or control characters"
    yield from _of_configuration(proposal.configuration, history)
    if proposal.prediction is not None:
        yield from _of_prediction(proposal.prediction)
    yield from _of_nodes(proposal, history)


def _of_configuration(new: Configuration, history: JobHistory) -> Iterator[str]:
    now = history.configuration
    if new == now:
        return
    for role in (WORKER, SERVER):
        before, after = shape_of(now, role), shape_of(new, role)
        if (before is None) != (after is None):
            yield f"role {role} is {'new' if before is None else 'missing'}"
        if before is None or after is None:
            continue
        if before.gpu != after.gpu:
            yield f"{after.gpu} instead of {before.gpu} GPU for each {role}: GPUs cannot be changed"
        if not (0.0 <= after.cpu <= MAX_CPU and after.memory_mb <= MAX_MEMORY_MB):
            yield f"{after} for role {role} is out of range"
    if new.micro_batch > MAX_MICRO_BATCH:
        yield f"a micro-batch of {new.micro_batch} records is out of range"
    if not history.bounds.allows(new):
        yield f"beyond the bounds of the job: {new}"


def _of_prediction(prediction: Prediction) -> Iterator[str]:
    if not 0.0 <= prediction.low <= prediction.rate <= prediction.high:
        interval = f"{prediction.low:g} to {prediction.high:g}"
        yield f"the predicted rate {prediction.rate:g} and its interval {interval} do not fit together"
    if min(prediction.memory_mb, prediction.node_seconds, prediction.change_s) < 0:
        yield "a prediction is negative"


def _of_nodes(proposal: Proposal, history: JobHistory) -> Iterator[str]:
    of_role = {role: {node.name for node in history.nodes if node.role == role} for role in (WORKER, SERVER)}
    existing = {node.name for node in history.nodes} | set(history.pending)
    yield from _unknown("nodes to replace", proposal.replace, existing)
    if len(set(proposal.replace)) < len(proposal.replace):
        yield "a node to replace is named twice"
    if proposal.seats:
        yield from _unknown("workers with virtual workers", proposal.seats, of_role[WORKER])
        hosted = sum(proposal.seats.values())
        if hosted != history.virtual_workers:
            yield f"{hosted} virtual workers are assigned, the job has {history.virtual_workers}"
    yield from _unknown("servers with partitions to move", proposal.moves, of_role[SERVER])
    for name, share in proposal.moves.items():
        if not 0.0 <= share <= 1.0:
            yield f"the share {share:g} of the partitions of {name} is not between 0 and 1"


def _unknown(what: str, named: Collection[str], existing: Collection[str]) -> Iterator[str]:
    unknown = sorted(set(named) - set(existing))
    if unknown:
        yield f"{what} do not exist: {escaped_line(', '.join(unknown[:5]))[:500]}"
