"""Check that this machine, or a cluster, can run jobs, and report what is missing.

    pliant doctor
    pliant doctor --json
    pliant doctor --platform kubernetes -N team-a
    pliant doctor --platform ray --ray-address 10.0.0.5:6379

Exit code: 0 if jobs can run (possibly with warnings); 1 if something that every job needs is broken.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Annotated

import typer

from pliant.cli.doctor import machine
from pliant.cli.doctor.check import Check
from pliant.cli.options.common import AsJson, Context, Namespace
from pliant.core.errors import NotFound


def doctor(
    as_json: AsJson = False,
    platform: Annotated[str, typer.Option(help="What to check: local, kubernetes or ray.")] = "local",
    namespace: Namespace = None,
    context: Context = None,
    ray_address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="On Ray: the cluster. [default: that of this machine]")
    ] = "auto",
    ray_dashboard: Annotated[
        str, typer.Option(metavar="URL", help="On Ray: the dashboard. [default: as the cluster says]")
    ] = "",
) -> None:
    if platform == "kubernetes":
        checks = _cluster(context, namespace or "")
    elif platform == "local":
        checks = machine.examine()
    elif platform == "ray":
        from pliant.cli.doctor.ray import examine

        checks = examine(ray_address, ray_dashboard)
    else:
        raise NotFound(f"cannot check platform {platform!r}", hint="local, kubernetes or ray")
    broken = any(check.state == "broken" for check in checks)
    if as_json:
        print(json.dumps({"healthy": not broken, "checks": [asdict(check) for check in checks]}, indent=1))
    else:
        _print(checks)
    raise typer.Exit(1 if broken else 0)


def _cluster(context: str | None, namespace: str) -> list[Check]:
    try:
        from pliant.cli.doctor.kubernetes import examine
    except ImportError as error:
        return [Check("packages", "broken", f"{error.name} is not installed", "pip install 'pliant[kubernetes]'")]
    return asyncio.run(examine(context, namespace))


def _print(checks: list[Check]) -> None:
    from rich.text import Text

    from pliant.cli.render.console import EscapingConsole

    console = EscapingConsole(soft_wrap=True)
    styles = {"ok": "green", "warning": "yellow", "broken": "bold red", "absent": "dim"}
    for check in checks:
        line = Text(f"{check.state:<8}", style=styles[check.state])
        line.append(f"{check.name:<24}{check.text}", style="default")
        console.print(line)
        if check.hint:
            console.print(Text(f"{'':<32}what to do: {check.hint}"))
