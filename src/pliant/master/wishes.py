"""Wishes of people that reach the master through its platform (``kubectl scale``, an edited job, a ScalePlan).

The shell around ``core.wishes.WishBook``: a wish is tried on a copy of the node book, so it is carried out as a whole or
refused as a whole, with the reason for the person who made it. It is answered once it is on disk.

Parameter servers come and go as ``scale`` lets them: one that goes gives what it has to the others first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pliant.core.errors import InvalidRequest, PliantError
from pliant.core.wishes import Change, WishBook
from pliant.master.journal import Journal
from pliant.master.nodes import NodeManager
from pliant.platforms.base import Desk, Wish

log = logging.getLogger(__name__)


class WishKeeper:
    def __init__(
        self,
        book: WishBook,
        nodes: NodeManager,
        journal: Journal,
        desk: Desk,
        *,
        scale: Callable[[str, int, str], object],
        servers: str = "",
    ) -> None:
        """``servers``: the role that holds parameters, if there is one."""
        self._book = book
        self._scale = scale
        self._servers = servers
        self._nodes = nodes
        self._journal = journal
        self._desk = desk
        self.refusal = ""  # of the last edit, or what was made of it, until another is taken

    async def follow(self) -> None:
        """Take the desk's wishes, for ever."""
        async for wish in self._desk.wishes():
            if self._book.is_new(wish.id):
                await self.take(wish)
            else:
                await self._desk.answer(wish, self._book.refusal_of(wish.id))  # its answer may have been lost

    async def take(self, wish: Wish) -> None:
        refusal = ""
        try:
            changes = self._book.changes(wish.content, state=wish.state)
            self._nodes.try_changes(changes)
            self._check_servers(changes)
        except (PliantError, KeyError, TypeError, ValueError) as error:
            refusal = error.message if isinstance(error, PliantError) else f"it is not understood: {error!r}"
        else:
            self._carry_out(wish, changes)
        state = self._book.understood(wish.content) if wish.state and not refusal else None
        refusal = refusal or str(wish.content.get("problem") or "")
        if refusal:
            self._journal.event("refused", f"the wish {wish.id}: {refusal}")
        if note := str(wish.content.get("note") or ""):
            self._journal.event("wish", f"{wish.id}: {note}")
        self._journal.do(self._book.taken, wish=wish.id, refusal=refusal, state=state)
        if wish.state:
            self.refusal = refusal or note
        await self._journal.durable()
        if not refusal:
            await self._desk.carried_out(wish)
        await self._desk.answer(wish, refusal)

    def _carry_out(self, wish: Wish, changes: list[Change]) -> None:
        if changes:
            self._journal.event("wish", f"{wish.id}: {'; '.join(change.text for change in changes)}")
        for change in changes:
            if change.method == "scale":
                self._scale(change.arguments["role"], change.arguments["replicas"], change.arguments["reason"])
            else:
                self._nodes.change(change)

    def _check_servers(self, changes: list[Change]) -> None:
        """What would take a parameter server away before it gave what it has to the others."""
        for change in changes if self._servers else ():
            asked = change.arguments
            there = [node.name for node in self._nodes.book.seated(self._servers)]
            if change.method == "remove" and asked["node"] in there:
                raise InvalidRequest(
                    f"{asked['node']} holds parameters: ask for fewer nodes of the role {self._servers}, the newest goes"
                )
            if asked.get("role") != self._servers:
                continue
            if change.method == "set_limits" and not asked["min_replicas"] <= len(there) <= asked["max_replicas"]:
                limits = f"{asked['min_replicas']} to {asked['max_replicas']}"
                raise InvalidRequest(
                    f"there are {len(there)} nodes of the role {self._servers} now, so {limits} cannot be"
                )
            if change.method == "scale" and asked["replicas"] < 1:
                raise InvalidRequest(f"at least one node of the role {self._servers} is needed")
