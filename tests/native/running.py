"""Native training as a user runs it, under someone who wishes it ill: ``LocalJob`` for ``pliant train`` and its like."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from pliant.testing.jobs import LAUNCHER, LocalJob

MODEL = Path(__file__).parent / "model_file.py"
LIGHT = Path(__file__).parents[1] / "light"
ZOO = Path(__file__).parents[2] / "examples"


class NativeJob(LocalJob):
    """``pliant COMMAND`` with the options of a native job."""

    def __init__(
        self,
        folder: Path,
        command: str,
        options: Sequence[str],
        *,
        model: Path = MODEL,
        model_class: str = "Net",
        name: str = "job",
        env: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        given = {"PLIANT_TEST_FOLDER": str(folder), **(env or {})}
        if "PYTHONPATH" not in given and not model.is_relative_to(ZOO):
            given["PYTHONPATH"] = os.pathsep.join(filter(None, (str(LIGHT), os.environ.get("PYTHONPATH"))))
        super().__init__(folder, ["true"], name=name, options=options, env=given)
        self._command = command
        self._python = python
        self._model = ["--model", str(model), *(["--model-class", model_class] if model_class else [])]

    def start(self, *options: str) -> Self:
        command = [self._python, "-c", LAUNCHER, self._command, "--job-dir", str(self.home.path), "--name", self.name]
        with self._output.open("ab") as output:
            self._launcher = subprocess.Popen(
                [*command, *self._model, "--audit", *self._options, *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._env,
                cwd=self.folder,
            )
        return self


def make_points(path: Path, count: int, *, first: int = 0) -> Path:
    """A CSV file of ``id,x,label``; a label says whether x is positive."""
    rows = [f"{i},{((i * 37) % 101 - 50) / 50},{int((i * 37) % 101 > 50)}" for i in range(first, first + count)]
    path.write_text("\n".join(["id,x,label", *rows]) + "\n")
    return path
