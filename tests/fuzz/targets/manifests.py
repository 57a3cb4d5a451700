"""Manifests and notes of checkpoints, sealed again after each mutation, and what is restored by them."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.fuzz.targets.sealed import PART, STEP, checkpoint, resealed

from pliant.checkpoint import load_latest
from pliant.checkpoint.manifest import MANIFEST


class Fuzz:
    name = "checkpoint_manifest"

    def seeds(self) -> list[bytes]:
        root = checkpoint() / STEP
        return [(root / MANIFEST).read_bytes(), (root / f"{PART}.json").read_bytes()]

    def check(self, data: bytes, folder: Path) -> None:
        for name in (MANIFEST, f"{PART}.json"):
            root = folder / name.partition(".")[0]
            shutil.copytree(checkpoint(), root)
            (root / STEP / MANIFEST).unlink()
            (root / STEP / name).write_bytes(resealed(data))
            load_latest(root, memory=False)
