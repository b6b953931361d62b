"""Charts are SVG that a browser can show, and hold every point."""

from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bench import Line
from benchmarks.plot import chart, write_charts

SVG = "{http://www.w3.org/2000/svg}"
VALUE = st.floats(min_value=0, max_value=1e7)


@given(st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=20))
def test_every_point_is_within_the_chart(points: list[tuple[float, float]]) -> None:
    root = ElementTree.fromstring(chart("<Steps> & turns", [Line("c", "ours", "steps", "ms", points)]))
    [drawn] = root.iter(f"{SVG}polyline")
    places = [tuple(map(float, place.split(","))) for place in drawn.attrib["points"].split()]
    assert len(places) == len(points)
    assert all(70 <= x <= 700.1 and 49.9 <= y <= 340 for x, y in places), places


def test_lines_of_one_title_share_a_chart(tmp_path: Path) -> None:
    lines = [
        Line("Cost of a step", "ours", "steps", "ms", [(1, 2), (3, 4)]),
        Line("Cost of a step", "floor", "steps", "ms", [(1, 1), (3, 1)]),
        Line("Other", "ours", "turns", "ms", [(1, 2)]),
        Line("Nothing", "ours", "turns", "ms", []),
    ]
    paths = write_charts(lines, tmp_path)
    assert [path.name for path in paths] == ["cost-of-a-step.svg", "other.svg"]
    text = paths[0].read_text()
    assert text.count("<polyline") == 2
    assert "floor" in text
