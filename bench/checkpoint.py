"""How long a snapshot of 1 GiB of fp32 stops training, and how fast it is restored, beside plain copies, torch.save and DCP.

    python bench/checkpoint.py [--quick] [--rounds N] [--json] [--dir FOLDER] [--no-dcp]

The yardstick is a copy of the same bytes into shared memory that is mapped and touched already: by torch's ``copy_`` with its
own threads, and by ``memmove`` of one block in two threads; ratios are to the faster of the two. The cases of each group take
turns in random order and the median of the rounds counts; what matters are the ratios within one run. A stall is the time until
the call returns. Before each case the disk is idle (``sync``), so that none pays for the writing of another. The load of the
machine is printed: with other work on its cores a ratio says little.
"""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from harness import finish, options_of, parsed
from rich.console import Console
from rich.table import Table

from pliant.agent.snapshots import SnapshotWriter
from pliant.checkpoint import CheckpointWriter, find_latest, load, pack

Case = Callable[[], float]  # seconds that count
YARDSTICK = "yardstick:"


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def make_state(size: int) -> dict[str, Any]:
    """As of a model with Adam: tensors of several sizes, a third of the bytes each for weights and two moments."""
    count = size // 4
    state: dict[str, dict[str, torch.Tensor]] = {"model": {}, "exp_avg": {}, "exp_avg_sq": {}}
    for group in state.values():
        left, index = count // 3, 0
        while left > 0:
            elements = min(left, (1 << 20) * (1 + index % 8) if index % 4 else 1024)
            group[f"layer.{index}"] = torch.randn(elements)
            left, index = left - elements, index + 1
    return {**state, "step": 1}


def tensors_of(state: dict[str, Any]) -> list[torch.Tensor]:
    return [tensor for group in state.values() if isinstance(group, dict) for tensor in group.values()]


class KeptMemory:
    """The yardstick: nothing but the copy."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._sources = tensors_of(state)
        size = sum(tensor.nbytes for tensor in self._sources)
        self._block = torch.ones(size // 4)
        with tempfile.TemporaryFile(dir="/dev/shm") as file:
            os.posix_fallocate(file.fileno(), 0, size)
            self._kept = torch.frombuffer(mmap.mmap(file.fileno(), size), dtype=torch.float32)
        self._targets = torch.split(self._kept, [tensor.numel() for tensor in self._sources])
        self._pool = ThreadPoolExecutor(1)

    def copy_tensors(self) -> float:
        return timed(lambda: [to.copy_(source) for to, source in zip(self._targets, self._sources, strict=True)])

    def copy_block(self) -> float:
        to, source, size = self._kept.data_ptr(), self._block.data_ptr(), self._block.nbytes
        half = size // 2

        def work() -> None:
            other = self._pool.submit(ctypes.memmove, to + half, source + half, size - half)
            ctypes.memmove(to, source, half)
            other.result()

        return timed(work)


class AgentThread:
    """The agent's writer in a loop of its own; in a job it is another process."""

    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._writer = SnapshotWriter(folder)

    def flush(self) -> None:
        asyncio.run_coroutine_threadsafe(self._writer.flush(), self._loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._writer.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def save_and_sync(state: Any, path: Path) -> None:
    with path.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


class Dcp:
    """async_save of torch.distributed.checkpoint with kept pinned memory where it can: the stall, and then the wait."""

    def __init__(self, folder: Path) -> None:
        import torch.distributed as dist
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

        store = dist.TCPStore(  # type: ignore[attr-defined]
            "127.0.0.1", 0, 1, is_master=True
        )
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        self._dcp: Any = dcp
        self._folder = folder
        self._stager = DefaultStager(StagingOptions(False, True, False, False))  # shared memory, kept

    def stall(self, state: Any) -> float:
        shutil.rmtree(self._folder, ignore_errors=True)
        began = time.perf_counter()
        answer = self._dcp.async_save(state, checkpoint_id=str(self._folder), async_stager=self._stager)
        stalled = time.perf_counter() - began
        future = getattr(answer, "upload_completion", answer)
        future.result()
        return stalled


def in_turns(cases: dict[str, Case], rounds: int) -> dict[str, list[float]]:
    results: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):  # the first is for warming up
        for name in random.sample([*cases], len(cases)):
            os.sync()
            seconds = cases[name]()
            if number:
                results[name].append(seconds)
    return results


def measure(folder: Path, size: int, rounds: int, with_dcp: bool) -> dict[str, dict[str, list[float]]]:
    state = make_state(size)
    slots = Path("/dev/shm") / f"pliant-bench-{os.getpid()}" / "node"
    agent = AgentThread(slots)
    writer = CheckpointWriter("bench", "node", folder / "pliant", keep_last=2, folder=slots)
    try:
        return measure_with(state, folder, slots, agent, writer, rounds, with_dcp)
    finally:
        writer.close()
        agent.close()


def measure_with(
    state: dict[str, Any],
    folder: Path,
    slots: Path,
    agent: AgentThread,
    writer: CheckpointWriter,
    rounds: int,
    with_dcp: bool,
) -> dict[str, dict[str, list[float]]]:
    step = 0

    def snapshot() -> float:
        nonlocal step
        step += 1
        state["step"] = step
        report = writer.snapshot(step, state, 0, 1)
        assert not report.skipped, report.reason
        agent.flush()
        return report.stalled_seconds

    first = {"first snapshot of a process, memory not prepared": [snapshot()]}
    kept = KeptMemory(state)
    buffer = torch.zeros(pack(state).nbytes, dtype=torch.uint8)
    stalls: dict[str, Case] = {
        f"{YARDSTICK} copy_ into kept shared memory": kept.copy_tensors,
        f"{YARDSTICK} memmove into it, 2 threads": kept.copy_block,
        "pliant snapshot": snapshot,
        "pliant pack for a peer": lambda: timed(lambda: pack(state).copy_into(buffer)),
        "torch.save + fsync": lambda: timed(lambda: save_and_sync(state, folder / "state.pt")),
    }
    if with_dcp:
        dcp = Dcp(folder / "dcp")
        stalls["DCP async_save"] = lambda: dcp.stall(state)
    stall_results = in_turns(stalls, rounds)

    def restore(memory: bool | Path) -> float:
        began = time.perf_counter()
        found = find_latest(folder / "pliant", memory)
        assert found is not None
        assert found.source == ("memory" if memory else "storage")
        load(found)
        return time.perf_counter() - began

    def fresh_copy() -> float:
        return timed(lambda: [tensor.clone() for tensor in tensors_of(state)])

    save_and_sync(state, folder / "state.pt")
    restores: dict[str, Case] = {
        f"{YARDSTICK} clone of the tensors": fresh_copy,
        "pliant, from memory": lambda: restore(slots),
        "pliant, from disk, checksums compared": lambda: restore(False),
        "torch.load": lambda: timed(lambda: torch.load(folder / "state.pt", weights_only=True)),
    }
    return {"stall": {**stall_results, **first}, "restore (warm page cache)": in_turns(restores, rounds)}


def main() -> None:
    parser = options_of(__doc__, rounds=5, quick_rounds=2)  # quick: 64 MiB instead of 1 GiB
    parser.add_argument("--dir", type=Path, help="where to write. [default: the temporary folder]")
    parser.add_argument("--no-dcp", action="store_true")
    options = parsed(parser)
    size = (64 << 20) if options.quick else (1 << 30)
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        groups = measure(Path(folder), size, options.rounds, not options.no_dcp)
    report: dict[str, Any] = {"bytes": size, "rounds": options.rounds, "torch": torch.__version__, "groups": {}}
    console = Console(width=120, stderr=True)
    for title, results in groups.items():
        table = Table(title, "median s", "min s", "ratio", title_justify="left")
        yardstick = min(statistics.median(s) for name, s in results.items() if name.startswith(YARDSTICK))
        for name, seconds in results.items():
            median = statistics.median(seconds)
            row = {"median": median, "min": min(seconds), "ratio": median / yardstick}
            report["groups"].setdefault(title, {})[name] = row
            table.add_row(name, f"{median:.4f}", f"{min(seconds):.4f}", f"{row['ratio']:.2f}")
        console.print(table)
    report["load"] = os.getloadavg()
    console.print(f"load of the machine: {report['load'][0]:.1f} on {os.cpu_count()} cores (this script makes about 1)")
    finish(report, options.json)


if __name__ == "__main__":
    main()
