"""Where Pliant keeps what outlives a process on this machine: ``~/.pliant``, or as ``PLIANT_HOME`` says."""

from __future__ import annotations

import os
from pathlib import Path


def pliant_home() -> Path:
    return Path(os.environ.get("PLIANT_HOME", Path.home() / ".pliant"))
