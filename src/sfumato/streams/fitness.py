"""Will a stream be of any use? Said from public facts alone, before anything is spent.

A stream that is paid for and publishes nearly zeros costs its people epsilon and tells nobody
anything, so `stream` asks first, as `release` does (`density.fitness`). Nothing private decides:
the verdict follows from the expected people, the cells, the budget and the unit, so whether there
is a stream says nothing about anybody.

**The rule.** The *signal* of a stream is

    epsilon x people a cell x sqrt(windows of the first week) / what a unit changes in a slot,

one person's noise against the mean people of a cell, averaged over a week of windows. Below
`LEAST` the default gained less than a tenth over zeros on all cells, and on the busiest it was
behind simple answers or level with zeros: crowds of 500 to 5,000 people and cabs, at epsilon .1 to
4, on development data (docs/decisions/streams.md, "Useless streams"). People are spread unevenly,
which is not public: a fleet that crowds in a few cells gains more than a crowd of the same signal,
so the rule refuses only what failed for both. It is judged for a week at most: later windows make a
map better, but nobody reads the first weeks of zeros.

Only schemes that declare it are judged: the defaults. A stream by another one, or without expected
people, is not refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.errors import Unfit
from sfumato.privacy.events import UnitKind
from sfumato.streams.facts import StreamFacts
from sfumato.streams.registry import SCHEMES

LEAST = 0.25
"""Signal below which a stream is of no use. At .165 a crowd of 500 was level with zeros (1.00 on
all cells) and .80 of simple answers on the busiest; at .26 a crowd of 2,000 had 1.01 and 1.02, at
.33 cabs 1.07 and 1.22 and a crowd of 5,000 1.11 and 1.25."""
_WEEK = 7
_FEWEST, _MOST_EPSILON = 4, 5.0
"""Cells and epsilon up to which changes are suggested, as for releases."""
_MORE = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
_CLEARLY = 1.3
"""How many times the least signal a change must have that is suggested."""


@dataclass(frozen=True, slots=True)
class Fitness:
    """The verdict on a stream."""

    signal: float

    @property
    def useless(self) -> bool:
        """Whether a stream is refused unless it is asked for all the same."""
        return self.signal < LEAST

    @property
    def reason(self) -> str:
        """What is too small, in words."""
        return (
            f"its signal (epsilon times the expected people a cell, over a week) is "
            f"{self.signal:.2g}, and below {LEAST:g} hardly anything but zeros comes out"
        )

    @property
    def caveats(self) -> list[str]:
        """For the reader of a stream that was made all the same."""
        if not self.useless:
            return []
        return [
            "Before anything was measured, public facts said of a stream like this one that "
            f"{self.reason}. It was published all the same."
        ]


def fitness(scheme: str, facts: StreamFacts) -> Fitness | None:
    """The verdict; None where nobody says how many people there are, or on no default."""
    if facts.expected_users is None or not SCHEMES[scheme].declares.judged:
        return None
    people = facts.expected_users / facts.cells
    # Two digits: the same verdict on every machine.
    signal = facts.epsilon * people * math.sqrt(_first_week(facts)) / facts.l1
    return Fitness(float(f"{signal:.2g}"))


def _first_week(facts: StreamFacts) -> int:
    """The windows of the first week, side by side."""
    if facts.unit.kind is UnitKind.USER_DAY:
        return min(facts.windows, _WEEK)
    slots = int(np.searchsorted(facts.calendar.day, facts.calendar.day[0] + _WEEK))
    return -(-slots // facts.window)


def require_fit(scheme: str, facts: StreamFacts, grid: str | None = None) -> None:
    """Refuse a stream that would be of no use.

    Args:
        scheme: Its name.
        facts: Everything public about it.
        grid: The grid of its zones, if they are one, to suggest a coarser.

    Raises:
        Unfit: It would be of no use. Nothing was read and nothing was spent.
    """
    found = fitness(scheme, facts)
    if found is None or not found.useless:
        return
    working = _working(found.signal, facts, grid)
    works = f"Of use would be {', or '.join(working)}. " if working else ""
    raise Unfit(
        "Public facts say that this stream would be of no use: "
        f"{found.reason}. Nothing was read and nothing was spent.",
        remedy=f"{works}`anyway` publishes it all the same.",
    )


def _working(signal: float, facts: StreamFacts, grid: str | None) -> list[str]:
    """The smallest changes that would be of use: coarser cells, more epsilon."""
    from sfumato.density.suggest import coarser_grids  # it loads what releases are made of

    lacks = _CLEARLY * LEAST / signal
    fewer = [
        f'`grid="{text}"`'
        for text, times in coarser_grids(grid or "")
        if times >= lacks and facts.cells / times >= _FEWEST
    ]
    most = math.floor(facts.cells / lacks)
    if grid is None and most >= _FEWEST:
        fewer = [f"at most {most:,} places"]
    budgets = [float(f"{facts.epsilon * more:.2g}") for more in _MORE if more >= lacks]
    more = [f"`epsilon={one:g}`" for one in budgets if one <= _MOST_EPSILON]
    return [*fewer[:1], *more[:1]]
