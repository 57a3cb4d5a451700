"""Where the files of parameter servers are, for the servers and for the master. Nothing here needs numpy.

    ps/dumps/<order>/seat-<n>.json            what one seat had after that order, and which file
    ps/dumps/<order>/seat-<n>.*.safetensors   has the arrays (``ps/recovery/dumps.py`` writes and reads both)
    ps/dumps/<order>/manifest.json            written last: all seats are there
    ps/moves/<order>/                         what one seat gave to another at that order
    ps/seat-<n>/                              the log of what workers staged there

A dump is *complete* with its manifest. An incremental one needs those of its ``chain`` too.

Nothing in these files is believed before it is checked: what they are (``files/regular.py``), their size, and type and range of
each value. What does not pass is ``CorruptData``, and the dump before it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.core.errors import CorruptData, InvalidRequest, NotFound
from pliant.core.parameters.definitions import MAX_DEFINITIONS, Definition
from pliant.core.parameters.dumps import Dump
from pliant.files.atomic import write_json
from pliant.files.regular import read_bytes
from pliant.files.typed_json import is_valid, parse_object
from pliant.ps.specs import MAX_NAME, spec_from_json

FORMAT = 1
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 64 << 20  # 10 000 tables have a tenth of it
MAX_FACTS_BYTES = 64 << 20
MAX_CHAIN = 10_000
MAX_SEATS = 1 << 16
MAX_ORDER = 10**18
MAX_ITERATION = 2**32 - 2
_ORDER = re.compile(r"[0-9]{12,18}")
_ARRAYS = re.compile(r"[a-z0-9-]+(\.[0-9a-f]+)?\.safetensors")


@dataclass(frozen=True, slots=True)
class DumpManifest:
    """A complete dump. ``chain``: the orders of the dumps that it is made of, oldest first, its own last."""

    order: int
    iteration: int
    chain: tuple[int, ...]
    seats: tuple[int, ...]
    tables: tuple[Definition, ...]
    variables: tuple[Definition, ...]
    initialized: tuple[str, ...]


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
    name = facts.get("file", f"{stem.name}.safetensors")
    if not isinstance(name, str) or not _ARRAYS.fullmatch(name):
        raise CorruptData(f"{stem.with_suffix('.json')} is corrupt: file is {name!r:.60}")
    return stem.with_name(name)


def read_facts(stem: Path) -> dict[str, Any]:
    """What the JSON of a part says: its chunks (each an object), and name, size and checksum of the file with their arrays."""
    path = stem.with_suffix(".json")
    facts = _read(path, MAX_FACTS_BYTES)
    chunks = facts.get("chunks")
    if not isinstance(chunks, list) or not all(isinstance(chunk, dict) for chunk in chunks):
        raise CorruptData(f"{path} is corrupt, or from another release")
    for name in ("bytes", "crc32"):
        if not is_valid(facts.get(name), int):
            raise CorruptData(f"{path} is corrupt: {name} is {facts.get(name)!r:.60}")
    arrays_of(stem, facts)
    return facts


def read_manifest(path: Path) -> DumpManifest:
    """Of one dump's folder."""
    file = path / MANIFEST
    value = _read(file, MAX_MANIFEST_BYTES)

    def checked(name: str, is_right: Callable[[Any], bool]) -> Any:
        if not is_right(value.get(name)):
            raise CorruptData(f"{file} is corrupt: {name} is {value.get(name)!r:.60}")
        return value[name]

    order = checked("order", lambda found: _is_order(found))
    manifest = DumpManifest(
        order=order,
        iteration=checked("iteration", lambda found: is_valid(found, int) and found <= MAX_ITERATION),
        chain=tuple(checked("chain", lambda found: _is_chain(found, order))),
        seats=tuple(checked("seats", _are_seats)),
        tables=tuple(checked("tables", _are_definitions)),
        variables=tuple(checked("variables", _are_definitions)),
        initialized=tuple(checked("initialized", _are_names)),
    )
    try:
        specs = [spec_from_json(dict(definition)) for definition in (*manifest.tables, *manifest.variables)]
    except InvalidRequest as error:
        raise CorruptData(f"{file} is corrupt: {error.message}") from None
    if len({spec.name for spec in specs}) < len(specs):
        raise CorruptData(f"{file} is corrupt: it defines a name twice")
    return manifest


def _read(path: Path, limit: int) -> dict[str, Any]:
    try:
        value = parse_object(read_bytes(path, limit), str(path))
    except OSError as error:
        raise CorruptData(f"{path} cannot be read: {error.strerror}") from None
    if value.get("format") != FORMAT:
        raise CorruptData(f"{path} is corrupt or has another format")
    return value


def _is_order(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_ORDER


def _is_chain(value: Any, order: int) -> bool:
    """Rising, up to the dump itself."""
    is_list = type(value) is list and 0 < len(value) <= MAX_CHAIN and all(map(_is_order, value))
    return is_list and value == sorted(set(value)) and value[-1] == order


def _are_seats(value: Any) -> bool:
    is_list = type(value) is list and all(type(seat) is int and 0 <= seat < MAX_SEATS for seat in value)
    return is_list and len(set(value)) == len(value)


def _are_definitions(value: Any) -> bool:
    return type(value) is list and len(value) <= MAX_DEFINITIONS and all(type(one) is dict for one in value)


def _are_names(value: Any) -> bool:
    is_list = type(value) is list and len(value) <= MAX_DEFINITIONS
    return is_list and all(type(name) is str and len(name) <= MAX_NAME for name in value)


def complete_dumps(folder: Path) -> list[Path]:
    """Folders of complete dumps, newest first. ``folder``: of a job, of its parameter servers, of dumps, or of one dump."""
    if (folder / MANIFEST).exists():
        return [folder]
    for place in (folder / "ps" / "dumps", folder / "dumps", folder):
        found = [path for path in place.glob("*") if _ORDER.fullmatch(path.name) and (path / MANIFEST).exists()]
        if found:
            return sorted(found, key=lambda path: int(path.name), reverse=True)
    return []


def find_dump(folder: Path) -> tuple[Path, DumpManifest]:
    """The newest complete dump whose files are all there."""
    problems: list[str] = []
    for path in complete_dumps(folder):
        try:
            manifest = read_manifest(path)
            for link in chain_of(path, manifest):
                for seat in read_manifest(link).seats:
                    stem = link / f"seat-{seat}"
                    if not (file := arrays_of(stem, read_facts(stem))).exists():
                        raise CorruptData(f"{file} is missing")
            return path, manifest
        except CorruptData as error:
            problems.append(error.message)
    if problems:
        raise CorruptData(f"no usable dump in {folder}: {'; '.join(problems[:3])}")
    raise NotFound(f"no complete dump in {folder}", hint="pass a job's directory, or one of its ps/dumps")


def chain_of(path: Path, manifest: DumpManifest) -> list[Path]:
    """The folders of the dumps that the one in ``path`` is made of, oldest first."""
    return [path if order == manifest.order else path.parent / f"{order:012d}" for order in manifest.chain]
