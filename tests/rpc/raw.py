"""Bytes sent as they are, by anyone to any method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc

from pliant.rpc.identity import TOKEN_HEADER


def send_raw(
    target: str,
    method: str,
    request: bytes,
    *,
    token: str | None = None,
    metadata: Sequence[tuple[str, str]] = (),
    timeout: float = 10.0,
    credentials: grpc.ChannelCredentials | None = None,
    options: Sequence[tuple[str, Any]] = (),
) -> grpc.StatusCode:
    """What came of it. Without ``token``, only what ``metadata`` says is shown."""
    shown = [*metadata, *([(TOKEN_HEADER, token)] if token is not None else [])]
    opened: Any = (
        grpc.insecure_channel(target, list(options))
        if credentials is None
        else grpc.secure_channel(target, credentials, list(options))
    )
    with opened as channel:
        try:
            channel.unary_unary(method)(request, metadata=shown, timeout=timeout)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
    return grpc.StatusCode.OK
