"""Elastic training with PyTorch: a fixed number of virtual workers on whatever machines there are.

import pliant.torch as elastic

trainer = elastic.Trainer(model, optimizer, virtual_workers=8)
for step in trainer.steps(dataset, micro_batch=32, epochs=3):
    for x, y in step:
        step.backward(F.cross_entropy(model(x), y))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pliant.torch.plan import StepPlan
from pliant.torch.step import Step
from pliant.torch.trainer import Trainer

if TYPE_CHECKING:
    from pliant.torch.tables.embedding import Embedding, EmbeddingBag

__all__ = ["Embedding", "EmbeddingBag", "Step", "StepPlan", "Trainer"]


def __getattr__(name: str) -> Any:
    if name in ("Embedding", "EmbeddingBag"):  # they need numba, which takes its time to load
        from pliant.torch.tables import embedding

        return getattr(embedding, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
