"""Following a job of a cluster to its end, as ``pliant run`` does on this machine.

The platform keeps the master alive; here is only told what keeps the job from having one, and Ctrl-C before there is a
master to ask takes the job back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pliant.cli.follow import Follower
from pliant.cli.interrupts import Interrupts
from pliant.cli.kubernetes.place import KubernetesPlace
from pliant.cli.kubernetes.told import is_over, message_of, phase_of
from pliant.core.errors import JobFailed, RetryableError

NO_MASTER_YET = ("Pending", "Creating", "Invalid", "Suspended")
LOOK_EVERY = 1.0  # seconds


def follow(place: KubernetesPlace, *, show_output: bool, progress: bool, to_stderr: bool) -> dict[str, Any]:
    """Until the job is over; gives its summary."""
    with Interrupts() as interrupts:
        follower = Follower(place, interrupts, show_output=show_output, progress=progress, to_stderr=to_stderr)
        follower.say(f"job {place.name}: {place.where}")
        return follower.follow(UntilOver(place, interrupts, follower.say))


class UntilOver:
    def __init__(self, place: KubernetesPlace, interrupts: Interrupts, say: Callable[[str], None]) -> None:
        self._place = place
        self._interrupts = interrupts
        self._say = say
        self._told = ("", "")

    def running(self) -> bool:
        try:
            job = self._place.read()
        except RetryableError:
            return True  # the API server is away; so much more reason to go on looking
        if is_over(job):
            return False
        phase, message = phase_of(job), message_of(job)
        if phase == "Invalid":
            raise JobFailed(f"job {self._place.name} cannot run: {message}", hint="mend its spec and submit it again")
        if phase in NO_MASTER_YET:
            if (phase, message) != self._told:
                self._told = (phase, message)
                self._say(f"{phase}: {message}" if message else phase)
            if self._interrupts.count:
                self._place.remove()
                self._say("it had not begun; it was deleted")
                raise KeyboardInterrupt
        return True

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        before = self._interrupts.count
        while time.monotonic() < until and self._interrupts.count == before:
            time.sleep(min(0.1, seconds))
