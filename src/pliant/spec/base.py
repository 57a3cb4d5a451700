"""What all parts of a spec share: how a section is filled, how a problem is reported, and the scalars.

Two rules hold for every section. A null is the same as nothing given. And a section given in part is the default with
these changes: ``error: {limit: 5}`` keeps the back-off that errors have by default. The structural schema has the same
meaning, so that a job means the same in a file and in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

Path = tuple[str | int, ...]
NOT_ALLOWED = "not_allowed"


@dataclass(frozen=True, slots=True)
class Problem:
    """One invalid value and where it is: ``path`` starts at the section that found it."""

    path: Path
    value: object
    allowed: str


class Contradiction(ValueError):
    """Fields that are right by themselves and wrong together; carries every problem found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, p.path))}: {p.value!r}: {p.allowed}" for p in problems))
        self.problems = problems


def refuse(allowed: str) -> PydanticCustomError:
    """The error for a value of a wrong form; ``allowed`` says what would be valid."""
    return PydanticCustomError(NOT_ALLOWED, "allowed: {allowed}", {"allowed": allowed})


@dataclass(frozen=True, slots=True)
class ShortForms:
    """In the JSON schema, other ways to write a value. The long form stays first, and is what Kubernetes takes."""

    schemas: tuple[JsonSchemaValue, ...]

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(core), *self.schemas]}


class Model(BaseModel):
    """A section of the spec."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=False, validate_by_alias=True)

    @classmethod
    def long_form(cls, value: Any) -> Any:
        """The mapping that a short form stands for; anything else as it is."""
        return value

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, value: Any) -> Any:
        value = cls.long_form(value)
        if not isinstance(value, Mapping):
            return value
        given = {key: item for key, item in value.items() if item is not None}
        for key, default in section_defaults(cls).items():
            if isinstance(given.get(key), Mapping):
                given[key] = _changed(default, given[key])
        return given

    def entries(self) -> dict[str, Any]:
        """The fields by the names they have in a file, sections as they are."""
        return {info.alias or name: getattr(self, name) for name, info in type(self).model_fields.items()}

    def to_json(self) -> dict[str, Any]:
        """Everything, defaults included, in the long forms; what is not set is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def differences(self, base: Model | None = None) -> dict[str, Any]:
        """As ``to_json``, without what is as in ``base`` (None: as by default)."""
        plain = self.to_json()
        differing: dict[str, Any] = {}
        for name, info in type(self).model_fields.items():
            key, value = info.alias or name, getattr(self, name)
            default = getattr(base, name) if base else info.get_default(call_default_factory=True)
            if value is None or (value == default and not info.is_required()):
                continue
            if isinstance(value, Model):
                differing[key] = value.differences(default if isinstance(default, Model) else None)
            elif isinstance(value, dict):
                differing[key] = {k: _plain(v, plain[key][k]) for k, v in value.items()}
            elif isinstance(value, tuple):
                differing[key] = [_plain(v, as_json) for v, as_json in zip(value, plain[key], strict=True)]
            else:
                differing[key] = plain[key]
        return differing


def section_defaults(section: type[Model]) -> dict[str, Model]:
    fields = section.model_fields.items()
    return {info.alias or name: info.default for name, info in fields if isinstance(info.default, Model)}


def _plain(item: object, as_json: Any) -> Any:
    return item.differences() if isinstance(item, Model) else as_json


def _changed(default: Model, changes: Mapping[Any, Any]) -> dict[Any, Any]:
    entries: dict[Any, Any] = default.entries()
    for key, change in changes.items():
        if change is not None:
            section = entries.get(key)
            if isinstance(section, Model) and isinstance(change, Mapping):
                change = _changed(section, change)
            entries[key] = change
    return entries


def _to_text(value: object) -> object:
    """YAML reads ``3`` and ``true`` as a number and a boolean where a text was meant."""
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, int | float):
        value = str(value)
    if isinstance(value, str) and "\0" in value:
        raise refuse("a string without the NUL character")
    return value


Count = Annotated[int, Field(strict=True, ge=0, le=1 << 62)]
Positive = Annotated[int, Field(strict=True, ge=1, le=1 << 62)]
Limit = Annotated[int, Field(strict=True, ge=-1, le=1 << 31)]
Seconds = Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)]
Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, BeforeValidator(_to_text), ShortForms(({"type": "number"}, {"type": "boolean"}))]
