"""What a job costs while nothing happens: CPU of launcher, master and agents, and of a master with a thousand idle nodes.

    python bench/idle.py [--quick] [--rounds N] [--json] [--nodes N] [--only job,nodes]

``job``: ``pliant run`` with two workers that sleep, beside torchrun with the same program, whose one launcher is the agent of both.
``nodes``: a master in a process of its own whose platform is a fake; another process plays all agents, each with the real
``MasterLink`` and a connection of its own. CPU is what the kernel counted for all threads of a process (``schedstat``), in per cent
of one core, over some seconds after the start has settled.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import CACHE, finish, machine, median, options_of, parsed, say, table

HERE = Path(__file__).parent
WORKERS = 2
AIMS = {"launcher": 0.3, "agent": 0.3, "master with nodes": 5.0}  # per cent of a core
START_TIMEOUT_S = 120.0
PROGRAM = "import signal; signal.pause()\n"


def cpu_seconds(pid: int) -> float:
    """Of all threads that it has."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((thread / "schedstat").read_text().split()[0])
        except OSError:  # it ended
            continue
    return total / 1e9


def used(pids: dict[str, int], seconds: float) -> dict[str, float]:
    """Per cent of a core that each process takes."""
    before, began = {name: cpu_seconds(pid) for name, pid in pids.items()}, time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    return {name: 100 * (cpu_seconds(pid) - before[name]) / took for name, pid in pids.items()}


def wait_for(what: str, found: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not found():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not start (exit code {process.poll()})")
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def idle_job(settle: float, seconds: float) -> dict[str, float]:
    home = Path(tempfile.mkdtemp(prefix="idle-", dir=CACHE))
    program, job = home / "program.py", home / "job"
    program.write_text(PROGRAM)
    command = [str(Path(sys.executable).with_name("pliant")), "run", "-n", str(WORKERS), "--job-dir", str(job), "--"]
    launcher = subprocess.Popen(
        [*command, "python", str(program)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    agents = [job / f"nodes/worker-{number}/agent.json" for number in range(WORKERS)]
    try:
        wait_for("the job", lambda: all(file.exists() for file in agents), launcher)
        pids = {f"agent {number}": int(json.loads(file.read_text())["pid"]) for number, file in enumerate(agents)}
        wait_for("the programs", lambda: all(children(pid) for pid in pids.values()), launcher)
        pids |= {"launcher": launcher.pid, "master": int(json.loads((job / "master.json").read_text())["pid"])}
        time.sleep(settle)
        found = used(pids, seconds)
    finally:
        stop(launcher)
        shutil.rmtree(home, ignore_errors=True)
    shares = [found.pop(name) for name in list(found) if name.startswith("agent")]
    return {**found, "agent": sum(shares) / len(shares)}


def idle_torchrun(settle: float, seconds: float) -> dict[str, float]:
    home = Path(tempfile.mkdtemp(prefix="idle-", dir=CACHE))
    program = home / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={WORKERS}"]
    launcher = subprocess.Popen([*command, str(program)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for("torchrun", lambda: len(children(launcher.pid)) >= WORKERS, launcher)
        time.sleep(settle)
        return {"torchrun": used({"torchrun": launcher.pid}, seconds)["torchrun"]}
    finally:
        stop(launcher)
        shutil.rmtree(home, ignore_errors=True)


def stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def idle_nodes(nodes: int, settle: float, seconds: float) -> dict[str, float]:
    """CPU of the master, and the heartbeats that it gets per second."""
    home = Path(tempfile.mkdtemp(prefix="idle-", dir=CACHE))
    client = [sys.executable, str(HERE / "clients" / "idle_nodes.py")]
    master = subprocess.Popen([*client, "master", str(home), str(nodes)], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    agents = None
    try:
        assert master.stdout is not None
        if not master.stdout.readline():
            raise RuntimeError("the master did not start")
        agents = subprocess.Popen([*client, "agents", str(home), str(nodes)], stdout=subprocess.PIPE)
        assert agents.stdout is not None
        if not agents.stdout.readline():
            raise RuntimeError("the agents did not register")
        time.sleep(settle)
        before = heartbeats(master)
        found = used({"master": master.pid, "all agents": agents.pid}, seconds)
        after = heartbeats(master)
        return {**found, "heartbeats/s": (after - before) / seconds}
    finally:
        for process in filter(None, (agents, master)):
            process.kill()
            process.wait()
        shutil.rmtree(home, ignore_errors=True)


def heartbeats(master: subprocess.Popen[bytes]) -> int:
    assert master.stdin is not None
    assert master.stdout is not None
    master.stdin.write(b"\n")
    master.stdin.flush()
    return int(master.stdout.readline())


def main() -> None:
    parser = options_of(__doc__, rounds=3)
    parser.add_argument("--nodes", type=int, default=0, help="idle nodes of the large job [1000; quick: 50]")
    parser.add_argument("--only", default="job,nodes", help="job, nodes")
    options = parsed(parser)
    nodes = options.nodes or (50 if options.quick else 1000)
    settle, seconds = (2.0, 3.0) if options.quick else (15.0, 20.0)
    only = set(options.only.split(","))
    CACHE.mkdir(parents=True, exist_ok=True)
    taken: dict[str, list[float]] = {}
    for turn in range(options.rounds):
        found: dict[str, float] = {}
        if "job" in only:
            found |= idle_job(settle, seconds) | idle_torchrun(settle, seconds)
        if "nodes" in only:
            large = idle_nodes(nodes, settle, seconds)
            found |= {"master with nodes": large["master"], "heartbeats/s": large["heartbeats/s"]}
        say(f"turn {turn + 1}: " + ", ".join(f"{name} {value:.2f}" for name, value in found.items()))
        for name, value in found.items():
            taken.setdefault(name, []).append(value)
    result: dict[str, Any] = {"machine": machine(), "rounds": options.rounds, "nodes": nodes, "seconds": seconds}
    result["percent"] = {name: median(values) for name, values in taken.items()}
    result["all"] = taken
    result["load_after"] = round(os.getloadavg()[0], 2)
    shown = {name: value for name, value in result["percent"].items() if name != "heartbeats/s"}
    table(
        f"CPU while nothing happens, per cent of a core ({nodes} nodes with the large master)",
        ["", "per cent", "aim"],
        [[name, f"{value:.2f}", f"{AIMS[name]:.1f}" if name in AIMS else ""] for name, value in shown.items()],
    )
    finish(result, options.json)


if __name__ == "__main__":
    main()
