"""What gRPC itself logs in a process that serves: errors only.

gRPC writes a line to standard error for every handshake that fails, so whoever can reach the port could fill the log of a
master. It reads the setting when it is imported.
"""

from __future__ import annotations

import os
import sys

VERBOSITY = "GRPC_VERBOSITY"


def import_grpc_quietly() -> None:
    """Before anything else imports it. The environment stays as it is: programs of users inherit it."""
    if VERBOSITY in os.environ or "grpc" in sys.modules:
        return
    os.environ[VERBOSITY] = "ERROR"
    try:
        import grpc  # noqa: F401  # for its effect
    finally:
        del os.environ[VERBOSITY]
