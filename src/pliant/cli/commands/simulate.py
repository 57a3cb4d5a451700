"""Simulate a scenario: jobs whose truth is known, on virtual machines, planned by the real planner and by others.

SCENARIO is a YAML file, or the name of a scenario that comes with Pliant (--list). Every policy meets the same
events: the seed decides what happens. The oracle knows the truth; the others are what it is compared with.

    pliant simulate --list
    pliant simulate contention-knee
    pliant simulate my_scenario.yaml --seed 7 --report report.html
    pliant simulate stragglers --policy oracle --policy static-16 --json
    pliant simulate --record digits --trace digits.jsonl

--record follows a running job and writes a trace of it, for a scenario that replays it (`trace: {file: digits.jsonl}`).

Exit code: 0; 2 if the scenario or the job is not found or not valid.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.options.common import AsJson
from pliant.cli.render.terminal import say
from pliant.core.errors import Conflict, InvalidRequest
from pliant.handles.find import find_job_handle

SAMPLE_S = 5.0  # between two samples of a trace


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
    record: Annotated[
        str | None, typer.Option("--record", metavar="JOB", help="Record a trace of a running job until it ends.")
    ] = None,
    trace: Annotated[Path | None, typer.Option("--trace", metavar="FILE", help="Where --record writes.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the scenarios that come with Pliant.")] = False,
    as_json: AsJson = False,
) -> None:
    if list_all:
        _list(as_json)
        return
    if record is not None:
        _record(record, trace, as_json)
        return
    from pliant.sim.policies.registry import check_policy
    from pliant.sim.run import run_scenario
    from pliant.sim.scenario import load_scenario

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
            say(f"simulated {name} ({time.monotonic() - began:.1f} s)", to_stderr=True)

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
    from pliant.cli.render.simulations import measures_table, sharing_table
    from pliant.cli.render.tables import table_console

    console = table_console()
    console.print(f"{found.name}, seed {run.seed}: {found.about}")
    console.print(measures_table(run))
    if found.cluster.quota_cpu:
        console.print(sharing_table(run))
    if report is not None:
        console.print(f"report: {report}")


def _record(job: str, trace: Path | None, as_json: bool) -> None:
    """Until the job ends, or Ctrl-C; the trace is written once, at the end."""
    from pliant.sim.recording import TraceRecorder
    from pliant.sim.truth.trace import JobLine, NodeLine, write_trace

    if trace is None:
        raise InvalidRequest("--record needs --trace FILE")
    handle = find_job_handle(job, None, None)
    view = handle.view()
    if view.is_over:
        raise Conflict(f"job {handle.name} has ended ({view.phase})", hint="record a job while it runs")
    recorder, lines, last = TraceRecorder(view.status), list[JobLine | NodeLine](), view.status
    try:
        while not view.is_over:
            if view.master_alive and not view.note:
                last = view.status
                lines += recorder.add(last)
            time.sleep(SAMPLE_S)
            view = handle.view()
    except KeyboardInterrupt:
        say("recording stopped", to_stderr=True)
    samples = sum(isinstance(line, JobLine) for line in lines)
    if not samples:
        raise Conflict(
            f"job {handle.name} did not run long enough with all of its nodes: nothing was recorded",
            hint="record a job that reports records, for some minutes",
        )
    try:
        write_trace(trace, recorder.head(last), lines)
    except OSError as error:
        raise InvalidRequest(f"--trace {trace} cannot be written: {error.strerror}") from None
    if as_json:
        print(json.dumps({"trace": str(trace), "samples": samples}))
    else:
        say(f"wrote {trace} ({samples} samples)")


def _list(as_json: bool) -> None:
    from pliant.sim.scenario import load_scenario, shipped

    found = {name: load_scenario(name)[0].about for name in shipped()}
    if as_json:
        print(json.dumps([{"name": name, "about": about} for name, about in found.items()], indent=1))
        return
    width = max(map(len, found), default=0)
    for name, about in found.items():
        say(f"{name:<{width}}  {about}")
