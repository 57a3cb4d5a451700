"""Failures that would repeat after a restart are recognised, and name the step and the records."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.native.points import make_points
from torch import nn

from pliant.data import open_reader
from pliant.native.failures import PermanentFailure, check_gradients, check_loss, records_text
from pliant.native.model_file.feed import Batch


def test_records_are_named_as_a_person_finds_them(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        make_points(tmp_path / name, 10)
    reader = open_reader(str(tmp_path / "*.csv"))
    told = records_text([8, 9, 10], reader)
    assert told.startswith("3 records: ")
    assert told.replace(f"{tmp_path}/", "") == "3 records: a.csv 8, 9; b.csv 0"
    assert records_text(range(20), reader).endswith("7, …")
    assert "1 record:" in records_text([0], reader)


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_no_number_is_refused_with_step_and_records(tmp_path: Path, loss: float) -> None:
    reader = open_reader(str(make_points(tmp_path / "a.csv", 4)))
    batch = Batch(torch.zeros(2, 1), torch.zeros(2), [1, 2])
    check_loss(0.5, 3, batch, reader)
    with pytest.raises(PermanentFailure, match=f"the loss of step 3 is {loss}, of 2 records: .*a.csv 1, 2"):
        check_loss(loss, 3, batch, reader)


def test_a_gradient_that_is_no_number_is_refused_and_one_whose_sum_is_too_large_is_not() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1), nn.Embedding(4, 2, sparse=True))
    check_gradients(1, net.named_parameters())  # none at all
    for parameter in net.parameters():
        parameter.grad = torch.full_like(parameter, 3e38)
    rows = torch.tensor([[3.0, float("nan")]])
    net[2].weight.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 2), (4, 2), check_invariants=True)
    check_gradients(1, net.named_parameters())
    net[2].weight.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), rows, (4, 2), check_invariants=True)
    with pytest.raises(PermanentFailure, match=r"the gradient of 2\.weight in step 7 has NaN or infinity"):
        check_gradients(7, net.named_parameters())
