"""How errors cross the wire: each type of ``PliantError`` has one gRPC status, and comes out as the same type."""

from __future__ import annotations

import grpc

from pliant.core.errors import (
    Conflict,
    InvalidRequest,
    MasterUnavailable,
    NotAvailable,
    NotFound,
    PliantError,
    SessionExpired,
    Unauthenticated,
    Unschedulable,
)

_SEPARATOR = "\x1f"  # between the message and the hint
_CODES: dict[type[PliantError], grpc.StatusCode] = {
    InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    NotAvailable: grpc.StatusCode.FAILED_PRECONDITION,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Conflict: grpc.StatusCode.ALREADY_EXISTS,
    NotFound: grpc.StatusCode.NOT_FOUND,
    SessionExpired: grpc.StatusCode.ABORTED,
    Unschedulable: grpc.StatusCode.RESOURCE_EXHAUSTED,
    MasterUnavailable: grpc.StatusCode.UNAVAILABLE,
}
_TYPES = {code: kind for kind, code in _CODES.items()} | {grpc.StatusCode.DEADLINE_EXCEEDED: MasterUnavailable}


def to_status(error: PliantError) -> tuple[grpc.StatusCode, str]:
    code = _CODES.get(type(error), grpc.StatusCode.UNKNOWN)
    return code, _SEPARATOR.join(filter(None, (error.message, error.hint)))


def from_status(error: grpc.RpcError, called: str) -> PliantError:
    """The error that the other side raised, or what happened on the way."""
    code, details = error.code(), error.details() or ""
    message, _, hint = details.partition(_SEPARATOR)
    kind = _TYPES.get(code, PliantError)
    if kind is MasterUnavailable:
        return MasterUnavailable(f"the master did not answer {called}: {message}", hint=hint)
    return kind(message if kind is not PliantError else f"{called} failed with {code.name}: {message}", hint=hint)
