"""Jobs that ended, and how alike they are to one that begins: what ``create_from_history`` starts from.

A *fingerprint* says what a job is, as far as that is known before it runs: strategy, program, name stem, datasets. Jobs of another
strategy are never alike. The same command under the same name is (nearly) the same job; the same program with other arguments is
a weaker sign; a dataset of another size weakens it further.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import exp, isfinite, log
from typing import Any

from pliant.core.errors import CorruptData
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import FinishedJob

MAX_NUMBER = 1e12  # of anything in a record; no real one comes near
_DIGITS = re.compile(r"[-_.]?(\d+|[0-9a-f]{6,})$")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    strategy: str
    command: str  # digest of the whole command
    program: str  # of it, the script or module
    stem: str = ""  # of the job's name: without a number at its end
    records: int = 0  # of its datasets, one epoch; 0: not known

    def similarity(self, other: Fingerprint) -> float:
        """0 to 1."""
        if self.strategy != other.strategy:
            return 0.0
        found = 0.75 if self.command == other.command else 0.4 if self.program == other.program else 0.0
        if found:
            found += 0.25 if self.stem and self.stem == other.stem else 0.0
        if self.records and other.records:
            found *= 0.5 + 0.5 * exp(-abs(log(self.records / other.records)))
        return found


def fingerprint(strategy: str, command: Sequence[str], name: str, records: int = 0) -> Fingerprint:
    digest = sha256(json.dumps(list(command)).encode()).hexdigest()[:16]
    named = [word for word in command[1:] if not word.startswith("-")]
    program = next((word for word in named if word.endswith(".py")), named[0] if named else "")
    script = program.rsplit("/", 1)[-1] or (command[0] if command else "")
    return Fingerprint(strategy, digest, script, _DIGITS.sub("", name), records)


@dataclass(frozen=True, slots=True)
class PastJob:
    """What is kept of a job that planned its own resources."""

    fingerprint: Fingerprint
    ended: float
    succeeded: bool
    configuration: Configuration  # the best that was measured
    rate: float
    worker_memory_mb: float = 0.0  # the most that one used
    server_memory_mb: float = 0.0

    def seen_from(self, other: Fingerprint) -> FinishedJob:
        return FinishedJob(
            self.fingerprint.similarity(other),
            self.ended,
            self.configuration,
            self.rate,
            self.worker_memory_mb,
            self.server_memory_mb,
            self.succeeded,
        )

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "configuration": self.configuration.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PastJob:
        """Raises ``CorruptData`` for anything else than what ``to_json`` made."""
        try:
            made = cls(
                Fingerprint(**value["fingerprint"]),
                float(value["ended"]),
                bool(value["succeeded"]),
                Configuration.from_json(value["configuration"]),
                float(value["rate"]),
                float(value["worker_memory_mb"]),
                float(value["server_memory_mb"]),
            )
            numbers = (made.ended, made.rate, made.worker_memory_mb, made.server_memory_mb)
            is_sound = (
                all(isfinite(n) and 0 <= n <= MAX_NUMBER for n in numbers)
                and _is_sound_fingerprint(made.fingerprint)
                and _is_sound_shape(made.configuration.worker)
                and (made.configuration.server is None or _is_sound_shape(made.configuration.server))
                and _is_count(made.configuration.micro_batch)
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CorruptData(f"not a record of a past job: {error!r:.200}") from error
        if not is_sound:
            raise CorruptData("not a record of a past job: a value is of another type or out of range")
        return made


def _is_sound_fingerprint(mark: Fingerprint) -> bool:
    return all(isinstance(text, str) for text in (mark.strategy, mark.command, mark.program, mark.stem)) and _is_count(
        mark.records
    )


def _is_sound_shape(shape: Shape) -> bool:
    is_cpu = isinstance(shape.cpu, int | float) and isfinite(shape.cpu) and 0 <= shape.cpu <= MAX_NUMBER
    return is_cpu and _is_count(shape.replicas, 1) and _is_count(shape.memory_mb) and _is_count(shape.gpu)


def _is_count(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and least <= value <= MAX_NUMBER
