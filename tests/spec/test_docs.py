"""docs/job-spec.md and the schema say the same of each field: that it exists, its kind, and its default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.core.errors import SpecError
from pliant.core.nodes.fault_policy import FaultPolicy
from pliant.spec import JobSpec, structural_schema
from pliant.spec.faults import KINDS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "job-spec.md").read_text(encoding="utf-8")
PREFIXES = {  # of the fields in the tables below a heading; where there is none, the table has whole paths
    "`roles.<name>`": "roles.<name>.",
    "`datasets[]`": "datasets[].",
    "`fault`": "fault.",
    "`platform`": "platform.",
    "`components`": "components.",
}
KINDS_OF_VALUES = {
    **{"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"},
    **{"array": "list", "object": "mapping"},
}
Field = tuple[str, str]  # its kind and its default, as the page writes them


def tables(page: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Each with the heading it is below, as rows of cells; the first row is the head."""
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading = section.partition("\n")[0]
        for table in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE):
            rows = [re.split(r"(?<!\\)\|", line.strip())[1:-1] for line in table.splitlines()]
            yield heading, [[cell.strip() for cell in row] for row in (rows[0], *rows[2:])]


def documented() -> dict[str, Field]:
    found: dict[str, Field] = {}
    for heading, (head, *rows) in tables(PAGE):
        if head == ["field", "is", "default", "meaning"]:
            for name, kind, default, _ in rows:
                found[PREFIXES.get(heading, "") + name.strip("`")] = (kind.replace("\\|", "|"), default.strip("`"))
    return found


def in_schema(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, Field]]:
    for name, inner in node.get("properties", {}).items():
        yield path + name, (_kind(inner), _default(inner, required=name in node.get("required", ())))
        yield from in_schema(inner, f"{path}{name}.")
        yield from in_schema(inner.get("items", {}), f"{path}{name}[].")
        if isinstance(values := inner.get("additionalProperties"), dict):
            yield from in_schema(values, f"{path}{name}.<name>.")


def _kind(node: dict[str, Any]) -> str:
    if "enum" in node:
        return " | ".join(f"`{value}`" for value in node["enum"])
    if "properties" in node:
        return "section"
    return KINDS_OF_VALUES[node["type"]] if "type" in node else "amount"


def _default(node: dict[str, Any], *, required: bool) -> str:
    default = node.get("default", "")
    if required or "properties" in node:
        return "must be given" if required else ""
    if default in ({}, []):
        return "none"
    return str(default).lower() if isinstance(default, bool) else _number(default)


def _number(value: object) -> str:
    return str(value).removesuffix(".0")


def test_the_page_has_each_field_of_the_schema_with_its_kind_and_its_default_and_no_other() -> None:
    fields = dict(in_schema(structural_schema()))
    by_kind_of_failure = [path for path in fields if re.match(rf"fault\.({'|'.join(KINDS)})\b", path)]
    assert documented() == {path: field for path, field in fields.items() if path not in by_kind_of_failure}


def test_the_page_has_the_budget_of_each_kind_of_failure() -> None:
    head, *rows = next(rows for heading, rows in tables(PAGE) if heading == "`fault`" and rows[0][0] == "kind")
    told = {row[0].strip("`"): dict(zip(head[2:], row[2:], strict=True)) for row in rows}
    fields = dict(in_schema(structural_schema()))
    columns = [column.strip("`") for column in head[2:]]
    assert told == {kind: {f"`{column}`": fields[f"fault.{kind}.{column}"][1] for column in columns} for kind in KINDS}


def test_the_guide_forgives_what_the_default_policy_forgives() -> None:
    guide = (DOCS / "guide.md").read_text(encoding="utf-8")
    _, *rows = next(rows for heading, rows in tables(guide) if heading == "Failures")
    assert [row[0].strip("`") for row in rows] == list(KINDS)
    for kind, _, text in rows:
        budget = FaultPolicy().budgets[KINDS[kind.strip("`")]]
        assert ("always" if budget.limit < 0 else f"{budget.limit} times") in text
        assert ("in place" if budget.in_place else "replaced") in text


def test_mistakes_are_told_as_the_page_shows() -> None:
    (block,) = re.findall(r"^```text\n(job\.yaml: .*?)```$", PAGE, re.DOTALL | re.MULTILINE)
    wrong = "strategy: allredcue\nroles: {worker: {comand: x, replicas: {min: 5, max: 2}}}\n"
    with pytest.raises(SpecError) as refused:
        JobSpec.from_yaml(wrong, source="job.yaml")
    told, *lines = refused.value.message.splitlines()
    assert told == block.splitlines()[0]
    assert sorted(lines) == sorted(block.splitlines()[1:])
