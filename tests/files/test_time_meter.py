"""The page on which a program counts where its time goes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.core.planning.time_spent import TimeSpent
from pliant.files.time_meter import MeterPage, TimeMeter


@pytest.fixture
def page() -> Iterator[MeterPage]:
    made = MeterPage()
    yield made
    made.close()


def test_waits_of_the_loop_are_added_up_by_what_they_wait_for(page: MeterPage) -> None:
    meter = TimeMeter(page.path)
    assert page.read().began == 0, "nothing was counted yet"
    began = time.monotonic()
    with meter.data:
        time.sleep(0.02)
    with meter.peers, meter.data:  # the outer one counts
        time.sleep(0.03)
    passed = time.monotonic() - began
    meter.unit(0.25)
    meter.unit(0.75)
    spent = page.read()
    assert 0.02 <= spent.data_s < passed
    assert spent.peers_s >= 0.03
    assert spent.data_s + spent.peers_s <= passed
    assert (spent.unit_s, spent.units) == (1.0, 2.0)


def test_a_wait_that_goes_on_is_counted_up_to_now(page: MeterPage) -> None:
    meter = TimeMeter(page.path)
    with meter.peers:
        first = page.read()
        time.sleep(0.01)
        second = page.read()
        shares = second.since(first)
    assert shares is not None
    assert shares.peers == pytest.approx(1.0)
    assert (shares.data, shares.compute) == pytest.approx((0.0, 0.0))
    assert page.read().peers_s >= second.peers_s


def test_threads_that_prefetch_count_nothing(page: MeterPage) -> None:
    meter = TimeMeter(page.path)

    def prefetch() -> None:
        with meter.data:
            pass

    thread = threading.Thread(target=prefetch)
    thread.start()
    thread.join()
    assert page.read().began == 0


def test_only_the_first_process_of_a_program_counts(page: MeterPage) -> None:
    TimeMeter(page.path)  # this process has the page now
    program = "import sys\nfrom pliant.files.time_meter import TimeMeter\nwith TimeMeter(sys.argv[1]).data: pass\n"
    subprocess.run([sys.executable, "-c", program, page.path], check=True)
    assert page.read().began == 0


def test_a_forked_child_counts_nothing(page: MeterPage) -> None:
    meter = TimeMeter(page.path)
    child = os.fork()
    if not child:
        with meter.data:
            pass
        os._exit(0)
    os.waitpid(child, 0)
    assert page.read().began == 0


def test_the_process_after_one_that_died_counts(page: MeterPage) -> None:
    program = "import sys\nfrom pliant.files.time_meter import TimeMeter\nTimeMeter(sys.argv[1]).unit(1.0)\n"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program, page.path], check=True)
    assert page.read().units == 2


@pytest.mark.parametrize("path", [None, "", "/nothing/like/this", "/proc/self/mem", os.devnull])
def test_without_a_page_it_counts_for_nobody(path: str | None) -> None:
    meter = TimeMeter(path)
    with meter.data:
        meter.unit(1.0)


def test_what_is_at_its_path_after_the_run_is_not_written_to(tmp_path: Path) -> None:
    page = MeterPage()
    page.close()
    other = os.open(tmp_path / "part.safetensors", os.O_RDWR | os.O_CREAT)
    try:
        os.write(other, bytes(8192))
        number = int(page.path.rpartition("/")[2])
        if other != number:
            os.dup2(other, number)  # as the next file that the agent opens
        meter = TimeMeter(page.path)
        meter.unit(1.0)
        with meter.data:
            pass
        assert os.pread(other, 8192, 0) == bytes(8192)
    finally:
        for descriptor in {other, number}:
            os.close(descriptor)


def test_nobody_can_cut_the_page_off(page: MeterPage) -> None:
    file = os.open(page.path, os.O_RDWR)
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(file, 0)
    finally:
        os.close(file)


def test_shares_are_of_one_run_only() -> None:
    first = TimeSpent(1.0, 2.0, 3.0, 4.0, began=10.0, read_at=20.0)
    later = TimeSpent(2.0, 4.0, 5.0, 8.0, began=10.0, read_at=30.0)
    shares = later.since(first)
    assert shares is not None
    assert (shares.data, shares.peers, shares.unit_s) == pytest.approx((0.1, 0.2, 0.5))
    assert shares.compute == pytest.approx(0.7)
    for other in (None, later, TimeSpent(began=11.0, read_at=20.0), TimeSpent(3.0, began=10.0, read_at=20.0)):
        assert later.since(other) is None
    assert TimeSpent().since(TimeSpent()) is None
