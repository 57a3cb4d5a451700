"""The model as a JSON schema, and in the narrower form that Kubernetes takes for a custom resource.

A structural schema has no references and one type for each value. Of several forms the long one is taken, which is
always the first and the one that ``JobSpec.to_json`` writes. A default for a section becomes defaults of its fields,
so that the API server fills a section that is given in part just as the model does.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from pliant.spec.quantities import INT_OR_STRING

Schema = dict[str, Any]
PRESERVE = "x-kubernetes-preserve-unknown-fields"
LIST_TYPE, LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
KEPT = (
    *("description", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum"),
    *("minItems", "maxItems", "minProperties", "maxProperties", "required", LIST_TYPE, LIST_KEYS),
)
NOTHING = object()


def json_schema_of(model: type[BaseModel]) -> Schema:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema(by_alias=True)}


def structural_schema_of(model: type[BaseModel]) -> Schema:
    schema = model.model_json_schema(by_alias=True)
    return _structural(schema, schema.get("$defs", {}), NOTHING)


def _structural(node: Schema, definitions: Schema, default: Any) -> Schema:
    """``default`` comes from the section around this one, and wins over the node's own."""
    node = _one_form(node, definitions)
    default = node.get("default", NOTHING) if default is NOTHING else default
    result = {key: node[key] for key in KEPT if key in node}
    if "exclusiveMinimum" in node:
        result |= {"minimum": node["exclusiveMinimum"], "exclusiveMinimum": True}
    if node.get(INT_OR_STRING) and "number" in node["type"]:
        result[PRESERVE] = (
            True  # there is no int-float-or-string; the pattern holds for strings, the operator sees to the rest
        )
    elif node.get(INT_OR_STRING):
        result[INT_OR_STRING] = True
    else:
        result["type"] = node["type"]
    if node.get("type") == "array":
        result["items"] = _structural(node["items"], definitions, NOTHING)
    if node.get("type") == "object":
        result |= _inside(node, definitions, default)
    if default is not NOTHING and default is not None:
        result["default"] = {} if "properties" in result else default
    return result


def _inside(node: Schema, definitions: Schema, default: Any) -> Schema:
    values = node.get("additionalProperties")
    if "properties" in node:
        given = default if isinstance(default, dict) else {}
        fields = node["properties"].items()
        return {"properties": {k: _structural(v, definitions, given.get(k, NOTHING)) for k, v in fields}}
    if isinstance(values, dict):
        return {"additionalProperties": _structural(values, definitions, NOTHING)}
    return {PRESERVE: True}


def _one_form(node: Schema, definitions: Schema) -> Schema:
    """The node with its reference followed and the first of its forms taken; what it says itself wins."""
    while True:
        if reference := node.get("$ref"):
            inner = definitions[reference.rpartition("/")[2]]
        elif forms := node.get("anyOf"):
            inner = next(form for form in forms if form.get("type") != "null")
        else:
            return node
        node = inner | {key: value for key, value in node.items() if key not in ("$ref", "anyOf")}
