"""Amounts of CPU, memory and time as people write them, in the notation of Kubernetes.

A bare number of memory is MB, one of time is seconds; here, as in the rest of Pliant, 1 MB is 2**20 bytes. Fractions of a MB are
rounded up.
Written out again, both have the one form that is an integer or a string, which is what Kubernetes accepts.
"""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from pliant.core.shares import exact
from pliant.spec.base import refuse

MB = 1 << 20
MAX_MB = 1 << 26  # 64 TiB; catches a number that was meant in bytes
MAX_CPU = 1 << 20
UNITS = {
    **{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40},
    **{"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12},
}
INT_OR_STRING = "x-kubernetes-int-or-string"
MEMORY_PATTERN = r"^[0-9]+(\.[0-9]+)?((Ki|Mi|Gi|Ti|k|K|M|G|T)B?)?$"
CPU_PATTERN = r"^[0-9]+(\.[0-9]+)?m?$"
MEMORY_ALLOWED = "an amount such as 512Mi, 2Gi or 1.5G, or a number of MB, up to 64Ti"
CPU_ALLOWED = "a number of cores such as 2 or 0.5, or millicores such as 500m"
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MAX_SECONDS = 1e9
MIN_SECONDS = 1e-3  # but 0
DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?[smhd])+$"
DURATION_ALLOWED = "a time such as 90s, 10m, 1h30m or 2d, or a number of seconds"


def memory_mb(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        megabytes = value
    elif isinstance(value, str) and re.match(MEMORY_PATTERN, value.strip()):
        number, unit = re.findall(r"^([0-9.]+)([A-Za-z]*)$", value.strip())[0]
        megabytes = math.ceil(exact(number) * UNITS.get(unit.removesuffix("B"), MB) / MB)
    else:
        raise refuse(MEMORY_ALLOWED)
    if not 0 <= megabytes <= MAX_MB:
        raise refuse(MEMORY_ALLOWED)
    return megabytes


def cpu_cores(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        cores = float(value)
    elif isinstance(value, str) and re.match(CPU_PATTERN, value.strip()):
        cores = float(value.strip().removesuffix("m")) / (1000 if value.strip().endswith("m") else 1)
    else:
        raise refuse(CPU_ALLOWED)
    if not 0 <= cores <= MAX_CPU or 0 < cores < 0.001:
        raise refuse(CPU_ALLOWED)
    return round(cores, 3)


def seconds_of(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and re.match(DURATION_PATTERN, value.strip()):
        seconds = float(sum(exact(number) * SECONDS[unit] for number, unit in re.findall(r"([0-9.]+)([smhd])", value)))
    else:
        raise refuse(DURATION_ALLOWED)
    if not 0 <= seconds <= MAX_SECONDS or 0 < seconds < MIN_SECONDS:
        raise refuse(DURATION_ALLOWED)
    return seconds


def write_duration(seconds: float) -> int | str:
    if seconds == int(seconds):
        unit, length = next((item for item in reversed(SECONDS.items()) if seconds % item[1] == 0), ("s", 1))
        return f"{int(seconds) // length}{unit}" if seconds else 0
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"  # never with an exponent, which is no duration


def write_memory(megabytes: int) -> int | str:
    if megabytes and megabytes % 1024 == 0:
        return f"{megabytes // 1024}Gi"
    return f"{megabytes}Mi" if megabytes else 0


def write_cpu(cores: float) -> int | str:
    return int(cores) if cores == int(cores) else f"{round(cores * 1000)}m"


Memory = Annotated[
    int,
    BeforeValidator(memory_mb),
    PlainSerializer(write_memory, when_used="json"),
    WithJsonSchema({"type": ["integer", "string"], "pattern": MEMORY_PATTERN, INT_OR_STRING: True}),
]
Cpu = Annotated[
    float,
    BeforeValidator(cpu_cores),
    PlainSerializer(write_cpu, when_used="json"),
    WithJsonSchema({"type": ["number", "string"], "pattern": CPU_PATTERN, INT_OR_STRING: True}),
]
Duration = Annotated[
    float,
    BeforeValidator(seconds_of),
    PlainSerializer(write_duration, when_used="json"),
    WithJsonSchema({"type": ["number", "string"], "pattern": DURATION_PATTERN, INT_OR_STRING: True}),
]
