"""What runs in a warm standby: a Python that has imported what a program imports, and becomes that program on request.

    python standby_program.py SOCKET program.py arguments…     (or -m module arguments…)

Only the libraries that the program's own file imports before it does anything else are imported: an assignment to
``os.environ``, say, may decide how the libraries after it are set up. Files of the program itself are left alone. A library is
imported in a thread of the lowest priority, so that training beside it is not slowed; that thread ends before the program begins.

Then one byte on the socket reports that it is ready, and a JSON object (``environment``, ``arguments``, ``directory``) is awaited.
From then on this is the process that ``python program.py arguments…`` would have been: its environment, ``sys.argv``,
``sys.path``, ``__main__`` and exit code. If the socket is closed instead, it ends. It does not import Pliant by itself, and is run
by the interpreter of the program.
"""

from __future__ import annotations

import sys

if not getattr(sys.flags, "safe_path", False):
    sys.path.pop(0)  # the folder of this file, whose names are not those of libraries

import ast
import contextlib
import importlib
import importlib.util
import json
import os
import socket
import threading
import types
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder, SourceFileLoader

LOWEST_PRIORITY = 19
IMPORTED_LATER = {
    "torch": ("torch._dynamo",)
}  # what a library imports when it is first used: torch by its first optimizer


def main() -> None:
    agent = socket.socket(fileno=int(sys.argv[1]))
    agent.set_inheritable(False)
    words = sys.argv[2:]
    names = list(libraries(words))
    names += [later for name in names for later in IMPORTED_LATER.get(name, ())]
    if "torch" in names and PathFinder.find_spec("numpy") is not None:
        importlib.import_module("numpy")  # it starts threads, which must not have the priority of the one below
    thread = threading.Thread(target=_import_all, args=(names,))
    thread.start()
    thread.join()
    agent.sendall(b"R")
    with agent.makefile("rb") as stream:
        text = stream.read()
    agent.close()
    if not text:
        sys.exit(0)
    become(**json.loads(text))


def _import_all(names: list[str]) -> None:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)  # on Linux, of this thread
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 - a border: whatever a library raises here, the program meets it itself
            return


def libraries(words: list[str]) -> Iterator[str]:
    """Modules that the program's file imports at its top, in order."""
    try:
        file = _module_file(words[1]) if words[0] == "-m" else words[0]
        with open(file, "rb") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError, ImportError, IndexError):
        return
    own = "" if words[0] == "-m" else os.path.dirname(os.path.abspath(file))
    for number, statement in enumerate(tree.body):
        match statement:
            case ast.Expr(value=ast.Constant()) if number == 0:  # the docstring
                continue
            case ast.Import(names=aliases):
                found = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), level=0):
                found = [module]
            case _:
                return
        yield from (name for name in found if _is_library(name, own))


def _module_file(name: str) -> str:
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or not spec.origin:
        raise ImportError(name)
    return spec.origin


def _is_library(name: str, own: str) -> bool:
    """Whether it is found without the program's own folder, and is not in it."""
    top = name.partition(".")[0]
    if top in sys.builtin_module_names:
        return True
    spec = PathFinder.find_spec(top)
    if spec is None:
        return False
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    installed = ("site-packages", "dist-packages")
    return not own or not any(
        place.startswith(own + os.sep) and not any(part in place for part in installed) for place in places
    )


def become(environment: dict[str, str], arguments: list[str], directory: str) -> None:
    """Run the program as ``python`` does."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    is_safe = bool(getattr(sys.flags, "safe_path", False))
    if arguments[0] == "-m":
        import runpy

        sys.argv = ["-m", *arguments[2:]]
        if not is_safe:
            sys.path.insert(0, directory)
        _run(lambda: runpy.run_module(arguments[1], run_name="__main__", alter_sys=True))
        return
    file = os.path.abspath(arguments[0])  # as Python has it since 3.9
    sys.argv = arguments
    if not is_safe:
        sys.path.insert(0, os.path.dirname(os.path.realpath(file)))
    with open(file, "rb") as source:
        text = source.read()
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=file, __builtins__=__builtins__, __cached__=None, __spec__=None)
    module.__loader__ = SourceFileLoader("__main__", file)
    sys.modules["__main__"] = module
    _run(lambda: exec(compile(text, file, "exec", dont_inherit=True), module.__dict__))


def _run(program: Callable[[], object]) -> None:
    """An error is shown without the frames of this file."""
    try:
        program()
    except Exception as error:  # noqa: BLE001 - the border of the program
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.exit(1)


if __name__ == "__main__":
    main()
