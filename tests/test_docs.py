"""The documents against the code: links, paths, names, numbers and code in them are those of this version.

Neighbours, each for a page whose whole is checked: ``tests/spec/test_docs.py``, ``tests/cli/test_docs.py``,
``tests/client/test_docs.py`` and ``tests/operator/test_docs.py``. ``tests/e2e/test_docs.py`` runs the code of README and guide.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.api.submitted_job import SubmittedJob
from pliant.checkpoint import checksums, slots
from pliant.core import training
from pliant.core.events import EventKind
from pliant.core.nodes import stall_detector
from pliant.core.nodes.environment import NODE_VARIABLES
from pliant.core.parameters.options import PsOptions
from pliant.core.parameters.partition_map import DEFAULT_PARTITIONS, MAX_BLOCK_FLOATS, MAX_MOVED_PARTITIONS
from pliant.core.rendezvous import groups as core_groups
from pliant.data import pipeline
from pliant.data.readers import lines
from pliant.launch import manifest
from pliant.master.components import groups, stats
from pliant.master.components.parameters import dumps
from pliant.master.journal import notes
from pliant.platforms.kubernetes import names, usage
from pliant.platforms.kubernetes.plans import ScalePlanSpec
from pliant.ps.wire import shared_memory
from pliant.sim.scenario import Scenario
from pliant.spec import JobSpec, text

ROOT = Path(__file__).parents[1]
PATHS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("docs/*.md"))]
PAGES = {path: path.read_text(encoding="utf-8") for path in PATHS}
SOURCE = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src/pliant").rglob("*.py"))}
MB = 1 << 20
NAMED_BY_PAGES = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)


def page(name: str) -> str:
    """The text of a page, without line breaks."""
    return " ".join(PAGES[ROOT / "docs" / name].split())


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@NAMED_BY_PAGES
def test_every_link_leads_to_a_file_and_a_heading_of_it(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", PAGES[path]):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        found = path.parent / file if file else path
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


@NAMED_BY_PAGES
def test_every_file_that_is_named_exists(path: Path) -> None:
    rooted = re.findall(r"`?\b((?:examples|bench|tests|tools|deploy|docs|src)/[\w./-]*\w)", PAGES[path])
    assert [name for name in rooted if not list(ROOT.glob(f"{name}*")) and name != "tests/PACKAGE"] == []


def test_every_file_of_the_walks_exists() -> None:
    """Of the tables of the architecture page; a name without a folder is in the folder of the one before it."""
    folder = Path()
    walks = PAGES[ROOT / "docs/architecture.md"].partition("## Five walks")[2].partition("\n## ")[0]
    for name in re.findall(r"`([\w/]+\.py)`", walks):
        if (ROOT / "src/pliant" / name).exists():
            folder = (ROOT / "src/pliant" / name).parent
        else:
            near = [folder / name, folder.parent / name]
            assert any(file.exists() for file in near), f"{name}, after {folder}"


def test_every_state_machine_and_component_of_the_picture_exists() -> None:
    picture = PAGES[ROOT / "docs/architecture.md"].partition("```text")[2].partition("```")[0]
    named = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", picture))
    assert len(named) > 12
    defined = {name for source in SOURCE.values() for name in re.findall(r"^class (\w+)", source, re.MULTILINE)}
    assert named <= defined


def test_every_variable_of_the_environment_that_people_may_set_is_documented_and_no_other() -> None:
    written = {name for source in PAGES.values() for name in re.findall(r"\bPLIANT_[A-Z_]+[A-Z]\b", source)}
    read = {name for source in SOURCE.values() for name in re.findall(r"\bPLIANT_[A-Z_]+[A-Z]\b", source)}
    own = {
        "PLIANT_RUN_ID",
        "PLIANT_ALGORITHM_PROCESS",
        "PLIANT_POD",
        "PLIANT_POD_UID",
    }  # marks of processes, and what Kubernetes tells a master
    assert written - read == {"PLIANT_CHAOS_SEED", "PLIANT_EXAMPLES"}  # of the tests
    assert read - own - NODE_VARIABLES <= written


def test_the_environment_of_a_program_is_that_of_the_guide() -> None:
    section = PAGES[ROOT / "docs/guide.md"].partition("## The environment of a program")[2].partition("\n## ")[0]
    table = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert table
    assert table <= NODE_VARIABLES


def test_every_kind_of_event_and_metric_in_the_documents_exists() -> None:
    everything = "\n".join(SOURCE.values())
    for path, words in PAGES.items():
        kinds = set(re.findall(r"\bevents? `([a-z-]+)`", words))
        assert kinds <= {kind.value for kind in EventKind}, path
        for metric in re.findall(r"`(pliant_[a-z_]+)", words):
            assert metric.rstrip("_") in everything or f"{metric.rpartition('_')[0]}_{{" in everything, metric


@pytest.mark.parametrize("name", ["guide.md", "job-spec.md", "glossary.md", "checkpoints.md"])
def test_every_word_in_code_font_is_one_of_the_code(name: str) -> None:
    everything = set(re.findall(r"[A-Za-z_]\w*", "\n".join(SOURCE.values())))
    sentences = re.sub(r"^```.*?^```$", "", PAGES[ROOT / "docs" / name], flags=re.DOTALL | re.MULTILINE)
    words = {word for code in re.findall(r"`([^`\n]+)`", sentences) for word in re.findall(r"[A-Za-z_]\w*", code)}
    assert {word for word in words - everything if not word.isupper()} == set(), "capitals stand for something else"


# --- code


def blocks(kind: str) -> list[tuple[str, str]]:
    found = []
    for path, words in PAGES.items():
        for match in re.finditer(rf"^```{kind}\b[^\n]*\n(.*?)^```$", words, re.DOTALL | re.MULTILINE):
            found.append((f"{path.name}:{words[: match.start()].count(chr(10)) + 1}", match[1]))
    return found


@pytest.mark.parametrize(("where", "code"), blocks("yaml"), ids=lambda value: str(value).partition("\n")[0])
def test_every_yaml_of_the_documents_is_a_job_or_a_plan_or_a_scenario_or_a_part_of_a_job(where: str, code: str) -> None:
    value: dict[str, Any] = text.read(code, where)
    if "jobs" in value:
        assert Scenario.from_yaml(code, where).jobs
    elif value.get("kind") == "ScalePlan":
        assert ScalePlanSpec.model_validate(value["spec"]).job
    elif value.get("kind") == "ElasticJob":
        assert JobSpec.from_dict(value["spec"], source=where).roles
        assert value == yaml.safe_load(code), "kubectl reads it otherwise"
    else:
        assert JobSpec.from_dict({"roles": {"worker": {"command": ["x"]}}, **value}, source=where)


OBJECTS = {  # what a name stands for in the code of the documents
    **{
        "job": "pliant.client.job.Job",
        "shard": "pliant.client.shards.Shard",
        "trainer": "pliant.torch.trainer.Trainer",
    },
    **{"step": "pliant.torch.step.Step", "writer": "pliant.checkpoint.writer.CheckpointWriter"},
    **{"parameters": "pliant.ps.client.client.PsClient", "stream": "pliant.ps.client.model_stream.ModelStream"},
    **{"ahead": "pliant.ps.client.prefetch.RowPrefetcher", "model": "pliant.ps.client.model.Model"},
    **{"pushed": "pliant.ps.client.model.Contributed", "restored": "pliant.checkpoint.restore.Restored"},
}


def known(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def imported(tree: ast.Module) -> dict[str, Any]:
    """By the names that the code gives them; what is not ours is left out."""
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pliant"):
            found |= {
                a.asname or a.name: getattr(importlib.import_module(str(node.module)), a.name) for a in node.names
            }
        elif isinstance(node, ast.Import):
            for a in node.names:
                if a.name.startswith("pliant"):
                    module = importlib.import_module(a.name)
                    found[a.asname or "pliant"] = module if a.asname else importlib.import_module("pliant")
    return found


def calls(tree: ast.Module, there: dict[str, Any]) -> Iterator[tuple[ast.Call, Any]]:
    """Calls of what is ours, with what is called."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in there:
            yield node, there[node.func.id]
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            owner = there.get(node.func.value.id)
            if owner is not None and hasattr(owner, node.func.attr):
                yield node, getattr(owner, node.func.attr)


@pytest.mark.parametrize(
    ("where", "code"),
    [block for block in blocks("python") if not block[0].startswith("data.md")],
    ids=lambda value: str(value).partition("\n")[0],
)
def test_what_the_code_of_the_documents_imports_and_calls_exists(where: str, code: str) -> None:
    for package in ("torch", *re.findall(r"pliant\.integrations\.(\w+)", code)):
        pytest.importorskip(package)
    tree = ast.parse(code, where)
    ours = imported(tree)
    there = {name: known(path) for name, path in OBJECTS.items()} | ours
    if "with_model" in code or "nn.Module" in code or "model(" in code:
        there.pop("model")  # of torch
    if "pliant.submit(" in code:
        there["job"] = SubmittedJob
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in there:
            owner = there[node.value.id]
            exists = hasattr(owner, node.attr) or (
                inspect.isclass(owner) and re.search(rf"\b{node.attr}\b", inspect.getsource(owner))
            )
            assert exists, f"{where}: {node.value.id}.{node.attr}"
    for call, target in calls(tree, there):
        allowed = inspect.signature(target).parameters
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in allowed.values()):
            continue
        assert {word.arg for word in call.keywords if word.arg} <= set(allowed), f"{where}: {ast.unparse(call)}"


# --- numbers


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("checkpoints.md", f"CRC32 of each {checksums.CHUNK // MB} MiB"),
        ("checkpoints.md", {3600.0: "older than an hour"}[slots._ABANDONED_AFTER_S]),
        ("data.md", f"every {lines.EVERY}th line"),
        ("data.md", {0.5: "no shard comes for half a second"}[pipeline.FLUSH_AFTER]),
        ("kubernetes.md", f"Pods run as user {names.RUN_AS}"),
        ("kubernetes.md", f"A ConfigMap takes {manifest.MAX_BYTES // MB} MiB"),
        ("kubernetes.md", f"whose agent has been silent for {stats.AGENT_SILENT:.0f} s"),
        ("kubernetes.md", f"asks for the job's own Pods every {usage.POLL_INTERVAL_S:.0f} s"),
        ("kubernetes.md", {300.0: "asks again every five minutes"}[usage.RETRY_ABSENT_S]),
        ("native-training.md", f"up to {training.MAX_WAITING} wait"),
        ("native-training.md", f"a shard's may have {notes.MAX_NOTE_BYTES // MB} MB"),
        ("parameter-servers.md", {5.0: "after five seconds its agent kills it"}[stall_detector.MAX_STOPPED_S]),
        ("parameter-servers.md", {60.0: "after a minute in which it neither"}[stall_detector.MAX_SILENT_S]),
        ("parameter-servers.md", f"`partitions` ({DEFAULT_PARTITIONS})"),
        ("parameter-servers.md", {1 << 20: "blocks of at most a million floats"}[MAX_BLOCK_FLOATS]),
        ("parameter-servers.md", {16: "Sixteen partitions move at a time"}[MAX_MOVED_PARTITIONS]),
        ("parameter-servers.md", f"it orders a dump after {PsOptions().max_orders:,} at the latest"),
        ("parameter-servers.md", f"log is longer than {dumps.MAX_LOG_BYTES >> 30} GiB"),
        ("parameter-servers.md", f"arrays of {shared_memory.LEAST >> 10} KiB to {shared_memory.MOST // MB} MiB"),
        ("parameter-servers.md", f"at most {shared_memory.ALL // MB} MiB per server"),
        ("torchrun.md", {5.0: "is ended after five seconds"}[groups.MAX_STOPPED_S]),
        ("torchrun.md", {5.0: "are waited for, for five seconds"}[core_groups.MAX_WAIT_FOR_NODES_S]),
    ],
)
def test_a_number_of_the_documents_is_that_of_the_code(name: str, sentence: str) -> None:
    assert sentence in page(name)


def test_numbers_of_training_are_those_of_the_code() -> None:
    pytest.importorskip("torch")
    from pliant.native import training as native
    from pliant.torch import rendezvous_handler
    from pliant.torch.worlds.membership import MAX_UNITS

    assert f"at most {MAX_UNITS:,} micro-batches" in page("elastic-allreduce.md")
    assert f"`join_timeout` ({rendezvous_handler.JOIN_TIMEOUT_S:.0f})" in page("torchrun.md")
    assert native.MODEL_TIMEOUT_S == 60
    assert "is abandoned after a minute" in page("native-training.md")
