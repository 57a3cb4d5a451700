"""Where the time of a program goes, as its master knows it: programs that wait on purpose, for data, for peers, or to compute."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.native.points import make_points

from pliant.core.planning.node_summary import NodeSummary
from pliant.core.planning.time_spent import TimeShares
from pliant.master.components.stats import MemoryStats
from pliant.native.model_file.description import FOLDER, Description
from pliant.native.model_file.module_files import copy_files
from pliant.platforms.processes import find_marked
from pliant.testing import RunningMaster, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

HERE = Path(__file__).parent
LIGHT = HERE.parent / "light"
MODEL = HERE / "native" / "ps_model_file.py"
SLOW_SERVER = HERE / "ps" / "slow_server.py"
SLOW_S, FAST_S = 0.1, 0.001  # of what takes its time, and of what does not
SHARDS = {"need_rendezvous": False}
WORLD = {"need_rendezvous": True}

Start = Callable[..., RunningMaster]
Servers = Literal["ps-sync", "ps-async"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a job of the local platform, whose workers run a piece of Python with some arguments."""
    masters: list[RunningMaster] = []

    def begin(
        code: str | list[str], *arguments: object, workers: int = 1, servers: float = 0.0, **spec: Any
    ) -> RunningMaster:
        program = tmp_path / "program.py"
        if isinstance(code, str):
            program.write_text(textwrap.dedent(code))
        command = [sys.executable, str(program), *map(str, arguments)] if isinstance(code, str) else code
        path = os.pathsep.join(filter(None, (str(LIGHT), os.environ.get("PYTHONPATH"))))
        roles: dict[str, Any] = {"worker": {"command": command, "replicas": workers, "env": {"PYTHONPATH": path}}}
        if "strategy" in spec:
            roles["ps"] = {"replicas": 1, "command": [sys.executable, str(SLOW_SERVER), str(servers)]}
        masters.append(RunningMaster(tmp_path, {"roles": roles, **spec}, platform="spec").start())
        return masters[-1]

    yield begin
    for master in masters:
        master.close()
    wait_until(lambda: not find_marked({"PLIANT_JOB_DIR": str(tmp_path / "job")}), what="the end of all processes")


def summary(master: RunningMaster, node: str) -> NodeSummary:
    return master.run_inside(lambda parts: parts.require(MemoryStats).view(node))


def wait_for(
    master: RunningMaster,
    condition: Callable[[TimeShares], bool],
    what: str,
    node: str = "worker-0",
    *,
    unit_s: float | None = None,
) -> NodeSummary:
    """Until most of the time was spent so, and (``unit_s``) units took longer than that; the first ones are slower."""

    def look() -> NodeSummary | None:
        found = summary(master, node)
        if found.shares is None or (unit_s is not None and found.unit_seconds <= unit_s):
            return None
        return found if condition(found.shares) else None

    try:
        return wait_until(look, 90, what, every=0.2)
    except TimeoutError:
        log = master.job_dir.path / "logs"
        texts = "\n".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in sorted(log.glob("*")))
        raise AssertionError(f"{what}: {summary(master, node)}\n{texts}") from None


def waits_for_data(shares: TimeShares) -> bool:
    return shares.data > 0.5


def waits_for_peers(shares: TimeShares) -> bool:
    return shares.peers > 0.5


def computes(shares: TimeShares) -> bool:
    return shares.compute > 0.5


QUEUE = """
import sys, time
import pliant
from pliant.data import open_reader, records_of

reading, computing = map(float, sys.argv[1:])

class Records:
    def __len__(self): return 100_000
    def __getitem__(self, i):
        time.sleep(reading)
        return i

shards = pliant.connect().shards("train", size=100_000, shard_size=4, shuffle=True)
for record in records_of(shards, open_reader(Records()), prefetch=1):
    time.sleep(computing)
"""


@pytest.mark.parametrize(
    ("reading", "computing", "expected"), [(SLOW_S, FAST_S, waits_for_data), (FAST_S, SLOW_S, computes)]
)
def test_a_loop_over_shards_waits_for_records_or_computes(
    start: Start, reading: float, computing: float, expected: Callable[[TimeShares], bool]
) -> None:
    master = start(QUEUE, reading, computing, components=SHARDS)
    wait_for(master, expected, expected.__name__)


def test_a_loop_without_shards_left_waits_for_data(start: Start) -> None:
    code = """
    import pliant
    for shard in pliant.connect().shards("train", stream=True, shard_size=4):
        pass
    """
    wait_for(start(code, components=SHARDS), waits_for_data, "a wait for a stream")


TRAINER = """
import sys, time
import torch
import pliant
import pliant.torch as elastic

reading, computing, slow = float(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])

class Records(torch.utils.data.Dataset):
    def __len__(self): return 100_000
    def __getitem__(self, i):
        time.sleep(reading)
        return torch.ones(2)

model = torch.nn.Linear(2, 1)
job = pliant.connect()
pause = slow if job.node == "worker-1" else computing
trainer = elastic.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.01), virtual_workers=2, job=job)
for step in trainer.steps(Records(), micro_batch=1):
    for batch in step:
        time.sleep(pause)
        step.backward(model(batch).sum())
"""


@pytest.mark.parametrize(
    ("reading", "computing", "expected"), [(SLOW_S, FAST_S, waits_for_data), (FAST_S, SLOW_S, computes)]
)
def test_the_trainer_reads_or_computes(
    start: Start, reading: float, computing: float, expected: Callable[[TimeShares], bool]
) -> None:
    master = start(TRAINER, reading, computing, computing, components=WORLD)
    wait_for(master, expected, expected.__name__, unit_s=SLOW_S / 2)  # up to the collective, reading included


def test_who_is_faster_waits_for_its_peer_and_the_slow_one_has_long_units(start: Start) -> None:
    master = start(TRAINER, 0.0, 0.0, SLOW_S, workers=2, components=WORLD)
    fast = wait_for(master, waits_for_peers, "a wait for worker-1", unit_s=0.0)
    slow = wait_for(master, computes, "worker-1 computes", "worker-1", unit_s=SLOW_S / 2)
    assert slow.unit_seconds > fast.unit_seconds


PARAMETERS = """
import sys, time
import numpy as np
import pliant
from pliant.ps.specs import DenseSpec, TableSpec

computing = float(sys.argv[1])
job = pliant.connect()
parameters = job.parameters()
parameters.define([TableSpec("users", 4), DenseSpec("w", (3,))])
parameters.initialize({"w": np.zeros(3)})
for shard in job.shards("train", size=100_000, shard_size=8, acknowledge=False):
    while True:
        users = np.array(shard.indices()) % 7
        model = parameters.pull({"users": users})
        time.sleep(computing)
        told = parameters.push(model.iteration, examples=8, dense={"w": np.ones(3)},
                               rows={"users": (users, model.rows["users"])}, shards=[(shard, 8)])
        if not told.stale:
            break
"""


@pytest.mark.parametrize("strategy", ["ps-sync", "ps-async"])
def test_a_loop_of_its_own_waits_for_a_slow_server(start: Start, strategy: str) -> None:
    sync = {"batch_size": 8} if strategy == "ps-sync" else {}
    master = start(PARAMETERS, FAST_S, servers=SLOW_S, strategy=strategy, parameters=sync)
    wait_for(master, waits_for_peers, "a wait for the server", unit_s=0.0)

    def loaded() -> NodeSummary | None:
        found = summary(master, "ps-0")
        return found if found.partition_load and found.bytes_per_second and found.requests_per_second else None

    found = wait_until(loaded, 60, "the load of the server")
    assert 0 < found.rows <= 7
    assert len(found.partition_load) <= 7
    assert sum(share for _, share in found.partition_load) <= 1.0 + 1e-9  # shares are rounded


def test_a_loop_of_its_own_computes_between_a_pull_and_a_push(start: Start) -> None:
    master = start(PARAMETERS, 3 * SLOW_S, strategy="ps-sync", parameters={"batch_size": 8})
    wait_for(master, computes, "computing", unit_s=SLOW_S)


def native(folder: Path, strategy: Servers) -> list[str]:
    """The command of a native worker that trains points with batches of 8."""
    make_points(folder / "train.csv", 5000)
    description = Description(
        model=MODEL.name,
        model_class="Net",
        data=[str(folder / "train.csv")],
        strategy=strategy,
        batch_size=8,
        epochs=100,
    )
    home = folder / "job"
    home.mkdir()
    copy_files(MODEL, home / FOLDER)
    return [sys.executable, "-P", "-m", "pliant.native", str(description.save(home))]


@pytest.mark.parametrize(
    ("strategy", "server", "env", "expected"),
    [
        ("ps-sync", SLOW_S, {}, waits_for_peers),
        ("ps-async", SLOW_S, {}, waits_for_peers),
        ("ps-async", 0.0, {"PLIANT_TEST_PARSE_PAUSE": str(SLOW_S)}, waits_for_data),
        ("ps-sync", 0.0, {"PLIANT_TEST_PAUSE": str(3 * SLOW_S)}, computes),
    ],
)
def test_a_native_worker_waits_for_its_server_or_its_data_or_computes(
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    strategy: Servers,
    server: float,
    env: dict[str, str],
    expected: Callable[[TimeShares], bool],
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    sync = {"batch_size": 8} if strategy == "ps-sync" else {}
    service = {"need_training_service": True, "need_rendezvous": False}
    command = native(tmp_path, strategy)
    master = start(command, servers=server, strategy=strategy, parameters=sync, components=service)
    wait_for(master, expected, expected.__name__, unit_s=SLOW_S if expected is computes else 0.0)
