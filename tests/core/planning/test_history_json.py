from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.planning.histories import NOW, any_history, usual_history

from pliant.core.decoding import MAX_ITEMS, MAX_TEXT
from pliant.core.errors import CorruptData
from pliant.core.planning.history import JobHistory
from pliant.core.planning.history_json import history_from_json, history_to_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


def with_value(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_value(copy[path[0]], path[1:], new)
    return copy


@given(any_history())
def test_every_history_is_the_same_after_a_round_trip(history: JobHistory) -> None:
    sent = json.dumps(history_to_json(history), allow_nan=False)
    assert history_from_json(json.loads(sent)) == history


@given(any_history(), JSON, st.data())
def test_whatever_is_put_in_the_place_of_a_value_is_read_as_its_type_or_refused(
    history: JobHistory, hostile: Any, data: st.DataObject
) -> None:
    sound = history_to_json(history)
    changed = with_value(sound, data.draw(st.sampled_from(places(sound))), hostile)
    try:
        read = history_from_json(changed)
    except CorruptData:
        return
    again = json.dumps(history_to_json(read), allow_nan=False)
    assert history_from_json(json.loads(again)) == read


@given(JSON)
def test_anything_else_than_a_history_is_corrupt(value: Any) -> None:
    with pytest.raises(CorruptData):
        history_from_json(value)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("kind",), "quantum", "history.kind is 'quantum', expected one of queue, allreduce, ps-async, ps-sync"),
        (("configuration", "worker", "replicas"), -1, "history.configuration.worker.replicas is -1, expected int"),
        (("configuration", "worker", "replicas"), 2.0, "history.configuration.worker.replicas is 2.0, expected int"),
        (("configuration", "worker", "replicas"), True, "history.configuration.worker.replicas is True, expected int"),
        (("periods", 1, "rate"), math.nan, "history.periods[1].rate is nan, expected float"),
        (("periods", 1, "rate"), math.inf, "history.periods[1].rate is inf, expected float"),
        (("periods", 1, "rate"), 10**400, "history.periods[1].rate is a huge number, expected float"),
        (("periods", 1, "rate"), "1", "history.periods[1].rate is '1', expected float"),
        (("nodes", 0, "memory_points", 0), [1.0], "history.nodes[0].memory_points[0] has 1 items, expected 2"),
        (("nodes", 0, "name"), "x" * (MAX_TEXT + 1), "history.nodes[0].name is 'xxx"),
        (("pending",), ["n"] * (MAX_ITEMS + 1), "history.pending is of type list, expected an array of at most"),
        (("bounds", "worker", "unit"), 0, "history.bounds.worker.unit is 0, expected at least 1"),
        (("room",), 3, "history.room is 3, expected an object"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(path: tuple[Any, ...], value: Any, named: str) -> None:
    changed = with_value(history_to_json(usual_history()), path, value)
    with pytest.raises(CorruptData) as refused:
        history_from_json(changed)
    assert str(refused.value).startswith(named)
    assert len(str(refused.value)) < 300


def test_a_later_release_may_add_fields_and_an_earlier_one_lack_them() -> None:
    history = replace(usual_history(), replaced_stragglers=0, similar=())
    value = history_to_json(history)
    del value["replaced_stragglers"], value["similar"]
    assert history_from_json({**value, "mood": "good"}) == history
    del value["configuration"]
    with pytest.raises(CorruptData, match=r"history.configuration is missing"):
        history_from_json(value)


def test_numbers_of_numpy_travel_as_numbers() -> None:
    counted: Any = np.int64(3)
    history = replace(usual_history(), deadline=np.float64(NOW), version=counted)
    assert history_from_json(json.loads(json.dumps(history_to_json(history)))) == history
