"""Line charts as SVG, without a library: one file a chart, readable in a light and in a dark page."""

import re
from collections import defaultdict
from collections.abc import Sequence
from html import escape
from pathlib import Path

from benchmarks.bench import Line

_WIDTH, _HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 50, 60
_COLOURS = ("#1f77b4", "#d95f02", "#2ca02c", "#9467bd")  # told apart with every kind of sight, on white and on black
_DASHES = ("", "6 4", "2 3", "10 3 2 3")
_STYLE = (
    "text{font:13px sans-serif;fill:#222}path,line{stroke:#222}.grid{stroke:#8884}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}path,line{stroke:#ddd}}"
)


def write_charts(lines: Sequence[Line], directory: Path) -> list[Path]:
    """A chart for each title; the files."""
    charts: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line.points:
            charts[line.chart].append(line)
    paths = []
    for title, drawn in charts.items():
        path = directory / (re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") + ".svg")
        path.write_text(chart(title, drawn))
        paths.append(path)
    return paths


def chart(title: str, lines: Sequence[Line]) -> str:
    """The SVG of lines with common axes, both from 0."""
    most_x = _round_up(max(x for line in lines for x, _ in line.points))
    most_y = _round_up(max(y for line in lines for _, y in line.points))

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + x / most_x * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - y / most_y * (_HEIGHT - _TOP - _BOTTOM),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<text x="{_WIDTH / 2}" y="20" text-anchor="middle" style="font-weight:bold">{escape(title)}</text>',
    ]
    for tick in range(6):
        x, y = most_x * tick / 5, most_y * tick / 5
        (px, _), (_, py) = place(x, 0), place(0, y)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{py:.1f}" y2="{py:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{py + 4:.1f}" text-anchor="end">{y:g}</text>')
        parts.append(f'<text x="{px:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{x:g}</text>')
    (x0, y0), (x1, y1) = place(0, 0), place(most_x, most_y)
    parts.append(f'<path fill="none" d="M{x0} {y1}V{y0}H{x1}"/>')
    parts.append(
        f'<text x="{(x0 + x1) / 2}" y="{_HEIGHT - 22}" text-anchor="middle">{escape(lines[0].x)}</text>'
        f'<text x="{_LEFT - 8}" y="{_TOP - 10}" text-anchor="end">{escape(lines[0].y)}</text>'
    )
    for number, line in enumerate(lines):
        style = f"stroke:{_COLOURS[number % 4]};stroke-width:2;stroke-dasharray:{_DASHES[number % 4] or 'none'}"
        drawn = " ".join(f"{px:.1f},{py:.1f}" for px, py in (place(x, y) for x, y in sorted(line.points)))
        parts.append(f'<polyline fill="none" style="{style}" points="{drawn}"/>')
        at = _LEFT + 130 * number
        parts.append(f'<line style="{style}" x1="{at}" x2="{at + 24}" y1="{_HEIGHT - 8}" y2="{_HEIGHT - 8}"/>')
        parts.append(f'<text x="{at + 30}" y="{_HEIGHT - 4}">{escape(line.name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50 ... so that the ticks are round."""
    if value <= 0:
        return 1.0
    step = 10.0 ** len(str(int(value))) if value >= 1 else 1.0
    while step / 10 >= value:
        step /= 10
    return next(step * part for part in (0.1, 0.2, 0.25, 0.5, 1.0) if step * part >= value)
