from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

import pytest

from pliant.core.errors import CorruptData
from pliant.core.events import (
    EvaluationDone,
    Event,
    EventKind,
    EventRecord,
    NodeRemoved,
    ParametersDefined,
    TrainingStopped,
    WorldFormed,
    describe,
    event_from_facts,
    event_type,
)
from pliant.rpc.events import event_from, event_message

VALUES: dict[type, Any] = {str: "worker-7", int: 1_234_567_890_123, float: 12.5, bool: True}


def an_event(kind: EventKind) -> Event:
    cls = event_type(kind)
    hints = {name: hint for name, hint in get_type_hints(cls).items() if get_origin(hint) is not ClassVar}
    return cls(**{name: a_value(hint) for name, hint in hints.items()})


def a_value(hint: Any) -> Any:
    if get_origin(hint) is tuple:
        return (a_value(get_args(hint)[0]),) * 2
    if get_origin(hint) is Mapping:
        return {"loss": 0.25}
    return next(iter(hint)) if issubclass(hint, StrEnum) else VALUES[hint]


@pytest.mark.parametrize("kind", EventKind)
def test_facts_survive_json_and_the_wire(kind: EventKind) -> None:
    event = an_event(kind)
    assert event.kind is kind
    assert event_from_facts(kind.value, json.loads(json.dumps(event.facts()))) == event
    record = EventRecord(3, 1.5, event)
    assert EventRecord.from_json(json.loads(json.dumps(record.to_json()))) == record
    assert event_from(event_message(record)) == record


@pytest.mark.parametrize("kind", EventKind)
def test_the_sentence_says_whom_it_concerns(kind: EventKind) -> None:
    event = an_event(kind)
    sentence = describe(event)
    assert sentence
    assert EventRecord(1, 0.0, event).node in sentence
    assert event_message(EventRecord(1, 0.0, event)).message == sentence


@pytest.mark.parametrize("kind", EventKind)
def test_the_reason_of_a_kubernetes_event_is_one_word_in_camel_case(kind: EventKind) -> None:
    assert kind.reason.isalnum()
    assert kind.reason[0].isupper()


def test_a_metric_that_is_no_number_travels_too() -> None:
    event = EvaluationDone(version=1, metrics={"loss": float("nan"), "best": float("inf")}, records=0)
    assert json.loads(json.dumps(event.facts(), allow_nan=False))["metrics"] == {"loss": "nan", "best": "inf"}
    found = event_from(event_message(EventRecord(1, 0.0, event))).event
    assert describe(found) == describe(event) == "version 1: best inf, loss nan"


def test_texts_are_cut_and_made_storable() -> None:
    event = NodeRemoved(node="worker-0", grace_s=0.0, reason="half a pair: \ud800" + "x" * 100_000).cleaned()
    assert isinstance(event, NodeRemoved)
    assert event.reason.startswith("half a pair: ?x")
    assert len(event.reason) == 4000


def test_texts_inside_lists_are_made_storable_too() -> None:
    event = ParametersDefined(tables=("half a pair: \ud800",), variables=()).cleaned()
    assert event_from(event_message(EventRecord(1, 0.0, event))).event == event
    scored = EvaluationDone(version=1, metrics={"\ud800": 0.5}, records=0).cleaned()
    assert event_from(event_message(EventRecord(1, 0.0, scored))).event == scored


def test_a_sentence_about_very_many_nodes_is_cut() -> None:
    members = tuple(f"worker-{number}" for number in range(5000))
    assert len(describe(WorldFormed(round=1, members=members, reason="a node joined"))) == 4000


@pytest.mark.parametrize(
    ("kind", "facts"), [("unheard-of", {}), ("training-stopped", {}), ("training-stopped", {"reason": "x", "more": 1})]
)
def test_facts_that_do_not_fit_their_kind_are_refused(kind: str, facts: dict[str, Any]) -> None:
    assert event_from_facts("training-stopped", {"reason": "x"}) == TrainingStopped(reason="x")
    with pytest.raises(CorruptData, match="cannot be parsed"):
        event_from_facts(kind, facts)
