"""Functions that need no pickle: those that another process can import by their module's name.

All others (of ``__main__``, of a notebook's cell, closures, lambdas, partial ones, bound methods) are pickled by value.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pliant.core.errors import NotFound

MAIN = "__main__"


@dataclass(frozen=True, slots=True)
class FunctionReference:
    module: str
    qualname: str

    def load(self) -> Callable[..., Any]:
        """Imports the module; whatever it raises is the program's error."""
        __import__(self.module)
        found: Any = sys.modules[self.module]
        for name in self.qualname.split("."):
            found = getattr(found, name, None)
        if not callable(found):
            raise NotFound(
                f"{self.module} has no function {self.qualname} any more", hint="submit the function as it is now"
            )
        return found  # type: ignore[no-any-return]


def reference_to(function: Callable[..., Any]) -> FunctionReference | None:
    """None: it cannot be imported elsewhere, or what is imported there would be something else (a decorated one's inside)."""
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or "<" in qualname:
        return None
    if not is_importable(module):
        return None
    found: Any = sys.modules[module]
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return FunctionReference(module, qualname) if found is function else None


def is_importable(module: str) -> bool:
    """Whether a fresh process finds it by its name: it came from a file or is built in, and was not made by a program."""
    found = sys.modules.get(module)
    if module == MAIN or not isinstance(found, ModuleType):
        return False
    spec = getattr(found, "__spec__", None)
    if spec is None or spec.name != module:
        return False
    if spec.origin in ("built-in", "frozen") or (spec.origin is None and spec.submodule_search_locations is not None):
        return True
    if not spec.has_location or not spec.origin or not Path(spec.origin).exists():
        return False
    return "." not in module or is_importable(module.rpartition(".")[0])


def folder_of_imports(module: str) -> Path | None:
    """The folder that must be on the import path for it; None: it is built in, or in a place of its own."""
    origin = getattr(getattr(sys.modules.get(module), "__spec__", None), "origin", None)
    if not origin or not Path(origin).is_file():
        return None
    path = Path(origin).resolve()
    parts = list(path.with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    names = module.split(".")
    return Path(*parts[: -len(names)]) if parts[-len(names) :] == names else None


def is_installed(module: str) -> bool:
    """Part of Python or of an installed package: it is there wherever the same packages are installed."""
    origin = getattr(getattr(sys.modules.get(module), "__spec__", None), "origin", None)
    if origin in (None, "built-in", "frozen"):
        return True
    path = Path(origin).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    return any(path.is_relative_to(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib"))
