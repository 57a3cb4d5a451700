"""Every parser: a few hundred inputs in each run of the tests, the same ones each time; ``make fuzz`` goes on for a minute each."""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path

import pytest
from tests.fuzz.driver import Finding, corpus_of, inputs, problem_of
from tests.fuzz.targets import TARGETS

SEED = 1
COUNTS = {"journal": 60, "checkpoint_manifest": 150, "array_record": 100, "data_index": 100}
USUAL = 250


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_a_parser_is_given_it_answers_with_a_result_or_an_error_of_ours(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]()
    known = len(target.seeds()) + len(corpus_of(target))
    for number, data in enumerate(islice(inputs(target, SEED), known + COUNTS.get(name, USUAL))):
        folder = tmp_path / str(number)
        folder.mkdir()
        problem = problem_of(target, data, folder)
        shutil.rmtree(folder)
        if problem:
            path = Finding(name, data, problem, SEED).save(tmp_path)
            pytest.fail(f"seed {SEED}, input {path}\n{problem}")


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_are_valid(name: str, tmp_path: Path) -> None:
    """Else mutations of them would never get past the first check."""
    target = TARGETS[name]()
    if name == "rpc_messages":
        return  # empty messages are seeds too
    for number, data in enumerate(target.seeds()):
        folder = tmp_path / str(number)
        folder.mkdir()
        if name != "ps_frames" or number < 4:  # the last frame is an error
            target.check(data, folder)
