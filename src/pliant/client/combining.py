"""Whether this program trains a model that it shares with nobody: an optimizer of torch steps, and nothing combines gradients.

The program may or may not use torch, so nothing is imported here: what is loaded already is asked. An optimizer's step is the
evidence of training; a program that only reads, evaluates or predicts has none. The master decides whether it matters
(``core/combination.py``).
"""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

COMBINING = ("horovod", "mpi4py", "deepspeed", "torchft", "hivemind")  # libraries that exchange gradients their own way


class TrainingObserver:
    """One per program. ``combines`` is set by whatever exchanges gradients, or by the program itself."""

    def __init__(self) -> None:
        self.combines = False
        self._has_stepped = False
        self._is_reported = False
        self._hook: Any = None

    def watch(self) -> None:
        """Look out for the first step of an optimizer, as soon as torch is there; called for every shard."""
        if self._hook is not None or self._has_stepped or self.combines:
            return
        optimizers = sys.modules.get("torch.optim.optimizer")
        register = getattr(optimizers, "register_optimizer_step_post_hook", None)
        if register is not None:
            self._hook = register(self._stepped)

    def trains_alone(self) -> bool:
        """Whether to report this to the master now; it is reported once."""
        if self._is_reported or not self._has_stepped or self._is_combined():
            return False
        self._is_reported = True
        return True

    def close(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _stepped(self, *_: object) -> None:
        self._has_stepped = True
        self.close()

    def _is_combined(self) -> bool:
        if self.combines or multiprocessing.parent_process() is not None:
            return True  # the gradients of a child's parent are not known here
        if any(name in sys.modules for name in COMBINING):
            return True
        distributed = sys.modules.get("torch.distributed")
        is_initialized = getattr(distributed, "is_initialized", None)
        return is_initialized is not None and bool(is_initialized())
