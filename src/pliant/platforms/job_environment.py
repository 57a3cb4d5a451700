"""The part of a node's environment that follows from the job's spec, on every platform alike.

The master describes local nodes by it, the operator those on Kubernetes; the platform adds what it knows of the node.
"""

from __future__ import annotations

from pathlib import Path

from pliant.core.nodes.environment import CheckpointSettings, NodeEnvironment
from pliant.spec import JobSpec


def job_environment(spec: JobSpec, *, checkpoint_dir: str, parameters_dir: Path) -> NodeEnvironment:
    """``checkpoint_dir``: where checkpoints go unless the spec says otherwise."""
    saving = spec.checkpoint
    checkpoint = CheckpointSettings(
        directory=saving.dir or checkpoint_dir,
        every_steps=saving.every_steps,
        every_seconds=saving.every_seconds,
        keep_last=saving.keep_last,
        keep_every=saving.keep_every,
    )
    return NodeEnvironment(
        strategy=spec.strategy,
        grace=spec.fault.grace,
        orphan_timeout=spec.fault.orphan_timeout,
        warm_standby=spec.fault.warm_standby,
        checkpoint=checkpoint if saving.dir or saving.every_steps or saving.every_seconds else None,
        parameters_dir=parameters_dir if spec.components().parameters else None,
        allows_plaintext=spec.security.tls is False,
    )
