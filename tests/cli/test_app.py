from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.cli.command_line import CommandLine

from pliant.cli import app as app_module
from pliant.cli.app import COMMANDS
from pliant.cli.render.output_lines import for_people
from pliant.core.job import Phase
from pliant.core.nodes.states import NodeState
from pliant.core.status import JobStatus, NodeStatus
from pliant.handles.cluster import Cluster
from pliant.handles.find import find_job_handle
from pliant.handles.job_handle import JobHandle, JobView
from pliant.handles.local import LocalJob
from pliant.handles.program_output import OutputTail
from pliant.platforms.gpus import Gpu

OURS = [name for name in COMMANDS if name != "data"]


def make_job(command_line: CommandLine, name: str, summary: dict[str, Any] | None = None) -> Path:
    folder = command_line.job(name)
    (folder / "logs").mkdir(parents=True)
    (folder / "job.yaml").write_text(f"name: {name}\nroles: {{worker: {{command: ['true']}}}}\n")
    if summary is not None:
        (folder / "summary.json").write_text(json.dumps({"name": name, "datasets": [], "nodes": [], **summary}))
    return folder


def test_the_help_lists_every_command(command_line: CommandLine) -> None:
    shown = command_line("--help")
    assert shown.exit_code == 0
    assert all(f"  {name} " in shown.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", OURS)
def test_each_command_has_help_with_an_example_and_its_exit_codes(command_line: CommandLine, name: str) -> None:
    shown = command_line(name, "--help")
    assert shown.exit_code == 0
    assert f"\n      pliant {name}" in shown.stdout
    assert "Exit code" in shown.stdout


SILENT = {("operator",), ("brain", "serve"), ("dashboard",)}  # they write a log, or serve


def commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name in COMMANDS:
        inner = getattr(app_module._load(name), "commands", {})
        found += [(name, sub) for sub in inner] or [(name,)]
    return found


@pytest.mark.parametrize("command", [command for command in commands() if command not in SILENT], ids=" ".join)
def test_every_command_that_prints_data_prints_it_as_json(command_line: CommandLine, command: tuple[str, ...]) -> None:
    assert "--json" in command_line(*command, "--help").stdout


def test_logs_and_what_was_pruned_are_json_for_programs(command_line: CommandLine) -> None:
    folder = make_job(command_line, "digits", {"phase": "Succeeded", "reason": "done"})
    (folder / "logs" / "worker-0.log").write_text('a "quoted" line\nlast')
    lines = [json.loads(line) for line in command_line("logs", "--json").stdout.splitlines()]
    assert lines == [{"node": "worker-0", "line": 'a "quoted" line'}, {"node": "worker-0", "line": "last"}]
    assert json.loads(command_line("jobs", "--prune", "--json").stdout) == {"removed": ["digits"]}
    assert json.loads(command_line("jobs", "--prune", "--json").stdout) == {"removed": []}


def test_a_job_is_called_by_its_name_wherever_its_folder_is(command_line: CommandLine, tmp_path: Path) -> None:
    folder = make_job(command_line, "digits", {"phase": "Succeeded", "reason": "done"}).rename(tmp_path / "elsewhere")
    assert command_line("stop", "--job-dir", str(folder)).stdout == "digits: Succeeded: done\n"
    over = command_line("top", "--job-dir", str(folder)).stderr
    assert "job digits has ended" in over
    assert f"pliant status {folder}`" in over, "by its name it would not be found"


def test_an_unknown_command_gets_a_suggestion(command_line: CommandLine) -> None:
    result = command_line("statsu")
    assert result.exit_code == 2
    assert "did you mean status?" in result.stderr


@pytest.mark.parametrize("command", ["status", "logs", "events", "top", "audit"])
def test_without_any_job_a_command_says_how_to_start_one(command_line: CommandLine, command: str) -> None:
    result = command_line(command)
    assert result.exit_code == 2
    assert "pliant run" in result.stderr


def test_a_name_with_a_typo_gets_a_suggestion(command_line: CommandLine) -> None:
    make_job(command_line, "digits", {"phase": "Succeeded", "reason": "done"})
    result = command_line("status", "digitz")
    assert result.exit_code == 2
    assert "did you mean digits?" in result.stderr


@pytest.mark.parametrize("args", [["stop"], ["scale", "--workers", "2"]])
def test_what_changes_a_job_wants_its_name(command_line: CommandLine, args: list[str]) -> None:
    make_job(command_line, "digits")
    result = command_line(*args)
    assert result.exit_code == 2
    assert "no job given" in result.stderr


@pytest.mark.parametrize(
    "args", [[], ["--workers", "2", "--replicas", "2"], ["--role", "ps", "--workers", "2"], ["ps=2", "ps=3"]]
)
def test_scale_wants_one_number(command_line: CommandLine, args: list[str]) -> None:
    make_job(command_line, "digits")
    result = command_line("scale", "digits", *args)
    assert result.exit_code == 2
    assert "either" in result.stderr


def test_an_ended_job_is_not_scaled_and_stopping_it_again_is_no_mistake(command_line: CommandLine) -> None:
    make_job(command_line, "digits", {"phase": "Failed", "reason": "no workers left"})
    scaled = command_line("scale", "digits", "--workers", "2")
    assert scaled.exit_code == 2
    assert "it has ended" in scaled.stderr
    stopped = command_line("stop", "digits")
    assert stopped.exit_code == 0
    assert "Failed: no workers left" in stopped.stdout


def test_a_job_without_master_and_journal_is_shown_as_interrupted(command_line: CommandLine) -> None:
    make_job(command_line, "digits")
    shown = json.loads(command_line("status", "--json").stdout)
    assert shown["phase"] == "Interrupted"
    assert shown["master"] == {"address": "", "pid": 0, "alive": False}
    assert "no longer running" in shown["note"]
    assert command_line("stop", "digits").exit_code == 0


def test_pruning_removes_ended_jobs_and_no_others(command_line: CommandLine) -> None:
    make_job(command_line, "old", {"phase": "Succeeded", "reason": "done"})
    make_job(command_line, "broken-off")
    assert command_line("jobs", "--prune", "--yes").stdout == "removed old\n"
    assert [row["name"] for row in json.loads(command_line("jobs", "--json").stdout)] == ["broken-off"]
    assert "no finished jobs" in command_line("jobs", "--prune", "--yes").stdout


def test_the_schema_is_one_of_jobs(command_line: CommandLine) -> None:
    plain, structural = (json.loads(command_line("schema", *args).stdout) for args in ([], ["--structural"]))
    assert "$schema" in plain
    assert "roles" in plain["properties"]
    assert "$defs" not in structural


def test_the_doctor_finds_a_sane_machine_healthy(command_line: CommandLine) -> None:
    make_job(command_line, "broken-off")
    result = command_line("doctor", "--json")
    report = json.loads(result.stdout)
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert result.exit_code == 0
    assert report["healthy"]
    assert states["python"] == states["grpcio"] == states["loopback"] == states["home"] == "ok"
    assert states["interrupted jobs"] == "warning"


def test_the_doctor_shows_the_gpus_and_what_hides_them(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check() -> dict[str, str]:
        found = json.loads(command_line("doctor", "--json").stdout)["checks"]
        return next(check for check in found if check["name"] == "gpus")

    monkeypatch.setattr("pliant.platforms.gpus.find_gpus", lambda: ())
    assert check()["state"] == "absent"
    monkeypatch.setattr("pliant.platforms.gpus.find_gpus", lambda: (Gpu("0"), Gpu("1")))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert (check()["state"], check()["text"]) == ("ok", "2 of 2 usable: 0, 1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert check()["text"] == "1 of 2 usable: 1 (CUDA_VISIBLE_DEVICES is '1')"


def test_the_doctor_fails_if_the_home_cannot_be_written(command_line: CommandLine) -> None:
    command_line.home.write_text("a file where a folder should be")
    result = command_line("doctor")
    assert result.exit_code == 1
    assert "PLIANT_HOME" in result.stdout


def test_a_command_whose_extra_is_missing_says_which_to_install(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_numpy(name: str) -> Any:
        if name == "pliant.cli.commands.data":
            raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
        return import_module(name)

    monkeypatch.setattr(app_module, "import_module", without_numpy)
    result = command_line("data", "info", "x")
    assert result.exit_code == 2
    assert "pip install 'pliant[data]'" in result.stderr


@pytest.mark.parametrize(
    ("content", "lines", "shown"),
    [
        ("a\nb\nc\n", 2, ["b", "c"]),
        ("a\nb\nc", 2, ["b", "c"]),
        ("a\nb\n", 0, []),
        ("a\nb\n", 9, ["a", "b"]),
        ("", 3, []),
        ("\n\n\n", 2, ["", ""]),
        ("x" * 200_000 + "\nlast\n", 1, ["last"]),
        ("first\n" + "x" * 200_000 + "\n", 1, ["x" * 200_000]),
    ],
)
def test_the_tail_begins_with_the_last_lines(tmp_path: Path, content: str, lines: int, shown: list[str]) -> None:
    (tmp_path / "worker-0.log").write_text(content)
    console = Console(soft_wrap=True, record=True, quiet=False, file=(tmp_path / "out").open("w"))
    tail = OutputTail(tmp_path, for_people(console))
    tail.skip_to_last(lines)
    tail.show_new()
    tail.finish()
    console.file.close()
    assert (tmp_path / "out").read_text() == "".join(f"worker-0 | {line}\n" for line in shown)


def test_logs_of_the_master_are_asked_for_apart(command_line: CommandLine) -> None:
    folder = make_job(command_line, "digits", {"phase": "Succeeded", "reason": "done"})
    (folder / "logs" / "worker-0.log").write_text("from the worker\n")
    (folder / "logs" / "master.log").write_text("from the master\n")
    assert command_line("logs").stdout == "worker-0 | from the worker\n"
    assert command_line("logs", "--master").stdout == "master | from the master\n"
    unknown = command_line("logs", "--node", "worker-7")
    assert unknown.exit_code == 2
    assert "did you mean worker-0?" in unknown.stderr


def test_the_newest_job_is_meant_where_none_is_named_and_jobs_are_listed_oldest_first(
    command_line: CommandLine,
) -> None:
    for age, name in ((30, "b"), (10, "c"), (20, "a")):
        folder = make_job(command_line, name, {"phase": "Succeeded", "reason": "done"})
        os.utime(folder / "job.yaml", (1e9 - age, 1e9 - age))
    assert [row["name"] for row in json.loads(command_line("jobs", "--json").stdout)] == ["b", "a", "c"]
    assert json.loads(command_line("status", "--json").stdout)["name"] == "c"


@pytest.mark.parametrize("named", ["by its folder", "by --job-dir"])
def test_a_job_may_be_named_by_its_folder_wherever_that_is(
    command_line: CommandLine, tmp_path: Path, named: str
) -> None:
    folder = make_job(command_line, "digits", {"phase": "Succeeded", "reason": "done"}).rename(tmp_path / "elsewhere")
    args = [str(folder)] if named == "by its folder" else ["--job-dir", str(folder)]
    assert json.loads(command_line("status", *args, "--json").stdout)["name"] == "digits"
    assert command_line("status", "digits").exit_code == 2


def test_a_namespace_means_a_cluster_and_an_empty_one_this_machine(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job(command_line, "digits", {"phase": "Succeeded", "reason": "done"})
    asked: list[Cluster | None] = []

    def find(name: str | None, job_dir: Path | None, cluster: Cluster | None) -> JobHandle:
        asked.append(cluster)
        return find_job_handle(name, job_dir)

    monkeypatch.setattr("pliant.cli.commands.status.find_job_handle", find)
    for args in ([], ["-N", "team-a"], ["-N", "team-a", "--kube-context", "other"]):
        assert command_line("status", *args, "--json").exit_code == 0
    monkeypatch.setenv("PLIANT_NAMESPACE", "team-b")
    monkeypatch.setenv("PLIANT_KUBE_CONTEXT", "third")
    for args in ([], ["-N", "team-a"], ["-N", ""], ["--job-dir", str(command_line.job("digits"))]):
        assert command_line("status", *args, "--json").exit_code == 0
    here: list[Cluster | None] = [None]
    assert asked == [
        *here,
        Cluster("team-a", None),
        Cluster("team-a", "other"),
        Cluster("team-b", "third"),
        Cluster("team-a", "third"),
        *here,
        *here,
    ]


def test_a_job_that_does_not_end_in_time_is_told_by_the_exit_code_of_stop(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job(command_line, "digits")
    asked: list[bool] = []
    monkeypatch.setattr(LocalJob, "_ask_to_stop", lambda _self, now, _reason: asked.append(now))
    monkeypatch.setattr("pliant.handles.local.sweep_if_alone", lambda _home, _now: None)
    result = command_line("stop", "digits", "--timeout", "0")
    assert result.exit_code == 1
    assert "is still running" in result.stderr
    assert "`pliant stop --now`" in result.stderr
    assert command_line("stop", "digits", "--timeout", "0", "--now").exit_code == 1
    assert asked == [False, True]


def test_the_doctor_checks_what_the_page_says(command_line: CommandLine) -> None:
    page = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
    told = page.partition("Checks that this machine can run jobs: ")[2].partition(".\n")[0]
    checks = {check["name"] for check in json.loads(command_line("doctor", "--json").stdout)["checks"]}
    for word in (word.strip(" `").lower() for word in told.replace("\n", " ").split(",")):
        known = {"packages": "grpcio", "extras": "extra torch"}.get(word, word)
        assert known in checks


def test_with_watch_there_is_one_line_of_json_per_look_until_the_job_is_over(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_job(command_line, "digits")
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            ended = {"name": "digits", "phase": "Stopped", "reason": "enough", "datasets": [], "nodes": []}
            (folder / "summary.json").write_text(json.dumps(ended))

    monkeypatch.setattr("pliant.cli.commands.status.time.sleep", sleep)
    shown = [json.loads(line) for line in command_line("status", "digits", "--watch", "--json").stdout.splitlines()]
    assert [view["phase"] for view in shown] == ["Interrupted", "Interrupted", "Stopped"]


def test_top_as_json_has_the_busiest_node_first(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    make_job(command_line, "digits")
    nodes = tuple(NodeStatus(f"worker-{n}", "worker", NodeState.RUNNING, cpu=cpu) for n, cpu in enumerate((0.5, 1.5)))
    status = JobStatus("digits", Phase.RUNNING, nodes=nodes)
    monkeypatch.setattr(LocalJob, "view", lambda self: JobView(self, status, master_alive=True))
    shown = json.loads(command_line("top", "--json").stdout)
    assert [node["name"] for node in shown["nodes"]] == ["worker-1", "worker-0"]


def test_messages_of_parameter_servers_are_shown_when_they_are_asked_for(command_line: CommandLine) -> None:
    folder = make_job(command_line, "clicks", {"phase": "Succeeded", "reason": "done"})
    for node in ("worker-0", "ps-0"):
        (folder / "logs" / f"{node}.log").write_text(f"from {node}\n")
    both = "ps-0 | from ps-0\nworker-0 | from worker-0\n"
    assert command_line("logs", "clicks").stdout == both, "programs of the user's own, whatever their role is called"
    roles = "roles: {worker: {command: ['true']}, ps: {command: [python, -m, pliant.ps]}}"
    (folder / "job.yaml").write_text(f"name: clicks\nstrategy: ps-async\n{roles}\n")
    assert command_line("logs", "clicks").stdout == "worker-0 | from worker-0\n"
    assert command_line("logs", "clicks", "--all").stdout == both
    assert command_line("logs", "clicks", "--node", "ps-0").stdout == "ps-0 | from ps-0\n"
