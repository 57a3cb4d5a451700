from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from tests.core.planning.records import CURVE

from pliant.cli.render.curve import ASCII, LABEL, UNICODE, CurveChart, chart_rows
from pliant.core.planning.explanation import CurvePoint


def shown(width: int, present: int = 4, points: tuple[CurvePoint, ...] = CURVE) -> list[str]:
    out = StringIO()
    Console(file=out, width=width).print(CurveChart(points, present))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [20, 30, 36, 40, 60, 72, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for present in (1, 4, 8, 50):
        assert max(len(line) for line in shown(width, present)) <= width


def test_measured_points_the_interval_and_the_present_number_are_marked() -> None:
    rows = shown(80)
    [measured] = [row for row in rows if "●" in row and "measured" not in row]
    at = measured.index("●")
    [arrow] = [row for row in rows if "▲" in row]
    assert arrow.index("▲") == at, "it is the present configuration that was measured"
    assert "now: 4" in arrow
    assert sum(row.count("░") for row in rows) > 20
    assert rows[-1].strip() == "● measured  • fitted  ░ 90 % interval"


def test_a_curve_that_rises_is_drawn_rising() -> None:
    rows = [text.plain[LABEL + 2 :] for text in chart_rows(CURVE, 4, 72, UNICODE)][:10]
    heights = [next(row for row in range(10) if rows[row][at] in "•●") for at in range(len(rows[0]))]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] > heights[-1]


def test_an_interval_without_end_does_not_flatten_the_curve() -> None:
    unsure = tuple(CurvePoint(p.workers, p.rate, 0.0, 1e9, p.measured) for p in CURVE)
    assert shown(72, points=unsure)[0].split()[0] == "100"


def test_a_terminal_without_unicode_gets_other_marks() -> None:
    rows = [text.plain for text in chart_rows(CURVE, 4, 60, ASCII)]
    assert all(row.isascii() for row in rows)
    assert any("^ now: 4" in row for row in rows)


def test_a_narrow_terminal_or_a_single_point_has_a_table() -> None:
    for rows in (shown(30), shown(80, points=CURVE[3:4])):
        head, row = rows
        assert head.split() == ["WORKERS", "FITTED", "LOW", "HIGH", "SEEN"]
        assert row.split() == ["now:", "4", "40", "36", "44", "40"]
