"""Run the Kubernetes operator: it turns ElasticJobs into masters, and the masters' ScalePlans into Pods.

    pliant operator
    pliant operator --namespace team-a --namespace team-b

In a cluster it is deployed by the Helm chart (deploy/helm); elsewhere it uses the kubeconfig, as kubectl does. With several
replicas, one is the leader and the others stand by.

Exit code: 0 after SIGTERM or SIGINT, 1 if it cannot continue.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from pliant.core.errors import PliantError
from pliant.operator.__main__ import LEVELS, known_brain, peers, start_logging
from pliant.operator.app import Settings, run
from pliant.operator.watching import WATCH_SECONDS
from pliant.platforms.kubernetes.pod_policy import WIDENINGS, PodPolicy


def operator(
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-N", help="Watch this namespace; repeatable. [default: all]"),
    ] = None,
    lease_name: Annotated[str, typer.Option("--lease-name", help="The Lease for leader election.")] = "pliant-operator",
    lease_namespace: Annotated[
        str, typer.Option("--lease-namespace", help="The namespace of the Lease. [default: the operator's own]")
    ] = "",
    image: Annotated[
        str | None, typer.Option("--image", help="Image for jobs that do not set one. [default: $PLIANT_IMAGE]")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of /healthz, /readyz and /metrics.")
    ] = 8080,
    watch_seconds: Annotated[
        int,
        typer.Option(
            "--watch-seconds",
            min=1,
            help="Renew watches after this many seconds; must be below the idle timeout of any proxy in front of the API server.",
        ),
    ] = WATCH_SECONDS,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", help=f"Allow this in templates of jobs; repeatable. One of {', '.join(WIDENINGS)}."),
    ] = None,
    allow_volume: Annotated[
        list[str] | None,
        typer.Option("--allow-volume", help="Allow volumes of this type in templates, such as nfs; repeatable."),
    ] = None,
    allow_host_path: Annotated[
        list[str] | None,
        typer.Option("--allow-host-path", help="Allow templates to mount this folder of the machine; repeatable."),
    ] = None,
    metrics_from: Annotated[
        str,
        typer.Option("--metrics-from", help="Who may read the metrics of masters: JSON, as `from` of a NetworkPolicy."),
    ] = "[]",
    brain: Annotated[
        str | None,
        typer.Option(
            "--brain",
            metavar="HOST:PORT",
            envvar="PLIANT_BRAIN",
            help="Address of the Brain, for jobs with optimize.mode: cluster.",
        ),
    ] = None,
    brain_dir: Annotated[
        Path | None,
        typer.Option("--brain-dir", metavar="DIR", help="Folder with the cluster's token for the Brain, and ca.crt."),
    ] = None,
    brain_default_mode: Annotated[
        str | None,
        typer.Option(
            "--brain-default-mode", metavar="cluster", help="Set this mode for jobs that say nothing of optimize."
        ),
    ] = None,
    log_level: Annotated[str, typer.Option("--log-level", help=f"One of {', '.join(LEVELS)}.")] = "info",
) -> None:
    if log_level not in LEVELS:
        raise typer.BadParameter(f"{log_level!r}; known: {', '.join(LEVELS)}")
    try:
        policy = PodPolicy(frozenset(allow or ()), tuple(allow_volume or ()), tuple(allow_host_path or ()))
        readers = peers(metrics_from)
        known = known_brain(brain, brain_dir, brain_default_mode)
    except (PliantError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    start_logging(log_level)
    settings = Settings(
        namespaces=tuple(namespace or ()),
        lease_name=lease_name,
        lease_namespace=lease_namespace,
        port=port,
        watch_seconds=watch_seconds,
        policy=policy,
        metrics_from=readers,
        brain=known,
    )
    if image:
        settings = replace(settings, image=image)
    try:
        run(settings)
    except PliantError:
        raise typer.Exit(1) from None
