"""Models as their parameter servers dumped them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from pliant.core.parameters.dumps import Dump
from pliant.native.model_file.saved_models import load_state, save_model
from pliant.native.strategies.server_state import state_of_dump
from pliant.ps.files import dump_folder, write_manifest
from pliant.ps.payloads import BlockState, RowBatch, StateChunk
from pliant.ps.recovery.dumps import write_chunks
from pliant.torch import Embedding


class Tied(nn.Module):
    """A weight and a table, each in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
        self.second.weight = self.first.weight
        self.asked = Embedding("ids", 1)
        self.answered = self.asked


def test_what_is_in_several_places_of_a_model_is_the_servers_in_all_of_them(tmp_path: Path) -> None:
    model = Tied()
    trained = np.arange(4, dtype=np.float32)
    counters = np.zeros((1, 2), np.uint32)
    rows = RowBatch("ids", np.array([7], np.int64), np.array([[0.5]], np.float32), counters)
    chunks: list[StateChunk] = [BlockState("first.weight", 0, trained[None], 3), rows]
    write_chunks(dump_folder(tmp_path, 4) / "seat-0", chunks, facts={})
    write_manifest(tmp_path, Dump(4, 3, True, (0,), {}, (model.asked.spec.to_json(),), (), ()), [])
    version, state = state_of_dump(model, dump_folder(tmp_path, 4))
    save_model(tmp_path / "saved", state, {})
    other = Tied()
    other.load_state_dict(load_state(tmp_path / "saved")[0])
    assert version == 3
    assert other.second.weight.flatten().tolist() == trained.tolist()
    assert other.answered(torch.tensor([7])).item() == 0.5
