"""Feeds a parser inputs that were valid once: seeds from our own writers, what earlier runs found (``corpus/``), and mutations.

The property is the same for all parsers: a result or an error of ours (``PliantError``), soon, and without much memory; never
an exception of Python or of a library, a hang or a crash.
"""

from __future__ import annotations

import random
import re
import signal
import struct
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from pliant.core.errors import PliantError

HERE = Path(__file__).parent
MAX_SECONDS = 10.0  # for one input: a tenth of it is already suspicious, but machines are busy
MAX_INPUT = 1 << 20  # bytes
_NUMBERS = [0, 1, 2, 3, 4, 7, 8, 15, 16, 63, 64, 127, 128, 255, 256, 4095, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1]
_HUGE = [2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
_TEXTS = [
    b"-1", b"0", b"1e999", b"NaN", b"null", b"true", b'""', b"[]", b"{}", b"1" * 400, b"9223372036854775808", b"1000000000",
    b'"../../x"', b'"/dev/zero"', b"\x1b[2J", b"\xff\xfe", b"\x00", b"[" * 2000, b'{"a":' * 500, b"*a", b"&a", b"<<: *a",
]  # fmt: skip


class Target(Protocol):
    """A parser under test."""

    name: str

    def seeds(self) -> list[bytes]:
        """Valid inputs, small ones, by our own writers."""

    def check(self, data: bytes, folder: Path) -> None:
        """Parse. ``folder`` is empty and its own. May raise ``PliantError``."""


@dataclass(frozen=True)
class Finding:
    target: str
    data: bytes
    problem: str
    seed: int

    def save(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.target}-{blake2b(self.data, digest_size=6).hexdigest()}"
        path.write_bytes(self.data)
        return path


class TooSlow(BaseException):
    """Not an ``Exception``, so that no parser takes it for an error of its own."""


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def problem_of(target: Target, data: bytes, folder: Path) -> str:
    """What is wrong with how the parser takes this input; empty if nothing is."""
    try:
        with _time_limit():
            target.check(data, folder)
    except PliantError:
        return ""
    except TooSlow:
        return f"took more than {MAX_SECONDS:.0f} s\n{traceback.format_exc()}"
    except Exception:  # noqa: BLE001 - the property itself: none of these may come out
        return traceback.format_exc()
    return ""


def corpus_of(target: Target) -> list[bytes]:
    folder = HERE / "corpus" / target.name
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


def inputs(target: Target, seed: int) -> Iterator[bytes]:
    """What is known, then mutations without end."""
    known = [*target.seeds(), *corpus_of(target)]
    yield from known
    chance = random.Random(f"{target.name} {seed}")
    while True:
        data = chance.choice(known)
        for _ in range(chance.choice((1, 1, 1, 2, 4, 8))):
            data = _mutated(chance, data, known)[:MAX_INPUT]
        yield data


def _mutated(chance: random.Random, data: bytes, known: list[bytes]) -> bytes:
    if not data:
        return chance.choice(known)
    at = chance.randrange(len(data))
    match chance.randrange(11):
        case 0:  # a bit
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        case 1:  # a byte
            return data[:at] + bytes([chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))]) + data[at + 1 :]
        case 2:  # cut short
            return data[:at]
        case 3:  # a part left out
            return data[:at] + data[at + chance.randrange(1, 64) :]
        case 4:  # a part twice
            part = data[at : at + chance.randrange(1, 64)]
            return data[:at] + part * chance.choice((2, 3, 50)) + data[at:]
        case 5 | 6:  # a binary number
            number, form = chance.choice(_NUMBERS + _HUGE), chance.choice("BHIQ")
            field = struct.pack(f"<{form}", number & (1 << 8 * struct.calcsize(form)) - 1)
            if chance.random() < 0.1:
                field = field[::-1]
            return data[:at] + field + data[at + len(field) :]
        case 7 | 8:  # a number or a word as text
            words = list(re.finditer(rb"-?\d+(\.\d+)?|\"[^\"]{0,40}\"|\w+|[\[{][^\[\]{}]{0,40}[\]}]", data[:200_000]))
            if not words:
                return data[:at] + chance.choice(_TEXTS) + data[at:]
            word = chance.choice(words)
            return data[: word.start()] + chance.choice(_TEXTS) + data[word.end() :]
        case 9:  # of another input
            other = chance.choice(known)
            return data[:at] + other[chance.randrange(len(other) + 1) :]
        case _:  # text put in
            return data[:at] + chance.choice(_TEXTS) + data[at:]
