"""Journals: SQLite files, damaged as files, or with other text in their rows."""

from __future__ import annotations

import json
import sqlite3
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pliant.core.events import NodeLaunched
from pliant.core.events.record import EventRecord
from pliant.master.job_dir import JobDir
from pliant.master.journal.store import Batch, SqliteStore, read_audit, read_events
from pliant.master.offline import JobOnDisk
from pliant.spec import JobSpec, initial_state

SPEC = """
name: fuzzed
roles: {worker: {command: [python, train.py], replicas: 2}}
datasets: [{name: train, size: 100, shard_size: 10}]
"""


@cache
def journal() -> bytes:
    state = initial_state(JobSpec.from_yaml(SPEC))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        store = SqliteStore(path, sync="normal")
        store.commit(Batch(snapshot=state.snapshot()))
        store.commit(Batch(events=[EventRecord(1, 2.0, NodeLaunched(node="worker-0", reason="first"))]))
        store.close()
        db = sqlite3.connect(path)
        db.execute("PRAGMA journal_mode = DELETE")  # all in one file
        db.close()
        return path.read_bytes()


class Fuzz:
    """The input is a whole file (``F``), or rows as JSON (``J``): the state, operations, facts."""

    name = "journal"

    def seeds(self) -> list[bytes]:
        state = initial_state(JobSpec.from_yaml(SPEC)).snapshot().state
        operations = [["shards", "open_session", 1.0, {"session": "s", "node": "worker-0", "incarnation": "i"}]]
        facts = EventRecord(1, 2.0, NodeLaunched(node="worker-0", reason="first"))
        rows = {"state": state, "operations": operations, "kind": facts.kind.value, "facts": facts.facts}
        return [b"F" + journal(), b"J" + json.dumps(rows).encode()]

    def check(self, data: bytes, folder: Path) -> None:
        home = JobDir(folder)
        home.spec.write_text(SPEC)
        home.journal.write_bytes(data[1:] if data[:1] == b"F" else journal())
        if data[:1] != b"F" and not _fill(home.journal, data[1:]):
            return
        try:
            read_events(home.journal)
            read_audit(home.journal)
        finally:
            try:
                JobOnDisk(home).status()
            finally:
                store = SqliteStore(home.journal, sync="normal")
                try:
                    store.load()
                finally:
                    store.close()


def _fill(path: Path, text: bytes) -> bool:
    """Rows with other content; False: the mutation left nothing to put there."""
    try:
        rows = json.loads(text)
        db = sqlite3.connect(path)
        with db:
            db.execute("UPDATE snapshot SET state = ?", (json.dumps(rows["state"]),))
            for machine, method, now, arguments in rows["operations"]:
                values = (machine, method, now, json.dumps(arguments))
                db.execute("INSERT INTO operations (machine, method, now, arguments) VALUES (?, ?, ?, ?)", values)
            db.execute("UPDATE events SET kind = ?, facts = ?", (rows["kind"], json.dumps(rows["facts"])))
        db.close()
        return True
    except (ValueError, TypeError, KeyError, sqlite3.Error, RecursionError, OverflowError):
        return False
