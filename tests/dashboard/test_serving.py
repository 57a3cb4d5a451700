"""The address of the dashboard: who follows the link at once is not refused."""

from __future__ import annotations

import socket

import pytest

from pliant.core.errors import Conflict
from pliant.dashboard.serving import ServeOptions, listen


def test_connections_are_taken_before_the_link_is_shown() -> None:
    with listen(ServeOptions(port=0)) as listener, socket.create_connection(listener.getsockname(), timeout=60):
        pass


def test_two_do_not_share_a_port() -> None:
    with listen(ServeOptions(port=0)) as first, pytest.raises(Conflict, match="cannot listen"):
        listen(ServeOptions(port=first.getsockname()[1]))
