"""The files of one job. Everything that survives a process is here; each file has one writer.

job.yaml       what the user asked for
token          the job's secret (only the owner can read it)
tls/           certificates, if the job uses TLS
brain/         the job's token for the Brain, and how the Brain proves itself, if the job reports to one
journal.db     the master's journal
master.json    where the master listens
master.sock    the socket that it listens on (``rpc/unix_socket.py``)
series.json    what its charts are drawn of
summary.json   how it ended, once it has
resume.json    what summary.json was, from the moment somebody resumes the job until a master has journaled that
problem.json   why a master could not start, if no other start helps
reserve        disk space that is freed so that a stop can be recorded on a full disk (``files/reserve.py``)
ps/            dumps and logs of parameter servers
notes/         what programs noted on finished shards (metrics of an evaluation, parts of a prediction)
logs/          one file per node, and the master's
nodes/         what the local platform and the agents keep per node
*.lock         held by the one live master and the one live launcher
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pliant.core.errors import NotFound
from pliant.files.atomic import read_json
from pliant.files.private import FOLDER_MODE, make_private_folder
from pliant.rpc.identity import read_token_file

if TYPE_CHECKING:
    from pliant.rpc.channel import Address


@dataclass(frozen=True)
class JobDir:
    path: Path

    @property
    def name(self) -> str:
        """As ``--name`` or its file calls the job; its folder may be called otherwise (``--job-dir``)."""
        try:
            with self.spec.open(encoding="utf-8") as lines:
                found = next((line for line in lines if line.startswith("name:")), "")
        except (OSError, UnicodeDecodeError):
            found = ""
        return found.removeprefix("name:").strip().strip("'\"") or self.path.name

    @property
    def spec(self) -> Path:
        return self.path / "job.yaml"

    @property
    def token(self) -> Path:
        return self.path / "token"

    @property
    def tls(self) -> Path:
        return self.path / "tls"

    @property
    def brain(self) -> Path:
        return self.path / "brain"

    @property
    def journal(self) -> Path:
        return self.path / "journal.db"

    @property
    def master_file(self) -> Path:
        return self.path / "master.json"

    @property
    def summary_file(self) -> Path:
        return self.path / "summary.json"

    @property
    def series_file(self) -> Path:
        return self.path / "series.json"

    @property
    def resume_file(self) -> Path:
        return self.path / "resume.json"

    @property
    def problem_file(self) -> Path:
        return self.path / "problem.json"

    @property
    def reserve(self) -> Path:
        return self.path / "reserve"

    @property
    def launcher_lock(self) -> Path:
        return self.path / "launcher.lock"

    @property
    def master_lock(self) -> Path:
        return self.path / "master.lock"

    @property
    def parameters(self) -> Path:
        return self.path / "ps"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def nodes(self) -> Path:
        return self.path / "nodes"

    def log_of(self, node: str) -> Path:
        return self.logs / f"{node}.log"

    def create(self) -> int | None:
        """Or take over an empty one. Only its owner can use it; returns the mode that had to be corrected for that."""
        corrected = make_private_folder(self.path)
        for folder in (self.logs, self.nodes):
            folder.mkdir(exist_ok=True, mode=FOLDER_MODE)
        return corrected

    def exists(self) -> bool:
        return self.spec.exists()

    def summary(self) -> dict[str, Any] | None:
        return read_json(self.summary_file)

    def address(self) -> Address:
        """Where the job's master listens (or did), for processes of this machine."""
        return self._address("address")

    def tcp_address(self) -> Address:
        """The same for programs of other machines. Raises ``NotFound`` if it does not listen for them."""
        return self._address("tcp")

    def _address(self, which: str) -> Address:
        from pliant.rpc.channel import Address  # brings gRPC, which a launcher does not need before its master runs
        from pliant.rpc.tls import TlsFiles

        target = (read_json(self.master_file) or {}).get(which)
        if not target:
            why = "has no master yet" if which == "address" else "has no master that listens on TCP"
            raise NotFound(f"the job in {self.path} {why}")
        tls = TlsFiles(self.tls) if self.tls.exists() else None
        return Address(target, read_token_file(self.token), tls)
