"""The request to stop a node: a preemption notice (SIGTERM to the agent), or an order of the master.

It is final. The program is asked to end and has ``grace`` seconds; a later request may change the grace.
"""

from __future__ import annotations

from collections.abc import Callable


class StopRequest:
    def __init__(self, grace: float, on_request: Callable[[], None]) -> None:
        """``on_request`` wakes whoever waits for a reason to end the program."""
        self.grace = grace
        self.is_preempted = False
        self._is_requested = False
        self._on_request = on_request

    @property
    def is_requested(self) -> bool:
        return self._is_requested

    def request(self, grace: float) -> None:
        self.grace = grace
        self._is_requested = True
        self._on_request()

    def preempt(self, grace: float) -> None:
        self.is_preempted = True
        self.request(grace)
