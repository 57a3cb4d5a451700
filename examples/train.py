"""The first program of the README: elastic training of a small network on scikit-learn's digits.

python examples/train.py                                             # alone
pliant run --workers 1:4 --name mine -- python examples/train.py     # the same weights on one to four workers
"""

import hashlib
import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import pliant.torch as elastic

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 80
pixels, labels = load_digits(return_X_y=True)
images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
dataset = TensorDataset(images, torch.tensor(labels))

torch.manual_seed(0)  # every worker builds the same model
model = nn.Sequential(
    nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(1024, 10),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

trainer = elastic.Trainer(model, optimizer, virtual_workers=8)
for step in trainer.steps(dataset, micro_batch=16, epochs=epochs):
    for x, y in step:  # this worker's share of the step's 8 micro-batches
        step.backward(nn.functional.cross_entropy(model(x), y))
    if trainer.rank == 0 and step.number == 0:
        print(f"epoch {step.epoch}: loss {step.loss:.4f}, world size {trainer.world_size}", flush=True)

if trainer.rank == 0:
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"weights: {hashlib.sha256(weights).hexdigest()[:16]}", flush=True)
