from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pliant.checkpoint import data_bytes, flatten, pack, unflatten, unpack, views
from pliant.checkpoint.state import descend, tensor_names
from pliant.core.errors import CorruptData, InvalidRequest

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.uint16,
    torch.int32,
    torch.uint32,
    torch.int64,
    torch.uint64,
    torch.bool,
    torch.complex64,
    torch.complex128,
]


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    count = int(np.prod(shape)) * dtype.itemsize
    raw = draw(st.binary(min_size=count, max_size=count))
    if dtype is torch.bool:
        raw = bytes(byte & 1 for byte in raw)
    tensor = torch.frombuffer(bytearray(raw), dtype=dtype) if raw else torch.empty(0, dtype=dtype)
    tensor = tensor.reshape(shape)
    return tensor.transpose(0, -1) if draw(st.booleans()) and tensor.dim() > 1 else tensor


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary(max_size=20)
    | tensors()
    | st.sampled_from([torch.float32, torch.bfloat16, torch.device("cpu")])
)
keys = st.text() | st.integers() | st.sampled_from(["!tensor", "__metadata__", "a.b", "0"])
states = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=3).map(OrderedDict)
    ),
    max_leaves=15,
)


@given(states)
def test_any_state_comes_back_as_it_was(same: Any, state: Any) -> None:
    structure, named = flatten(state)
    assert same(unflatten(json.loads(json.dumps(structure)), named), state)
    assert set(tensor_names(structure)) == set(named)


@given(states)
def test_any_state_can_be_sent_to_a_peer(same: Any, state: Any) -> None:
    packed = pack(state)
    buffer = torch.empty(data_bytes(packed.header), dtype=torch.uint8)
    packed.copy_into(buffer)
    assert same(views(packed.header, buffer), state)
    own = unpack(packed.header, buffer)
    buffer.zero_()
    assert same(own, state)


@given(st.data())
def test_a_damaged_header_of_a_peer_is_refused_and_nothing_else(data: st.DataObject) -> None:
    packed = pack({"a": torch.arange(5), "b": [1, (2.0, b"x")]})
    header = bytearray(packed.header)
    for _ in range(data.draw(st.integers(1, 3))):
        header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CorruptData):
        views(bytes(header), torch.zeros(packed.nbytes, dtype=torch.uint8))


def test_tied_weights_are_stored_once_and_stay_tied() -> None:
    weight = torch.randn(3, 3)
    structure, named = flatten(
        {"in": weight, "out": weight, "view": weight[:2], "parameter": torch.nn.Parameter(weight)}
    )
    assert set(named) == {"in", "view"}
    back = unflatten(structure, named)
    assert back["in"] is back["out"]


def test_two_empty_tensors_stay_two() -> None:
    _, named = flatten([torch.empty(0), torch.empty(0)])
    assert len(named) == 2


def test_what_optimizers_and_schedulers_keep_comes_back() -> None:
    model = torch.nn.Linear(4, 2)
    adam = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 4)).sum().backward()
    adam.step()
    schedule = torch.optim.lr_scheduler.MultiStepLR(adam, [2, 5])
    state = {"adam": adam.state_dict(), "schedule": schedule.state_dict(), "rng": torch.get_rng_state()}
    structure, named = flatten(state)
    back = unflatten(json.loads(json.dumps(structure)), named)
    assert type(back["schedule"]["milestones"]) is Counter
    torch.optim.Adam(model.parameters()).load_state_dict(back["adam"])


def test_numpy_arrays_and_numbers_come_back_as_such() -> None:
    random: Any = np.random.RandomState(3).get_state()
    structure, named = flatten({"state": random, "loss": np.float64(0.5), "reversed": np.arange(5)[::-1]})
    back = unflatten(structure, named)
    assert back["state"][1].dtype == np.uint32
    assert np.array_equal(back["state"][1], random[1])
    assert type(back["loss"]) is np.float64
    assert back["reversed"].tolist() == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"model": {"fn": print}}, "model.fn is a builtins.builtin_function_or_method"),
        ([{"x": {1, 2}}], "0.x is a builtins.set"),
        ({"a": {(1, 2): 3}}, "a has the key (1, 2)"),
        ({"a": {True: 3}}, "a has the key True"),
        ({"s": torch.eye(2).to_sparse()}, "s is a torch.sparse_coo tensor"),
        ({"m": torch.empty(2, device="meta")}, "m is a meta tensor"),
        ({"b": b"x" * 2_000_000}, "b has 2,000,000 bytes"),
        ({"t": np.array(["x"])}, "t is an array of"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_path(state: Any, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says.replace("(", r"\(").replace(")", r"\)")):
        flatten(state)


def test_a_part_of_the_structure_is_found_by_its_keys() -> None:
    structure, _ = flatten({"a": OrderedDict(b={3: {"c": 1}})})
    assert descend(structure, "a.b.3.c") == 1
    with pytest.raises(KeyError, match="b"):
        descend(structure, "a.x")


def test_a_buffer_too_small_is_refused() -> None:
    packed = pack([torch.ones(100)])
    with pytest.raises(ValueError, match="at least"):
        packed.copy_into(torch.empty(10, dtype=torch.uint8))
    with pytest.raises(CorruptData):
        views(packed.header, torch.empty(10, dtype=torch.uint8))


def test_dictionaries_keep_their_type_but_for_the_function_of_a_defaultdict() -> None:
    state = {
        "plain": {"a": 1},
        "ordered": OrderedDict(b=2),
        "counter": Counter("xxy"),
        "default": defaultdict(list, c=[3]),
    }
    structure, named = flatten(state)
    back = unflatten(json.loads(json.dumps(structure)), named)
    assert back == state
    assert [type(back[name]) for name in state] == [dict, OrderedDict, Counter, dict]
