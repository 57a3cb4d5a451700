"""Options that several commands share, as one parameter of each: a frozen dataclass whose fields are the options.

    @dataclass(frozen=True)
    class RunOptions:
        name: Annotated[str | None, typer.Option(help="The job's name.")] = None

    @grouped
    def train(epochs: int, run: RunOptions) -> None: ...

On the command line these are ``--epochs`` and ``--name``, in this order in the help. A field without a default must be given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer is to see it: with the fields of its dataclasses as options."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def flat(**given: Any) -> None:
        made = {name: kind(**{f.name: given.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        command(**made, **given)

    def parameters() -> Iterator[Parameter]:
        for name, parameter in signature(command).parameters.items():
            if name in groups:
                yield from _options(groups[name])
            else:
                yield parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name])

    flat_signature = Signature(list(parameters()))
    flat.__signature__ = flat_signature  # type: ignore[attr-defined]  # what inspect, and so typer, looks at
    flat.__annotations__ = {name: parameter.annotation for name, parameter in flat_signature.parameters.items()}
    return flat


def _options(group: Any) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name])


def _default(field: Field[Any]) -> Any:
    return Parameter.empty if field.default is MISSING else field.default
