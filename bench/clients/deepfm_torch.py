"""DeepFM in one process of PyTorch, with sparse gradients: no servers, nothing kept. A peer of ``bench/deepfm.py``.

    python deepfm_torch.py TRAIN TEST ROWS BATCH EPOCHS

Prints one JSON line: records per second after the warm-up, and the loss on the records of TEST.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from deepfm_data import DIM, EPSILON, FIELDS, INITIAL, LAYERS, LEARNING_RATE, WARM_UP, log_loss, unpack
from torch import nn


class DeepFM(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        self.weights = nn.EmbeddingBag(rows + 1, 1, mode="sum", sparse=True, padding_idx=rows)
        self.vectors = nn.Embedding(rows + 1, DIM, sparse=True, padding_idx=rows)
        nn.init.zeros_(self.weights.weight)
        nn.init.uniform_(self.vectors.weight, -INITIAL, INITIAL)
        with torch.no_grad():
            self.vectors.weight[rows] = 0
        first, second, third = (nn.Linear(*shape) for shape in LAYERS)
        self.deep = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)

    def forward(self, ids: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
        vectors = self.vectors(ids)
        first = self.weights(ids).squeeze(1)
        second = 0.5 * (vectors.sum(dim=1) ** 2 - (vectors**2).sum(dim=1)).sum(dim=1)
        deep = self.deep(torch.cat([vectors.flatten(1), age.unsqueeze(1)], dim=1)).squeeze(1)
        return self.bias + first + second + deep


def main() -> None:
    train, test = Path(sys.argv[1]), Path(sys.argv[2])
    rows, batch, epochs = map(int, sys.argv[3:])
    assert LAYERS[0][0] == FIELDS * DIM + 1
    torch.manual_seed(0)
    model = DeepFM(rows)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=LEARNING_RATE, eps=EPSILON)
    ids, age, click = (torch.from_numpy(part) for part in unpack(train))
    starts = range(0, len(ids) - batch + 1, batch)
    steps, step, began = epochs * len(starts), 0, 0.0
    warm = int(WARM_UP * steps)
    for _ in range(epochs):
        for number in torch.randperm(len(starts)).tolist():
            if step == warm:
                began = time.perf_counter()
            some = slice(starts[number], starts[number] + batch)
            optimizer.zero_grad(set_to_none=True)
            logits = model(ids[some], age[some])
            loss = nn.functional.binary_cross_entropy_with_logits(logits, click[some])
            loss.backward()
            optimizer.step()
            step += 1
    rate = (steps - warm) * batch / (time.perf_counter() - began)
    ids, age, click = (torch.from_numpy(part) for part in unpack(test))
    with torch.no_grad():
        logits = model(ids, age)
    print(json.dumps({"records_per_second": rate, "loss": log_loss(logits.numpy(), click.numpy())}))


if __name__ == "__main__":
    main()
