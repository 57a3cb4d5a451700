"""What the master last reported of the training, kept current by a thread that follows it."""

from __future__ import annotations

import threading

from pliant.client.job import Job
from pliant.core.errors import PliantError
from pliant.rpc import pliant_pb2 as pb

WATCH_TIMEOUT_S = 20.0  # a call that waits for news is renewed after this


class TrainingWatch:
    """Follows the state of the job's training."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._session = job.session()
        self._changed = threading.Condition()
        self._state = pb.TrainingState(best=-1, due=-1)
        self._closed = False
        self._failure: PliantError | None = None
        self._state = self._ask(0.0)
        self._thread = threading.Thread(target=self._follow, name="pliant-training", daemon=True)
        self._thread.start()

    @property
    def state(self) -> pb.TrainingState:
        with self._changed:
            if self._failure is not None:
                raise self._failure
            return self._state

    def refresh(self) -> pb.TrainingState:
        """Fetch the current state, instead of the last one seen."""
        state = self._ask(0.0)
        with self._changed:
            self._state = state
        return state

    def wait(self, seconds: float) -> None:
        """Until something changed, at most for this long."""
        with self._changed:
            self._changed.wait(seconds)

    def close(self) -> None:
        self._closed = True

    def _ask(self, seconds: float) -> pb.TrainingState:
        request = pb.WatchTrainingRequest(known=self._state.tag if seconds else "")
        state: pb.TrainingState = self._session.call_with_retry(
            self._session.master.stubs.training.Watch, request, timeout=seconds + 10.0
        )
        return state

    def _follow(self) -> None:
        try:
            while not self._closed:
                state = self._ask(WATCH_TIMEOUT_S)
                with self._changed:
                    self._state = state
                    self._changed.notify_all()
        except PliantError as error:
            with self._changed:
                if not self._closed:
                    self._failure = error
                self._changed.notify_all()
