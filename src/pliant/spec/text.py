"""YAML for specs, read and written without the surprises of YAML 1.1.

There ``2:8`` is the number 128 and ``on`` is true. Here plain values are read as YAML 1.2 does, keys given twice are
refused, and what is written is quoted so that readers of either version agree.

A short document can stand for any amount of work: aliases of aliases, merge keys (``<<``) that double a mapping again and again,
numbers to the base 60. So a document is composed first, which takes time and memory in proportion to its length; then what it
expands to is counted; only then values are made.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import yaml

from pliant.core.errors import SpecError

MAX_VALUES = 1_000_000  # in one document, with everything that aliases and merge keys stand for
MAX_BYTES = 8 << 20  # of one document
MAX_DIGITS = 100  # of a number
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

    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("null", "bool", "int", "float", "str", "seq", "map")
    }

    def get_single_node(self) -> yaml.Node | None:
        """The document, composed but not constructed, and found to be of a reasonable size."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _check(node, {})
        return node


def _check(node: yaml.Node, known: dict[int, int]) -> int:
    """Refuses keys that are set twice; returns how many values a node stands for, each alias and merged mapping in full."""
    if isinstance(node, yaml.ScalarNode):
        is_number = node.tag.endswith((":int", ":float"))
        if is_number and len(node.value) > MAX_DIGITS:
            raise yaml.MarkedYAMLError(problem="a number has too many digits", problem_mark=node.start_mark)
        return 1
    if id(node) not in known:
        known[id(node)] = MAX_VALUES  # while it is counted, so that a value inside itself is too large
        inner = [item for pair in node.value for item in pair] if isinstance(node, yaml.MappingNode) else node.value
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
        total = 1
        for item in inner:
            total += _check(item, known)
            if total > MAX_VALUES:
                problem = f"it expands to more than {MAX_VALUES} values"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=item.start_mark)
        known[id(node)] = total
    return known[id(node)]


def _check_keys(node: yaml.MappingNode) -> None:
    seen = set()
    for key, _ in node.value:
        name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
        if name in seen:
            raise yaml.MarkedYAMLError(problem=f"{key.value!r} is set twice", problem_mark=key.start_mark)
        if name and key.tag != "tag:yaml.org,2002:merge":
            seen.add(name)


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
    if len(text) > MAX_BYTES:
        raise SpecError(f"{source} is not a job spec: it has more than {MAX_BYTES:,} bytes")
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise SpecError(f"{source} is not valid YAML: {place}: {problem}") from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = f"line {before.count(chr(10)) + 1}, column {error.position - before.rfind(chr(10))}"
        raise SpecError(f"{source} is not valid YAML: {place}: {error.reason}") from None
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise SpecError(f"{source} is not valid YAML: {error}") from None
    except RecursionError:
        raise SpecError(f"{source} is not a job spec: it is nested too deeply") from None


def read_file(path: Path) -> str:
    """The text of a document. Raises ``SpecError`` if there is none, or far too much (``/dev/zero``)."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise SpecError(f"{path} is not a job spec: it has more than {MAX_BYTES:,} bytes")
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path} is not valid UTF-8: byte {error.start}") from None
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}", hint="pass the path of a job's YAML file") from None


def write(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
