"""Slots for the page: instants, and the offset and name of local time wherever they change.

The page formats times from these alone. It does not ask the browser for a time zone, so an
old file in a new browser, or the other way round, still shows the hours of the release.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.model.time_grid import MICROSECONDS, zone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def encode_clock(edges: NDArray[np.int64], ends: NDArray[np.int64], tz: str) -> dict[str, Any]:
    """Starts and lengths in seconds, run-length coded, and the changes of local time."""
    starts = edges[:-1] // MICROSECONDS
    lengths = ends // MICROSECONDS - starts
    local = zone(tz)
    changes: list[list[Any]] = []
    for k, second in enumerate(starts.tolist()):
        moment = (_EPOCH + timedelta(seconds=second)).astimezone(local)
        offset = moment.utcoffset() or timedelta(0)
        entry = [int(offset.total_seconds()), moment.tzname() or tz]
        if not changes or changes[-1][1:] != entry:
            changes.append([k, *entry])
    return {
        "tz": tz,
        "first": int(starts[0]),
        "steps": _runs(np.diff(starts)),
        "lengths": _runs(lengths),
        "changes": changes,
    }


def local_start(edges: NDArray[np.int64], tz: str) -> list[datetime]:
    """Every slot's start as a local time."""
    local = zone(tz)
    return [(_EPOCH + timedelta(microseconds=int(e))).astimezone(local) for e in edges[:-1]]


def _runs(values: NDArray[np.int64]) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in values.tolist():
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([int(value), 1])
    return runs
