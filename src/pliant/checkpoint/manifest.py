"""A checkpoint on storage, without torch: names, the note beside each part, the manifest.

    step-00000100/part-00000-of-00003.safetensors        a part; ``.r2`` before the suffix: of the world of round 2
    step-00000100/part-00000-of-00003.safetensors.json   its note: checksums, and which cut of the training it belongs to
    step-00000100/manifest.json                          all parts and the structure of the state: the checkpoint is complete

Notes and manifest are sealed with a checksum of their own. The parts of one *cut* fit together: same step, number of parts,
run of the job, round of its world, and tensors. A step can hold parts of two cuts, where a world fell apart and a later one
came to that step again; they are never mixed. When all notes of a cut are there, the manifest only repeats them: whoever sees
them complete writes it, any number may, and a reader can do without.

Nothing in a note is believed before it is checked: its size, the type and range of each field, and that they fit together. What
does not is ``CorruptData`` and concerns this one step.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from pliant.checkpoint import layout
from pliant.checkpoint.checksums import ALGORITHM, first_damage
from pliant.checkpoint.storage import Storage
from pliant.core.errors import CorruptData
from pliant.files.typed_json import MAX_INT, parse_object, record_of

FORMAT = 1
MANIFEST = "manifest.json"
METADATA = "pliant"  # the key of our own entry in a safetensors header
MAX_PARTS = 1 << 16
MAX_NOTE_BYTES = 16 << 20  # a part of 16 TB has checksums of that size
MAX_MANIFEST_BYTES = 64 << 20
MAX_CRC = 2**32 - 1
MAX_TIME_S = 253_402_300_799.0  # the end of the year 9999
_STEP = re.compile(r"step-([0-9]{8,19})")
_NOTE = re.compile(r"part-[0-9]+-of-[0-9]+(\.r[0-9]+)?\.safetensors\.json")


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
    step = int(match[1]) if match else -1
    return step if 0 <= step <= MAX_INT and step_folder(step) == folder else None


def part_file(part: int, of: int, round: int) -> str:
    return f"part-{part:05d}-of-{of:05d}{f'.r{round}' if round else ''}.safetensors"


def is_note(name: str) -> bool:
    return _NOTE.fullmatch(name) is not None


def seal(value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, sort_keys=True)
    return json.dumps({"seal": _crc(text), **value}, indent=1).encode()


def unseal(content: bytes, path: str) -> dict[str, Any]:
    value = parse_object(content, path)
    sealed = value.pop("seal", None)
    if sealed is None:
        raise CorruptData(f"{path} is corrupt or truncated")
    if sealed != _crc(json.dumps(value, sort_keys=True)):
        raise CorruptData(f"{path} is corrupt: it does not match its own checksum")
    if value.get("format") != FORMAT:
        raise CorruptData(
            f"{path} has format {value.get('format')!r:.60}", hint="it was written by a newer version of Pliant"
        )
    return value


def _crc(text: str) -> int:
    return zlib.crc32(text.encode())


def write_note(storage: Storage, note: PartNote) -> None:
    content = seal({"format": FORMAT, "checksum": ALGORITHM, "pliant": version("pliant"), **asdict(note)})
    storage.put(f"{note.path}.json", [content], len(content))


def read_note(storage: Storage, path: str) -> PartNote:
    return _note(unseal(_read(storage, path, MAX_NOTE_BYTES), path), path)


def read_manifest(storage: Storage, step: int) -> list[PartNote] | None:
    """The notes of all parts; None if there is no manifest."""
    path = f"{step_folder(step)}/{MANIFEST}"
    try:
        content = _read(storage, path, MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        return None
    parts = unseal(content, path).get("parts")
    if not isinstance(parts, list):
        raise CorruptData(f"{path} lists no parts")
    notes = [_note(part, path) for part in parts]
    if not is_complete(notes) or notes[0].step != step:
        raise CorruptData(f"{path} does not list the parts of step {step}")
    return sorted(notes, key=lambda note: note.part)


def _read(storage: Storage, path: str, limit: int) -> bytes:
    content = storage.read(path, limit + 1)
    if len(content) > limit:
        raise CorruptData(f"{path} is corrupt: it has more than {limit:,} bytes")
    return content


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
    if not found or len(found) != found[0].of or len({note.cut for note in found}) != 1:
        return False
    return sorted(note.part for note in found) == [*range(len(found))]


def read_layout(storage: Storage, note: PartNote) -> layout.Layout:
    file = f"{storage.url}/{note.path}"
    end = layout.header_size(storage.read(note.path, 8), file)
    if end > note.bytes:
        raise CorruptData(f"{file}: its header cannot be {end} bytes long, the file has {note.bytes}")
    return layout.decode(storage.read(note.path, end), note.bytes, file)


def parse(data: memoryview, file: str) -> layout.Layout:
    return layout.decode(data[: layout.header_size(bytes(data[:8]), file)], data.nbytes, file)


def own_metadata(found: layout.Layout) -> dict[str, Any]:
    """What we keep in the header beside the tensors: the cut, and in part 0 the structure of the state."""
    try:
        value = json.loads(found.metadata[METADATA])
    except (KeyError, ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise CorruptData("it is a safetensors file, but not part of a Pliant checkpoint")
    return value


def tensor_index(about: Mapping[str, Any], file: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of each tensor of the state, from the metadata of part 0."""
    found = {}
    listed = about.get("tensors")
    if not isinstance(listed, dict):
        raise CorruptData(f"{file} lists no tensors")
    for name, value in listed.items():
        match value:
            case [str(dtype), [*shape]] if layout.is_shape(shape):
                found[name] = dtype, tuple(shape)
            case _:
                raise CorruptData(f"{file}: tensor {name:.200} is {value!r:.200}")
    return found


def slice_of(entry: str, about: Mapping[str, Any], file: str) -> tuple[str, int, int | None]:
    """Which elements of which tensor an entry of a part holds; all of it (None), where nothing else is noted."""
    slices = about.get("slices", {})
    if isinstance(slices, dict):
        match slices.get(entry, [entry, 0, None]):
            case [str(name), int(begin), int() | None as end]:
                return name, begin, end
    raise CorruptData(f"{file}: the slice {entry:.200} is corrupt")


def check(data: memoryview, note: PartNote, file: str) -> None:
    """Every byte of a part against its note; the error names the damaged range."""
    check_size(data, note, file)
    if (damage := first_damage(data, note.checksums, note.chunk)) is not None:
        raise damaged(data, file, damage)


def check_size(data: memoryview, note: PartNote, file: str) -> None:
    if data.nbytes != note.bytes:
        raise CorruptData(f"{file} has {data.nbytes} bytes instead of {note.bytes}: it is truncated")


def damaged(data: memoryview, file: str, damage: tuple[int, int]) -> CorruptData:
    begin, end = damage
    try:
        where = parse(data, file).entry_at(max(begin, 0))
    except CorruptData:
        where = "the header"
    return CorruptData(f"{file} is corrupt in bytes {begin}-{end} (from {where} on): {ALGORITHM} does not match")


def _note(value: Any, path: str) -> PartNote:
    note = record_of(PartNote, value, path)
    if not (0 < note.of <= MAX_PARTS and note.part < note.of and note.world > 0 and note.chunk > 0):
        raise CorruptData(
            f"{path} is corrupt: part {note.part} of {note.of}, of {note.world} workers, in chunks of {note.chunk} bytes"
        )
    if not 0 <= note.time <= MAX_TIME_S:
        raise CorruptData(f"{path} is corrupt: time is {note.time}")
    if len(note.checksums) != -(-note.bytes // note.chunk) or max(note.checksums, default=0) > MAX_CRC:
        raise CorruptData(f"{path} is corrupt: {len(note.checksums)} checksums for {note.bytes} bytes")
    return note
