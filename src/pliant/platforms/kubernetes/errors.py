"""What the API server of Kubernetes can answer besides yes, in the words of Pliant's tree of errors."""

from __future__ import annotations

from pliant.core.errors import Conflict, InvalidRequest, NotFound, PermanentError, PliantError, RetryableError


class ApiUnavailable(RetryableError):
    """The API server does not answer, or says that it cannot now. ``retry_after``: seconds it asked us to wait."""

    def __init__(self, message: str, *, hint: str = "", retry_after: float = 0.0, sent: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after
        self.sent = sent  # False: certainly nothing was done


class Gone(RetryableError):
    """The resource version is too old to watch from: list again."""


class Forbidden(PermanentError):
    """This account may not do that; the message names the missing right."""


class NotSignedIn(PermanentError):
    """The cluster does not know who we are."""


class AlreadyExists(Conflict):
    """Something of this name is there."""


class Outdated(Conflict):
    """It was changed since it was read: read it again."""


def error_of(code: int, reason: str, message: str, *, what: str, retry_after: float = 0.0) -> PliantError:
    """``what`` was tried, such as ``create pods in team-a``."""
    text = f"cannot {what}: {message.strip()}"
    if code == 404:
        return NotFound(text)
    if code == 409:
        return AlreadyExists(text) if reason == "AlreadyExists" else Outdated(text)
    if code == 410:
        return Gone(text)
    if code == 401:
        return NotSignedIn(text, hint="check the user in the kubeconfig: its token or certificate may have expired")
    if code == 403 and "exceeded quota" in message:
        return ApiUnavailable(text, hint="the namespace's quota is exhausted: raise it or request less", sent=False)
    if code == 403:
        return Forbidden(text, hint=f"the account needs permission to {what}; check with `kubectl auth can-i`")
    if code == 429 or code >= 500:
        return ApiUnavailable(text, retry_after=retry_after, sent=code != 429)
    return InvalidRequest(text)
