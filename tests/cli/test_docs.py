"""The documents and the command line agree: command lines in them are parsed, options exist, exit codes are those of the help."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.command_line import CommandLine
from typer.core import TyperGroup

from pliant.cli.app import COMMANDS, app
from pliant.core.job import Phase
from pliant.core.status import (
    WAITING,
    WARNINGS,
    CheckpointStatus,
    Condition,
    DatasetStatus,
    JobStatus,
    NodeStatus,
    Progress,
    RoleStatus,
)
from pliant.core.waiting import SCALED_TO_ZERO, TOO_LARGE, UNSCHEDULABLE

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))}
CLI = PAGES["cli.md"]
OF_OTHERS = {  # options of torchrun, kubectl, helm, docker, tensorboard and of programs in examples
    "--install",
    "--logdir",
    *("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf", "--local-addr"),
    *("--create-namespace", "--set", "--type", "--epochs"),
}
END_OF_COMMAND = ("|", "||", "&&", ";", ">", "#")


def group() -> Any:
    return typer.main.get_command(app)


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words name, and the words after it."""
    found, name, rest = group(), "", words
    while isinstance(found, TyperGroup) and rest and not rest[0].startswith("-"):
        name, *rest = rest
        inner = found.get_command(typer.Context(found), name)
        assert inner is not None, f"there is no command {name}"
        found = inner
    return found, rest


def options_of(command: Any) -> set[str]:
    names = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    if isinstance(command, TyperGroup):
        names.update(*(options_of(command.commands[name]) for name in command.commands))
    return names | {"--help"}


def command_lines() -> Iterator[tuple[str, str]]:
    """Page and command line: of code blocks, and those inside sentences."""
    for name in COMMANDS:
        examples = re.sub(r"\\\n *", " ", str(command_of([name])[0].help))
        yield from ((f"help of {name}", line) for line in re.findall(r"^    (pliant .*)$", examples, re.MULTILINE))
    for page, text in PAGES.items():
        whole = re.sub(r"\\\n *", " ", text)
        blocks = re.findall(r"^(?:    |)(pliant .*)$", whole, re.MULTILINE)
        for line in [*blocks, *re.findall(r"`(pliant [^`]*)`", re.sub(r"\n", " ", text))]:
            yield page, line


def words_of(line: str) -> list[str]:
    words = shlex.split(line.replace("…", ""), comments=True)[1:]
    end = next((at for at, word in enumerate(words) if word in END_OF_COMMAND), len(words))
    return words[:end]


CONCRETE = sorted(
    {
        (page, line)
        for page, line in command_lines()
        if not re.search(r"\[|COMMAND| \| (inspect|init)|ls \|", line) and words_of(line)
    }
)


def test_there_are_many_command_lines_in_the_documents() -> None:
    assert len(CONCRETE) > 100


@pytest.mark.parametrize(("page", "line"), CONCRETE, ids=lambda value: str(value)[:60])
def test_a_command_line_of_the_documents_is_understood(page: str, line: str) -> None:
    words = words_of(line)
    command, rest = command_of(words)
    if page in PAGES and f"`{line}`" in PAGES[page].replace("\n", " "):  # in a sentence, without all that must be given
        own = rest[: rest.index("--")] if "--" in rest else rest
        assert {word.partition("=")[0] for word in own if word.startswith("--")} <= options_of(command)
        return
    with command.make_context(words[0], list(rest)):
        pass


def test_every_option_in_the_documents_exists() -> None:
    known = set().union(*(options_of(command_of([name])[0]) for name in COMMANDS))
    for page, text in PAGES.items():
        if page != "benchmarks.md":
            named = {option.replace("_", "-") for option in re.findall(r"(?<![\w-])--[a-z][a-z_-]*[a-z]", text)}
            assert named - known - OF_OTHERS == set(), page


def sections() -> dict[str, str]:
    """Of the page, by command."""
    found = {}
    for section in re.split(r"^## ", CLI, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        for name in heading.removeprefix("pliant ").split(", "):
            found[name] = text
    return found


def test_the_page_has_a_section_for_every_command_and_for_no_other() -> None:
    assert set(sections()) == set(COMMANDS)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_section_of_a_command_has_its_options_and_exit_codes(name: str) -> None:
    text = sections()[name]
    together = [other for other, section in sections().items() if section == text]
    known = set().union(*(options_of(command_of([other])[0]) for other in together))
    sentences = re.sub(r"^    pliant .*$", "", text, flags=re.MULTILINE)  # examples may use other commands too
    named = {option.replace("_", "-") for option in re.findall(r"(?<![\w-])--[a-z][a-z_-]*[a-z]", sentences)}
    of_run = {"--audit"} if name == "audit" else set()
    assert named - known - of_run == set()
    codes = r"\b(0|1|2|130)\b"
    told = re.findall(r"Exit codes?:? (.*?)(?:\n\n|\Z)", text, re.DOTALL)
    help_text = str(command_of([name])[0].help)
    of_help = re.search(r"Exit codes?: (.*)", help_text, re.DOTALL)
    assert of_help is not None
    assert set(re.findall(codes, " ".join(told))) <= set(re.findall(codes, of_help[1]))


def test_the_json_of_a_status_has_the_fields_and_phases_of_the_page(command_line: CommandLine) -> None:
    paragraph = re.search(r"^The JSON has (.*?)\n\n", CLI, re.DOTALL | re.MULTILINE)
    assert paragraph is not None
    text = paragraph[1]
    kinds: dict[str, Any] = {"nodes": NodeStatus, "datasets": DatasetStatus, "roles": RoleStatus, "progress": Progress}
    kinds["checkpoints"] = CheckpointStatus
    for name, kind in kinds.items():
        inner = re.search(rf"`{name}` \((?:each with )?([^)]*)\)", text)
        assert inner is not None, name
        computed = {"loss", "percent"} if kind is Progress else set()
        assert set(re.findall(r"`(\w+)`", inner[1])) <= {field.name for field in fields(kind)} | computed, name
        text = text.replace(inner[0], f"`{name}`")
    phases = re.search(r"`phase` \(([^)]*)\)", text)
    assert phases is not None
    assert set(re.findall(r"`(\w+)`", phases[1])) == {phase.value for phase in Phase}
    text = text.replace(phases[0], "`phase`")
    (command_line.job("digits")).mkdir(parents=True)
    (command_line.job("digits") / "job.yaml").write_text("name: digits\nroles: {worker: {command: ['true']}}\n")
    found = json.loads(command_line("status", "--json").stdout)
    master = re.search(r"`master` \(([^)]*)\)", text)
    assert master is not None
    assert set(re.findall(r"`(\w+)`", master[1])) == set(found["master"])
    named = set(re.findall(r"`(\w+)`", text.replace(master[0], "`master`")))
    assert named - {"eta", "goodput"} <= set(found)
    assert {"eta", "goodput"} <= {field.name for field in fields(JobStatus)}


def test_the_conditions_of_a_status_are_those_of_the_page() -> None:
    paragraph = re.search(r"^A condition says (.*?)\n\n", CLI, re.DOTALL | re.MULTILINE)
    assert paragraph is not None
    named = set(re.findall(r"`(\w+)`", paragraph[1])) - {field.name for field in fields(Condition)}
    assert named == {WAITING, TOO_LARGE, UNSCHEDULABLE, SCALED_TO_ZERO, *WARNINGS}
