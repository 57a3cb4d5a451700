"""A model file with a learning-rate schedule, for parameter servers."""

from __future__ import annotations

FILE = """
import os, time
import torch
from torch import nn
from pliant.torch import Embedding

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = Embedding("bias", 1, initializer="zeros", feature="id")
        self.line = nn.Linear(1, 1)
        nn.init.constant_(self.line.weight, 0.5)
        nn.init.constant_(self.line.bias, 0.0)

    def forward(self, features):
        time.sleep(float(os.environ.get("PLIANT_TEST_PAUSE", "0")))
        return (self.line(features["x"]) + self.bias(features["id"])).squeeze(1)

def loss(labels, predictions):
    return nn.functional.mse_loss(predictions, labels.float())

def optimizer(model):
    groups = [{"params": model.line.parameters()}, {"params": model.bias.parameters(), "lr": 0.2}]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9)

def learning_rate_schedule(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda k: 0.9 ** k, lambda k: 1 / (1 + k // 3)])

def dataset_fn(dataset, mode, metadata):
    return dataset.map(
        lambda row: ({"x": torch.tensor([float(row["x"])]), "id": torch.tensor(int(row["id"]))}, float(row["label"]))
    )
"""
