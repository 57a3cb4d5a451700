from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pliant.core.errors import Conflict, NotAvailable
from pliant.platforms.cgroup import CgroupLimit, available, read_current, why_not
from pliant.testing.waiting import MAX_WAIT_S

MB = 1 << 20
needs_cgroups = pytest.mark.skipif(available() is None, reason=f"no writable cgroups here: {why_not()}")

SLEEP = [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]


@pytest.fixture
def job() -> Iterator[str]:
    """A name of its own for each test, and a check that no group of that name stays."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    yield name
    left = list(Path("/sys/fs/cgroup").glob(f"**/pliant-{name}-*"))
    for path in left:
        CgroupLimit("v1", {"memory": path}, path).remove()
    assert not left, "a test left cgroups behind"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@needs_cgroups
def test_a_program_over_its_limit_is_killed_and_counted(job: str, tmp_path: Path) -> None:
    from pliant.agent.exits import classify
    from pliant.agent.process import Program
    from pliant.core.nodes.fault_policy import ExitReason

    group = CgroupLimit.create(job, "worker-0", memory_mb=64)

    async def scenario() -> int:
        code = "data = bytearray(512 << 20); data[::4096] = b'x' * len(data[::4096]); print('survived')"
        program = await Program.start(
            [sys.executable, "-c", code], env=os.environ, log=tmp_path / "log", attach_to=group.procs_files
        )
        return await program.wait()

    try:
        before = group.oom_kills()
        returncode = asyncio.run(scenario())
        kills = group.oom_kills() - before
        assert returncode == -signal.SIGKILL
        assert kills == 1
        assert group.read().memory_limit_bytes == 64 * MB
        report = classify(returncode, terminating=False, oom_kills=kills, log_tail="")
        assert report.exit_reason is ExitReason.OOM
    finally:
        group.remove()


@needs_cgroups
def test_a_program_within_its_limit_is_measured(job: str, sleeper: subprocess.Popen[bytes]) -> None:
    group = CgroupLimit.create(job, "worker-0", memory_mb=256, cpu=0.5)
    try:
        group.attach(sleeper.pid)
        assert group.pids() == {sleeper.pid}
        code = "import time; data = bytearray(30 << 20)\nwhile time.process_time() < 0.1: pass\nprint('up'); input()"
        child = subprocess.Popen(
            ["sh", "-c", f'echo; read x; exec {sys.executable} -u -c "{code}"'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        group.attach(child.pid)
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        reading = group.read()
        child.kill()
        child.communicate()
        assert 30 * MB < reading.memory_bytes < 256 * MB
        assert reading.oom_kills == 0
        assert reading.cpu_seconds is None or 0.05 < reading.cpu_seconds < 10
    finally:
        group.remove()


@needs_cgroups
def test_limits_change_under_a_running_program_but_not_below_what_it_holds(job: str) -> None:
    group = CgroupLimit.create(job, "worker-0")
    code = "import sys; data = bytearray(40 << 20); print('up', flush=True); sys.stdin.read()"
    try:
        with subprocess.Popen(
            ["sh", "-c", f'read x; exec {sys.executable} -c "{code}"'], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            group.attach(program.pid)
            program.stdin.write(b"\n")
            program.stdin.flush()
            program.stdout.readline()
            group.resize(memory_mb=200, cpu=0.5)
            assert group.read().memory_limit_bytes == 200 * MB
            with pytest.raises(Conflict, match=r"30 MB requested, but its program uses (4|5|6)\d MB"):
                group.resize(memory_mb=30)
            assert group.read().memory_limit_bytes == 200 * MB
            assert program.poll() is None
            program.kill()
    finally:
        group.remove()


@needs_cgroups
def test_removal_kills_what_is_left_and_can_be_repeated(job: str, sleeper: subprocess.Popen[bytes]) -> None:
    group = CgroupLimit.create(job, "worker-0", memory_mb=64)
    group.attach(sleeper.pid)
    group.remove()
    assert sleeper.wait(MAX_WAIT_S) == -signal.SIGKILL
    assert not any(directory.exists() for directory in group.directories)
    group.remove()


@needs_cgroups
def test_groups_made_inside_are_removed_too(job: str, sleeper: subprocess.Popen[bytes]) -> None:
    group = CgroupLimit.create(job, "worker-0")
    inner = group.directories[0] / "made-by-the-program"
    inner.mkdir()
    (inner / "cgroup.procs").write_text(str(sleeper.pid))
    assert group.pids() == {sleeper.pid}
    group.remove()
    assert not inner.exists()


@needs_cgroups
def test_an_existing_group_is_adopted_with_new_limits(job: str, sleeper: subprocess.Popen[bytes]) -> None:
    first = CgroupLimit.create(job, "worker-0", memory_mb=64, cpu=1)
    try:
        first.attach(sleeper.pid)
        second = CgroupLimit.create(job, "worker-0", memory_mb=128)
        assert second.directories == first.directories
        assert second.pids() == {sleeper.pid}
        assert second.read().memory_limit_bytes == 128 * MB
        second.limit(memory_mb=96)
        assert first.read().memory_limit_bytes == 96 * MB
    finally:
        first.remove()


@needs_cgroups
def test_names_cannot_lead_out_of_the_parent(job: str) -> None:
    group = CgroupLimit.create(job, "../../worker 0")
    try:
        assert {directory.name for directory in group.directories} == {f"pliant-{job}-.._.._worker_0"}
    finally:
        group.remove()


@needs_cgroups
def test_a_process_does_not_remove_the_group_it_is_in(job: str) -> None:
    group = CgroupLimit.create(job, "worker-0", memory_mb=256)
    code = f"""
import os
from pliant.core.errors import RetryableError
from pliant.platforms.cgroup import CgroupLimit
group = CgroupLimit.create({job!r}, "worker-0", memory_mb=256)
group.attach(os.getpid())
try:
    group.remove(timeout=0)
except RetryableError as refusal:
    print(refusal)
"""
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert "still holds the processes" in done.stdout
    finally:
        group.remove()


@needs_cgroups
@pytest.mark.skipif(available() != "v1", reason="the real reader of version 1 needs version 1")
def test_the_current_group_of_version_1_is_read(sleeper: subprocess.Popen[bytes], job: str) -> None:
    group = CgroupLimit.create(job, "worker-0", memory_mb=64)
    try:
        group.attach(sleeper.pid)
        reading = read_current(pid=sleeper.pid)
        assert reading is not None
        assert reading.version == "v1"
        assert reading.memory_limit_bytes == 64 * MB
    finally:
        group.remove()


UNIFIED = Path("/sys/fs/cgroup/unified")


@pytest.mark.skipif(not os.access(UNIFIED, os.W_OK), reason="no writable cgroup version 2 beside version 1 here")
def test_a_real_group_of_version_2_is_joined_and_removed(job: str, sleeper: subprocess.Popen[bytes]) -> None:
    directory = UNIFIED / f"pliant-{job}-worker-0"
    directory.mkdir()
    group = CgroupLimit("v2", {"memory": directory, "cpu": directory}, UNIFIED)
    group.attach(sleeper.pid)
    assert group.pids() == {sleeper.pid}
    assert group.read().cpu_seconds is not None
    group.remove()
    assert sleeper.wait(MAX_WAIT_S) == -signal.SIGKILL
    assert not directory.exists()


class Machine:
    """A made-up machine with cgroup version 2, as files."""

    def __init__(self, root: Path, own: str) -> None:
        self.root = root
        self.mount = root / "sys/fs/cgroup"
        self.write("proc/self/cgroup", f"0::{own}\n")
        self.write(
            "proc/self/mountinfo",
            "22 1 8:1 / / rw - ext4 /dev/vda rw\n31 22 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n",
        )
        self.write("sys/fs/cgroup/cgroup.controllers", "cpu memory pids")
        self.write("sys/fs/cgroup/cgroup.subtree_control", "")
        self.write("sys/fs/cgroup/cgroup.procs", "")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def group(self, path: str, *, hands_out: str = "", memory_max: str = "max", **files: str) -> None:
        contents = {
            "cgroup.controllers": "cpu memory pids",
            "cgroup.subtree_control": hands_out,
            "cgroup.procs": "",
            "memory.current": str(100 * MB),
            "memory.max": memory_max,
            "memory.stat": f"anon {60 * MB}\ninactive_file {30 * MB}\n",
            "memory.events": "low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n",
            "cpu.max": "max 100000",
            "cpu.stat": "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_throttled 3\nthrottled_usec 750000\n",
        }
        for name, text in {**contents, **{key.replace("_", "."): value for key, value in files.items()}}.items():
            self.write(f"sys/fs/cgroup/{path}/{name}", text)


def test_version_2_reads_the_current_group_and_the_smallest_limit_above(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/kube/pod/box")
    machine.group("kube", memory_max=str(900 * MB))
    machine.group("kube/pod", memory_max=str(500 * MB))
    machine.group("kube/pod/box")
    reading = read_current(tmp_path)
    assert reading is not None
    assert (reading.version, reading.memory_bytes, reading.memory_limit_bytes) == ("v2", 70 * MB, 500 * MB)
    assert (reading.cpu_seconds, reading.oom_kills, reading.throttled_s) == (2.5, 2, 0.75)


def test_version_2_in_a_container_is_read_at_its_mount(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/../../elsewhere")
    machine.group(".", memory_max=str(300 * MB))
    reading = read_current(tmp_path)
    assert reading is not None
    assert reading.memory_limit_bytes == 300 * MB


def test_the_top_of_the_machine_is_nobodys_group(tmp_path: Path) -> None:
    Machine(tmp_path, "/")
    assert read_current(tmp_path) is None


def test_version_2_makes_a_group_beside_a_process_that_may_not_have_one_below(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/user.slice/app.scope")
    machine.group("user.slice", hands_out="memory cpu")
    machine.group("user.slice/app.scope")
    assert available(tmp_path) == "v2"
    group = CgroupLimit.create("mnist", "worker-0", memory_mb=64, cpu=1.5, root=tmp_path)
    directory = machine.mount / "user.slice/pliant-mnist-worker-0"
    assert group.directories == (directory,)
    assert (directory / "memory.max").read_text() == str(64 * MB)
    assert (directory / "cpu.max").read_text() == "150000 100000"
    group.attach(4242)
    assert group.procs_files[0].read_text() == "4242"


def test_version_2_hands_out_controllers_at_the_top_of_the_machine(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/")
    CgroupLimit.create("mnist", "worker-0", memory_mb=64, root=tmp_path)
    assert (machine.mount / "cgroup.subtree_control").read_text() == "+memory"


def test_version_2_never_steps_out_of_a_limited_group(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/batch/job")
    machine.group("batch", hands_out="memory cpu")
    machine.group("batch/job", memory_max=str(256 * MB))
    assert available(tmp_path) is None
    assert "is limited" in why_not(tmp_path)
    with pytest.raises(NotAvailable, match="is limited"):
        CgroupLimit.create("mnist", "worker-0", memory_mb=64, root=tmp_path)


def test_version_2_without_cpu_refuses_a_cpu_limit_only(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/user/app")
    machine.group("user", hands_out="memory")
    machine.group("user/app")
    CgroupLimit.create("mnist", "worker-0", memory_mb=64, root=tmp_path)
    with pytest.raises(NotAvailable, match="cpu"):
        CgroupLimit.create("mnist", "worker-1", cpu=1, root=tmp_path)


def test_a_system_without_cgroups_says_so(tmp_path: Path) -> None:
    assert available(tmp_path) is None
    assert "no cgroups on this system" in why_not(tmp_path)
    assert read_current(tmp_path) is None


def test_a_mount_without_the_memory_controller_says_so(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "/")
    machine.write("sys/fs/cgroup/cgroup.controllers", "hugetlb")
    assert "no memory controller" in why_not(tmp_path)


def test_a_dead_process_has_no_group() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert not psutil.pid_exists(process.pid)
    assert read_current(pid=process.pid) is None


def test_version_2_is_resized_by_its_own_files(tmp_path: Path) -> None:
    """Written to a folder of the same shape: version 2 is not mounted on every machine."""
    directory = tmp_path / "node"
    directory.mkdir()
    (tmp_path / "cgroup.subtree_control").write_text("memory cpu")
    (directory / "memory.current").write_text(str(70 * MB))
    (directory / "memory.stat").write_text("inactive_file 0\n")
    group = CgroupLimit("v2", {"memory": directory, "cpu": directory}, tmp_path)
    group.resize(memory_mb=100, cpu=1.5)
    assert (directory / "memory.max").read_text() == str(100 * MB)
    assert (directory / "cpu.max").read_text() == "150000 100000"
    with pytest.raises(Conflict, match="60 MB requested, but its program uses 70 MB"):
        group.resize(memory_mb=60)
    assert (directory / "memory.max").read_text() == str(100 * MB)
    group.resize()
    assert (directory / "memory.max").read_text() == "max"
