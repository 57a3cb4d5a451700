"""The report is one file that runs its own script alone, and in which nothing becomes markup."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.dashboard.fakes import FakeJob

from pliant.core.errors import CorruptData
from pliant.dashboard.report.bundle import bundle
from pliant.dashboard.report.collect import collect
from pliant.dashboard.report.page import documents_in, embedded, page
from pliant.handles.log_pages import LogLine, LogPage

HOSTILE = "</script><script>alert(1)</script><!-- \u2028 & ]]> <style>"


def test_hostile_text_stays_text() -> None:
    job = FakeJob(HOSTILE)
    job.lines["worker-0"] = LogPage("worker-0", (LogLine("0", HOSTILE),))
    job.spec = {"name": HOSTILE}
    html = page(collect(job, 100), HOSTILE)
    assert "<script>alert" not in html
    assert documents_in(html)["documents"]["logs"]["worker-0"]["lines"][0]["text"] == HOSTILE
    assert documents_in(html)["job"] == HOSTILE
    assert not re.search("[<>&\u2028]", embedded({"x": HOSTILE}))


def test_the_policy_allows_the_script_and_the_style_inside_by_their_hashes() -> None:
    html = page(collect(FakeJob(), 0), "mine")
    policy = re.search(r'content="(default-src[^"]*)"', html)
    script = re.search(r'<script type="module">(.*?)</script>', html, re.DOTALL)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert policy is not None
    assert script is not None
    assert style is not None
    for part in (script, style):
        digest = base64.b64encode(hashlib.sha256(part[1].encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert "unsafe" not in policy[1]
    assert "connect-src" not in policy[1]  # default: none
    assert html.count("<script") == 2
    assert 'src="static' not in html
    assert 'href="static' not in html


def run(modules: dict[str, str]) -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    text = bundle("app.js", lambda path: modules[path])
    return subprocess.run([node, "-e", text], capture_output=True, text=True, check=True, timeout=60).stdout


def test_modules_become_one_script(tmp_path: Path) -> None:
    modules = {
        "app.js": (
            'import main, { a as first, second } from "./lib/x.js";\nimport * as all from "./lib/x.js"\n'
            'import "./lib/side.js";\nconsole.log(main(), first, second(), all.C.name, `import x from "./no.js"`);'
        ),
        "lib/x.js": (
            'import{z as q}from"../min.js";export default function () { return q; }\nconst a = 1;\n'
            "export { a };\nexport const second = () => 2;\nexport class C {}\n"
        ),
        "min.js": "const y=5;export{y as z};",
        "lib/side.js": 'console.log("side");',
    }
    assert run(modules) == 'side\n5 1 2 C import x from "./no.js"\n'


@pytest.mark.parametrize(
    "text",
    ['export * from "./b.js";', "export let x = 1;", 'import x from "preact";', "const x = 1;\nexport var y = 2;"],
)
def test_what_cannot_be_bundled_is_said(text: str) -> None:
    with pytest.raises(CorruptData):
        bundle("app.js", lambda path: text if path == "app.js" else "")


def test_modules_that_import_each_other_are_refused() -> None:
    modules = {
        "app.js": 'import { b } from "./b.js"; export const a = 1;',
        "b.js": 'import { a } from "./app.js"; export const b = 1;',
    }
    with pytest.raises(CorruptData, match="each other"):
        bundle("app.js", lambda path: modules[path])


def test_what_cannot_be_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a job with a corrupt journal and spec, the rest is what a ticket needs."""

    def corrupt(*_: object) -> None:
        raise CorruptData("journal.db is not a journal")

    job = FakeJob()
    monkeypatch.setattr(job, "events", corrupt)
    monkeypatch.setattr(job, "written_spec", corrupt)
    documents = collect(job, 100)["documents"]
    assert documents["job"]["phase"] == "Running"
    assert documents["events"]["events"] == []
    assert "journal.db is not a journal" in documents["spec"]["yaml"]
