from __future__ import annotations

from collections.abc import Mapping

from pliant.core.planning.chain_order import questions
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.proposal import Proposal

URGENT = Proposal("x", "memory runs out", Configuration(Shape(1)), urgent=True)
CALM = Proposal("x", "a little faster", Configuration(Shape(1)))


def heard(answers: Mapping[str, Proposal | None], *, is_urgent_only: bool = False) -> list[str]:
    return [
        question.algorithm
        for question in questions(list(answers), is_urgent_only=is_urgent_only)
        if question.hears(answers[question.algorithm])
    ]


def test_what_is_urgent_is_heard_first_and_once() -> None:
    assert heard({"plan_job": CALM, "probe": None, "straggler": URGENT}) == ["straggler", "plan_job"]


def test_an_answer_that_is_not_urgent_waits_for_its_place_in_the_chain() -> None:
    assert heard({"plan_job": CALM, "straggler": CALM, "right_size": CALM}) == ["plan_job", "straggler", "right_size"]


def test_urgent_words_of_those_who_may_not_interrupt_are_heard_in_their_place() -> None:
    assert heard({"plan_job": CALM, "team": URGENT, "oom_recover": URGENT}) == ["oom_recover", "plan_job", "team"]


def test_only_those_who_may_interrupt_are_asked_while_something_settles() -> None:
    names = ["plan_job", "oom_recover", "team", "straggler"]
    assert [question.algorithm for question in questions(names, is_urgent_only=True)] == ["oom_recover", "straggler"]
    assert heard({"plan_job": CALM, "oom_recover": CALM, "straggler": URGENT}, is_urgent_only=True) == ["straggler"]


def test_two_of_one_name_are_two() -> None:
    assert [question.position for question in questions(["team", "team"])] == [0, 1]
