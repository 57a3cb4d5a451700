"""Taking over: what a master does that finds living nodes of its job, and an empty journal.

On Kubernetes a journal in an ``emptyDir`` is lost with the master's Pod. What it said is lost with it, unless somebody else knows
it too. Of an allreduce job the living workers do: each has the whole state of the training, and each knows the world that it
trains in. Of a shard queue or of parameter servers nobody does; such a job starts over.

Who decides: the operator, before it creates the successor, by ``decide``. Whether the journal kept more than the workers know is
in the status of the ElasticJob (``datasets``): a master whose journal may be lost has written a dataset's name there before it
answers whoever created it, so the operator never misses one. A successor that takes over is started with ``--take-over``.

What the successor does, and what the living announce to it:

1.  It lists the nodes of the platform. Those alive become nodes that are being created: their agents are expected within
    ``fault.start_timeout``, as those of any new node, and who is silent for longer is replaced. Those that finished
    count as finished; those that failed while there was no master are simply missing, and are replaced. No number of a node is
    used again (``NodeBook.adopt``). Calls of agents from before that are answered by "later".
2.  An agent that is not known to be running is asked by the reply to its heartbeat to register again. It announces its run
    (incarnation), the pid of its program and the rank that it started with (``NodeBook.registered``, ``GroupBook.adopt``).
3.  A program that asks about a round which this master never formed is answered ``NotFound``, and announces its world: round,
    members with their incarnations, steps and seniority, as the lost master had announced to all (``RendezvousBook.announce``). The
    highest announced round is the world; training in it was never interrupted. Later rounds have higher numbers, so no
    number of a round is used twice.
4.  No world is formed until every adopted node has announced its world or joined, has ended, or ``fault.session_timeout``
    has passed. So two parts of one world can never train apart. Who announces after that joins the next world; the member with the
    newest step leads it, as always.

What if: a member died while there was no master? Its node is not alive (1), so it is out of the announced world at once, and the
survivors form the next one. The successor dies during all this? In the same Pod its journal has what was adopted so far, and the
rest is announced again; if its Pod is lost too, the next one begins at 1. An old process comes back that the lost master had
given up? Its Pod was removed, so its calls name a node that is not known, and the answer is to end.

What is not taken over: counts of failures (budgets begin anew), the events so far, and answers to requests for changes; what
was asked for is in the ElasticJob.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pliant.core.plurals import counted

JOURNAL_LOST = "JournalLost"  # the condition that says what became of the job, with one of these reasons


class RecoveryOutcome(StrEnum):
    """What became of a job whose journal was lost."""

    TAKEN_OVER = "TakenOver"
    STARTED_OVER = "StartedOver"


@dataclass(frozen=True, slots=True)
class Takeover:
    """``adopt``: the successor goes on with the living nodes; else they are removed, and the job starts over."""

    adopt: bool
    reason: str

    @property
    def outcome(self) -> RecoveryOutcome:
        return RecoveryOutcome.TAKEN_OVER if self.adopt else RecoveryOutcome.STARTED_OVER


def what_only_the_journal_knows(*, strategy: str, has_parameters: bool, datasets: Sequence[str] | None) -> str:
    """What would be lost with the journal although workers live, for people; empty: nothing would.

    ``datasets``: those that the master keeps account of; None: that is not known.
    """
    if has_parameters:
        return "which contributions its parameter servers have accepted"
    if datasets:
        return f"which records of {', '.join(datasets)} are done"
    if strategy != "allreduce":
        return (
            f"the progress of its workers (only strategy allreduce keeps it in the workers, this job uses {strategy})"
        )
    if datasets is None:
        return "whether records were leased (its master never reported it)"
    return ""


def decide(*, strategy: str, has_parameters: bool, datasets: Sequence[str] | None, living: Sequence[str]) -> Takeover:
    """Whether a successor without a journal takes over the ``living`` nodes of the job."""
    lost = what_only_the_journal_knows(strategy=strategy, has_parameters=has_parameters, datasets=datasets)
    if lost:
        return Takeover(False, f"only the journal knew {lost}")
    if not living:
        return Takeover(False, "no worker that holds the training state is left")
    return Takeover(
        True, f"training state is held by {counted(len(living), 'living worker')}: {', '.join(sorted(living))}"
    )
