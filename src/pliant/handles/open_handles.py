"""The handles that a command opened, with connections of their own; they are closed when the command ends."""

from __future__ import annotations

from typing import TypeVar

from pliant.handles.job_handle import JobHandle

H = TypeVar("H", bound=JobHandle)
_OPEN: list[JobHandle] = []


def close_at_exit(handle: H) -> H:
    _OPEN.append(handle)
    return handle


def close_job_handles() -> None:
    while _OPEN:
        _OPEN.pop().close()
