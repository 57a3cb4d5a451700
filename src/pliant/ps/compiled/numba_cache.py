"""Compiled loops that were made beforehand are used also where nothing can be written beside them.

numba keeps what it compiled beside the source file, if it can write there; else in the user's cache folder, where it does not find
what an image brought along: Pods have a read-only file system and another user than the one who built the image. So what is
beside the source is copied there first. numba itself sees whether it is of this source, release and processor.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

from pliant.files.atomic import atomic_path


def bring_along(function: Any) -> None:
    """Of one compiled function, before it is first called."""
    place = getattr(getattr(function, "_cache", None), "cache_path", None)
    if place is None:  # nothing is kept, or nothing is compiled at all
        return
    code = function.py_func.__code__
    source, there = Path(code.co_filename), Path(place)
    beside = source.parent / "__pycache__"
    if there == beside:
        return
    for file in beside.glob(f"{source.stem}.{function.py_func.__qualname__}-{code.co_firstlineno}.*.nb?"):
        # several processes may copy at once; where there is no room, or no permission, it is compiled, as ever
        with contextlib.suppress(OSError):
            if not (there / file.name).exists():
                with atomic_path(there / file.name, durable=False) as temporary:
                    shutil.copyfile(file, temporary)
