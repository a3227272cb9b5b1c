"""`Factors`: the posterior of a published table, in factors, so that any sum has an interval.

Errors of cells hang together: through the level, the totals of places and of slots, the rhythms
that places share. Their posterior is a set of draws of the whole table, which would be forty times
as large as the table. What a draw adds to the published counts is kept as

    count x (level + place + slot) + sum over fields of (place's strength x rhythm)

with a level, place, slot factor and strengths of its own for each draw, and rhythms for all of
them. A sum over places and slots then needs products of factors only. Draws come in opposite
pairs: one of each pair is kept, the other is its mirror image. Beside them every cell has a
variance of its own, of chance (whole visits around their expectation) and of what so few fields
leave out, which is independent from cell to cell.

Two questions to one release share their errors: `samples` draws the answers jointly, chance of
common cells included, by a fixed stream of numbers. Nothing here is private: all of it follows from
noisy measurements that were paid for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from sfumato.model.tiles import tiles
from sfumato.published.estimate import Estimate, count_quantiles, gamma_scores

Table = NDArray[np.float64]
Vector = NDArray[np.float64]

POSTERIOR = "posterior.npz"
MOST_FIELDS, MOST_PAIRS = 40, 64
SAMPLES = 2_000
"""Joint draws of answers. Ends of a 90 % interval are then right to a fortieth of a deviation."""
_STEP = 0.2
"""Strengths are kept to this part of their deviation, which adds a three-hundredth to a variance;
half of it made files a fifth larger and no interval better."""
_LOG_LEAST, _LOG_STEP = np.log(1e-6), 0.125
"""Variances are kept to an eighth of a power of e: 6 % at most, and either way."""
_LARGEST_HALF = float(np.finfo(np.float16).max)
"""Factors of places and slots are kept in half precision."""
_DENSE = 40_000_000
"""Numbers (questions x cells) up to which common chance is worked out at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """What is not known of a table of counts: 2 x pairs draws, and a variance for each cell."""

    counts: Table
    """The published counts, places x slots."""
    level: Vector
    """For each pair; so are the following, relative to the counts."""
    places: Table
    slots: Table
    strengths: NDArray[np.float32]
    """Places x (pairs x fields)."""
    rhythms: Table
    """Slots x fields."""
    chance: Table
    """Variance of each cell that no other cell shares."""
    piece: Vector
    """Size in which the counts of a place come: 1 for whole visits, less for shares of them."""
    coverage: float
    stream: int = 0
    """Which fixed numbers `samples` uses: the same for questions to one release, others for
    another release, whose errors are independent."""

    @property
    def pairs(self) -> int:
        """Pairs of draws."""
        return int(self.level.size)

    @property
    def fields(self) -> int:
        """Fields kept for each draw."""
        return int(self.rhythms.shape[1])

    def values(self, places: Table, slots: Table) -> Vector:
        """The published counts of questions, summed with their weights."""
        a, b = self._weights(places, slots)
        found: Vector = np.einsum("qs,qs->q", a @ self.counts, b)
        return found

    def deviations(self, places: Table, slots: Table) -> Table:
        """Pairs x questions: by how much one draw of each pair differs from the sum.

        Args:
            places: Weight of each place: one row, or one for each question.
            slots: Weight of each slot, likewise.
        """
        a, b = self._weights(places, slots)
        by_slot, by_place = a @ self.counts, b @ self.counts.T
        found: Table = self.level[:, None] * np.einsum("qs,qs->q", by_slot, b)[None, :]
        found += self.places @ (a * by_place).T
        found += self.slots @ (by_slot * b).T
        if self.fields:
            strengths = np.asarray(a.astype(np.float32) @ self.strengths, dtype=np.float64)
            each = strengths.reshape(a.shape[0], self.pairs, self.fields)
            found += np.einsum("qkr,qr->kq", each, b @ self.rhythms)
        return found

    def chance_of(self, places: Table, slots: Table) -> Vector:
        """Variance of each question that comes from cells alone."""
        a, b = self._weights(places, slots)
        found: Vector = np.einsum("qs,qs->q", np.square(a) @ self.chance, np.square(b))
        return found

    def draws(self, places: Table, slots: Table) -> tuple[Table, Vector]:
        """Draws x questions of expected sums, opposite ones half the number apart, and the
        variance of chance that comes on top of each question."""
        mean, apart = self.values(places, slots), self.deviations(places, slots)
        both: Table = np.concatenate((mean + apart, mean - apart))
        return both, self.chance_of(places, slots)

    def variances(self, places: Table, slots: Table) -> Vector:
        """Variance of the error of each question."""
        shared = np.square(self.deviations(places, slots)).mean(axis=0)
        found: Vector = shared + self.chance_of(places, slots)
        return found

    def spread(self) -> Table:
        """Standard deviation of what each count's expectation may be off by, without chance: what
        a map draws as a fact although nobody knows it (`Release.estimation_error`)."""
        found: Table = np.zeros(self.counts.shape)
        strengths = self.strengths.reshape(self.counts.shape[0], self.pairs, self.fields)
        rhythms = self.rhythms.T.astype(np.float32)
        for pair, rows in itertools.product(range(self.pairs), tiles(found.shape)):
            factor = self.level[pair] + self.places[pair][rows, None] + self.slots[pair][None, :]
            along = strengths[rows, pair] @ rhythms
            found[rows] += np.square(self.counts[rows] * factor + along)
        found /= max(self.pairs, 1)
        return np.sqrt(found, out=found)

    def of_places(self) -> tuple[Vector, Vector]:
        """Totals of the places over all slots, and the variance of their errors."""
        totals = self.counts.sum(axis=1)
        apart = (self.level[:, None] + self.places) * totals + self.slots @ self.counts.T
        if self.fields:
            strengths = self.strengths.reshape(totals.size, self.pairs, self.fields)
            apart += (strengths @ self.rhythms.sum(axis=0).astype(np.float32)).T
        return totals, np.square(apart).mean(axis=0) + self.chance.sum(axis=1)

    def places_known(self, probability: float | None = None) -> float:
        """Relative error within which the total of a place lies with that probability, a place
        being picked in proportion to its total: of all visits so many are in places whose total
        is off by no more. The unit is one, errors are taken for normal."""
        totals, variance = self.of_places()
        wanted = self.coverage if probability is None else probability
        some = totals > 0
        if not some.any():
            return math.inf
        share = totals[some] / totals[some].sum()
        spread = np.sqrt(variance[some]) / totals[some]

        def short(error: float) -> float:
            within = 1.0 - 2.0 * ndtr(-error / np.maximum(spread, 1e-12))
            return float(share @ within) - wanted

        # A hair beyond where all are within: of one place the root lies at the very end.
        most = float(spread.max()) * float(ndtri(0.5 + wanted / 2)) * (1.0 + 1e-9) + 1e-9
        return float(brentq(short, 0.0, most, xtol=1e-6))

    def estimates(
        self, places: Table, slots: Table, coverage: float | None = None
    ) -> tuple[Vector, Vector, Vector]:
        """Values and ends of the intervals of many questions at once."""
        a, b = self._weights(places, slots)
        level = self.coverage if coverage is None else coverage
        value, variance = self.values(a, b), self.variances(a, b)
        weight = a * (b @ self.counts.T)
        piece = (weight @ self.piece) / np.maximum(weight.sum(axis=1), 1e-9)
        ends = (0.5 - level / 2, 0.5 + level / 2)
        low, high = count_quantiles(value, variance, piece, ends)
        # No law of counts has the mean zero and a variance: nobody was found, and some may be.
        some = ndtri(ends[1]) * np.sqrt(variance)
        return value, low, np.where(value > 1e-9, high, some)

    def estimate(self, places: Vector, slots: Vector, coverage: float | None = None) -> Estimate:
        """A sum of cells, each with the weight of its place times that of its slot.

        Args:
            places: Weight of each place; 1 or 0 for sets of places, shares of area for a polygon.
            slots: Weight of each slot.
            coverage: Probability of the interval, if not that of the release.
        """
        level = self.coverage if coverage is None else coverage
        value, low, high = self.estimates(places, slots, level)
        return Estimate(float(value[0]), float(low[0]), float(high[0]), level)

    def common_chance(self, places: Table, slots: Table) -> Table:
        """Questions x questions: covariance of their chance, through cells that they share."""
        a, b = self._weights(places, slots)
        found: Table = np.empty((a.shape[0], a.shape[0]))
        if (b == b[0]).all():
            found[:] = (a * (self.chance @ np.square(b[0]))) @ a.T
            return found
        if (a == a[0]).all():
            found[:] = (b * (np.square(a[0]) @ self.chance)) @ b.T
            return found
        some = max(1, _DENSE // self.chance.size)
        for first in range(0, a.shape[0], some):
            rows = slice(first, first + some)
            weighed = a[rows, :, None] * b[rows, None, :] * self.chance
            for other in range(0, a.shape[0], some):
                columns = slice(other, other + some)
                cells = a[columns, :, None] * b[columns, None, :]
                found[rows, columns] = (
                    weighed.reshape(weighed.shape[0], -1) @ cells.reshape(cells.shape[0], -1).T
                )
        return found

    def samples(self, places: Table, slots: Table) -> Table:
        """Joint draws of what was counted, samples x questions, never below zero.

        From these differences, ratios and ranks of the same release have their intervals: errors
        that questions share are the same in a row, and so is the chance of cells that they have in
        common. The numbers drawn are fixed, so an answer is the same whenever it is asked for.
        """
        a, b = self._weights(places, slots)
        rng = np.random.default_rng((20170403, self.stream))
        half = rng.standard_normal((SAMPLES // 2, self.pairs))
        mixing = np.concatenate((half, -half)) / np.sqrt(self.pairs)
        shared = mixing @ self.deviations(a, b)
        common = self.common_chance(a, b)
        if not np.any(common - np.diag(np.diag(common))):
            root = np.diag(np.sqrt(np.diag(common)))
        else:
            strength, axes = np.linalg.eigh(common)
            root = axes * np.sqrt(np.maximum(strength, 0.0))
        own = rng.standard_normal((SAMPLES // 2, root.shape[1]))
        error = shared + np.concatenate((own, -own)) @ root.T
        sd = np.sqrt(self.variances(a, b))
        return gamma_scores(self.values(a, b), sd, error / np.maximum(sd, 1e-12))

    def last(self, slots: int) -> Factors:
        """That of the last slots alone."""
        some = slice(max(self.counts.shape[1] - slots, 0), None)
        return Factors(
            self.counts[:, some],
            self.level,
            self.places,
            self.slots[:, some],
            self.strengths,
            self.rhythms[some],
            self.chance[:, some],
            self.piece,
            self.coverage,
            self.stream,
        )

    def _weights(self, places: Table, slots: Table) -> tuple[Table, Table]:
        """As many rows of both, one for each question."""
        a, b = np.atleast_2d(np.asarray(places, float)), np.atleast_2d(np.asarray(slots, float))
        rows = max(a.shape[0], b.shape[0])
        return (
            np.broadcast_to(a, (rows, self.counts.shape[0])),
            np.broadcast_to(b, (rows, self.counts.shape[1])),
        )


def packed(
    level: Vector,
    places: Table,
    slots: Table,
    strengths: NDArray[np.float32],
    rhythms: Table,
    chance: Table,
    piece: Vector,
    coverage: float,
) -> dict[str, NDArray[Any]]:
    """The arrays of the file; `strengths` are pairs x places x fields here."""
    scale = _STEP * np.sqrt(np.square(strengths).mean(axis=0)).astype(np.float32)
    steps = strengths / np.maximum(scale, np.float32(1e-30))
    np.clip(np.rint(steps, out=steps), -127, 127, out=steps)
    codes = np.empty(chance.shape, dtype=np.uint8)
    for rows in tiles(chance.shape):
        code = 1 + np.rint((np.log(np.maximum(chance[rows], 1e-30)) - _LOG_LEAST) / _LOG_STEP)
        codes[rows] = np.where(chance[rows] > 0, np.clip(code, 1, 255), 0)
    return {
        "coverage": np.array(coverage, dtype=np.float64),
        "level": level.astype(np.float32),
        "places": np.clip(places, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16),
        "slots": np.clip(slots, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16),
        "strengths": steps.astype(np.int8),
        "scale": scale,
        "rhythms": rhythms.astype(np.float32),
        "chance": codes,
        "piece": piece.astype(np.float32),
    }


def most_bytes(counts: Table) -> int:
    """What the file of these counts' posterior unpacks to at most, before any of it is."""
    rows, slots = map(int, counts.shape)
    each = MOST_PAIRS * (rows * MOST_FIELDS + 2 * (rows + slots)) + rows * slots
    return each + 4 * (MOST_FIELDS * (rows + slots + MOST_PAIRS) + rows + slots) + (1 << 16)


def unpacked(arrays: Mapping[str, NDArray[Any]], counts: Table, stream: int = 0) -> Factors:
    """The posterior of these counts, from the arrays of its file.

    Raises:
        ValueError: They are not that.
    """
    try:
        steps, scale = arrays["strengths"], arrays["scale"]
        pairs, places, fields = steps.shape
        found = Factors(
            counts=counts,
            level=arrays["level"].astype(np.float64),
            places=arrays["places"].astype(np.float64),
            slots=arrays["slots"].astype(np.float64),
            strengths=(steps * scale).astype(np.float32).transpose(1, 0, 2).reshape(places, -1),
            rhythms=arrays["rhythms"].astype(np.float64),
            chance=_variances(arrays["chance"]),
            piece=arrays["piece"].astype(np.float64),
            coverage=float(arrays["coverage"]),
            stream=stream,
        )
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError("arrays are missing") from error
    rows, slots = counts.shape
    wanted = {
        "level": (pairs,),
        "places": (pairs, rows),
        "slots": (pairs, slots),
        "strengths": (rows, pairs * fields),
        "rhythms": (slots, fields),
        "chance": (rows, slots),
        "piece": (rows,),
    }
    if any(getattr(found, name).shape != shape for name, shape in wanted.items()):
        raise ValueError("other places or slots")
    if not (0 < found.coverage < 1 and all(np.isfinite(getattr(found, n)).all() for n in wanted)):
        raise ValueError("no numbers")
    return found


def _variances(code: NDArray[Any]) -> Table:
    if code.dtype != np.uint8:
        raise TypeError("codes of variances are bytes")
    every = np.arange(256.0) - 1
    found: Table = np.where(every >= 0, np.exp(_LOG_LEAST + _LOG_STEP * every), 0.0)[code]
    return found
