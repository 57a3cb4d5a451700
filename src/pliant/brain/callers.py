"""Who calls: the border has checked the token; a handler checks that the job of the request is the caller's."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import unquote

import grpc
import grpc.aio

from pliant.core.errors import Unauthenticated
from pliant.core.planning.cluster.report import JobIdentity
from pliant.rpc.brain.identity import JOB_HEADER, caller_of
from pliant.rpc.server import MAX_LOGGED_NAME, guarded, guarded_stream, refuse

log = logging.getLogger(__name__)


class BrainBorder(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # not generic at run time
    """As ``rpc.server.Border``, with a token per job beside that of the cluster."""

    def __init__(self, token: str) -> None:
        self._token = token
        self.refused = 0

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        headers = {str(key): value for key, value in details.invocation_metadata or ()}
        if caller_of(headers, self._token) is None:
            self.refused += 1
            if self.refused & (self.refused - 1) == 0:  # 1, 2, 4, 8, …: a flood does not fill the log
                log.warning(
                    "refused %.*r: wrong or missing token (%d so far)", MAX_LOGGED_NAME, details.method, self.refused
                )
            return grpc.stream_unary_rpc_method_handler(refuse)
        handler = await continuation(details)
        if handler is None:
            return handler
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(
                guarded(cast(Any, handler.unary_unary), details.method),
                request_deserializer=handler.request_deserializer,
                response_serializer=handler.response_serializer,
            )
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(
                guarded_stream(cast(Any, handler.unary_stream), details.method),
                request_deserializer=handler.request_deserializer,
                response_serializer=handler.response_serializer,
            )
        return handler


def check_job(context: Any, identity: JobIdentity) -> None:
    """The caller may speak for this job. The cluster's own programs may not: a job has a token of its own."""
    headers = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
    named = headers.get(JOB_HEADER, "")
    namespace, _, name = named.partition("/")
    if (unquote(namespace), unquote(name)) != (identity.namespace, identity.name) or not name:
        raise Unauthenticated(f"the token is not that of job {identity}", hint="each job has a token of its own")


def check_cluster(context: Any) -> None:
    headers = {str(key) for key, _ in context.invocation_metadata() or ()}
    if JOB_HEADER in headers:
        raise Unauthenticated("this call needs the token of the cluster, not that of a job")
