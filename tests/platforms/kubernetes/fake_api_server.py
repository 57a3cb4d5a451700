"""A double of the API server for the command line's tests: objects in memory, and port-forwards into a local port.

It speaks what ``KubeApi`` and ``PortForward`` speak: JSON over HTTP/1.1, and websockets with ``v4.channel.k8s.io`` whose
other end is a real TCP connection, so a real master can be behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve

from pliant.platforms.kubernetes.portforward import PROTOCOL
from pliant.testing.waiting import MAX_WAIT_S

Object = dict[str, Any]
BLOCK = 1 << 14
REASONS = {200: "OK", 201: "Created", 403: "Forbidden", 404: "NotFound", 409: "AlreadyExists"}


WATCH_S = 0.5  # after which a watch ends without an event


class FakeApi:
    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}  # by path
        self.logs: dict[str, str] = {}  # by Pod
        self.forbidden: set[str] = set()  # methods and beginnings of paths, such as "GET /api/v1/.../secrets"
        self.unknown: set[str] = set()  # kinds that the cluster does not know, by their plurals
        self.target = 0  # the port behind every port-forward
        self.complaint = b""  # sent on the error channel instead
        self.seen: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    # --- for tests

    def put(self, path: str, body: Object) -> Object:
        body["metadata"] |= {"name": path.rpartition("/")[2], "resourceVersion": "1"}
        body["metadata"].setdefault("uid", f"uid-{len(self.objects)}")
        body["metadata"].setdefault("creationTimestamp", f"2026-01-01T00:00:{len(self.objects):02}Z")
        self.objects[path] = body
        return body

    def kubeconfig(self, folder: Path) -> Path:
        path = folder / "kubeconfig"
        config = {
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me", "namespace": "team"}}],
            "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "me", "user": {"token": "secret-of-the-user"}}],
        }
        path.write_text(json.dumps(config))
        return path

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(MAX_WAIT_S)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(MAX_WAIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- the server

    async def _start(self) -> None:
        self._sockets: Server = await serve(
            self._forward, "127.0.0.1", 0, subprotocols=[PROTOCOL], compression=None, max_size=None
        )
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        self._sockets.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, address, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            body = await reader.readexactly(int(length[1])) if length else b""
            url = urlsplit(address)
            self.seen.append(f"{method} {address}")
            refused = any(f"{method} {url.path}".startswith(entry) for entry in self.forbidden)
            pod = url.path.removesuffix("/portforward")
            if url.path.endswith("/portforward") and not refused and pod in self.objects:
                assert b"Bearer secret-of-the-user" in head
                await self._tunnel(head, reader, writer)
                return
            code, answer = (403, {}) if refused else self._answer(method, url.path, parse_qs(url.query), body)
            if "watch" in parse_qs(url.query):
                answer = ""
                await asyncio.sleep(WATCH_S)
            text = answer if isinstance(answer, str) else json.dumps(answer)
            if code >= 400:
                text = json.dumps({"reason": REASONS[code], "message": f"{REASONS[code]}: {url.path}", "code": code})
            content = text.encode()
            writer.write(f"HTTP/1.1 {code} {REASONS[code]}\r\nContent-Length: {len(content)}\r\n".encode())
            writer.write(b"Content-Type: application/json\r\nConnection: close\r\n\r\n" + content)
            await writer.drain()
        writer.close()

    def _answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, Object | str]:
        given = json.loads(body) if body else {}
        if path.endswith("/log"):
            return 200, self.logs.get(path.split("/")[-2], "")
        if method == "POST":
            name = given["metadata"]["name"]
            if f"{path}/{name}" in self.objects:
                return 409, {}
            return 201, self.put(f"{path}/{name}", given)
        if method == "PATCH" and path in self.objects:
            _merge(self.objects[path], given)
            return 200, self.objects[path]
        if method == "DELETE" and path in self.objects:
            del self.objects[path]
            return 200, {}
        if method == "GET" and path in self.objects:
            return 200, self.objects[path]
        if path.rpartition("/")[2] in self.unknown:
            return 404, {}
        inside = [value for at, value in self.objects.items() if at.rpartition("/")[0] == path]
        if method == "GET" and path.rpartition("/")[2] in ("elasticjobs", "pods"):
            label = query.get("labelSelector", [""])[0].partition("=")[::2]
            wanted = [
                o for o in inside if not label[0] or (o["metadata"].get("labels") or {}).get(label[0]) == label[1]
            ]
            return 200, {"metadata": {"resourceVersion": "1"}, "items": wanted}
        return 404, {}

    async def _tunnel(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = next(iter(self._sockets.sockets)).getsockname()[1]
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        inner_writer.write(head)
        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))

    async def _forward(self, socket: ServerConnection) -> None:
        port = int(parse_qs(urlsplit(socket.request.path if socket.request else "").query)["ports"][0])
        for channel in (0, 1):
            await socket.send(bytes([channel]) + port.to_bytes(2, "little"))
        if self.complaint:
            await socket.send(b"\x01" + self.complaint)
            return
        reader, writer = await asyncio.open_connection("127.0.0.1", self.target)

        async def up() -> None:
            async for message in socket:
                assert isinstance(message, bytes)
                assert message[0] == 0
                writer.write(message[1:])
                await writer.drain()
            writer.close()

        async def down() -> None:
            while data := await reader.read(BLOCK):
                await socket.send(b"\x00" + data)
            await socket.close()

        with contextlib.suppress(OSError):
            await asyncio.gather(up(), down(), return_exceptions=True)
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(BLOCK):
            writer.write(data)
            await writer.drain()
    writer.close()


def _merge(value: Object, patch: Object) -> None:
    for key, change in patch.items():
        if isinstance(change, dict) and isinstance(value.get(key), dict):
            _merge(value[key], change)
        else:
            value[key] = change


@contextlib.contextmanager
def running_api() -> Iterator[FakeApi]:
    api = FakeApi()
    api.start()
    try:
        yield api
    finally:
        api.close()
