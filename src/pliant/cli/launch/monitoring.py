"""A cluster monitor in the foreground, for ``pliant brain monitor``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from pliant.cli.render.terminal import EscapingFormatter, say
from pliant.core.plurals import counted
from pliant.monitors.base import Observation
from pliant.monitors.registry import make_monitor
from pliant.rpc.grpc_logging import import_grpc_quietly

if TYPE_CHECKING:
    from pliant.monitors.reporter import ObservationReporter
    from pliant.rpc.brain.access import BrainAccess


def run_monitor(
    platform: str,
    brain: str | None,
    brain_dir: Path | None,
    *,
    interval: float,
    cluster: str,
    once: bool,
    as_json: bool,
) -> None:
    """Until SIGTERM or SIGINT, or with ``once`` until one observation is sent."""
    import_grpc_quietly()
    from pliant.monitors.reporter import ObservationReporter

    access = find_brain(brain, brain_dir)
    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])

    async def main() -> None:
        reporter = ObservationReporter(
            make_monitor(platform),
            access,
            cluster=cluster,
            interval=interval,
            on_sent=_print if as_json else lambda _: None,
        )
        if not once:
            logging.getLogger(__name__).info("reporting to the Brain at %s every %g s", access.address, interval)
            await _until_stopped(reporter)
            return
        try:
            sent = await reporter.report()
        finally:
            await reporter.close()
        if not as_json:
            machines, nodes = counted(len(sent.machines), "machine"), counted(len(sent.nodes), "node")
            say(f"reported {machines} and {nodes} to the Brain at {access.address}")

    asyncio.run(main())


def find_brain(address: str | None, folder: Path | None) -> BrainAccess:
    """With the cluster's token."""
    from pliant.rpc.brain.access import BrainFolder, brain_home, local_brain
    from pliant.rpc.brain.identity import Caller

    if address is None:
        return local_brain(folder)
    return BrainFolder(folder or brain_home()).access(address, Caller())


async def _until_stopped(reporter: ObservationReporter) -> None:
    task = asyncio.create_task(reporter.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _print(observation: Observation) -> None:
    print(json.dumps(observation.to_json()), flush=True)


async def watch_this_machine(folder: Path) -> None:
    """Beside a Brain of this machine, until cancelled. It learns where the Brain listens once that serves."""
    from pliant.core.errors import NotFound
    from pliant.monitors.reporter import ObservationReporter
    from pliant.rpc.brain.access import local_brain

    while True:
        try:
            access = local_brain(folder)
            break
        except NotFound:
            await asyncio.sleep(0.2)
    await ObservationReporter(make_monitor("local"), access).run()
