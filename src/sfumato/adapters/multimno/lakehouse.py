"""Where multimno keeps its data objects, and which of their files belong to a period.

Folders are those of its general configuration; older releases put silver objects one level higher.
Days are UTC days, as in its Spark session.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from sfumato.model.errors import InputError
from sfumato.model.time_grid import TimeGrid

EVENTS = ("silver/cleaning/mno_events", "silver/mno_events", "bronze/mno_events")
NETWORK = ("silver/network_coverage/mno_network", "silver/mno_network", "bronze/mno_network")
ZONES = ("bronze/spatial/geographic_zones", "bronze/geographic_zones")
GRID = ("silver/setup/grid", "silver/grid")
_KEY = re.compile(r"([a-z_]+)=([^/]+)")


@dataclass(frozen=True, slots=True)
class Part:
    """A file and what the names of its folders say."""

    path: Path
    keys: dict[str, str]

    @property
    def day(self) -> date | None:
        """The day of the partition, if it is partitioned by day."""
        try:
            year, month, day = (int(self.keys[name]) for name in ("year", "month", "day"))
            return date(year, month, day)
        except (KeyError, ValueError):
            return None


def find(lakehouse: Path, places: tuple[str, ...], what: str) -> Path:
    """The first of the folders that exists, or an error that lists them."""
    for place in places:
        if (lakehouse / place).is_dir():
            return lakehouse / place
    raise InputError(
        f"there are no {what}: none of {', '.join(places)} is there.",
        file=str(lakehouse),
        remedy="Point to multimno's lakehouse folder, which holds bronze and silver.",
    )


def parts(folder: Path) -> list[Part]:
    """All Parquet files of a public data object; there is one at least."""
    found = listed(folder)
    if not found:
        raise InputError("the data object holds no Parquet file.", file=str(folder))
    return found


def listed(folder: Path) -> list[Part]:
    """All Parquet files of a data object, in the order of their names."""
    return [
        Part(path, dict(_KEY.findall(str(path.relative_to(folder).parent))))
        for path in sorted(folder.rglob("*.parquet"))
        if not any(piece[0] in "._" for piece in path.relative_to(folder).parts)
    ]


def days_of(grid: TimeGrid) -> list[date]:
    """The UTC days that the period touches."""
    first, last = (
        (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=edge)).date()
        for edge in (grid.period[0], grid.period[1] - 1)
    )
    return [first + timedelta(days=k) for k in range((last - first).days + 1)]


def day_for(wanted: date, known: list[date]) -> date:
    """The day itself, else the last one before it, else the first one after it."""
    before = [day for day in known if day <= wanted]
    return max(before) if before else min(known)


def midnight(day: date) -> int:
    """Epoch microseconds of a UTC day's beginning."""
    return int((day - date(1970, 1, 1)).days) * 86_400_000_000
