"""The one tree of errors.

Whether an error is retryable is its type, so no caller has to parse a message:
``RetryableError`` passes by itself (a master that is being restarted, a busy server), ``PermanentError``
does not (a wrong token, an unknown dataset). Each says what happened; ``hint`` says what to do about it.
"""

from __future__ import annotations


class PliantError(Exception):
    """Base of everything that Pliant raises on purpose."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  what to do: {self.hint}" if self.hint else self.message


class RetryableError(PliantError):
    """The same call may succeed later."""


class PermanentError(PliantError):
    """The same call will fail again."""


class InvalidRequest(PermanentError):
    """A request whose content cannot be right: out of range, of the wrong form, absurd."""


class NotAvailable(PermanentError):
    """The master runs without the component that this call needs."""


class Unauthenticated(PermanentError):
    """The caller did not prove that it belongs to the job."""


class Conflict(PermanentError):
    """The request contradicts what is already decided, such as a dataset defined twice in two ways."""


class FencedOff(Conflict):
    """Another one took over by now: whatever this one writes comes too late."""


class NotFound(PermanentError):
    """What was named does not exist."""


class SpecError(PermanentError):
    """A job description that cannot be used; names the field, the value and what is allowed."""


class MasterUnavailable(RetryableError):
    """The master does not answer; it is being restarted or unreachable."""


class BrainUnavailable(RetryableError):
    """The Brain does not answer, is not the active one, or cannot reach its database."""


class SessionExpired(RetryableError):
    """The master closed this session (it was silent for too long); open a new one and continue."""


class ServerUnavailable(RetryableError):
    """A parameter server does not answer: it is being replaced, or the connection broke in the middle of a call."""


class Moved(RetryableError):
    """A parameter server no longer (or not yet) owns what was asked for; ask again by the map of ``map_version``."""

    def __init__(self, message: str, *, map_version: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.map_version = map_version


class Unschedulable(RetryableError):
    """The platform cannot schedule a node now."""


class CorruptData(PermanentError):
    """A file is damaged; names the file and the place."""


class JobFailed(PermanentError):
    """The job ended in failure: ``node`` failed first, and ``traceback`` is what its program left as last words."""

    def __init__(self, message: str, *, hint: str = "", node: str = "", traceback: str = "") -> None:
        super().__init__(message, hint=hint)
        self.node = node
        self.traceback = traceback

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n\nThe last words of {self.node}:\n\n{self.traceback}" if self.traceback else message


class WaitTimeout(RetryableError, TimeoutError):
    """What was waited for has not happened yet, and may still."""
