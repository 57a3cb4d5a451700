"""The datasets of a job, each with the map of its shards (``core/shards/shard_map.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pliant.core.shards.shard_map import EpochMap, ShardMap
from pliant.core.status import JobStatus
from pliant.core.status_json import part_to_json
from pliant.dashboard.documents.job import MAX_PARKED

MAX_DATASETS = 50
MAX_PARTITIONS = 500  # of a stream


def data_document(status: JobStatus, maps: Sequence[ShardMap] | None, note: str = "") -> dict[str, Any]:
    """``maps`` None: nobody knows them (any more), and the note says why."""
    by_name = {found.dataset: found for found in maps or ()}
    return {
        "available": maps is not None,
        "note": note,
        "datasets": {
            dataset.name: {
                **part_to_json(dataset),
                "parked": [part_to_json(parked) for parked in dataset.parked[:MAX_PARKED]],
                "parked_total": len(dataset.parked),
                "partitions": [part_to_json(part) for part in dataset.partitions[:MAX_PARTITIONS]],
                "partitions_total": len(dataset.partitions),
                "map": _map(by_name[dataset.name]) if dataset.name in by_name else None,
            }
            for dataset in status.datasets[:MAX_DATASETS]
        },
        "left_out": max(0, len(status.datasets) - MAX_DATASETS),
    }


def _map(found: ShardMap) -> dict[str, Any]:
    return {
        "holders": list(found.holders),
        "epochs": {str(epoch.epoch): _epoch(epoch) for epoch in found.epochs},
        "leases": [asdict(lease) for lease in found.leases],
        "leases_total": found.leases_total,
        "left_out_epochs": found.left_out_epochs,
        "ended_early": found.ended_early,
    }


def _epoch(found: EpochMap) -> dict[str, Any]:
    return {
        "epoch": found.epoch,
        "shards": found.shards,
        "per_cell": found.per_cell,
        "cells": found.cells,
        "done": list(found.done),
        "held": [list(pair) for pair in found.held],
        "complete": found.complete,
    }
