"""What a program is told of its job by its environment, on every platform alike.

The master describes local nodes by it, the operator those on Kubernetes: both know the job's spec and the role.
"""

from __future__ import annotations

import json

from pliant.spec import JobSpec


def program_environment(spec: JobSpec, role: str, *, checkpoint_dir: str) -> dict[str, str]:
    """The variables that a job's spec gives the programs of a role. ``checkpoint_dir``: where checkpoints go by default."""
    env = {
        **spec.roles[role].env,
        "PLIANT_GRACE": str(spec.fault.grace),
        "PLIANT_ORPHAN_TIMEOUT": str(spec.fault.orphan_timeout),
        "PLIANT_STRATEGY": spec.strategy,
    }
    saving = spec.checkpoint
    if saving.dir or saving.every_steps or saving.every_seconds:
        options = {
            "directory": saving.dir or checkpoint_dir,
            "every_steps": saving.every_steps,
            "every_seconds": saving.every_seconds,
            "keep_last": saving.keep_last,
            "keep_every": saving.keep_every,
        }
        env["PLIANT_CHECKPOINT"] = json.dumps(options)
    return env
