"""Models of versions that are to be evaluated or exported: one directory each, written once, read by any worker.

They are stored where all workers of the job can read them: in the job's directory, or beside the checkpoints where those are on
shared storage. A worker that cannot read a version leaves its evaluation to those who can.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

import torch

from pliant.core.errors import PliantError
from pliant.native.model_file.saved_models import load_state, read_about, save_model

log = logging.getLogger(__name__)


class VersionStore:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, version: int) -> Path:
        return self.folder / f"version-{version}"

    def has(self, version: int) -> bool:
        return read_about(self.path(version)) is not None

    def save(self, version: int, state: Mapping[str, torch.Tensor], about: Mapping[str, Any]) -> None:
        """Whole or not at all; what is there already is the same model."""
        if self.has(version):
            return
        temporary = self.folder / f".version-{version}.{token_hex(4)}"
        try:
            save_model(temporary, state, {**about, "version": version})
            try:
                os.rename(temporary, self.path(version))
            except OSError:
                if not self.has(version):  # another worker was first
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def load(self, version: int) -> dict[str, torch.Tensor] | None:
        """None if it is not there (any more), or not for this worker."""
        try:
            return load_state(self.path(version))[0]
        except PliantError as error:
            log.info("version %d: %s", version, error.message)
            return None

    def versions(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        names = (p.name.removeprefix("version-") for p in self.folder.glob("version-*"))
        return sorted(int(name) for name in names if name.isdigit())

    def keep_only(self, versions: Iterable[int], upto: int) -> None:
        """Remove versions older than ``upto``, except these."""
        keep = set(versions)
        for version in self.versions():
            if version < upto and version not in keep:
                shutil.rmtree(self.path(version), ignore_errors=True)
