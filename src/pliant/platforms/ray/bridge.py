"""``python -m pliant.platforms.ray.bridge``: Ray's client, in a process beside the one that needs it.

Ray's client ends its process when the cluster's control store is gone for a minute, starts threads and takes over signals
and logs; a master must not have that. This process reads requests from its standard input, one JSON object per line, and
writes answers and events to its standard output. It ends with its input. Whoever started it starts it again (``link``).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CALLS = ("launch", "remove", "nodes", "start_master", "master_state", "kill_all", "machines", "actors", "dashboard_url")


def main() -> int:
    given = json.loads(sys.argv[1])
    out = os.fdopen(os.dup(1), "w", buffering=1)  # Ray prints, too
    os.dup2(2, 1)
    try:
        return asyncio.run(_serve(given, out))
    except BrokenPipeError:
        return 0


async def _serve(given: Mapping[str, Any], out: Any) -> int:
    import ray  # takes a second, and may not be installed

    from pliant.platforms.ray.cluster import RayCluster
    from pliant.platforms.ray.names import NAMESPACE, NameTaken

    def write(value: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):
            out.write(json.dumps(value) + "\n")

    try:
        ray.init(
            given["address"],
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level="ERROR",
            runtime_env=given["runtime_env"] or None,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        write({"fatal": f"cannot connect to the Ray cluster {given['address']}: {error}"})
        return 1
    cluster = RayCluster(given["job"], Path(given["job_dir"]), lambda event: write({"event": event}))
    context = ray.get_runtime_context()
    write({"ready": context.gcs_address, "runtime_env": dict(context.runtime_env)})
    lines = asyncio.StreamReader(limit=1 << 26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        request = json.loads(line)
        assert request["call"] in CALLS, request["call"]
        try:
            answer = getattr(cluster, request["call"])(*request["arguments"])
            write({"id": request["id"], "answer": answer})
        except NameTaken as error:
            write({"id": request["id"], "conflict": str(error)})
        except (ray.exceptions.RayError, OSError, ValueError, RuntimeError) as error:
            write({"id": request["id"], "error": f"{type(error).__name__}: {error}"})
    cluster.close()
    out.flush()
    os._exit(0)  # nothing here needs an orderly end, which takes Ray's client seconds


if __name__ == "__main__":
    sys.exit(main())
