"""Whether every record was accepted exactly once, computed from each accepted range, in constant memory.

Records of a dataset are laid on one line, epoch after epoch (or partition after partition of a stream) and shard after shard. A
range ``[begin, end)`` that is accepted adds ``h(end) - h(begin)`` to a sum modulo 2^64, where ``h`` scrambles 64 bits. Ranges that
tile ``[0, n)`` telescope to ``h(n) - h(0)``, in whatever order and sizes they come. The sum depends on nothing but how often each
point is covered, so a range that was accepted twice, or never, changes it, also where another error makes up for it in the number
of records.

The audit (``audit``) has the same knowledge range by range, for jobs that keep it; this is what every job can afford.
"""

from __future__ import annotations

from pliant.core.shards.permutation import mix

_MASK = (1 << 64) - 1


class Coverage:
    __slots__ = ("_begin", "_end", "_sum")

    def __init__(self, fingerprint: int = 0) -> None:
        self._sum = fingerprint
        self._begin = self._end = 0  # the newest run of neighbours, not in the sum yet: most ranges just extend it

    def add(self, begin: int, end: int) -> None:
        """A range was accepted; one with ``end < begin`` takes a range away."""
        if begin != self._end:
            self._sum = self.fingerprint
            self._begin = begin
        self._end = end

    @property
    def fingerprint(self) -> int:
        return (self._sum + _scramble(self._end) - _scramble(self._begin)) & _MASK

    def is_once(self, *ranges: tuple[int, int]) -> bool:
        """Whether what was accepted are exactly these ranges, each point of them once."""
        expected = Coverage()
        for begin, end in ranges:
            expected.add(begin, end)
        return self.fingerprint == expected.fingerprint


def _scramble(point: int) -> int:
    if point > _MASK:
        point = (point & _MASK) ^ mix(point >> 64)
    return mix(point ^ 0x9E3779B97F4A7C15)
