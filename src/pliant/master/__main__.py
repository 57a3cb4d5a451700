"""``python -m pliant.master --job-dir DIR``: one master of a job.

On this machine its ``job.yaml`` is in that folder. In a Pod the folder may be empty at first: ``--spec`` names the file that
the job begins with, and the folder keeps its own copy, since a journal is read with the description it was begun with.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
from pathlib import Path

from pliant.core.errors import Conflict, PliantError, RetryableError
from pliant.files.atomic import write_json, write_text
from pliant.files.locks import FileLock
from pliant.files.private import FILE_MODE, restrict_new_files
from pliant.master.job_dir import JobDir
from pliant.master.supervisor import (
    EXIT_ALREADY_RUNNING,
    EXIT_PERMANENT,
    EXIT_RETRY_LATER,
    EXIT_STOP_UNRECORDED,
    watch_launcher,
)
from pliant.rpc.grpc_logging import import_grpc_quietly


def main() -> int:
    parser = argparse.ArgumentParser(prog="pliant.master")
    parser.add_argument("--job-dir", type=Path, required=True)
    parser.add_argument("--host", default="", help="listen on TCP as well, for programs of other machines")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--advertise", default="", help="where nodes reach this master, host:port")
    parser.add_argument("--spec", type=Path, help="initial job.yaml, if the directory has none")
    parser.add_argument("--token-file", type=Path, help="the job's token, if it is not in the directory")
    parser.add_argument("--tls-dir", type=Path, help="existing certificates")
    parser.add_argument(
        "--parameters-dir",
        type=Path,
        help="directory shared with parameter servers, if they cannot see the job directory",
    )
    parser.add_argument("--brain-dir", type=Path, help="the job's access to the Brain, if it is not in the directory")
    parser.add_argument("--take-over", action="store_true", help="if the journal is empty, take over living nodes")
    parser.add_argument("--stop", default="", metavar="REASON", help="stop the job and record that")
    options = parser.parse_args()
    restrict_new_files()
    import_grpc_quietly()
    from pliant.master.process import Master, StopUnrecorded  # brings gRPC

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    job_dir = JobDir(options.job_dir.absolute())
    if options.spec is not None and not job_dir.exists():
        _create(job_dir, has_secrets=options.token_file is None)
        write_text(job_dir.spec, options.spec.read_text(encoding="utf-8"), mode=FILE_MODE)
    lock = FileLock(job_dir.path / "master.lock")
    if not lock.try_acquire():
        return EXIT_ALREADY_RUNNING

    watch_launcher(job_dir)

    async def serve() -> None:
        await Master(
            job_dir,
            host=options.host,
            port=options.port,
            advertise=options.advertise,
            token_file=options.token_file,
            tls_dir=options.tls_dir,
            parameters_dir=options.parameters_dir,
            brain_dir=options.brain_dir,
            takes_over=options.take_over,
            stop=options.stop,
        ).run()

    try:
        asyncio.run(serve())
    except PliantError as error:
        logging.getLogger("pliant.master").error("%s", error)
        with contextlib.suppress(OSError):
            write_json(job_dir.problem_file, {"message": error.message, "hint": error.hint})
        if isinstance(error, StopUnrecorded):
            return EXIT_STOP_UNRECORDED
        return EXIT_RETRY_LATER if isinstance(error, RetryableError) else EXIT_PERMANENT
    return 0


def _create(job_dir: JobDir, *, has_secrets: bool) -> None:
    try:
        job_dir.create()
    except Conflict as error:
        if has_secrets:
            raise
        # A volume of a cluster that maps owners; who may mount it is the cluster's business.
        logging.getLogger("pliant.master").warning("the job's folder is not private: %s", error.message)
        for folder in (job_dir.logs, job_dir.nodes):
            folder.mkdir(parents=True, exist_ok=True)


if __name__ == "__main__":
    sys.exit(main())
