from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pliant.agent.exits import MAX_LAST_WORDS, ExitReport, classify, last_words, read_tail, write_exit
from pliant.core.nodes.environment import NodeEnvironment
from pliant.core.nodes.fault_policy import ExitReason
from pliant.files.atomic import read_json


def judged(returncode: int, log: str = "", *, terminating: bool = False, oom_kills: int = 0) -> ExitReport:
    return classify(returncode, terminating=terminating, oom_kills=oom_kills, log_tail=log)


def run(code: str) -> tuple[int, str]:
    """A real program's return code and output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_zero_is_completion_whatever_else_happened() -> None:
    assert judged(0, "Traceback (most recent call last):\nMemoryError").exit_reason is ExitReason.COMPLETED
    assert judged(0, terminating=True, oom_kills=1) == ExitReport(ExitReason.COMPLETED, "finished", "")


def test_a_plain_error_is_told_in_one_line_with_its_traceback() -> None:
    report = judged(*run("print('epoch 1'); raise ValueError('bad label 17')"))
    assert report.exit_reason is ExitReason.ERROR
    assert report.message == "exit code 1: ValueError: bad label 17"
    assert report.traceback.startswith("Traceback (most recent call last):")
    assert report.traceback.endswith("ValueError: bad label 17")
    assert "epoch 1" not in report.traceback


@pytest.mark.parametrize("returncode", [-signal.SIGKILL, 137, 1, -signal.SIGABRT])
def test_a_failure_after_the_kernel_killed_for_memory_is_oom(returncode: int) -> None:
    report = judged(returncode, oom_kills=1)
    assert report.exit_reason is ExitReason.OOM
    assert report.message.startswith("out of memory")


def test_sigkill_alone_says_nothing_about_memory() -> None:
    assert judged(-9) == ExitReport(ExitReason.KILLED, "killed by SIGKILL", "")
    assert judged(137).exit_reason is ExitReason.KILLED


@pytest.mark.parametrize(
    "ending",
    [
        "MemoryError",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 EiB for an array",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.",
        "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 16 bytes.",
        "OSError: [Errno 12] Cannot allocate memory",
    ],
)
@pytest.mark.parametrize("prefix", ["", "[rank3]: "])
def test_frameworks_running_out_of_memory_are_understood(ending: str, prefix: str) -> None:
    lines = ["Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "    grow()"]
    log = "".join(f"{prefix}{line}\n" for line in [*lines, *ending.splitlines()])
    report = judged(1, log)
    assert report.exit_reason is ExitReason.OOM
    assert "[rank3]" not in report.traceback


def test_a_real_memory_error_is_oom() -> None:
    assert judged(*run("x = bytearray(1 << 62)")).exit_reason is ExitReason.OOM


def test_a_cpp_program_that_cannot_allocate_is_oom() -> None:
    log = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
    assert judged(-signal.SIGABRT, log).exit_reason is ExitReason.OOM


def test_a_memory_error_that_was_survived_is_no_cause() -> None:
    code, log = run(
        """
        import traceback
        try:
            raise MemoryError
        except MemoryError:
            traceback.print_exc()
        for step in range(30):
            print("step", step)
        raise SystemExit(4)
        """
    )
    assert judged(code, log).exit_reason is ExitReason.ERROR


def test_a_memory_error_behind_another_error_is_not_the_final_one() -> None:
    code, log = run(
        """
        try:
            raise MemoryError
        except MemoryError as cause:
            raise ValueError("wrong batch") from cause
        """
    )
    report = judged(code, log)
    assert report.exit_reason is ExitReason.ERROR
    assert report.message == "exit code 1: ValueError: wrong batch"


@pytest.mark.parametrize("returncode", [-signal.SIGTERM, 143])
def test_death_by_sigterm_is_preemption(returncode: int) -> None:
    assert judged(returncode).exit_reason is ExitReason.PREEMPTED


@pytest.mark.parametrize("returncode", [1, -signal.SIGKILL, -signal.SIGINT, 130])
def test_any_failure_of_a_node_that_had_notice_is_preemption(returncode: int) -> None:
    assert judged(returncode, "ConnectionError: lost", terminating=True).exit_reason is ExitReason.PREEMPTED


@pytest.mark.parametrize(
    ("returncode", "message"),
    [
        (-signal.SIGSEGV, "killed by SIGSEGV"),
        (-signal.SIGABRT, "killed by SIGABRT"),
        (139, "exit code 139 (SIGSEGV)"),
        (-(signal.SIGRTMIN + 5), f"killed by signal {signal.SIGRTMIN + 5}"),
        (3, "exit code 3"),
    ],
)
def test_other_ends_are_errors_by_name(returncode: int, message: str) -> None:
    assert judged(returncode) == ExitReport(ExitReason.ERROR, message, "")


@pytest.mark.parametrize(("link", "clause"), [("During handling", ""), ("direct cause", " from first")])
def test_chained_exceptions_are_kept_and_unrelated_ones_are_not(link: str, clause: str) -> None:
    code, log = run(
        f"""
        import traceback
        try:
            {{}}["unrelated"]
        except KeyError:
            traceback.print_exc()
        try:
            raise OSError("first\\nof two lines")
        except OSError as first:
            raise RuntimeError("second"){clause}
        """
    )
    report = judged(code, log)
    assert link in report.traceback
    assert "OSError: first\nof two lines" in report.traceback
    assert "unrelated" not in report.traceback
    assert report.message == "exit code 1: RuntimeError: second"


def test_an_exception_group_is_kept_whole() -> None:
    report = judged(*run("raise ExceptionGroup('two loaders', [ValueError('a'), KeyError('b')])"))
    assert report.message == "exit code 1: ExceptionGroup: two loaders (2 sub-exceptions)"
    assert "KeyError: 'b'" in report.traceback


def test_a_syntax_error_has_no_traceback_but_a_message(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("def f(:\n")
    done = subprocess.run(
        [sys.executable, str(script)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=False
    )
    report = judged(done.returncode, done.stderr)
    assert report.message.startswith("exit code 1: SyntaxError: ")
    assert "def f(:" in report.traceback


def test_a_program_of_another_language_is_quoted_by_its_last_lines() -> None:
    log = "".join(f"line {number}\n" for number in range(100)) + "\n\n"
    report = judged(2, log)
    assert report.traceback.splitlines() == [f"line {number}" for number in range(80, 100)]
    assert report.message == "exit code 2"


def test_output_after_the_traceback_does_not_hide_it() -> None:
    report = judged(*run("import atexit; atexit.register(print, 'bye'); raise ValueError('x')"))
    assert report.message == "exit code 1: ValueError: x"


def test_an_exception_without_the_word_error_is_named() -> None:
    report = judged(*run("class Diverged(Exception): __module__ = 'builtins'\nraise Diverged('loss is nan')"))
    assert report.message == "exit code 1: Diverged: loss is nan"


def test_a_message_is_one_line_of_bearable_length() -> None:
    report = judged(*run("raise ValueError('x' * 5000)"))
    assert "\n" not in report.message
    assert len(report.message) < 400


@pytest.mark.parametrize(
    "log", ["", "\n", "Traceback (most recent call last):", "Traceback (most recent call last):\n  x"]
)
def test_a_log_cut_anywhere_is_no_problem(log: str) -> None:
    assert judged(1, log).exit_reason is ExitReason.ERROR


def test_every_cut_of_a_log_is_digested() -> None:
    _, log = run("try:\n  1/0\nexcept ZeroDivisionError as e:\n  raise KeyError('x') from e")
    for begin in range(len(log)):
        last_words(log[begin:])
        last_words(log[:begin])


def test_the_tail_begins_where_the_run_began_and_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old run\n" + b"new \xff\xfe run\n")
    assert read_tail(log, 8) == "new \ufffd\ufffd run\n"
    assert read_tail(log, 8, limit=5) == " run\n"
    assert read_tail(log, 10_000).startswith("old run")
    assert read_tail(tmp_path / "none", 5) == ""


def test_a_report_is_left_where_the_platform_reads_it(tmp_path: Path) -> None:
    report = ExitReport(ExitReason.ERROR, "x" * (2 * MAX_LAST_WORDS), "")
    words = tmp_path / "termination-log"
    write_exit(report, NodeEnvironment(node_dir=tmp_path, last_words=words))
    assert read_json(tmp_path / "exit.json") == {"exit_reason": report.exit_reason.value, "message": report.message}
    assert read_json(words) == {"exit_reason": report.exit_reason.value, "message": "x" * MAX_LAST_WORDS}


def test_last_words_that_cannot_be_written_end_nothing(tmp_path: Path) -> None:
    report = ExitReport(ExitReason.COMPLETED, "done", "")
    write_exit(report, NodeEnvironment(last_words=tmp_path / "missing" / "termination-log"))
    write_exit(report, NodeEnvironment())
    assert list(tmp_path.iterdir()) == []
