"""What ``make quickstart`` runs: real training with four workers, one of them killed half-way.

It runs ``01_digits_shards.py`` as a job on this machine, shows it live, sends SIGKILL to one worker's program when half of
the records are done, and at the end says what came of it. The same by hand:

    pliant run -n 4 --audit --name quickstart -- python examples/01_digits_shards.py
    kill -9 $(pliant status quickstart --json | …)        # in another terminal
    pliant audit quickstart
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pliant.cli.launch.job_spec import make_spec
from pliant.cli.launch.local import launch, prepare
from pliant.cli.options.run import RunOptions
from pliant.core.errors import PliantError
from pliant.master.job_dir import JobDir
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import MasterClient

PROGRAM = Path(__file__).with_name("01_digits_shards.py")
DATASET = "digits"
LOOK = 0.1  # seconds between two looks at the job


class Killer(threading.Thread):
    """Sends SIGKILL to one worker's program when half of the records are done."""

    def __init__(self, home: JobDir) -> None:
        super().__init__(name="killer", daemon=True)
        self.victim = ""
        self.done_at_kill = 0
        self._home = home
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(LOOK):
            status = self._status()
            if status is None:
                continue
            digits = next((d for d in status.datasets if d.name == DATASET), None)
            if digits is None or 2 * digits.records_done < digits.records_total:
                continue
            if node := next(
                (n for n in reversed(status.nodes) if n.state == pb.NODE_STATE_RUNNING and n.pid and n.records), None
            ):
                os.kill(node.pid, signal.SIGKILL)
                self.victim, self.done_at_kill = node.name, digits.records_done
                print(f"quickstart | kill -9 of the program of {node.name} (pid {node.pid}), on purpose")
                return

    def stop(self) -> None:
        self._over.set()
        self.join()

    def _status(self) -> pb.JobStatus | None:
        """None while there is no master to ask."""
        try:
            master = MasterClient(self._home.address())
        except PliantError:
            return None
        try:
            reply: pb.JobStatus = master.call(master.stubs.job.GetStatus, pb.Empty(), timeout=2)
            return reply
        except PliantError:
            return None
        finally:
            master.close()


def audit(home: JobDir) -> dict[str, Any]:
    """From the master's journal: whether each record of each epoch was accepted exactly once."""
    command = [sys.executable, "-m", "pliant.cli", "audit", "--job-dir", str(home.path), "--json"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    value: dict[str, Any] = json.loads(found.stdout)
    return value


def show(home: JobDir, killer: Killer, summary: dict[str, Any]) -> bool:
    """Print the summary; returns whether all is as promised."""
    proof = audit(home)
    digits = next(d for d in summary["datasets"] if d["name"] == DATASET)
    learned = json.loads((home.path / "model" / "accuracy.json").read_text())
    restarted = next((n["restarts"] for n in summary["nodes"] if n["name"] == killer.victim), 0)
    per_epoch, epochs = digits["records_per_epoch"], digits["epochs"]
    table = Table.grid(padding=(0, 2))
    seen = "each exactly once per epoch" if proof["exact"] else "NOT each exactly once"
    table.add_row("records", f"{digits['records_done']:,} = {per_epoch:,} x {epochs} epochs, {seen} (pliant audit)")
    when = f"after {killer.done_at_kill:,} records; its program was started again {restarted} time(s)"
    table.add_row("killed", f"{killer.victim}, {when}" if killer.victim else "nobody: the job was over too soon")
    table.add_row(
        "stalled", f"{summary['stalled_seconds']:.1f} s without a finished record, in {summary['seconds']:.1f} s"
    )
    table.add_row("accuracy", f"{100 * learned['accuracy']:.1f} % on {learned['held_out']} held-out digits")
    table.add_row("files", str(home.path))
    console = Console(highlight=False, soft_wrap=True)
    console.print("\nquickstart | what came of it", style="bold")
    console.print(table)
    return bool(proof["exact"] and killer.victim and learned["accuracy"] > 0.9)


def main() -> int:
    parser = argparse.ArgumentParser(description="Train on digits with four workers, one of them killed half-way.")
    parser.add_argument("--job-dir", type=Path, help="where the job keeps its files [~/.pliant/jobs/quickstart]")
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    command = [sys.executable, str(PROGRAM), "--epochs", str(options.epochs)]
    changes = {"workers": "4", "audit": True, "env": {"OMP_NUM_THREADS": "1"}}
    try:
        how = RunOptions(job_dir=options.job_dir, overwrite=True)
        home = prepare(make_spec(command, "quickstart", changes), how)
        killer = Killer(home)
        killer.start()
        summary = launch(home, how)
        killer.stop()
    except PliantError as error:
        print(f"quickstart: {error}", file=sys.stderr)
        return 2
    if summary.exit_code:
        return summary.exit_code
    return 0 if show(home, killer, summary.to_json()) else 1


if __name__ == "__main__":
    sys.exit(main())
