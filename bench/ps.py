"""Parameter servers: dense and embedding pulls and pushes over loopback, beside a bare socket, torch.distributed.rpc and gRPC.

    python bench/ps.py [--dense] [--embedding] [--quick] [--rows N] [--repeats N] [--json]

Every server and every worker is a process. Dense: 100 MB in one pull or push. Embedding: 4096 random ids of a table of 5 million
rows of 64 floats. Pliant's figures include the hash table, the optimizer (SGD; the peers subtract, too) and the client's
merging and grouping of ids; torch.rpc and gRPC index a plain array. All systems take turns; shown are medians, and medians
of the ratios within a turn, and the CPU time of servers and workers together, which a busy machine disturbs less. Arrow Flight
and pyzmq are shown where they are installed; they settled the choice of the wire.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
from harness import Client, finish, machine, median, paired, say, table, together

PEER = Path(__file__).parent / "clients" / "ps_peer.py"
DIM, BATCH = 64, 4096
FLOATS = 25_000_000  # 100 MB
AIMS = {"dense": 0.7, "pull": 3.0, "push": 4.0, "memory": 1.3}


class System:
    """Servers and workers of one system, ready for orders."""

    def __init__(self, name: str, servers: int, workers: int, rows: int, floats: int) -> None:
        self.name = name
        meeting = ()
        if name == "torch":
            meeting = (str(servers + workers), str(_free_port()))
        self._servers = []
        for rank in range(servers):
            command = [sys.executable, str(PEER), "serve", name, str(rows), str(DIM), str(floats)]
            command += [str(rank), *meeting] if meeting else []
            self._servers.append(Client(command, {}))
        told: list[dict[str, Any]] = []
        if not meeting:
            told = [server.answer() for server in self._servers]
        ports = ",".join(str(t["port"]) for t in told) if told else ",".join("0" * servers)
        self.workers = []
        for number in range(workers):
            command = [sys.executable, str(PEER), "work", name, str(DIM), str(floats), ports, str(rows)]
            command += [str(servers + number), *meeting] if meeting else []
            self.workers.append(Client(command, {}))
        for worker in self.workers:
            worker.answer()
        self.memory = told[0] if told else {}

    def rate(self, op: str, seconds: float) -> float:
        """Calls per second of all workers together."""
        self._signal(signal.SIGCONT)
        before = self._cpu()
        answers = together(self.workers, op=op, seconds=seconds)
        self.cpu_ms = 1000 * (self._cpu() - before) / sum(a["count"] for a in answers)
        self._signal(signal.SIGSTOP)
        return sum(a["count"] / a["elapsed"] for a in answers)

    def _cpu(self) -> float:
        """CPU seconds of all its processes so far."""
        return sum(sum(psutil.Process(p.pid).cpu_times()[:2]) for p in (*self.workers, *self._servers))

    def _signal(self, number: signal.Signals) -> None:
        """Who is not in turn stands still: torch.rpc polls shared memory without a pause, also when it has nothing to do."""
        for process in (*self.workers, *self._servers):
            os.kill(process.pid, number)

    def close(self) -> None:
        for process in (*self.workers, *self._servers):
            process.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def measure(
    names: list[str],
    ops: tuple[str, ...],
    servers: int,
    workers: int,
    rows: int,
    floats: int,
    turns: int,
    seconds: float,
) -> dict[str, dict[str, list[float]]]:
    """Rates by operation and system, one per turn; the systems are alive together and work in turn."""
    systems = []
    rates: dict[str, dict[str, list[float]]] = {name: {} for op in ops for name in (op, f"{op} cpu")}
    try:
        for name in names:
            systems.append(System(name, servers, workers, rows, floats))
            for op in ops:
                systems[-1].rate(op, 0.3)  # warm: pages, buffers, compiled code
        for _ in range(turns):
            for op in ops:
                for system in systems:
                    rates[op].setdefault(system.name, []).append(system.rate(op, seconds))
                    rates[f"{op} cpu"].setdefault(system.name, []).append(system.cpu_ms)
        for system in systems:
            if "rss" in system.memory:
                rates["memory"] = {"allocated": [system.memory["memory_ratio"]], "resident": [system.memory["rss"]]}
    finally:
        for system in systems:
            system.close()
    return rates


def optional() -> list[str]:
    found = []
    for name, module in (("flight", "pyarrow.flight"), ("zmq", "zmq")):
        try:
            if importlib.util.find_spec(module):
                found.append(name)
        except ModuleNotFoundError:
            pass
    return found


def dense(turns: int, seconds: float) -> dict[str, Any]:
    say("dense: 100 MB")
    names = ["pliant", "raw", "torch", "grpc", *optional()]
    rates = measure(names, ("dense_pull", "dense_push"), 1, 1, 0, FLOATS, turns, seconds)
    result: dict[str, Any] = {}
    rows = []
    for op in ("dense_pull", "dense_push"):
        by_name = rates[op]
        ours = by_name["pliant"]
        result[op] = {
            "gb_per_second": {name: median(found) * FLOATS * 4 / 1e9 for name, found in by_name.items()},
            "of_raw": paired(ours, by_name["raw"]),
            "times": {n: paired(ours, found) for n, found in by_name.items() if n not in ("pliant", "raw")},
            "cpu_ms": {name: median(found) for name, found in rates[f"{op} cpu"].items()},
        }
        for name in names:
            ratio = "" if name == "pliant" else f"{paired(ours, by_name[name]):.2f} x"
            rows.append(
                (op, name, f"{result[op]['gb_per_second'][name]:.2f}", ratio, f"{result[op]['cpu_ms'][name]:.0f}")
            )
    table("Dense, 100 MB in one call", ("", "system", "GB/s", "Pliant is", "CPU ms a call"), rows)
    return result


def embedding(turns: int, seconds: float, rows: int, quick: bool) -> dict[str, Any]:
    result: dict[str, Any] = {}
    shown = []
    for servers, workers in ((1, 1),) if quick else ((1, 1), (1, 4), (2, 1), (2, 4)):
        say(f"embedding: {servers} server(s), {workers} worker(s), table of {rows:,} rows")
        alone = (servers, workers) == (1, 1)
        names = ["pliant", "torch", *(["grpc", "raw", *optional()] if alone else ["grpc"] if servers == 1 else [])]
        rates = measure(names, ("pull", "push"), servers, workers, rows, 0, turns, seconds)
        if alone:
            result["memory"] = {kind: found[0] for kind, found in rates["memory"].items()}
        for op in ("pull", "push"):
            ours = rates[op]["pliant"]
            key = f"{op} {servers} PS {workers} workers"
            result[key] = {
                "calls_per_second": {name: median(found) for name, found in rates[op].items()},
                "times": {name: paired(ours, found) for name, found in rates[op].items() if name != "pliant"},
                "cpu_ms": {name: median(found) for name, found in rates[f"{op} cpu"].items()},
            }
            for name, found in rates[op].items():
                ratio = "" if name == "pliant" else f"{paired(ours, found):.2f} x"
                cpu = f"{result[key]['cpu_ms'][name]:.2f}"
                shown.append((key, name, f"{median(found):,.0f}", f"{median(found) * BATCH / 1e6:.2f}", ratio, cpu))
    columns = ("", "system", "calls/s", "M rows/s", "Pliant is", "CPU ms a call")
    table(f"Embedding, {BATCH} ids x {DIM} floats, table of {rows:,} rows", columns, shown)
    memory = result["memory"]
    say(f"memory per row, times its floats: allocated {memory['allocated']:.3f}, resident {memory['resident']:.3f}")
    return result


def judge(result: dict[str, Any]) -> list[str]:
    """What misses its aim."""
    missed = []
    for op, found in result.get("dense", {}).items():
        if found["of_raw"] < AIMS["dense"]:
            missed.append(f"{op}: {found['of_raw']:.2f} of a bare socket, aim {AIMS['dense']}")
    for key, found in result.get("embedding", {}).items():
        if key == "memory":
            if found["allocated"] > AIMS["memory"]:
                missed.append(f"memory: {found['allocated']:.2f} times the floats, aim {AIMS['memory']}")
        elif found["times"]["torch"] < AIMS[key.split()[0]]:
            missed.append(f"{key}: {found['times']['torch']:.2f} times torch.rpc, aim {AIMS[key.split()[0]]}")
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dense", action="store_true", help="only the dense part")
    parser.add_argument("--embedding", action="store_true", help="only the embedding part")
    parser.add_argument("--quick", action="store_true", help="a small table, one server and worker, one turn")
    parser.add_argument("--repeats", type=int, default=0, help="turns of each system (5; quick: 1)")
    parser.add_argument("--rows", type=int, default=0, help="rows of the table (5 million; quick: 200 thousand)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    turns = options.repeats or (1 if options.quick else 5)
    seconds = 0.5 if options.quick else 1.5
    result: dict[str, Any] = {"machine": machine()}
    if options.dense or not options.embedding:
        result["dense"] = dense(turns, seconds)
    if options.embedding or not options.dense:
        rows = options.rows or (200_000 if options.quick else 5_000_000)
        result["embedding"] = embedding(turns, seconds, rows, options.quick)
    for text in (missed := judge(result)):
        say(f"misses its aim: {text}")
    if not missed:
        say("every aim is met")
    finish(result, options.json)


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, subprocess.SubprocessError) as error:
        sys.exit(f"bench: {error}")
