"""A small checkpoint on disk, for the targets that damage one of its files."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import torch

from pliant.checkpoint import manifest
from pliant.checkpoint.checksums import CHUNK, ChecksumStream
from pliant.checkpoint.manifest import MANIFEST, PartNote
from pliant.checkpoint.snapshot import plan_part

STEP = manifest.step_folder(20)
PART = "part-00000-of-00001.safetensors"


@cache
def checkpoint() -> Path:
    """Made once; a folder that the process leaves to the system."""
    import atexit

    root = Path(mkdtemp(prefix="pliant-fuzz-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    state = {"w": torch.arange(10.0), "b": torch.ones(3, dtype=torch.bfloat16), "n": [1, (2.5, None)], "k": {1: b"x"}}
    plan = plan_part(state, 0, 1)
    header = plan.header(0, step=20)
    data = bytearray(len(header) + plan.nbytes)
    data[: len(header)] = header
    for entry, source in zip(plan.entries, plan.sources, strict=True):
        begin = len(header) + entry.begin
        data[begin : begin + source.nbytes] = source.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    write(root, bytes(data), plan.digest)
    return root


def write(root: Path, data: bytes, digest: str = "digest") -> None:
    """A part, with a note and a manifest that match it."""
    folder = root / STEP
    folder.mkdir(parents=True)
    sums = ChecksumStream(memoryview(data))
    (folder / PART).write_bytes(b"".join(sums))
    note = asdict(PartNote(20, 1, 0, "", digest, 0, 1, len(data), 1.0, CHUNK, tuple(sums.sums)))
    (folder / f"{PART}.json").write_bytes(manifest.seal({"format": 1, **note}))
    (folder / MANIFEST).write_bytes(manifest.seal({"format": 1, "step": 20, "parts": [note]}))


def resealed(content: bytes) -> bytes:
    """With the seal that it needs, where it is JSON at all: else every mutation would end at the checksum."""
    try:
        value = json.loads(content)
        value.pop("seal", None)
        return manifest.seal(value)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return content
