"""The door for torchrun: ``torchrun --rdzv-backend=pliant`` finds this module by its entry point.

torch loads it in every program that imports its elastic package, so it imports nothing until a handler is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def creator() -> Callable[[Any], Any]:
    """What torch registers under the name ``pliant``: a function from its parameters to a handler."""
    return create


def create(parameters: Any) -> Any:
    from pliant.torch.rendezvous_handler import create_handler

    return create_handler(parameters)
