"""The difference between two versions of a document, as a JSON merge patch (RFC 7396).

A value of null in a patch deletes the key; a document's own null and an absent key mean the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Empty: they are equal."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        old = before.get(key)
        if value is old or value == old:
            continue
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            patch[key] = merge_patch(old, value)
        else:
            patch[key] = value
    return patch


def apply_patch(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """What the front end does with a patch."""
    result = dict(document)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            old = result.get(key)
            result[key] = apply_patch(old if isinstance(old, Mapping) else {}, value)
        else:
            result[key] = value
    return result
