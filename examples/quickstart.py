"""What ``make quickstart`` runs: the same training twice, undisturbed, and with a worker killed and another one joining.

Both are jobs of ``02_cnn_digits.py`` with two workers. In the second one a worker gets SIGKILL and is started
again, and the job is scaled to three. At the end the weights of every worker of both jobs are compared by their SHA-256: unless
they are the same bits the exit code is 1. All figures come from the times at which workers committed steps. By hand:

    pliant run -n 2 -- python examples/02_cnn_digits.py --epochs 100
    pliant run --workers 1:3 --name mine -- python examples/02_cnn_digits.py --epochs 100
    pliant scale mine --workers 2      # in another terminal; or kill -9 what you like
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from os import kill
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.status import Status

PROGRAM = Path(__file__).with_name("02_cnn_digits.py")
PLIANT = [sys.executable, "-m", "pliant.cli"]
LOOK_S = 0.02  # between two looks at the record of a job
STEPS_PER_EPOCH = 23  # 1,437 digits, 4 virtual workers with micro-batches of 16
HELD_OUT = " of 360 digits that it had not seen"
WATCHED_STEPS = 5  # in which the stall after the kill is looked for

console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Commit:
    """One step, committed by one process."""

    time: float
    step: int
    workers: int
    node: str
    pid: int


@dataclass(frozen=True)
class Final:
    """What one worker had at the end."""

    node: str
    steps: int
    accuracy: float
    sha256: str


class JobFailed(Exception):
    pass


class Training:
    """One job of ``PROGRAM``: started, watched through the file in which its workers record their steps."""

    def __init__(self, name: str, folder: Path, epochs: int, width: int) -> None:
        self.name = name
        self.job_dir = folder / name
        self.commits: list[Commit] = []
        self.finals: list[Final] = []
        self._record = folder / f"{name}.jsonl"
        self._read_to = 0
        self._output = folder / f"{name}.txt"
        self._commands: list[subprocess.Popen[bytes]] = []
        options = ["--epochs", str(epochs), "--width", str(width), "--record", str(self._record)]
        spec = {
            "name": name,
            "roles": {
                "worker": {
                    "replicas": {"min": 1, "max": 3, "wanted": 2},
                    "command": [sys.executable, str(PROGRAM), *options],
                    "env": {"OMP_NUM_THREADS": "1"},
                }
            },
        }
        (folder / f"{name}.yaml").write_text(json.dumps(spec))  # JSON is YAML
        command = [*PLIANT, "run", str(folder / f"{name}.yaml"), "--job-dir", str(self.job_dir), "--quiet"]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def look(self) -> list[Commit]:
        """Read what is new in the record; returns the new commits."""
        new: list[Commit] = []
        if self._record.exists():
            with self._record.open("rb") as record:
                record.seek(self._read_to)
                for line in record:
                    if not line.endswith(b"\n"):
                        break
                    self._read_to += len(line)
                    facts: dict[str, Any] = json.loads(line)
                    if "sha256" in facts:
                        self.finals.append(Final(facts["node"], facts["steps"], facts["accuracy"], facts["sha256"]))
                    else:
                        new.append(Commit(facts["time"], facts["step"], facts["workers"], facts["node"], facts["pid"]))
        self.commits += new
        return new

    def follow(self, on_commit: Callable[[Commit], None]) -> None:
        """Until the job is over; raises ``JobFailed`` if that is not a success."""
        over = False
        while not over:
            over = self._process.poll() is not None  # asked before the last look, so that nothing is missed
            for commit in self.look():
                on_commit(commit)
            time.sleep(0 if over else LOOK_S)
        if self._process.returncode:
            raise JobFailed(f"job {self.name} ended with code {self._process.returncode}:\n{self._output.read_text()}")

    def scale(self, workers: int) -> None:
        """Without waiting for the answer; if it is refused, the job ends with fewer workers, and the report shows it."""
        command = [*PLIANT, "scale", "--job-dir", str(self.job_dir), "--workers", str(workers)]
        self._commands.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))

    def end(self) -> None:
        """However this program ends, nothing of the job stays. The job stops with grace upon SIGTERM."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        for command in self._commands:
            command.wait()


class Story:
    """Tells what happens to a job as it happens, and disturbs it if it should."""

    def __init__(self, training: Training, steps: int, status: Status, *, disturb: bool) -> None:
        self._training = training
        self._disturb = disturb
        self._steps = steps
        self._status = status
        self._began = 0.0
        self._step = -1
        self._workers = 0
        self._pids: set[int] = set()
        self._scaled = False
        self.killed: Commit | None = None  # the last step that the victim committed
        self.killed_at = 0.0
        self.joined: list[str] = []

    def on_commit(self, commit: Commit) -> None:
        self._began = self._began or commit.time
        if self.killed and commit.pid not in self._pids:
            self._tell_joined(commit)
        self._pids.add(commit.pid)
        if commit.step <= self._step:
            return
        self._step = commit.step
        self._status.update(f"step {commit.step + 1} of {self._steps}, {count(commit.workers)}")
        if self._workers == 0:
            self._tell(commit, f"{count(commit.workers)} are training")
        elif commit.workers < self._workers:
            self._tell(commit, f"{count(commit.workers)} left: it finished this step, without a restart")
        self._workers = commit.workers
        if self._disturb:
            self._disturb_at(commit)

    def _disturb_at(self, commit: Commit) -> None:
        if self.killed is None and commit.workers == 2 and commit.step >= self._steps // 8:
            self._kill(commit)
        elif self.killed and not self._scaled and commit.step >= self.killed.step + 2 * WATCHED_STEPS:
            self._scaled = True
            self._tell(commit, "pliant scale --workers 3")
            self._training.scale(3)

    def _kill(self, commit: Commit) -> None:
        victim = max(self._training.commits, key=lambda one: (one.node, one.step))
        self.killed, self.killed_at = victim, time.time()
        kill(victim.pid, signal.SIGKILL)
        self._tell(commit, f"[bold]kill -9 {victim.pid}[/bold], the program of {victim.node}")

    def _tell_joined(self, commit: Commit) -> None:
        self.joined.append(commit.node)
        again = "was started again and" if self.killed and commit.node == self.killed.node else "is new and"
        self._tell(commit, f"{commit.node} {again} joined, between two steps: {count(commit.workers)}")

    def end(self) -> None:
        last = max(self._training.commits, key=lambda one: one.step)
        self._tell(last, f"done, by {count(last.workers)}")

    def _tell(self, commit: Commit, what: str) -> None:
        console.print(f"  {commit.time - self._began:5.1f} s  step {commit.step:>3}  {what}")


def count(workers: int) -> str:
    return f"{workers} worker" if workers == 1 else f"{workers} workers"


def step_time(commits: list[Commit]) -> float:
    """The median, in seconds, of the steps of one process."""
    by_pid: dict[int, list[float]] = {}
    for commit in commits:
        by_pid.setdefault(commit.pid, []).append(commit.time)
    longest = max(by_pid.values(), key=len)
    return statistics.median(b - a for a, b in itertools.pairwise(longest))


def stall(commits: list[Commit], killed_at: float) -> float:
    """The longest time without a committed step around the kill, in seconds, less the length of a step."""
    before = [one for one in commits if one.time <= killed_at]
    after = sorted(one.time for one in commits if one.time > killed_at)[:WATCHED_STEPS]
    moments = [max(one.time for one in before), *after]
    return max(0.0, max(b - a for a, b in itertools.pairwise(moments)) - step_time(before))


def steps_done_again(commits: list[Commit]) -> int:
    """Commits of a step after a newer one, or twice by one process."""
    again, newest = 0, -1
    seen: set[tuple[int, int]] = set()
    for commit in sorted(commits, key=lambda one: one.time):
        again += commit.step < newest or (commit.pid, commit.step) in seen
        newest = max(newest, commit.step)
        seen.add((commit.pid, commit.step))
    return again


def report(undisturbed: Training, disturbed: Training, story: Story, seconds: float) -> bool:
    """Print what was measured; returns whether both trainings have the same weights."""
    finals = [*undisturbed.finals, *disturbed.finals]
    same = len({final.sha256 for final in finals}) == 1 and bool(undisturbed.finals) and bool(disturbed.finals)
    console.print("\nResult", style="bold")
    for training in (undisturbed, disturbed):
        row(training.name, f"SHA-256 {', '.join(sorted({final.sha256 for final in training.finals}))}")
    everywhere = f"the same bits on all {len(finals)} workers of both trainings"
    row("weights", f"[bold green]{everywhere}[/]" if same else "[bold red]DIFFERENT BITS[/]")
    if story.killed is None:
        row("killed", "nobody: the training was over too soon")
    else:
        length, waited = step_time(disturbed.commits), stall(disturbed.commits, story.killed_at)
        row("stall", f"{waited:.2f} s without a finished step after the kill (a step takes {1000 * length:.0f} ms)")
    done = len({commit.step for commit in disturbed.commits})
    row("steps", f"{done} of {finals[0].steps} done, {steps_done_again(disturbed.commits)} of them twice")
    row("joined", ", ".join(story.joined) or "nobody: the training was over too soon")
    row("accuracy", " and ".join(sorted({f"{100 * final.accuracy:.1f} %" for final in finals})) + HELD_OUT)
    row("took", f"{seconds:.0f} s, both trainings with their start")
    return same and story.killed is not None


def row(what: str, text: str) -> None:
    console.print(f"  {what:<12} {text}")


def train(name: str, folder: Path, epochs: int, width: int, *, disturb: bool) -> tuple[Training, Story]:
    with console.status("starting") as status:
        training = Training(name, folder, epochs, width)
        story = Story(training, epochs * STEPS_PER_EPOCH, status, disturb=disturb)
        try:
            training.follow(story.on_commit)
        finally:
            training.end()
    story.end()
    return training, story


def run(folder: Path, epochs: int, width: int) -> bool:
    began = time.monotonic()
    console.print(f"The same training twice: a CNN on real digits, {epochs} epochs, 2 workers")
    console.print("\n1. Undisturbed", style="bold")
    undisturbed, _ = train("undisturbed", folder, epochs, width, disturb=False)
    console.print("\n2. With a worker killed and another one joining", style="bold")
    disturbed, story = train("disturbed", folder, epochs, width, disturb=True)
    return report(undisturbed, disturbed, story, time.monotonic() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description="Train twice, once with a worker killed: the result is the same.")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--width", type=int, default=96, help="channels of the first layer")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the files of both jobs, in this empty folder")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="pliant-quickstart-"))
    folder.mkdir(parents=True, exist_ok=True)
    keep = bool(options.keep)
    try:
        same = run(folder.absolute(), options.epochs, options.width)
        keep |= not same
        return 0 if same else 1
    except JobFailed as error:
        keep = True
        print(f"quickstart: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if keep:
            console.print(f"  {'files':<12} {folder}")
        else:
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
