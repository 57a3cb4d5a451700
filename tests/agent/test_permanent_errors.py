"""Real programs that end in real ways; whether a restart would help is judged from what they leave."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pliant.agent.exits import ExitReport, classify
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.permanent import PermanentKind

PYTHON = "/opt/env/bin/python"


def judged(returncode: int, log: str) -> ExitReport:
    return classify(returncode, terminating=False, oom_kills=0, log_tail=log, python=PYTHON)


def end_of(folder: Path, code: str, *arguments: str) -> ExitReport:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(code))
    return end_of_command(folder, sys.executable, str(script), *arguments)


def end_of_command(folder: Path, *command: str) -> ExitReport:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=folder)
    return judged(done.returncode, done.stdout)


def test_a_missing_module_is_permanent_and_says_for_which_python_to_install_it(tmp_path: Path) -> None:
    report = end_of(tmp_path, "print('begin')\nimport sklearn_of_mars.linear\n")
    assert (report.exit_reason, report.permanent) == (ExitReason.ERROR, PermanentKind.MISSING_MODULE)
    assert report.message == "exit code 1: ModuleNotFoundError: No module named 'sklearn_of_mars'"
    assert f"{PYTHON} -m pip install sklearn_of_mars" in report.hint
    assert "PYTHONPATH" in report.hint


def test_a_package_is_advised_by_its_own_name() -> None:
    log = "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nModuleNotFoundError: No module named 'yaml'\n"
    assert "pip install pyyaml" in judged(1, log).hint


def test_a_module_that_is_missing_in_a_module_of_the_program_counts_too(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def build():\n    import nothing_like_this\n")
    report = end_of(tmp_path, "import model\nmodel.build()\n")
    assert report.permanent is PermanentKind.MISSING_MODULE


def test_a_name_that_cannot_be_imported_is_permanent(tmp_path: Path) -> None:
    report = end_of(tmp_path, "from json import nothing_like_this\n")
    assert report.permanent is PermanentKind.MISSING_MODULE
    assert PYTHON in report.hint


@pytest.mark.parametrize("module", ["nothing_like_this", "nothing_like_this.train"])
def test_a_main_module_that_does_not_exist_is_permanent(tmp_path: Path, module: str) -> None:
    report = end_of_command(tmp_path, sys.executable, "-m", module)
    assert report.permanent is PermanentKind.MISSING_MODULE
    assert "pip install nothing_like_this" in report.hint


def test_torchs_prefix_hides_nothing() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "t.py", line 1, in <module>',
        "ModuleNotFoundError: No module named 'x'",
    ]
    assert judged(1, "\n".join(f"[rank0]: {line}" for line in lines)).permanent is PermanentKind.MISSING_MODULE


@pytest.mark.parametrize("code", ["def f(:\n    pass\n", "if True:\npass\n", "if True:\n        x = 1\n\ty = 2\n"])
def test_a_syntax_error_names_file_and_line(tmp_path: Path, code: str) -> None:
    report = end_of(tmp_path, code)
    assert report.permanent is PermanentKind.SYNTAX_ERROR
    assert str(tmp_path / "train.py") in report.hint
    assert "fix line " in report.hint


def test_a_syntax_error_in_an_imported_file_is_found_there(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("x = 1\ndef f(:\n")
    report = end_of(tmp_path, "import model\n")
    assert report.permanent is PermanentKind.SYNTAX_ERROR
    assert f"fix line 2 of {tmp_path / 'model.py'}" in report.hint


ARGPARSE = """
    import argparse
    print("starting")
    parser = argparse.ArgumentParser(); parser.add_argument("--data", required=True); parser.parse_args()
"""
TYPER = """
    import typer
    def main(data: str = typer.Option(...)): pass
    typer.run(main)
"""
CLICK = """
    import click
    @click.command()
    @click.option("--data", required=True)
    def main(data): pass
    main()
"""


@pytest.mark.parametrize("code", [ARGPARSE, TYPER, CLICK], ids=["argparse", "typer", "click"])
def test_arguments_that_the_program_rejects_are_permanent(tmp_path: Path, code: str) -> None:
    report = end_of(tmp_path, code)
    assert report.permanent is PermanentKind.USAGE_ERROR
    assert report.message.startswith("exit code 2: ")
    assert "--data" in report.message
    assert "arguments" in report.hint


@pytest.mark.parametrize(
    ("returncode", "log"),
    [
        (1, "FATAL Flags parsing error:\n  Unknown command line flag 'x'\nPass --helpshort to see help on flags.\n"),
        (
            2,
            "ERROR: The function received no value for the required argument: data\nUsage: train.py DATA\n\nFor more, run:\n",
        ),
    ],
    ids=["absl", "fire"],
)
def test_other_parsers_of_arguments_are_known(returncode: int, log: str) -> None:
    assert judged(returncode, log).permanent is PermanentKind.USAGE_ERROR


def test_a_script_that_does_not_exist_is_permanent(tmp_path: Path) -> None:
    report = end_of_command(tmp_path, sys.executable, "trian.py")
    assert report.permanent is PermanentKind.SCRIPT_NOT_FOUND
    assert "trian.py" in report.message
    assert "working_dir" in report.hint


def test_a_command_that_a_shell_does_not_find_is_permanent(tmp_path: Path) -> None:
    assert end_of_command(tmp_path, "sh", "-c", "nothing-like-this").permanent is PermanentKind.COMMAND_NOT_FOUND
    (tmp_path / "tool").write_text("echo\n")
    assert end_of_command(tmp_path, "sh", "-c", "./tool").permanent is PermanentKind.COMMAND_NOT_FOUND


def test_a_request_that_pliant_rejects_is_permanent_with_its_own_hint(tmp_path: Path) -> None:
    code = (
        "from pliant.core.errors import InvalidRequest\nraise InvalidRequest('a batch of 0', hint='use at least 1')\n"
    )
    report = end_of(tmp_path, code)
    assert report.permanent is PermanentKind.INVALID_REQUEST
    assert report.hint == "use at least 1"


RETRYABLE = "from pliant.core.errors import MasterUnavailable\nraise MasterUnavailable('not now')\n"
HANDLED = """
    import sys, traceback
    try:
        import nothing_like_this
    except ImportError:
        traceback.print_exc()
    print("going on without it")
    sys.exit(1)
"""
HANDLED_IN_SILENCE = """
    import sys, traceback
    def optional():
        try:
            import nothing_like_this
        except ImportError:
            traceback.print_exc()
    optional()
    sys.exit(1)
"""
BEHIND_A_LOST_CONNECTION = """
    try:
        raise ConnectionResetError("peer is gone")
    except ConnectionError:
        import nothing_like_this
"""
TURNED_INTO_ANOTHER = """
    try:
        import nothing_like_this
    except ImportError as error:
        raise RuntimeError("no back end") from error
"""
OF_A_CHILD = """
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "import nothing_like_this"])
    raise ValueError("the child failed")
"""
OF_A_THREAD = """
    import sys, threading
    thread = threading.Thread(target=lambda: __import__("nothing_like_this"))
    thread.start(); thread.join(); sys.exit(1)
"""
OF_TEXT = "import ast\nast.literal_eval('1 +')\n"
OF_A_FORMULA = "eval('1 +')\n"
AFTER_THE_END = "import atexit\natexit.register(print, 'flushed the records')\nimport nothing_like_this\n"


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.exit(2)",
        "print('disk usage: 98 %'); import sys; sys.exit(2)",
        "print('usage: see the manual'); import sys; sys.exit(1)",
        "raise ValueError('No module named x')",
        "raise FileNotFoundError(2, 'No such file or directory', 'train.csv')",
        "raise KeyboardInterrupt",
        "raise SystemExit('ModuleNotFoundError: No module named x')",
        RETRYABLE,
        HANDLED,
        HANDLED_IN_SILENCE,
        BEHIND_A_LOST_CONNECTION,
        TURNED_INTO_ANOTHER,
        OF_A_CHILD,
        OF_A_THREAD,
        OF_TEXT,
        OF_A_FORMULA,
        AFTER_THE_END,
    ],
)
def test_what_may_pass_by_itself_is_not_permanent(tmp_path: Path, code: str) -> None:
    report = end_of(tmp_path, code)
    assert report.permanent is None
    assert report.hint == ""


def test_both_of_two_alternatives_that_are_missing_are_permanent(tmp_path: Path) -> None:
    code = "try:\n    import nothing_like_this\nexcept ImportError:\n    import nothing_like_that\n"
    assert end_of(tmp_path, code).permanent is PermanentKind.MISSING_MODULE


def test_a_kill_after_such_a_traceback_is_a_kill() -> None:
    log = "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nModuleNotFoundError: No module named 'x'\n"
    assert judged(-9, log).permanent is None
    assert classify(1, terminating=True, oom_kills=0, log_tail=log).permanent is None
    assert classify(1, terminating=False, oom_kills=1, log_tail=log).permanent is None
