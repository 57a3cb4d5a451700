"""A destination is tried before training starts: a small file is written there as a checkpoint would be, and deleted.

So that a missing right, a missing library or a full disk shows at once, and not when the first checkpoint is lost. By whoever
will write there: the node's agent, or the program where it has a destination of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pliant.checkpoint.problems import StorageProblem, explain
from pliant.checkpoint.storage import open_storage
from pliant.files.atomic import HIDDEN

log = logging.getLogger(__name__)

CONTENT = b"Pliant tried whether checkpoints can be written here. This file can be deleted.\n" * 64
RETRY_PAUSES_S = (1.0, 3.0)  # for what may pass by itself


def try_destination(directory: str, name: str, sleep: Callable[[float], None] = time.sleep) -> StorageProblem | None:
    """None: it can be written to. ``name`` tells those apart who try at the same time."""
    problem = _attempt(directory, name)
    for pause in RETRY_PAUSES_S:
        if problem is None or problem.is_permanent:
            return problem
        sleep(pause)
        problem = _attempt(directory, name)
    return problem


def _attempt(directory: str, name: str) -> StorageProblem | None:
    path = f"{HIDDEN}trial-{name}"
    try:
        storage = open_storage(directory)
        storage.put(path, [CONTENT], len(CONTENT))
    except Exception as error:  # noqa: BLE001 - stores raise errors of any type
        return explain(error, directory)
    try:
        storage.delete_file(path)
    except Exception as error:  # noqa: BLE001 - it is no reason not to train: checkpoints can be written
        log.warning("%s in %s could not be deleted: %s", path, directory, error)
    return None
