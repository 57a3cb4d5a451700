from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pliant.core.errors import NotAvailable
from pliant.platforms.ray import addresses
from pliant.platforms.ray.addresses import check_listening


def test_an_address_where_nobody_listens_is_refused_before_rays_client_waits_for_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(NotAvailable, match=address):
            check_listening(address)


def test_one_where_somebody_listens_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert check_listening(address) == address


def test_auto_is_the_variable_of_ray_or_the_cluster_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(NotAvailable, match="no Ray cluster on this machine"):
        check_listening("auto")
    (tmp_path / "ray" / "ray_current_cluster").write_text("10.0.0.1:6379\n")
    assert addresses.resolve("auto") == "10.0.0.1:6379"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.2:6379")
    assert addresses.resolve("auto") == "10.0.0.2:6379"


@pytest.mark.parametrize("address", ["ray://host:10001", "http://host:8265", "host", "host:port"])
def test_what_is_no_address_of_a_head_is_refused_with_what_is(address: str) -> None:
    with pytest.raises(NotAvailable):
        check_listening(address)
