"""Embedding tables in one process: they are torch's own embeddings, but for the number of rows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pliant.core.errors import InvalidRequest
from pliant.ps.specs import InitializerSpec, OptimizerSpec, TableSpec
from pliant.ps.store.store import ParameterStore
from pliant.torch import Embedding, EmbeddingBag
from pliant.torch.tables.embedding import tables_of
from pliant.torch.tables.server_optimizers import server_optimizer

IDS = torch.tensor([[3, 7_000_000_000, 3], [12, 3, 12]])

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=0.05),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.05, amsgrad=True),
}


def twins(dim: int = 4) -> tuple[Embedding, nn.Embedding, dict[int, int]]:
    """A table of ours and a torch embedding with the same rows."""
    ours = Embedding("users", dim, seed=5)
    unique = torch.unique(IDS)
    theirs = nn.Embedding(3, dim, _weight=ours(unique).detach().clone())
    return ours, theirs, {int(i): place for place, i in enumerate(unique)}


def test_a_row_begins_with_the_values_that_a_server_gives_it() -> None:
    spec = TableSpec("users", 4, initializer=InitializerSpec("normal", std=0.2), seed=9)
    store = ParameterStore()
    store.define(spec)
    ids = np.array([1, 2**63 - 1, 77], np.int64)
    out = np.empty((3, 4), np.float32)
    store.pull_rows("users", ids, out)
    here = Embedding("users", 4, initializer=InitializerSpec("normal", std=0.2), seed=9)
    assert torch.equal(here(torch.from_numpy(ids)).detach(), torch.from_numpy(out))


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_rows_learn_as_with_torch(kind: str) -> None:
    ours, theirs, place = twins()
    dense = torch.tensor([[place[int(i)] for i in row] for row in IDS])
    target = torch.linspace(-1, 1, 4)
    mine, other = OPTIMIZERS[kind](ours.parameters()), OPTIMIZERS[kind](theirs.parameters())
    for _ in range(5):
        for optimizer, module, ids in ((mine, ours, IDS), (other, theirs, dense)):
            optimizer.zero_grad()
            ((module(ids) - target) ** 2).sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours(torch.unique(IDS)), theirs(torch.arange(3)), rtol=1e-4, atol=1e-5)


def test_gradients_of_several_passes_add_up_and_zero_grad_forgets_them() -> None:
    ours, theirs, place = twins()
    mine, other = OPTIMIZERS["sgd"](ours.parameters()), OPTIMIZERS["sgd"](theirs.parameters())
    for optimizer, module, rename in ((mine, ours, False), (other, theirs, True)):
        for wanted, weight in (([3], 100.0), ([3, 12], 1.0), ([12], 1.0)):
            ids = torch.tensor([place[i] if rename else i for i in wanted])
            (module(ids).sum() * weight).backward()
            if weight > 1:
                optimizer.zero_grad()
        optimizer.step()
    torch.testing.assert_close(ours(torch.unique(IDS)), theirs(torch.arange(3)))


@pytest.mark.parametrize("mode", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_bag_combines_rows(mode: str, weighted: bool) -> None:
    bag = EmbeddingBag("tags", 3, mode=mode, padding_idx=-1)
    ids = torch.tensor([[5, 6, -1], [9, 9, 9], [-1, -1, -1]])
    weights = torch.tensor([[1.0, 2.0, 9.0], [0.5, 1.0, 1.5], [1.0, 1.0, 1.0]]) if weighted else None
    made = bag(ids, weights=weights)
    single = Embedding("tags", 3)
    for row, given in enumerate(ids.tolist()):
        kept = [(single(torch.tensor([i]))[0], float(weights[row, at]) if weights is not None else 1.0)
                for at, i in enumerate(given) if i >= 0]  # fmt: skip
        total = sum((w * value for value, w in kept), torch.zeros(3))
        by = {"sum": 1.0, "mean": sum(w for _, w in kept), "sqrtn": sum(w * w for _, w in kept) ** 0.5}[mode] or 1.0
        torch.testing.assert_close(made[row], total / by)


def test_a_bag_by_offsets_is_torchs_bag() -> None:
    bag = EmbeddingBag("tags", 3, mode="mean")
    ids, offsets = torch.tensor([4, 5, 4, 6]), torch.tensor([0, 0, 3])
    rows = bag._local.pull(np.arange(7))
    expected = F.embedding_bag(ids, torch.from_numpy(rows), offsets, mode="mean")
    torch.testing.assert_close(bag(ids, offsets), expected)


def test_ids_that_are_overwritten_in_their_buffer_are_looked_up_anew() -> None:
    table = Embedding("users", 4)
    buffer = np.array([1, 2, 1])
    ids = torch.from_numpy(buffer)
    first = table(ids).detach()
    buffer[:] = [5, 6, 7]
    assert torch.equal(table(ids).detach(), table(torch.tensor([5, 6, 7])).detach())
    assert not torch.equal(table(ids).detach(), first)


def test_tables_of_one_feature_have_their_own_padding() -> None:
    ids = torch.tensor([0, 1, 2, 1])
    for padding in (0, 1, None, 2):
        rows = Embedding("users", 4, padding_idx=padding)(ids)
        assert [not row.any() for row in rows] == [number == padding for number in (0, 1, 2, 1)]


def test_gradients_of_gradients_are_those_of_torch() -> None:
    ours, theirs, places = twins()
    other = torch.tensor([[places[int(i)] for i in row] for row in IDS])
    for table, ids in ((ours, IDS), (theirs, other)):
        x = torch.ones(4, requires_grad=True)
        (slope,) = torch.autograd.grad((table(ids) * x).pow(3).sum(), x, create_graph=True)
        slope.pow(2).sum().backward()  # type: ignore[no-untyped-call]
    found = ours.take_gradients()
    assert found is not None
    assert theirs.weight.grad is not None
    expected = theirs.weight.grad[[places[i] for i in found[0].tolist()]]
    np.testing.assert_allclose(found[1], expected.numpy(), rtol=1e-5)


def test_padding_is_zero_and_has_no_row() -> None:
    table = Embedding("users", 2, initializer=InitializerSpec("constant", value=1.0), padding_idx=-1)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.5)
    out = table(torch.tensor([[1, -1], [-1, 2]]))
    assert out.tolist() == [[[1, 1], [0, 0]], [[0, 0], [1, 1]]]
    out.sum().backward()
    optimizer.step()
    assert sorted(table.state_dict()["ids"].tolist()) == [1, 2]


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
def test_a_loaded_table_goes_on_as_if_nothing_had_happened(kind: str) -> None:
    first = Embedding("users", 4)
    again = Embedding("users", 4)

    def learn(table: Embedding, steps: int) -> None:
        optimizer = OPTIMIZERS[kind](table.parameters())
        for _ in range(steps):
            table(IDS).pow(2).sum().backward()
            optimizer.step()

    learn(first, 2)
    again.load_state_dict(copy.deepcopy(first.state_dict()))
    learn(first, 2)
    learn(again, 2)
    assert torch.equal(first(IDS), again(IDS))


def test_a_copied_model_learns_by_itself() -> None:
    model = nn.Sequential(Embedding("users", 2), nn.Linear(2, 1))
    model(IDS).sum().backward()
    torch.optim.Adam(model.parameters()).step()
    twin = copy.deepcopy(model)
    assert torch.equal(model(IDS), twin(IDS))
    model.zero_grad()
    before = model(IDS).detach().clone()
    twin(IDS).sum().backward()
    torch.optim.SGD(twin.parameters(), lr=1.0).step()
    assert torch.equal(model(IDS), before)
    assert not torch.equal(twin(IDS), before)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (torch.tensor([1.5]), "integer tensor"),
        ([1, 2], "integer tensor"),
        (torch.tensor([3, -2]), "-2 is not a valid id"),
        (torch.tensor([3, 10]), "id 10 is out of range for 10"),
        (torch.tensor([True]), "integer tensor"),
    ],
)
def test_bad_ids_are_refused(ids: Any, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        Embedding("users", 2, num_embeddings=10)(ids)


def test_misuse_of_a_bag_is_refused() -> None:
    bag = EmbeddingBag("tags", 2)
    for ids, offsets, weights in (
        (torch.tensor([1, 2]), None, None),
        (torch.tensor([1, 2]), torch.tensor([1]), None),
        (torch.tensor([1, 2]), torch.tensor([0, 5]), None),
        (torch.tensor([[1, 2]]), torch.tensor([0]), None),
        (torch.tensor([[1, 2]]), None, torch.ones(3)),
    ):
        with pytest.raises(InvalidRequest):
            bag(ids, offsets, weights)
    with pytest.raises(InvalidRequest, match="max"):
        EmbeddingBag("tags", 2, mode="max")
    with pytest.raises(InvalidRequest, match="dim"):
        Embedding("tags", 0)
    with pytest.raises(InvalidRequest, match="unknown initializer"):
        Embedding("tags", 2, initializer="magic")


def test_a_gradient_that_is_no_number_leaves_the_table_as_it_was() -> None:
    table = Embedding("users", 2)
    before = table(IDS).detach().clone()
    (table(IDS).sum() * float("nan")).backward()
    with pytest.raises(InvalidRequest, match="nan"):
        torch.optim.SGD(table.parameters(), lr=0.1).step()
    assert torch.equal(table(IDS), before)


def test_state_that_does_not_fit_is_refused() -> None:
    table = Embedding("users", 4)
    with pytest.raises(RuntimeError, match="rows"):
        table.load_state_dict({"ids": torch.arange(2), "rows": torch.zeros(2, 3)})
    with pytest.raises(RuntimeError, match="Missing"):
        table.load_state_dict({})


def test_two_tables_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="two modules"):
        tables_of(nn.ModuleList([Embedding("a", 2), EmbeddingBag("a", 2)]))


def test_optimizers_that_servers_do_not_have_are_refused_by_name() -> None:
    weight = [nn.Parameter(torch.zeros(2))]
    for optimizer, said in (
        (torch.optim.RMSprop(weight), "RMSprop"),
        (torch.optim.SGD(weight, lr=0.1, momentum=0.9, dampening=0.1), "dampening"),
        (torch.optim.Adam(weight, maximize=True), "maximize"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            server_optimizer(optimizer, optimizer.param_groups[0])
    adam = torch.optim.AdamW(weight, lr=torch.tensor(0.25), amsgrad=True)
    spec = server_optimizer(adam, adam.param_groups[0])
    assert spec == OptimizerSpec("amsgrad", learning_rate=0.25, weight_decay=0.01, decoupled=True)
