"""Where the files of parameter servers are, for the servers and for the master. Nothing here needs numpy.

    ps/dumps/<order>/seat-<n>.json            what one seat had after that order, and which file
    ps/dumps/<order>/seat-<n>.*.safetensors   has the arrays (``ps/recovery/dumps.py`` writes and reads both)
    ps/dumps/<order>/manifest.json            written last: all seats are there
    ps/moves/<order>/                         what one seat gave to another at that order
    ps/seat-<n>/                              the log of what workers staged there

A dump is *complete* with its manifest. An incremental one needs those of its ``chain`` too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant.core.errors import CorruptData, NotFound
from pliant.core.parameters.dumps import Dump
from pliant.files.atomic import write_json

FORMAT = 1
MANIFEST = "manifest.json"


def dump_folder(folder: Path, order: int) -> Path:
    return folder / "dumps" / f"{order:012d}"


def move_folder(folder: Path, order: int) -> Path:
    return folder / "moves" / f"{order:012d}"


def write_manifest(folder: Path, dump: Dump, before: list[Dump]) -> None:
    """``before``: the complete dumps that the last complete one is made of."""
    chain = [] if dump.full else [earlier.order for earlier in before]
    value = {
        "format": FORMAT,
        "order": dump.order,
        "iteration": dump.iteration,
        "full": dump.full,
        "chain": [*chain, dump.order],
        "seats": list(dump.seats),
        "map": dict(dump.parameter_map),
        "tables": [dict(t) for t in dump.tables],
        "variables": [dict(v) for v in dump.variables],
        "initialized": list(dump.initialized),
    }
    path = dump_folder(folder, dump.order)
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / MANIFEST, value)


def arrays_of(stem: Path, facts: Mapping[str, Any]) -> Path:
    """The file with the arrays of a part, by its JSON. Early releases named them all alike."""
    return stem.with_name(Path(str(facts.get("file") or f"{stem.name}.safetensors")).name)


def read_manifest(path: Path) -> dict[str, Any]:
    """Of one dump's folder."""
    try:
        value = json.loads((path / MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        raise CorruptData(f"{path / MANIFEST} cannot be read: {error}") from None
    wanted = {
        "order": int,
        "iteration": int,
        "chain": list,
        "seats": list,
        "map": dict,
        "tables": list,
        "variables": list,
    }
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise CorruptData(f"{path / MANIFEST} is corrupt or has another format")
    if wrong := [name for name, kind in wanted.items() if not isinstance(value.get(name), kind)]:
        raise CorruptData(f"{path / MANIFEST} is corrupt: see {wrong[0]}")
    return value


def complete_dumps(folder: Path) -> list[Path]:
    """Folders of complete dumps, newest first. ``folder``: of a job, of its parameter servers, of dumps, or of one dump."""
    if (folder / MANIFEST).exists():
        return [folder]
    for place in (folder / "ps" / "dumps", folder / "dumps", folder):
        found = [path for path in place.glob("*") if path.name.isdigit() and (path / MANIFEST).exists()]
        if found:
            return sorted(found, key=lambda path: int(path.name), reverse=True)
    return []


def find_dump(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The newest complete dump whose files are all there."""
    problems: list[str] = []
    for path in complete_dumps(folder):
        try:
            manifest = read_manifest(path)
            check_chain(path, manifest)
            return path, manifest
        except CorruptData as error:
            problems.append(error.message)
    if problems:
        raise CorruptData(f"no usable dump in {folder}: {'; '.join(problems[:3])}")
    raise NotFound(f"no complete dump in {folder}", hint="pass a job's directory, or one of its ps/dumps")


def check_chain(path: Path, manifest: dict[str, Any]) -> None:
    for order in manifest["chain"]:
        link = path.parent / path.name if order == manifest["order"] else path.parent / f"{order:012d}"
        for seat in read_manifest(link)["seats"]:
            stem = link / f"seat-{seat}"
            try:
                file = arrays_of(stem, json.loads(stem.with_suffix(".json").read_bytes()))
            except (OSError, ValueError, AttributeError) as error:
                raise CorruptData(f"{stem.with_suffix('.json')} cannot be read: {error}") from None
            if not file.exists():
                raise CorruptData(f"{file} is missing")
