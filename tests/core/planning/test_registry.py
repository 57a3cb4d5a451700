from __future__ import annotations

from pathlib import Path

import pytest

from pliant.core.errors import InvalidRequest, NotAvailable, NotFound
from pliant.core.planning.registry import algorithm


class Outer:
    class Inner:
        def __init__(self) -> None:
            self.name = "inner"

        def __call__(self, *_: object) -> None: ...


class NeedsMore:
    def __init__(self, more: int) -> None: ...


def of_this_module(qualname: str) -> str:
    return f"{__name__}:{qualname}"


def test_a_name_with_a_colon_is_a_class_of_a_module() -> None:
    assert algorithm("pliant.core.planning.algorithms.probe:Probe") == algorithm("probe")
    assert algorithm(of_this_module("Outer.Inner")).name == "inner"


@pytest.mark.parametrize(
    "name", ["nobody", "pliant.core.errors:Missing", "pliant.core.errors:", ":Probe", ".errors:Probe"]
)
def test_an_unknown_name_is_not_found(name: str) -> None:
    with pytest.raises(NotFound):
        algorithm(name)


def test_a_module_that_is_not_installed_is_named() -> None:
    with pytest.raises(NotAvailable, match="no_such_package"):
        algorithm("no_such_package.planning:Best")


@pytest.mark.parametrize("name", ["pliant.core.planning.registry:GROUP", "builtins:object"])
def test_what_makes_no_algorithm_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="callable"):
        algorithm(name)


def test_what_fails_when_it_is_made_or_imported_is_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raises_on_import.py").write_text("raise SystemExit('not today')")
    (tmp_path / "no_python.py").write_text("class :")
    monkeypatch.syspath_prepend(tmp_path)
    for name in (of_this_module("NeedsMore"), "raises_on_import:Best", "no_python:Best"):
        with pytest.raises(InvalidRequest, match="cannot be loaded"):
            algorithm(name)
