"""The model zoo: model files to read, to run, and to start from. They live in ``examples/zoo``, and in the installed package."""

from __future__ import annotations

import ast
from pathlib import Path

from pliant.core.errors import Conflict, InvalidRequest, NotFound
from pliant.files.atomic import write_text

BLANK = "blank"


def zoo_folder() -> Path:
    """Inside the package where it is installed, else in the source tree."""
    here = Path(__file__).parent
    folders = (here / "zoo_files", here.parents[2] / "examples" / "zoo")
    found = next((folder for folder in folders if folder.is_dir()), None)
    if found is None:
        raise NotFound("the model zoo is not installed", hint="see examples/zoo in the source tree")
    return found


def models() -> dict[str, Path]:
    return {path.stem: path for path in sorted(zoo_folder().glob("*.py")) if not path.name.startswith("_")}


def about(path: Path) -> str:
    """The first line of its docstring."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


def start(name: str, to: Path, *, overwrite: bool) -> Path:
    """Copy a model file; ``to`` may be a folder."""
    known = models()
    if name not in known:
        raise NotFound(f"model {name!r} not found in the zoo", hint=f"known: {', '.join(known)}")
    target = to / known[name].name if to.is_dir() else to
    if target.exists() and not overwrite:
        raise Conflict(f"{target} already exists", hint="use --overwrite to replace it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, known[name].read_text())
    except OSError as error:
        raise InvalidRequest(f"{target} cannot be written: {error.strerror}") from error
    return target
