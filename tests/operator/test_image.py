"""The image of the chart: what it is built from is pinned."""

from __future__ import annotations

import re
from pathlib import Path

DOCKERFILE = (Path(__file__).parents[2] / "deploy/Dockerfile").read_text(encoding="utf-8")


def test_every_stage_is_built_from_a_base_that_is_pinned_by_its_digest_and_can_be_replaced() -> None:
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE))
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert set(bases) == {"${BASE}"}
    assert re.fullmatch(r"\S+:\d+\.\d+\.\d+-\S+@sha256:[0-9a-f]{64}", arguments["BASE"])


def test_the_image_runs_without_root() -> None:
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)[-1] == "10001:10001"
