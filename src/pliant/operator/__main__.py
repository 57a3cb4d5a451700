"""``python -m pliant.operator``: the same as ``pliant operator``, without the rest of the command line."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

from pliant.core.errors import InvalidRequest, PliantError
from pliant.operator.app import Settings, run
from pliant.operator.known_brain import KnownBrain
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.pod_policy import WIDENINGS, PodPolicy
from pliant.rpc.brain.access import BrainFolder

LEVELS = ("debug", "info", "warning", "error")


def start_logging(level: str) -> None:
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("httpx2", "httpcore2", "httpx", "httpcore", "asyncio", "kopf"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))


def peers(value: str) -> tuple[Object, ...]:
    """The ``from`` of a NetworkPolicy, as JSON."""
    found = json.loads(value)
    if not isinstance(found, list) or not all(isinstance(peer, dict) for peer in found):
        raise ValueError(f"not a list of peers: {value}")
    return tuple(found)


def known_brain(address: str | None, folder: Path | None, default_mode: str | None) -> KnownBrain | None:
    """As the options say. Raises ``InvalidRequest`` for options that contradict each other."""
    if default_mode not in (None, "cluster"):
        raise InvalidRequest(f"--brain-default-mode {default_mode}: only cluster can be set for all jobs")
    if not address:
        if default_mode:
            raise InvalidRequest("--brain-default-mode needs --brain")
        return None
    if folder is None:
        raise InvalidRequest("--brain needs --brain-dir", hint="a folder with the cluster's token and ca.crt")
    return KnownBrain(address, BrainFolder(folder), plans_by_default=default_mode is not None)


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
    parser.add_argument(
        "--allow", action="append", default=[], choices=sorted(WIDENINGS), help="Allow this in templates; repeatable."
    )
    parser.add_argument(
        "--allow-volume", action="append", default=[], help="Allow volumes of this type in templates; repeatable."
    )
    parser.add_argument(
        "--allow-host-path", action="append", default=[], help="Allow this host folder in templates; repeatable."
    )
    parser.add_argument(
        "--metrics-from", default="[]", help="Who may read metrics of masters: JSON, as in a NetworkPolicy."
    )
    parser.add_argument(
        "--brain",
        default=os.environ.get("PLIANT_BRAIN"),
        help="Address of the Brain that jobs with optimize.mode: cluster get, host:port. Default: $PLIANT_BRAIN.",
    )
    parser.add_argument("--brain-dir", type=Path, help="Folder with the cluster's token for the Brain, and ca.crt.")
    parser.add_argument(
        "--brain-default-mode", choices=["cluster"], help="Set this mode for jobs that say nothing of optimize."
    )
    parser.add_argument("--log-level", choices=LEVELS, default="info")
    return parser


def main() -> int:
    command = parser()
    options = command.parse_args()
    start_logging(options.log_level)
    settings = Settings(
        namespaces=tuple(options.namespace),
        lease_name=options.lease_name,
        lease_namespace=options.lease_namespace,
        image=options.image,
        port=options.port,
        watch_seconds=options.watch_seconds,
        policy=PodPolicy(frozenset(options.allow), tuple(options.allow_volume), tuple(options.allow_host_path)),
        metrics_from=peers(options.metrics_from),
    )
    try:
        brain = known_brain(options.brain, options.brain_dir, options.brain_default_mode)
    except InvalidRequest as error:
        command.error(str(error))
    try:
        run(replace(settings, brain=brain))
    except PliantError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
