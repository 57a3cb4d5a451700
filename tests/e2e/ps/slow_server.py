"""A parameter server that takes its time with every pull and push. Usage: ``slow_server.py SECONDS``."""

from __future__ import annotations

import sys
import time
from typing import Any

from pliant.ps.payloads import Push
from pliant.ps.recovery import restore as restoring
from pliant.ps.server.process import main
from pliant.ps.store.store import ParameterStore

SECONDS = float(sys.argv[1])


class Slow(ParameterStore):
    def pulling(self, *args: Any, **more: Any) -> Any:
        time.sleep(SECONDS)
        return super().pulling(*args, **more)

    def stage(self, push: Push) -> bool:
        time.sleep(SECONDS)
        return super().stage(push)


vars(restoring).update(ParameterStore=Slow)
main()
