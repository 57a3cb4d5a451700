"""A warm standby becomes the program that ``python`` would have run, and is nothing before that."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pliant.agent import warm_standby
from pliant.agent.process import Program
from pliant.agent.standby_program import libraries
from pliant.agent.warm_standby import MIN_FREE_MB, PythonCommand, WarmStandby
from pliant.platforms.processes import find_marked
from pliant.testing import wait_until
from pliant.testing.waiting import MAX_WAIT_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process control is tested on Linux")
PROGRAM = """
    import os, sys, json, pickle
    class Own: pass
    pickle.loads(pickle.dumps(Own()))
    print(json.dumps([sys.argv, sys.path[0], __name__, __file__, os.environ.get("RANK"), "OLD" in os.environ, os.getcwd()]))
    print("preloaded", "xml.dom.minidom" in sys.modules, "colorsys" in sys.modules)
    sys.exit(int(sys.argv[1]))
"""


class Stage:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.log = folder / "worker-0.log"
        self.mark = {"PLIANT_TEST": str(folder)}
        self.env = {**os.environ, **self.mark, "OLD": "1"}
        monkeypatch.chdir(folder)

    def write(self, code: str = PROGRAM, name: str = "train.py") -> str:
        (self.folder / name).write_text(textwrap.dedent(code))
        return name

    async def ready(self, *command: str) -> WarmStandby:
        standby = WarmStandby(command, self.log)
        await standby.prepare(self.env, free_mb=1e9)
        async with asyncio.timeout(MAX_WAIT_S):
            while not standby.check_ready():
                await asyncio.sleep(0.01)
        return standby

    def run(self, *command: str) -> tuple[int, str]:
        """What becomes of a command that a standby takes over: its exit code and output."""

        async def scenario() -> int:
            standby = await self.ready(*command)
            assert self.log.read_text() == "", "not a line of the program has run"
            new = {**os.environ, **self.mark, "RANK": "7"}
            program = standby.become(new, ())
            assert program is not None
            assert standby.become(new, ()) is None, "it is used once"
            return await program.wait()

        return asyncio.run(scenario()), self.log.read_text()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(warm_standby, "MIN_FREE_MB", 1)
    made = Stage(tmp_path, monkeypatch)
    yield made
    left = find_marked(made.mark)
    for process in left:
        process.kill()
    assert not left, "a test left processes behind"


@pytest.mark.parametrize("flags", [(), ("-u",), ("-P", "-B")])
def test_it_is_the_process_that_python_would_have_been(stage: Stage, flags: tuple[str, ...]) -> None:
    command = [sys.executable, *flags, stage.write(), "3", "--lr=0.1"]
    code, output = stage.run(*command)
    env = {**os.environ, "RANK": "7"}
    cold = subprocess.run(command, capture_output=True, text=True, env=env, cwd=stage.folder, check=False)
    assert (code, output) == (3, cold.stdout)


def test_a_module_is_run_as_by_python(stage: Stage) -> None:
    command = [sys.executable, "-m", "train", "4"]
    stage.write()
    code, output = stage.run(*command)
    env = {**os.environ, "RANK": "7"}
    cold = subprocess.run(command, capture_output=True, text=True, env=env, cwd=stage.folder, check=False)
    assert (code, output) == (4, cold.stdout)


def test_an_error_is_shown_as_by_python(stage: Stage) -> None:
    command = [sys.executable, stage.write("def fail():\n    raise ValueError('no luck')\nfail()\n")]
    code, output = stage.run(*command)
    cold = subprocess.run(command, capture_output=True, text=True, cwd=stage.folder, check=False)
    assert (code, output) == (1, cold.stderr)


def test_libraries_of_the_program_are_imported_before_it_runs_and_its_own_files_are_not(stage: Stage) -> None:
    stage.write("print('an own module runs')", "own.py")
    name = stage.write("import own, colorsys\nimport sys\nprint(sys.flags.interactive)\nimport xml.dom.minidom\n")
    assert list(libraries([str(stage.folder / name)])) == ["colorsys", "sys"]

    async def scenario() -> str:
        standby = await stage.ready(sys.executable, name)
        output = stage.log.read_text()
        await standby.end()
        return output

    assert asyncio.run(scenario()) == ""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("'''A docstring.'''\nfrom __future__ import annotations\nimport json as j\n", ["__future__", "json"]),
        ("import os\nos.environ['X'] = '1'\nimport json\n", ["os"]),
        ("from . import json\nimport os\n", []),
        ("this is no Python", []),
        ("import not_there_at_all, json\n", ["json"]),
    ],
)
def test_what_is_imported_after_something_else_is_left_to_the_program(
    stage: Stage, code: str, expected: list[str]
) -> None:
    assert list(libraries([str(stage.folder / stage.write(code))])) == expected


@pytest.mark.parametrize(
    "command",
    [
        ("sh", "-c", "python train.py"),
        ("python", "-c", "print(1)"),
        ("python",),
        ("python", "-m"),
        ("python", "-X", "dev", "train.py"),
        ("torchrun", "train.py"),
        (),
    ],
)
def test_other_commands_have_no_standby(stage: Stage, command: tuple[str, ...]) -> None:
    assert PythonCommand.of(command) is None
    standby = WarmStandby(command, stage.log)
    asyncio.run(standby.prepare(stage.env, free_mb=1e9))
    assert not standby.check_ready()
    assert standby.become(stage.env, ()) is None


def test_without_memory_there_is_none(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_standby, "MIN_FREE_MB", MIN_FREE_MB)

    async def scenario() -> bool:
        standby = WarmStandby((sys.executable, stage.write()), stage.log)
        await standby.prepare(stage.env, free_mb=MIN_FREE_MB - 1)
        return standby.check_ready()

    assert not asyncio.run(scenario())
    assert not find_marked(stage.mark)


def test_one_that_dies_before_it_is_used_is_not_used(stage: Stage) -> None:
    async def scenario() -> Program | None:
        standby = await stage.ready(sys.executable, stage.write(), "0")
        (process,) = find_marked(stage.mark)
        process.kill()
        await asyncio.to_thread(wait_until, lambda: not find_marked(stage.mark))
        found = standby.become(stage.env, ())
        await standby.end()
        return found

    assert asyncio.run(scenario()) is None


def in_an_agent(stage: Stage, then: str) -> subprocess.Popen[str]:
    """A process that prepares a standby as an agent does, says so, and goes on with ``then``."""
    code = f"""
        import asyncio, os, sys
        from pathlib import Path
        from pliant.agent import warm_standby
        warm_standby.MIN_FREE_MB = 1
        async def main():
            standby = warm_standby.WarmStandby((sys.executable, "train.py", "0"), Path("worker-0.log"))
            await standby.prepare(dict(os.environ), free_mb=1e9)
            {then}
        asyncio.run(main())
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=stage.env,
        cwd=stage.folder,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("waits", ["while not standby.check_ready(): await asyncio.sleep(0.01)", "pass"])
def test_it_does_not_outlive_an_agent_that_is_killed(stage: Stage, waits: str) -> None:
    stage.write()
    agent = in_an_agent(
        stage, f"{waits.replace('pass', '0')}\n            print('up', flush=True); await asyncio.sleep(1000)"
    )
    assert agent.stdout is not None
    assert agent.stdout.readline() == "up\n"
    assert len(find_marked(stage.mark)) >= 2
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    agent.stdout.close()
    wait_until(lambda: not find_marked(stage.mark))


def test_nor_one_that_is_killed_right_after_it_became_the_program(stage: Stage) -> None:
    stage.write("import time\ntime.sleep(1000)\n")
    then = (
        "while not standby.check_ready(): await asyncio.sleep(0.01)\n"
        "            standby.become(dict(os.environ), ()); os.kill(os.getpid(), 9)"
    )
    agent = in_an_agent(stage, then)
    assert agent.wait() == -signal.SIGKILL
    assert agent.stdout is not None
    agent.stdout.close()
    wait_until(lambda: not find_marked(stage.mark))


def test_a_low_priority_is_not_inherited_by_the_program(stage: Stage) -> None:
    name = stage.write(
        "import json, os, threading\nprint({os.getpriority(os.PRIO_PROCESS, int(t)) for t in os.listdir('/proc/self/task')})\n"
    )
    code, output = stage.run(sys.executable, name)
    assert (code, output) == (0, f"{{{psutil.Process().nice()}}}\n")
