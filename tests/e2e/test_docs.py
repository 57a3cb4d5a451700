"""The code in README.md, docs/guide.md and docs/answers.md does what it says.

A ```python block runs as a program of its own, in an empty folder, without a master; ```python job blocks are run by
``pliant run`` with two workers. A ```python file PATH block is that file without its docstring; tests of examples run it.
```python sketch blocks are there to be read, and are only compiled.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/guide.md", "docs/answers.md")
KINDS = ("", "job", "file", "sketch")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    kind: str
    file: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> list[Block]:
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        for match in re.finditer(r"^```python *(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE):
            kind, _, file = match[1].partition(" ")
            found.append(Block(page, text[: match.start()].count("\n") + 2, kind, file, match[2]))
    return found


BLOCKS = blocks()


def test_there_are_blocks_and_each_says_how_it_is_checked() -> None:
    assert {block.kind for block in BLOCKS} <= set(KINDS)
    assert sum(block.kind != "sketch" for block in BLOCKS) >= 5


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_code_in_the_documents_runs(block: Block, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(block.code)
    compile(block.code, str(block), "exec")
    if block.kind == "file":
        assert (ROOT / block.file).read_text().split('"""\n\n', 1)[1] == block.code
        return
    if block.kind == "sketch":
        return
    command = [sys.executable, str(program)]
    if block.kind == "job":
        job_dir = str(tmp_path / "job")
        command = [sys.executable, "-m", "pliant.cli", "run", "-n", "2", "--job-dir", job_dir, "--", *command]
    env = {key: value for key, value in os.environ.items() if not key.startswith("PLIANT_")}
    ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=250, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
