"""Plots of steps over time as inline SVG, without a library: axes with round numbers, a line per series, marks with titles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 860, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 14, 34
COLORS = ("#0b6e99", "#c2571a", "#3b7d3a", "#8a3ffc", "#b0263f", "#6b6b00", "#5f6a72", "#00707a", "#9b5c00", "#44485c")
MAX_VERTICES = 1500


@dataclass(frozen=True, slots=True)
class Mark:
    x: float
    text: str  # shown when the pointer rests on it


@dataclass(frozen=True, slots=True)
class Series:
    """Each value holds until the next point."""

    name: str
    points: Sequence[tuple[float, float]]
    marks: Sequence[Mark] = field(default_factory=tuple)
    dashed: bool = False
    color: int = 0


def plot(title: str, series: Sequence[Series], *, unit: str, until: float) -> str:
    top = max((y for one in series for _, y in one.points), default=0.0) * 1.05 or 1.0
    seconds, label = _time_unit(until)
    plane = _Plane(max(until, 1e-9), top)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" class="plot">',
        f"<title>{escape(title)}</title>",
        *_axes(plane, seconds, label, unit),
    ]
    for one in series:
        color = COLORS[one.color % len(COLORS)]
        dash = ' stroke-dasharray="5 4"' if one.dashed else ""
        parts.append(
            f'<polyline fill="none" stroke="{color}" stroke-width="1.6"{dash} points="{_steps(one.points, plane)}">'
            f"<title>{escape(one.name)}</title></polyline>"
        )
        for mark in one.marks:
            x, y = plane.x(mark.x), plane.y(_value_at(one.points, mark.x))
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}" stroke="#fff">'
                f"<title>{escape(mark.text)}</title></circle>"
            )
    return "".join([*parts, "</svg>"])


@dataclass(frozen=True, slots=True)
class _Plane:
    right: float
    top: float

    def x(self, value: float) -> float:
        return LEFT + min(max(value / self.right, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - min(max(value / self.top, 0.0), 1.0) * (HEIGHT - TOP - BOTTOM)


def _axes(plane: _Plane, seconds: float, label: str, unit: str) -> list[str]:
    parts = []
    for value in ticks(plane.top):
        y = plane.y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>')
    for value in ticks(plane.right / seconds):
        x = plane.x(value * seconds)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 16}" text-anchor="middle">{_short(value)}</text>')
    parts.append(f'<text class="tick" x="{WIDTH - RIGHT}" y="{HEIGHT - 3}" text-anchor="end">{label}</text>')
    parts.append(f'<text class="tick" x="4" y="{TOP - 3}">{escape(unit)}</text>')
    return parts


def ticks(top: float) -> list[float]:
    """Four to eight round numbers from zero on."""
    if top <= 0 or not math.isfinite(top):
        return [0.0]
    power = 10.0 ** math.floor(math.log10(top))
    step = next(size * power for size in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0) if top / (size * power) <= 8)
    return [number * step for number in range(int(top / step + 1e-9) + 1)]


def _steps(points: Sequence[tuple[float, float]], plane: _Plane) -> str:
    """One vertex pair per pixel column at most; the last value of a column wins."""
    found: list[str] = []
    last_y: float | None = None
    stride = max(1, len(points) // MAX_VERTICES)
    for x, y in [*points[::stride], *points[-1:]]:
        px, py = plane.x(x), plane.y(y)
        if last_y is not None:
            found.append(f"{px:.1f},{last_y:.1f}")
        found.append(f"{px:.1f},{py:.1f}")
        last_y = py
    return " ".join(found)


def _value_at(points: Sequence[tuple[float, float]], x: float) -> float:
    value = 0.0
    for at, y in points:
        if at > x:
            break
        value = y
    return value


def _time_unit(until: float) -> tuple[float, str]:
    if until > 3 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if until > 300 else (1.0, "seconds")


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.4g}"
