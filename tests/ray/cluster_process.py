"""``python -m tests.ray.cluster_process FILE CPUS...``: a Ray cluster with one node per number of CPUs.

Each has a loopback address of its own. Address and pids of the raylets are written to FILE. It ends with its standard input; a
line there kills the control store, and starts it again.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
import tempfile
from pathlib import Path

SMALL_STORE = 78_643_200  # bytes, the least that Ray takes
FIRST_ADDRESS = 1
REAP_INTERVAL_S = 0.2


def main() -> None:
    session = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # sockets need short paths
    # Where Ray notes the cluster that was started last: this one is not what `auto` means on this machine.
    os.environ["RAY_TMPDIR"] = str(session)
    (session / "ray").mkdir()
    try:
        run(Path(sys.argv[1]), [int(number) for number in sys.argv[2:]], session / "ray")
    finally:
        shutil.rmtree(session, ignore_errors=True)


def run(place: Path, cpus: list[int], session: Path) -> None:
    from ray.cluster_utils import Cluster

    def node(number: int) -> dict[str, object]:
        address = f"127.0.7.{FIRST_ADDRESS + number}"  # not 127.0.0.1, which Ray takes for the machine's own address
        return {"num_cpus": cpus[number], "object_store_memory": SMALL_STORE, "node_ip_address": address}

    head = {"include_dashboard": False, "temp_dir": str(session), **node(0)}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.head_node, *(cluster.add_node(**node(number)) for number in range(1, len(cpus)))]
    raylets = [each.all_processes["raylet"][0].process.pid for each in nodes]
    place.with_suffix(".part").write_text(json.dumps({"address": cluster.address, "raylets": raylets}))
    os.replace(place.with_suffix(".part"), place)
    processes = [process for each in nodes for group in each.all_processes.values() for process in group]
    while True:
        if select.select([sys.stdin], [], [], REAP_INTERVAL_S)[0]:
            if not os.read(sys.stdin.fileno(), 1024):
                break
            cluster.head_node.kill_gcs_server()
            cluster.head_node.start_gcs_server()
        for each in processes:  # a raylet that was killed is gone for its workers only when it is no zombie any more
            each.process.poll()
    cluster.shutdown()


if __name__ == "__main__":
    main()
