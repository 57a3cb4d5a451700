"""Tell the Brain what a cluster looks like: its machines, and the nodes of jobs on them, every few seconds.

Without --brain it reports to the Brain of this machine. Elsewhere it needs a folder with the cluster's token and the authority of
the Brain's certificate (files `token` and `ca.crt`). In a cluster it is deployed by the Helm chart (deploy/helm).

    pliant brain monitor
    pliant brain monitor --platform kubernetes --brain brain.example:50051 --brain-dir /etc/pliant/brain
    pliant brain monitor --once --json

Exit code: 0 after SIGTERM, SIGINT or --once; 1 if --once finds no Brain; 2 if the Brain or the platform refuses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.options.common import AsJson
from pliant.monitors.base import DEFAULT_INTERVAL_S


def monitor(
    platform: Annotated[
        str, typer.Option("--platform", help="What is observed: local, kubernetes, ray, or another that is installed.")
    ] = "local",
    brain: Annotated[
        str | None,
        typer.Option(
            "--brain",
            metavar="ADDRESS",
            envvar="PLIANT_BRAIN",
            help="The Brain's address: host:port, or unix:PATH. [default: the Brain of this machine]",
        ),
    ] = None,
    brain_dir: Annotated[
        Path | None,
        typer.Option("--brain-dir", metavar="DIR", help="Folder with the cluster's token. [default: ~/.pliant/brain]"),
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, max=3600.0, help="Seconds between two observations.")
    ] = DEFAULT_INTERVAL_S,
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="NAME", help="The cluster's name. [default: the platform's]")
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="Send one observation and exit.")] = False,
    as_json: AsJson = False,
) -> None:
    from pliant.cli.launch.monitoring import run_monitor  # brings gRPC, and the client of the platform

    run_monitor(platform, brain, brain_dir, interval=interval, cluster=cluster, once=once, as_json=as_json)
