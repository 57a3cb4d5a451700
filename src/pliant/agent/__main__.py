"""``python -m pliant.agent -- program arguments…``, with what it needs to know in the environment."""

from __future__ import annotations

import asyncio
import logging
import sys

from pliant.agent.app import run_agent
from pliant.core.errors import PliantError


def main() -> int:
    arguments = sys.argv[1:]
    command = arguments[1:] if arguments[:1] == ["--"] else arguments
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        return asyncio.run(run_agent(command))
    except PliantError as error:
        logging.getLogger("pliant.agent").error("%s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
