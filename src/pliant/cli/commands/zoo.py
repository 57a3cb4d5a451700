"""Create a model file from one of the zoo, and list the models of the zoo.

    pliant zoo list
    pliant zoo init blank my_model.py
    pliant zoo init digits_cnn . && python digits_cnn.py data

A zoo model, run as a program with a folder, generates its own data there; its docstring says how to train it.

Exit code: 0 done; 2 if there is no such model, or the file exists.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.command("list")
def list_models() -> None:
    """List the models of the zoo."""
    from pliant.native.zoo import about, models

    found = models()
    width = max(map(len, found), default=0)
    for name, path in found.items():
        print(f"{name:<{width}}  {about(path)}")


@app.command("init")
def init(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="A name of `pliant zoo list`.")] = "blank",
    to: Annotated[Path, typer.Argument(metavar="FILE | FOLDER", help="Where to write it.")] = Path(),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Create a model file from one of the zoo."""
    from pliant.native.zoo import start

    if name.endswith(".py"):  # `pliant zoo init my_model.py`
        name, to = "blank", Path(name)
    made = start(name, to, overwrite=overwrite)
    print(f"{made}: see its docstring; `pliant train --model {made} ...` trains it")
