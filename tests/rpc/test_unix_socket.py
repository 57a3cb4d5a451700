"""Where jobs of one machine talk: a socket in the job's folder, which no restart and no length of its path gets into the way of."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

import psutil
import pytest

from pliant.core.errors import MasterUnavailable, Unauthenticated
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc import unix_socket
from pliant.rpc.channel import Address, MasterClient
from pliant.rpc.unix_socket import MAX_PATH_BYTES, ServedSocket, dialled
from pliant.testing import RunningMaster

ALONE = {"components": {"need_pod_manager": False, "keep_serving": True}}


def ports() -> set[int]:
    """On which this process listens."""
    found = psutil.Process().net_connections(kind="inet")
    return {connection.laddr.port for connection in found if connection.status == psutil.CONN_LISTEN}


def asked(address: Address) -> str:
    client = MasterClient(address)
    try:
        status: pb.JobStatus = client.call(client.stubs.job.GetStatus, pb.Empty(), timeout=30)
        return status.name
    finally:
        client.close()


def test_a_master_of_this_machine_has_no_port_but_a_socket_that_only_its_user_can_use(tmp_path: Path) -> None:
    before = ports()
    with RunningMaster(tmp_path, ALONE) as master:
        assert ports() == before
        path = master.job_dir.path / "master.sock"
        assert master.address.target == f"unix:{path}"
        found = path.lstat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert asked(master.address) == "tested"
        master.stop_job()
        assert not list(path.parent.glob("*.sock")), "nothing is left of it"


def test_what_a_killed_master_left_is_not_in_the_way_and_clients_find_its_successor(tmp_path: Path) -> None:
    master = RunningMaster(tmp_path, ALONE)
    for name in ("master.sock", ".sock-0"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(master.job_dir.path / name))
    with master:
        client = master.client
        first = client.call(client.stubs.job.GetStatus, pb.Empty())
        master.restart()
        second = client.call_with_retry(client.stubs.job.GetStatus, pb.Empty(), retry_timeout=60)
        assert second.master_starts == first.master_starts + 1
        assert not list(master.job_dir.path.glob(".sock-*"))


def test_a_master_that_ends_late_leaves_the_socket_of_its_successor(tmp_path: Path) -> None:
    class Binder:
        """Stands for gRPC's server."""

        def add_insecure_port(self, target: str) -> None:
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(target.removeprefix("unix:"))

    first, second = ServedSocket(tmp_path), ServedSocket(tmp_path)
    for served in (first, second):
        served.bind(Binder())
        served.publish()
    first.close()
    assert second.path.exists()
    second.close()
    assert not second.path.exists()


def test_a_folder_with_a_long_path_is_no_problem(tmp_path: Path) -> None:
    folder = tmp_path / ("l" * 100) / ("o" * 100) / "ng"
    folder.mkdir(parents=True)
    with RunningMaster(folder, ALONE) as master:
        assert len(os.fsencode(master.job_dir.path / "master.sock")) > MAX_PATH_BYTES
        assert asked(master.address) == "tested"
        assert master.restart().client.call(master.client.stubs.job.GetStatus, pb.Empty()).name == "tested"


@pytest.mark.parametrize("name", ["exp#2", "what?", "lr=0.1,bs=32", "100%41", "with space", "größe"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    with RunningMaster(folder, ALONE) as master:
        assert asked(master.address) == "tested"


def test_where_a_file_system_has_no_sockets_a_private_folder_elsewhere_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported", str(folder))

    elsewhere = tmp_path / "tmp"
    elsewhere.mkdir()
    monkeypatch.setattr(unix_socket, "_try_out", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    with RunningMaster(tmp_path, ALONE) as master:
        path = Path(master.address.target.removeprefix("unix:"))
        assert path.is_relative_to(elsewhere)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert asked(master.address) == "tested"
        before = master.address
        assert master.restart().address == before, "agents keep the address"
        (elsewhere / f"pliant-sockets-{os.geteuid()}").chmod(0o1777)
        master.kill()
        with pytest.raises(Exception, match="shared with other users"):
            master.start()


def test_a_full_disk_is_no_reason_to_listen_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder))

    monkeypatch.setattr(unix_socket, "_try_out", refuse)
    with pytest.raises(OSError, match="No space left"):
        ServedSocket(tmp_path)


def test_the_token_is_not_sent_to_a_socket_where_others_could_listen(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(folder / "master.sock"))
        for mode in (0o777, 0o770, 0o1777):
            folder.chmod(mode)
            with pytest.raises(Unauthenticated, match="can be written by others"):
                MasterClient(Address(f"unix:{folder}/master.sock", "f" * 64))
    folder.chmod(0o755)
    dialled(f"unix:{folder}/master.sock").close()


def test_a_folder_that_is_gone_is_a_master_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(MasterUnavailable, match="no master listens"):
        MasterClient(Address(f"unix:{tmp_path}/none/master.sock", "f" * 64))
