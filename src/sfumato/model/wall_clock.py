"""From a reading of a wall clock to an instant, the same on every engine.

A clock that is set back shows an hour twice, one that is set forward skips an hour. The rule
here is that of PEP 495 with fold 0: a repeated reading is its *first* instant, a skipped one is
read with the offset before the change. Engines disagree on the first case, so they are given
the offsets as a short table instead of the zone's name.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np
from numpy.typing import NDArray

from sfumato.model.time_grid import MICROSECONDS, zone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEP = 6 * 3600
_MARGIN = 3 * 86_400  # more than any clock was ever moved at once (Samoa skipped a day)
_FIRST = -62_135_596_800 + 2 * _MARGIN  # what `datetime` can hold, years 1 to 9999
_LAST = 253_402_300_799 - 2 * _MARGIN


def _offset(second: int, tz: tzinfo) -> int:
    """Seconds east of UTC at an instant."""
    local = (_EPOCH + timedelta(seconds=second)).astimezone(tz)
    shift = local.utcoffset()
    return 0 if shift is None else int(shift.total_seconds())


def clock_offsets(
    tz: str, first_us: int, last_us: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Table of offsets that holds for every reading of an instant in [first_us, last_us].

    Returns `(breaks, offsets)` in microseconds with one more offset than breaks: a reading r
    (its digits taken as if they were UTC) is the instant r - offsets[k], k the number of breaks
    at or before r. Readings outside the range stay outside it.
    """
    local = zone(tz)
    second = max(_FIRST, first_us // MICROSECONDS - _MARGIN)
    stop = min(_LAST, last_us // MICROSECONDS + _MARGIN)
    offset = _offset(second, local)
    breaks: list[int] = []
    offsets = [offset]
    while second < stop:
        ahead = second + _STEP
        if _offset(ahead, local) != offset:
            low, high = second, ahead
            while high - low > 1:
                middle = (low + high) // 2
                if _offset(middle, local) == offset:
                    low = middle
                else:
                    high = middle
            # The change happens at `high`. Until its later reading the old offset holds.
            after = _offset(high, local)
            breaks.append(high + max(offset, after))
            offsets.append(after)
            second, offset = high, after
        else:
            second = ahead
    return (
        np.array(breaks, np.int64) * MICROSECONDS,
        np.array(offsets, np.int64) * MICROSECONDS,
    )


def apply_offsets(
    readings: NDArray[np.int64], breaks: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Instants of readings by a table of `clock_offsets`: the definition engines agree with."""
    return (readings - offsets[np.searchsorted(breaks, readings, side="right")]).astype(np.int64)
