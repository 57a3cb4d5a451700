"""The executor with real processes and really bad algorithms."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.brain.executor.bad_algorithms import named
from tests.core.planning.histories import NOW, usual_history

from pliant.brain.executor.algorithm_executor import AlgorithmExecutor
from pliant.brain.executor.process import MARK
from pliant.brain.executor.results import Execution, RunResult
from pliant.core.errors import InvalidRequest, RetryableError
from pliant.core.planning.history import JobHistory, OutOfMemory
from pliant.core.planning.planner import Planner
from pliant.core.planning.proposal import Proposal
from pliant.core.planning.proposal_check import problem_of
from pliant.core.planning.registry import DEFAULT_CHAIN, URGENT
from pliant.platforms.processes import all_gone, is_alive

HISTORY = usual_history()
GOOD = named("Good")
PATIENT = {
    "time_limit_s": 120.0,
    "load_limit_s": 120.0,
    "start_timeout_s": 250.0,
}  # of a test that is about something else


def with_executor(body: Callable[[AlgorithmExecutor], Awaitable[Any]], **settings: Any) -> Any:
    """What ``body`` returns; nothing of the executor is left behind."""

    async def main() -> Any:
        async with AlgorithmExecutor(**{**PATIENT, **settings}) as executor:
            return await body(executor)

    try:
        return asyncio.run(main())
    finally:
        assert processes_of_executors() == []


def processes_of_executors() -> list[psutil.Process]:
    """Those that belong to this process, directly or as orphans of such."""
    me = psutil.Process()
    return [child for child in me.children(recursive=True) if is_alive(child) and MARK in environment_of(child)]


def environment_of(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def run(*names: str, history: JobHistory = HISTORY, **settings: Any) -> Execution:
    async def body(executor: AlgorithmExecutor) -> Execution:
        return await executor.run(names, history, NOW)

    found: Execution = with_executor(body, **settings)
    return found


async def reasons(executor: AlgorithmExecutor, *names: str, history: JobHistory = HISTORY) -> list[str]:
    """Of each of these, asked for itself."""
    found = [(await executor.run([named(name)], history, NOW)).proposal for name in names]
    return [proposal.reason if proposal is not None else "" for proposal in found]


# --- what algorithms do


@pytest.mark.parametrize(
    ("name", "result", "message"),
    [
        ("Sleeps", "timed-out", "no answer within 2 s, it was in bad_algorithms.py:"),
        ("Spins", "timed-out", "no answer within 2 s, it was in bad_algorithms.py:"),
        ("SleepsInC", "timed-out", "no answer within 2 s, it was in bad_algorithms.py:"),
        ("IgnoresSignals", "timed-out", "no answer within 2 s"),
    ],
)
def test_an_algorithm_that_hangs_is_killed_at_the_limit_and_the_chain_goes_on(
    name: str, result: str, message: str
) -> None:
    found = run(named(name), GOOD, time_limit_s=2.0)
    bad, good = found.runs
    assert (bad.algorithm, bad.result.value) == (named(name), result)
    assert bad.message.startswith(message)
    assert bad.seconds >= 2.0
    assert good.result is RunResult.PROPOSED
    assert found.proposal is not None
    assert found.proposal.algorithm == GOOD


@pytest.mark.parametrize(
    ("name", "result", "message"),
    [
        ("TakesTenGigabytes", "out-of-memory", ""),
        ("TakesMoreAndMore", "out-of-memory", ""),
        ("Exits", "died", "the process exited with code 3: this is the end"),
        ("Crashes", "died", "the process was killed by SIGSEGV"),
        ("ClosesEverything", "died", "the process "),
        ("WritesIntoEverything", "died", "the process sent an answer to another question"),
        ("Raises", "raised", "ValueError: a bad day (bad_algorithms.py:"),
        ("CannotSayWhatItRaises", "raised", "Odd (bad_algorithms.py:"),
        ("RaisesSystemExit", "raised", "SystemExit: 0 (bad_algorithms.py:"),
        ("RaisesKeyboardInterrupt", "raised", "KeyboardInterrupt (bad_algorithms.py:"),
        ("Recurses", "raised", "RecursionError: maximum recursion depth exceeded"),
        ("CannotBeMade", "raised", "InvalidRequest: algorithm "),
        ("Missing", "raised", "NotFound: algorithm "),
        ("ReturnsText", "unsound", "returned str, neither a Proposal nor None"),
        ("ReturnsTrue", "unsound", "returned bool, neither a Proposal nor None"),
        ("ReturnsTooMany", "unsound", "beyond the bounds of the job: workers 1000000 x"),
        ("ReturnsGpus", "unsound", "8 instead of 0 GPU for each worker"),
        ("ReturnsNan", "unsound", "proposal.prediction.rate is nan, expected float"),
        ("ReturnsNoReason", "unsound", "the reason is empty"),
        ("ReturnsAMegabyte", "unsound", "the answer has "),
        ("ReturnsAnotherType", "unsound", "proposal.configuration.worker is missing"),
        ("ReturnsACircle", "raised", "RecursionError: "),
    ],
)
def test_an_algorithm_that_fails_is_named_and_the_chain_goes_on(name: str, result: str, message: str) -> None:
    found = run(named(name), GOOD)
    bad, good = found.runs
    assert (bad.algorithm, bad.result.value) == (named(name), result)
    assert bad.message.startswith(message)
    assert good.result is RunResult.PROPOSED
    assert found.proposal is not None
    assert found.proposal.algorithm == GOOD
    assert problem_of(found.proposal, HISTORY) == ""


def test_what_an_algorithm_prints_does_no_harm() -> None:
    found = run(named("Prints"))
    assert [each.result.value for each in found.runs] == ["proposed"]


def test_of_an_algorithm_that_forks_the_original_answers() -> None:
    async def body(executor: AlgorithmExecutor) -> list[str]:
        return await reasons(executor, "Forks", "Forks", "Good")

    assert with_executor(body) == ["one more worker"] * 3


def test_an_unknown_algorithm_is_named_and_the_chain_goes_on() -> None:
    found = run("nobody", "no_such_package:Best", GOOD)
    assert [each.result.value for each in found.runs] == ["raised", "raised", "proposed"]
    assert found.runs[0].message.startswith("NotFound: unknown algorithm 'nobody'")
    assert found.runs[1].message.startswith("NotAvailable: the algorithm 'no_such_package:Best' needs a package")


def test_secrets_of_the_brain_are_not_for_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLIANT_BRAIN_PASSWORD", "secret")
    found = run(named("SaysItsEnvironment"))
    assert found.proposal is not None
    assert "PATH" in found.proposal.reason.split()
    assert "PLIANT_BRAIN_PASSWORD" not in found.proposal.reason.split()


# --- the chain


def test_nothing_to_change_is_an_answer() -> None:
    found = run(named("SeesNothing"), named("SeesNothing"))
    assert found.proposal is None
    assert [each.result.value for each in found.runs] == ["nothing", "nothing"]


def test_the_default_chain_proposes_what_a_planner_in_the_same_place_would() -> None:
    ran_out = OutOfMemory(NOW - 10.0, "worker", 2048.0, 2040.0)
    cases = [
        HISTORY,
        replace(HISTORY, out_of_memory=(ran_out,)),
        replace(HISTORY, periods=HISTORY.periods[:1], configuration=HISTORY.periods[0].configuration, nodes=()),
        replace(HISTORY, pending=("worker-6", "worker-7"), pending_since=NOW - 400.0),
        replace(HISTORY, periods=(), nodes=()),
    ]

    async def body(executor: AlgorithmExecutor) -> list[Execution]:
        return [await executor.run(DEFAULT_CHAIN, case, NOW) for case in cases]

    found = with_executor(body)
    for execution, case in zip(found, cases, strict=True):
        planned = Planner().verdict(case, NOW).proposal
        assert without_prediction(execution.proposal) == without_prediction(planned)
        assert numbers_of(execution.proposal) == pytest.approx(numbers_of(planned), rel=1e-9)  # but for the last bits
    assert sum(each.proposal is not None for each in found) >= 3
    urgent_first = [name for name in DEFAULT_CHAIN if name in URGENT]
    assert [each.algorithm for each in found[-1].runs][: len(urgent_first)] == urgent_first
    assert len({each.algorithm for each in found[-1].runs}) == len(found[-1].runs), "nobody is asked twice"


def without_prediction(proposal: Proposal | None) -> Proposal | None:
    return replace(proposal, prediction=None) if proposal is not None else None


def numbers_of(proposal: Proposal | None) -> dict[str, float]:
    return proposal.prediction.to_json() if proposal is not None and proposal.prediction is not None else {}


def test_a_proposal_that_is_not_wanted_is_passed_over() -> None:
    async def body(executor: AlgorithmExecutor) -> Execution:
        names = [named("SaysItsPid"), GOOD]
        return await executor.run(names, HISTORY, NOW, is_wanted=lambda proposal: proposal.algorithm == GOOD)

    found = with_executor(body)
    assert found.proposal.algorithm == GOOD
    assert [each.result.value for each in found.runs] == ["proposed", "proposed"]


def test_only_urgent_ones_are_asked_while_something_settles() -> None:
    async def body(executor: AlgorithmExecutor) -> Execution:
        return await executor.run([GOOD, "oom_recover", "plan_job"], HISTORY, NOW, is_urgent_only=True)

    assert [each.algorithm for each in with_executor(body).runs] == ["oom_recover"]


@pytest.mark.parametrize(
    "history",
    [
        replace(HISTORY, periods=(replace(HISTORY.periods[0], rate=nan),)),
        replace(HISTORY, version=-1),
        replace(HISTORY, bounds=replace(HISTORY.bounds, worker=replace(HISTORY.bounds.worker, unit=0))),
        replace(HISTORY, room=object()),  # type: ignore[arg-type]
    ],
)
def test_a_history_that_cannot_be_is_the_fault_of_whoever_sent_it(history: JobHistory) -> None:
    async def body(executor: AlgorithmExecutor) -> None:
        for _ in range(4):
            with pytest.raises(InvalidRequest, match="the history cannot be used"):
                await executor.run([GOOD], history, NOW)
        assert (await executor.run([GOOD], HISTORY, NOW)).set_aside == ()

    with_executor(body)


# --- processes


def test_processes_stay_warm_and_teams_share_none() -> None:
    async def body(executor: AlgorithmExecutor) -> list[str]:
        return await reasons(executor, "SaysItsPid", "SaysItsPidToo", "SaysItsPid", "SaysItsPidToo")

    first, other, first_again, other_again = with_executor(body)
    assert (first, other) == (first_again, other_again)
    assert first != other


def test_built_in_algorithms_share_a_process() -> None:
    async def body(executor: AlgorithmExecutor) -> int:
        await executor.warm_up()
        for _ in range(3):
            await executor.run(["oom_recover", "plan_job", "probe"], HISTORY, NOW)
        return len(executor.pids())

    assert with_executor(body) == 1


def test_no_more_processes_are_kept_than_needed() -> None:
    async def body(executor: AlgorithmExecutor) -> int:
        await reasons(
            executor, "SaysItsPid", "SaysItsPidToo", "Good", "SeesNothing", "Prints", "RaisesSometimes", "Raises"
        )
        return len(executor.pids())

    assert with_executor(body, workers=1) == 5


def test_a_process_that_was_killed_from_outside_is_replaced() -> None:
    async def body(executor: AlgorithmExecutor) -> None:
        [pid] = await reasons(executor, "SaysItsPid")
        process = psutil.Process(int(pid))
        process.kill()
        await all_gone([process], 120.0)
        [other] = await reasons(executor, "SaysItsPid")
        assert other not in ("", pid)

    with_executor(body)


def test_memory_that_an_algorithm_hoards_is_its_own_and_ends_with_its_process() -> None:
    async def body(executor: AlgorithmExecutor) -> list[str]:
        found = [(await executor.run([named("Hoards")], HISTORY, NOW)).runs[0] for _ in range(8)]
        assert await reasons(executor, "Good") == ["one more worker"]
        return [each.result.value for each in found]

    results = with_executor(body, memory_limit_mb=512)
    assert results == ["nothing", "nothing", "out-of-memory"] * 2 + ["nothing", "nothing"]


def test_a_process_in_which_a_thread_is_left_is_not_used_again() -> None:
    async def body(executor: AlgorithmExecutor) -> list[str]:
        return await reasons(executor, "LeavesAThread", "LeavesAThread", "SaysItsPid", "SaysItsPid")

    first, second, third, fourth = with_executor(body)
    assert first != second
    assert third == fourth


def test_processes_that_an_algorithm_started_end_with_its_own(tmp_path: Path) -> None:
    told = tmp_path / "pid"

    async def body(executor: AlgorithmExecutor) -> list[int]:
        [left] = await reasons(executor, "LeavesAProcess")
        await executor.run([named("LeavesAProcessAndDies")], replace(HISTORY, pending=(str(told),)), NOW)
        return [int(left), int(told.read_text())]

    pids = with_executor(body)
    assert [pid for pid in pids if psutil.pid_exists(pid) and is_alive(psutil.Process(pid))] == []


async def asleep(executor: AlgorithmExecutor, started: Path) -> tuple[asyncio.Task[Execution], psutil.Process]:
    """A run whose algorithm sleeps, and its process."""
    history = replace(HISTORY, pending=(str(started),))
    task = asyncio.ensure_future(executor.run([named("Sleeps")], history, NOW))
    while not started.exists():
        await asyncio.sleep(0.01)
    [pid] = executor.pids()
    return task, psutil.Process(pid)


def test_a_cancelled_run_kills_its_process(tmp_path: Path) -> None:
    async def body(executor: AlgorithmExecutor) -> None:
        task, process = await asleep(executor, tmp_path / "started")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await all_gone([process], 120.0)
        assert not is_alive(process)
        assert executor.pids() == set()
        assert (await executor.run([GOOD], HISTORY, NOW)).proposal is not None

    with_executor(body)


def test_a_run_that_is_cancelled_while_its_process_starts_leaves_none() -> None:
    async def body(executor: AlgorithmExecutor) -> None:
        task = asyncio.ensure_future(executor.run([GOOD], HISTORY, NOW))
        while not executor.pids():
            await asyncio.sleep(0)
        [pid] = executor.pids()
        process = psutil.Process(pid)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await all_gone([process], 120.0)
        assert not is_alive(process)

    with_executor(body)


def test_close_ends_runs_that_are_under_way_and_refuses_later_ones(tmp_path: Path) -> None:
    async def body(executor: AlgorithmExecutor) -> None:
        task, process = await asleep(executor, tmp_path / "started")
        waiting = asyncio.ensure_future(executor.run([GOOD], HISTORY, NOW))
        await executor.close()
        assert not is_alive(process)
        for run in (task, waiting, executor.run([GOOD], HISTORY, NOW)):
            with pytest.raises(RetryableError, match="the executor is closed"):
                await run

    with_executor(body)


def test_a_hanging_algorithm_of_one_job_does_not_stop_the_others(tmp_path: Path) -> None:
    async def body(executor: AlgorithmExecutor) -> None:
        task, _ = await asleep(executor, tmp_path / "started")
        found = await asyncio.gather(*(executor.run([GOOD], HISTORY, NOW) for _ in range(5)))
        assert all(each.proposal is not None for each in found)
        assert not task.done()
        task.cancel()

    with_executor(body, workers=2)


def test_processes_end_with_an_executor_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from dataclasses import replace\n"
        "from tests.brain.executor.test_algorithm_executor import *\n"
        "async def main():\n"
        "    executor = AlgorithmExecutor(**PATIENT)\n"
        "    await executor.warm_up()\n"
        "    task, process = await asleep_beside(executor, Path(sys.argv[1]))\n"
        "    print(*executor.pids(), flush=True)\n"
        "    await task\n"
        "asyncio.run(main())\n"
    )
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "started")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    with parent:
        assert parent.stdout is not None
        processes = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        assert len(processes) == 2
        parent.kill()
    _, alive = psutil.wait_procs(processes, timeout=120)
    assert alive == []


async def asleep_beside(executor: AlgorithmExecutor, started: Path) -> tuple[asyncio.Task[Execution], set[int]]:
    """As ``asleep``, beside processes that are idle."""
    history = replace(HISTORY, pending=(str(started),))
    task = asyncio.ensure_future(executor.run([named("Sleeps")], history, NOW))
    while not started.exists():
        await asyncio.sleep(0.01)
    return task, executor.pids()


# --- set aside


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_algorithm_that_fails_three_times_in_a_row_is_set_aside_for_a_while_that_doubles() -> None:
    clock, bad = Clock(), named("Raises")

    async def results(executor: AlgorithmExecutor) -> tuple[list[str], list[str]]:
        found = await executor.run([bad, GOOD], HISTORY, NOW)
        assert found.proposal is not None, "the others go on"
        return [each.result.value for each in found.runs], [each.algorithm for each in found.set_aside]

    async def body(executor: AlgorithmExecutor) -> None:
        for length in (60.0, 120.0, 200.0, 200.0):
            for _ in range(3 if length == 60.0 else 1):
                assert await results(executor) == (["raised", "proposed"], [])
            clock.now += length - 1.0
            assert await results(executor) == (["proposed"], [bad])
            [waiting] = (await executor.run([bad], HISTORY, NOW)).set_aside
            assert waiting.seconds == pytest.approx(1.0)
            assert waiting.reason.startswith("raised: ValueError: a bad day")
            clock.now += 1.0

    with_executor(body, clock=clock, max_set_aside_s=200.0)


def test_an_algorithm_that_fails_for_one_job_is_set_aside_for_that_job() -> None:
    odd, name = replace(HISTORY, pending=("worker-99",)), named("RaisesSometimes")

    async def body(executor: AlgorithmExecutor) -> None:
        for _ in range(3):
            assert (await executor.run([name], odd, NOW, job="odd")).runs[0].result is RunResult.RAISED
            assert (await executor.run([name], HISTORY, NOW, job="usual")).runs[0].result is RunResult.NOTHING
        assert [each.algorithm for each in (await executor.run([name], odd, NOW, job="odd")).set_aside] == [name]
        assert (await executor.run([name], HISTORY, NOW, job="usual")).set_aside == ()

    with_executor(body)
