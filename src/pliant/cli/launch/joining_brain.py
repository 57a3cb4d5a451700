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


def join_brain(spec: JobSpec, home: JobDir) -> JobSpec:
    """Returns the spec with the Brain's address. Raises an error of ours if there is no Brain, or no token for it."""
    from pliant.rpc.brain.access import JOB, BrainFolder, brain_home, local_brain, prepare_job
    from pliant.rpc.brain.identity import CLUSTER, LOCAL_NAMESPACE

    folder = Path(os.environ.get(BRAIN_DIR) or brain_home())
    address = spec.optimize.brain
    access = BrainFolder(folder).access(address, CLUSTER) if address else local_brain(folder)
    only_for = (folder / JOB).read_text().strip() if (folder / JOB).exists() else ""
    if not only_for:
        prepare_job(BrainFolder(home.brain), access, LOCAL_NAMESPACE, spec.name)
    elif only_for == f"{LOCAL_NAMESPACE}/{spec.name}":
        BrainFolder(home.brain).write(access.token, access.ca)
    else:
        raise Unauthenticated(
            f"the token in {folder} is that of job {only_for}",
            hint=f"`pliant brain token {spec.name}` makes one for this job",
        )
    optimize = {**spec.optimize.entries(), "brain": access.address}
    return spec.replaced(optimize=optimize)
