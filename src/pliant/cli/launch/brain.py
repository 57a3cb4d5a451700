"""Running the Brain in the foreground, for ``pliant brain serve``."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pliant.brain.server import BrainServer, BrainSettings
from pliant.brain.store.retention import DAY_S, Retention
from pliant.cli.render.terminal import say
from pliant.core.errors import InvalidRequest
from pliant.rpc.brain.access import brain_home

LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class ServeOptions:
    listen: str
    advertise: str
    database: str | None
    directory: Path | None
    health_port: int | None
    health_host: str
    workers: int
    algorithm_timeout_s: float
    algorithm_memory_mb: int
    raw_days: float
    job_days: float
    migrates: bool
    monitors: bool  # this machine
    log_level: str

    def settings(self) -> BrainSettings:
        if self.advertise and not self.listen:
            raise InvalidRequest("--advertise requires --listen", hint="say where it listens: --listen 0.0.0.0:50051")
        for option, address, first in (("--listen", self.listen, 0), ("--advertise", self.advertise, 1)):
            if address and not is_host_and_port(address, first):
                raise InvalidRequest(
                    f"{option} {address!r:.80} is not HOST:PORT", hint=f"for example {option} 10.0.0.5:50051"
                )
        return BrainSettings(
            folder=self.directory or brain_home(),
            database=self.database or "",
            listen=self.listen,
            advertise=self.advertise,
            health_port=self.health_port,
            health_host=self.health_host,
            workers=self.workers,
            algorithm_timeout_s=self.algorithm_timeout_s,
            algorithm_memory_mb=self.algorithm_memory_mb,
            migrates=self.migrates,
            retention=Retention(raw_s=self.raw_days * DAY_S, ended_s=self.job_days * DAY_S),
        )


def is_host_and_port(address: str, first: int) -> bool:
    """``first``: the lowest port that is allowed. An address of IPv6 is in brackets."""
    host, _, port = address.rpartition(":")
    is_host = bool(host) and not any(sign.isspace() or sign == "/" for sign in host)
    has_brackets = ":" not in host or (host.startswith("[") and host.endswith("]"))
    return is_host and has_brackets and port.isascii() and port.isdigit() and first <= int(port) <= 65535


def serve_brain(options: ServeOptions) -> None:
    if options.log_level not in LEVELS:
        raise InvalidRequest(f"unknown log level {options.log_level!r}", hint=f"one of {', '.join(LEVELS)}")
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=options.log_level.upper())
    logging.getLogger("alembic").setLevel(max(logging.WARNING, logging.getLogger().level))  # revisions are logged here
    settings = options.settings()

    async def main() -> None:
        server = BrainServer(settings)
        say(f"the Brain's folder is {settings.folder}; its database is {server.database.shown_url}")
        watching = asyncio.create_task(_monitor_this_machine(server)) if options.monitors else None
        try:
            await server.run()
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    with suppress(KeyboardInterrupt):
        asyncio.run(main())


async def _monitor_this_machine(server: BrainServer) -> None:
    from pliant.cli.launch.monitoring import watch_this_machine

    await watch_this_machine(server.settings.folder)
