"""One connection of a client to one parameter server. Not for several threads at once: a client has one per server.

A request may be split (``send_…`` / ``receive_…``) so that a client asks all servers first and then collects the
answers. After ``ServerUnavailable`` the connection is closed and a new one is needed; after any other error it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from pliant.ps.pieces import Floats, Ids, Piece, Push
from pliant.ps.specs import Spec
from pliant.rpc.tls import TlsFiles


class PsConnection:
    """Connects and authenticates at once."""

    def __init__(self, host: str, port: int, token: str, *, tls: TlsFiles | None = None, timeout: float = 60.0) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        raise NotImplementedError

    def send_pull_rows(self, wanted: Sequence[tuple[str, Ids]], *, iteration: int = 0) -> None:
        """Ask for rows of several tables in one request; answered once the server is at ``iteration``."""
        raise NotImplementedError

    def receive_rows(self, out: Sequence[Floats]) -> int:
        """Receive straight into these arrays (one per table asked for); the server's iteration."""
        raise NotImplementedError

    def pull_rows(self, table: str, ids: Ids, out: Floats, *, iteration: int = 0) -> int:
        raise NotImplementedError

    def send_pull_blocks(
        self, wanted: Sequence[tuple[str, int, int]], *, iteration: int = 0, wait: float = 0.0
    ) -> None:
        """Ask for blocks: (variable, block, have). Those which did not change after iteration ``have`` are left out; -1: always
        sent. Answered once the server is at ``iteration``, or after ``wait`` seconds with what there is."""
        raise NotImplementedError

    def receive_blocks(self, out: dict[tuple[str, int], Floats]) -> tuple[int, list[tuple[str, int]]]:
        """Receive into the arrays of ``out``; the server's iteration and which blocks came."""
        raise NotImplementedError

    def pull_blocks(self, out: dict[tuple[str, int], Floats], *, iteration: int = 0) -> int:
        raise NotImplementedError

    def send_push(self, push: Push, *, apply_now: bool = False) -> None:
        raise NotImplementedError

    def receive_pushed(self) -> int:
        """The push is staged (or applied); the server's iteration."""
        raise NotImplementedError

    def push(self, push: Push, *, apply_now: bool = False) -> int:
        raise NotImplementedError

    def define(self, specs: Iterable[Spec]) -> None:
        """Only a standalone server takes definitions over this wire."""
        raise NotImplementedError

    def import_(self, pieces: Iterable[Piece]) -> int:
        """Hand state to the server (the stream of a move); how many rows and blocks it took."""
        raise NotImplementedError

    def stats(self) -> dict[str, Any]:
        raise NotImplementedError
