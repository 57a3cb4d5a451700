"""torchft starts no processes itself: this starts its lighthouse and the replicas, and a dead replica again.

python torchft_launcher.py REPLICAS HEARTBEAT_TIMEOUT_MS JOIN_TIMEOUT_MS PROGRAM
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> None:
    replicas, heartbeat_ms, join_ms, program = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    port = free_port()
    limits = ["--min_replicas", "1", "--heartbeat_timeout_ms", heartbeat_ms, "--join_timeout_ms", join_ms]
    program_of = Path(sys.executable).with_name("torchft_lighthouse")
    lighthouse = subprocess.Popen([program_of, "--bind", f"127.0.0.1:{port}", "--quorum_tick_ms", "10", *limits])
    env = {**os.environ, "TORCHFT_LIGHTHOUSE": f"http://127.0.0.1:{port}", "NUM_REPLICA_GROUPS": str(replicas)}

    def start(replica: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, program], env={**env, "REPLICA_GROUP_ID": str(replica)})

    running = {replica: start(replica) for replica in range(replicas)}
    try:
        while any(process.poll() != 0 for process in running.values()):
            for replica, process in running.items():
                if process.poll() not in (None, 0):
                    running[replica] = start(replica)
            time.sleep(0.02)
    finally:
        for process in (*running.values(), lighthouse):
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
