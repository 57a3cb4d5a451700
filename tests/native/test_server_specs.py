"""A learning-rate schedule as parameter servers follow it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.native.scheduled_model import FILE

from pliant.core.errors import InvalidRequest
from pliant.native.model_file.contract import load_model_file
from pliant.native.strategies.server_specs import server_specs


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ("ReduceLROnPlateau(optimizer)", "depends on a metric"),
        ("OneCycleLR(optimizer, 0.2, total_steps=100)", "it changes momentum"),
    ],
)
def test_a_schedule_that_servers_cannot_follow_is_refused_with_its_line(
    tmp_path: Path, schedule: str, said: str
) -> None:
    made = "LambdaLR(optimizer, [lambda k: 0.9 ** k, lambda k: 1 / (1 + k // 3)])"
    (tmp_path / "net.py").write_text(FILE.replace(made, schedule))
    file = load_model_file(tmp_path / "net.py", "Net", task="train")
    with pytest.raises(InvalidRequest, match=f"net.py:[0-9]+: .*{said}"):
        server_specs(file, file.make_model())


def test_a_schedule_can_be_asked_for_any_update_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FILE)
    file = load_model_file(tmp_path / "net.py", "Net", task="train")
    specs = server_specs(file, file.make_model())
    assert specs.rates is not None
    for update in (0, 7, 3, 11):
        assert specs.rates(update) == pytest.approx([0.9**update, 1 / (1 + update // 3)])
    assert (specs.variables["line.weight"].rate_group, specs.tables["bias"].rate_group) == (0, 1)
