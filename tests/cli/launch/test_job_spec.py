from __future__ import annotations

from pliant.cli.launch.job_spec import make_spec


def test_a_script_means_the_same_with_and_without_its_interpreter() -> None:
    short, long = (make_spec(command, "j", {"workers": 2}) for command in (["ddp.py"], ["python", "ddp.py"]))
    assert short == long
    assert short.components().rendezvous
