"""docs/operator.md says what the operator does: its Events, conditions, objects and limits, and the values of the chart."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.operator.builders import claimed

from pliant.core.job import FINAL_PHASES, Phase
from pliant.core.status import WAITING
from pliant.operator import executor, job_decisions, job_objects, lease, plan_decisions
from pliant.operator.edits import APPLIED_BY_MASTER
from pliant.operator.job_spec import spec_of
from pliant.operator.watching import WATCH_SECONDS
from pliant.rpc.brain.access import BrainAccess

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/operator.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())  # without line breaks
VALUES: dict[str, Any] = yaml.safe_load((ROOT / "deploy/helm/values.yaml").read_text())


def names_in(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def first_arguments(function: str) -> set[str]:
    """The first arguments of all calls of a function in the operator's source, where they are literals or constants."""
    found = set()
    for path in (ROOT / "src/pliant/operator").glob("[a-z]*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
                values = (constant(argument, path.stem) for argument in node.args[:1])
                found |= {value for value in values if value is not None}
    return found


def constant(node: ast.expr, module: str) -> str | None:
    """None: it is known only when the operator runs."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    found: Any = importlib.import_module(f"pliant.operator.{module}")
    for name in ast.unparse(node).split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, str) else None


def after(words: str, until: str = ". ") -> str:
    """What the page says after these words, to the end of the sentence."""
    assert words in TEXT, words
    return TEXT.partition(words)[2].partition(until)[0]


def test_the_events_are_those_of_the_page() -> None:
    ends = {phase.value for phase in FINAL_PHASES}  # an end is reported by the name of its phase
    assert names_in(after("Events on the ElasticJob: ")) == first_arguments("EmitEvent") | ends


def test_the_conditions_are_those_of_the_page() -> None:
    own = first_arguments("_condition") | {WAITING}
    assert names_in(re.sub(r"\(.*?\)", "", after("Conditions: "))) == own


def test_the_phases_are_those_of_the_page() -> None:
    named = names_in(re.sub(r"\(.*?\)", "", after("`status.phase` is ")))
    assert named == {phase.value for phase in Phase} - {Phase.INTERRUPTED}


def test_the_objects_of_a_job_are_those_of_the_page() -> None:
    owner = claimed()
    made = {
        (kind.kind, body["metadata"]["name"]) for kind, body in job_objects.supporting_objects(owner, spec_of(owner))
    }
    secret = job_objects.master_secret(owner, spec_of(owner), "10.0.0.7")
    of_brain = job_objects.brain_secret(owner, BrainAccess("brain:1", "c" * 64))
    for body in (secret, job_objects.node_secret(owner, secret), of_brain):
        made.add(("Secret", body["metadata"]["name"]))
    made |= {("Service", job_objects.service(owner)["metadata"]["name"]), ("Pod", "digits-master")}
    rows = re.findall(r"^\| ([A-Z][\w, ]+) `(digits-[\w-]+)` \|", PAGE, re.MULTILINE)
    assert {(kind, name) for kinds, name in rows for kind in kinds.split(", ")} == made


def test_the_values_of_the_chart_are_those_of_the_page_with_their_defaults() -> None:
    table = PAGE.partition("| value |")[2].partition("\n\n")[0]
    named = set()
    for first, default in re.findall(r"^\| (`.*?) \| (.*?) \|", table, re.MULTILINE):
        parent = ""
        for name in re.findall(r"`([^`]+)`", first):
            parent, path = (parent, parent + name) if name.startswith(".") else (name.partition(".")[0], name)
            value: Any = VALUES
            for key in path.split("."):
                assert key in value, path
                value = value[key]
            named.add(path.partition(".")[0])
        if first.count("`") == 2 and default and not isinstance(value, dict):
            assert yaml.safe_load(default.strip("`")) == value, first
    assert named == set(VALUES)


@pytest.mark.parametrize(
    "sentence",
    [
        f"At most {executor.MAX_CONCURRENT_WRITES} writes are in flight",
        f"The last {plan_decisions.MAX_FINISHED_PLANS} finished plans are kept",
        f"no job of that name exists after {plan_decisions.JOB_TIMEOUT_S:.0f} s",
        f"another takes over {lease.LEASE_DURATION_S:.0f} s after its last renewal",
        f"stops {lease.RENEW_DEADLINE_S:.0f} s after its last renewal, "
        f"{lease.LEASE_DURATION_S - lease.RENEW_DEADLINE_S:.0f} s before any other may take over",
        f"the master, for good (exit code {job_decisions.UNRECOVERABLE})",
        f"`watchSeconds` | `{WATCH_SECONDS}`",
        f"`spec.roles.*.{APPLIED_BY_MASTER[0]}`, `{APPLIED_BY_MASTER[1]}` and `suspend` are applied by the running master",
    ],
)
def test_limits_are_those_of_the_page(sentence: str) -> None:
    assert sentence in TEXT


def test_what_the_page_calls_a_minute_is_one() -> None:
    assert plan_decisions.RETRY_TIMEOUT_S == 60
    assert "is retried with back-off for a minute" in TEXT
    assert (job_decisions.MASTER_BACKOFF.first, job_decisions.MASTER_BACKOFF.max_delay) == (1, 60)
    assert "after a back-off of 1 s up to a minute" in TEXT


def test_there_are_no_finalizers() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/pliant/operator").glob("*.py"))
    assert "finalizer" not in sources
    assert not re.search(r"kopf\.on\.(delete|create|update|resume|field)", sources), "kopf adds a finalizer for these"
    assert "There are no finalizers" in TEXT
