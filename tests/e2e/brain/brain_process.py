"""A Brain as its users run it: ``pliant brain serve`` in a process of its own, which can be killed and frozen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import text

from pliant.brain.store.database import Database
from pliant.brain.store.quotas import StoredQuota, set_quota
from pliant.core.errors import PliantError
from pliant.files.atomic import read_json
from pliant.rpc.brain.access import WHERE
from pliant.testing.waiting import wait_until

TIMEOUT_S = 120.0


class BrainProcess:
    def __init__(self, folder: Path, *options: str, database: str = "", log: str = "") -> None:
        """``log``: its name, of one of several that have the same folder."""
        self.folder = folder
        self.url = database or f"sqlite:///{folder / 'brain.db'}"
        self._options = [*options, *(["--database", database] if database else [])]
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder.parent / f"{log or folder.name}.log"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait(self) -> int:
        """Its exit code."""
        assert self._process is not None
        return self._process.wait(TIMEOUT_S)

    def start(self, *, waits: bool = True) -> None:
        command = [sys.executable, "-m", "pliant.cli", "brain", "serve", "--dir", str(self.folder), *self._options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        if waits:
            wait_until(self.is_serving, what=f"the Brain; see {self._log}", timeout=TIMEOUT_S)

    def is_serving(self) -> bool:
        """This one, not one before it."""
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-3000:]
        try:
            found = read_json(self.folder / WHERE)
        except (OSError, PliantError):
            return False
        return found is not None and found["pid"] == self._process.pid

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(30)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.send(signal.SIGCONT)
            self.send(signal.SIGTERM)
            self._process.wait(30)

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def set_quota(self, name: str, **limits: Any) -> None:
        database = Database(self.url)
        try:
            set_quota(database, StoredQuota(name, **limits), 1.0)
        finally:
            database.close()

    def ask(self, query: str, **values: Any) -> list[Any]:
        database = Database(self.url)
        try:
            with database.reading() as connection:
                return list(connection.execute(text(query), values).all())
        finally:
            database.close()

    def accepted(self, job: str) -> int:
        """Records, by the sum of what the database has."""
        found = self.ask(
            "SELECT coalesce(sum(s.accepted), 0) FROM job_samples s JOIN jobs j ON j.id = s.job_id WHERE j.name = :job",
            job=job,
        )
        return int(found[0][0])

    def log(self) -> str:
        return self._log.read_text()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
