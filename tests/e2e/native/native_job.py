"""Native training as a user runs it, with faults injected: ``LocalJob`` for ``pliant train`` and its like."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from pliant.testing.jobs import LAUNCHER, LocalJob

MODEL = Path(__file__).parent / "model_file.py"
LIGHT = Path(__file__).parents[2] / "light"
ZOO = Path(__file__).parents[3] / "examples"


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
