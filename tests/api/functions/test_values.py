"""Values without pickle: what is written is read back with its types, or refused by name."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.api.functions.values import MAX_DEPTH, NotPlain, decode, encode
from pliant.core.errors import CorruptData

keys = st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.tuples(st.integers(), st.text()))
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary())
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner), st.tuples(inner, inner), st.dictionaries(keys, inner)),
    max_leaves=20,
)


def there_and_back(value: object) -> Any:
    plain = encode(value, "result")
    return decode(json.loads(json.dumps(plain.structure, allow_nan=False)), plain.tensors, "a file")


@given(values)
def test_whatever_json_and_tuples_express_comes_back_with_its_types(value: object) -> None:
    assert repr(there_and_back(value)) == repr(value)  # NaN equals nothing, and 1 equals True


def test_numbers_that_other_readers_of_json_would_change_come_back_exactly() -> None:
    for value in (2**53 + 1, -(10**5000), -0.0, math.inf, 5e-324):
        assert there_and_back(value) == value
    assert math.copysign(1, there_and_back(-0.0)) == -1


def test_a_dict_that_looks_like_our_own_form_comes_back_as_it_was() -> None:
    alike: list[dict[str, Any]] = [{"$tuple": [1]}, {"$float": "nan", "a": 1}, {"$": {}}]
    for value in alike:
        assert there_and_back(value) == value


class Point(NamedTuple):
    x: int


def test_what_is_not_plain_is_named_with_its_place() -> None:
    with pytest.raises(NotPlain, match=r"^result\['model'\]\[1\] is a set$"):
        encode({"model": [1, {2}]}, "result")
    with pytest.raises(NotPlain, match=r"test_values\.Point$"):  # it would come back as a tuple
        encode(Point(1), "result")


def test_cycles_and_bottomless_lists_end() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    deep: object = 1
    for _ in range(MAX_DEPTH + 2):
        deep = [deep]
    for value in (cycle, deep):
        with pytest.raises(NotPlain, match="nested deeper"):
            encode(value, "result")


def test_a_value_that_repeats_itself_is_not_expanded_without_end() -> None:
    laughs: object = [1] * 100
    for _ in range(8):
        laughs = [laughs] * 100
    with pytest.raises(NotPlain, match="more than"):
        encode(laughs, "result")


@pytest.mark.parametrize(
    "structure",
    [
        {"$float": "1e5"},
        {"$int": []},
        {"$unknown": 1},
        {"$bytes": "?"},
        {"$tuple": 3},
        {"$torch": "none"},
        {"$dict": [1]},
    ],
)
def test_what_we_do_not_write_is_corrupt(structure: object) -> None:
    with pytest.raises(CorruptData, match="a file is corrupt"):
        decode(structure, {}, "a file")


def test_tensors_and_arrays_are_beside_the_structure_under_readable_names() -> None:
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    value = OrderedDict(
        {
            "weights": torch.ones(2, requires_grad=True),
            "loss": numpy.float32(2.5),
            "all": [numpy.arange(3), torch.tensor(7)],
        }
    )
    plain = encode(value, "result")
    assert set(plain.tensors) == {"weights", "loss", "all.0", "all.1"}
    assert plain.has_torch
    found = decode(plain.structure, plain.tensors, "a file")
    assert found["loss"] == 2.5
    assert type(found["loss"]) is numpy.float32
    assert found["weights"].tolist() == [1, 1]
    assert not found["weights"].requires_grad


def test_tensors_that_have_no_plain_form_are_refused_by_name() -> None:
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    for tensor in (torch.eye(2).to_sparse(), torch.ones(2, device="meta"), numpy.array([object()]), numpy.array(["a"])):
        with pytest.raises(NotPlain, match=r"^result\['x'\] is a"):
            encode({"x": tensor}, "result")
