"""Random faults for a real job: what can be killed or frozen is, at moments and in an order that a seed determines."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter

from pliant.core.status import NodeStatus
from pliant.testing.jobs import LocalJob

QUICKLY = {"limit": -1, "backoff": {"first": 0.05, "longest": 0.5}}
FAULT = {
    "session_timeout": 3.0,
    "heartbeat_timeout": 5.0,
    "grace": 1.0,
    "killed": {**QUICKLY, "in_place": True},
    **dict.fromkeys(("preempted", "hang", "unknown"), QUICKLY),
}


class Chaos:
    """Does one bad thing after the other to a job; what it froze it thaws."""

    DEEDS = (
        *(["kill program"] * 5 + ["freeze program"] * 3 + ["kill agent"] * 3 + ["preempt"] * 3),
        *(["kill master"] * 2 + ["freeze master"] * 1 + ["kill keeper"] * 1),
    )

    def __init__(self, job: LocalJob, seed: int, *, max_frozen: float = 5.0) -> None:
        """``max_frozen``: seconds that a program is stopped at most."""
        self.job = job
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self._max_frozen = max_frozen
        self._frozen: dict[int, float] = {}  # pid -> when it is thawed
        self._nodes: list[NodeStatus] = []  # as last seen

    def rage(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.job.home.summary_file.exists():
            time.sleep(self.chance.uniform(0.2, 1.3))
            self._thaw(time.monotonic())
            self._do(self.chance.choice(self.DEEDS))
        self._thaw(float("inf"))

    def _do(self, deed: str) -> None:
        what, whom = deed.split() if " " in deed else (deed, "agent")
        role = whom
        if whom == "keeper":
            pid = next(iter(self.job.supervisors()), 0)
        elif whom == "master":
            pid = next(iter(self.job.masters()), 0)
        else:
            node = self._choose()
            pid = 0 if node is None else node.agent_pid if whom == "agent" else node.pid
            role = f"{whom} of a {'worker' if node is None else node.role}"
        if not pid:
            return
        number = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "preempt": signal.SIGTERM}[what]
        if self.job.send(pid, number):
            self.done[f"{what} {role}"] += 1
        if what == "freeze":
            longest = 3.0 if whom == "master" else self._max_frozen
            self._frozen[pid] = time.monotonic() + self.chance.uniform(0.3, longest)

    def _choose(self) -> NodeStatus | None:
        """A node that runs, or did when there last was a master to tell."""
        if (status := self.job.status()) is not None:
            self._nodes = [node for node in status.nodes if node.state == "Running" and node.pid]
        return self.chance.choice(self._nodes) if self._nodes else None

    def _thaw(self, now: float) -> None:
        for pid in [pid for pid, until in self._frozen.items() if until <= now]:
            self.job.thaw(pid)
            del self._frozen[pid]
