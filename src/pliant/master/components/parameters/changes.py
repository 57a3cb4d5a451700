"""One condition that calls to the master wait for: something about the parameter servers changed."""

from __future__ import annotations

import asyncio


class ChangeSignal:
    """``notify`` wakes up all who wait; each then looks whether it is what they wait for."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    async def wait(self) -> None:
        await self._changed.wait()

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
