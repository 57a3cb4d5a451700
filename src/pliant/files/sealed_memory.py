"""Memory that processes of one machine share: without a name in any folder, and sealed, so that nobody can change its size.

Whoever makes it passes on its own process, the number of the open file and the name, over a connection on which both have proved
themselves. The name is random, so that what is found under a process and a number is what was made, and nothing else. Neighbours:
``ps/wire/shared_memory.py`` (parameter servers), ``torch/worlds/shared_memory.py`` (gradients).
"""

from __future__ import annotations

import fcntl
import os
import secrets

AVAILABLE = hasattr(os, "memfd_create") and hasattr(fcntl, "F_ADD_SEALS")
SEAL_FUTURE_WRITE = 0x10  # Linux 5.1; Python has no name for it before 3.13


def random_name(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(16)}"


def create(name: str, size: int) -> int:
    """A file descriptor of memory of this size; raises OSError. Its size is sealed."""
    file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, size)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    except BaseException:
        os.close(file)
        raise
    return file


def seal(file: int, *, writers: bool = True) -> None:
    """No further seals; without ``writers``, whoever has not mapped it yet can only read it."""
    if not writers:
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, SEAL_FUTURE_WRITE)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)


def open_of(process: int, file: int, name: str, size: int, *, writable: bool) -> int:
    """A descriptor of what another process of this machine made; raises OSError if it is not there, or is something else."""
    path = f"/proc/{process}/fd/{file}"
    if os.readlink(path) != f"/memfd:{name} (deleted)":
        raise FileNotFoundError(f"{path} is not {name}")
    found = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
    sealed = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
    if fcntl.fcntl(found, fcntl.F_GET_SEALS) & sealed != sealed or os.fstat(found).st_size != size:
        os.close(found)
        raise PermissionError(f"{path} is not sealed, or not of {size} bytes")
    return found
