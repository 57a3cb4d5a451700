"""What a job of this machine gets to reach the Brain: its address in the spec, and a token of its own in its folder.

The cluster's token is in ``PLIANT_BRAIN_DIR`` (the folder of a Brain on this machine unless it says otherwise) and stays there. A
folder that ``pliant brain token --out`` wrote has the token of one job only, which is used as it is.
"""

from __future__ import annotations

import os
from pathlib import Path

from pliant.core.errors import Unauthenticated
from pliant.master.job_dir import JobDir
from pliant.spec import JobSpec

BRAIN_DIR = "PLIANT_BRAIN_DIR"


def with_address(spec: JobSpec) -> JobSpec:
    """With the address of the Brain of this machine, if it names none. Raises ``NotFound`` if there is none."""
    if not spec.optimize.uses_brain or spec.optimize.brain:
        return spec
    from pliant.rpc.brain.access import local_brain

    return spec.replaced(optimize={**spec.optimize.entries(), "brain": local_brain(_folder()).address})


def give_token(spec: JobSpec, home: JobDir) -> None:
    """Raises an error of ours if there is no token for the Brain here, or none for this job."""
    from pliant.rpc.brain.access import JOB, BrainFolder, prepare_job
    from pliant.rpc.brain.identity import CLUSTER, home_namespace

    namespace = home_namespace(spec.platform.kind)
    assert spec.optimize.brain
    folder = _folder()
    access = BrainFolder(folder).access(spec.optimize.brain, CLUSTER)
    only_for = (folder / JOB).read_text().strip() if (folder / JOB).exists() else ""
    if not only_for:
        prepare_job(BrainFolder(home.brain), access, namespace, spec.name)
    elif only_for == f"{namespace}/{spec.name}":
        BrainFolder(home.brain).write(access.token, access.ca)
    else:
        raise Unauthenticated(
            f"the token in {folder} is that of job {only_for}",
            hint=f"`pliant brain token {namespace}/{spec.name}` makes one for this job",
        )


def _folder() -> Path:
    from pliant.rpc.brain.access import brain_home

    return Path(os.environ.get(BRAIN_DIR) or brain_home())
