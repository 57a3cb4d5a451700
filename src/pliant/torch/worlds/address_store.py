"""The key-value store through which the members of one gloo group find each other: no socket of its own.

gloo wants a ``Store``: each member sets one key (where it listens) and gets everybody's. torch's ``TCPStore`` for it listens on
all interfaces and serves whoever connects. Here what was set is published with the first look at another member's key, and one
call brings what all members published (``Membership`` makes it, over the authenticated connection to the master). gloo calls
this from C++ in the thread that builds the group; the store must live as long as the group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from torch.distributed import Store  # type: ignore[attr-defined]

Exchange = Callable[[dict[str, bytes]], Sequence[Mapping[str, bytes]]]


class AddressStore(Store):
    """``exchange`` publishes this member's keys, waits for all members and returns what each published, by rank."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__()
        self._exchange = exchange
        self._own: dict[str, bytes] = {}
        self._found: dict[str, bytes] | None = None
        self.published: Sequence[Mapping[str, bytes]] = ()  # by rank

    def set(self, key: str, value: bytes | str) -> None:
        if self._found is not None:
            raise RuntimeError(f"{key!r} was set after the members had exchanged their keys")
        self._own[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key: str) -> bytes:
        if key in self._own:
            return self._own[key]
        found = self._exchanged()
        if key not in found:
            raise RuntimeError(f"no member published {key!r}")
        return found[key]

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """``exchange`` has a time-out of its own."""
        for key in keys:
            self.get(key)

    def check(self, keys: Sequence[str]) -> bool:
        return all(key in self._own or key in self._exchanged() for key in keys)

    def has_extended_api(self) -> bool:
        return False

    def _exchanged(self) -> dict[str, bytes]:
        if self._found is None:
            self.published = self._exchange(self._own)
            self._found = {key: value for keys in self.published for key, value in keys.items()}
        return self._found
