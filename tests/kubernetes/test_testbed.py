"""The testbed keeps its promises: clusters do not meet, and nothing is left of one, however it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from tests.kubernetes.harness import PATIENCE, PROJECT, Kube, Space, Testbed
from tools.kubernetes.testbed import Cluster, sweep
from tools.kubernetes.testbed.runs import CGROUPS, LOCK, PREFIX, UNNAMED, find

from pliant.core.errors import NotFound
from pliant.files.locks import FileLock
from pliant.platforms.kubernetes.errors import Forbidden
from pliant.platforms.kubernetes.kinds import CONFIG_MAPS, NAMESPACES
from pliant.testing import wait_until

OWNER = """
import sys
from tools.kubernetes.testbed import runs
run = runs.begin(sys.argv[1], None if sys.argv[2] == "nobody" else int(sys.argv[2]) or __import__("os").getpid())
print(run.facts["holder"], run.facts["keeper"], run.facts["link"], flush=True)
sys.stdin.read()
"""


def test_each_test_has_a_namespace_of_its_own(space: Space, control_plane: Testbed) -> None:
    space.create(CONFIG_MAPS, {"metadata": {"name": "mine"}, "data": {"a": "1"}})
    assert space.get(CONFIG_MAPS, "mine")["data"] == {"a": "1"}
    with pytest.raises(NotFound):
        control_plane.kube.get(CONFIG_MAPS, "mine", "default")


def test_somebody_without_rights_is_refused(control_plane: Testbed) -> None:
    nobody = Kube(control_plane.cluster.kubeconfig_of("nobody"))
    try:
        with pytest.raises(Forbidden, match="list namespaces"):
            nobody.list(NAMESPACES)
    finally:
        nobody.close()


def test_every_request_is_in_the_audit_log(space: Space, control_plane: Testbed) -> None:
    space.create(CONFIG_MAPS, {"metadata": {"name": "traced"}})
    assert f'"namespace":"{space.name}","name":"traced"' in control_plane.cluster.audit_log.read_text()


def test_a_cluster_goes_away_with_its_owner(tmp_path: Path) -> None:
    owner = _begin(f"owned-{os.getpid()}", owner="0")
    run = find(f"owned-{os.getpid()}")
    assert run is not None
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    wait_until(lambda: not run.folder.exists(), PATIENCE, "the folder to be removed")
    assert not list(CGROUPS.glob(f"*/{run.folder.name}"))


def test_what_a_killed_keeper_leaves_is_swept_by_the_next_run() -> None:
    owner = _begin(f"orphan-{os.getpid()}", owner=str(os.getpid()))
    run = find(f"orphan-{os.getpid()}")
    assert run is not None
    facts = run.facts
    os.kill(facts["keeper"], signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{facts['holder']}").exists(), PATIENCE, "the holder to die with its keeper")
    wait_until(lambda: run.name in sweep() or not run.folder.exists(), PATIENCE, "the run to be swept")
    assert not run.folder.exists()
    assert not Path("/sys/class/net", facts["link"]).exists()
    owner.communicate()


def test_two_clusters_cannot_have_one_name() -> None:
    name = f"twice-{os.getpid()}"
    owner = _begin(name, owner="0")
    second = subprocess.run(
        [sys.executable, "tools/kubernetes/cluster.py", "up", "--name", name],
        cwd=PROJECT, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert second.returncode != 0
    assert "there already" in second.stderr
    Cluster.attach(name).down()
    assert not Path(f"/tmp/{PREFIX}{name}").exists()
    owner.communicate()


def test_sweeping_goes_on_while_others_make_name_and_remove_their_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the workers of a run do that starts while the clusters of another are being removed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            unnamed = Path(tempfile.mkdtemp(prefix=UNNAMED))
            named = unnamed.rename(tmp_path / unnamed.name.replace(UNNAMED, PREFIX))
            shutil.rmtree(named, ignore_errors=True)  # a sweep may have been there first

    others = [threading.Thread(target=come_and_go) for _ in range(2)]
    for other in others:
        other.start()
    try:
        for _ in range(2000):
            sweep()
    finally:
        over.set()
        for other in others:
            other.join()


def test_a_run_that_somebody_removes_is_left_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"{PREFIX}dying"
    folder.mkdir()
    keeper = FileLock(folder / LOCK)
    assert keeper.try_acquire()
    assert sweep() == []
    assert folder.exists()
    keeper.release()
    assert sweep() == ["dying"]


def _begin(name: str, owner: str) -> subprocess.Popen[str]:
    """A process that made a run, without servers, and waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, name, owner],
        cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().strip()
    return process
