"""A port of a Pod on this machine: connections to 127.0.0.1 travel through the API server into the Pod.

Each connection has a websocket of its own, with the subprotocol ``v4.channel.k8s.io``: messages begin with the number of a
channel, 0 for data and 1 for what went wrong, and the first message on each of the two only repeats the port. Who may do
this is the API server's decision (the right to ``get`` and ``create`` ``pods/portforward``); nothing has to be reachable
but the API server itself.

A Pod that is replaced by one of the same name, as a job's master may be, is found by the next connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from urllib.parse import quote

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from pliant.core.errors import PliantError, RetryableError
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.errors import ApiUnavailable, error_of

log = logging.getLogger(__name__)

PROTOCOL = Subprotocol("v4.channel.k8s.io")
DATA, ERROR = 0, 1  # channels
OPEN_SECONDS = 15.0  # for one websocket
BLOCK = 1 << 16  # bytes


class ForwardRefused(RetryableError):
    """The Pod is there, and nobody in it takes the connection."""


class Channels:
    """Sorts what comes through one websocket: data out, the ports at the beginning away, errors as errors."""

    def __init__(self) -> None:
        self._announced = {DATA: False, ERROR: False}

    def take(self, message: bytes) -> bytes:
        """The data in a message. Raises ForwardRefused when the other side reports an error."""
        if not message:
            return b""
        channel, content = message[0], message[1:]
        if channel not in self._announced:
            return b""  # of a later protocol
        if not self._announced[channel]:
            self._announced[channel] = True  # two bytes, the port
            content = content[2:]
        if channel == ERROR and content:
            raise ForwardRefused(content.decode(errors="replace").strip())
        return content

    @staticmethod
    def pack(data: bytes) -> bytes:
        return bytes([DATA]) + data


class PortForward:
    """``async with PortForward(api, "team-a", "digits-master", 7777) as local: ...`` connects to 127.0.0.1:local.port."""

    def __init__(self, api: KubeApi, namespace: str, pod: str, port: int) -> None:
        self._api = api
        self._namespace, self._pod, self._remote = namespace, pod, port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.problem: PliantError | None = None  # of the last connection; None: it was taken

    @property
    def port(self) -> int:
        """On this machine."""
        assert self._server is not None, "not started"
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def __aenter__(self) -> PortForward:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            async with await self._open() as socket:
                self.problem = None
                await self._carry(reader, writer, socket)
        except PliantError as error:
            self.problem = error
            log.info("port-forward to %s: %s", self._pod, error.message)
        except (ConnectionClosed, OSError) as error:
            log.info("port-forward to %s: %s", self._pod, error)
        except asyncio.CancelledError:
            return  # closed by us
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _open(self) -> ClientConnection:
        path = f"/api/v1/namespaces/{quote(self._namespace)}/pods/{quote(self._pod)}/portforward"
        url = f"{self._api.server}{path}?ports={self._remote}".replace("http", "ws", 1)
        what = f"get and create pods/portforward in {self._namespace}"
        try:
            return await connect(
                url,
                ssl=self._api.ssl,
                subprotocols=[PROTOCOL],
                additional_headers=await self._api.authorization(),
                compression=None,
                proxy=None,
                open_timeout=OPEN_SECONDS,
                ping_interval=None,  # gRPC looks after a connection that went silent
                max_size=None,
            )
        except InvalidStatus as error:
            raise _refusal(error, what) from None
        except (InvalidHandshake, OSError, TimeoutError) as error:
            raise ApiUnavailable(f"cannot {what}: {error or type(error).__name__}") from error

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: ClientConnection
    ) -> None:
        """Both ways, until either side ends."""
        up = asyncio.create_task(_send(reader, socket))
        try:
            channels = Channels()
            async for message in socket:
                data = channels.take(message if isinstance(message, bytes) else message.encode())
                if data:
                    writer.write(data)
                    await writer.drain()
        finally:
            up.cancel()
            await asyncio.gather(up, return_exceptions=True)


async def _send(reader: asyncio.StreamReader, socket: ClientConnection) -> None:
    while data := await reader.read(BLOCK):
        await socket.send(Channels.pack(data))
    await socket.close()  # the protocol knows no half-closed connection


def _refusal(error: InvalidStatus, what: str) -> PliantError:
    answer = error.response
    text = (answer.body or b"").decode(errors="replace")
    try:
        status = json.loads(text)
        reason, message = str(status.get("reason", "")), str(status.get("message", text))
    except (ValueError, AttributeError):
        reason, message = "", text.strip() or answer.reason_phrase
    return error_of(answer.status_code, reason, message, what=what)
