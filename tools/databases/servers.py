"""PostgreSQL and MariaDB for tests: a server of one's own on a free port of 127.0.0.1, with a temporary data folder.

Servers refuse to run as root, so root starts them as ``nobody``. They die with the process that started them.
Without ``is_durable`` they write to the disk whenever it suits them: what was committed is lost when the machine stops.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

START_S = 120  # only a server that is broken takes as long
USER = "pliant"
FAMILIES = ("postgresql", "mariadb")
HOW = "make databases-testbed"


def missing(family: str) -> str:
    """Why there can be no such server here, for people; empty: there can."""
    try:
        _program("initdb" if family == "postgresql" else "mariadbd")
    except FileNotFoundError as error:
        return f"{error} is not installed: {HOW}"
    return ""


def make_server(family: str, *, is_durable: bool = False) -> Server:
    return (PostgreSQL if family == "postgresql" else MariaDB)(is_durable=is_durable)


class Server(ABC):
    scheme: str

    def __init__(self, *, is_durable: bool = False) -> None:
        self.is_durable = is_durable
        self.password = secrets.token_hex(8)
        self.folder = Path(tempfile.mkdtemp(prefix="pliant-database-"))
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        try:
            if os.geteuid() == 0:
                os.chown(self.folder, *_nobody())
            self._initialize()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def url(self, database: str, *, password: str = "", user: str = USER, port: int = 0) -> str:
        return f"{self.scheme}://{user}:{password or self.password}@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        """Returns when it answers. On the same port as before, if it was started before."""
        if not self.port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self._command(), stdout=log, stderr=log, **_as_nobody(self.folder))
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{type(self).__name__} did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """As a power loss would: no process of it gets to do anything."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """And remove everything."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @abstractmethod
    def _initialize(self) -> None: ...

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _answers(self) -> bool: ...

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        if os.geteuid() == 0:
            os.chown(path, *_nobody())
        return path

    def _run(self, command: list[str], text: str = "") -> None:
        done = subprocess.run(
            command, input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **_as_nobody(self.folder)
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed:\n{done.stdout.decode(errors='replace')[-2000:]}")


class PostgreSQL(Server):
    scheme = "postgresql"

    def _initialize(self) -> None:
        secret = self._write("password", self.password)
        options = ["-U", USER, f"--pwfile={secret}", "--auth=scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"]
        self._run([_program("initdb"), "-D", str(self.folder / "data"), *options])

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "100",
            "shared_buffers": "64MB",
            "dynamic_shared_memory_type": "mmap",
        }
        if not self.is_durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [_program("postgres"), "-D", str(self.folder / "data"), *options]

    def kill(self) -> None:
        """With its other processes, which would end by themselves a moment later and keep the port until then."""
        if self.process is not None:
            others = _children(self.process.pid)
            self.process.kill()
            for pid in others:
                _kill(pid)
            self.process.wait()
            self.process = None
            while any(Path(f"/proc/{pid}").exists() for pid in others):
                time.sleep(0.01)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


class MariaDB(Server):
    scheme = "mysql"

    def _initialize(self) -> None:
        """What ``mariadb-install-db`` does, without the texts of HELP: it needs programs of the client's package."""
        shared = Path("/usr/share/mysql")
        names = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
        lines = [line for name in names for line in (shared / name).read_text().splitlines()]
        begin = ("CREATE DATABASE mysql;", "USE mysql;", "SET @auth_root_socket=NULL;", "SET @skip_auth_anonymous=1;")
        script = "\n".join([*begin, *(line for line in lines if "@current_hostname" not in line)]) + "\n"
        (self.folder / "data").mkdir()
        if os.geteuid() == 0:
            os.chown(self.folder / "data", *_nobody())
        self._write(
            "users.sql",
            f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n",
        )
        self._run([*self._base(), "--bootstrap", "--skip-networking", "--enforce-storage-engine="], script)

    def _base(self) -> list[str]:
        return [
            _program("mariadbd"),
            "--no-defaults",
            f"--datadir={self.folder / 'data'}",
            "--basedir=/usr",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=64M",
            *(() if self.is_durable else ("--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync")),
        ]

    def _command(self) -> list[str]:
        return [
            *self._base(),
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            f"--socket={self.folder / 'socket'}",
            f"--pid-file={self.folder / 'pid'}",
            f"--init-file={self.folder / 'users.sql'}",
            "--skip-log-bin",
            "--max-connections=100",
        ]

    def _answers(self) -> bool:
        import pymysql

        try:
            connection = pymysql.connect(
                host="127.0.0.1", port=self.port, user=USER, password=self.password, connect_timeout=5
            )
        except pymysql.MySQLError:
            return False
        connection.close()
        return True


def _program(name: str) -> str:
    """Raises ``FileNotFoundError``."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    for folder in (*versions, Path("/usr/sbin")):
        if (folder / name).exists():
            return str(folder / name)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(name)
    return found


def _nobody() -> tuple[int, int]:
    found = pwd.getpwnam("nobody")
    return found.pw_uid, found.pw_gid


def _as_nobody(folder: Path) -> dict[str, Any]:
    """Arguments of ``Popen``."""
    common = {"cwd": folder, "preexec_fn": _die_with_parent, "start_new_session": True, "env": _environment(folder)}
    if os.geteuid() != 0:
        return common
    user, group = _nobody()
    return {**common, "user": user, "group": group, "extra_groups": []}


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TMPDIR": str(folder)}


_prctl = ctypes.CDLL(None).prctl  # looked up here: after a fork is no time for it


def _die_with_parent() -> None:
    _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG; after the change of user, which clears it


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
