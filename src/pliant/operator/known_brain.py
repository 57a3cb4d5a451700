"""The Brain that this operator knows, and which jobs it plans for.

The operator has the cluster's token. A job gets a token of its own, derived from it (``rpc/brain/identity.py``), in a Secret of
its own: the cluster's token is in no namespace of jobs. A job that needs a Brain which the operator does not know could never reach
it, so it is refused before it starts. One that runs already goes on: masters do without a Brain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pliant.core.errors import SpecError
from pliant.operator.job_spec import spec_of
from pliant.operator.observed import has_started
from pliant.platforms.kubernetes.kinds import Object
from pliant.rpc.brain.access import BrainAccess, BrainFolder
from pliant.rpc.brain.identity import Caller
from pliant.spec import JobSpec

CLUSTER_MODE = {"mode": "cluster"}


@dataclass(frozen=True, slots=True)
class KnownBrain:
    address: str  # for masters of jobs
    folder: BrainFolder  # the cluster's token, and the authority of the Brain's certificate
    plans_by_default: bool = False  # for jobs that say nothing of ``optimize``

    def access(self) -> BrainAccess:
        """As it is in the folder now. Raises if there is nothing usable in it."""
        return self.folder.access(self.address, Caller())


def with_brain(job: Object, spec: JobSpec, known: KnownBrain | None) -> JobSpec:
    """The spec with the address of the Brain in it, if the job needs one. Raises ``SpecError``."""
    optimize = spec.optimize
    if not optimize.uses_brain:
        return spec
    if known is not None and optimize.brain in (None, known.address):
        return spec.model_copy(update={"optimize": optimize.model_copy(update={"brain": known.address})})
    if has_started(job):
        return spec
    if known is None:
        field = "optimize.mode is cluster" if optimize.mode == "cluster" else f"optimize.brain is {optimize.brain}"
        raise SpecError(
            f"{field}, but this operator knows of no Brain",
            hint="install one with Pliant's chart (brain.enabled), or start the operator with --brain and --brain-dir; "
            "without a Brain use mode: single-job",
        )
    raise SpecError(
        f"optimize.brain is {optimize.brain}, but this operator has access to the Brain at {known.address} only",
        hint="leave optimize.brain out",
    )


def default_mode(job: Object, known: KnownBrain | None) -> dict[str, Any] | None:
    """A patch for a new job that says nothing of ``optimize``; None: there is nothing to change, or it could not be planned."""
    if known is None or not known.plans_by_default or "optimize" in job["spec"] or has_started(job):
        return None
    try:
        spec_of({**job, "spec": {**job["spec"], "optimize": CLUSTER_MODE}})
    except SpecError:
        return None
    return {"spec": {"optimize": CLUSTER_MODE}}
