"""Buffers are those of virtual worker 0, however a module changes them."""

from __future__ import annotations

import pytest
import torch

from pliant.core.errors import InvalidRequest
from pliant.torch.module_buffers import ModuleBuffers


class Counting(torch.nn.Module):
    """Changes one buffer in place and puts a new tensor in the place of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last", torch.zeros(3), persistent=False)
        self.seen: torch.Tensor
        self.last: torch.Tensor

    def forward(self, x: torch.Tensor) -> None:
        self.seen += 1
        self.last = self.last * 0.5 + x


def lane_of(buffers: ModuleBuffers) -> torch.Tensor:
    lane = torch.zeros(buffers.words, dtype=torch.int64)
    buffers.put(lane)
    return lane


def test_only_what_unit_0_made_of_them_is_kept() -> None:
    model = Counting()
    buffers = ModuleBuffers(model)
    buffers.begin_step()
    for unit, value in ((1, 7.0), (0, 2.0), (2, 9.0)):
        model(torch.full((3,), value))
        buffers.end_unit(unit)
        assert (model.seen.item(), model.last.tolist()) == (0, [0, 0, 0])
    buffers.take(lane_of(buffers))
    assert (model.seen.item(), model.last.tolist()) == (1, [2, 2, 2])


def test_they_reach_a_worker_that_did_not_have_unit_0() -> None:
    one, other = Counting(), Counting()
    had, got = ModuleBuffers(one), ModuleBuffers(other)
    for model, buffers, unit in ((one, had, 0), (other, got, 1)):
        buffers.begin_step()
        model(torch.tensor([1.0, float("nan"), -0.0]))
        buffers.end_unit(unit)
    got.take(lane_of(had) + lane_of(got))
    assert other.last.numpy().tobytes() == torch.tensor([1.0, float("nan"), 0.0]).numpy().tobytes()
    assert other.seen.item() == 1


def test_those_that_are_not_persistent_travel_with_the_state() -> None:
    one, other = Counting(), Counting()
    one.last = torch.ones(3)
    assert list(ModuleBuffers(one).state()) == ["last"]
    ModuleBuffers(other).load_state(ModuleBuffers(one).state())
    assert other.last.tolist() == [1, 1, 1]


def test_a_buffer_that_changes_its_shape_is_refused() -> None:
    model = Counting()
    buffers = ModuleBuffers(model)
    buffers.begin_step()
    model.last = torch.zeros(4)
    with pytest.raises(InvalidRequest, match="last of a Counting changed its shape"):
        buffers.end_unit(0)


def test_a_buffer_that_two_modules_share_is_one() -> None:
    one, other = Counting(), Counting()
    other.seen = one.seen
    buffers = ModuleBuffers(torch.nn.ModuleList([one, other]))
    buffers.begin_step()
    one(torch.ones(3))
    other(torch.ones(3))
    buffers.end_unit(0)
    buffers.take(lane_of(buffers))
    assert one.seen.item() == other.seen.item() == 2


def test_a_model_without_buffers_needs_no_lane() -> None:
    buffers = ModuleBuffers(torch.nn.Linear(1, 1))
    buffers.begin_step()
    buffers.end_unit(0)
    assert buffers.words == 0
    buffers.take(lane_of(buffers))
