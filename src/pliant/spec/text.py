"""YAML for specs, read and written without the surprises of YAML 1.1.

There ``2:8`` is the number 128 and ``on`` is true. Here plain values are read as YAML 1.2 does, keys given twice are
refused, and what is written is quoted so that readers of either version agree.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from pliant.core.errors import SpecError

LARGEST = 10_000_000  # values in one document
_PLAIN = (
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", "~nN\0"),
    ("tag:yaml.org,2002:int", r"[-+]?(?:0|[1-9][0-9]{0,99})", "-+0123456789"),
    ("tag:yaml.org,2002:float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("tag:yaml.org,2002:float", r"[-+]?[0-9]+[eE][-+]?[0-9]+", "-+0123456789"),
    ("tag:yaml.org,2002:float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    ("tag:yaml.org,2002:merge", r"<<", "<"),
)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - of the base class

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
            if name in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} is set twice", problem_mark=key.start_mark)
            if name and key.tag != "tag:yaml.org,2002:merge":
                seen.add(name)
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = {k: list(v) for k, v in yaml.SafeDumper.yaml_implicit_resolvers.items()}  # noqa: RUF012

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    """Line breaks of any kind and control characters only survive inside double quotes."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if value.isprintable() else '"')


_Dumper.add_representer(str, _represent)
for _tag, _form, _first in _PLAIN:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_tag, re.compile(rf"(?:{_form})\Z"), ["" if c == "\0" else c for c in _first])


def read(text: str, source: str) -> Any:
    """The plain value of a YAML document; ``source`` is named in errors."""
    try:
        value = yaml.load(text, Loader=_Loader)
        if _size(value, {}) > LARGEST:
            raise SpecError(f"{source} is not a job spec: it expands to more than {LARGEST} values")
        return value
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise SpecError(f"{source} is not valid YAML: {place}: {problem}") from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = f"line {before.count(chr(10)) + 1}, column {error.position - before.rfind(chr(10))}"
        raise SpecError(f"{source} is not valid YAML: {place}: {error.reason}") from None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise SpecError(f"{source} is not valid YAML: {error}") from None
    except RecursionError:
        raise SpecError(f"{source} is not a job spec: it is nested too deeply") from None


def _size(value: Any, known: dict[int, int]) -> int:
    """How many values a document stands for: an alias is short to write, and may stand for any number of them."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = LARGEST + 1  # while it is counted, so that a value inside itself is too large
        items = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(item, known) for item in items)
    return known[id(value)]


def write(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
