"""Messages are in plain technical English: words of the dialect that they once had do not return.

CONTRIBUTING.md, "How messages read", has the rules; this finds only the words that a machine can recognise.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.core.plurals import counted

ROOT = Path(__file__).parents[1]
BANNED = re.compile(
    r"\b(mend(s|ed)?|forgiv(e|es|en)|for ever|told|what came of|whereupon|there (is|are|was|were) no|is given up|are given up"
    r"|was given up|asked for|goes on|going on with|sent along|is not there|not to be had|is an URL|is no (?!longer)\w+)\b",
    re.IGNORECASE,
)


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Strings of a module, those of f-strings with their gaps, but not its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {node} & (docstrings | parts):
            yield node.lineno, node.value


def found_in(path: Path) -> list[str]:
    return [f"{path}:{line}: {text[:100]!r}" for line, text in literals(path) if BANNED.search(text)]


@pytest.mark.parametrize("package", sorted(path.name for path in (ROOT / "src/pliant").iterdir() if path.is_dir()))
def test_messages_have_no_words_of_the_old_dialect(package: str) -> None:
    assert [hit for path in sorted((ROOT / "src/pliant" / package).rglob("*.py")) for hit in found_in(path)] == []


def test_the_search_sees_plain_strings_and_the_text_of_f_strings_but_not_docstrings(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text('"""There is no job."""\na = "there is no job"\nb = f"{a} is given up"\nc = "job not found"\n')
    assert [hit.split(":")[1] for hit in found_in(module)] == ["2", "3"]


def test_counts_have_the_right_plural() -> None:
    assert [counted(n, "worker") for n in (0, 1, 2, 1000)] == ["0 workers", "1 worker", "2 workers", "1,000 workers"]
    assert counted(2, "process", "processes") == "2 processes"
