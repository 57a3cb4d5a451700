"""Python runs this first in processes of tests that have this folder on their path.

The first optimizer of a process imports torch's compiler, which takes as long as torch itself (1.5 s of a core), although
nothing is compiled: no more of it is called than what is here. With a hundred such processes that is minutes of every run.
The examples, the models of the zoo and the programs written for torchrun run without this, as a user's do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class NoCompiler(ModuleType):
    """In the place of ``torch._dynamo`` and its back end."""

    config: ModuleType

    @staticmethod
    def graph_break() -> None:
        """There is no graph."""

    @staticmethod
    def disable(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        """Nothing compiles it anyway."""
        return function


inductor = NoCompiler("torch._inductor")
inductor.config = NoCompiler("torch._inductor.config")  # told by ``use_deterministic_algorithms``
for module in (NoCompiler("torch._dynamo"), inductor, inductor.config):
    sys.modules[module.__name__] = module
