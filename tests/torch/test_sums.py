"""Sums of gradients: what autograd gives, and the same to the last bit for any order, grouping and history."""

from __future__ import annotations

import math
import random
from functools import partial

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.torch.tree_sums import ALONE, Fleet, Grads, make_worlds, same_bits, sequential, together

from pliant.core.errors import InvalidRequest
from pliant.torch.gradients.buckets import make_buckets, slices
from pliant.torch.gradients.tree_sum import TreeSum
from pliant.torch.worlds.world import World

SHAPES = [(3, 5), (7,), (0,), (40,), (1,)]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64]
VALUES = [0.0, -0.0, 1e-45, 3e38, -3e38, math.inf, -math.inf, math.nan]


def random_grads(units: int, chance: random.Random, dtype: torch.dtype = torch.float32) -> Grads:
    """Of very different sizes, some odd numbers among them; some units use only a part of the parameters, some are empty."""
    made = torch.Generator().manual_seed(chance.randrange(1 << 30))
    grads: list[list[torch.Tensor | None]] = []
    odd = chance.random() < 0.3
    for _ in range(units):
        row: list[torch.Tensor | None] = []
        for shape in SHAPES:
            grad = torch.randn(shape, generator=made) * 10.0 ** chance.randint(-8, 8)
            if odd and grad.numel():
                grad.view(-1)[chance.randrange(grad.numel())] = chance.choice(VALUES)
            row.append(grad.to(dtype) if chance.random() > 0.1 else None)
        grads.append(row if chance.random() > 0.05 else [None] * len(SHAPES))
    return grads


def expected_sums(grads: Grads, dtype: torch.dtype) -> list[torch.Tensor | None]:
    between = {torch.bfloat16: torch.float32, torch.float16: torch.float32}.get(dtype, dtype)
    return [None if total is None else total.to(dtype) for total in sequential(grads, between)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("units", [1, 2, 5, 8, 13])
def test_a_sum_is_the_one_along_the_canonical_tree(units: int, dtype: torch.dtype) -> None:
    grads = random_grads(units, random.Random(units), dtype)
    assert same_bits(Fleet(grads, dtype=dtype).alone(), expected_sums(grads, dtype))


@pytest.mark.parametrize("machines", [1, 0, 2, 3], ids=["memory", "sockets", "two machines", "three machines"])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 16), st.integers(2, 8), st.randoms(use_true_random=False))
def test_the_bits_do_not_depend_on_how_many_workers_there_are(
    machines: int, units: int, n: int, chance: random.Random
) -> None:
    dtype = chance.choice(DTYPES)
    grads = random_grads(units, chance, dtype)
    expected = expected_sums(grads, dtype)
    for result in Fleet(grads, dtype=dtype, machines=machines).commits(range(n)):
        assert same_bits(result, expected)


@pytest.mark.parametrize("machines", [1, 0, 2, 3], ids=["memory", "sockets", "two machines", "three machines"])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 16), st.integers(2, 8), st.randoms(use_true_random=False))
def test_the_bits_do_not_depend_on_deaths_and_joins_in_the_step(
    machines: int, units: int, n: int, chance: random.Random
) -> None:
    dtype = chance.choice(DTYPES)
    grads = random_grads(units, chance, dtype)
    expected = expected_sums(grads, dtype)
    fleet, members, names = Fleet(grads, dtype=dtype, machines=machines), list(range(n)), n
    while len(members) > 1 and chance.random() < 0.8:
        dying = {name: chance.choice(["before", "after"]) for name in members if chance.random() < 0.4}
        if len(dying) in (0, len(members)):
            break
        fleet.breaks(members, dying, random_seats(units, len(members), chance))
        members = [name for name in members if name not in dying]
        for _ in range(chance.choice([0, 0, 1, 2])):
            members.append(names)
            names += 1
        chance.shuffle(members)
    for _ in range(2):  # buffers are used again in the next step
        for result in fleet.commits(members, random_seats(units, len(members), chance)):
            assert same_bits(result, expected)


def random_seats(units: int, n: int, chance: random.Random) -> list[int] | None:
    if chance.random() < 0.5:
        return None
    cuts = sorted(chance.randint(0, units) for _ in range(n - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, units], strict=True)]


def test_a_parameter_that_nobody_used_has_no_gradient() -> None:
    grads: Grads = [[None, torch.ones(2)], [None, torch.ones(2)]]
    assert Fleet(grads).alone()[0] is None
    for result in Fleet(grads).commits([0, 1, 2]):
        assert result[0] is None
        assert result[1] is not None
        assert result[1].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("value", [5e-324, 1e-310, 1e-45, 1e38, 1e280])
def test_the_smallest_and_largest_numbers_are_summed(value: float) -> None:
    grads = [[torch.tensor([value], dtype=torch.float64)] for _ in range(2)]
    (total,) = Fleet(grads, dtype=torch.float64).alone()
    assert total is not None
    assert total.item() == 2 * value


def test_half_precision_is_summed_in_single_precision() -> None:
    grads = [[torch.tensor([256.0 if unit == 0 else 1.0], dtype=torch.bfloat16)] for unit in range(5)]
    (total,) = Fleet(grads, dtype=torch.bfloat16).alone()
    assert total is not None
    assert total.item() == 260.0


def test_types_that_cannot_be_added_up_are_refused_at_once() -> None:
    odd = torch.nn.Parameter(torch.zeros(2, dtype=torch.float8_e4m3fn), requires_grad=False)
    with pytest.raises(InvalidRequest, match="float8"):
        tree(1).begin_step({0: odd})


def tree(units: int) -> TreeSum:
    return TreeSum(bucket_bytes=64, units=units, overlap=True)


def test_a_sum_is_what_autograd_gathers() -> None:
    model = torch.nn.Linear(3, 2)
    x = torch.randn(8, 3)
    model(x).pow(2).mean().backward()
    expected = [p.grad for p in model.parameters()]
    total = tree(4)
    total.begin_step(dict(enumerate(model.parameters())))
    total.begin_round(ALONE, [frozenset(range(4))])
    for unit, part in enumerate(torch.split(x, 2)):
        total.begin_unit(unit, last=False)
        total.begin_backward()
        (model(part).pow(2).mean() / 4).backward()
        total.end_backward()
    assert total.start() == []
    total.store(total.used())
    for param, grad in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(param.grad, grad)


def test_sparse_gradients_become_dense_alone_as_they_do_among_many() -> None:
    table = torch.nn.Embedding(5, 2, sparse=True)
    total = TreeSum(bucket_bytes=64, units=2, overlap=False)
    total.begin_step(dict(enumerate(table.parameters())))
    total.begin_round(ALONE, [frozenset(range(2))])
    for unit in range(2):
        total.begin_unit(unit, last=True)
        total.begin_backward()
        table(torch.tensor([1, 1])).sum().backward()
        total.end_backward()
    total.start()
    total.store(total.used())
    assert table.weight.grad is not None
    assert not table.weight.grad.is_sparse
    assert table.weight.grad[1].tolist() == [4.0, 4.0]


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from([torch.float32, torch.float64]))), st.integers(1, 512))
def test_buckets_hold_each_parameter_once_whole_and_by_type(sizes: list[tuple[int, torch.dtype]], most: int) -> None:
    params = [torch.nn.Parameter(torch.zeros(size, dtype=dtype)) for size, dtype in sizes]
    buckets = make_buckets(params, most)
    assert sorted(place for bucket in buckets for place in bucket.params) == list(range(len(params)))
    for bucket in buckets:
        flat = torch.zeros(bucket.numel, dtype=bucket.dtype)
        views = slices(bucket, flat, params)
        assert [view.shape for view in views] == [params[place].shape for place in bucket.params]
        assert {params[place].dtype for place in bucket.params} == {bucket.dtype}
        for view in views:
            view.add_(1)
            assert view.numel() == 0 or (view.data_ptr() - flat.data_ptr()) % 64 == 0
        assert flat.max() <= 1 if bucket.numel else True
        assert len(bucket.params) == 1 or flat.nbytes <= most


@pytest.mark.parametrize("lent", [False, True])
def test_parameters_whose_gradients_share_memory_are_summed_apart(lent: bool) -> None:
    """Autograd gives both one memory, at different addresses of Python."""
    total = tree(4)
    a, b = torch.nn.Parameter(torch.zeros(2, 2)), torch.nn.Parameter(torch.zeros(4))
    total.begin_step({0: a, 1: b})
    total.begin_round(ALONE, [frozenset(range(4))])
    for unit in range(4):
        total.begin_unit(unit, last=unit == 3)
        total.begin_backward()
        (a.view(-1) + b.view(4)).mul(torch.full((4,), 2.0**unit)).sum().backward()  # type: ignore[no-untyped-call]
        assert a.grad is not None
        assert b.grad is not None
        assert a.grad.data_ptr() == b.grad.data_ptr()
        total.end_backward()
        for node in total._sums.nodes:
            total._sums[node].lent = lent
    total.start()
    total.store(total.used())
    of_a, of_b = a.grad, b.grad
    assert of_a is not None
    assert of_b is not None
    assert of_a.tolist() == [[15.0, 15.0]] * 2
    of_a.mul_(2)
    assert of_b.tolist() == [15.0] * 4


def test_a_parameter_may_change_its_type_and_shape_between_steps() -> None:
    total = tree(1)
    param = torch.nn.Parameter(torch.zeros(2))
    for value in (torch.ones(2), torch.full((2,), 1 + 2.0**-40, dtype=torch.float64), torch.ones(3, 2)):
        param.data = value
        total.begin_step({0: param})
        worlds = make_worlds(2)
        spare = tree(1)
        other = torch.nn.Parameter(torch.zeros_like(value))
        spare.begin_step({0: other})
        together([partial(_one_unit, total, worlds[0], param), partial(_one_unit, spare, worlds[1], None)])
        for result in (param.grad, other.grad):
            assert result is not None
            assert result.dtype == value.dtype
            assert torch.equal(result, value)


def _one_unit(total: TreeSum, world: World, param: torch.nn.Parameter | None) -> None:
    """A step of two workers; the one without the parameter has no unit."""
    total.begin_round(world, [frozenset([0]), frozenset()])
    if param is not None:
        total.begin_unit(0, last=True)
        total.begin_backward()
        (param * param.detach()).sum().backward()  # type: ignore[no-untyped-call]
        total.end_backward()
    world.finish(total.start())
    world.finish([world.allreduce(torch.zeros(1, dtype=torch.int64))])
    total.reduce()
    total.store([1])
    world.leave()


@pytest.mark.parametrize("way", ["memory", "sockets", "two machines"])
def test_a_gradient_that_the_program_keeps_stays_what_it_was(way: str) -> None:
    """Also an optimizer that keeps the last gradient without a copy computes the same for any number of workers."""
    workers = 3
    worlds = make_worlds(workers)
    kept: list[list[torch.Tensor]] = [[] for _ in worlds]

    def work(rank: int) -> None:
        world = worlds[rank]
        total = tree(workers)
        total.machine = {"sockets": None, "memory": 1}.get(way, rank % 2 + 1)
        param = torch.nn.Parameter(torch.zeros(4))
        for step in range(4):
            total.begin_step({0: param})
            total.begin_round(world, [frozenset([r]) for r in range(workers)])
            total.begin_unit(rank, last=True)
            total.begin_backward()
            (param * float(step)).sum().backward()  # type: ignore[no-untyped-call]
            total.end_backward()
            world.finish([*total.start(), world.allreduce(torch.zeros(1, dtype=torch.int64))])
            total.reduce()
            total.store([1])
            assert param.grad is not None
            kept[rank].append(param.grad.detach())
        world.finish([world.allreduce(torch.zeros(1, dtype=torch.int64))])
        world.leave()

    together([partial(work, rank) for rank in range(workers)])
    for grads in kept:
        assert [grad.tolist() for grad in grads] == [[float(workers * step)] * 4 for step in range(4)]
