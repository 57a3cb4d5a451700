"""SIGTERM as a notice, for loops of other libraries: all processes of the group make a checkpoint after the same step, and leave.

The loop asks ``agreed()`` after each step. Whoever got the signal says so there to all (one small collective), so a checkpoint to
which every process contributes is possible, and nobody is left waiting in the next step. ``exit`` ends the program as one that
followed the notice: Pliant starts it again, on another node if need be, and counts no failure. A second signal ends the program
at once, as does one before ``install`` or after ``remove``.
"""

from __future__ import annotations

import signal
import threading
from typing import Any, NoReturn

from pliant.core.errors import NotAvailable

EXIT_CODE = 128 + signal.SIGTERM


class LeaveNotice:
    def __init__(self) -> None:
        self.given = False  # to this process
        self._before: Any = None
        self._installed = False

    def install(self) -> None:
        """Only in the main thread, which alone gets signals."""
        if not self._installed and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._on_signal)
            self._installed = True

    def remove(self) -> None:
        if self._installed:
            signal.signal(signal.SIGTERM, self._before)
            self._installed = False

    def agreed(self) -> bool:
        """Whether any process of the group is to leave. A collective: every process asks after each step."""
        distributed = _distributed()
        if distributed is None:
            return self.given
        import torch

        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        flag = torch.tensor([int(self.given)], dtype=torch.int32, device=device)
        distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
        return bool(flag.item())

    def exit(self) -> NoReturn:
        """After the checkpoint; waits until every process has got here."""
        if (distributed := _distributed()) is not None:
            distributed.barrier()
        raise SystemExit(EXIT_CODE)

    def _on_signal(self, _number: int, _frame: object) -> None:
        if self.given:
            raise SystemExit(EXIT_CODE)
        self.given = True


def missing(package: str, extra: str = "") -> NotAvailable:
    return NotAvailable(f"{package} is not installed", hint=f"pip install {extra or package}")


def _distributed() -> Any:
    """torch's, if this program has a group with others."""
    try:
        import torch.distributed as distributed
    except ImportError:
        return None
    is_used = distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
    return distributed if is_used else None
