"""The number of parameter servers, and what each has, changed on the command line while training goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.ps.counting_job import BATCH, check_each_record_counted_once, ps_job
from typer.testing import CliRunner

from pliant.cli.app import app
from pliant.core.events import EventKind
from pliant.core.status import JobStatus
from pliant.testing.jobs import LocalJob

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

RECORDS = 1600


def pliant(job: LocalJob, command: str, *args: str) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, "--job-dir", str(job.home.path), *args])
    assert done.exit_code == 0, done.output
    return done.output


def servers(job: LocalJob) -> dict[str, dict[str, Any]]:
    """By node, as `pliant status --json` shows them."""
    return {seat["node"]: seat for seat in json.loads(pliant(job, "status", "--json"))["parameters"]["seats"]}


def shares(status: JobStatus) -> dict[str, int]:
    return {seat.node: seat.partitions for seat in status.seats}


def until_shares(job: LocalJob, *expected: int) -> None:
    def reached(status: JobStatus) -> bool:
        return sorted(shares(status).values(), reverse=True) == list(expected)

    job.wait_for(lambda status: reached(status) or None, f"{expected} partitions", 120)


def test_a_hot_server_is_seen_and_relieved_then_servers_come_and_go(tmp_path: Path) -> None:
    with ps_job(
        tmp_path, servers="1:3", records=RECORDS, pause=0.2, held=True, parameters={"dump_seconds": 3.0}, wanted=2
    ) as job:
        job.wait_for_progress(160)
        busy = job.wait_for(lambda s: all(seat.stats.rows for seat in s.seats) or None, "statistics")
        assert busy
        for seat in servers(job).values():
            assert seat["partitions"] == 128
            assert {"rows", "bytes", "bytes_in", "bytes_out", "requests", "cpu_seconds"} <= {
                name for name, value in seat["stats"].items() if float(value) > 0
            }
            assert int(seat["stats"].get("queue", 0)) >= 0
        for command in (["status"], ["top", "--once"]):
            shown = pliant(job, *command)
            assert all(word in shown for word in ("PARTITIONS", "ROWS", "QUEUE", "CPU S", "ps-0", "ps-1")), shown
        assert {seat["node"] for seat in json.loads(pliant(job, "top", "--json"))["parameters"]["seats"]} == {
            "ps-0",
            "ps-1",
        }

        told = pliant(job, "scale", "--move-off", "ps-1", "--share", "0.5", "--reason", "it is hot")
        assert "50% of the 128 partitions of ps-1 move" in told
        until_shares(job, 192, 64)
        assert servers(job)["ps-1"]["partitions"] == 64

        assert "ps 2 -> 3" in pliant(job, "scale", "ps=3")
        until_shares(job, 110, 110, 36)  # ps-1 keeps its smaller weight
        assert "ps 3 -> 1" in pliant(job, "scale", "ps=1")
        until_shares(job, 256)
        gone = "the nodes of the others to go"
        job.wait_for(lambda s: sum(n.role == "ps" and n.state == "Running" for n in s.nodes) == 1 or None, gone, 120)
        left = job.largest_dataset()
        assert left.records_done < left.records_total, "training was over before the servers had gone"
        (tmp_path / "hurry").touch()
        assert job.wait(250) == 0, job.report()
        check_each_record_counted_once(job, tmp_path, records=RECORDS, epochs=1, per_iteration=2 * BATCH)
        assert not [event for event in job.events(EventKind.PS_REPORT) if "lost" in event.message], job.report()


def test_servers_get_other_resources_one_by_one_after_their_partitions_moved(tmp_path: Path) -> None:
    with ps_job(tmp_path, servers="1:3", records=800, pause=0.2, held=True, wanted=2) as job:
        job.wait_for_progress(80)
        told = pliant(job, "scale", "ps", "--memory", "2Gi", "--rolling", "--reason", "more embeddings")
        assert "ps 2048 MB each; 2 running nodes to be replaced one by one" in told
        job.until(lambda: job.events(EventKind.ROLLED_OUT), "the end of the rollout", 120)
        limits = {"ps-2": 2048.0, "ps-3": 2048.0}
        job.wait_for(
            lambda s: {n.name: n.memory_limit_mb for n in s.live_nodes if n.role == "ps"} == limits,
            "the old ones to go",
        )
        assert set(servers(job)) == set(limits)
        assert [event.node for event in job.events(EventKind.PS_SEAT_TAKEN)][2:] == ["ps-2", "ps-3"]
        assert {event.facts["node"] for event in job.events(EventKind.PS_RETIRED)} == {"ps-0", "ps-1"}
        left = job.largest_dataset()
        assert left.records_done < left.records_total, "training was over before the servers were replaced"
        (tmp_path / "hurry").touch()
        assert job.wait(250) == 0, job.report()
        check_each_record_counted_once(job, tmp_path, records=800, epochs=1, per_iteration=2 * BATCH)
