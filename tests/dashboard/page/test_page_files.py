"""The files of the page: vendored as they were checked, nothing that a strict policy forbids, and no way from text to markup."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import pliant

STATIC = Path(pliant.__file__).parent / "dashboard" / "static"
VENDOR = STATIC / "vendor"
OWN = sorted(path for path in STATIC.rglob("*.js") if VENDOR not in path.parents)
STYLES = sorted((STATIC / "css").glob("*.css"))
IMPORT = re.compile(r"""^import\s*(?:[^"';]*?\bfrom\s*)?["']([^"']+)["'];""", re.MULTILINE)


def relative(path: Path) -> str:
    return str(path.relative_to(STATIC))


def vendored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((VENDOR / "vendored.json").read_text())
    return found


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_vendored_files_are_those_that_were_checked() -> None:
    files = vendored()["files"]
    assert sorted(files) == sorted(path.name for path in VENDOR.iterdir() if path.name != "vendored.json")
    for name, entry in files.items():
        assert sha256((VENDOR / name).read_bytes()) == entry["sha256"], name


def test_a_vendored_file_is_its_packages_but_for_the_replacements_that_are_written_down() -> None:
    for name, entry in vendored()["files"].items():
        text = (VENDOR / name).read_text()
        for old, new in reversed(entry["replacements"].items()):
            text = text.replace(new, old, 1) if new else text.rstrip("\n") + old + text[len(text.rstrip("\n")) :]
        assert sha256(text.encode()) == entry["package_sha256"], name


def test_every_vendored_package_has_a_version_and_a_licence() -> None:
    found = vendored()
    for name, package in found["packages"].items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
        assert re.fullmatch(r"[0-9a-f]{64}", package["archive_sha256"])
        assert len((VENDOR / f"LICENSE.{name}.txt").read_text()) > 1000
    assert {entry["package"] for entry in found["files"].values()} == set(found["packages"])


@pytest.mark.parametrize("path", OWN, ids=relative)
def test_no_module_makes_markup_or_code_of_text(path: Path) -> None:
    text = path.read_text()
    forbidden = (
        "innerHTML",
        "outerHTML",
        "dangerouslySetInnerHTML",
        "insertAdjacentHTML",
        "document.write",
        "createContextualFragment",
        "DOMParser",
        "eval(",
        "new Function",
        "javascript:",
        'setAttribute("style"',
    )
    assert [word for word in forbidden if word in text] == []
    assert not re.search(r"\bon[a-z]+=\"", text)  # handlers are functions
    assert not re.search(r"\bstyle=\"", text)  # styles are classes, or objects that CSSOM sets
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)


@pytest.mark.parametrize("path", OWN, ids=relative)
def test_imports_are_relative_files_that_exist_and_of_a_form_that_the_report_can_bundle(path: Path) -> None:
    text = path.read_text()
    for name in IMPORT.findall(text):
        assert name.startswith("."), name
        assert (path.parent / name).resolve().is_file(), name
    assert not re.search(
        r"\bimport\(|\bimport\.meta|^export \*|^export \{[^}]*\} from|^export let|^await ", text, re.MULTILINE
    )


def test_no_module_is_in_an_import_cycle_and_none_is_left_over() -> None:
    graph = {
        path: {(path.parent / name).resolve() for name in IMPORT.findall(path.read_text())}
        for path in (*OWN, *VENDOR.glob("*.js"))
    }
    done: set[Path] = set()

    def visit(path: Path, above: tuple[Path, ...]) -> None:
        assert path not in above, f"cycle over {path}"
        if path in done:
            return
        for imported in graph[path]:
            visit(imported, (*above, path))
        done.add(path)

    visit(STATIC / "app.js", ())
    assert sorted(relative(path) for path in set(graph) - done) == []


def test_every_name_that_is_imported_is_exported() -> None:
    for path in OWN:
        for names, source in re.findall(r"""^import \{([^}]*)\} from "([^"]+)";""", path.read_text(), re.MULTILINE):
            exported = (path.parent / source).resolve().read_text()
            for name in (part.split(" as ")[0].strip() for part in names.split(",") if part.strip()):
                has = rf"export (?:async )?(?:function|const|class) {re.escape(name)}\b|export ?\{{[^}}]*\b{re.escape(name)}\b"
                assert re.search(has, exported), f"{relative(path)}: {name} of {source}"


def test_no_module_imports_a_name_that_it_does_not_use() -> None:
    for path in OWN:
        text = path.read_text()
        for names in re.findall(r"""^import \{([^}]*)\} from""", text, re.MULTILINE):
            for name in (part.split(" as ")[-1].strip() for part in names.split(",") if part.strip()):
                assert len(re.findall(rf"\b{re.escape(name)}\b", text)) > 1, f"{relative(path)}: {name}"


def test_the_page_has_no_inline_script_or_style_and_refers_to_its_own_files_only() -> None:
    text = (STATIC / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert "<style" not in text
    assert not re.search(r"\s(?:style|on[a-z]+)=", text)
    references = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert references
    for name in references:
        assert name.startswith("static/")
        assert (STATIC / name.removeprefix("static/")).is_file(), name


@pytest.mark.parametrize("path", STYLES, ids=relative)
def test_styles_fetch_nothing(path: Path) -> None:
    assert not re.search(r"@import|url\((?!data:)", path.read_text())


def test_every_colour_that_a_style_uses_is_defined() -> None:
    text = "\n".join(path.read_text() for path in STYLES)
    used = set(re.findall(r"var\((--[a-z0-9-]+)", text)) - {"--tone", "--tone-soft"}
    script = "\n".join(path.read_text() for path in OWN)
    used |= set(re.findall(r'"(--[a-z0-9-]+)"', script))
    defined = set(re.findall(r"(--[a-z0-9-]+):", text))
    assert used - defined == set()
    assert defined - used - {"--tone", "--tone-soft"} == set()


def test_no_file_of_the_page_is_left_out_of_the_wheel() -> None:
    """hatchling packs all of src/pliant but what git ignores."""
    root = Path(__file__).resolve().parents[3]
    files = [str(path) for path in STATIC.rglob("*") if path.is_file()]
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *files], cwd=root, capture_output=True, text=True, check=False
    )
    assert ignored.returncode in (1, 128), ignored.stdout  # 1: none is ignored; 128: this is no clone
