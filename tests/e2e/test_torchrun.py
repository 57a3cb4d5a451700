"""Scripts written for torchrun, under ``pliant run`` and under torchrun itself with our rendezvous."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pliant.core.errors import Conflict
from pliant.core.events import EventKind
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import RunningMaster, wait_until
from pliant.testing.jobs import LocalJob
from pliant.testing.reading import ReadingJob

pytest.importorskip("torch")
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = 120.0  # seconds; torch alone takes several to be imported on a busy machine

DDP = """
import os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, file, steps = dist.get_rank(), sys.argv[1], int(sys.argv[2])
count = os.environ["TORCHELASTIC_RESTART_COUNT"]
print(f"rank {rank} of {dist.get_world_size()}, restart {count}", flush=True)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
step = 0
if os.path.exists(file):
    saved = torch.load(file, weights_only=True)
    model.load_state_dict(saved["model"])
    step = saved["step"]
print(f"from step {step}", flush=True)
while step < steps:
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
    step += 1
    if rank == 0:
        torch.save({"model": model.state_dict(), "step": step}, file + ".tmp")
        os.replace(file + ".tmp", file)
    while step >= steps // 2 and not os.path.exists(sys.argv[3]):
        time.sleep(0.02)
dist.barrier()
print(f"finished {step}", flush=True)
dist.destroy_process_group()
"""


# What a connected program does, without the seconds that torch takes to be imported.
PEERS = """
import os, select, socket, time

rank, world, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
if rank == 0:
    server = socket.create_server(("127.0.0.1", port))
    links = [server.accept()[0] for _ in range(world - 1)]
else:
    while True:
        try:
            links = [socket.create_connection(("127.0.0.1", port))]
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
print(f"rank {rank} of {world}, restart {os.environ['TORCHELASTIC_RESTART_COUNT']}", flush=True)
began = time.monotonic()
while not os.path.exists(os.environ["STOP"]):
    if select.select(links, [], [], 0.05)[0] and not os.path.exists(os.environ["STOP"]):
        raise ConnectionError("a peer is gone")
    if os.environ["BUG"] and time.monotonic() > began + 1.5:
        raise ValueError("a bug")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "ddp.py"
    file.write_text(DDP)
    return file


def test_a_killed_ddp_program_restarts_all_and_they_go_on_from_their_checkpoint(tmp_path: Path, script: Path) -> None:
    model = tmp_path / "model.pt"
    with LocalJob(tmp_path, ["python", str(script), str(model), "40", str(tmp_path / "go on")], workers=2) as job:
        job.until(model.exists, "the first checkpoint", LONGEST)
        wait_for_evidence(job)
        job.kill_program("worker-1")
        (tmp_path / "go on").touch()
        assert job.wait(LONGEST) == 0
        summary = job.summary()
        for rank in range(2):
            log = job.log(f"worker-{rank}")
            assert re.findall(r"rank (\d) of (\d), restart (\d)", log) == [(str(rank), "2", "0"), (str(rank), "2", "1")]
            first, second = re.findall(r"from step (\d+)", log)
            assert int(first) == 0 < int(second)
            assert log.count("finished 40") == 1
    assert [node["restarts"] for node in summary["nodes"]] == [1, 1]
    assert not (summary.get("first_failure") or {}).get("node"), "those that followed are no failures"
    assert counted_failures(job) == ["Killed 1 of 100: restarting the program"]


def peers(folder: Path, workers: int | str, *, bug: bool = False, options: tuple[str, ...] = ()) -> LocalJob:
    env = {"STOP": str(folder / "stop"), "BUG": "1" if bug else ""}
    return LocalJob(folder, ["python", "-c", PEERS], workers=workers, env=env, options=options)


def wait_for_words(job: LocalJob, words: str, *nodes: str) -> None:
    job.until(lambda: all(words in job.log(node) for node in nodes), f"{words!r} of {', '.join(nodes)}")


def counted_failures(job: LocalJob) -> list[str]:
    """Restarts that count against the limit of a kind of failure."""
    reasons = [event.facts["reason"] for event in job.events(EventKind.RESTART)]
    return [reason for reason in reasons if re.search(r" \d+ of \d+: ", reason)]


def wait_for_evidence(job: LocalJob) -> None:
    job.wait_until_running("worker-0")
    job.until(lambda: job.events(EventKind.GROUP_CONNECTED), "the evidence", LONGEST)


def test_a_frozen_member_and_a_lost_node_each_lead_to_a_new_generation(tmp_path: Path) -> None:
    with peers(tmp_path, "1:2") as job:
        wait_for_evidence(job)
        job.freeze_program("worker-1")
        wait_for_words(job, "of 2, restart 1", "worker-0", "worker-1")
        assert any(
            "worker-1 is stopped by a signal" in event.facts["reason"] for event in job.events(EventKind.GROUP_RESTART)
        )
        job.kill_agent("worker-0")
        wait_for_words(job, "rank 0 of 2, restart 2", "worker-1")  # the oldest is rank 0
        wait_for_words(job, "rank 1 of 2, restart 2", "worker-2")
        job.kill_master()
        (tmp_path / "stop").touch()
        assert job.wait() == 0
        assert sorted(node["restarts"] for node in job.summary()["nodes"]) == [0, 1, 2]


def test_a_scaled_group_forms_anew_with_the_newcomer(tmp_path: Path) -> None:
    with peers(tmp_path, "1:3") as job:
        wait_for_evidence(job)
        job.call(lambda c: c.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=2, reason="less"))
        wait_for_words(job, "of 2, restart 1", "worker-0", "worker-1")
        job.call(lambda c: c.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=3, reason="more"))
        wait_for_words(job, "of 3, restart 2", "worker-0", "worker-1", "worker-3")
        (tmp_path / "stop").touch()
        assert job.wait() == 0
    assert not counted_failures(job)


def test_a_program_that_always_fails_ends_the_job_after_max_restarts(tmp_path: Path) -> None:
    with peers(tmp_path, 2, bug=True, options=("--max-restarts", "1")) as job:
        assert job.wait() == 1
        # One of them is counted each time; it is the one that is heard of first.
        assert 2 <= job.log("worker-0").count("rank 0 of 2") <= 3
    assert "failed 2 times (limit 1)" in job.summary()["reason"]


def test_programs_of_other_kinds_never_restart_because_another_died(tmp_path: Path) -> None:
    loop = 'echo start $RANK/$WORLD_SIZE; while [ ! -e "$STOP" ]; do sleep 0.05; done'
    (tmp_path / "shell").mkdir()
    with LocalJob(tmp_path / "shell", ["bash", "-c", loop], workers=3, env={"STOP": str(tmp_path / "stop")}) as job:
        job.until(lambda: all("start" in job.log(f"worker-{i}") for i in range(3)), "three programs")
        job.kill_program("worker-1")
        job.until(lambda: job.log("worker-1").count("start") == 2, "the restart of one")
        (tmp_path / "stop").touch()
        assert job.wait() == 0
        assert [job.log(f"worker-{i}").split() for i in (0, 2)] == [["start", "0/3"], ["start", "2/3"]]
        assert job.log("worker-1").split() == ["start", "1/3"] * 2
    (tmp_path / "queue").mkdir()
    with ReadingJob(tmp_path / "queue", {"train": {"size": 300, "shard_size": 3}}, workers=3, pace=0.03) as job:
        job.wait_for_progress(30)
        job.kill_program("worker-1")
        assert job.wait() == 0
        job.assert_each_record_once()
        assert [node["restarts"] for node in job.summary()["nodes"]] == [0, 1, 0]


# --- torchrun with our rendezvous

MEETING = {"components": {"need_pod_manager": False, "need_rendezvous": True}, "fault": {"session_timeout": 15.0}}


class Torchrun:
    """One agent of torchrun, as on a machine of its own: killed, it takes its workers along."""

    def __init__(self, master: RunningMaster, folder: Path, number: int, options: list[str], script: list[str]) -> None:
        self._output = folder / f"torchrun-{number}.out"
        address = master.address.target
        conf = f"token_file={master.job_dir.token},last_call_timeout=0"
        meet = ["--rdzv-backend=pliant", f"--rdzv-endpoint={address}", "--rdzv-id=tested", f"--rdzv-conf={conf}"]
        with self._output.open("wb") as output:
            command = [sys.executable, "-m", "torch.distributed.run", *meet, *options, *script]
            env = {key: value for key, value in os.environ.items() if not key.startswith("PLIANT_")}
            env["TMPDIR"] = str(folder)  # torchrun leaves a folder of its own there
            self.process = psutil.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=env, cwd=folder)

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def dies(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [self.process, *self.process.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self.process.wait()

    def ends(self) -> int:
        try:
            return int(self.process.wait(LONGEST))
        except psutil.TimeoutExpired:
            raise AssertionError(self.output) from None


@pytest.fixture
def meeting(tmp_path: Path) -> Iterator[RunningMaster]:
    with RunningMaster(tmp_path / "master", MEETING) as master:
        yield master


@pytest.fixture
def agents() -> Iterator[list[Torchrun]]:
    started: list[Torchrun] = []
    yield started
    for agent in started:
        agent.dies()


def test_torchrun_agents_meet_at_our_master_come_later_and_die(
    tmp_path: Path, script: Path, meeting: RunningMaster, agents: list[Torchrun]
) -> None:
    model = tmp_path / "model.pt"
    command = [str(script), str(model), "40", str(tmp_path / "go on")]
    options = ["--nnodes=1:2", "--max-restarts=1", "--monitor-interval=0.1"]
    agents.append(Torchrun(meeting, tmp_path, 0, [*options, "--nproc-per-node=1"], command))
    wait_until(model.exists, timeout=LONGEST, what="the first checkpoint")
    agents.append(Torchrun(meeting, tmp_path, 1, [*options, "--nproc-per-node=2"], command))
    wait_until(lambda: agents[1].output.count("of 3") == 2, timeout=LONGEST, what="the world of both")
    wait_until(lambda: "rank 0 of 3, restart 0" in agents[0].output, timeout=LONGEST, what="the world of both")
    agents[1].dies()
    (tmp_path / "go on").touch()
    assert agents[0].ends() == 0, agents[0].output
    assert re.findall(r"rank 0 of (\d)", agents[0].output) == ["1", "3", "1"]
    assert "finished 40" in agents[0].output
    with pytest.raises(Conflict, match="closed"):
        meeting.client.call(meeting.client.stubs.rendezvous.Join, pb.JoinRequest(member="late", incarnation="1"))


# --- examples


@pytest.mark.parametrize("name", ["05_ddp_unmodified.py", "06_accelerate.py"])
def test_the_examples_run_without_a_change(tmp_path: Path, name: str) -> None:
    pytest.importorskip("sklearn")
    if "accelerate" in name:
        pytest.importorskip("accelerate", reason="pip install accelerate")
    command = ["python", str(EXAMPLES / name), "--epochs", "6", "--checkpoint", str(tmp_path / "saved")]
    with LocalJob(tmp_path, command, workers=2) as job:
        assert job.wait(LONGEST) == 0
        assert "2 processes, from epoch 0 on" in job.log("worker-0")
        assert float(re.findall(r"held-out digits: ([\d.]+) %", job.log("worker-0"))[0]) > 80
