"""The posterior of a density: draws, from which value, median, interval and every sum come.

Draws hold what is not known of a count's expectation: the level, the totals of places and of slots,
the layers. On top comes chance: a count is a whole number of visits around its expectation, or
is gathered from shares of such numbers, and the part of that which the measurement did not see has
a variance and no draws. Draws come in pairs that lie on both sides of the mean, so
that their mean has hardly any chance of its own.

Quantiles are those of a law fitted to the draws' mean and variance, not order statistics of a few
draws (`published.estimate`). What readers get is the same posterior in factors, small enough to
lie beside the table (`published.posterior`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_array

from sfumato.density.draws import (
    Draws,
    each,
    mean_in,
    mean_of,
    room_for,
    sums_of,
    variance_in,
    variance_of,
)
from sfumato.model.tiles import beside, is_large, tiles
from sfumato.published.estimate import Estimate, count_quantiles, smooth_quantile
from sfumato.published.posterior import MOST_FIELDS, packed

Table = NDArray[np.float64]
Vector = NDArray[np.float64]

_SEED = 20170403
_QUARTER, _REACH, _WAVES, _MOST = 5.0, 0.5, 64, 0.5
"""What the bound took differs from quarter to quarter by this over the root of the people, times
what it took in all; over half the radius of the city. On made-up call records (200,000 people), GPS
(30,000) and 516 real cabs in 41 quarters the sums of random discs were off by a smooth error of 1,
3 and 20 % that independent places did not have, which is five to nine over the root of the people
in all three with what the next line adds; at most so much."""
_WHOLE = 8.0
"""And by this times the deviation that the city's total has for the few from whom much was taken:
their visits lie in one quarter. With little taken (17 %) discs of 120 zones and more were off by
0.6 and 0.7 % where 0.5 was stated, at 51 % by 0.8 and 1.0 % where 0.8 was."""
_BY_HOUR, _HOURS, _BY_DAY = 0.04, 4.0, 0.015
"""The same from hour to hour, for what the bound took over what it left: relative error of an hour,
hours over which it is alike, and relative error of a day. Single slots of ten cities were off by
1.4 and 0.9 % (epsilon 0.3 and 1; 27 and 19 % taken) beyond their draws, of 516 cabs by 9 to 13 %
(64 to 76 % taken), and runs of hours by a third of these variances, which hours that err by
themselves would not be. Runs of more than a day were off by 0.4 % where hours alone make 0.2."""
_QUARTERS = 0.5
"""Share of the differences between places that differences between quarters are."""
_SPLIT = 0.5
"""Share of the towers around a zone that a sum has in it with all of their other zones, too."""
_ROUNDS = 12
"""Of fitting places and slots in turn. After these a total is kept to a thousandth of its error."""
_DENSE, _PASSES = 1_000, 4
"""Slots above which only the strongest axes are looked for, and passes over the draws for that. The
eigenbasis of a year's 8,760 hours took 78 of 208 CPU-seconds and 2.4 GiB."""
_FEW_PASSES = 2
"""Of large tables."""
_ENOUGH = 0.995
"""Share of the draws' power beyond which no further field is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """What the bound took from totals of places and of slots, which need not be the same share
    everywhere: quarters and hours have people and habits of their own, and nothing measures it."""

    places: float
    """Share of all visits …"""
    slots: float
    people: float
    centres: Table
    hour: NDArray[Any]
    """Time of day of each slot."""
    few: float = 0.0
    """Variance that a place has for the few from whom much was taken, over its total."""
    total: float = 1.0
    """All visits."""
    day: NDArray[Any] | None = None
    """Number of each slot's day."""

    def in_space(self, rng: np.random.Generator, pairs: int) -> Table:
        """Pairs x places: a smooth field over the city, as if a quarter held one in `_QUARTER`²."""
        size = np.hypot(
            _QUARTER * self.places / np.sqrt(max(self.people, 1.0)),
            _WHOLE * np.sqrt(self.few / max(self.total, 1.0)),
        )
        found: Table = min(float(size), _MOST) * self.smooth(rng, pairs)
        return found

    def smooth(self, rng: np.random.Generator, pairs: int) -> Table:
        """Pairs x places: smooth fields of unit variance, by random waves (Rahimi & Recht 2007)."""
        away = self.centres - self.centres.mean(axis=0)
        reach = _REACH * max(float(np.sqrt(np.square(away).sum(axis=1).mean())), 1e-9)
        found: Table = np.empty((pairs, away.shape[0]))
        for pair in range(pairs):
            waves = rng.standard_normal((2, _WAVES)) / reach
            phase = rng.uniform(0.0, 2 * np.pi, _WAVES)
            found[pair] = np.cos(away @ waves + phase).sum(axis=1) * np.sqrt(2 / _WAVES)
        return found

    def in_time(self, rng: np.random.Generator, pairs: int) -> Table:
        """Pairs x slots: the same for the same time of day, and alike for hours next to it."""
        odds = self.slots / max(1.0 - self.slots, 1e-9)
        size = min(_BY_HOUR * odds, _MOST)
        order = np.arange(1, 7)
        power = np.exp(-0.5 * np.square(2 * np.pi * _HOURS / 24 * order))
        angle = 2 * np.pi / 24 * np.asarray(self.hour, dtype=np.float64)[:, None] * order
        waves = np.hstack((np.cos(angle), np.sin(angle)))
        found: Table = (
            rng.standard_normal((pairs, waves.shape[1]))
            @ (waves * np.tile(size * np.sqrt(power / power.sum()), 2)).T
        )
        if self.day is not None:
            days, which = np.unique(self.day, return_inverse=True)
            of_day = min(_BY_DAY * odds, _MOST) * rng.standard_normal((pairs, days.size))
            found += of_day[:, which]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Draws x places x slots of expectations, and the variance of chance for each cell."""

    draws: Draws
    chance: NDArray[np.floating[Any]]
    piece: Vector
    """Size in which the counts of a place come: 1 for whole visits, less for shares."""
    sharing: csr_array | None = None
    """Released x counted shares: places with a share in the same tower share its noise."""
    taken: Taken | None = None
    """What the bound took, and where the places lie."""

    known: dict[str, Vector] = field(default_factory=dict, repr=False)
    """What was worked out already: the sum of every draw."""

    @property
    def _sums(self) -> Vector:
        if "sums" not in self.known:
            self.known["sums"] = sums_of(self.draws)
        return self.known["sums"]

    @property
    def mean(self) -> Table:
        """The posterior mean of every cell. It adds up."""
        return mean_of(self.draws)

    @property
    def sd(self) -> Table:
        """Standard deviation of a count's error."""
        found = variance_of(self.draws, self.mean)
        found += self.chance
        return np.sqrt(found, out=found)

    def quantiles(self, *levels: float) -> tuple[Table, ...]:
        """Of every cell, one table for each level."""
        return self.with_quantiles(*levels)[1:]

    def with_quantiles(self, *levels: float) -> tuple[Table, ...]:
        """The mean, and the quantiles."""
        shape = self.chance.shape
        piece = np.broadcast_to(self.piece[:, None], shape)
        found = tuple(np.empty(shape) for _ in (0.0, *levels))
        for rows in tiles(shape):
            mean = mean_in(self.draws, rows)
            sd = variance_in(self.draws, rows, mean)
            sd += self.chance[rows]
            np.sqrt(sd, out=sd)
            some = count_quantiles(mean, np.square(sd), piece[rows], levels)
            for table, part in zip(found, (mean, *some), strict=True):
                table[rows] = part
        return found

    def interval(self, coverage: float) -> tuple[Table, Table]:
        """Central interval of that probability for every cell."""
        low, high = self.quantiles(0.5 - coverage / 2, 0.5 + coverage / 2)
        return low, high

    def total(self, coverage: float, cells: Table | None = None) -> Estimate:
        """A sum of cells, each with a weight (all, with weight one, unless told)."""
        if cells is None:
            sums = self._sums
            chance = float(self.chance.sum(dtype=np.float64))
        else:
            sums = np.array([float(one.ravel() @ cells.ravel()) for one in each(self.draws)])
            chance = float((np.square(cells) * self.chance).sum())
        mean = float(sums.mean())
        variance = float(sums.var(ddof=1)) + chance
        ends = [
            float(smooth_quantile(np.array(mean), np.array(variance), level))
            for level in (0.5 - coverage / 2, 0.5 + coverage / 2)
        ]
        return Estimate(mean, ends[0], ends[1], coverage)

    def factors(self, counts: Table, coverage: float) -> dict[str, NDArray[Any]]:
        """The arrays of `posterior.npz`: what the draws add to the published counts, in factors.

        Half the difference of a pair is what one of its draws adds. Totals of places and of slots
        are kept as they are; of the rest as many fields as hold nearly all of it, at most forty.
        What they leave out, and what the two of a pair have in common, is taken for independent
        from cell to cell and added to the variance of chance.
        """
        pairs = self.draws.shape[0] // 2
        table = np.asarray(counts, dtype=np.float64)
        rest = room_for(pairs, (table.shape[0], table.shape[1]))
        sums = _sums_of_halves(self.draws)
        every = np.array([one.every for one in sums])
        level = every / max(float(table.sum()), 1e-9)
        like = np.sqrt(np.maximum(table.mean(axis=0), 1e-3 * max(float(table.mean()), 1e-9)))
        places, slots = _margins(self.draws, rest, sums, table, level, like.astype(np.float32))
        places, slots = self._together(places, slots, table)
        # A level is skewed, so the two of a pair do not lie quite opposite: the total keeps its
        # whole variance.
        whole = self._sums.var(ddof=1)
        level *= np.sqrt(whole / max(float(np.square(every).mean()), 1e-12))
        rhythms = _axes(rest)
        low = rhythms.astype(np.float32)
        strengths = np.empty((pairs, table.shape[0], low.shape[1]), dtype=np.float32)
        # Zones that share a tower share the chance of its visits: their sum has more than theirs.
        shared = 1.0 + _SPLIT * (1.0 / np.clip(self.piece, 0.05, 1.0) - 1.0)
        chance = np.empty(table.shape, dtype=beside(table.shape))
        for rows in tiles(table.shape):
            mean = mean_in(self.draws, rows)
            left = np.zeros(mean.shape)
            for pair, one in enumerate(each(rest)):
                strengths[pair][rows] = one[rows] @ low
                above, below = self.draws[pair], self.draws[pair + pairs]
                left += np.square(one[rows] - strengths[pair][rows] @ low.T)
                both = (above[rows] + below[rows]) / 2 - mean
                left += np.square(both) / np.square(like)
            far = left / pairs * np.square(like)
            chance[rows] = shared[rows][:, None] * self.chance[rows] + far
        return packed(
            level, places, slots, strengths, rhythms * like[:, None], chance, self.piece, coverage
        )

    def _together(self, places: Table, slots: Table, counts: Table) -> tuple[Table, Table]:
        """Errors of places and slots as they hang together, which no single cell shows.

        Draws of places are independent, but zones that share a tower share its noise; and where
        the bound took more than was expected of a place or slot, it did so of its neighbours and of
        the same hour on other days too. Variances of single places stay as they are but for that.
        """
        rng, pairs = np.random.default_rng(_SEED), places.shape[0]
        if self.sharing is not None:
            of_zone = np.sqrt(np.asarray(self.sharing.power(2).sum(axis=1)).ravel())
            alone = rng.standard_normal((pairs, self.sharing.shape[1]))
            score = np.asarray(self.sharing @ alone.T).T / np.maximum(of_zone, 1e-9)
            score /= np.maximum(np.sqrt(np.square(score).mean(axis=0)), 1e-9)  # of no tower: zero
            drawn = np.square(places).mean(axis=0)
            least = np.minimum(self.piece, 1.0) * drawn  # as if all of it were theirs
            places = score * np.sqrt(np.maximum(drawn - self._twice(counts), least))
        if self.taken is not None:
            drawn_to = np.sqrt(_drawn(np.square(places).mean(axis=0), counts.sum(axis=1)))
            alike = self.taken.smooth(rng, pairs) * np.sqrt(np.square(places).mean(axis=0))
            places = np.sqrt(1 - np.square(drawn_to)) * places + drawn_to * alike
            places = places + self.taken.in_space(rng, pairs)
            slots = slots + self.taken.in_time(rng, pairs)
        by_place, by_slot = counts.sum(axis=1), counts.sum(axis=0)
        whole = max(float(counts.sum()), 1e-9)
        places = places - (places @ by_place)[:, None] / whole  # the level is kept apart
        return places, slots - (slots @ by_slot)[:, None] / whole

    def _twice(self, counts: Table) -> Vector:
        """What draws have too much of for places that share towers: relative variance.

        A place's variance for the few very active is theirs over its own total; the people that a
        zone has a share of are those of its towers, who are more.
        """
        few = 0.0 if self.taken is None else self.taken.few
        share = few / np.maximum(counts.sum(axis=1), 1e-9)
        found: Vector = np.minimum(share, _MOST**2) * (1.0 - np.minimum(self.piece, 1.0))
        return found


def _drawn(variance: Vector, totals: Vector) -> Vector:
    """Share of each place's variance that it has in common with its quarter.

    A total among noise is drawn to the mean of the city, and its error has two parts: the noise
    that is left, and how far the place lies from what it was drawn to. Of the variance v of a
    posterior under a prior variance p, the second is v / p (James & Stein 1961). Centres are fuller
    than outskirts, so that part is alike for neighbours.
    """
    logs = np.log(np.maximum(totals, 1e-9 * max(float(totals.max()), 1e-9)))
    prior = float(logs.var()) + float(variance.mean())
    found: Vector = _QUARTERS * np.minimum(variance / max(prior, 1e-9), 1.0)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Of one table: all of it, places and slots."""

    every: float
    places: Vector
    slots: Vector


def _half(draws: Draws, pair: int, rows: slice) -> NDArray[np.float32]:
    """Half the difference of a pair."""
    above, below = draws[pair][rows], draws[pair + draws.shape[0] // 2][rows]
    return np.asarray((above - below) / np.float32(2))


def _sums_of_halves(draws: Draws) -> list[_Sums]:
    found = []
    for pair in range(draws.shape[0] // 2):
        every, places, slots = 0.0, np.empty(draws.shape[1]), np.zeros(draws.shape[2])
        for rows in tiles(draws.shape[1:]):
            one = _half(draws, pair, rows)
            every += float(one.sum(dtype=np.float64))
            places[rows] = one.sum(axis=1, dtype=np.float64)
            slots += one.sum(axis=0, dtype=np.float64)
        found.append(_Sums(every, places, slots))
    return found


def _margins(
    draws: Draws,
    rest: Draws,
    sums: list[_Sums],
    counts: Table,
    level: Vector,
    like: NDArray[np.float32],
) -> tuple[Table, Table]:
    """Place and slot factors with which the totals of both come out for half the difference of each
    pair; what is left then goes to `rest`, in units of `like`."""
    by_place, by_slot = counts.sum(axis=1), counts.sum(axis=0)
    rows = np.array([one.places for one in sums]) - level[:, None] * by_place
    columns = np.array([one.slots for one in sums]) - level[:, None] * by_slot
    each_place, each_slot = np.maximum(by_place, 1e-9), np.maximum(by_slot, 1e-9)
    places, slots = np.zeros(rows.shape), np.zeros(columns.shape)
    for _ in range(_ROUNDS):
        places = (rows - slots @ counts.T) / each_place
        slots = (columns - places @ counts) / each_slot
    # Kept in half precision: a place that nobody is in must not need more than that can hold.
    places, slots = np.clip(places, -1e4, 1e4), np.clip(slots, -1e4, 1e4)
    left = np.empty(counts.shape, dtype=np.float32)
    for pair in range(level.size):
        for rows in tiles(counts.shape):
            factor = level[pair] + places[pair][rows][:, None] + slots[pair][None, :]
            one = _half(draws, pair, rows)
            left[rows] = (one - counts[rows] * factor).astype(np.float32) / like
        rest[pair] = left
    return places, slots


def _axes(rest: Draws) -> Table:
    """Slots x fields: the rhythms along which the draws differ most, each in a fixed direction."""
    size = rest.shape[2]
    if size > _DENSE:
        whole = sum(float(np.square(one, dtype=np.float64).sum()) for one in each(rest))
        values, axes = _strongest(rest)
    else:
        power = np.zeros((size, size))
        for one in each(rest):
            power += one.T @ one
        whole = float(np.trace(power))
        values, axes = eigh(power, subset_by_index=(max(size - MOST_FIELDS, 0), size - 1))
    if whole <= 0:
        return np.zeros((size, 0))
    values, axes = values[::-1], axes[:, ::-1]
    enough = int(np.searchsorted(np.cumsum(values), _ENOUGH * whole)) + 1
    axes = axes[:, : min(enough, MOST_FIELDS)]
    largest = np.abs(axes).argmax(axis=0)
    found: Table = axes * np.sign(axes[largest, np.arange(axes.shape[1])])
    return found


def _strongest(rest: Draws) -> tuple[Vector, Table]:
    """The last values and axes of the draws' power, rising, without the matrix of all slots.

    Subspace iteration from a fixed start (Halko, Martinsson & Tropp 2011). What its axes do not
    hold is not lost: it is counted with the chance of each cell.
    """
    rng = np.random.default_rng(_SEED)
    axes = np.linalg.qr(rng.standard_normal((rest.shape[2], 2 * MOST_FIELDS)))[0]
    for _ in range(_FEW_PASSES if is_large(rest.shape[1:]) else _PASSES):
        low = axes.astype(np.float32)
        moved = np.zeros(axes.shape)
        for one in each(rest):
            moved += one.T @ (one @ low)
        axes = np.linalg.qr(moved)[0]
    low = axes.astype(np.float32)
    power = np.zeros((axes.shape[1], axes.shape[1]))
    for one in each(rest):
        along = (one @ low).astype(np.float64)
        power += along.T @ along
    values, turned = eigh(power)
    return values[-MOST_FIELDS:], axes @ turned[:, -MOST_FIELDS:]
