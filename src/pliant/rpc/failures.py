"""How errors cross the wire: as a gRPC status whose details name the type, so each comes out as what it was.

What gRPC itself says (no connection, a message too large) carries no type of ours, and is recognised by its status.
"""

from __future__ import annotations

import grpc

from pliant.core import errors
from pliant.core.errors import (
    BrainUnavailable,
    Conflict,
    InvalidRequest,
    MasterUnavailable,
    NotAvailable,
    NotFound,
    PliantError,
    SessionExpired,
    Unauthenticated,
)

_SEPARATOR = "\x1f"  # between the type, the message and the hint
_MAX_LENGTH = 1000  # characters of a message: details travel as metadata, which is limited to some KB
_KINDS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, PliantError)}
_CODES: dict[type[PliantError], grpc.StatusCode] = {
    InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    NotAvailable: grpc.StatusCode.FAILED_PRECONDITION,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Conflict: grpc.StatusCode.ALREADY_EXISTS,
    NotFound: grpc.StatusCode.NOT_FOUND,
    SessionExpired: grpc.StatusCode.ABORTED,
    BrainUnavailable: grpc.StatusCode.UNAVAILABLE,
    MasterUnavailable: grpc.StatusCode.UNAVAILABLE,  # the last one: what the status means without a type of ours
}
_ON_THE_WAY = (
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,  # by a master that ends
    grpc.StatusCode.RESOURCE_EXHAUSTED,  # too many calls at once
)
_TYPES = {code: kind for kind, code in _CODES.items()} | dict.fromkeys(_ON_THE_WAY, MasterUnavailable)
_CUT_OFF = "Stream removed"  # what gRPC says, as UNKNOWN, of a call whose connection was lost at a bad moment
_TOO_LARGE = "message larger than max"


def to_status(error: PliantError) -> tuple[grpc.StatusCode, str]:
    kinds = [kind for kind in type(error).__mro__ if kind in _KINDS.values()]  # of others the callers know nothing
    code = next((_CODES[kind] for kind in kinds if kind in _CODES), grpc.StatusCode.UNKNOWN)
    parts = (kinds[0].__name__, _clipped(error.message), _clipped(error.hint))
    return code, _SEPARATOR.join(part.replace(_SEPARATOR, " ") for part in parts)


def from_status(error: grpc.RpcError, called: str) -> PliantError:
    """The error that the other side raised, or what happened on the way."""
    code, details = error.code(), error.details() or ""
    name, *ours = details.split(_SEPARATOR)
    if len(ours) == 2 and name in _KINDS:
        return _KINDS[name](ours[0], hint=ours[1])
    if _TOO_LARGE in details:
        return InvalidRequest(f"{called} is too large: {details}", hint="send less data per call")
    kind = MasterUnavailable if details == _CUT_OFF else _TYPES.get(code, PliantError)
    if kind is MasterUnavailable:
        return MasterUnavailable(f"no response from the master to {called}: {details}")
    return kind(f"{called} failed with {code.name}: {details}" if kind is PliantError else details)


def _clipped(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"
