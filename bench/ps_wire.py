"""The wire of parameter servers beside other ways to send the same bytes: what ``ps.py`` calls dense and embedding.

Every server and every worker is a process (``clients/ps_peer.py``). The systems are alive together and have turns, so that what
slows the machine for a while slows all; who is not in turn is stopped by a signal, because torch.rpc polls without a pause
also when it has nothing to do, and would take a core from the others.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
from harness import Client, Peer, median, paired, peer_environment, say, table, together

PEER = Path(__file__).parent / "clients" / "ps_peer.py"
DIM, BATCH = 64, 4096
FLOATS = 25_000_000  # 100 MB
OURS = ("push_logged", "dense_push_logged")  # operations that only Pliant has

Rates = dict[str, dict[str, list[float]]]


class System:
    """Servers and workers of one system, ready for orders."""

    def __init__(self, name: str, servers: int, workers: int, rows: int, floats: int, logs: str) -> None:
        self.name = name
        kind, _, variant = name.partition(" ")
        python = str(_zmq().python) if kind == "zmq" else sys.executable
        env = {"BENCH_LOGS": logs, "OMP_NUM_THREADS": "1", **({"BENCH_UNPACED": "1"} if variant else {})}
        meeting = (str(servers + workers), str(_free_port())) if kind == "torch" else ()
        self._servers = []
        for rank in range(servers):
            command = [python, str(PEER), "serve", kind, *map(str, (rows, DIM, floats, servers, rank)), *meeting]
            self._servers.append(Client(command, env))
        told: list[dict[str, Any]] = [] if meeting else [server.answer() for server in self._servers]
        ports = ",".join(str(t["port"]) for t in told) if told else ",".join("0" * servers)
        self.workers = []
        for number in range(workers):
            command = [python, str(PEER), "work", kind, str(DIM), str(floats), ports, str(rows)]
            command += [str(servers + number), *meeting] if meeting else []
            self.workers.append(Client(command, env))
        for worker in self.workers:
            worker.answer()
        self.memory = told[0] if told else {}

    def rate(self, op: str, seconds: float, workers: int) -> float:
        """Calls per second of so many workers together."""
        self._signal(signal.SIGCONT)
        before = self._cpu()
        answers = together(self.workers[:workers], op=op, seconds=seconds)
        self.cpu_ms = 1000 * (self._cpu() - before) / sum(a["count"] for a in answers)
        self._signal(signal.SIGSTOP)
        return sum(a["count"] / a["elapsed"] for a in answers)

    def _cpu(self) -> float:
        """CPU seconds of all its processes so far."""
        return sum(sum(psutil.Process(p.pid).cpu_times()[:2]) for p in (*self.workers, *self._servers))

    def _signal(self, number: signal.Signals) -> None:
        for process in (*self.workers, *self._servers):
            os.kill(process.pid, number)

    def close(self) -> None:
        for process in (*self.workers, *self._servers):
            process.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def _zmq() -> Peer:
    return peer_environment("zmq", ["pyzmq", "numpy"], "import zmq, numpy")


def others() -> list[str]:
    """Arrow Flight and pyzmq, where they can be had."""
    found = ["flight"] if importlib.util.find_spec("pyarrow") and importlib.util.find_spec("pyarrow.flight") else []
    if _zmq().python:
        found.append("zmq")
    return found


def measure(
    names: Sequence[str],
    ops: Sequence[str],
    servers: int,
    workers: Sequence[int],
    rows: int,
    floats: int,
    turns: int,
    seconds: float,
) -> tuple[dict[int, Rates], dict[str, Any]]:
    """Rates by number of workers, operation (and its CPU time) and system, one per turn; and the memory of Pliant's server."""
    systems: list[System] = []
    rates: dict[int, Rates] = {n: {name: {} for op in ops for name in (op, f"{op} cpu")} for n in workers}
    with tempfile.TemporaryDirectory(prefix="bench-ps-") as logs:
        try:
            for name in names:
                systems.append(System(name, servers, max(workers), rows, floats, logs))
                for op in _ops(name, ops):
                    systems[-1].rate(op, 0.3, max(workers))  # warm: pages, buffers, compiled code
            for _ in range(turns):
                for count in workers:
                    for op in ops:
                        for system in systems:
                            if op in _ops(system.name, ops):
                                rate = system.rate(op, seconds, count)
                                rates[count][op].setdefault(system.name, []).append(rate)
                                rates[count][f"{op} cpu"].setdefault(system.name, []).append(system.cpu_ms)
        finally:
            for system in systems:
                system.close()
    return rates, next((system.memory for system in systems if system.name == "pliant"), {})


def _ops(name: str, ops: Sequence[str]) -> list[str]:
    return [op for op in ops if op not in OURS or name == "pliant"]


def _compared(op: str, rates: Rates) -> dict[str, Any]:
    """One operation: Pliant's own, with the ratios to each peer's of the same kind."""
    ours = rates[op]["pliant"]
    theirs = rates[op.removesuffix("_logged")]
    return {
        "calls_per_second": {name: median(found) for name, found in rates[op].items()},
        "times": {name: paired(ours, found) for name, found in theirs.items() if name != "pliant"},
        "cpu_ms": {name: median(found) for name, found in rates[f"{op} cpu"].items()},
    }


def dense(turns: int, seconds: float) -> dict[str, Any]:
    """100 MB in one call, one server, one worker."""
    names = ["pliant", "raw", "raw unpaced", "torch", "grpc", *others()]
    ops = ("dense_pull", "dense_push", "dense_push_logged")
    rates, _ = measure(names, ops, 1, (1,), 0, FLOATS, turns, seconds)
    result = {op: _compared(op, rates[1]) for op in ops}
    shown = []
    for op, found in result.items():
        for name, rate in found["calls_per_second"].items():
            ratio = "" if name == "pliant" else f"{found['times'][name]:.2f} x"
            shown.append((op, name, f"{rate * FLOATS * 4 / 1e9:.2f}", ratio, f"{found['cpu_ms'][name]:.0f}"))
    logged = result["dense_push_logged"]["times"]
    say(f"dense_push_logged: {logged['raw']:.2f} of a bare socket, {logged['torch']:.2f} times torch.rpc")
    table("Dense, 100 MB in one call", ("", "system", "GB/s", "Pliant is", "CPU ms a call"), shown)
    return result


def embedding(
    turns: int, seconds: float, rows: int, servers: Sequence[int], workers: Sequence[int], all_peers: bool
) -> dict[str, Any]:
    """4096 random ids of a table of so many rows."""
    result: dict[str, Any] = {}
    shown = []
    for count in servers:
        say(f"embedding: {count} server(s), {workers} worker(s), table of {rows:,} rows")
        more = ["raw", "raw unpaced", *others()] if all_peers and count == 1 else []
        ops = ("pull", "push", "push_logged")
        rates, memory = measure(["pliant", "torch", "grpc", *more], ops, count, workers, rows, 0, turns, seconds)
        result["memory"] = {"allocated": memory["memory_ratio"], "resident": memory["rss"]}
        for number in workers:
            for op in ops:
                found = result[f"{op} {count} PS {number} workers"] = _compared(op, rates[number])
                for name, rate in found["calls_per_second"].items():
                    against = "torch" if op in OURS else name
                    ratio = "" if name == "pliant" and op not in OURS else f"{found['times'][against]:.2f} x"
                    cells = (f"{rate:,.0f}", f"{rate * BATCH / 1e6:.2f}", ratio, f"{found['cpu_ms'][name]:.2f}")
                    shown.append((f"{op} {count}:{number}", name, *cells))
    title = f"Embedding, {BATCH} ids x {DIM} floats, table of {rows:,} rows; servers:workers"
    table(title, ("", "system", "calls/s", "M rows/s", "Pliant is", "CPU ms a call"), shown)
    say("push_logged is beside the push of torch.rpc")
    kept = result["memory"]
    say(f"memory per row, times its floats: allocated {kept['allocated']:.3f}, resident {kept['resident']:.3f}")
    return result
