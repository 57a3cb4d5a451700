from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pliant.core.nodes.fault_policy import MemoryGrowth, shrink_resources
from pliant.core.resources import Resources
from pliant.core.shares import ceil_share, floor_share

written = st.decimals(0, 3, places=4, allow_nan=False, allow_infinity=False)


@given(share=written, count=st.integers(0, 100_000))
@example(share=Decimal("0.55"), count=100)
@example(share=Decimal("0.07"), count=100)
@example(share=Decimal("1.15"), count=100)
def test_a_share_is_rounded_as_the_number_that_was_written(share: Decimal, count: int) -> None:
    """Decimal arithmetic is the oracle: what a person computes by hand."""
    part = share * count
    assert ceil_share(float(share), count) == int(part.to_integral_value(ROUND_CEILING))
    assert floor_share(float(share), count) == int(part.to_integral_value(ROUND_FLOOR))


@pytest.mark.parametrize(("share", "wanted"), [(0.55, 55), (0.07, 7), (0.28, 28), (0.551, 56), (0.0, 0), (1.0, 100)])
def test_a_share_of_a_hundred_is_its_percents(share: float, wanted: int) -> None:
    assert ceil_share(share, 100) == wanted


def test_memory_grows_by_the_factor_that_was_written() -> None:
    assert MemoryGrowth(factor=1.15, add_mb=0).grown(100) == 115


def test_half_way_between_two_amounts_of_cpu_is_a_tenth_that_a_person_would_write() -> None:
    asked, minimum = Resources(cpu=1.0), Resources(cpu=0.4)
    assert shrink_resources(asked, minimum, keep_memory=False) == Resources(cpu=0.7)
