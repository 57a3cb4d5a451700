"""Create a model file from a zoo template, and list the models in the zoo.

    pliant zoo list
    pliant zoo init blank my_model.py
    pliant zoo init digits_cnn . && python digits_cnn.py data

A zoo model, run as a program with a directory, generates its own data there; its docstring shows how to train it.

Exit code: 0 success; 2 if the model is not found, or the file exists.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.options.common import AsJson
from pliant.cli.render.terminal import say

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.command("list")
def list_models(as_json: AsJson = False) -> None:
    """List the models in the zoo."""
    from pliant.native.zoo import about, models

    found = models()
    if as_json:
        print(json.dumps([{"name": name, "about": about(path)} for name, path in found.items()], indent=1))
        return
    width = max(map(len, found), default=0)
    for name, path in found.items():
        say(f"{name:<{width}}  {about(path)}")


@app.command("init")
def init(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="A model name from `pliant zoo list`.")] = "blank",
    to: Annotated[Path, typer.Argument(metavar="FILE | FOLDER", help="Output path.")] = Path(),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a model file from a zoo template."""
    from pliant.native.zoo import start

    if name.endswith(".py"):  # `pliant zoo init my_model.py`
        name, to = "blank", Path(name)
    made = start(name, to, overwrite=overwrite)
    if as_json:
        print(json.dumps({"model": name, "file": str(made)}))
        return
    say(f"created {made} (see its docstring); train it with `pliant train --model {made} ...`")
