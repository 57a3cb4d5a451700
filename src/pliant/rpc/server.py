"""A gRPC server that only lets the job's own nodes in, and that no request can take down.

The one interceptor is the border: it checks the token before a request is even parsed, turns our errors into statuses,
and turns a bug in a handler into INTERNAL and a logged traceback instead of a dead server.

Strangers cannot use up what members need. On a Unix socket there are none; over TCP mutual TLS ends them at the handshake,
which has a deadline. A call without the token ends when its headers arrive: a handler of a unary call would wait for the request
first, and keep one of the calls that the server takes at once. Every method is behind the token, health checks too.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
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
MAX_CALLS_AT_ONCE = 20_480  # of all clients: each has one open for its stream of calls, and perhaps one that waits
MAX_CONNECTIONS = 16_384  # per address; fewer where the process may not open so many files
HANDSHAKE_TIMEOUT_S = 10.0  # of TLS and HTTP/2; a busy machine is slow
IDLE_TIMEOUT_S = 60.0  # of a connection without a call, where strangers can connect (TCP without TLS)
MAX_LOGGED_NAME = 100  # characters of a method that a stranger calls
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
        given = dict(details.invocation_metadata or ()).get(TOKEN_HEADER, "")
        if not same_token(given, self._token):
            self._count_refused(details.method)
            return grpc.stream_unary_rpc_method_handler(refuse)  # of a stream: called without waiting for a request
        handler = await continuation(details)
        if handler is None or handler.unary_unary is None:  # unknown, or a stream: of health checks, or of calls
            return handler
        inner = cast(_Handler, handler.unary_unary)
        return grpc.unary_unary_rpc_method_handler(
            guarded(inner, details.method),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _count_refused(self, method: str) -> None:
        self.refused += 1
        if self.refused & (self.refused - 1) == 0:  # 1, 2, 4, 8, …: a flood does not fill the log
            log.warning("refused %.*r: wrong or missing token (%d so far)", MAX_LOGGED_NAME, method, self.refused)


async def refuse(_requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the job's token is missing or wrong")


def guarded(inner: _Handler, method: str) -> _Handler:
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


def guarded_stream(inner: Callable[[Any, Any], AsyncIterator[Any]], method: str) -> Any:
    """As ``guarded``, of a call that answers by a stream."""

    async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        try:
            async for message in inner(request, context):
                yield message
        except PliantError as error:
            code, details = to_status(error)
            await context.abort(code, details)
        except (grpc.aio.AbortError, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("internal error in the handler of %s", method)
            await context.abort(grpc.StatusCode.INTERNAL, f"internal error in {method}; check the log")

    return call


def make_server(
    token: str,
    *,
    admits_strangers: bool = False,
    border: grpc.aio.ServerInterceptor | None = None,  # type: ignore[type-arg]
) -> grpc.aio.Server:
    """``admits_strangers``: it listens where anyone can connect (TCP without TLS). ``border``: another one than a job's."""
    options = [
        ("grpc.max_receive_message_length", MAX_MESSAGE),
        ("grpc.max_send_message_length", MAX_MESSAGE),
        ("grpc.max_metadata_size", 16 << 10),
        ("grpc.so_reuseport", 0),  # a second master on the same port must fail, not share it
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 1000),  # else clients that ping are sent away
        ("grpc.server_handshake_timeout_ms", round(HANDSHAKE_TIMEOUT_S * 1000)),
        ("grpc.max_allowed_incoming_connections", _max_connections()),
    ]
    if admits_strangers:
        options.append(("grpc.max_connection_idle_ms", round(IDLE_TIMEOUT_S * 1000)))
    return grpc.aio.server(
        interceptors=[border or Border(token)], maximum_concurrent_rpcs=MAX_CALLS_AT_ONCE, options=options
    )


def _max_connections() -> int:
    """Half of the files that this process may open: the journal needs some too."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if limit == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, limit // 2)


def add_health(server: grpc.aio.Server) -> Any:
    servicer = health.aio.HealthServicer()  # type: ignore[attr-defined]
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    return servicer


SERVING = health_pb2.HealthCheckResponse.SERVING


def bind(server: grpc.aio.Server, address: str, tls: TlsFiles | None) -> int:
    """Listen on ``host:port`` (port 0: any free one) and return the port; raises RuntimeError if it is taken.

    ``tls``: None sends everything, the token too, as it is: only where the job's spec asks for that.
    """
    if tls is None:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, tls.server_credentials())
