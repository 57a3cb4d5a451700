"""The operator has two doors, ``pliant operator`` and ``python -m pliant.operator``, and the same options at both."""

from __future__ import annotations

import inspect

import pytest
import typer
from typer.testing import CliRunner

from pliant.cli.commands import operator as door
from pliant.operator.__main__ import parser
from pliant.operator.app import Settings


def test_both_doors_have_the_same_options_with_the_same_defaults() -> None:
    of_module = {action.dest: action.default for action in parser()._actions if action.dest != "help"}
    of_cli = {name: given.default for name, given in inspect.signature(door.operator).parameters.items()}
    same = {"namespace": None, "image": None}  # none given there
    assert of_cli | same == of_module | same


def test_what_is_given_reaches_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Settings] = []
    monkeypatch.setattr(door, "run", ran.append)
    app = typer.Typer()
    app.command()(door.operator)
    words = ["-N", "a", "-N", "b", "--image", "mine:1", "--watch-seconds", "45", "--port", "0"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found = ran[0]
    assert (found.namespaces, found.image, found.watch_seconds, found.port) == (("a", "b"), "mine:1", 45, 0)
