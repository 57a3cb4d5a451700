from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import yaml

from pliant.launch.manifest import read_job
from pliant.platforms.kubernetes.plans import ScalePlanSpec

FOLDER = Path(__file__).parents[3] / "examples" / "kubernetes"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))


def test_there_are_examples_of_jobs_and_of_a_plan() -> None:
    kinds = [yaml.safe_load(path.read_text())["kind"] for path in EXAMPLES]
    assert sorted(kinds) == ["ElasticJob", "ElasticJob", "ScalePlan"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_what_the_models_allow(path: Path) -> None:
    value = yaml.safe_load(path.read_text())
    if value["kind"] == "ElasticJob":
        assert read_job(path, name=None, namespace=None).name == value["metadata"]["name"]
    else:
        plan = ScalePlanSpec.model_validate(value["spec"])
        assert plan.migrate or plan.roles


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_file_that_an_example_tells_to_send_along_exists_and_is_used(path: Path) -> None:
    words = path.read_text().split()
    for sent in (Path(word) for flag, word in itertools.pairwise(words) if flag == "--file"):
        assert (FOLDER.parents[1] / sent).is_file()
        assert f"/pliant/files/{sent.name}" in path.read_text()
