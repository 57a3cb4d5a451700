"""What people want of a running job: only what they touched is changed, and each wish is taken once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pliant.core.errors import InvalidRequest
from pliant.core.wishes import WishBook

SMALL, LARGE = ({"cpu": cpu, "memory_mb": 100, "gpu": 0} for cpu in (1.0, 2.0))


def state(*, suspend: bool = False, **worker: Any) -> dict[str, Any]:
    role = {"min": 1, "max": 4, "wanted": 2, "resources": SMALL, **worker}
    return {"suspend": suspend, "roles": {"worker": role}}


@pytest.mark.parametrize(
    ("edited", "methods"),
    [
        (state(), []),
        (state(wanted=3), ["scale"]),
        (state(max=8, wanted=8), ["set_limits", "scale"]),
        (state(resources=LARGE), ["set_resources"]),
        (state(suspend=True), ["suspend"]),
    ],
)
def test_an_edit_asks_for_what_differs_from_the_one_before(edited: dict[str, Any], methods: list[str]) -> None:
    book = WishBook(state())
    assert [change.method for change in book.changes(edited, state=True)] == methods
    book.taken(0.0, wish="generation 2", state=edited)
    assert book.changes(edited, state=True) == []


def test_a_suspended_job_is_told_to_go_on() -> None:
    assert [c.method for c in WishBook(state(suspend=True)).changes(state(), state=True)] == ["go_on"]


def test_orders_give_resources_first_so_that_new_nodes_have_them() -> None:
    content = {
        "roles": {"worker": {"replicas": 3, "resources": LARGE}},
        "remove": ["worker-1"],
        "migrate": [{"node": "worker-0", "resources": LARGE}],
        "reason": "tuned",
    }
    changes = WishBook(state()).changes(content, state=False)
    assert [change.method for change in changes] == ["set_resources", "scale", "remove", "replace"]
    assert changes[-1].arguments == {"node": "worker-0", "resources": LARGE, "reason": "tuned"}


def test_a_wish_that_is_not_understood_is_refused_with_its_problem() -> None:
    with pytest.raises(InvalidRequest, match="wanted: 9"):
        WishBook(state()).changes({"error": "wanted: 9 is given"}, state=True)


def test_a_state_that_cannot_be_used_suspends_the_job_and_changes_nothing_else() -> None:
    book = WishBook(state())
    broken = {"problem": "min: 7 is more than max", "suspend": True}
    assert [change.method for change in book.changes(broken, state=True)] == ["suspend"]
    book.taken(0.0, wish="generation 2", refusal="min", state=book.understood(broken))
    assert [change.method for change in book.changes(state(), state=True)] == ["go_on"], "the rest is as it was"


def test_what_the_master_wrote_down_itself_is_no_wish_and_later_edits_are_compared_with_it() -> None:
    book = WishBook(state(wanted=2))
    own = {**state(wanted=1), "own": True, "version": "77"}
    assert book.changes(own, state=True) == []
    book.taken(0.0, wish="generation 2", state=book.understood(own))
    [change] = book.changes(state(wanted=2), state=True)
    assert change.arguments["replicas"] == 2


def test_a_wish_is_known_after_a_restart_with_why_it_was_refused() -> None:
    book = WishBook(state())
    book.taken(0.0, wish="plan a 1", refusal="no such role")
    restored = WishBook(state())
    restored.restore(json.loads(json.dumps(book.snapshot())))
    assert (restored.is_new("plan a 1"), restored.refusal_of("plan a 1")) == (False, "no such role")
    assert restored.is_new("plan a 2")
    assert restored.snapshot() == book.snapshot()
