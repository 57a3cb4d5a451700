"""Elastic training with PyTorch: a fixed number of virtual workers on whatever machines there are.

import pliant.torch as elastic

trainer = elastic.Trainer(model, optimizer, virtual_workers=8)
for step in trainer.steps(dataset, micro_batch=32, epochs=3):
    for x, y in step:
        step.backward(F.cross_entropy(model(x), y))
"""

from pliant.torch.plan import StepPlan
from pliant.torch.step import Step
from pliant.torch.trainer import Trainer

__all__ = ["Step", "StepPlan", "Trainer"]
