"""docs/guide.md names the options of ``job.shards`` and the methods of a shard as they are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from pliant.client import Job, Shard

GUIDE = (Path(__file__).parents[2] / "docs/guide.md").read_text(encoding="utf-8")
IN_WORDS = {"shuffle_records": "as `shuffle`", "prefetch": "by speed"}  # None: it follows from something else
WHAT = ("size", "files", "indices", "partitions")  # what the records are: no default is shown


def section(heading: str) -> str:
    return GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_guide_has_every_option_of_shards_with_its_default() -> None:
    table = section("Options of `job.shards`")
    rows = re.findall(r"^\| `(\w+)` \|(.*?)\| .* \|$", table, re.MULTILINE)
    told = {name: default.strip().replace(chr(34), chr(39)).strip("`") for name, default in rows}
    options = [p for p in inspect.signature(Job.shards).parameters.values() if p.kind is p.KEYWORD_ONLY]
    taken = {p.name: IN_WORDS.get(p.name, "").strip("`") or repr(p.default).removesuffix(".0") for p in options}
    taken |= dict.fromkeys(WHAT, "")
    assert told == taken


def test_the_guide_has_every_report_on_a_shard() -> None:
    told = re.findall(r"^\| `shard\.(\w+)\(", section("Being sure: commit, progress, fail"), re.MULTILINE)
    assert set(told) == {"done", "commit", "progress", "fail", "release"}
    assert all(callable(getattr(Shard, name)) for name in told)
