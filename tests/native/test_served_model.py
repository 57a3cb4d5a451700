"""A worker's copy of a model that servers have: batches that are begun anew, and modules of all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from tests.ps.crew import Crew
from torch import nn

from pliant.native.feed import Batch
from pliant.native.strategies.served_model import ServedModel
from pliant.ps.client import PsClient
from pliant.ps.specs import DenseSpec, InitializerSpec, OptimizerSpec
from pliant.torch import EmbeddingBag
from pliant.torch.embedding import tables_of

FEATURES = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])


@dataclass
class Served:
    crew: Crew
    client: PsClient
    served: ServedModel


@contextmanager
def serving(model: nn.Module, *, sync: bool = True) -> Iterator[Served]:
    """The model's trained parameters on a server of this process."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad and p.numel()}
    rule, begin = OptimizerSpec("sgd", 0.01), InitializerSpec("uniform")
    variables = [DenseSpec(name, tuple(p.shape), rule, begin) for name, p in named.items()]
    crew = Crew(variables, servers=1, sync=sync, tables=[table.spec for table in tables_of(model).values()])
    client = PsClient(crew, patience=20)
    served = ServedModel(client, model, named)
    try:
        yield Served(crew, client, served)
    finally:
        served.close()
        client.close()
        crew.close()


def batch_of(features: Any, size: int = 2) -> Batch:
    return Batch(features, torch.zeros(size, 1), list(range(size)))


def loss(labels: torch.Tensor, predictions: torch.Tensor) -> torch.Tensor:
    return ((predictions - labels) ** 2).mean()


@pytest.mark.parametrize("sync", [True, False])
def test_a_batch_of_which_a_table_gets_nothing_but_padding_is_computed(sync: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tags = EmbeddingBag("tags", 4, padding_idx=-1, feature="tags")
            self.top = nn.Linear(4, 1)

        def forward(self, features: dict[str, torch.Tensor]) -> torch.Tensor:
            out: torch.Tensor = self.top(self.tags(features["tags"]))
            return out

    net = Net()
    with serving(net, sync=sync) as here:
        here.served.compute(batch_of({"tags": torch.tensor([[1, -1], [2, 3]])}), loss)
        assert "tags" in here.served.gradients()[1]
        alone = here.served.compute(batch_of({"tags": torch.full((2, 2), -1)}), loss)
        assert alone == pytest.approx(float(net.top.bias.detach()[0]) ** 2)
        assert here.client.pull({"tags": np.empty(0, np.int64)}, dense=[]).rows["tags"].shape == (0, 4)
