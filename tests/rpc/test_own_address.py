from __future__ import annotations

import pytest

from pliant.rpc.own_address import LOOPBACK, own_address


@pytest.mark.parametrize("target", ["127.0.0.1:5000", "localhost:5000", ":5000"])
def test_a_master_on_this_machine_is_reached_from_the_loopback_address(target: str) -> None:
    assert own_address(target) in (LOOPBACK, "::1")


def test_an_unknown_host_leaves_the_loopback_address() -> None:
    assert own_address("no-such-host.invalid:1") == LOOPBACK


def test_an_ipv6_target_may_have_brackets() -> None:
    assert own_address("[::1]:5000") in ("::1", LOOPBACK)


def test_a_master_behind_a_unix_socket_is_on_this_machine() -> None:
    assert own_address("unix:/tmp/job/master.sock") == LOOPBACK
