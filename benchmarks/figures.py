"""Measurements: samples, and the rows that are made of them."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from benchmarks.aims import BY_NAME, Aim


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of all do not exceed (nearest rank). Raises ValueError without values."""
    if not values:
        raise ValueError("there are no values")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


@dataclass(frozen=True)
class Row:
    """One line of the table: our figure beside its floor, judged by the aim of the same name, if there is one."""

    name: str
    unit: str
    ours: float
    """The median, or what the name says."""
    floor: float | None = None
    """The same of the floor, from the same run; None where there is none."""
    p95: float | None = None
    n: int = 1
    note: str = ""

    @classmethod
    def of(cls, name: str, unit: str, ours: Sequence[float], floor: Sequence[float] = (), note: str = "") -> Self:
        """The medians of both."""
        return cls(
            name,
            unit,
            statistics.median(ours),
            statistics.median(floor) if floor else None,
            percentile(ours, 95),
            len(ours),
            note,
        )

    @property
    def ratio(self) -> float | None:
        return self.ours / self.floor if self.floor else None

    @property
    def aim(self) -> Aim | None:
        return BY_NAME.get(self.name)

    @property
    def is_met(self) -> bool | None:
        """None where nothing is aimed for, or the floor that the aim is about is missing."""
        aim = self.aim
        figure = self.ratio if aim is not None and aim.judged == "ratio" else self.ours
        return aim.is_met(figure) if aim is not None and figure is not None else None

    @property
    def aim_here(self) -> Aim | None:
        return self.aim.here(self.floor) if self.aim is not None else None

    @property
    def is_met_here(self) -> bool | None:
        return self.aim_here.is_met(self.ours) if self.aim_here is not None else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": self.ours,
            "floor": self.floor,
            "ratio": self.ratio,
            "p95": self.p95,
            "n": self.n,
            "aim": self.aim.sentence if self.aim is not None else None,
            "met": self.is_met,
            "aimHere": self.aim_here.sentence if self.aim_here is not None else None,
            "metHere": self.is_met_here,
            "note": self.note,
        }


_HEAD = ("what", "ours", "floor", "ratio", "p95", "n", "aim", "met", "at this speed", "")
_MET = {None: "", True: "met", False: "NOT MET"}


def table(rows: Sequence[Row]) -> str:
    """The rows for a terminal."""
    lines = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in (0, 6, 7, 8, 9) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    here = row.aim_here
    return (
        row.name,
        f"{short(row.ours)} {row.unit}",
        "" if row.floor is None else f"{short(row.floor)} {row.unit}",
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if row.p95 is None else short(row.p95),
        str(row.n),
        row.aim.sentence if row.aim is not None else "",
        _MET[row.is_met],
        f"{here.sentence} {_MET[row.is_met_here]}" if here is not None else "",
        row.note,
    )


def short(value: float) -> str:
    """Three figures that count; whole from 100 on."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def as_json(rows: Sequence[Row], **about: Any) -> str:
    return json.dumps({**about, "rows": [row.as_dict() for row in rows]}, indent=2) + "\n"
