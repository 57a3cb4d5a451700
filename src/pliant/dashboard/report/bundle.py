"""The front end's ES modules as one script, so that they can be part of a file: a browser loads no modules from ``file:``.

Each module becomes a function that returns its exports, in the order of their imports. Understood is what the front end keeps
to (its tests hold it to that): static imports of relative paths, and exports of declarations, of lists and of a default.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from pliant.core.errors import CorruptData

_IMPORT = re.compile(
    r"""(?P<before>^|(?<=[;}\n]))[ \t]*import\s*(?:(?P<names>[\w$*{},\s]+?)\s*\bfrom\s*|(?P<bare>))"""
    r"""(?P<quote>["'])(?P<path>\.{1,2}/[^"'\n]+)(?P=quote)[ \t]*;?""",
    re.MULTILINE,
)
_DECLARED = re.compile(
    r"(?P<before>^|(?<=[;}\n]))[ \t]*export\s+(?P<kind>async\s+function\s*\*?|function\s*\*?|class|const)\s*(?P<name>[\w$]+)",
    re.MULTILINE,
)
_LISTED = re.compile(r"(?P<before>^|(?<=[;}\n]))[ \t]*export\s*\{(?P<names>[^}]*)\}[ \t]*;?(?!\s*from)", re.MULTILINE)
_DEFAULT = re.compile(r"(?P<before>^|(?<=[;}\n]))[ \t]*export\s+default\s+", re.MULTILINE)
_LEFT = re.compile(r"(?:^|[;}\n])[ \t]*(?:import\s*[\w${*\"']|export\s*[\w${*])", re.MULTILINE)


def bundle(entry: str, read: Callable[[str], str]) -> str:
    """One script of the module ``entry`` and all that it imports; ``read`` returns the text of a module by its path."""
    done: dict[str, str] = {}
    _add(entry, read, done, ())
    parts = [f"$m[{_quoted(path)}] = (() => {{\n{text}\n}})();" for path, text in done.items()]
    return '"use strict";\nconst $m = Object.create(null);\n' + "\n".join(parts) + "\n"


def _add(path: str, read: Callable[[str], str], done: dict[str, str], above: tuple[str, ...]) -> None:
    if path in done:
        return
    if path in above:
        raise CorruptData(f"modules import each other: {' -> '.join((*above, path))}")
    text = read(path)
    imports: list[str] = []

    def taken(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), match["path"]))
        _add(target, read, done, (*above, path))
        if match["names"]:
            imports.append(_bindings(match["names"].strip(), f"$m[{_quoted(target)}]", path))
        return match["before"]

    body = _IMPORT.sub(taken, text)
    exports: dict[str, str] = {}

    def listed(match: re.Match[str]) -> str:
        for local, name in _pairs(match["names"]):
            exports[name] = local
        return match["before"]

    def declared(match: re.Match[str]) -> str:
        exports[match["name"]] = match["name"]
        return f"{match['before']}{match['kind']} {match['name']}"

    def default(match: re.Match[str]) -> str:
        exports["default"] = "$default"
        return f"{match['before']}const $default = "

    for form, replace in ((_LISTED, listed), (_DECLARED, declared), (_DEFAULT, default)):
        body = form.sub(replace, body)
    if left := _LEFT.search(_without_strings(body)):
        raise CorruptData(f"{path} has an import or export that cannot be bundled: {left[0].strip()[:60]!r}")
    returned = ", ".join(f"{_quoted(name)}: {local}" for name, local in exports.items())
    done[path] = "\n".join([*imports, body, f";return {{{returned}}};"])


def _bindings(names: str, module: str, path: str) -> str:
    """``a, {b, c as d}`` or ``* as a`` as constants."""
    found: list[str] = []
    default, _, rest = names.partition("{")
    star = re.fullmatch(r"\*\s*as\s+([\w$]+)", names)
    if star is not None:
        return f"const {star[1]} = {module};"
    if name := default.strip().rstrip(",").strip():
        if not re.fullmatch(r"[\w$]+", name):
            raise CorruptData(f"{path} imports in a form that cannot be bundled: {names[:60]!r}")
        found.append(f"default: {name}")
    found += [f"{there}: {here}" for there, here in _pairs(rest.rstrip("} \n\t"))]
    return f"const {{{', '.join(found)}}} = {module};"


def _pairs(names: str) -> list[tuple[str, str]]:
    """``a as b, c`` as (a, b), (c, c)."""
    found = []
    for entry in names.split(","):
        words = entry.split()
        if words:
            found.append((words[0], words[-1]))
    return found


def _without_strings(text: str) -> str:
    """Without comments and texts, in which the words may stand; roughly, for a check."""
    return re.sub(
        r"/\*.*?\*/|//[^\n]*|`(?:\\.|[^`\\])*`|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", "''", text, flags=re.S
    )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
