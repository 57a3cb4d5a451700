"""Staged pushes, until an order names them.

Known by (session, sequence, part); one that comes again is not kept again. A session's sequence numbers rise and are decided
in that order, so once a gradient is applied every lower one is settled: late copies are thrown away. Numbers that were refused are
named by the session's next push (``void``). Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pliant.ps.payloads import Push

_ALL = 1 << 64  # more than any sequence number


class Staging:
    def __init__(self) -> None:
        self._waiting: dict[str, dict[int, dict[int, Push]]] = {}  # session, sequence, part
        self._settled: dict[str, int] = {}  # session: the highest sequence number that was applied or discarded

    def __len__(self) -> int:
        return sum(len(parts) for numbers in self._waiting.values() for parts in numbers.values())

    def __iter__(self) -> Iterator[Push]:
        for numbers in self._waiting.values():
            for parts in numbers.values():
                yield from parts.values()

    @property
    def nbytes(self) -> int:
        return sum(
            sum(rows.ids.nbytes + rows.gradients.nbytes for rows in push.rows)
            + sum(block.gradient.nbytes for block in push.blocks)
            for push in self
        )

    def knows(self, push: Push) -> bool:
        if push.sequence <= self._settled.get(push.session, -1):
            return True
        return push.part in self._waiting.get(push.session, {}).get(push.sequence, {})

    def add(self, push: Push) -> None:
        self._waiting.setdefault(push.session, {}).setdefault(push.sequence, {})[push.part] = push

    def forget(self, push: Push) -> None:
        """As if it had never come."""
        parts = self._waiting.get(push.session, {}).get(push.sequence, {})
        if parts.get(push.part) is push:
            del parts[push.part]

    def get(self, session: str, sequence: int) -> list[Push]:
        """The parts of one contribution, in the order of their numbers."""
        parts = self._waiting.get(session, {}).get(sequence, {})
        return [parts[part] for part in sorted(parts)]

    def settle(self, session: str, sequence: int | None = None) -> list[Push]:
        """Everything of the session up to this number is decided (None: all, also what may still come: it has ended, and its name
        is not used again); what waited, for its buffers to be released."""
        numbers = self._waiting.get(session, {})
        gone = [number for number in numbers if sequence is None or number <= sequence]
        let_go = [push for number in gone for push in numbers.pop(number).values()]
        highest = _ALL if sequence is None else sequence
        self._settled[session] = max(self._settled.get(session, -1), highest)
        if not numbers:
            self._waiting.pop(session, None)
        return let_go

    def drop(self, session: str, numbers: Iterable[int]) -> list[Push]:
        """These were refused, and will not be named; what waited of them, for its buffers to be released."""
        waiting = self._waiting.get(session, {})
        return [push for number in numbers for push in waiting.pop(number, {}).values()]

    def drop_one(self, session: str, number: int) -> list[Push]:
        """This one was executed, and says nothing of those before it."""
        return self.drop(session, (number,))

    def replace(self, change: Callable[[Push], Push]) -> None:
        for numbers in self._waiting.values():
            for parts in numbers.values():
                for part in parts:
                    parts[part] = change(parts[part])
