"""Simulate a scenario: jobs whose truth is known, on virtual machines, planned by the real planner and by others.

SCENARIO is a YAML file, or the name of a scenario that comes with Pliant (--list). Every policy meets the same
events: the seed decides what happens. The oracle knows the truth; the others are what it is compared with.

    pliant simulate --list
    pliant simulate contention-knee
    pliant simulate my_scenario.yaml --seed 7 --report report.html
    pliant simulate stragglers --policy oracle --policy static-16 --json

Exit code: 0; 2 if the scenario is not found or not valid.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.options.common import AsJson
from pliant.core.errors import InvalidRequest


def simulate(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="A YAML file, or a name from --list.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write an HTML report.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Decides what happens by chance. [default: the scenario's]")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", metavar="NAME", help="Only this policy; can be repeated. [default: the scenario's]"),
    ] = None,
    shorten: Annotated[
        float, typer.Option("--shorten", min=0.001, max=1.0, help="Simulate only this share of records and time.")
    ] = 1.0,
    list_all: Annotated[bool, typer.Option("--list", help="List the scenarios that come with Pliant.")] = False,
    as_json: AsJson = False,
) -> None:
    from pliant.sim.policies.registry import check_policy
    from pliant.sim.run import run_scenario
    from pliant.sim.scenario import load_scenario

    if list_all:
        _list(as_json)
        return
    if scenario is None:
        raise InvalidRequest("SCENARIO is missing", hint="pass a YAML file or a name from `pliant simulate --list`")
    for name in policy or ():
        check_policy(name)
    if report is not None and not report.absolute().parent.is_dir():
        raise InvalidRequest(f"--report {report}: the folder does not exist", hint="create it first")
    found, folder = load_scenario(scenario)
    began = time.monotonic()

    def finished(name: str, result: object) -> None:
        if not as_json and sys.stderr.isatty():
            print(f"simulated {name} ({time.monotonic() - began:.1f} s)", file=sys.stderr)

    run = run_scenario(found, folder, seed=seed, policies=policy or (), shortened=shorten, on_policy=finished)
    if report is not None:
        from pliant.sim.report.page import page

        try:
            report.write_text(page(run), encoding="utf-8")
        except OSError as error:
            raise InvalidRequest(f"--report {report} cannot be written: {error.strerror}") from None
    if as_json:
        print(json.dumps(run.to_json(), indent=1))
        return
    from pliant.cli.render.simulations import measures_table
    from pliant.cli.render.tables import table_console

    console = table_console()
    console.print(f"{found.name}, seed {run.seed}: {found.about}")
    console.print(measures_table(run))
    if report is not None:
        console.print(f"report: {report}")


def _list(as_json: bool) -> None:
    from pliant.sim.scenario import load_scenario, shipped

    found = {name: load_scenario(name)[0].about for name in shipped()}
    if as_json:
        print(json.dumps([{"name": name, "about": about} for name, about in found.items()], indent=1))
        return
    width = max(map(len, found), default=0)
    for name, about in found.items():
        print(f"{name:<{width}}  {about}")
