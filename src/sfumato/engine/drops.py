"""`DropLog`: which rows did not count and why, for the holder's internal log only.

How many rows were dropped is a fact about people's records, so it is on the private side like
the counts: printing the object shows nothing, and `internal_lines` is named for where its
answer may go. Dropping everything is a valid private answer (an error would tell), which the
log says loudly.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class DropReason(StrEnum):
    """Why a row did not count; a row with several faults has the first of these."""

    UNREADABLE = "not a record of its format, or longer than a megabyte"
    NO_USER = "no user"
    NO_TIME = "no time"
    NOT_A_TIME = "not a time"
    OUTSIDE_PERIOD = "outside the period"
    NO_PLACE = "no place"
    UNKNOWN_PLACE = "unknown tower or zone"
    NOT_VALID_THEN = "tower not valid at that time"
    BAD_COORDINATES = "missing or impossible coordinates"
    OUTSIDE_ZONES = "outside all zones"


@dataclass(frozen=True, slots=True, repr=False)
class DropLog:
    """Rows read, kept, and dropped by reason, with the number of the first row of each.

    Row numbers count data rows from 1 in the order of the files; `None` where not known.
    """

    rows: int
    dropped: dict[DropReason, int]
    first_row: dict[DropReason, int | None]
    unfit: int = 0
    """Files of a folder that gave no rows: damaged, or of another kind."""

    @property
    def kept(self) -> int:
        return self.rows - sum(self.dropped.values())

    def __repr__(self) -> str:
        return "<internal drop log>"

    def internal_counts(self) -> dict[str, Any]:
        """The same as numbers, for what is marked internal. Never publish them."""
        return {
            "rows_read": self.rows,
            "rows_counted": self.kept,
            "rows_dropped": {str(reason): number for reason, number in self.dropped.items()},
            "files_without_rows": self.unfit,
        }

    def internal_lines(self) -> list[str]:
        """Lines for the holder's internal log. Never publish them."""
        lines = [f"{self.rows} rows read, {self.kept} counted"]
        if self.rows and not self.kept:
            lines.insert(
                0,
                "WARNING: every row was dropped, all counts are zero (`sfumato inspect` shows how "
                "the rows could be read)",
            )
        if not self.rows:
            lines.insert(0, "WARNING: there were no rows, all counts are zero")
        if self.unfit:
            lines.append(f"WARNING: {self.unfit} files gave no rows (`sfumato inspect` says why)")
        for reason, number in self.dropped.items():
            first = self.first_row.get(reason)
            where = f", first in row {first}" if first is not None else ""
            lines.append(f"{number} rows dropped: {reason}{where}")
        return lines
