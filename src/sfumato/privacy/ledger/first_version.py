"""What rows of the first version left unsaid, found again in what they do say.

Ledgers made before version 2 of the schema name a day without its clock and a window without the
length of its slots. Their reservations hold the SHA-256 of the time grid (zone, step and edges)
and the period, and a grid is decided by zone and step: trying the zones and the usual steps
finds the one that has this digest, which proves it. Where none has, the clock stays unknown and
every account counts the charge at its dearest.

The radius of Gaussian noise on locations stands in the text of its settings.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
from numpy.typing import NDArray

from sfumato.model.errors import UsageError
from sfumato.model.time_grid import MICROSECONDS
from sfumato.privacy.ledger.nesting import day_edges
from sfumato.privacy.units import Unit, UnitKind

_DAY_S = 86_400
_STEPS_S = (3600, 1800, 900, 600, 300, 60, 1200, 7200, 10800, 14400, 21600, 28800, 43200, _DAY_S)
_EARTH_RADIUS_M = 6_371_008.8
"""The mean radius; see `traces.kernels`, of which a lattice step is a part."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RADIUS = re.compile(r"radius_m=([0-9.e+-]+)")
Edges = NDArray[np.int64]


def unit_as_charged(unit: Unit, period: tuple[int, int], config: dict[str, Any]) -> Unit:
    """The unit with its clock, or with its window as a length of time."""
    open_day = unit.kind is UnitKind.USER_DAY and unit.clock is None
    open_window = unit.kind is UnitKind.W_EVENT and unit.span_s is None
    digest = config.get("time grid")
    if not (open_day or open_window) or not isinstance(digest, str):
        return unit
    found = _grid(digest, *period)
    if found is None:
        return unit
    clock, step_s, shortest = found
    if open_day:
        return Unit(unit.kind, clock=clock)
    assert unit.window is not None
    # Slots of unequal length (where the step does not divide a day) make shorter windows.
    span = unit.window * shortest
    if shortest < step_s and span % step_s == 0:
        span -= 1  # no whole number of slots: their edges do not lie a step apart
    return Unit(unit.kind, None, max(span, 1), step_s)


def distance_as_charged(config: dict[str, Any]) -> tuple[float | None, float]:
    """Radius of Gaussian noise on locations, where there is one, and the lattice step."""
    match = _RADIUS.search(str(config.get("gaussian") or ""))
    rows = config.get("lattice")
    step = math.radians(1.0 / rows) * _EARTH_RADIUS_M if isinstance(rows, int) and rows else 0.0
    return (None if match is None else float(match[1])), step


@lru_cache(maxsize=64)
def _grid(digest: str, begin: int, end: int) -> tuple[str, int, int] | None:
    """Zone, step and shortest slot (seconds) of the grid that has this digest."""
    if begin % MICROSECONDS or end % MICROSECONDS or not 0 < end - begin < 40_000 * 86400 * 10**6:
        return None
    seen: dict[bytes, list[tuple[int, Edges]]] = {}
    for name in sorted(available_timezones()):
        if not (_midnight(name, begin) and _midnight(name, end)):
            continue
        try:
            days = day_edges(name, begin, end)
        except UsageError:
            continue
        if days[0] != begin or days[-1] != end:
            continue
        if days.tobytes() not in seen:
            seen[days.tobytes()] = [(step, _slots(days, step)) for step in _STEPS_S]
        for step, edges in seen[days.tobytes()]:
            text = f"time-grid/1|{name}|{float(step)}|".encode()
            if hashlib.sha256(text + edges.tobytes()).hexdigest() == digest:
                return name, step, int(np.diff(edges).min()) // MICROSECONDS
    return None


def _midnight(name: str, instant: int) -> bool:
    """Whether a local day may begin there: at midnight, or at one where midnight is skipped."""
    try:
        local = (_EPOCH + timedelta(microseconds=instant)).astimezone(ZoneInfo(name))
    except (OSError, ValueError):
        return False
    return local.hour <= 1 and local.second == 0


def _slots(days: Edges, step: int) -> Edges:
    """The edges of slots of this step, begun afresh at every midnight."""
    if step == _DAY_S:
        return days.astype("<i8")
    pieces = [np.arange(a, b, step * MICROSECONDS) for a, b in pairwise(days)]
    return np.concatenate([*pieces, days[-1:]]).astype("<i8")
