"""Under a full quota, jobs of one known size try another one, so that it becomes known who needs what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.core.planning.sharing.demands import demand, of, quota

from pliant.core.planning.sharing.demand import Demand, Knowledge
from pliant.core.planning.sharing.share_quota import share_quota


def sharing(cpu: float, *demands: Demand) -> dict[str, int]:
    shares = share_quota(quota(cpu), demands, 0.0)
    return {share.job: share.configuration.worker.replicas if share.configuration else 0 for share in shares}


LONG: dict[str, Any] = {"remaining_s": 10_000.0, "most": 32}
ONE_SIZE: dict[str, Any] = {**LONG, "knowledge": Knowledge.ONE_SIZE}


def test_a_job_of_one_known_size_tries_half_of_it_and_others_use_the_rest() -> None:
    assert sharing(32, demand("a", has=16, **ONE_SIZE), demand("b", has=16, **LONG)) == {"a": 8, "b": 24}


def test_it_says_why() -> None:
    shares = share_quota(quota(32), [demand("a", has=16, **ONE_SIZE), demand("b", has=16, **LONG)], 0.0)
    assert shares[0].reason.startswith("tries less: only one size of it was ever measured")


def test_one_tries_at_a_time_the_largest_first() -> None:
    jobs = [demand("a", has=12, **ONE_SIZE), demand("b", has=20, **ONE_SIZE)]
    assert sharing(32, *jobs) == {"a": 22, "b": 10}


def test_nobody_tries_while_another_one_does() -> None:
    trying = demand("a", has=8, **{**LONG, "knowledge": Knowledge.TRYING})
    assert sharing(32, trying, demand("b", has=24, **ONE_SIZE)) == {"a": 8, "b": 24}


def test_what_is_tried_is_kept_until_it_is_measured() -> None:
    trying = demand("a", has=8, **{**LONG, "knowledge": Knowledge.TRYING})
    assert sharing(32, trying, demand("b", has=16, **LONG)) == {"a": 8, "b": 24}
    assert sharing(32, replace(trying, knowledge=Knowledge.ENOUGH), demand("b", has=16, **LONG)) == {"a": 16, "b": 16}


def test_nobody_tries_if_nobody_could_use_the_rest() -> None:
    small = {**LONG, "most": 16}
    assert sharing(32, demand("a", has=16, **{**ONE_SIZE, "most": 16}), demand("b", has=16, **small)) == {
        "a": 16,
        "b": 16,
    }


def test_a_job_that_ends_soon_is_not_explored() -> None:
    ending = demand("a", has=16, **{**ONE_SIZE, "remaining_s": 900.0})
    assert sharing(32, ending, demand("b", has=16, **LONG)) == {"a": 16, "b": 16}


def test_a_job_at_its_minimum_tries_nothing_less() -> None:
    assert sharing(32, demand("a", least=16, has=16, **ONE_SIZE), demand("b", has=16, **LONG)) == {"a": 16, "b": 16}


def test_a_job_that_tries_a_size_makes_room_for_the_minimums_of_others() -> None:
    trying = demand("a", has=8, **{**LONG, "knowledge": Knowledge.TRYING})
    found = share_quota(quota(8), [trying, demand("b", least=4, arrived=1.0)], 0.0)
    assert [share.configuration for share in found] == [of(4), of(4)]
