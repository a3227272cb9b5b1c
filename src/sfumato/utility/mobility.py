"""Metrics of synthetic people beside true ones: how persons live. INTERNAL results.

A record is a person at a place at an instant, places by number with a middle on a plane (km).
Densities are compared by `utility.density`, trips by `utility.trips`; here stand

========================  =================================================================
`home_work_cpc`           common part of commuters (Gargiulo et al. 2012; Lenormand et al.
                          2012) of home-work pairs, 2 sum min(p, q) / (sum p + sum q), p and q
                          shares of all people with a home and a work, the diagonal (who works
                          where they live) left out of all three sums
`home_jsd`, `work_jsd`    where people live and work
`activity_jsd`            records per person, classes that double
`gyration_jsd`            radius of gyration of a person's records, 20 classes up to the true
                          99th percentile and one above
`repetition_jsd`          repeated days: Jaccard index of the places of a person's day with
                          those of the person's next day with records, mean over such pairs;
                          20 classes
`impossible_moves`        share of moves (next record elsewhere) above 120 km/h; also of the
                          true people (`impossible_moves_true`)
========================  =================================================================

*Home* is the place where a person is seen in most different hours from 20 to 7 o'clock, *work* the
place of most different hours from 9 to 17 on working days; of several the one with the smallest
number. Who is never seen at such hours has none and is in no pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.model.time_grid import MICROSECONDS, clock_offsets
from sfumato.utility.density import jensen_shannon, relative_error
from sfumato.utility.trips import jensen_shannon_bits

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_HOUR_US = 3600 * MICROSECONDS
_MONDAY = 3
"""1 January 1970 was a Thursday."""
FASTEST_KM_H = 120.0
_CLASSES = 20
_WORK = (9, 17)
_NIGHT = (20, 7)


@dataclass(frozen=True, slots=True, eq=False)
class Lives:
    """Records in order of person and time; people are numbered from 0 without gaps."""

    user: Ints
    time: Ints
    """Epoch microseconds."""
    place: Ints
    hour: Ints
    """Hours since the epoch on the local clock."""
    people: int

    @classmethod
    def of(cls, user: Ints, time: Ints, place: Ints, tz: str) -> Lives:
        """Records in any order; those at no place (-1) are left out."""
        there = place >= 0
        user, time, place = user[there], time[there], place[there]
        if user.size == 0:
            raise UsageError("Nobody was seen at these places in this period.")
        _, user = np.unique(user, return_inverse=True)
        if (np.diff(user) < 0).any() or ((np.diff(time) < 0) & (np.diff(user) == 0)).any():
            order = np.lexsort((time, user))
            user, time, place = user[order], time[order], place[order]
        breaks, offsets = clock_offsets(tz, int(time.min()), int(time.max()))
        # Breaks are readings; an instant with its offset is one. At the change itself, an hour's
        # records may be read on the other side of it, which no figure here can tell.
        offset = offsets[np.searchsorted(breaks, time + offsets[0], side="right")]
        return cls(user, time, place, (time + offset) // _HOUR_US, int(user[-1]) + 1)

    @property
    def clock(self) -> Ints:
        """Hour of the day."""
        return self.hour % 24

    @property
    def weekday(self) -> Ints:
        """0 is Monday."""
        return (self.hour // 24 + _MONDAY) % 7

    def main_place(self, which: NDArray[np.bool_], places: int) -> Ints:
        """Where each person is seen in most of these hours; -1 where never."""
        span = int(self.hour.max() - self.hour.min()) + 1
        seen = self.hour[which] - self.hour.min()
        pairs = self.user[which] * places + self.place[which]
        pair, hours = np.unique(np.unique(pairs * span + seen) // span, return_counts=True)
        order = np.lexsort((pair, -hours, pair // places))
        user = pair[order] // places
        first = np.flatnonzero(np.diff(user, prepend=-1))
        found = np.full(self.people, -1)
        found[user[first]] = pair[order][first] % places
        return found

    def homes(self, places: int) -> Ints:
        """The home of each person."""
        return self.main_place((self.clock >= _NIGHT[0]) | (self.clock < _NIGHT[1]), places)

    def works(self, places: int) -> Ints:
        """The work of each person."""
        day = (self.clock >= _WORK[0]) & (self.clock < _WORK[1]) & (self.weekday < 5)
        return self.main_place(day, places)

    def gyration(self, centres: Floats) -> Floats:
        """Radius of gyration of each person, in the unit of the centres."""
        n = np.bincount(self.user, minlength=self.people)
        square = np.zeros(self.people)
        for side in (0, 1):
            at = centres[self.place, side]
            mean = np.bincount(self.user, at, self.people) / n
            square += np.bincount(self.user, np.square(at - mean[self.user]), self.people) / n
        found: Floats = np.sqrt(square)
        return found

    def repetition(self, places: int) -> Floats:
        """Mean Jaccard index of successive days with records; none for people of one day."""
        day = self.hour // 24
        days = int(day.max() - day.min()) + 1
        pair = np.unique((self.user * days + day - day.min()) * places + self.place)
        of_day, sizes = np.unique(pair // places, return_counts=True)
        successive = np.flatnonzero(np.diff(of_day // days) == 0)
        number = np.repeat(np.arange(of_day.size), sizes)
        # A place that is seen on day k and on the person's next day: the same key once moved on.
        moved = (number + 1) * places + pair % places
        both = np.isin(moved, number * places + pair % places, assume_unique=True)
        common = np.bincount(number[both], minlength=of_day.size)[successive]
        index = common / (sizes[successive] + sizes[successive + 1] - common)
        user = of_day[successive] // days
        often = np.bincount(user, minlength=self.people)
        mean = np.bincount(user, index, self.people)[often > 0] / often[often > 0]
        return np.asarray(mean, np.float64)

    def too_fast(self, centres: Floats) -> float:
        """Share of moves above 120 km/h, places taken as their middles (km)."""
        moves = np.flatnonzero((np.diff(self.user) == 0) & (np.diff(self.place) != 0))
        if moves.size == 0:
            return 0.0
        step = centres[self.place[moves + 1]] - centres[self.place[moves]]
        hours = (self.time[moves + 1] - self.time[moves]) / _HOUR_US
        return float((np.hypot(*step.T) > FASTEST_KM_H * hours).mean())


def common_part(true: Ints, made: Ints, size: int) -> float:
    """Of commuters between different places; pairs are from * size + to."""
    if true.size == 0 or made.size == 0:
        return float(true.size == made.size)
    keys, at = np.unique(np.concatenate([true, made]), return_inverse=True)
    p, q = (
        np.bincount(part, minlength=keys.size) / part.size
        for part in (at[: true.size], at[true.size :])
    )
    moves = keys // size != keys % size
    whole = float(p[moves].sum() + q[moves].sum())
    return 2 * float(np.minimum(p, q)[moves].sum()) / whole if whole > 0 else 1.0


def _classes(true: Floats, made: Floats, edges: Floats) -> float:
    at = [np.searchsorted(edges, some, side="right") for some in (true, made)]
    one, other = (np.bincount(some, minlength=edges.size + 1).astype(np.float64) for some in at)
    return jensen_shannon_bits(one, other)


def judge_lives(true: Lives, made: Lives, centres: Floats) -> dict[str, float]:
    """The figures of the module's table; `centres` are the middles of all places, in km.

    Example:
        >>> import numpy as np
        >>> from sfumato.utility.mobility import Lives, judge_lives
        >>> hour = 3_600_000_000
        >>> who = np.repeat(np.arange(3), 2)
        >>> when = np.tile([3 * hour, 10 * hour], 3)
        >>> lives = Lives.of(who, when, np.array([0, 1, 0, 1, 1, 0]), "UTC")
        >>> judge_lives(lives, lives, np.array([[0.0, 0.0], [5.0, 0.0]]))["home_work_cpc"]
        1.0
    """
    size = centres.shape[0]
    found: dict[str, float] = {}
    pairs = []
    homes = [one.homes(size) for one in (true, made)]
    works = [one.works(size) for one in (true, made)]
    for home, work in zip(homes, works, strict=True):
        both = (home >= 0) & (work >= 0)
        pairs.append(home[both] * size + work[both])
    found["home_work_cpc"] = common_part(pairs[0], pairs[1], size)
    for name, (one, other) in (("home_jsd", homes), ("work_jsd", works)):
        counted = [np.bincount(some[some >= 0], minlength=size) for some in (one, other)]
        found[name] = jensen_shannon_bits(*(some.astype(np.float64) for some in counted))
    active = [np.bincount(one.user).astype(np.float64) for one in (true, made)]
    found["activity_jsd"] = _classes(active[0], active[1], np.exp2(np.arange(1.0, 16.0)))
    spread = [one.gyration(centres) for one in (true, made)]
    top = max(float(np.quantile(spread[0], 0.99)), 1e-6)
    edges = np.linspace(0, top, _CLASSES + 1)[1:]
    found["gyration_jsd"] = _classes(spread[0], spread[1], edges)
    again = [one.repetition(size) for one in (true, made)]
    found["repetition_jsd"] = _classes(again[0], again[1], np.linspace(0, 1, _CLASSES + 1)[1:-1])
    found["impossible_moves"] = made.too_fast(centres)
    found["impossible_moves_true"] = true.too_fast(centres)
    return found


def judge_density(true: Floats, made: Floats) -> dict[str, float]:
    """Hourly density, place x slot: mean relative error (0.1 % sanity) and divergence in bits.

    The made table is scaled to the true total: how many people are made up is a public choice.
    """
    scaled = made * (true.sum() / max(made.sum(), 1e-9))
    with np.errstate(invalid="ignore"):
        apart = jensen_shannon(true, scaled)
    error = float(relative_error(true, scaled).mean())
    known = apart[np.isfinite(apart)]
    return {
        "hourly_mre": error,
        "hourly_jsd": float(known.mean()) if known.size else 0.0,
        "density_jsd": jensen_shannon_bits(true.sum(axis=1), made.sum(axis=1)),
    }
