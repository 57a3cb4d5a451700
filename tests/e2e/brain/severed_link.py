"""A network between two processes that can be cut (connections break) or frozen (nothing arrives, nothing breaks)."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from types import TracebackType
from typing import Self

CHUNK_BYTES = 65_536


class SeveredLink:
    """Listens on a port of its own and passes on what arrives."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._selector = selectors.DefaultSelector()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._wake, self._waker = socket.socketpair()
        self._lock = threading.Lock()
        self._is_cut = self._is_frozen = self._is_over = False
        self.passed = 0  # bytes
        self._thread = threading.Thread(target=self._run, name="link")

    def cut(self) -> None:
        """All connections break, and new ones do at once."""
        self._change(is_cut=True)

    def freeze(self) -> None:
        """Nothing of what is sent arrives, and nobody is told."""
        self._change(is_frozen=True)

    def mend(self) -> None:
        self._change(is_cut=False, is_frozen=False)

    def _change(self, **flags: bool) -> None:
        with self._lock:
            for name, value in flags.items():
                setattr(self, f"_{name}", value)
        self._waker.send(b"x")

    # --- in the thread

    def _run(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        while not self._is_over:
            with self._lock:
                is_cut, is_frozen = self._is_cut, self._is_frozen
            if is_cut:
                self._break_all()
            for key, _ in self._selector.select(None if not is_frozen else 0.05):
                found = key.fileobj
                assert isinstance(found, socket.socket)
                if found is self._wake:
                    self._wake.recv(CHUNK_BYTES)
                elif is_frozen:
                    self._wake_after_a_while()
                elif found is self._listener:
                    self._accept(is_cut=is_cut)
                elif found in self._peers:
                    self._pass_on(found)
        self._break_all()

    def _wake_after_a_while(self) -> None:
        """What waits to be read makes the selector return at once."""
        with contextlib.suppress(TimeoutError):
            self._wake.settimeout(0.05)
            self._wake.recv(CHUNK_BYTES)

    def _accept(self, *, is_cut: bool) -> None:
        ours, _ = self._listener.accept()
        if is_cut:
            ours.close()
            return
        try:
            theirs = socket.create_connection(self._target)
        except OSError:
            ours.close()
            return
        for one, other in ((ours, theirs), (theirs, ours)):
            self._peers[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, source: socket.socket) -> None:
        try:
            data = source.recv(CHUNK_BYTES)
            if data:
                self._peers[source].sendall(data)
                self.passed += len(data)
                return
        except OSError:
            pass
        self._break(source)

    def _break(self, one: socket.socket) -> None:
        for each in (one, self._peers.get(one)):
            if each is not None and self._peers.pop(each, None) is not None:
                self._selector.unregister(each)
                each.close()

    def _break_all(self) -> None:
        for one in list(self._peers):
            self._break(one)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._waker.send(b"x")
        self._thread.join()
        for each in (self._listener, self._wake, self._waker):
            each.close()
        self._selector.close()
