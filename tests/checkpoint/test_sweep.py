"""Jobs of several users share /dev/shm: what others leave there, under whatever name, is not ours and ends nobody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.checkpoint.slots import SlotFolder, siblings, sweep
from pliant.core.errors import Conflict

LATER_S = 10_000.0
OTHER_USER = 65534  # nobody
AS_ANOTHER_USER = """
import json, os, sys, time
from pathlib import Path
from pliant.checkpoint.slots import SlotFolder, sweep
os.setgroups([]), os.setgid(65534), os.setuid(65534)  # the interpreter itself may be readable by root only
base = Path(sys.argv[1])
SlotFolder(base / "pliant-mine-00000001" / "worker-0").create()
taken = []
for name in sys.argv[2:]:
    try:
        SlotFolder(base / name / "worker-0").create()
        taken.append(name)
    except Exception as error:
        taken.append(type(error).__name__)
print(json.dumps({"swept": [path.name for path in sweep(base, now=time.time() + 10_000)], "taken": taken}))
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """As /dev/shm: all may write to it, and remove only what is theirs."""
    folder = Path(tempfile.mkdtemp(prefix="shared-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def later(folder: Path) -> float:
    return folder.stat().st_mtime + LATER_S


def test_a_file_or_a_link_of_that_name_is_left_alone(shared: Path, tmp_path: Path) -> None:
    own = SlotFolder(shared / "pliant-mine-00000001" / "worker-0")
    own.create()
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "worker-0").mkdir(parents=True)
    (shared / "pliant-file-00000002").write_text("precious")
    (shared / "pliant-link-00000003").symlink_to(elsewhere)
    (shared / "pliant-loop-00000004").symlink_to("pliant-loop-00000004")
    (shared / "pliant-mine-00000001" / "broken").symlink_to("nowhere")
    assert sweep(shared, now=later(shared)) == [own.path.parent]
    assert (elsewhere / "worker-0").is_dir()
    assert (shared / "pliant-file-00000002").read_text() == "precious"


def test_a_folder_that_cannot_be_listed_is_not_swept(tmp_path: Path) -> None:
    assert sweep(tmp_path / "none") == []
    file = tmp_path / "file"
    file.write_text("")
    assert sweep(file) == []
    assert siblings(file / "any") == []


def test_slots_are_not_put_behind_a_link_or_a_file(shared: Path, tmp_path: Path) -> None:
    (shared / "pliant-link-00000003").symlink_to(tmp_path)
    (shared / "pliant-file-00000002").write_text("")
    for name in ("pliant-link-00000003", "pliant-file-00000002"):
        with pytest.raises(Conflict, match=r"is a symbolic link|is not a directory"):
            SlotFolder(shared / name / "worker-0").create()


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user, which only root can")
def test_two_users_share_a_machine(shared: Path) -> None:
    theirs = SlotFolder(shared / "pliant-theirs-00000005" / "worker-0")
    theirs.create()
    (shared / "pliant-file-00000002").write_text("")
    (shared / "pliant-link-00000003").symlink_to(theirs.path.parent)
    names = ["pliant-theirs-00000005", "pliant-link-00000003", "pliant-file-00000002"]
    done = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER_USER, str(shared), *names],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"swept": ["pliant-mine-00000001"], "taken": ["Conflict"] * 3}
    assert theirs.path.is_dir()
    foreign = shared / "pliant-foreign-00000006"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, OTHER_USER, OTHER_USER)
    assert sweep(shared, now=later(shared)) == [theirs.path.parent], "root, too, leaves what belongs to others"
    assert foreign.is_dir()
