"""What ``pliant brain serve`` refuses before it does anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.commands.brain.conftest import invoke

from pliant.cli.launch.brain import is_host_and_port

pytestmark = pytest.mark.databases


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--listen", "127.0.0.1:999999"), "--listen"),
        (("--listen", "50051"), "--listen"),
        (("--listen", "127.0.0.1"), "--listen"),
        (("--listen", "127.0.0.1:50051", "--advertise", "brain.example"), "--advertise"),
        (("--listen", "127.0.0.1:50051", "--advertise", "brain.example:0"), "--advertise"),
        (("--advertise", "brain.example:50051"), "--listen"),
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_is_made(
    tmp_path: Path, options: tuple[str, ...], named: str
) -> None:
    """One of several Brains used to wait for its lease first, and end when it became the active one."""
    result = invoke(tmp_path / "home", "serve", *options)
    assert (result.exit_code, named in result.stderr) == (2, True), result.output
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "brain.example:50051", "[::1]:50051", "[::]:1"])
def test_addresses_that_can_be_listened_on(address: str) -> None:
    assert is_host_and_port(address, 0)


@pytest.mark.parametrize("address", ["", ":1", "::1:1", "a b:1", "http://a:1", "a:-1", "a:٣"])
def test_addresses_that_cannot(address: str) -> None:
    assert not is_host_and_port(address, 0)
