from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pliant.agent.process import Program, find_command
from pliant.core.errors import PermanentError, PliantError
from pliant.platforms.processes import find_marked
from pliant.testing.waiting import MAX_WAIT_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process control is tested on Linux")


class Bench:
    """A folder, an environment that marks every process of the test, and a FIFO for what they have to say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "worker-0.log"
        self.mark = {"PLIANT_TEST": uuid.uuid4().hex}
        self.env = {**os.environ, **self.mark, "FIFO": str(folder / "fifo")}
        os.mkfifo(self.env["FIFO"])

    async def start(self, code: str) -> Program:
        command = [sys.executable, "-c", textwrap.dedent(code)]
        return await Program.start(command, env=self.env, log=self.log, cwd=self.folder)

    async def heard(self) -> str:
        """The next message on the FIFO; waits for it."""
        return await asyncio.to_thread(Path(self.env["FIFO"]).read_text)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    left = find_marked(bench.mark)
    for process in left:
        process.kill()
    assert not left, "a test left processes behind"


SAY = "import os, signal, subprocess, sys, time\nsay = lambda text: open(os.environ['FIFO'], 'w').write(str(text))\n"


def test_a_program_gets_its_environment_directory_and_log(bench: Bench) -> None:
    bench.log.write_bytes(b"an earlier run\n")

    async def scenario() -> Program:
        program = await bench.start("import os, sys; print(os.getcwd()); print(os.environ['FIFO'], file=sys.stderr)")
        assert await program.wait() == 0
        return program

    program = asyncio.run(scenario())
    assert program.returncode == 0
    assert program.log_offset == len("an earlier run\n")
    assert set(bench.log.read_text().splitlines()) == {"an earlier run", str(bench.folder), bench.env["FIFO"]}


def test_nothing_of_the_starter_shows_in_the_program(bench: Bench) -> None:
    bench.env = {"PATH": os.environ["PATH"], **bench.mark}
    script = "env; grep SigIgn /proc/self/status; cut -d' ' -f5,6 /proc/$$/stat; ls /proc/$$/fd"

    async def scenario() -> Program:
        program = await Program.start(["sh", "-c", script], env=bench.env, log=bench.log)
        assert await program.wait() == 0
        return program

    pid = asyncio.run(scenario()).pid
    *environment, ignored, group_and_session, first, second, third = bench.log.read_text().splitlines()
    pythons_own = 1 << (signal.SIGPIPE - 1) | 1 << (
        signal.SIGXFSZ - 1
    )  # what else is ignored, the tests were started with
    assert int(ignored.split()[1], 16) & pythons_own == 0
    assert group_and_session == f"{pid} {pid}"
    assert [first, second, third] == ["0", "1", "2"]
    variables = {line.partition("=")[0] for line in environment}
    assert variables - {"PWD", "_", "SHLVL", "OLDPWD"} == {"PATH", "PLIANT_TEST", "PLIANT_RUN_ID"}


def test_arguments_pass_unchanged_and_the_name_is_kept(bench: Bench) -> None:
    strange = ["", "two words", "-x", "ü\n", "$HOME"]

    async def scenario() -> None:
        code = "import sys; print(ascii(sys.argv[1:]))"
        program = await Program.start([sys.executable, "-c", code, *strange], env=bench.env, log=bench.log)
        assert await program.wait() == 0

    asyncio.run(scenario())
    assert bench.log.read_text().strip() == ascii(strange)


@pytest.mark.parametrize(("code", "expected"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9)])
@pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "thread"])
def test_waiting_returns_the_code_to_every_waiter(
    bench: Bench, code: str, expected: int, pidfd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open")

    async def scenario() -> list[int]:
        program = await bench.start(code)
        return list(await asyncio.gather(program.wait(), program.wait(), program.wait()))

    assert asyncio.run(scenario()) == [expected] * 3


def test_a_cancelled_wait_does_not_disturb_the_next(bench: Bench) -> None:
    async def scenario() -> int:
        program = await bench.start(SAY + "say('up'); signal.pause()")
        await bench.heard()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(program.wait(), 0.01)
        assert program.returncode is None
        return await program.stop(5)

    assert asyncio.run(scenario()) == -signal.SIGTERM


def test_a_program_may_use_its_grace_to_end_in_its_own_way(bench: Bench) -> None:
    async def scenario() -> int:
        program = await bench.start(
            SAY + "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); say('up')\nwhile True: signal.pause()"
        )
        await bench.heard()
        return await program.stop(30)

    assert asyncio.run(scenario()) == 3


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace(bench: Bench) -> None:
    async def scenario() -> tuple[int, float]:
        program = await bench.start(
            SAY + "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('up')\nwhile True: signal.pause()"
        )
        await bench.heard()
        began = asyncio.get_running_loop().time()
        return await program.stop(0.3), asyncio.get_running_loop().time() - began

    code, took = asyncio.run(scenario())
    assert code == -signal.SIGKILL
    assert took >= 0.3


def test_a_halted_program_is_seen_and_still_hears_sigterm(bench: Bench) -> None:
    async def scenario() -> int:
        program = await bench.start(SAY + "say('up'); signal.pause()")
        await bench.heard()
        assert not program.is_stopped
        os.kill(program.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WNOWAIT)
        assert program.is_stopped
        return await program.stop(30)

    assert asyncio.run(scenario()) == -signal.SIGTERM


OFFSPRING = {
    "in the group": "subprocess.Popen([sys.executable, '-c', code])",
    "in a session of its own": "subprocess.Popen([sys.executable, '-c', code], start_new_session=True)",
    "with another environment": "subprocess.Popen([sys.executable, '-c', code], env={'FIFO': os.environ['FIFO']})",
    "with neither": (
        "subprocess.Popen([sys.executable, '-c', code], env={'FIFO': os.environ['FIFO']}, start_new_session=True)"
    ),
}


@pytest.mark.parametrize("how", OFFSPRING)
@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_children_end_with_the_program(bench: Bench, how: str, ending: str) -> None:
    stubborn = SAY + "signal.signal(15, signal.SIG_IGN); say(os.getpid())\nwhile True: signal.pause()"

    async def scenario() -> psutil.Process:
        program = await bench.start(SAY + f"code = {stubborn!r}\n{OFFSPRING[how]}\nsignal.pause()")
        child = psutil.Process(int(await bench.heard()))
        assert child in program.members()
        await (program.stop(0.1) if ending == "stop" else program.kill())
        return child

    child = asyncio.run(scenario())
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("own_session", [False, True])
def test_orphans_of_a_program_that_ended_are_found_and_killed(bench: Bench, own_session: bool) -> None:
    child = SAY + "say(os.getpid()); signal.pause()"

    async def scenario() -> None:
        program = await bench.start(
            SAY + f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session={own_session})"
        )
        orphan = int(await bench.heard())
        assert await program.wait() == 0
        assert [process.pid for process in program.members()] == [orphan]
        assert await program.kill() == 0
        assert program.members() == set()

    asyncio.run(scenario())


def test_a_shells_command_keeps_the_grace_although_the_shell_is_gone(bench: Bench) -> None:
    child = SAY + (
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(0)))\nsay('up')\nwhile True: signal.pause()"
    )
    (bench.folder / "child.py").write_text(child)

    async def scenario() -> None:
        command = ["sh", "-c", f"{sys.executable} child.py; true"]
        program = await Program.start(command, env=bench.env, log=bench.log, cwd=bench.folder)
        await bench.heard()
        await program.stop(30)

    asyncio.run(scenario())
    assert bench.log.read_text() == "saved\n"


def test_the_program_dies_with_its_agent(bench: Bench) -> None:
    agent = f"""
    import asyncio, os, sys
    from pathlib import Path
    from pliant.agent.process import Program

    async def main():
        code = {SAY + "say(os.getpid()); signal.pause()"!r}
        program = await Program.start([sys.executable, "-c", code], env=os.environ, log=Path({str(bench.log)!r}))
        await program.wait()

    asyncio.run(main())
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(agent)], env=bench.env) as process:
        program = psutil.Process(int(Path(bench.env["FIFO"]).read_text()))
        process.kill()
    program.wait(MAX_WAIT_S)
    assert not program.is_running() or program.status() == psutil.STATUS_ZOMBIE


def test_a_starter_whose_agent_is_already_gone_does_not_become_the_program(bench: Bench) -> None:
    from pliant.agent import process as module

    hear, tell = os.pipe()
    other = str(os.getppid())  # stands for an agent that is no longer the parent
    proof = bench.folder / "ran"
    become = [sys.executable, "-I", "-S", "-c", module._BECOME, other, str(tell), "set", "/usr/bin/touch", "0"]
    code = subprocess.run([*become, "touch", str(proof)], pass_fds=(tell,), check=False).returncode
    os.close(tell)
    os.close(hear)
    assert code == 1
    assert not proof.exists()


def test_a_command_that_does_not_exist_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match=r"'tarin' was not found; looked in /opt/a, /opt/b"):
        find_command(["tarin"], {"PATH": "/opt/a:/opt/b"}, tmp_path)
    with pytest.raises(PermanentError, match=r"'\./tarin' does not exist; looked for .*/tarin"):
        find_command(["./tarin"], {}, tmp_path)
    with pytest.raises(PermanentError, match="empty"):
        find_command([], {}, tmp_path)
    with pytest.raises(PermanentError, match=r"working directory .* does not exist"):
        find_command(["true"], {}, tmp_path / "none")


def test_a_script_that_is_not_executable_gets_advice(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass")
    with pytest.raises(PermanentError, match=r"(?s)not executable.*python .*train\.py"):
        find_command(["./train.py"], {}, tmp_path)
    with pytest.raises(PermanentError, match=r"(?s)was not found.*python train\.py"):
        find_command(["train.py"], {"PATH": "/bin"}, tmp_path)
    with pytest.raises(PermanentError, match="is a directory"):
        find_command([f"{tmp_path}/"], {}, tmp_path)


def test_commands_are_found_relative_to_the_directory_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "of-this-test-only"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert find_command(["bin/of-this-test-only"], {}, tmp_path) == str(script)
    assert find_command(["of-this-test-only"], {"PATH": "/usr/bin:bin"}, tmp_path) == str(script)


def test_what_the_kernel_cannot_run_is_refused_with_its_reason(bench: Bench) -> None:
    script = bench.folder / "broken"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(PermanentError, match=r"cannot run .*/broken: .*No such file"):
        asyncio.run(Program.start([str(script)], env=bench.env, log=bench.log))


def test_a_log_that_cannot_be_written_is_an_error_with_its_name(bench: Bench) -> None:
    with pytest.raises(PliantError, match=r"log in .*/none/x\.log"):
        asyncio.run(Program.start(["true"], env=bench.env, log=bench.folder / "none" / "x.log"))


def test_starting_from_another_thread_is_refused(bench: Bench) -> None:
    refusals: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(Program.start(["true"], env=bench.env, log=bench.log))
        except PermanentError as refusal:
            refusals.append(refusal)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "main thread" in str(refusals[0])


def test_no_descriptor_is_left_open(bench: Bench) -> None:
    async def scenario() -> tuple[int, int]:
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            program = await bench.start("pass")
            await program.wait()
            await program.kill()
        with pytest.raises(PermanentError):
            await Program.start(["no-such-command"], env=bench.env, log=bench.log)
        return before, len(os.listdir("/proc/self/fd"))

    before, after = asyncio.run(scenario())
    assert after == before
