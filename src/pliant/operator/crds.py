"""The custom resource definitions, generated from the models: the API server accepts what a job's YAML file may contain.

``python -m pliant.operator.crds FOLDER`` (``make crds``) writes them; a test checks that the committed ones are current.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pliant.platforms.kubernetes.elastic_job_status import ElasticJobStatus
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, SCALE_PLANS, Kind
from pliant.platforms.kubernetes.names import MADE_BY_LABEL
from pliant.platforms.kubernetes.plans import ScalePlanSpec, ScalePlanStatus
from pliant.spec import structural_schema
from pliant.spec.schema import structural_schema_of

Schema = dict[str, Any]
WANTED = ".spec.roles.worker.replicas.wanted"  # what `kubectl scale` changes


def elastic_job() -> Schema:
    spec = copy.deepcopy(structural_schema())
    spec["description"] = "The job, as in its YAML file."
    spec["properties"]["name"]["description"] = "Ignored; the name is metadata.name."
    spec["properties"]["platform"]["properties"]["kind"]["default"] = "kubernetes"
    spec["properties"]["optimize"].pop("default")  # the operator may have a default mode for jobs that say nothing
    columns = [
        _column("Phase", "string", ".status.phase"),
        _column("Workers", "string", ".status.workers", "Running or succeeded, and desired"),
        _column("PS", "string", ".status.ps", "Parameter servers, ready and desired"),
        _column("Progress%", "number", ".status.progress.percent"),
        _column("ETA", "string", ".status.progress.eta"),
        _column("Goodput%", "number", ".status.goodput"),
        _column("Age", "date", ".metadata.creationTimestamp"),
        _column("Step", "integer", ".status.progress.step", wide=True),
        _column("Loss", "number", ".status.progress.loss", wide=True),
        _column("Message", "string", ".status.message", wide=True),
    ]
    scale = {
        "specReplicasPath": WANTED,
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    status = _without_defaults(structural_schema_of(ElasticJobStatus))
    spec = _without_defaults(spec, only_empty=True)
    return _definition(ELASTIC_JOBS, ["ej"], "An elastic training job.", spec, status, columns, {"scale": scale})


def scale_plan() -> Schema:
    made_by = MADE_BY_LABEL.replace(".", r"\.")
    columns = [
        _column("Job", "string", ".spec.job"),
        _column("Made-By", "string", f".metadata.labels.{made_by}"),
        _column("Phase", "string", ".status.phase"),
        _column("Created", "integer", ".status.created"),
        _column("Removed", "integer", ".status.removed"),
        _column("Age", "date", ".metadata.creationTimestamp"),
        _column("Reason", "string", ".spec.reason"),
        _column("Message", "string", ".status.message", wide=True),
    ]
    spec = _without_defaults(structural_schema_of(ScalePlanSpec), only_empty=True)
    status = _without_defaults(structural_schema_of(ScalePlanStatus))
    return _definition(SCALE_PLANS, ["sp"], "A change of the nodes of an ElasticJob.", spec, status, columns, {})


def _definition(
    kind: Kind,
    short: list[str],
    description: str,
    spec: Schema,
    status: Schema,
    columns: list[Schema],
    subresources: Schema,
) -> Schema:
    schema = {
        "type": "object",
        "description": description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, **subresources},
        "additionalPrinterColumns": columns,
    }
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "shortNames": short,
        "categories": ["pliant"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}", "labels": {"app.kubernetes.io/part-of": "pliant"}},
        "spec": {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _column(name: str, kind: str, path: str, description: str = "", *, wide: bool = False) -> Schema:
    column: Schema = {"name": name, "type": kind, "jsonPath": path}
    if description:
        column["description"] = description
    if wide:
        column["priority"] = 1  # only with -o wide
    return column


def _without_defaults(node: Any, *, only_empty: bool = False) -> Any:
    """A status holds what was reported: the API server must not add defaults. An empty string means the same as none."""
    if not isinstance(node, Mapping):
        return node
    kept = {key: value for key, value in node.items() if key != "default" or (only_empty and value != "")}
    if "properties" in kept:
        inside = kept["properties"].items()
        kept["properties"] = {name: _without_defaults(inner, only_empty=only_empty) for name, inner in inside}
    for key in ("items", "additionalProperties"):
        if key in kept:
            kept[key] = _without_defaults(kept[key], only_empty=only_empty)
    return kept


def rendered() -> dict[str, str]:
    """The files by name."""
    found = {"elasticjobs.yaml": elastic_job(), "scaleplans.yaml": scale_plan()}
    first = "# Made by `make crds` from the models in src/pliant; do not edit.\n"
    return {
        name: first + yaml.safe_dump(definition, sort_keys=False, width=110, allow_unicode=True)
        for name, definition in found.items()
    }


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in rendered().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
