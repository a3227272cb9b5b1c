"""`LifeQuestion`: how persons live, asked as one vector of known sensitivity.

One user's record gives a few facts: home (the place of most slots at night), work (of most slots in
office hours; of several the first), how many visits, how far apart, how alike successive days are,
where and when visits are that are neither at home nor at work. Each fact is a *block* of cells:

==========  ===========================================  =====================================
block       cells                                        one user adds
==========  ===========================================  =====================================
`pairs`     region of home x region of work              one; the last row and column: none
`homes`     place of home                                one, or nothing
`works`     place of work                                one, or nothing
`commutes`  part of the map of home x distance to work   one, or nothing
`activity`  standing x visits, classes that double       one
`gyration`  visits, coarse x radius of gyration          one
`days`      visits, coarse x likeness of days            one; the last class: a single day
`variety`   visits, coarse x distinct places             one
`roles`     hour of the week x home, work, elsewhere     visits, scaled to length `cap`
`errands`   period x distance from home of elsewhere     visits, scaled to length `cap`
`moves`     part of the day x length of a move           moves, scaled to length `cap`
`calls`     class x visits x how uneven days are         one; where asked for
`profiles`  class x hour of the week                     visits, scaled to length `cap`; likewise
==========  ===========================================  =====================================

What is counted is each block times a whole gain g_b = floor(`LIFE_UNITS` sqrt(share_b)). The
*class* of the last two is a public rule on one record: the period that most of its visits are in
(night, office hours, neither; of several the first), and whether it has more visits than there are
days.

*Claim.* Unit: a user's whole record in the period; neighbours add or remove one. The vector moves
by at most `LIFE_UNITS` in L2. Proof: to each of the first eight blocks and to `calls` a user adds
at most one entry g_b. To each of the other four it adds floor(64 g_b v_i / m) for whole v_i >= 0,
where m is at least 64 |v| (the integer root of 4096 |v|^2, plus one) and at least 64 cap, so the
squares sum to at most g_b^2; in which class is decided by the user's own record. All blocks: sum of
g_b^2 <= LIFE_UNITS^2 times the sum of the shares, at most 1. The pass checks the sum of squares of
every user. L1 by Cauchy-Schwarz over the cells a user touches. Everything is integer arithmetic:
every engine counts the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.time_grid import TimeGrid

Ints = NDArray[np.int64]

LIFE_UNITS = 1 << 16
"""L2 sensitivity of the whole vector, in lattice units."""
PARTS = 8
"""Parts of the map for distances to work: enough that centre and edge differ."""
STANDINGS = 5
"""Neither home nor work; home alone; work alone; both, apart; both at one place."""
ACTIVITY = 12
"""Classes of visits: 1, 2-3, 4-7, ..., 2048 and more."""
COARSE = 5
"""Classes of visits beside other facts: up to 3, 7, 15, 31, more."""
GYRATION = 20
LIKENESS = 21
VARIETY = 12
LENGTHS = 16
"""Classes of distance: nought, then equal steps of the square root of the public extent."""
PERIODS = 3
"""Night, office hours, neither."""
DAYPARTS = 6
KINDS = 2 * PERIODS
"""Classes of calling patterns: when most visits are x up to one a day or more."""
SPREADS = 4
"""Classes of the variance of daily visits over their mean: up to 1/2, 3/2 (chance alone: 1), 3."""
EXTENT = 1 << 12
"""Coordinates are whole numbers up to this: sums of squares of 2^14 visits stay below 2^53."""
CAP = 3
"""Length up to which visits and moves count whole: sparse people have few of either."""
SHARES = {
    "pairs": 0.30,
    "homes": 0.10,
    "works": 0.10,
    "commutes": 0.08,
    "activity": 0.06,
    "gyration": 0.06,
    "days": 0.06,
    "variety": 0.04,
    "roles": 0.10,
    "errands": 0.06,
    "moves": 0.04,
    "calls": 0.0,
    "profiles": 0.0,
}
"""Of rho. Chosen by size before anything was judged: the pairs have a thousand cells and more, the
classes dozens, and the homes and works lean on the released table as well."""
NIGHT, OFFICE = (20, 7), (9, 17)
"""Hours in which people are at home, and on working days at work."""


@dataclass(frozen=True, slots=True, eq=False)
class LifeQuestion:
    """Public facts that the blocks hang on; `offsets` say where each begins in the vector."""

    region: Ints
    """Of each counted place, 0, 1, ..."""
    part: Ints
    """Of each counted place, below `PARTS`."""
    at: Ints
    """Place x 2: whole coordinates, not negative, up to `EXTENT`."""
    edges: Ints
    """Upper ends of the classes of distance, squared, in these coordinates."""
    radii: Ints
    """The same for the radius of gyration."""
    period: Ints
    """Of each slot: 0 night, 1 office hours, 2 neither."""
    hour: Ints
    """Of each slot: hour of a working day, or 24 and more of a weekend."""
    day: Ints
    """Of each slot: days since the first."""
    gains: Ints
    """Of each block, in order."""
    regions: int
    """How many there are, of which counted places may miss some."""

    @property
    def sizes(self) -> dict[str, int]:
        """Cells of each block."""
        places = self.region.size
        return {
            "pairs": (self.regions + 1) ** 2,
            "homes": places,
            "works": places,
            "commutes": PARTS * LENGTHS,
            "activity": STANDINGS * ACTIVITY,
            "gyration": COARSE * GYRATION,
            "days": COARSE * LIKENESS,
            "variety": COARSE * VARIETY,
            "roles": 48 * 3,
            "errands": PERIODS * LENGTHS,
            "moves": DAYPARTS * LENGTHS,
            "calls": KINDS * ACTIVITY * SPREADS if self.gains[11] else 0,
            "profiles": KINDS * 48 if self.gains[12] else 0,
        }

    @property
    def offsets(self) -> Ints:
        return np.concatenate([[0], np.cumsum(list(self.sizes.values()))]).astype(np.int64)

    @property
    def cells(self) -> int:
        return int(self.offsets[-1])

    @property
    def touched(self) -> int:
        """The most cells that one user moves."""
        more = int(self.gains[11] > 0) + 48 * int(self.gains[12] > 0)
        return 8 + 48 * 3 + PERIODS * LENGTHS + DAYPARTS * LENGTHS + more

    def arguments(self) -> tuple[Any, ...]:
        """What the pass over users is given."""
        return (
            self.region,
            self.part,
            self.at,
            self.edges,
            self.radii,
            self.period,
            self.hour,
            self.day,
            self.gains,
            self.offsets,
            self.regions,
        )

    def blocks(self, vector: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """The blocks of a measured vector in people or visits, and noise alike.

        Of blocks of visits, a user's count less where they are longer than the cap.
        """
        found = {}
        offsets = self.offsets
        for k, name in enumerate(self.sizes):
            if self.gains[k] == 0:  # not asked for
                continue
            found[name] = vector[offsets[k] : offsets[k + 1]] / float(self.gains[k])
        return found


def span_of(*centres: NDArray[np.float64]) -> tuple[float, float, float]:
    """Least coordinates of all places, and the longer side of their box."""
    low = np.min([some.min(axis=0) for some in centres], axis=0)
    high = np.max([some.max(axis=0) for some in centres], axis=0)
    return float(low[0]), float(low[1]), max(float((high - low).max()), 1.0)


def whole_coordinates(
    centres: NDArray[np.float64], span: tuple[float, float, float]
) -> NDArray[np.float64]:
    """Coordinates from 0 to `EXTENT`, not yet rounded."""
    found: NDArray[np.float64] = (centres - np.array(span[:2])) * ((EXTENT - 1) / span[2])
    return np.clip(found, 0, EXTENT)


def life_question(
    grid: TimeGrid,
    centres: NDArray[np.float64],
    region: Ints,
    part: Ints,
    span: tuple[float, float, float] | None = None,
    regions: int | None = None,
    shares: Mapping[str, float] = SHARES,
) -> LifeQuestion:
    """The question for counted places at `centres` (metres) and the slots of a grid.

    Args:
        grid: The slots.
        centres: Place x 2, on a plane.
        region: Of each place.
        part: Of each place, below `PARTS`.
        span: Least coordinates, and the longer side of all places; default: of these ones.
        regions: How many there are; default: as many as these places lie in.
        shares: Of rho, by block.

    Raises:
        UsageError: Shares that sum to more than one, or are not those of the blocks.
    """
    if list(shares) != list(SHARES) or min(shares.values()) < 0:
        raise UsageError(f"A life has the blocks {', '.join(SHARES)}.")
    gains = np.array([math.floor(LIFE_UNITS * math.sqrt(s)) for s in shares.values()], np.int64)
    if int((gains * gains).sum()) > LIFE_UNITS**2:
        raise UsageError("The shares of a life's blocks sum to at most 1.")
    at = np.rint(whole_coordinates(centres, span or span_of(centres))).astype(np.int64)
    steps = np.arange(1, LENGTHS - 1) / (LENGTHS - 1)
    edges = np.concatenate([[0], np.floor((steps**2 * 1.2 * EXTENT) ** 2)]).astype(np.int64)
    radii = np.floor((np.arange(1, GYRATION) / GYRATION * EXTENT * 0.5) ** 2).astype(np.int64)
    starts = grid.starts()
    clock = np.array([start.hour for start in starts])
    weekday = np.array([start.weekday() for start in starts])
    night = (clock >= NIGHT[0]) | (clock < NIGHT[1])
    office = (clock >= OFFICE[0]) & (clock < OFFICE[1]) & (weekday < 5)
    first = starts[0].date()
    return LifeQuestion(
        region.astype(np.int64),
        part.astype(np.int64),
        at,
        edges,
        radii,
        np.where(night, 0, np.where(office, 1, 2)).astype(np.int64),
        (clock + 24 * (weekday >= 5)).astype(np.int64),
        np.array([(start.date() - first).days for start in starts], np.int64),
        gains,
        int(region.max()) + 1 if regions is None else regions,
    )
