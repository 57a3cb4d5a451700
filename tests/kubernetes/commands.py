"""The commands of a user, for tests on a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.kubernetes.harness import Space
from typer.testing import CliRunner, Result

from pliant.cli.app import app


class Cli:
    """The command line as a user of the cluster has it."""

    def __init__(self, space: Space, folder: Path) -> None:
        self.space = space
        self.folder = folder
        self.env = {
            "KUBECONFIG": str(space.testbed.kubeconfig),
            "PLIANT_NAMESPACE": space.name,
            "PLIANT_HOME": str(folder / "home"),
            "COLUMNS": "200",
        }
        self.started: list[subprocess.Popen[str]] = []

    def __call__(self, *args: str) -> Result:
        return CliRunner(env=self.env).invoke(app, list(args))

    def json(self, *args: str) -> Any:
        result = self(*args, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def start(self, *args: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "pliant.cli", *args],
            env={**os.environ, **self.env},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()
