"""A model as its parameter servers dumped it, in the form in which torch modules load it.

A dump is one version on all servers. Its chunks come in the order in which they were written, so a later one replaces what an
earlier one had of the same row or block.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from pliant.core.errors import CorruptData, InvalidRequest
from pliant.ps.files import read_manifest
from pliant.ps.payloads import BlockState, Floats, Ids, RowBatch
from pliant.ps.placement import blocks_of
from pliant.ps.recovery.dumps import load
from pliant.torch.tables.embedding import Embedding, EmbeddingBag


def state_of_dump(model: nn.Module, dump: Path) -> tuple[int, dict[str, torch.Tensor]]:
    """The iteration of the dump, and the state of a model without servers that has these parameters.

    What the servers do not have (buffers, parameters that are not trained) is as in ``model``.
    """
    manifest = read_manifest(dump)
    dims = {str(table["name"]): int(table["dim"]) for table in manifest.tables}
    dense: dict[str, dict[int, Floats]] = {}
    rows: dict[str, tuple[Ids, Floats]] = {}
    for chunk in load(dump, None, lambda chunk: chunk):
        if isinstance(chunk, BlockState):
            dense.setdefault(chunk.variable, {})[chunk.block] = chunk.data[0]
        elif isinstance(chunk, RowBatch):
            if chunk.data.shape[1] < dims.get(chunk.table, chunk.data.shape[1] + 1):
                raise CorruptData(f"the dump {dump} has rows of {chunk.data.shape[1]} floats for table {chunk.table!r}")
            rows[chunk.table] = _put(rows.get(chunk.table), chunk.ids, chunk.data[:, : dims[chunk.table]])
        elif chunk.table in rows:
            ids, values = rows[chunk.table]
            stay = ~np.isin(ids, chunk.ids)
            rows[chunk.table] = ids[stay], values[stay]
    state = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
    names = _names_of_parameters(model)
    for name, blocks in dense.items():
        if name not in state:
            raise InvalidRequest(
                f"the dump {dump} has a variable {name!r}, which the model does not have",
                hint="pass the --model, --model-class and --model-params that it was trained with",
            )
        value = _whole(name, blocks, state[name].shape)
        state |= dict.fromkeys(names.get(name, [name]), value)
    for prefix, module in model.named_modules(remove_duplicate=False):  # a state has a table under each of its names
        if isinstance(module, Embedding | EmbeddingBag):
            none = np.empty(0, np.int64), np.empty((0, module.spec.dim), np.float32)
            ids, values = rows.get(module.spec.name, none)
            state |= table_state(prefix, ids, values)
    return manifest.iteration, state


def _names_of_parameters(model: nn.Module) -> dict[str, list[str]]:
    """A parameter that is used several times is one on the servers, under its first name; in a state it is under each."""
    first: dict[nn.Parameter, str] = {}
    names: dict[str, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(first.setdefault(parameter, name), []).append(name)
    return names


def table_state(prefix: str, ids: Ids, values: Floats) -> Mapping[str, torch.Tensor]:
    order = np.argsort(ids)
    before = f"{prefix}." if prefix else ""
    return {before + "ids": torch.from_numpy(ids[order]), before + "rows": torch.from_numpy(values[order])}


def _put(had: tuple[Ids, Floats] | None, ids: Ids, values: Floats) -> tuple[Ids, Floats]:
    if had is None:
        return ids, values
    all_ids, all_values = np.concatenate([ids, had[0]]), np.concatenate([values, had[1]])
    _, first = np.unique(all_ids, return_index=True)  # the new ones are in front
    return all_ids[first], all_values[first]


def _whole(name: str, blocks: dict[int, Floats], shape: torch.Size) -> torch.Tensor:
    cuts = blocks_of(shape.numel())
    for block, (_, length) in enumerate(cuts):
        if block not in blocks:
            raise CorruptData(f"the dump lacks block {block} of {name!r}")
        if blocks[block].size != length:
            raise CorruptData(f"the dump has {blocks[block].size} of {length} floats of block {block} of {name!r}")
    return torch.from_numpy(np.concatenate([blocks[block] for block in range(len(cuts))])).reshape(shape)
