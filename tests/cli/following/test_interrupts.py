from __future__ import annotations

import os
import signal

import pytest

from pliant.cli.following.interrupts import Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_follows_a_job_is_interrupted_by_ctrl_c_and_by_a_request_to_terminate(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
        assert interrupts.count == 2
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN], ids=["in a terminal", "below nohup"])
def test_a_terminal_that_is_closed_is_no_interrupt(handler: signal.Handlers) -> None:
    before = signal.signal(signal.SIGHUP, handler)
    try:
        with Interrupts():
            assert signal.getsignal(signal.SIGHUP) is handler
    finally:
        signal.signal(signal.SIGHUP, before)
