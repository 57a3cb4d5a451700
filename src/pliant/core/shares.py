"""A share of a whole number, rounded without the error of binary fractions.

A share is what somebody wrote: 0.55 means 55 hundredths, although the float nearest to it is a little more, so that 0.55 of 100
would round up to 56. The shortest text of a float is the number that was written (up to 15 digits), and from it on everything
here is a fraction.
"""

from __future__ import annotations

import math
from fractions import Fraction


def exact(number: float | str) -> Fraction:
    """The number as it is written."""
    return Fraction(str(number))


def ceil_share(share: float, count: int) -> int:
    """``share`` of ``count``, rounded up."""
    return math.ceil(exact(share) * count)


def floor_share(share: float, count: int) -> int:
    """``share`` of ``count``, rounded down."""
    return math.floor(exact(share) * count)
