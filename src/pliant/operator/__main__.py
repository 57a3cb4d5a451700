"""``python -m pliant.operator``: the same as ``pliant operator``, without the rest of the command line."""

from __future__ import annotations

import argparse
import logging
import sys

from pliant.core.errors import PliantError
from pliant.operator.app import Settings, run

LEVELS = ("debug", "info", "warning", "error")


def start_logging(level: str) -> None:
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("httpx2", "httpcore2", "httpx", "httpcore", "asyncio", "kopf"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))


def parser() -> argparse.ArgumentParser:
    defaults = Settings()
    parser = argparse.ArgumentParser(prog="python -m pliant.operator", description="Pliant's Kubernetes operator.")
    parser.add_argument("--namespace", "-N", action="append", default=[], help="Watch this namespace; repeatable.")
    parser.add_argument("--lease-name", default=defaults.lease_name)
    parser.add_argument("--lease-namespace", default="", help="Default: the operator's own.")
    parser.add_argument(
        "--image", default=defaults.image, help="Image for jobs that do not set one. Default: $PLIANT_IMAGE."
    )
    parser.add_argument("--port", type=int, default=defaults.port, help="Port of /healthz, /readyz and /metrics.")
    parser.add_argument(
        "--watch-seconds", type=int, default=defaults.watch_seconds, help="Seconds before a watch is renewed."
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info")
    return parser


def main() -> int:
    options = parser().parse_args()
    start_logging(options.log_level)
    settings = Settings(
        namespaces=tuple(options.namespace),
        lease_name=options.lease_name,
        lease_namespace=options.lease_namespace,
        image=options.image,
        port=options.port,
        watch_seconds=options.watch_seconds,
    )
    try:
        run(settings)
    except PliantError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
