"""The program of a worker whose job is a function: check the payload, load it, call it, keep what it returns.

    python -P -m pliant.api.functions FUNCTION.pliant --sha256 HEX

What the function raises ends the program as it would end any other, with its traceback as the last words. A payload that must not
be loaded is an error of the kind that no restart mends.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pliant.api.functions.payload import SENT_FILES, Payload, Stamps, read_checked
from pliant.api.functions.results import write
from pliant.api.functions.values import decode
from pliant.core.nodes.environment import NodeEnvironment
from pliant.platforms.kubernetes.names import FILES_FOLDER

Call = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="pliant.api.functions", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--sha256", required=True)
    options = parser.parse_args()
    payload = read_checked(options.file, options.sha256)
    _prepare_imports(payload, options.file.parent)
    function, args, kwargs = _loaded(payload, options.file)
    value = function(*args, **kwargs)
    if inspect.iscoroutine(value):
        value = asyncio.run(value)
    _keep(value)


def _prepare_imports(payload: Payload, folder: Path) -> None:
    """Files that were sent first, then what the submitter could import, in its order, then what is left of ours."""
    sent = folder if folder == Path(FILES_FOLDER) else folder / SENT_FILES
    is_same_python = payload.stamps.python == Stamps.here().python  # else its standard library is not ours
    given = [str(sent), *(payload.path if is_same_python else ())]
    sys.path[:] = list(dict.fromkeys([*(entry for entry in given if os.path.exists(entry)), *sys.path]))
    if payload.sources:
        sys.excepthook = traceback.print_exception  # which knows them; that of Python 3.12 and before reads files only
    for name, text in payload.sources.items():
        lines = text.splitlines(keepends=True)
        linecache.cache[name] = (len(text), None, lines, name)


def _loaded(payload: Payload, file: Path) -> Call:
    function: Any = None
    arguments: Any = None
    if payload.body:
        from pickle import loads

        function, arguments = loads(payload.body)  # noqa: S301  # the submitter's own: owner, hash and stamps were checked
    if payload.function is not None:
        function = payload.function.load()
    if payload.arguments is not None:
        arguments = decode(payload.arguments, {}, str(file))
    args, kwargs = arguments
    return function, args, kwargs


def _keep(value: object) -> None:
    environment = NodeEnvironment.from_env(os.environ)
    if environment.job_dir is None:
        if value is not None:
            print("pliant | the result is not kept: workers of this platform do not share a folder", file=sys.stderr)  # noqa: T201
        return
    if note := write(environment.job_dir, environment.node or "worker-0", value):
        print(f"pliant | {note}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
