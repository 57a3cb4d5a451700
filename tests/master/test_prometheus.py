"""Metrics, alerts and the Grafana board, judged by a real Prometheus. ``make prometheus-testbed`` installs it; without it these
tests are skipped, but not with ``CI`` set."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, RunningMaster, wait_until
from pliant.testing.waiting import MAX_WAIT_S

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
BOARD = ROOT / "deploy/grafana/pliant-jobs.json"
JOB: dict[str, Any] = {
    "strategy": "ps-async",
    "roles": {
        "worker": {"command": ["true"], "replicas": "1:2", "resources": {"cpu": 2, "memory": "512Mi"}},
        "ps": {"command": ["true"], "replicas": 1},
    },
    "datasets": [{"name": "train", "size": 100, "shard_size": 10, "epochs": 2, "max_failures": 1}],
    "metrics_port": 0,
}
RARE = ("pliant_eta_seconds",)  # not known of so young a job

pytestmark = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")) and not os.environ.get("CI"),
    reason="Prometheus is not installed: make prometheus-testbed",
)


def promtool(*arguments: str, given: bytes = b"") -> None:
    done = subprocess.run(["promtool", *arguments], input=given, capture_output=True)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    assert not done.stderr, done.stderr.decode()


@contextmanager
def scraped_job(folder: Path) -> Iterator[str]:
    """A master with a job that has some of everything; yields ``host:port`` of its metrics."""
    with RunningMaster(folder, JOB) as master:
        wait_until(lambda: len(master.platform.running()) == 3)
        FakeAgent(master.client, "worker-0").starts().beats(cpu=1.25, memory_mb=64)
        client, stubs = master.client, master.client.stubs
        client.call(stubs.shards.OpenSession, pb.OpenSessionRequest(session="s", node="worker-0"))
        client.call(stubs.shards.Exchange, pb.ExchangeRequest(session="s", request=1, dataset="train", want=3))
        failed = [pb.LeaseFailure(lease=2, message="bad record")]
        client.call(stubs.shards.Exchange, pb.ExchangeRequest(session="s", request=2, done=[1], failed=failed))
        metrics = {"loss": 0.5, "accuracy": 0.9}
        client.call(
            stubs.stats.ReportStep, pb.ReportStepRequest(node="worker-0", step=12, total_steps=48, metrics=metrics)
        )
        client.call(stubs.checkpoints.Report, pb.CheckpointReport(node="worker-0", directory="/c", step=10))
        yield f"127.0.0.1:{json.loads(master.job_dir.master_file.read_text())['metrics_port']}"


def read(address: str, path: str, **query: str) -> bytes:
    url = f"http://{address}{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=MAX_WAIT_S) as reply:
        content: bytes = reply.read()
    return content


def query(prometheus: str, expression: str) -> list[dict[str, Any]]:
    found = json.loads(read(prometheus, "/api/v1/query", query=expression))
    assert found["status"] == "success", found
    result: list[dict[str, Any]] = found["data"]["result"]
    return result


def test_the_metrics_of_a_real_master_are_as_prometheus_wants_them(tmp_path: Path) -> None:
    with scraped_job(tmp_path) as address:
        promtool("check", "metrics", given=read(address, "/metrics"))


def test_each_alert_fires_on_what_it_is_for_and_on_nothing_else(tmp_path: Path) -> None:
    promtool("check", "rules", str(ALERTS))
    cases = (Path(__file__).parent / "alerts_test.yaml").read_text()
    tests = tmp_path / "tests.yaml"
    tests.write_text(cases.replace("ALERTS", str(ALERTS)))
    promtool("test", "rules", str(tests))
    names = [rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert all(f"alertname: {name}" in cases for name in names)


def test_every_query_of_the_board_and_every_alert_has_data_of_a_scraped_job(tmp_path: Path) -> None:
    board = json.loads(BOARD.read_text())
    expressions = [target["expr"].replace("$job", ".*") for panel in board["panels"] for target in panel["targets"]]
    with scraped_job(tmp_path) as address, prometheus_of(tmp_path, address) as server:
        wait_until(lambda: query(server, "pliant_job_phase"), what="the first scrape")
        assert query(server, "pliant_job_phase")[0]["metric"]["job"] == "tested", "the job's name, not the scraper's"
        wait_until(lambda: query(server, "count_over_time(pliant_restarts_total[1m]) > 1"), what="the second scrape")
        empty = [text for text in expressions if not text.startswith(RARE) and not query(server, text)]
        assert empty == []
        for text in expressions:
            query(server, text)
        parked = 'ALERTS{alertname="PliantShardsParked", alertstate="firing", dataset="train"}'
        wait_until(lambda: query(server, parked), what="the alert of the parked shard")


@contextmanager
def prometheus_of(folder: Path, target: str) -> Iterator[str]:
    """A Prometheus that scrapes this target each second; yields its ``host:port``."""
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "pliant", "honor_labels": True, "static_configs": [{"targets": [target]}]}],
    }
    config, log = folder / "prometheus.yaml", folder / "prometheus.log"
    config.write_text(yaml.safe_dump(settings))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address={address}"]
    with log.open("wb") as output, subprocess.Popen(["prometheus", *options], stdout=output, stderr=output) as server:
        try:
            wait_until(lambda: _answers(address), what="Prometheus")
            yield address
        finally:
            server.terminate()
            server.wait(MAX_WAIT_S)


def _answers(address: str) -> bool:
    try:
        return bool(read(address, "/-/ready"))
    except OSError:
        return False
