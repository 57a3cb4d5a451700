from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pliant.core.errors import JobFailed, PermanentError
from pliant.files.atomic import write_json
from pliant.files.locks import FileLock
from pliant.master.job_dir import JobDir
from pliant.master.supervisor import (
    EXIT_ALREADY_RUNNING,
    EXIT_PERMANENT,
    EXIT_RETRY_LATER,
    EXIT_STOP_UNRECORDED,
    MAX_FAULTS,
    Supervisor,
    supervisor_pid,
)


class Masters:
    """Stands for the processes that a supervisor starts: each ends as the script says, the last one with the job done."""

    def __init__(self, home: JobDir, *codes: int, serve: bool = False) -> None:
        self._home = home
        self._codes = list(codes)
        self._serve = serve
        self.started = 0
        self.pid = 0
        self.meanwhile: Callable[[], None] = lambda: None

    def start(self) -> Masters:
        self.started += 1
        self.pid += 1
        return self

    def wait(self) -> int:
        if self._serve:
            write_json(self._home.master_file, {"pid": self.pid, "address": "here:1"})
        self.meanwhile()
        if self._codes:
            return self._codes.pop(0)
        write_json(self._home.summary_file, {"phase": "Succeeded"})
        return 0


@pytest.fixture
def home(tmp_path: Path) -> JobDir:
    job_dir = JobDir(tmp_path / "job")
    job_dir.create()
    job_dir.spec.write_text("name: job\n")
    (job_dir.logs / "master.log").write_text("ERROR the reason\n")
    return job_dir


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seen: list[float] = []
    monkeypatch.setattr(Supervisor, "_pause", lambda _, seconds: seen.append(seconds))
    return seen


def keep(home: JobDir, masters: Masters, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have a supervisor keep these masters alive; gives what it said."""
    supervisor, said = Supervisor(home), list[str]()
    supervisor.on_restart = said.append
    monkeypatch.setattr("pliant.master.supervisor.subprocess.Popen", lambda *_, **__: masters.start())
    supervisor.start_master()
    supervisor.keep_alive()
    return said


def test_a_killed_master_is_started_again_however_often(
    home: JobDir, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = Masters(home, *[-signal.SIGKILL] * 50)
    said = keep(home, masters, monkeypatch)
    assert masters.started == 51
    assert set(said) == {"the master died; restarting it"}


def test_a_master_that_keeps_failing_as_it_starts_is_given_up_with_its_last_words(
    home: JobDir, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = Masters(home, *[1] * 50)
    with pytest.raises(PermanentError, match=f"died {MAX_FAULTS} times during startup(.|\n)*the reason"):
        keep(home, masters, monkeypatch)
    assert masters.started == MAX_FAULTS


def test_a_master_that_says_that_it_is_hopeless_is_not_started_again(
    home: JobDir, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = Masters(home, EXIT_PERMANENT)
    with pytest.raises(PermanentError, match=r"cannot continue(.|\n)*the reason"):
        keep(home, masters, monkeypatch)
    assert masters.started == 1


def test_a_master_without_room_is_tried_for_ever_and_told_of_once(
    home: JobDir, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = Masters(home, *[EXIT_RETRY_LATER] * 30, serve=True)
    said = keep(home, masters, monkeypatch)
    assert masters.started == 31
    assert len(said) == 1
    assert "the job continues when space is available" in said[0]
    assert min(pauses) >= 1.0


def test_a_master_that_another_launcher_started_is_adopted(
    home: JobDir, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = Masters(home, EXIT_ALREADY_RUNNING)
    keep(home, masters, monkeypatch)
    assert masters.started == 2, "one that found another there, one after that other was gone"


def test_a_job_whose_folder_is_gone_has_failed(
    home: JobDir, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = Masters(home, EXIT_PERMANENT)
    masters.meanwhile = home.spec.unlink
    with pytest.raises(JobFailed, match="was removed"):
        keep(home, masters, monkeypatch)


def test_a_look_at_the_lock_does_not_keep_a_launcher_out(home: JobDir, monkeypatch: pytest.MonkeyPatch) -> None:
    looking = FileLock(home.path / "launcher.lock")
    assert looking.try_acquire()
    monkeypatch.setattr("pliant.master.supervisor.time.sleep", lambda _: looking.release())
    Supervisor(home).acquire()


@pytest.mark.parametrize("code", [EXIT_RETRY_LATER, EXIT_STOP_UNRECORDED])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_job_whose_master_cannot_write_is_stopped_without_it(
    home: JobDir, pauses: list[float], monkeypatch: pytest.MonkeyPatch, code: int, recorded: bool
) -> None:
    masters, supervisor = Masters(home, *[code] * 50), Supervisor(home)
    stopped: list[tuple[str, bool]] = []

    def stop(_: JobDir, reason: str, is_urgent: Callable[[], bool]) -> bool:
        stopped.append((reason, is_urgent()))
        return recorded

    monkeypatch.setattr("pliant.master.supervisor.stop_without_journal", stop)
    monkeypatch.setattr("pliant.master.supervisor.subprocess.Popen", lambda *_, **__: masters.start())
    if code == EXIT_RETRY_LATER:  # else the master itself was asked
        masters.meanwhile = lambda: supervisor.request_stop("enough", at_once=masters.started > 2)
    supervisor.start_master()
    supervisor.keep_alive()
    assert masters.started == 1
    assert stopped == [("enough" if code == EXIT_RETRY_LATER else "stopped by the user", False)]
    assert ("not recorded: the master cannot write to" in supervisor.unrecorded_stop) is not recorded


def test_a_permanent_problem_is_the_error_itself(
    home: JobDir, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = Masters(home, EXIT_PERMANENT)
    write_json(home.problem_file, {"message": "the port is taken", "hint": "choose another"})
    with pytest.raises(PermanentError, match=r"^the port is taken\n  what to do: choose another$"):
        keep(home, masters, monkeypatch)


def test_a_master_is_started_although_its_log_cannot_be_written(
    home: JobDir, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.logs / "master.log").unlink()
    (home.logs / "master.log").mkdir()
    keep(home, masters := Masters(home), monkeypatch)
    assert masters.started == 1


def test_the_lock_of_a_supervisor_says_who_it_is(home: JobDir) -> None:
    assert supervisor_pid(home) is None
    supervisor = Supervisor(home)
    supervisor.acquire()
    assert supervisor_pid(home) == os.getpid()
    supervisor.release()
    assert supervisor_pid(home) is None
