"""The suites of the Makefile: each test is in the folders of the suite that its marker says, so that it is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
SUITES = dict(
    re.findall(
        r"^(UNIT|DATABASES|E2E|CHAOS|KUBERNETES|RAY) *:= (.+)$", (PROJECT / "Makefile").read_text(), re.MULTILINE
    )
)
FILES = [path for path in (PROJECT / "tests").rglob("test_*.py") if path != Path(__file__)]


def folders(suite: str) -> list[Path]:
    return [PROJECT / word for word in SUITES[suite].split(" -m ")[0].split() if not word.startswith("--")]


def left_out(suite: str) -> list[Path]:
    return [PROJECT / word.removeprefix("--ignore=") for word in SUITES[suite].split() if word.startswith("--ignore=")]


def is_in(path: Path, some: list[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in some)


@pytest.mark.parametrize("suite", ["DATABASES", "E2E", "CHAOS", "KUBERNETES", "RAY"])
def test_tests_with_a_marker_are_in_a_folder_of_its_suite(suite: str) -> None:
    marker = re.compile(rf"mark\.{suite.lower()}\b")
    marks = {
        path: set(re.findall(r"mark\.(\w+)", path.read_text())) for path in FILES if marker.search(path.read_text())
    }
    elsewhere = {"DATABASES": {"e2e", "chaos"}, "E2E": {"chaos"}}.get(suite, set())  # also in those, and run there
    missing = [path for path, also in marks.items() if not is_in(path, folders(suite)) and not elsewhere & also]
    assert not missing, f"add their folders to {suite} of the Makefile"


def test_what_the_unit_tests_leave_out_has_a_marker_of_another_suite() -> None:
    marked = re.compile(r"^pytestmark = [^#]*?mark\.(e2e|chaos|ray)\b", re.MULTILINE | re.DOTALL)
    for path in FILES:
        if is_in(path, left_out("UNIT")) and not is_in(
            path, folders("KUBERNETES")
        ):  # its conftest.py marks all of them
            assert marked.search(path.read_text()), f"{path} has no pytestmark: nothing runs it"
