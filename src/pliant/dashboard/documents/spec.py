"""The spec of a job as text, without the secrets that users put into it: a page is seen by more people than a terminal.

Hidden are values by the name that they have (``HF_TOKEN``, ``--db-password``), passwords in addresses, and what looks like
the key of a well-known service whatever its name is. Where that goes too far, `cat job.yaml` shows the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pliant.spec.text import write

HIDDEN = "<hidden>"
MAX_SPEC_CHARS = 500_000

_WORDS = (
    r"token|secret|password|passwd|passphrase|pwd|api[-_]?key|apikey|access[-_]?key|private[-_]?key|auth|credentials?"
    r"|dsn|cookie"
)
_NAME = re.compile(
    rf"(?:^|[-_.\s]|\b)(?:{_WORDS})(?:$|[-_.\s\d]|s?\b)|(?:^|[-_])(?:key|pass)$"
    r"|(?:password|passwd|passphrase|secret|token|apikey)$|^sshpass$",  # PGPASSWORD, HFTOKEN
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OPTION = re.compile(r"^(-{0,2}[A-Za-z][\w.-]*)=(.+)$", re.DOTALL)
# These are searched for in texts of any length: each begins where a word begins, and no part of a word is looked at twice.
_ADDRESS = re.compile(r"(?<![a-z0-9+.-])([a-z0-9+.-]++://)([^/\s:@]*):([^/\s@]+)@", re.IGNORECASE)
_PARAMETER = re.compile(rf"([?&](?:[\w-]*(?:{_WORDS}|sig|signature))=)[^&\s]+", re.IGNORECASE)
_INLINE = re.compile(
    rf"((?<![\w-])--?(?=[\w-]*(?:{_WORDS}))[\w-]++[=\s]++|\b(?=[A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|KEY))[A-Z0-9_]++=)(\S+)"
)
_JSON = re.compile(rf"""(["'][\w.-]*(?:{_WORDS})["']\s*:\s*)("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_KNOWN_KEYS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|sk-[A-Za-z0-9_-]{16,}|AKIA[A-Z0-9]{12,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|glpat-[\w-]{16,}|eyJ[\w-]{10,2000}+\.[\w-]{10,}+\.[\w-]*|AIza[\w-]{30,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)


def spec_document(spec: Mapping[str, Any]) -> dict[str, Any]:
    hidden: list[str] = []
    text = write(_redacted(spec, "", hidden))
    return {"yaml": text[:MAX_SPEC_CHARS], "redacted": hidden[:200], "cut": len(text) > MAX_SPEC_CHARS}


def _redacted(value: Any, path: str, hidden: list[str]) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _of_key(str(key), item, f"{path}.{key}" if path else str(key), hidden) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return _of_list(value, path, hidden)
    return _text(value, path, hidden) if isinstance(value, str) else value


def _of_key(key: str, value: Any, path: str, hidden: list[str]) -> Any:
    if is_secret_name(key) and value not in (None, "", True, False) and not isinstance(value, Mapping | list | tuple):
        hidden.append(path)
        return HIDDEN
    return _redacted(value, path, hidden)


def _of_list(values: list[Any] | tuple[Any, ...], path: str, hidden: list[str]) -> list[Any]:
    """Of a command, an option's value may be the next word; of an environment, name and value are two keys."""
    found: list[Any] = []
    is_value = False
    for number, value in enumerate(values):
        where = f"{path}[{number}]"
        if is_value and isinstance(value, str) and not value.startswith("-"):
            hidden.append(where)
            found.append(HIDDEN)
            is_value = False
            continue
        if isinstance(value, Mapping) and is_secret_name(str(value.get("name", ""))) and "value" in value:
            hidden.append(f"{where}.value")
            value = {**value, "value": HIDDEN}
        found.append(_redacted(value, where, hidden))
        is_value = isinstance(value, str) and value.startswith("-") and "=" not in value and is_secret_name(value)
    return found


def _text(value: str, path: str, hidden: list[str]) -> str:
    option = _OPTION.match(value)
    if option is not None and is_secret_name(option[1]):
        hidden.append(path)
        return f"{option[1]}={HIDDEN}"
    cleaned = redact_text(value)
    if cleaned != value:
        hidden.append(path)
    return cleaned


def redact_text(value: str) -> str:
    """A text without passwords in addresses, options and well-known keys."""
    cleaned = _ADDRESS.sub(rf"\1\2:{HIDDEN}@", value)
    cleaned = _PARAMETER.sub(rf"\1{HIDDEN}", cleaned)
    cleaned = _JSON.sub(rf'\1"{HIDDEN}"', cleaned)
    cleaned = _BEARER.sub(rf"\1 {HIDDEN}", cleaned)
    cleaned = _INLINE.sub(rf"\1{HIDDEN}", cleaned)
    return _KNOWN_KEYS.sub(HIDDEN, cleaned)


def is_secret_name(name: str) -> bool:
    return bool(_NAME.search(_CAMEL.sub("_", name)))
