"""The operator has two doors, ``pliant operator`` and ``python -m pliant.operator``, and the same options at both."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pliant.cli.commands import operator as door
from pliant.operator.__main__ import parser
from pliant.operator.app import Settings
from pliant.operator.known_brain import KnownBrain
from pliant.platforms.kubernetes.pod_policy import PodPolicy
from pliant.rpc.brain.access import BrainFolder


def test_both_doors_have_the_same_options_with_the_same_defaults() -> None:
    of_module = {action.dest: action.default for action in parser()._actions if action.dest != "help"}
    of_cli = {name: given.default for name, given in inspect.signature(door.operator).parameters.items()}
    lists = ("namespace", "allow", "allow_volume", "allow_host_path")
    same = {**dict.fromkeys(lists), "image": None}  # none given there
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
    assert (found.policy, found.metrics_from) == (PodPolicy(), ())


def test_what_is_allowed_reaches_the_operator_and_what_is_unknown_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Settings] = []
    monkeypatch.setattr(door, "run", ran.append)
    app = typer.Typer()
    app.command()(door.operator)
    words = ["--allow", "hostNetwork", "--allow-volume", "nfs", "--allow-host-path", "/mnt"]
    done = CliRunner().invoke(app, [*words, "--metrics-from", '[{"podSelector": {}}]'])
    assert done.exit_code == 0, done.output
    assert ran[0].policy == PodPolicy(frozenset({"hostNetwork"}), ("nfs",), ("/mnt",))
    assert ran[0].metrics_from == ({"podSelector": {}},)
    for wrong in (["--allow", "everything"], ["--metrics-from", "{}"], ["--metrics-from", "x"]):
        assert CliRunner().invoke(app, wrong).exit_code == 2
    assert len(ran) == 1


def test_the_brain_reaches_the_operator_and_half_of_what_it_needs_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[Settings] = []
    monkeypatch.setattr(door, "run", ran.append)
    monkeypatch.delenv("PLIANT_BRAIN", raising=False)
    app = typer.Typer()
    app.command()(door.operator)
    words = ["--brain", "brain:50051", "--brain-dir", str(tmp_path)]
    for given in ([], words, [*words, "--brain-default-mode", "cluster"]):
        assert CliRunner().invoke(app, given).exit_code == 0
    folder = BrainFolder(tmp_path)
    by_default = KnownBrain("brain:50051", folder, plans_by_default=True)
    assert [found.brain for found in ran] == [None, KnownBrain("brain:50051", folder), by_default]
    for wrong in (words[:2], ["--brain-default-mode", "cluster"], [*words, "--brain-default-mode", "single-job"]):
        assert CliRunner().invoke(app, wrong).exit_code == 2
    assert len(ran) == 3
