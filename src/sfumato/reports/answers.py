"""Pictures of answers: a profile as a line with its band, everything else as bars with intervals.

    week.rank("zone", top=5, hours="7-10").plot()

Drawn with matplotlib from the answer alone; every picture names the release and its privacy loss.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.io.write import make_folder, write_atomically
from sfumato.published.answers import Answer, Row, shown
from sfumato.published.estimate import Estimate
from sfumato.reports.figures import new_figure, png, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOUR, _ODD, _GREY = "#c2410c", "#1d4ed8", "#5c6070"
_MOST_BARS = 40
"""More groups than this are a line: bars would be hairs."""
_KEYS = ("name", "zone_id", "district", "hour", "weekday", "day", "slot", "what")
_VALUES = ("average", "count", "present", "share", "total")


def draw(answer: Answer) -> Figure:
    """The picture of an answer.

    Args:
        answer: What a release was asked, answered.

    Returns:
        A figure, which a notebook shows.

    Raises:
        UsageError: There is nothing to draw (SQL's tables), or matplotlib is not installed.

    Example:
        >>> draw(week.profile("hour")).savefig("day.png")       # doctest: +SKIP
    """
    rows = [row for row in answer.rows if row.get("what") not in ("difference", "ratio")]
    value = next((name for name in _VALUES if rows and isinstance(rows[0].get(name), Estimate)), "")
    if not value:
        raise UsageError("This answer has no picture.", remedy="Take its table.")
    key = next((name for name in _KEYS if name in rows[0]), "")
    timed = isinstance(rows[0].get(key), datetime)
    if timed or len(rows) > _MOST_BARS or (answer.kind == "profile" and key in ("hour", "day")):
        drawn = _line(rows, key, value)
    else:
        drawn = _bars(rows, key, value)
    said = textwrap.fill(answer.headline.replace(" %", "\N{NO-BREAK SPACE}%"), 92)
    drawn.suptitle(said, fontsize=10, x=0.01, ha="left")
    asked = textwrap.fill(answer.question, 88)
    drawn.axes[0].set_title(asked, fontsize=7.5, color=_GREY, loc="left")
    warned = [note for note in answer.notes if note.startswith("Not ")]
    text = " ".join([*warned, answer.signature])
    drawn.supxlabel(text, fontsize=7, color=_GREY, x=0.01, ha="left")
    return drawn


def write_picture(answer: Answer, folder: Path) -> list[Path]:
    """`answer.png` and `answer.svg` in a folder, which is made if need be."""
    drawn = draw(answer)
    make_folder(folder)
    written = []
    for suffix, save in (("png", png), ("svg", svg)):
        path = folder / f"answer.{suffix}"
        write_atomically(path, save(drawn))
        written.append(path)
    return written


def _line(rows: Sequence[Row], key: str, value: str) -> Figure:
    """Times along the axis, the band of the interval, odd ones marked."""
    drawn, axes = new_figure((7.2, 3.4))
    at = list(range(len(rows)))
    found = [row[value] for row in rows]
    if all(one.lower is not None for one in found):
        low, high = zip(*(one.ends for one in found), strict=True)
        axes.fill_between(at, low, high, color=_COLOUR, alpha=0.18, lw=0)
    axes.plot(at, [one.value for one in found], color=_COLOUR, lw=1.5,
              marker="o" if len(rows) <= 31 else "", ms=3)  # fmt: skip
    if "usual" in rows[0]:
        axes.plot(at, [row["usual"] for row in rows], color=_GREY, lw=1, ls="--", label="usual")
        odd = [k for k, row in enumerate(rows) if row["unusual"]]
        if odd:
            axes.plot(odd, [found[k].value for k in odd], "o", color=_ODD, label="unusual")
        axes.legend(frameon=False, fontsize=8)
    marks = _marks(rows, key)
    axes.set_xticks(marks, [_tick(rows[k].get(key)) for k in marks], fontsize=8,
                    rotation=30 if len(marks) > 8 else 0)  # fmt: skip
    return _finished(drawn, axes, value)


def _bars(rows: Sequence[Row], key: str, value: str) -> Figure:
    """One bar a row, the first on top, with whiskers where an interval is stated."""
    drawn, axes = new_figure((7.2, 1.5 + 0.3 * len(rows)))
    at = list(range(len(rows)))
    found: list[Estimate] = [row[value] for row in rows]
    axes.barh(at, [one.value for one in found], color=_COLOUR, alpha=0.75, height=0.62)
    for k, one in enumerate(found):
        if one.lower is not None:
            axes.plot(one.ends, (k, k), color="#222", lw=1.2, marker="|", ms=6)
    labels = [textwrap.fill(_tick(row.get(key, "")), 44) for row in rows]
    axes.set_yticks(at, labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(left=min(0.0, *(one.lower or one.value for one in found)))
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(_axis(value), fontsize=8)
    return drawn


def _marks(rows: Sequence[Row], key: str) -> list[int]:
    """Rows that are named below the axis: midnights, where there are some days of them."""
    times = [row.get(key) for row in rows]
    nights = [k for k, time in enumerate(times) if isinstance(time, datetime) and time.hour == 0]
    some = nights if len(nights) > 2 else list(range(len(rows)))
    return some[:: max(1, -(-len(some) // 12))]


def _finished(drawn: Figure, axes: Any, value: str) -> Figure:
    axes.set_ylabel(_axis(value), fontsize=8)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.spines[["top", "right"]].set_visible(False)
    return drawn


def _axis(value: str) -> str:
    return {"average": "on average, in a slot"}.get(value, value)


def _tick(key: object) -> str:
    return key.strftime("%a %d, %H:%M") if isinstance(key, datetime) else shown(key)
