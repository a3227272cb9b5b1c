"""Slots that are over before a stream begins, by the machine's clock: refused, or said.

A stream that comes closes its slots by the clock. What is over when it begins closes at the first
look: of a folder and a topic with what is there by then, of a pipe before a line was read. A feed
with a clock of its own (`feed`, `broker`, the file `CLOCK` of a folder) says itself when a slot is
over, and a program that pushes closes slots itself; of these nothing is said here.

The answer hangs on the clock and on public options alone. It is asked of a new stream before
anything is reserved; one that was begun is paid for, and goes on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.errors import UsageError
from sfumato.model.rounding import number_of
from sfumato.model.time_grid import MICROSECONDS, TimeGrid
from sfumato.streams.input import folder_clock, machine_clock

_HISTORY = "Publish finished records as a history: name their files without `follow`"
_REMEDIES = {
    "folder": f"{_HISTORY}. A feeder that knows better what time it is writes it to a file CLOCK "
    "in the folder.",
    "pipe": "Publish finished records as a history: name their file instead of the pipe. Where the "
    "lines state the time, say `clock` feed.",
}
_AT_ONCE = {
    "folder": "with what the folder holds at the first look; what comes for them later is not "
    "counted",
    "pipe": "before a line is read",
    "topic": "with what the topic holds by now; what comes for them later is not counted",
}


_BEGINS_NOW = " A feed that begins now is said to, by `start='{:%Y-%m-%dT%H:%M}'`."


def slots_over(grid: TimeGrid, delay_seconds: int, clock_us: int) -> int:
    """How many slots the clock has closed, the public delay included."""
    ends = grid.edges[1:] + delay_seconds * MICROSECONDS
    return int(np.searchsorted(ends, clock_us, side="right"))


def overdue(
    grid: TimeGrid, delay_seconds: int, begins: int, source: str, folder: Path | None = None
) -> list[str]:
    """What to take note of before a stream on the machine's clock begins; often nothing.

    Args:
        grid: Its slots.
        delay_seconds: How long one stays open after its end.
        begins: The slot with which the feed begins; those before are zeros that cost nothing.
        source: Where events come from: folder, pipe or topic.
        folder: The folder.

    Raises:
        UsageError: The whole period is over, and there is another way to publish it. A topic has
            none where its broker does not stamp: all it holds is read before the first tick.
    """
    now = machine_clock()
    if folder is not None:
        tick = folder_clock(folder)
        if tick.stated:
            return []
        now = tick.clock_us
    over = slots_over(grid, delay_seconds, now)
    if over == grid.slots and source in _REMEDIES:
        raise UsageError(
            "The period is over by the machine's clock: all its slots would close at once, "
            f"{_AT_ONCE[source]}.",
            remedy=_REMEDIES[source],
        )
    if over <= begins:
        return []
    later = "" if over == grid.slots else _BEGINS_NOW.format(grid.start(over).replace(tzinfo=None))
    return [
        f"{over - begins} of {number_of(grid.slots - begins, 'slots')} "
        f"{'is' if over - begins == 1 else 'are'} over by the machine's "
        f"clock and close at once, {_AT_ONCE[source]}.{later}"
    ]
