"""Tables and verdicts of the levels study, against the bars that were set before it was run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks._levels_judge import BIN_NAMES, HOURS, Mean, Verdict, held, one_sided, pooled
from benchmarks._levels_people import KINDS

BAND = (0.85, 0.95)
LARGE_BAND = (0.87, 0.93)
LARGE = 200_000
"""People from which the narrower band holds."""
LEAST_CELLS = 200
"""Cells, over all releases, below which a coverage says nothing."""
HALF_WIDTH = {0.3: 0.25, 1.0: 0.15}
WIDTHS_FROM = 5_000
Cell = Mapping[str, Any]
Figures = Mapping[str, Any]


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
    people, epsilon = name.split(",")[2:]
    told = [v for v in verdicts if v.inside is not None]
    found: dict[str, Any] = {
        "people": int(people),
        "epsilon": float(epsilon),
        "releases": len(verdicts),
        "zeros": sum(cell["zeros"]) / len(cell["zeros"]),
        "median": Mean.of(v.mae_median for v in verdicts),
        "count": Mean.of(v.mae_count for v in verdicts),
        "rival": Mean.of(cell["rival"]) if cell["rival"] else None,
        "margins": _of([v.mae_margins for v in verdicts]),
        "total": Mean.of(v.total for v in verdicts),
        "inside": _of([float(bool(v.inside)) for v in told]),
        "width": _of([v.half_width for v in told]),
        "cpu": sum(v.cpu for v in verdicts) / len(verdicts),
        **coverages(verdicts),
    }
    found["missed"] = _missed(found)
    return found


def coverages(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """What the cells' intervals held, by published count, hour and side."""
    bins = [v.bins for v in verdicts if v.bins is not None]
    hours = [v.hours for v in verdicts if v.hours is not None]
    busy = [v.busy_hours for v in verdicts if v.busy_hours is not None]
    sides = [v.asymmetric for v in verdicts if v.asymmetric is not None]
    return {
        "bins": [held(table[k] for table in bins) for k in range(len(BIN_NAMES))],
        "cells": [sum(table[k][0] for table in bins) for k in range(len(BIN_NAMES))],
        "cover": held(pooled(table) for table in bins),
        "hours": [held(table[h] for table in hours) for h in range(HOURS)],
        "busy": [
            held(table[h] for table in busy)
            if sum(table[h][0] for table in busy) >= LEAST_CELLS
            else None
            for h in range(HOURS)
        ],
        "sides": pooled(sides) if sides else [0, 0, 0, 0],
        "one-sided": one_sided(sides),
    }


def _missed(found: Figures) -> list[str]:
    """Bars of one cell of the design that are missed by more than two standard errors."""
    missed = []
    median: Mean = found["median"]
    for key, name in (("zeros", "zeros"), ("rival", "paris"), ("margins", "margins")):
        other = found[key]
        if other is None:
            continue
        level, error = (other, 0.0) if isinstance(other, float) else (other.mean, other.error)
        if median.mean > level + 2 * (median.error**2 + error**2) ** 0.5:
            missed.append(f">{name}")
    width: Mean | None = found["width"]
    wanted = HALF_WIDTH.get(found["epsilon"])
    if (
        width is not None
        and wanted is not None
        and found["people"] >= WIDTHS_FROM
        and width.mean - 2 * width.error > wanted
    ):
        missed.append("wide")
    inside: Mean | None = found["inside"]
    if inside is not None:
        # Standard error of a share of that many releases, were it 90 %.
        slack = 2 * (0.9 * 0.1 / found["releases"]) ** 0.5
        if inside.mean + slack < BAND[0]:
            missed.append("total")
    return missed + missed_coverages(found, LARGE_BAND if found["people"] >= LARGE else BAND)


def missed_coverages(found: Figures, band: tuple[float, float]) -> list[str]:
    """Bins, hours and sides that leave the band by more than two standard errors."""
    missed = []
    for k, (name, cells) in enumerate(zip(BIN_NAMES, found["cells"], strict=True)):
        if cells >= LEAST_CELLS and _outside(found["bins"][k], band, upwards=k > 0):
            missed.append(f"cover[{name}]")
    wrong = sum(_outside(hour, band, upwards=False) for hour in found["hours"])
    if wrong:
        missed.append(f"hours({wrong})")
    wrong = sum(_outside(hour, band, upwards=True) for hour in found["busy"])
    if wrong:
        missed.append(f"hours≥1({wrong})")
    if found["one-sided"] and found["sides"][0] >= LEAST_CELLS:
        missed.append("one-sided")
    return missed


def _outside(cover: Mean | None, band: tuple[float, float], upwards: bool) -> bool:
    """Whether coverage leaves its band by more than two errors. Too much is no fault among cells
    that hold nearly nothing: whole numbers there leave no interval of 90 %."""
    if cover is None:
        return False
    slack = 2 * cover.error
    return cover.mean + slack < band[0] or (upwards and cover.mean - slack > band[1])


LAWS = """## The people

Stated before anything was judged. One week of hours each (10 to 16 September 2007, Paris time); δ
is a tenth of one over the people; the release is told the people to one digit and nothing about
their visits.

* *calls*: the made-up city of `sfumato city` as it is, 1.32 towers a zone, an overlay; tower-hours
  of a person with mean 13.55 and standard deviation 18.33.
* *gps*: one zone an hour, no overlay. Hours seen in the week follow a **real** law, the hours with
  a fix of 1,544 cab-weeks of Cabspotting (mean 127, deviation 28, 5 % below 68, at most 165); which
  hours, by the cabs' own hours of day. Whereabouts are made: three in five people commute to a zone
  drawn by gravity, one in four is mostly at home, the others roam; outings are to six zones of
  their own near home.
* *check-ins*: P(at least k check-ins) = k^-1.25 up to 400, so the mean is 3.8 and three people in a
  thousand have more than 100; zones are drawn by Zipf's law (exponent 1), three in five check-ins
  are at one of a person's own three places; evenings and weekends are full. No overlay.
* *Real*: Cabspotting in 41 neighbourhoods and 195 tracts (fixes thinned to hour and zone), Hangzhou
  call records, São Paulo phones, C2TM aggregates with people dealt to them; see
  `benchmarks/_levels_real.py`.

## How it is judged

* 20 releases and more for each cell of the design, spread over four cities. Seeds 500 to 899 are
  for development; the judgement is on cities from seed 130,000 on, which tuned nothing.
* MAE of `median` must not exceed that of zeros, of `paris`, or of the product of the release's own
  noisy margins (negative totals set to zero, at the release's own total), two standard errors
  allowed.
* The true total must lie in the total's 90 % interval in 85 to 95 % of all releases; from 5,000
  people on half of its width is at most 25 % (ε 0.3) or 15 % (ε 1) of the total.
* Cells' intervals hold 85 to 95 % (87 to 93 % from 200,000 people on) by **published** count and by
  hour of day, releases averaged, two standard errors allowed, a release counting as one
  observation. Where the published count is below one, and by hour over all cells, too much is no
  fault: whole numbers near zero leave no interval of 90 %. By hour, cells with a published count of
  one or more are judged on both sides. Bins of fewer than 200 cells in all, or of fewer than three
  releases, are not judged.
* Misses above and below differ by at most twice, among cells whose interval does not begin at zero:
  nothing can be below zero."""


def page(cells: Mapping[str, Cell], scheme: str, judged: bool) -> str:
    """The whole document."""
    order = sorted(cells, key=_order)
    found = {name: figures(name, cells[name]) for name in order}
    lines = [
        "# Levels that hold",
        "",
        "Made by `python -m benchmarks levels`"
        + ("." if judged else ", on development cities: not the judgement."),
        f"Scheme `{scheme}`; figures are means over releases.",
        "",
        LAWS,
    ]
    if not found:
        return "\n".join([*lines, "", "Not judged so far.", ""])
    lines += [
        "",
        "## Verdict",
        "",
        *_verdict(found, cells),
        "",
        "## Every cell of the design",
        "",
        "*total*: published over true; *in*: true total in its 90 % interval; *±*: half of that "
        "interval; then what the cells' intervals hold, in %, by published count; misses above "
        "and below. A dash: not published.",
        "",
        *_table(found),
        "",
        "## By hour of day",
        "",
        "What the intervals of cells with a published count of one or more hold, in %.",
        "",
        *_hours(cells),
    ]
    return "\n".join([*lines, ""])


def _order(name: str) -> tuple[int, str, int, int, float]:
    kind, zones, people, epsilon = name.split(",")
    real = KINDS.index(kind) if kind in KINDS else len(KINDS)
    return real, kind if real == len(KINDS) else "", int(zones), int(people), float(epsilon)


def _verdict(found: Mapping[str, Figures], cells: Mapping[str, Cell]) -> list[str]:
    """How many cells meet each bar, and the pooled ones."""
    lines = ["| bar | met | missed by |", "|---|---|---|"]
    bars: list[tuple[str, Callable[[str], bool]]] = [
        ("MAE of `median` against zeros", lambda m: m == ">zeros"),
        ("against `paris`", lambda m: m == ">paris"),
        ("against the product of margins", lambda m: m == ">margins"),
        ("width of the total's interval", lambda m: m == "wide"),
        ("total in its interval, cell by cell", lambda m: m == "total"),
        ("coverage by published count", lambda m: m.startswith("cover")),
        ("coverage by hour", lambda m: m.startswith("hours")),
        ("misses above and below", lambda m: m == "one-sided"),
    ]
    for label, is_bar in bars:
        missed = [name for name, row in found.items() if any(map(is_bar, row["missed"]))]
        few = "; ".join(missed[:6]) + (f" and {len(missed) - 6} more" if len(missed) > 6 else "")
        lines.append(f"| {label} | {len(found) - len(missed)} of {len(found)} | {few} |")
    told = [v for cell in cells.values() for v in cell["verdicts"] if v.inside is not None]
    share = Mean.of(float(bool(v.inside)) for v in told) if told else None
    met = share is not None and BAND[0] <= share.mean <= BAND[1]
    lines.append(
        f"| total in its interval, all {len(told)} releases | {'met' if met else 'missed'} | "
        f"{_percent(share)} |"
    )
    return lines


def _table(found: Mapping[str, Figures]) -> list[str]:
    columns = [
        *("kind", "zones", "people", "ε", "MAE median", "count", "zeros", "paris", "margins"),
        *("total", "in", "±", *BIN_NAMES, "above/below", "CPU s", "verdict"),
    ]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for name, row in found.items():
        kind, zones, people, epsilon = name.split(",")
        bins = [
            "" if cover is None or cells < LEAST_CELLS else f"{100 * cover.mean:.0f}"
            for cover, cells in zip(row["bins"], row["cells"], strict=True)
        ]
        values = [
            *(kind, zones, f"{int(people):,}", epsilon),
            *(f"{row['median'].mean:.3g}", f"{row['count'].mean:.3g}", f"{row['zeros']:.3g}"),
            *(_mean(row["rival"]), _mean(row["margins"]), f"{row['total'].mean:.2f}"),
            *(_percent(row["inside"]), _percent(row["width"]), *bins),
            f"{row['sides'][2]}/{row['sides'][3]}",
            f"{row['cpu']:.2f}",
            "met" if not row["missed"] else "missed: " + ", ".join(row["missed"]),
        ]
        lines.append("| " + " | ".join(values) + " |")
    return lines


def _hours(cells: Mapping[str, Cell]) -> list[str]:
    kinds: dict[str, list[Verdict]] = {}
    for name, cell in cells.items():
        kinds.setdefault(name.split(",")[0], []).extend(cell["verdicts"])
    lines = ["| kind | " + " | ".join(map(str, range(HOURS))) + " |", "|" + "---|" * (HOURS + 1)]
    for kind, verdicts in kinds.items():
        busy = coverages(verdicts)["busy"]
        row = ["" if cover is None else f"{100 * cover.mean:.0f}" for cover in busy]
        lines.append(f"| {kind} | " + " | ".join(row) + " |")
    return lines


def _of(values: Sequence[float | None]) -> Mean | None:
    known = [value for value in values if value is not None]
    return Mean.of(known) if known else None


def _sd(verdicts: Sequence[Verdict]) -> float:
    return Mean.of(v.total for v in verdicts).error * len(verdicts) ** 0.5


def _mean(value: Mean | None) -> str:
    return "–" if value is None else f"{value.mean:.3g}"


def _percent(value: Mean | None) -> str:
    return "–" if value is None else f"{100 * value.mean:.0f}"
