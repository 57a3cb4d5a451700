"""``python -m pliant.master --job-dir DIR``: one master of a job whose ``job.yaml`` is there."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from pliant.core.errors import PliantError, RetryableError
from pliant.master.app import Master
from pliant.master.job_dir import JobDir
from pliant.master.supervisor import ALREADY_THERE, HOPELESS, NOT_NOW, watch_launcher
from pliant.platforms.durable_files import FileLock


def main() -> int:
    parser = argparse.ArgumentParser(prog="pliant.master")
    parser.add_argument("--job-dir", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    job_dir = JobDir(options.job_dir.absolute())
    lock = FileLock(job_dir.path / "master.lock")
    if not lock.try_acquire():
        return ALREADY_THERE

    watch_launcher(job_dir)

    async def serve() -> None:
        await Master(job_dir, host=options.host, port=options.port).run()

    try:
        asyncio.run(serve())
    except PliantError as error:
        logging.getLogger("pliant.master").error("%s", error)
        return NOT_NOW if isinstance(error, RetryableError) else HOPELESS
    return 0


if __name__ == "__main__":
    sys.exit(main())
