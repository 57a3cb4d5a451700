"""Whatever others put into names and messages, the terminal gets no control sequence that is not rich's own."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from tests.cli.command_line import CommandLine
from tests.core.planning.records import EXPLANATION, SERVERS

import pliant.cli
from pliant.cli.render.console import EscapingConsole
from pliant.cli.render.explanation import explanation_view
from pliant.cli.render.final_report import print_final_report
from pliant.cli.render.job_list import job_list
from pliant.cli.render.output_lines import for_people
from pliant.cli.render.plans import plans_view
from pliant.cli.render.progress import progress_view
from pliant.cli.render.tables import job_view, usage_view
from pliant.cli.render.terminal import say
from pliant.core.job import Failure, Phase
from pliant.core.nodes.states import NodeState
from pliant.core.planning.plan_record import PlanRecord
from pliant.core.planning.planner_state import PlannerState
from pliant.core.planning.reports import JobExplanation, JobPlans
from pliant.core.shards.datasets import ShardType
from pliant.core.status import (
    DatasetStatus,
    JobStatus,
    NodeStatus,
    ParkedShard,
    PartitionStatus,
    PlannerStatus,
    PlanStatus,
    Progress,
)
from pliant.core.summary import JobSummary
from pliant.handles.job_handle import JobView

EVIL = "a[/b][red]\x1b]0;owned\x07\x1b[2J\x9b2J\u202e\ud800"
SHOWN = "a[/b][red]\\x1b]0;owned\\x07\\x1b[2J\\x9b2J\\u202e\\ud800"
OURS = re.compile(
    r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AK]"
)  # of rich: colours, the cursor, lines of a live view


class Handle:
    """As much of a job's handle as the views ask for."""

    where = EVIL
    logs_at = EVIL
    name = EVIL


def hostile_status() -> JobStatus:
    dataset = DatasetStatus(
        EVIL,
        ShardType.TRAIN,
        records_total=10,
        records_done=3,
        shards_total=2,
        partitions=(PartitionStatus(EVIL, end=3),),
        parked=(ParkedShard(EVIL, 0, 5, 0, 1, EVIL),),
    )
    node = NodeStatus(EVIL, "worker", NodeState.RUNNING, message=EVIL, replaces=EVIL, cpu=1.0)
    failure = Failure(node=EVIL, kind=EVIL, message=EVIL, log=EVIL, traceback=f"{EVIL}\n{EVIL}", hint=EVIL, time=0.0)
    return JobStatus(
        EVIL,
        Phase.FAILED,
        EVIL,
        nodes=(node,),
        datasets=(dataset,),
        first_failure=failure,
        progress=Progress(step=3, metrics={EVIL: 1.0}),
        planner=PlannerStatus(PlannerState.PAUSED, reason=EVIL),
        last_plan=PlanStatus(EVIL, EVIL, EVIL, EVIL, EVIL, EVIL),
    )


def hostile_plan() -> PlanRecord:
    proposal = replace(
        SERVERS.proposal, algorithm=EVIL, reason=EVIL, replace=(EVIL,), seats={EVIL: 1}, moves={EVIL: 1.0}
    )
    return replace(SERVERS, id=EVIL, proposal=proposal, judgement=EVIL)


@pytest.mark.parametrize("width", [30, 400])
def test_no_view_of_plans_passes_a_control_sequence_on(width: int) -> None:
    record, planner = hostile_plan(), PlannerStatus(PlannerState.PAUSED, reason=EVIL)
    shares = {EVIL: 1.0}
    explained = replace(
        EXPLANATION, parts=shares, terms=shares, bottleneck=EVIL, next_plan=record.proposal, not_yet=EVIL
    )
    for thing in (
        plans_view(JobPlans(EVIL, planner, (record,), EVIL), 0.0),
        explanation_view(JobExplanation(EVIL, planner, None, explained, (record,)), 0.0),
        explanation_view(JobExplanation(EVIL, planner, plans=(record,), note=EVIL), 0.0),
    ):
        out = StringIO()
        EscapingConsole(file=out, width=width, force_terminal=True).print(thing)
        assert_harmless(out.getvalue())
        assert "\\x1b" in out.getvalue()


def assert_harmless(text: str) -> None:
    rest = OURS.sub("", text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800]", rest), ascii(rest)


@pytest.mark.parametrize("terminal", [True, False])
def test_no_view_of_a_job_passes_a_control_sequence_on(terminal: bool) -> None:
    status = hostile_status()
    view = JobView(Handle(), status, True, "files", EVIL)  # type: ignore[arg-type]
    for thing in (job_view(view), usage_view(status), progress_view(status), job_list([view], 0.0, 200)):
        out = StringIO()
        EscapingConsole(file=out, width=400, force_terminal=terminal).print(thing)
        assert_harmless(out.getvalue())
        assert "\\x1b" in out.getvalue()
        assert "[/b]" in out.getvalue()


def test_the_final_report_does_not_either() -> None:
    out = StringIO()
    console = EscapingConsole(file=out, width=400, force_terminal=True, soft_wrap=True)
    print_final_report(console, Handle(), JobSummary(hostile_status()))  # type: ignore[arg-type]
    assert_harmless(out.getvalue())
    assert SHOWN in OURS.sub("", out.getvalue())


def test_a_line_of_a_program_keeps_its_colours_on_a_terminal_only() -> None:
    line = f"\x1b[31mred\x1b[0m {EVIL}"
    for terminal in (True, False):
        out = StringIO()
        console = EscapingConsole(
            file=out, width=400, force_terminal=terminal, color_system="truecolor" if terminal else None, soft_wrap=True
        )
        for_people(console)("worker-²", line)
        assert_harmless(out.getvalue())
        assert ("\x1b[31mred" in out.getvalue()) is terminal
        assert SHOWN in OURS.sub("", out.getvalue())
        assert OURS.sub("", out.getvalue()).startswith("worker-² | red")


def test_lines_are_escaped_and_what_the_encoding_lacks_is_shown_by_its_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(f"{EVIL}\nZürich")
    assert capsys.readouterr().out == f"{SHOWN}\nZürich\n"


def test_names_of_files_are_escaped_by_every_command(command_line: CommandLine, tmp_path: Path) -> None:
    from pliant.data import RecordIOWriter

    evil = "a\x1b]0;owned\x07[b].rio"
    with RecordIOWriter(tmp_path / evil) as writer:
        writer.write(b"\x1b[2J")
    damaged = tmp_path / f"damaged{evil}"
    damaged.write_bytes((tmp_path / evil).read_bytes()[:-1])
    for command in (
        ("data", "info", str(tmp_path / evil)),
        ("data", "cat", str(tmp_path / evil)),
        ("data", "verify", str(tmp_path / evil), str(damaged)),
        ("data", "cat", str(damaged)),
        ("data", "info", str(tmp_path / "none\x1b[2J")),
        ("status", "none\x1b[2J"),
        ("checkpoint", "ls", str(tmp_path / "none\x1b[2J")),
    ):
        shown = command_line(*command).output
        assert "\\x1b" in shown
        assert_harmless(shown)


def commands_and_their_helpers() -> list[Path]:
    root = Path(pliant.cli.__file__).parent
    return [path for path in root.rglob("*.py") if path.name not in ("console.py", "terminal.py")]


@pytest.mark.parametrize("path", commands_and_their_helpers(), ids=lambda path: path.stem)
def test_text_has_no_other_way_to_the_terminal(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        assert called not in ("Console", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write"), (
            node.lineno
        )
        if called == "print":
            assert ast.unparse(node.args[0]).startswith("json.dumps("), f"{path}:{node.lineno}: use say()"


def test_json_has_no_control_characters_by_itself() -> None:
    assert json.dumps(EVIL).isascii()
