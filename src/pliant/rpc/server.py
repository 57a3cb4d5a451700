"""A gRPC server that only lets the job's own nodes in, and that no request can take down.

The one interceptor is the border: it checks the token before a request is even parsed, turns our errors into statuses,
and turns a bug in a handler into INTERNAL and a logged traceback instead of a dead server.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from pliant.core.errors import PliantError
from pliant.rpc.failures import to_status
from pliant.rpc.identity import TOKEN_HEADER, same_token
from pliant.rpc.tls import TlsFiles

log = logging.getLogger(__name__)

MAX_MESSAGE = 16 << 20  # bytes
MAX_CALLS_AT_ONCE = 4096
_HEALTH = "/grpc.health.v1.Health/"
_Handler = Callable[[Any, Any], Awaitable[Any]]


class Border(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # not generic at run time
    def __init__(self, token: str) -> None:
        self._token = token
        self.refused = 0

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        handler = await continuation(details)
        if handler is None or details.method.startswith(_HEALTH):
            return handler
        given = dict(details.invocation_metadata or ()).get(TOKEN_HEADER, "")
        if not same_token(given, self._token):
            self.refused += 1
            if self.refused & (self.refused - 1) == 0:  # 1, 2, 4, 8, …: a flood does not fill the log
                log.warning("refused %s: wrong or missing token (%d so far)", details.method, self.refused)
            return grpc.unary_unary_rpc_method_handler(_refuse)
        inner = cast(_Handler, handler.unary_unary)  # all of our calls are unary
        return grpc.unary_unary_rpc_method_handler(
            _guarded(inner, details.method),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )


async def _refuse(_request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the job's token is missing or wrong")


def _guarded(inner: _Handler, method: str) -> _Handler:
    async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            return await inner(request, context)
        except PliantError as error:
            code, details = to_status(error)
            await context.abort(code, details)
        except grpc.aio.AbortError:
            raise
        except Exception:
            log.exception("internal error in the handler of %s", method)
            await context.abort(grpc.StatusCode.INTERNAL, f"internal error in the master's {method}; check its log")

    return call


def make_server(token: str) -> grpc.aio.Server:
    return grpc.aio.server(
        interceptors=[Border(token)],
        maximum_concurrent_rpcs=MAX_CALLS_AT_ONCE,
        options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE),
            ("grpc.max_send_message_length", MAX_MESSAGE),
            ("grpc.max_metadata_size", 16 << 10),
            ("grpc.so_reuseport", 0),  # a second master on the same port must fail, not share it
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 1000),  # else clients that ping are sent away
        ],
    )


def add_health(server: grpc.aio.Server) -> Any:
    servicer = health.aio.HealthServicer()  # type: ignore[attr-defined]
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    return servicer


SERVING = health_pb2.HealthCheckResponse.SERVING


def bind(server: grpc.aio.Server, address: str, tls: TlsFiles | None) -> int:
    """Listen on ``host:port`` (port 0: any free one) and give the port; raises RuntimeError if it is taken."""
    if tls is None:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, tls.server_credentials())
