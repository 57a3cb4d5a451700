"""Paths that programs will use: as they are from where the command is given, or as Pods see them."""

from __future__ import annotations

from pathlib import Path

from pliant.core.errors import InvalidRequest
from pliant.platforms.kubernetes.names import SHARED_FOLDER

ON_A_VOLUME = f"put it on a volume and pass its claim with --claim; Pods mount it at {SHARED_FOLDER}"
WRITTEN = ("--output", "--checkpoint-dir")


def absolute(path: str) -> str:
    """For programs that start elsewhere; URLs stay as they are."""
    return str(Path(path).absolute()) if path and "://" not in path else path


def pod_path(path: str, option: str, claim: str | None) -> str:
    """A path as Pods see it."""
    if not path:
        return path
    if "://" in path:
        if option == "--output":
            raise InvalidRequest(f"{option} {path} is a URL", hint=ON_A_VOLUME)
        return path
    if Path(path).is_absolute():
        shared = Path(path).is_relative_to(SHARED_FOLDER)
        if not shared and Path(path).exists():
            raise InvalidRequest(f"{option} {path} is on this machine, where Pods cannot read it", hint=ON_A_VOLUME)
        if option in WRITTEN and not (claim and shared):
            raise InvalidRequest(f"{option} {path} would be lost with the Pod that writes it", hint=ON_A_VOLUME)
        return path
    if not claim:
        hint = f"{ON_A_VOLUME}; or use a URL"
        raise InvalidRequest(f"{option} {path}: Pods cannot read files on this machine", hint=hint)
    return f"{SHARED_FOLDER}/{path}"
