"""The first hour of a new user, with real commands: what the README promises, then the mistakes that everybody makes.

Each test reads what a person would see in the terminal. Single messages have their own tests beside the code that says them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command_line import CommandLine, command_line

from pliant.testing.waiting import wait_until

__all__ = ["command_line"]  # the fixture
pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 120  # seconds


class Shell:
    """What a person types, and what is shown."""

    def __init__(self, command_line: CommandLine) -> None:
        self._cli = command_line

    def __call__(self, *words: str, code: int = 0) -> str:
        """Run ``pliant WORDS`` to its end in a terminal of 100 columns; returns all that it printed."""
        env = {**self._cli.env, "COLUMNS": "100"}
        command = [str(Path(sys.executable).with_name("pliant")), *words]
        ended = subprocess.run(
            command,
            cwd=self._cli.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        shown = ended.stdout + ended.stderr
        assert ended.returncode == code, f"pliant {' '.join(words)}: exit code {ended.returncode}\n{shown}"
        return shown

    def python(self, *words: str) -> str:
        ended = subprocess.run(
            [sys.executable, *words],
            cwd=self._cli.folder,
            env=self._cli.env,
            capture_output=True,
            text=True,
            check=True,
        )
        return ended.stdout

    def status(self, name: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self("status", name, "--json"))
        return value

    def write(self, name: str, text: str) -> str:
        (self._cli.folder / name).write_text(text)
        return name


@pytest.fixture
def shell(command_line: CommandLine) -> Shell:
    return Shell(command_line)


def weights_in(shown: str) -> str:
    found = re.search(r"weights: ([0-9a-f]{16})", shown)
    assert found is not None, shown
    return found[1]


def step_of(status: dict[str, Any]) -> int:
    return int(status["progress"]["step"])


# Python runs this first: until the test has done all that it wants to, the program takes minutes, as a user's does.
SLOWLY = """
import os, time
from torch.nn import functional

def slowly(*args, original=functional.cross_entropy, **options):
    if not os.path.exists(__file__ + ".hurry"):
        time.sleep(0.1)
    return original(*args, **options)

functional.cross_entropy = slowly
"""


def test_the_readmes_program_is_watched_scaled_killed_stopped_and_resumed_to_the_same_weights(
    shell: Shell, tmp_path: Path
) -> None:
    program = [str(EXAMPLES / "train.py"), "20"]
    (tmp_path / "slowly").mkdir()
    (tmp_path / "slowly" / "sitecustomize.py").write_text(SLOWLY)
    options = ["--workers", "1:2", "--checkpoint-every", "5steps", "--env", f"PYTHONPATH={tmp_path / 'slowly'}"]
    started = shell("run", "--detach", "--name", "mine", *options, "--", "python", *program)
    assert "pliant attach mine" in started
    wait_until(lambda: step_of(shell.status("mine")) >= 5, PATIENCE, "some steps")

    shown = shell("status", "mine")
    assert re.search(r"mine +Running", shown)
    assert re.search(r"step \d+ of 300", shown)
    assert re.search(r"loss \d", shown)
    assert "worker-1" in shell("top", "mine", "--once")
    listed = shell("jobs").splitlines()
    assert max(map(len, listed)) <= 100
    assert any(line.startswith("mine") and " %" in line for line in listed)

    victim = next(node["pid"] for node in shell.status("mine")["nodes"] if node["pid"])
    os.kill(victim, signal.SIGKILL)
    assert "worker 2 -> 1" in shell("scale", "mine", "--workers", "1")
    wait_until(
        lambda: any("scaled down from 2 to 1" in node["message"] for node in shell.status("mine")["nodes"]),
        PATIENCE,
        "a worker that left",
    )
    assert "Preempted" not in shell("status", "mine")
    assert "epoch 0: loss" in shell("logs", "mine")

    shell("stop", "mine")
    assert re.search(r"mine +Stopped", shell("jobs"))
    (tmp_path / "slowly" / "sitecustomize.py.hurry").touch()
    resumed = shell("resume", "mine")
    assert re.search(r"Succeeded in", resumed)
    assert "shard" not in resumed
    assert step_of(shell.status("mine")) == 300
    assert weights_in(resumed) == weights_in(shell.python(*program))


DDP = """
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()  # else one leaves while gloo still connects the other, which fails
print("rank", dist.get_rank(), "of", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""


def test_a_torchrun_script_means_the_same_with_and_without_dashes(shell: Shell) -> None:
    script = shell.write("ddp.py", DDP)
    for words in (["--", "python", script], [script]):
        shown = shell("run", "-n", "2", *words)
        assert "rank 0 of 2" in shown
        assert "rank 1 of 2" in shown
        assert "Succeeded in" in shown
        assert "shard" not in shown


SEPARATE = """
import time
import torch
import pliant

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for shard in pliant.connect().shards("train", size=3000, shard_size=10, prefetch=1):
    time.sleep(0.02)  # else the first worker takes all of them
    for index in shard:
        model(torch.ones(1)).sum().backward()
        optimizer.step()
"""


def test_workers_that_train_separate_models_are_warned_of(shell: Shell) -> None:
    shown = shell("run", "-n", "2", "--", "python", shell.write("separate.py", SEPARATE))
    assert "2 workers train without exchanging gradients: each has a model of its own" in shown
    assert "pliant.torch.Trainer" in shown


TRAINER = """
import sys
import torch
from torch.utils.data import TensorDataset
import pliant.torch as elastic

def number(name, default):
    return next((int(word.split("=")[1]) for word in sys.argv if word.startswith(name + "=")), default)

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
trainer = elastic.Trainer(model, optimizer, virtual_workers=2, deterministic=True)
for step in trainer.steps(data, micro_batch=number("batch", 8), epochs=number("epochs", 2)):
    for x, y in step:
        step.backward(((model(x) - y) ** 2).mean())
print("weights:", [p.sum().item() for p in model.parameters()])
"""


def test_a_finished_training_says_so_is_extended_and_refuses_other_terms(shell: Shell, tmp_path: Path) -> None:
    program = shell.write("train.py", TRAINER)
    options = ["run", "--checkpoint-dir", str(tmp_path / "saved"), "--checkpoint-every", "3steps", "--overwrite"]

    def train(*words: str, code: int = 0) -> str:
        return shell(*options, "--name", "extended", "--", "python", program, *words, code=code)

    first = train("epochs=2")
    again = train("epochs=2")
    assert "nothing left to do" in again
    longer = train("epochs=3")
    assert "nothing left to do" not in longer
    assert "Succeeded in" in longer
    alone = shell.python(program, "epochs=3")
    assert alone.splitlines()[-1] in longer
    assert alone.splitlines()[-1] not in first
    refused = train("epochs=4", "batch=4", code=1)
    assert re.search(r"Checkpoint does not match: .*8, now 4", refused)
    assert refused.count("Traceback (most recent call last)") <= 1


MISTAKES = {
    "a missing module": ("import torhc\n", ["-m pip install torhc"]),
    "a syntax error": ("def f(:\n", ["SyntaxError", "fix line 1 of"]),
    "backward of the loss": (
        TRAINER.replace("step.backward(((model(x) - y) ** 2).mean())", "((model(x) - y) ** 2).mean().backward()"),
        ["loss.backward() was called instead", "call step.backward(loss)"],
    ),
    "a loader as the dataset": (
        TRAINER.replace("steps(data,", "steps(torch.utils.data.DataLoader(data, batch_size=4),"),
        ["this is a DataLoader", "pass the dataset itself"],
    ),
    "datasets that differ": (
        TRAINER.replace("import sys", "import os, sys").replace("64", "(64 if os.environ['RANK'] == '0' else 80)"),
        ["64", "80", "worker-0", "worker-1"],
    ),
    "shards that differ": (
        "import os, time, pliant\n"
        "for shard in pliant.connect().shards('train', size=100 + 20 * int(os.environ['RANK']), shard_size=10):\n"
        "    time.sleep(3600)\n",  # until the other one fails
        ["already exists with size", "gave size"],
    ),
}


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_a_common_mistake_fails_at_once_with_what_to_do(shell: Shell, name: str) -> None:
    program, expected = MISTAKES[name]
    shown = shell("run", "-n", "2", "--", "python", shell.write("mistake.py", program), code=1)
    for text in (*expected, "what to do:", "Failed in"):
        assert text in shown, shown
    assert "survived" not in shown, "nobody is restarted"


def test_what_cannot_start_says_why_and_leaves_no_job_behind(shell: Shell, command_line: CommandLine) -> None:
    program = shell.write("never.py", "print('never')\n")
    assert "requests 99 GPUs; this machine has" in shell("run", "--gpu", "99", "--", "python", program, code=2)
    assert "not found" in shell("run", "--", "python", "nothing.py", code=2)
    assert "no program is given" in shell("run", code=2)
    assert not (command_line.home / "jobs").exists()


def test_files_named_like_modules_of_python_do_not_break_the_job(shell: Shell) -> None:
    for name in ("copy.py", "queue.py", "grpc.py"):
        shell.write(name, "raise SystemExit('the wrong module was imported')\n")
    assert "hello" in shell("run", "--", "echo", "hello")
