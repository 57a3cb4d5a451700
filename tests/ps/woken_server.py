"""A parameter server that goes on serving when it hears that its seat is another's: ``woken_server.py FOLDER``. It stops when
there is a file ``FOLDER/let-go``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pliant.ps import node
from pliant.ps.server import PsServer

LET_GO = Path(sys.argv[1]) / "let-go"


class Stubborn(PsServer):
    def stop(self) -> None:
        while not LET_GO.exists():
            time.sleep(0.02)
        super().stop()


vars(node).update(PsServer=Stubborn)
node.main()
