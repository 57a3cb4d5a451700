"""A checkpoint on storage, without torch: names, the note beside each part, the manifest.

    step-00000100/part-00000-of-00003.safetensors        a part; ``.r2`` before the suffix: of the world of round 2
    step-00000100/part-00000-of-00003.safetensors.json   its note: checksums, and which cut of the training it belongs to
    step-00000100/manifest.json                          all parts and the structure of the state: the checkpoint is complete

Notes and manifest are sealed with a checksum of their own. The parts of one *cut* fit together: same step, number of parts,
run of the job, round of its world, and tensors. A step can hold parts of two cuts, where a world fell apart and a later one
came to that step again; they are never mixed. When all notes of a cut are there, the manifest only repeats them: whoever sees
them complete writes it, any number may, and a reader can do without.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from typing import Any

from pliant.checkpoint import layout
from pliant.checkpoint.checksums import ALGORITHM, first_damage
from pliant.checkpoint.storage import Storage
from pliant.core.errors import CorruptData

FORMAT = 1
MANIFEST = "manifest.json"
METADATA = "pliant"  # the key of our own entry in a safetensors header
_STEP = re.compile(r"step-(\d{8,})")
_NOTE = re.compile(r"part-\d+-of-\d+(\.r\d+)?\.safetensors\.json")


@dataclass(frozen=True, slots=True)
class Cut:
    """What the parts of one checkpoint have in common."""

    step: int
    of: int  # parts
    round: int  # of the world
    run: str  # of the job
    tensors: str  # a digest of their names, types and shapes


@dataclass(frozen=True, slots=True)
class PartNote:
    """One part: where it is, and how to know that it is sound."""

    step: int
    of: int
    round: int
    run: str
    tensors: str
    part: int
    world: int
    bytes: int
    time: float  # seconds since the epoch, when it was taken
    chunk: int  # bytes per checksum
    checksums: tuple[int, ...]

    @property
    def cut(self) -> Cut:
        return Cut(self.step, self.of, self.round, self.run, self.tensors)

    @property
    def file(self) -> str:
        return part_file(self.part, self.of, self.round)

    @property
    def path(self) -> str:
        return f"{step_folder(self.step)}/{self.file}"


def step_folder(step: int) -> str:
    return f"step-{step:08d}"


def step_of(folder: str) -> int | None:
    match = _STEP.fullmatch(folder)
    return int(match[1]) if match else None


def part_file(part: int, of: int, round: int) -> str:
    return f"part-{part:05d}-of-{of:05d}{f'.r{round}' if round else ''}.safetensors"


def is_note(name: str) -> bool:
    return _NOTE.fullmatch(name) is not None


def seal(value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, sort_keys=True)
    return json.dumps({"seal": _crc(text), **value}, indent=1).encode()


def unseal(content: bytes, path: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
        sealed = value.pop("seal")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise CorruptData(f"{path} is corrupt or truncated") from None
    if sealed != _crc(json.dumps(value, sort_keys=True)):
        raise CorruptData(f"{path} is corrupt: it does not match its own checksum")
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise CorruptData(
            f"{path} has format {value.get('format')!r}", hint="it was written by a newer version of Pliant"
        )
    return value


def _crc(text: str) -> int:
    return zlib.crc32(text.encode())


def write_note(storage: Storage, note: PartNote) -> None:
    content = seal({"format": FORMAT, "checksum": ALGORITHM, "pliant": version("pliant"), **asdict(note)})
    storage.put(f"{note.path}.json", [content], len(content))


def read_note(storage: Storage, path: str) -> PartNote:
    return _note(unseal(storage.read(path), path), path)


def read_manifest(storage: Storage, step: int) -> list[PartNote] | None:
    """The notes of all parts; None if there is no manifest."""
    path = f"{step_folder(step)}/{MANIFEST}"
    try:
        content = storage.read(path)
    except FileNotFoundError:
        return None
    value = unseal(content, path)
    try:
        notes = [_note(part, path) for part in value["parts"]]
    except (KeyError, TypeError):
        raise CorruptData(f"{path} lists no parts") from None
    if not is_complete(notes) or notes[0].step != step:
        raise CorruptData(f"{path} does not list the parts of step {step}")
    return sorted(notes, key=lambda note: note.part)


def write_manifest(storage: Storage, notes: Iterable[PartNote]) -> None:
    """The same bytes whoever writes it."""
    parts = sorted(notes, key=lambda note: note.part)
    first = parts[0]
    content = seal(
        {
            "format": FORMAT,
            "checksum": ALGORITHM,
            "pliant": version("pliant"),
            "step": first.step,
            "world": first.world,
            "round": first.round,
            "time": max(note.time for note in parts),
            "bytes": sum(note.bytes for note in parts),
            "structure": own_metadata(read_layout(storage, first)).get("structure"),
            "parts": [{**asdict(note), "file": note.file} for note in parts],
        }
    )
    storage.put(f"{step_folder(first.step)}/{MANIFEST}", [content], len(content))


def is_complete(notes: Iterable[PartNote]) -> bool:
    """One cut, each part once."""
    found = list(notes)
    return bool(found) and len({n.cut for n in found}) == 1 and sorted(n.part for n in found) == [*range(found[0].of)]


def read_layout(storage: Storage, note: PartNote) -> layout.Layout:
    file = f"{storage.url}/{note.path}"
    end = layout.header_size(storage.read(note.path, 8), file)
    return layout.decode(storage.read(note.path, end), note.bytes, file)


def parse(data: memoryview, file: str) -> layout.Layout:
    return layout.decode(data[: layout.header_size(bytes(data[:8]), file)], data.nbytes, file)


def own_metadata(found: layout.Layout) -> dict[str, Any]:
    """What we keep in the header beside the tensors: the cut, and in part 0 the structure of the state."""
    try:
        value = json.loads(found.metadata[METADATA])
    except (KeyError, ValueError):
        value = None
    if not isinstance(value, dict):
        raise CorruptData("it is a safetensors file, but not part of a Pliant checkpoint")
    return value


def check(data: memoryview, note: PartNote, file: str) -> None:
    """Every byte of a part against its note; the error names the damaged range."""
    if data.nbytes != note.bytes:
        raise CorruptData(f"{file} has {data.nbytes} bytes instead of {note.bytes}: it is truncated")
    if (damage := first_damage(data, note.checksums, note.chunk)) is not None:
        begin, end = damage
        try:
            where = parse(data, file).entry_at(max(begin, 0))
        except CorruptData:
            where = "the header"
        raise CorruptData(f"{file} is corrupt in bytes {begin}-{end} (from {where} on): {ALGORITHM} does not match")


def _note(value: Any, path: str) -> PartNote:
    names = [field.name for field in fields(PartNote)]
    try:
        note = PartNote(
            **{name: value[name] for name in names if name != "checksums"}, checksums=tuple(value["checksums"])
        )
    except (KeyError, TypeError):
        raise CorruptData(f"{path} does not describe a part") from None
    return note
