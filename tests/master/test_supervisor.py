from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pliant.core.errors import JobFailed, PermanentError
from pliant.files.atomic import write_json
from pliant.files.locks import FileLock
from pliant.master.job_dir import JobDir
from pliant.master.supervisor import EXIT_ALREADY_RUNNING, EXIT_PERMANENT, EXIT_RETRY_LATER, MAX_FAULTS, Supervisor


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
    monkeypatch.setattr("pliant.master.supervisor.time.sleep", seen.append)
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
    with pytest.raises(PermanentError, match=f"died {MAX_FAULTS} times at its start(.|\n)*the reason"):
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
    assert "it resumes when there is space" in said[0]
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
