"""Any history of crashes, lost disks, old copies and outages: what was accepted is there, in order, once."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from tests.brain.journal_brain import JournalBrain
from tests.databases import Databases
from tests.master.journal.copies import Backup, ListMaster, identity

from pliant.core.errors import FencedOff, MasterUnavailable

pytestmark = pytest.mark.databases

_numbers = count(1)


@pytest.mark.timeout(280)
def test_no_history_loses_or_repeats_what_was_accepted(databases: Databases, tmp_path: Path) -> None:
    with databases.migrated("sqlite") as database:
        brain = JournalBrain(tmp_path / "brain", database).start()
        try:
            run_state_machine_as_test(
                cast(Any, lambda: History(brain, tmp_path)),
                settings=settings(max_examples=25, stateful_step_count=20, deadline=None),
            )
        finally:
            brain.stop()


class History(RuleBasedStateMachine):
    def __init__(self, brain: JournalBrain, base: Path) -> None:
        super().__init__()
        self.brain = brain
        self.base = base / f"history-{next(_numbers)}"
        self.base.mkdir()
        self.job = identity(f"job-{next(_numbers)}")
        self.accepted: list[int] = []
        self.folders = count(1)
        self.backup: Backup | None = None
        self.restored = False

    @initialize()
    def begin(self) -> None:
        self.master = self._start(self._folder())

    @rule(size=st.integers(1, 3))
    def accept(self, size: int) -> None:
        values = [len(self.accepted) + at for at in range(size)]
        try:
            self.master.accept(*values)
        except MasterUnavailable:
            assert self.restored, "only a database that was restored refuses it"
            self.restart()
            self.master.accept(*values)
        self.accepted += values

    @rule()
    def snapshot(self) -> None:
        if not self.restored:
            self.master.snapshot()

    @rule()
    def restart(self) -> None:
        self.master.end()
        self.master = self._start(self.master.folder)
        self.restored = False

    @precondition(lambda self: not self.restored)
    @rule()
    def lose_disk(self) -> None:
        self.master.end()
        self.master = self._start(self._folder())

    @precondition(lambda self: not self.restored)
    @rule()
    def continue_with_an_old_copy(self) -> None:
        old = self._folder()
        self.master.end()
        shutil.copytree(self.master.folder, old)
        self.master = self._start(self.master.folder)
        self.accept(1)
        self.master.end()
        self.master = self._start(old)

    @precondition(lambda self: not self.restored)
    @rule()
    def take_over(self) -> None:
        before, self.master = self.master, self._start(self._folder())
        with pytest.raises(FencedOff):
            before.accept(-1)
        before.end()

    @precondition(lambda self: not self.restored)
    @rule()
    def back_up(self) -> None:
        self.backup = Backup.take(self.brain.database, self.job)

    @precondition(lambda self: self.backup is not None and not self.restored)
    @rule()
    def restore_the_backup(self) -> None:
        assert self.backup is not None
        self.backup.restore(self.brain.database)
        self.backup = None
        self.restored = True
        self.restart()

    def _folder(self) -> Path:
        return self.base / str(next(self.folders))

    def _start(self, folder: Path) -> ListMaster:
        master = ListMaster.start(self.brain, folder, job=self.job)
        master.check(self.accepted)
        return master

    def teardown(self) -> None:
        if hasattr(self, "master"):
            self.master.end()
        shutil.rmtree(self.base)
