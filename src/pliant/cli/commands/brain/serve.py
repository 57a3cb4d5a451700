"""Run the Brain in the foreground: one service that plans for every job of a cluster.

On one machine nothing else is needed: jobs of this user find it, and its database is a file.

    pliant brain serve
    pliant run --auto --brain local -- python train.py

For a cluster, with TLS and a real database:

    pliant brain serve --listen 0.0.0.0:50051 --advertise brain.example:50051 --database postgresql://pliant@db/pliant

Several may run with one database: one is the active one, another takes over within seconds. In Kubernetes it is deployed by the
Helm chart (deploy/helm, brain.enabled=true).

Exit code: 0 after SIGTERM or SIGINT, 1 if it cannot continue, 2 for a usage error.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pliant.cli.commands.brain.options import DatabaseUrl, Dir


def serve(
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Listen on TCP, with TLS. [default: a Unix socket]")
    ] = "",
    advertise: Annotated[
        str, typer.Option("--advertise", metavar="HOST:PORT", help="Where jobs reach it. [default: --listen]")
    ] = "",
    database: DatabaseUrl = None,
    directory: Dir = None,
    health_port: Annotated[
        int | None,
        typer.Option("--health-port", min=0, max=65535, help="Port of /healthz, /readyz and /metrics. [default: none]"),
    ] = None,
    health_host: Annotated[str, typer.Option("--health-host", help="Address of the health port.")] = "127.0.0.1",
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="Processes that run algorithms.")] = 1,
    algorithm_timeout: Annotated[
        float, typer.Option("--algorithm-timeout", min=0.1, max=3600, help="Seconds that an algorithm may take.")
    ] = 10.0,
    algorithm_memory: Annotated[
        int, typer.Option("--algorithm-memory", min=64, metavar="MB", help="Memory that an algorithm may take.")
    ] = 1024,
    raw_days: Annotated[float, typer.Option("--raw-days", min=0.01, help="Days for which samples are kept raw.")] = 1.0,
    job_days: Annotated[float, typer.Option("--job-days", min=0.01, help="Days for which ended jobs are kept.")] = 30.0,
    auto_migrate: Annotated[
        bool, typer.Option("--migrate/--no-migrate", help="Bring an older schema up to date at the start.")
    ] = True,
    monitor: Annotated[
        bool, typer.Option("--monitor/--no-monitor", help="Observe this machine, too. [default: on a Unix socket]")
    ] = True,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
) -> None:
    from pliant.cli.launch.brain import ServeOptions, serve_brain  # brings SQLAlchemy and gRPC

    serve_brain(
        ServeOptions(
            listen=listen,
            advertise=advertise,
            database=database,
            directory=directory,
            health_port=health_port,
            health_host=health_host,
            workers=workers,
            algorithm_timeout_s=algorithm_timeout,
            algorithm_memory_mb=algorithm_memory,
            raw_days=raw_days,
            job_days=job_days,
            migrates=auto_migrate,
            monitors=monitor and not listen,
            log_level=log_level,
        )
    )
