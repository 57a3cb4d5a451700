"""Other formats into RecordIO: what the bytes of a packed record are, and how to get them back.

Rows (CSV, JSON lines, Parquet) become one JSON object each, in UTF-8; bytes inside them become base64. An image becomes a line of
JSON (its path within the folder, its class and label) followed by the bytes of its file, untouched: ``unpack_image``.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pliant.core.errors import CorruptData, InvalidRequest, NotFound
from pliant.data.contract import DataReader, Metadata, PartReader

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")
_BLOCK = 1024  # records


class ImageRecord(NamedTuple):
    path: str
    class_name: str
    label: int
    data: bytes


def pack_row(row: Any) -> bytes:
    if isinstance(row, bytes):
        return row
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=_as_json).encode()


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return value.tolist()
    raise InvalidRequest(f"a value of type {type(value).__name__} cannot be packed as JSON")


def pack_image(path: str, class_name: str, label: int, data: bytes) -> bytes:
    head = json.dumps({"path": path, "class": class_name, "label": label}, ensure_ascii=False)
    return head.encode() + b"\n" + data


def unpack_image(record: bytes) -> ImageRecord:
    head, newline, data = record.partition(b"\n")
    try:
        match json.loads(head) if newline else None:
            case {"path": str(path), "class": str(class_name), "label": int(label)}:
                return ImageRecord(path, class_name, label, data)
    except (ValueError, RecursionError):
        pass
    raise CorruptData("not a packed image: it does not start with a JSON header line")


class ImageFolder(PartReader):
    """``folder/class/image.jpg``: a record is a packed image; labels number the classes in the order of their names."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        root = Path(folder)
        if not root.is_dir():
            raise NotFound(f"directory {root} not found")
        self._root = root
        self.classes = sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
        found = (p for name in self.classes for p in (root / name).rglob("*"))
        self._images = sorted(p.relative_to(root) for p in found if p.suffix.lower() in IMAGE_SUFFIXES and p.is_file())
        if not self._images:
            raise NotFound(
                f"no images in the subdirectories of {root}",
                hint=f"expected: directory/class/image with {IMAGE_SUFFIXES}",
            )

    @property
    def metadata(self) -> Metadata:
        return Metadata("images", ("path", "class", "label", "data"))

    def create_shards(self) -> Mapping[str, int]:
        return {str(self._root): len(self._images)}

    def read_part(self, number: int, start: int, stop: int) -> Iterator[bytes]:
        for image in self._images[start:stop]:
            name = image.parts[0]
            yield pack_image(image.as_posix(), name, self.classes.index(name), (self._root / image).read_bytes())


def read_tolerantly(reader: DataReader, start: int, stop: int, skipped: Callable[[CorruptData], None]) -> Iterator[Any]:
    """All records of a range that can be read; each that cannot is passed to ``skipped`` and left out."""
    for first in range(start, stop, _BLOCK):
        behind = min(first + _BLOCK, stop)
        try:
            block: Sequence[Any] = list(reader.read(first, behind))
        except CorruptData:
            block = list(_one_by_one(reader, first, behind, skipped))
        yield from block


def _one_by_one(reader: DataReader, start: int, stop: int, skipped: Callable[[CorruptData], None]) -> Iterator[Any]:
    for index in range(start, stop):
        try:
            yield reader[index]
        except CorruptData as error:
            skipped(error)
