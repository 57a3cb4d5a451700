"""TensorBoard's event files: the format, without TensorFlow.

A file is a sequence of records (TFRecord): the length as 8 bytes, the masked CRC-32C of these, the data, and its masked CRC-32C,
all little-endian. The data of each is one protobuf ``Event`` (tensorflow/core/util/event.proto), of which three kinds are
needed: the version of the format, with which a file begins; values of scalars at a step; and ``SessionLog.START``, which says
that training went back to a step, so that readers drop what they have from there on.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

VERSION = "brain.Event:2"
_START = 1  # SessionLog.SessionStatus
_MASK_DELTA = 0xA282EAD8
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


def version_record(time: float) -> bytes:
    """The first of a file."""
    return _record(_event(time, 0) + _bytes(3, VERSION.encode()))


def scalars_record(time: float, step: int, values: Mapping[str, float]) -> bytes:
    """``time``: seconds since the epoch. ``values``: by tag."""
    summary = b"".join(
        _bytes(1, _bytes(1, tag.encode()) + _key(2, _FIXED32) + _single(value)) for tag, value in values.items()
    )
    return _record(_event(time, step) + _bytes(5, summary))


def restart_record(time: float, step: int) -> bytes:
    """Values at this step and later ones that came before do not count any more."""
    return _record(_event(time, step) + _bytes(7, _key(1, _VARINT) + _varint(_START)))


def masked_crc(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """Castagnoli's polynomial, reflected."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = [_table_entry(byte) for byte in range(256)]


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def _event(time: float, step: int) -> bytes:
    return _key(1, _FIXED64) + struct.pack("<d", time) + _key(2, _VARINT) + _varint(step)


def _single(value: float) -> bytes:
    """What is too large for 4 bytes is infinite there."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def _bytes(field: int, content: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(content)) + content


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
