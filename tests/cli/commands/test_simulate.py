"""`pliant simulate`: tables, JSON, reports and errors."""

from __future__ import annotations

import json

from tests.cli.command_line import CommandLine


def test_the_scenarios_are_listed(command_line: CommandLine) -> None:
    lines = command_line("simulate", "--list").stdout.splitlines()
    assert any(line.startswith("contention-knee ") for line in lines)
    found = json.loads(command_line("simulate", "--list", "--json").stdout)
    assert len(found) == len(lines)
    assert all(entry["about"] for entry in found)


def test_a_scenario_is_simulated_and_reported(command_line: CommandLine) -> None:
    report = command_line.folder / "report.html"
    args = ("short-job", "--policy", "oracle", "--policy", "static-4", "--seed", "3", "--report", str(report))
    result = command_line("simulate", *args)
    assert result.exit_code == 0
    assert "seed 3" in result.stdout
    assert "static-4" in result.stdout
    assert report.read_text().startswith("<!doctype html>")
    found = json.loads(command_line("simulate", *args, "--json").stdout)
    assert found["seed"] == 3
    assert found["policies"]["oracle"]["regret_mean"] == 0.0
    assert found["policies"]["static-4"]["regret_mean"] > 0.5
    assert [job["job"] for job in found["outcomes"]["oracle"]] == ["quick"]


def test_mistakes_are_usage_errors_that_say_what_to_do(command_line: CommandLine) -> None:
    bad = command_line.folder / "bad.yaml"
    bad.write_text("name: x\njobs: [{quue: {}}]\n")
    for args, message in (
        ((), "pliant simulate --list"),
        (("no-such",), "neither a file nor one of"),
        ((str(bad),), "did you mean queue?"),
        (("--record", "digits"), "--record needs --trace FILE"),
        (("--record", "no-such", "--trace", str(command_line.folder / "t.jsonl")), "no-such"),
        (("short-job", "--policy", "magic"), "unknown policy 'magic'"),
        (("short-job", "--report", str(command_line.folder / "none" / "r.html")), "the folder does not exist"),
    ):
        result = command_line("simulate", *args)
        assert result.exit_code == 2, args
        assert message in result.stderr, args
