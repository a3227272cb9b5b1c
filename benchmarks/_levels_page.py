"""Tables and verdicts of the levels study, against the bars that were set before it was run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks._levels_judge import BIN_NAMES, HOURS, Mean, Verdict, held, pooled

BAND = (0.85, 0.95)
LEAST_CELLS = 200
"""Cells of a bin, over all releases, below which its coverage says nothing."""
HALF_WIDTH = {0.3: 0.25, 1.0: 0.15}
WIDTHS_FROM = 5_000
Cell = Mapping[str, Any]


def summary(name: str, cell: Cell) -> str:
    """One line for the terminal."""
    verdicts: Sequence[Verdict] = cell["verdicts"]
    found = figures(name, cell)
    bins = " ".join("  –" if c is None else f"{100 * c.mean:3.0f}" for c in found["bins"])
    return (
        f"{name:24s} MAE {found['median'].mean:8.3f} (count {found['count'].mean:.3f}, zeros "
        f"{found['zeros']:.3f}, paris {_mean(found['rival'])}, margins {_mean(found['margins'])}) "
        f"total {found['total'].mean:.3f}±{_sd(verdicts):.3f} in {_percent(found['inside'])} "
        f"width {_percent(found['width'])} cover {_percent(found['cover'])} bins [{bins}] "
        f"above/below {found['sides'][2]}/{found['sides'][3]} "
        f"cpu {found['cpu']:.2f} {' '.join(found['missed']) or 'ok'}"
    )


def figures(name: str, cell: Cell) -> dict[str, Any]:
    """Means over the releases of a cell, and which bars they miss by more than two errors."""
    verdicts: Sequence[Verdict] = cell["verdicts"]
    _, _, people, epsilon = name.split(",")
    zeros = sum(cell["zeros"]) / len(cell["zeros"])
    told = [v for v in verdicts if v.inside is not None]
    with_intervals = [v for v in verdicts if v.bins is not None]
    bins = [held([v.bins[k] for v in with_intervals]) for k in range(len(BIN_NAMES))]  # type: ignore[index]
    found: dict[str, Any] = {
        "releases": len(verdicts),
        "zeros": zeros,
        "median": Mean.of(v.mae_median for v in verdicts),
        "count": Mean.of(v.mae_count for v in verdicts),
        "rival": Mean.of(cell["rival"]) if cell["rival"] else None,
        "margins": _of([v.mae_margins for v in verdicts]),
        "total": Mean.of(v.total for v in verdicts),
        "inside": _of([float(bool(v.inside)) for v in told]),
        "width": _of([v.half_width for v in told]),
        "bins": bins,
        "cells": [sum(v.bins[k][0] for v in with_intervals) for k in range(len(BIN_NAMES))],  # type: ignore[index]
        "hours": [held([v.hours[h] for v in with_intervals]) for h in range(HOURS)],  # type: ignore[index]
        "cover": held([_sum(v.bins) for v in with_intervals]),  # type: ignore[arg-type]
        "sides": pooled([v.asymmetric for v in with_intervals])  # type: ignore[misc]
        if with_intervals
        else [0, 0, 0, 0],
        "cpu": sum(v.cpu for v in verdicts) / len(verdicts),
    }
    found["missed"] = _missed(found, int(people), float(epsilon))
    return found


def _missed(found: Mapping[str, Any], people: int, epsilon: float) -> list[str]:
    """Bars of one cell of the design that are missed by more than two standard errors."""
    missed = []
    median: Mean = found["median"]
    for name in ("zeros", "rival", "margins"):
        other = found[name]
        if other is None:
            continue
        level, error = (other, 0.0) if isinstance(other, float) else (other.mean, other.error)
        if median.mean > level + 2 * (median.error**2 + error**2) ** 0.5:
            missed.append({"zeros": ">zeros", "rival": ">paris", "margins": ">margins"}[name])
    width: Mean | None = found["width"]
    if (
        width is not None
        and people >= WIDTHS_FROM
        and width.mean - 2 * width.error > HALF_WIDTH[epsilon]
    ):
        missed.append("wide")
    for k, (name, cells) in enumerate(zip(BIN_NAMES, found["cells"], strict=True)):
        if cells >= LEAST_CELLS and _outside(found["bins"][k], low_bin=k == 0):
            missed.append(f"cover[{name}]")
    wrong = sum(_outside(hour, low_bin=True) for hour in found["hours"])
    if wrong:
        missed.append(f"hours({wrong})")
    if _one_sided(found["sides"]):
        missed.append("one-sided")
    return missed


def _outside(cover: Mean | None, low_bin: bool) -> bool:
    """Whether coverage leaves its band by more than two errors; too much is no fault where whole
    numbers near zero leave no interval of 90 %."""
    if cover is None:
        return False
    low, high = BAND
    slack = 2 * cover.error
    return cover.mean + slack < low or (not low_bin and cover.mean - slack > high)


def _one_sided(sides: Sequence[int]) -> bool:
    """Misses above and below differ by more than twice, two standard errors of a count allowed."""
    cells, _, above, below = sides
    if cells < LEAST_CELLS:
        return False
    more, less = max(above, below), min(above, below)
    return more - 2 * more**0.5 > 2 * (less + 2 * less**0.5) and more > 0.01 * cells


def page(cells: Mapping[str, Cell], scheme: str, judged: bool) -> str:
    """The whole document."""
    found = {name: figures(name, cell) for name, cell in cells.items()}
    lines = ["# Levels that hold", "", f"Scheme `{scheme}`.", ""]
    lines += ["Fresh cities." if judged else "Development cities: not the judgement.", ""]
    lines += _table(found)
    return "\n".join([*lines, ""])


def _table(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    head = (
        "| kind | zones | people | ε | MAE median | count | zeros | paris | margins | total | in "
        "its 90 % | ± | " + " | ".join(BIN_NAMES) + " | above/below | CPU s | verdict |"
    )
    lines = [head, "|" + "---|" * head.count(" | ") + "---|"]
    for name, row in found.items():
        kind, zones, people, epsilon = name.split(",")
        bins = [
            "" if cover is None or cells < LEAST_CELLS else f"{100 * cover.mean:.0f}"
            for cover, cells in zip(row["bins"], row["cells"], strict=True)
        ]
        cells = [
            kind,
            zones,
            f"{int(people):,}",
            epsilon,
            f"{row['median'].mean:.3g}",
            f"{row['count'].mean:.3g}",
            f"{row['zeros']:.3g}",
            _mean(row["rival"]),
            _mean(row["margins"]),
            f"{row['total'].mean:.2f}",
            _percent(row["inside"]),
            _percent(row["width"]),
            *bins,
            f"{row['sides'][2]}/{row['sides'][3]}",
            f"{row['cpu']:.2f}",
            "met" if not row["missed"] else "missed: " + ", ".join(row["missed"]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _sum(table: Sequence[Sequence[int]]) -> list[int]:
    return pooled([list(row) for row in table])


def _of(values: Sequence[float | None]) -> Mean | None:
    known = [value for value in values if value is not None]
    return Mean.of(known) if known else None


def _sd(verdicts: Sequence[Verdict]) -> float:
    return Mean.of(v.total for v in verdicts).error * len(verdicts) ** 0.5


def _mean(value: Mean | None) -> str:
    return "–" if value is None else f"{value.mean:.3g}"


def _percent(value: Mean | None) -> str:
    return "–" if value is None else f"{100 * value.mean:.0f}%"
