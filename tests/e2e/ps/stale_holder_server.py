"""A parameter server that continues to serve after its fencing token became stale, until there is a file ``FOLDER/let-go``.

Usage: ``stale_holder_server.py FOLDER``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pliant.ps.server import process as node
from pliant.ps.server.server import PsServer

LET_GO = Path(sys.argv[1]) / "let-go"


class Stubborn(PsServer):
    def stop(self) -> None:
        while not LET_GO.exists():
            time.sleep(0.02)
        super().stop()


vars(node).update(PsServer=Stubborn)
node.main()
