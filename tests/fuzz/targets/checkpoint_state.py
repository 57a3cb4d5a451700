"""The header of a state that a peer sends."""

from __future__ import annotations

from pathlib import Path

import torch

from pliant.checkpoint.packing import data_bytes, pack, views


class Fuzz:
    name = "checkpoint_state"

    def seeds(self) -> list[bytes]:
        state = {"w": torch.arange(10.0), "t": torch.tensor(3), "o": [{"lr": 0.1, "b": (0.9, 1)}], "k": {1: b"x"}}
        return [pack(state).header]

    def check(self, data: bytes, folder: Path) -> None:
        if data_bytes(data) <= 1 << 20:
            views(data, torch.zeros(data_bytes(data), dtype=torch.uint8))
