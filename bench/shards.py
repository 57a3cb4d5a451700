"""The shard queue: how fast shards are leased and reported, and what a huge dataset costs; beside DLRover's master.

    python bench/shards.py [--quick] [--rounds N] [--no-peer] [--json]

Pliant's master is a process of its own with its journal on and ``sync: full``: what it answers is on disk. It is driven
by the public client (``job.shards``) and by raw Exchange calls. DLRover's master comes from PyPI, keeps everything in
memory, and is driven by its own client. Both in turn, several times; shown are medians, and medians of the ratios within
a turn. Where DLRover does not install, the figures that stand in are those of a machine like ours, and are marked so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import (
    CACHE,
    Client,
    finish,
    machine,
    median,
    paired,
    peer_environment,
    quantile,
    rss_mb,
    say,
    table,
    times,
    together,
)

from pliant.master.job_dir import JobDir
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import MasterClient
from pliant.rpc.identity import create_token_file
from pliant.spec import JobSpec

CLIENTS = (1, 4, 16)
BATCHES = (1, 16, 128, 1024)
AIM = 50  # times DLRover's shards per second
RECORDS, SHARDS = 10**12, 10**9
PACKAGES = ("dlrover==0.6.1", "grpcio", "protobuf", "numpy", "psutil", "kubernetes")
PROBE = "import dlrover.python.master.local_master, dlrover.python.elastic_agent.master_client as c; c.GrpcMasterClient"
HERE = Path(__file__).parent
STAND_IN: dict[str, Any] = {  # measured earlier with dlrover 0.6.1 on a machine of 2 cores, 24 GiB
    "throughput": {"1": 479.0, "4": 724.0, "16": 612.0},
    "latency_ms": {"p50": 1.8, "p99": 6.9},
    "text": {"shards": 10**6, "first_shard": 5.7, "memory_mb": 387.0, "checkpoint_bytes": 19_800_000},
}


class PliantMaster:
    """A sharding service alone, in a folder on the disk where jobs live."""

    def __init__(self) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        self.home = JobDir(Path(tempfile.mkdtemp(prefix="shards-", dir=CACHE)))
        self.home.create()
        create_token_file(self.home.token)
        spec = JobSpec.from_dict(
            {"name": "bench-shards", "components": {"need_pod_manager": False, "keep_serving": True}}
        )
        assert spec.journal.sync == "full"
        self.home.spec.write_text(spec.to_yaml())
        with (self.home.logs / "master.log").open("wb") as log:
            command = [sys.executable, "-m", "pliant.master", "--job-dir", str(self.home.path)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        while not self.home.master_file.exists():
            if self.process.poll() is not None:
                raise RuntimeError((self.home.logs / "master.log").read_text())
            time.sleep(0.02)
        self.address = self.home.address()

    def client(self) -> Client:
        env = {"PLIANT_MASTER_ADDR": self.address.target, "PLIANT_TOKEN_FILE": str(self.home.token)}
        return Client([sys.executable, str(HERE / "clients" / "pliant_shards.py")], env)

    def accepted(self) -> int:
        """Shards that the master has counted as done."""
        master = MasterClient(self.address)
        try:
            status = master.call(master.stubs.job.GetStatus, pb.Empty())
            return sum(d.shards_done for d in status.datasets if d.name == "bench")
        finally:
            master.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.home.path, ignore_errors=True)


class DlroverMaster:
    def __init__(self, python: Path) -> None:
        self._python = python
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        arguments = ["--platform", "local", "--job_name", "bench", "--port", str(self.port), "--node_num", "16"]
        self.process = subprocess.Popen(
            [str(python), "-m", "dlrover.python.master.main", *arguments],
            cwd=CACHE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait()

    def _wait(self) -> None:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self.process.poll() is not None:
                raise RuntimeError(f"DLRover's master ended with exit code {self.process.returncode}")
            time.sleep(0.1)
        raise RuntimeError("DLRover's master does not listen")

    def client(self, number: int) -> Client:
        env = {"DLROVER_MASTER_ADDR": f"127.0.0.1:{self.port}", "NODE_ID": str(number)}
        return Client([str(self._python), str(HERE / "clients" / "dlrover_shards.py")], env)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def rate(answers: list[dict[str, Any]]) -> float:
    return sum(a["shards"] for a in answers) / max(a["seconds"] for a in answers)


class Bench:
    def __init__(self, options: argparse.Namespace, ours: PliantMaster, theirs: DlroverMaster | None) -> None:
        self.options, self.ours, self.theirs = options, ours, theirs
        self.clients = [ours.client() for _ in range(max(CLIENTS))]
        self.peers = [theirs.client(number) for number in range(max(CLIENTS))] if theirs is not None else []
        for client in self.clients + self.peers:
            client.answer()  # ready

    def throughput(self) -> dict[str, Any]:
        runs: dict[str, dict[str, list[float]]] = {"public": {}, "dlrover": {}}
        seconds = self.options.seconds
        for turn in range(self.options.repeats):
            for number in CLIENTS:
                say(f"turn {turn + 1}: {number} clients")
                before = self.ours.accepted() if turn else 0
                answers = together(self.clients[:number], kind="public", seconds=seconds)
                if turn:  # the dataset is there, so the master can be asked whether it counted the same
                    counted = self.ours.accepted() - before
                    assert counted == sum(a["shards"] for a in answers), (counted, answers)
                runs["public"].setdefault(str(number), []).append(rate(answers))
                if self.peers:
                    answers = together(self.peers[:number], kind="run", seconds=seconds)
                    runs["dlrover"].setdefault(str(number), []).append(rate(answers))
        medians: dict[str, Any] = {name: {n: median(v) for n, v in found.items()} for name, found in runs.items()}
        medians["ratios"] = {n: paired(runs["public"][n], theirs) for n, theirs in runs["dlrover"].items()}
        return medians

    def batches(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for number in CLIENTS:
            for batch in BATCHES:
                say(f"raw calls: {number} clients, {batch} shards a call")
                rates = [
                    rate(together(self.clients[:number], kind="raw", seconds=self.options.seconds / 2, batch=batch))
                    for _ in range(self.options.repeats)
                ]
                found.setdefault(str(number), {})[str(batch)] = median(rates)
        return found

    def latency(self) -> dict[str, Any]:
        pairs = self.options.pairs
        taken: dict[str, list[float]] = {"two calls": [], "one call": [], "dlrover": []}
        for turn in range(self.options.repeats):
            say(f"turn {turn + 1}: latency")
            taken["two calls"] += self.clients[0].ask(kind="latency", pairs=pairs, ride_along=False)["latencies"]
            taken["one call"] += self.clients[0].ask(kind="latency", pairs=pairs, ride_along=True)["latencies"]
            if self.peers:
                taken["dlrover"] += self.peers[0].ask(kind="latency", pairs=pairs)["latencies"]
        return {name: {"p50": 1e3 * quantile(v, 0.5), "p99": 1e3 * quantile(v, 0.99)} for name, v in taken.items() if v}

    def huge(self) -> dict[str, Any]:
        """One dataset each on a master of its own, so that its memory is that of the dataset."""
        say(f"a dataset of {RECORDS:,} records in {SHARDS:,} shards")
        found = {"pliant": self._huge_ours()}
        if self.theirs is not None:
            for storage, shards, size in (("table", SHARDS, 1000), ("text", self.options.text_shards, 10)):
                say(f"DLRover: {shards:,} shards, {storage}")
                found[storage] = self._huge_theirs(storage, shards, size)
        return found

    def _huge_ours(self) -> dict[str, float]:
        master = PliantMaster()
        client = master.client()
        try:
            client.answer()
            client.ask(kind="create", name="warm", size=1000, shard_size=10, in_flight=10)
            before = rss_mb(master.process.pid)
            answer = client.ask(kind="create", name="huge", size=RECORDS, shard_size=RECORDS // SHARDS, in_flight=1000)
            return {**answer, "shards": SHARDS, "memory_mb": rss_mb(master.process.pid) - before}
        finally:
            client.close()
            master.close()

    def _huge_theirs(self, storage: str, shards: int, size: int) -> dict[str, float]:
        assert self.theirs is not None
        master = DlroverMaster(self.theirs._python)
        client = master.client(0)
        try:
            client.answer()
            client.ask(kind="create", name="warm", size=1000, shard_size=10, storage=storage)
            before = rss_mb(master.process.pid)
            answer = client.ask(kind="create", name="huge", size=shards * size, shard_size=size, storage=storage)
            return {**answer, "shards": shards, "memory_mb": rss_mb(master.process.pid) - before}
        finally:
            client.close()
            master.close()

    def close(self) -> None:
        for client in self.clients + self.peers:
            client.close()


def show(result: dict[str, Any]) -> None:
    name = "DLRover" if result["peer"] == "measured" else "DLRover (figures of PEERS.md)"
    throughput, peer, ratios = result["throughput"], result["throughput"]["dlrover"], result["throughput"]["ratios"]
    table(
        "Shards leased and reported per second",
        ["clients", "Pliant, job.shards", "Pliant, raw calls (best batch)", name, "ratio", f"aim: {AIM} x"],
        [
            [
                n,
                f"{throughput['public'][n]:,.0f}",
                f"{max(result['batches'][n].values()):,.0f}",
                f"{peer[n]:,.0f}",
                f"{ratios[n]:,.0f} x",
                "reached" if ratios[n] >= AIM else "missed",
            ]
            for n in map(str, CLIENTS)
        ],
    )
    table(
        "Raw Exchange calls: shards per second by shards per call",
        ["clients", *(f"{b}" for b in BATCHES)],
        [[n, *(f"{result['batches'][n][str(b)]:,.0f}" for b in BATCHES)] for n in map(str, CLIENTS)],
    )
    theirs = result["latency_ms"]["dlrover"]
    rows = [
        [label, f"{v['p50']:.2f}", f"{v['p99']:.2f}", times(v["p50"], theirs["p50"])]
        for label, v in result["latency_ms"].items()
    ]
    table("One shard leased and reported, ms, 1 client", ["", "p50", "p99", f"of {name}'s p50"], rows)
    labels = {"pliant": "Pliant", "table": "DLRover, table (shuffles within 50,000)", "text": "DLRover, text"}
    rows = [
        [
            labels[kind],
            f"{v['shards']:,}",
            f"{v['first_shard']:.3f} s",
            f"{v['memory_mb']:+.1f} MB",
            f"{v['checkpoint_bytes']:,} B",
            f"{1e3 * v['checkpoint_seconds']:.1f} ms" if "checkpoint_seconds" in v else "-",
        ]
        for kind, v in result["huge"].items()
    ]
    table(
        "A shuffled dataset: created and first shard given; checkpoint",
        ["", "shards", "first shard after", "memory", "checkpoint", "took"],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short runs: a look, not a measurement")
    parser.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
    parser.add_argument("--no-peer", action="store_true", help="without DLRover")
    parser.add_argument(
        "--rounds",
        "--repeats",
        dest="repeats",
        type=int,
        default=0,
        help="turns of which the median is taken [5; quick: 1]",
    )
    options = parser.parse_args()
    options.repeats = options.repeats or (1 if options.quick else 5)
    options.seconds = 1.0 if options.quick else 3.0
    options.pairs = 200 if options.quick else 1000
    options.text_shards = 2_000 if options.quick else 10_000
    peer = None if options.no_peer else peer_environment("dlrover", PACKAGES, PROBE)
    if peer is None or peer.python is None:
        say(f"DLRover is not run: {peer.reason if peer else 'not wanted'}; its column shows figures of PEERS.md")
    result: dict[str, Any] = {"machine": machine(), "quick": options.quick, "repeats": options.repeats}
    result["peer"] = "measured" if peer is not None and peer.python is not None else "PEERS.md"
    ours = PliantMaster()
    theirs = DlroverMaster(peer.python) if peer is not None and peer.python is not None else None
    bench = Bench(options, ours, theirs)
    try:
        result["throughput"] = bench.throughput()
        result["batches"] = bench.batches()
        result["latency_ms"] = bench.latency()
        result["huge"] = bench.huge()
    finally:
        bench.close()
        ours.close()
        if theirs is not None:
            theirs.close()
    if theirs is None:
        result["throughput"]["dlrover"] = STAND_IN["throughput"]
        result["throughput"]["ratios"] = {
            n: rate / STAND_IN["throughput"][n] for n, rate in result["throughput"]["public"].items()
        }
        result["latency_ms"]["dlrover"] = STAND_IN["latency_ms"]
        result["huge"]["text"] = STAND_IN["text"]
    result["load_after"] = round(os.getloadavg()[0], 2)
    show(result)
    finish(result, options.json)


if __name__ == "__main__":
    main()
