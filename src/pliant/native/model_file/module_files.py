"""The model file and what it imports from beside it: found, copied into the job's directory, loaded.

Supported are absolute imports of modules (``helpers.py``) and packages (``layers/``) that lie in the model file's own folder, and
theirs in turn. Everything else must be installed where the workers run. Files that are no Python are not copied: name them by
paths that every node can read.
"""

from __future__ import annotations

import ast
import importlib.util
import shutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from pliant.core.errors import InvalidRequest, NotFound


def parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except SyntaxError as error:
        raise InvalidRequest(f"{path}:{error.lineno or 1}: not valid Python: {error.msg}") from None
    except (OSError, UnicodeDecodeError) as error:
        if not path.exists():
            raise NotFound(f"model file {path} not found", hint="check the path given as --model") from None
        if path.is_dir():
            raise InvalidRequest(f"--model {path} is a directory", hint="pass the model file in it") from None
        raise InvalidRequest(f"{path} cannot be read: {error}") from None


def files_of(model: Path) -> list[Path]:
    """The model file and its neighbours that it imports, directly or through them; relative to its folder."""
    folder = model.parent
    found: dict[Path, None] = {model: None}
    todo = [model]
    while todo:
        for name in _imported(parse(todo.pop())):
            for path in _beside(folder, name):
                if path not in found:
                    found[path] = None
                    todo.append(path)
    return [path.relative_to(folder) for path in found]


def _imported(tree: ast.Module) -> Iterator[str]:
    """Top-level names of all absolute imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def _beside(folder: Path, name: str) -> list[Path]:
    package = folder / name
    if (package / "__init__.py").is_file():
        return sorted(package.rglob("*.py"))
    return [package.with_suffix(".py")] if package.with_suffix(".py").is_file() else []


def copy_files(model: Path, to: Path) -> list[Path]:
    """Into a folder, with the same names; returns them."""
    names = files_of(model.resolve())
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(model.resolve().parent / name, to / name)
    return names


def load_module(path: Path) -> ModuleType:
    """Import the file; an error in it names the line."""
    parse(path)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = f"pliant_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidRequest(f"{path} is not a Python file", hint="a model file must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's file; whatever it raises is reported with its line
        del sys.modules[name]
        hint = ""
        if isinstance(error, SystemExit):
            hint = "the model file is imported; put code that runs it as a program under `if __name__ == '__main__':`"
        elif isinstance(error, ImportError):
            hint = "install it here and on the workers, or put the module next to the model file"
        raise InvalidRequest(f"{location_of(error, path)}: {described(error)}", hint=hint) from error
    return module


def location_of(error: BaseException, path: Path, otherwise: str = "") -> str:
    """file:line of the deepest frame that lies in the model's folder, else the other location, else the file itself."""
    folder = path.resolve().parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith("<"):  # <frozen os> and its like are no files
            continue
        source = Path(frame.filename).resolve()
        if source == path.resolve() or (folder in source.parents and "site-packages" not in source.parts):
            return f"{frame.filename}:{frame.lineno}"
    return otherwise or f"{path}:1"


def described(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
