from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from pliant.data.opening import _READERS

DOCS = Path(__file__).parents[2] / "docs" / "data.md"


def test_the_snippets_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL))
    exec(compile(code, str(DOCS), "exec"), {"__name__": "docs"})


def test_every_format_of_the_page_has_these_suffixes_and_takes_these_options() -> None:
    """Each with a class that takes exactly them, besides the paths."""
    table = DOCS.read_text(encoding="utf-8").partition("| format | by |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| ([A-Z].*?|a database table) \| (.*?) \| .*? \|(.*?)\|$", table, re.MULTILINE)
    told = {name: (re.findall(r"`(\.\w+)`", by), set(re.findall(r"`(\w+)`", options))) for name, by, options in rows}
    keys = {"RecordIO": "recordio", "ArrayRecord": "array_record", "CSV, TSV": "csv", "JSON lines": "jsonl"}
    named = {keys.get(name, "sql" if "database" in name else name.lower()): about for name, about in told.items()}
    assert set(named) == set(_READERS)
    for name, (suffixes, where) in _READERS.items():
        module, _, kind = where.partition(":")
        _paths, *options = inspect.signature(getattr(import_module(f"pliant.data.{module}"), kind)).parameters
        assert set(named[name][0]) <= set(suffixes), name
        assert named[name][1] == set(options), name
