"""The definitions that the API server gets are current, structural, and mean what the models mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.operator.crds import elastic_job, rendered, scale_plan
from pliant.platforms.kubernetes.elastic_job_status import ElasticJobStatus
from pliant.platforms.kubernetes.plans import ScalePlanSpec
from pliant.spec import JobSpec

FOLDER = Path(__file__).parents[2] / "deploy/helm/crds"
NOT_STRUCTURAL = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "const", "nullable", "x-kubernetes-validations"}
WITHOUT_TYPE = {"x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"}  # need none


def schema_of(definition: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    inner = list(schema.get("properties", {}).values())
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            inner.append(schema[key])
    for node in inner:
        yield from nodes(node)


@pytest.mark.parametrize("name", sorted(rendered()))
def test_the_committed_files_are_current(name: str) -> None:
    assert (FOLDER / name).read_text() == rendered()[name], "run `make crds` and commit what it writes"


def test_no_other_files_lie_beside_them() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(rendered())


@pytest.mark.parametrize("definition", [elastic_job(), scale_plan()], ids=["ElasticJob", "ScalePlan"])
def test_the_schema_is_structural(definition: dict[str, Any]) -> None:
    for node in nodes(schema_of(definition)):
        assert not NOT_STRUCTURAL & node.keys(), node
        assert isinstance(node.get("type"), str) or WITHOUT_TYPE & node.keys(), node


def test_each_field_of_the_spec_and_the_status_is_there() -> None:
    properties = schema_of(elastic_job())["properties"]
    assert set(properties["spec"]["properties"]) == {info.alias or name for name, info in JobSpec.model_fields.items()}
    assert set(properties["status"]["properties"]) == set(ElasticJobStatus.model_fields)
    assert set(schema_of(scale_plan())["properties"]["spec"]["properties"]) == set(ScalePlanSpec.model_fields)


def test_defaults_are_filled_in_a_spec_and_never_in_a_status() -> None:
    properties = schema_of(elastic_job())["properties"]
    assert properties["spec"]["properties"]["fault"]["properties"]["grace"]["default"] == 10.0
    assert properties["spec"]["properties"]["platform"]["properties"]["kind"]["default"] == "kubernetes"
    for definition in (elastic_job(), scale_plan()):
        assert not [node for node in nodes(schema_of(definition)["properties"]["status"]) if "default" in node]


def test_a_job_that_says_nothing_of_optimize_is_told_from_one_that_says_manual() -> None:
    optimize = schema_of(elastic_job())["properties"]["spec"]["properties"]["optimize"]
    assert "default" not in optimize
    assert optimize["properties"]["mode"]["default"] == "manual"


def test_kubectl_scale_and_the_columns_have_their_paths() -> None:
    version = elastic_job()["spec"]["versions"][0]
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.roles.worker.replicas.wanted"
    columns = [column["name"] for column in version["additionalPrinterColumns"]]
    assert columns[:7] == ["Phase", "Workers", "PS", "Progress%", "ETA", "Goodput%", "Age"]
    status = set(ElasticJobStatus.model_fields)
    for column in version["additionalPrinterColumns"]:
        path = column["jsonPath"].split(".")[1:]
        assert path[0] == "metadata" or path[1] in status


def test_what_is_written_is_yaml_that_any_reader_reads_the_same() -> None:
    assert yaml.safe_load(rendered()["elasticjobs.yaml"]) == elastic_job()
