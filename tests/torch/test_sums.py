"""Sums of gradients: what autograd gives, and in exact mode the same to the last bit for any order and grouping."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.core.errors import InvalidRequest
from pliant.torch.gradients.buckets import make_buckets, slices
from pliant.torch.gradients.exact_sum import ExactSum
from pliant.torch.gradients.float_sum import FloatSum
from pliant.torch.gradients.gradient_sum import NOT_FINITE
from pliant.torch.worlds.world import Peer, World

ALONE = World(0, 0, [Peer("alone", 0, True, frozenset())])
UNITS = 6

gradients = st.lists(
    st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=3, max_size=3), min_size=UNITS, max_size=UNITS
)


def parameter(*values: float, dtype: torch.dtype = torch.float32) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(values, dtype=dtype))


def worker(param: torch.nn.Parameter) -> ExactSum:
    made = ExactSum(bucket_bytes=1 << 20, units=UNITS)
    made.begin_step({0: param})
    return made


def add(total: ExactSum | FloatSum, param: torch.nn.Parameter, grad: torch.Tensor) -> None:
    total.begin_unit(ALONE, last=False)
    param.grad = grad.clone()
    total.end_unit()


def together(parts: list[ExactSum], param: torch.nn.Parameter, shares: list[list[torch.Tensor]]) -> torch.Tensor:
    """As workers do: a first try, agreed exponents if it does not fit, the sum of all on one of them."""
    for _ in range(2):
        for part, grads in zip(parts, shares, strict=True):
            part.discard()
            for grad in grads:
                add(part, param, grad)
        if sum(part.flags() for part in parts) == 0:
            break
        largest = [max(values) for values in zip(*(part._largest for part in parts), strict=True)]
        for part in parts:
            part._largest = list(largest)
            part.calibrate(ALONE)
    first, *others = parts
    for other in others:
        for mine, theirs in zip(first._sums, other._sums, strict=True):
            mine.add_(theirs)
    first.start(ALONE)
    first.store([1])
    assert param.grad is not None
    return param.grad


@settings(max_examples=100, deadline=None)
@given(gradients, st.randoms(use_true_random=False), st.integers(1, UNITS))
def test_an_exact_sum_does_not_depend_on_order_or_grouping(values: list[list[float]], random: object, n: int) -> None:
    grads = [torch.tensor(row, dtype=torch.float32) / UNITS for row in values]
    param = parameter(0, 0, 0)
    alone = together([worker(param)], param, [grads]).numpy().tobytes()
    random.shuffle(grads)  # type: ignore[attr-defined]
    shares = [grads[at::n] for at in range(n)]
    assert together([worker(param) for _ in range(n)], param, shares).numpy().tobytes() == alone


@settings(max_examples=100, deadline=None)
@given(gradients)
def test_an_exact_sum_is_the_true_sum(values: list[list[float]]) -> None:
    grads = [torch.tensor(row, dtype=torch.float32) for row in values]
    param = parameter(0, 0, 0)
    got = together([worker(param)], param, [grads]).double()
    true = torch.tensor([math.fsum(float(g[at]) for g in grads) for at in range(3)], dtype=torch.float64)
    largest = max((float(g.abs().max()) for g in grads), default=0.0)
    torch.testing.assert_close(got, true, rtol=1e-6, atol=largest * 1e-11 + 1e-45)


def test_a_gradient_of_zeros_needs_no_exponent_and_stays_zero() -> None:
    param = parameter(1, 2)
    total = worker(param)
    add(total, param, torch.zeros(2))
    assert total.flags() == 0
    total.start(ALONE)
    total.store(total.used())
    assert param.grad is not None
    assert param.grad.tolist() == [0, 0]


def test_a_parameter_that_nobody_used_has_no_gradient() -> None:
    param = parameter(1)
    total = worker(param)
    total.begin_unit(ALONE, last=True)
    total.end_unit()
    total.start(ALONE)
    total.store(total.used())
    assert param.grad is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_makes_all_gradients_nan(value: float) -> None:
    param = parameter(1, 2)
    total = worker(param)
    add(total, param, torch.tensor([1.0, value]))
    assert total.flags() >= NOT_FINITE
    total.start(ALONE)
    total.store(total.used(), finite=False)
    assert param.grad is not None
    assert param.grad.isnan().all()


@pytest.mark.parametrize("value", [5e-324, 1e-310, 1e-45, 1e38, 1e280])
def test_the_smallest_and_largest_numbers_are_summed(value: float) -> None:
    param = parameter(0, dtype=torch.float64)
    grad = torch.tensor([value], dtype=torch.float64)
    got = together([worker(param)], param, [[grad, grad]])
    assert got.item() == pytest.approx(2 * value, rel=1e-9, abs=1e-280)


def test_numbers_too_large_for_an_exponent_count_as_not_finite() -> None:
    param = parameter(0, dtype=torch.float64)
    total = worker(param)
    add(total, param, torch.tensor([1e308], dtype=torch.float64))
    assert total.flags() >= NOT_FINITE


def test_exponents_belong_to_parameters_and_not_to_their_place_in_the_list() -> None:
    """A layer that is frozen and thawed again: who joined meanwhile must not scale another way than the others."""
    a, b = parameter(0), parameter(0)
    old, joined = (ExactSum(bucket_bytes=64, units=2) for _ in range(2))
    old.begin_step({0: a, 1: b})
    for param, size in ((a, 1.0), (b, 1e20)):
        old.begin_unit(ALONE, last=False)
        param.grad = torch.tensor([size])
        old.end_unit()
    old.calibrate(ALONE)
    joined.load_state(old.state())
    for total in (old, joined):
        total.begin_step({1: b})
        total.begin_step({0: a})
        total.begin_step({0: a, 1: b})
    assert old.state() == joined.state()
    assert len(old.state()["exponents"]) == 2


def test_complex_parameters_are_refused_by_exact_sums() -> None:
    with pytest.raises(InvalidRequest, match="complex"):
        ExactSum(bucket_bytes=64, units=1).begin_step({0: parameter(1, dtype=torch.complex64)})


def test_types_that_cannot_be_added_up_are_refused_at_once() -> None:
    odd = torch.nn.Parameter(torch.zeros(2, dtype=torch.float8_e4m3fn), requires_grad=False)
    with pytest.raises(InvalidRequest, match="float8"):
        FloatSum(bucket_bytes=64, overlap=True).begin_step({0: odd})


def test_a_float_sum_is_what_autograd_gathers() -> None:
    model = torch.nn.Linear(3, 2)
    x = torch.randn(8, 3)
    model(x).pow(2).mean().backward()
    expected = [p.grad for p in model.parameters()]
    total = FloatSum(bucket_bytes=8, overlap=True)
    total.begin_step(dict(enumerate(model.parameters())))
    for part in torch.split(x, 2):
        total.begin_unit(ALONE, last=False)
        (model(part).pow(2).mean() / 4).backward()
        total.end_unit()
    assert total.start(ALONE) == []
    total.store(total.used())
    for param, grad in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(param.grad, grad)


def test_sparse_gradients_become_dense_alone_as_they_do_among_many() -> None:
    table = torch.nn.Embedding(5, 2, sparse=True)
    for total in (FloatSum(bucket_bytes=64, overlap=False), ExactSum(bucket_bytes=64, units=1)):
        total.begin_step(dict(enumerate(table.parameters())))
        for _ in range(2):
            total.begin_unit(ALONE, last=True)
            table(torch.tensor([1, 1])).sum().backward()
            total.end_unit()
            if isinstance(total, ExactSum) and total.flags():
                total.calibrate(ALONE)
                total.discard()
        total.start(ALONE)
        total.store(total.used())
        assert table.weight.grad is not None
        assert not table.weight.grad.is_sparse
        assert table.weight.grad[1].tolist() == ([4.0, 4.0] if isinstance(total, FloatSum) else [2.0, 2.0])


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([torch.float32, torch.float64]))), st.integers(1, 64))
def test_buckets_hold_each_parameter_once_whole_and_by_type(sizes: list[tuple[int, torch.dtype]], most: int) -> None:
    params = [torch.nn.Parameter(torch.zeros(size, dtype=dtype)) for size, dtype in sizes]
    buckets = make_buckets(params, most)
    assert sorted(place for bucket in buckets for place in bucket.params) == list(range(len(params)))
    for bucket in buckets:
        flat = torch.arange(bucket.numel, dtype=bucket.dtype)
        views = slices(bucket, flat, params)
        assert [view.shape for view in views] == [params[place].shape for place in bucket.params]
        assert {params[place].dtype for place in bucket.params} == {bucket.dtype}
        assert torch.cat([v.reshape(-1) for v in views]).tolist() == flat.tolist()
        assert len(bucket.params) == 1 or flat.nbytes <= most
