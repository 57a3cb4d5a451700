"""Saved positions of datasets: ``job.shard_checkpoint()`` of one job is where ``job.restore_shards(...)`` of another begins.

A position is restored at most once per dataset, before its first shard is handed out, and never takes a running job back:

- the same position again has no effect, whoever sends it (a program that was restarted in place, the other workers);
- neither has a position that this very dataset saved: the job is there, or further, and its journal has it;
- any other position is refused once the dataset has begun.

Positions are compared by a digest, and datasets know their own by their ``origin``, a name that is journaled when they are
created. A position fits every definition with the same ``layout_fields``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from pliant.core.errors import Conflict, InvalidRequest
from pliant.core.shards.queue import RestoredPosition, ShardQueue

VERSION = 2  # of the form of a checkpoint


def check_version(checkpoint: Mapping[str, Any]) -> None:
    version = checkpoint.get("version")
    if version != VERSION:
        raise InvalidRequest(f"a shard checkpoint of version {version!r}; this release supports {VERSION}")


def to_restore(queue: ShardQueue, entry: Mapping[str, Any]) -> RestoredPosition | None:
    """The position that a dataset is to begin at; None if the restore has no effect. Changes nothing."""
    _check_layout(queue, entry)
    found = _checked(queue, entry)
    if queue.origin and entry.get("origin") == queue.origin:
        return None
    if queue.restored is not None:
        if queue.restored.digest == found.digest:
            return None
        raise Conflict(
            f"dataset {queue.spec.name!r} was already restored from another position, with {queue.restored.records:,} "
            f"records done; this one has {found.records:,}",
            hint="restore the same checkpoint in all workers of a job",
        )
    if queue.has_begun:
        raise Conflict(
            f"dataset {queue.spec.name!r} has already started ({queue.finished_records:,} records done, "
            f"{queue.out:,} shards in progress); a position can be restored only before the first shard is leased",
            hint="a running job keeps its position itself; restore only in a new job, before its workers start iterating",
        )
    return found


def _check_layout(queue: ShardQueue, entry: Mapping[str, Any]) -> None:
    name, saved, here = queue.spec.name, entry.get("layout"), queue.layout_fields
    if not isinstance(saved, Mapping):
        raise InvalidRequest(f"the checkpoint of dataset {name!r} is corrupt: it has no layout")
    fields = [*here, *(field for field in saved if field not in here)]
    shown = [
        f"{field}: {saved.get(field, 'none')} in the checkpoint, {here.get(field, 'none')} in this job"
        for field in fields
        if saved.get(field, "none") != here.get(field, "none")
    ]
    if shown:
        raise Conflict(f"the checkpoint of dataset {name!r} does not match this job: {'; '.join(shown)}")


def _checked(queue: ShardQueue, entry: Mapping[str, Any]) -> RestoredPosition:
    name, trial = queue.spec.name, ShardQueue(queue.spec)
    try:
        state = entry["state"]
        epoch = state["epoch"]
        if type(epoch) is int and epoch >= queue.spec.epochs:
            raise Conflict(
                f"the checkpoint of dataset {name!r} is beyond the end: epochs: the checkpoint is in epoch {epoch + 1}, "
                f"{queue.spec.epochs} in this job"
            )
        trial.set_position(state)
        trial.check()
        position = trial.position()  # in one form, however it was written down
        position["slowest_s"] = float(position["slowest_s"])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"the checkpoint of dataset {name!r} is corrupt: {error!r}") from error
    digest = blake2b(json.dumps(position, sort_keys=True).encode(), digest_size=16).hexdigest()
    return RestoredPosition(digest, position)
