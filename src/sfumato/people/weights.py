"""How many people one person counted stands for: weights of areas, of zones, of zones in slots.

*Market shares*: the weight of an area is one over the share. *A census*: the ratio estimator,
people of the area over those whom the release counts there at night, when most are at home. Draws
of the release run through the ratio, so that an error which moves a whole district, at night and by
day, cancels.

Weights belong to homes. Those of a zone in a slot are the mean over the homes of the people who are
there (`origins`). Everything is computed from released numbers and public tables, quality flags
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.model.rounding import percent
from sfumato.model.time_grid import TimeGrid
from sfumato.people.areas import Areas
from sfumato.people.factors import Weights, lasting, normals
from sfumato.people.origins import Origins, at_home, by_origin
from sfumato.published.posterior import Factors

Table = NDArray[np.float64]
Vector = NDArray[np.float64]

FEW = 50.0
"""People counted at night below which an area's weight is flagged: sampling alone then makes it
uncertain by a seventh."""
UNCERTAIN = 0.15
"""Relative standard deviation from which a weight is flagged: its 90 % interval then spans half of
it."""
IMPLAUSIBLE = 4.0
"""Ratio to the median weight from which a weight is flagged. Market shares of one operator
rarely differ by more between districts."""
_MORE_THAN_ALL = 0.02
"""By so much market shares may exceed all people: they are estimates, rounded to per cent."""
_NO_ZONE, _LITTLE = "no zone of the release", "few people"
_ODD, _VAGUE = "implausible", "uncertain"


@dataclass(frozen=True, slots=True, eq=False)
class AreaWeights:
    """People for one person counted, by area."""

    areas: Areas
    night: Vector
    """People counted in each area at night."""
    values: Vector
    """0 where the release has no zone in the area."""
    relative: Table
    """Pairs x areas: relative deviation of each draw."""
    known: bool
    """Whether the release states its errors, so that those of weights are known."""
    lasts: Table
    """Pairs x zones: lasting sampling errors of the counts (`factors.lasting`), relative."""
    whole: float
    """The weight of the whole city."""

    @property
    def sd(self) -> Vector:
        """Relative standard deviation of each weight."""
        found: Vector = np.sqrt(np.square(self.relative).mean(axis=0))
        return found

    @property
    def flags(self) -> list[list[str]]:
        """What to distrust in each area; nothing where all is well."""
        there: NDArray[np.bool_] = np.asarray(self.areas.zones.any(axis=1))
        usual = float(np.median(self.values[there])) if there.any() else self.whole
        odd = (self.values < 1) | (self.values > IMPLAUSIBLE * usual)
        odd |= self.values * IMPLAUSIBLE < usual
        rules = (
            (_NO_ZONE, ~there),
            (_LITTLE, there & (self.night < FEW)),
            (_ODD, there & odd),
            (_VAGUE, there & (self.sd > UNCERTAIN)),
        )
        return [[name for name, wrong in rules if wrong[k]] for k in range(there.size)]

    def by_zone(self) -> tuple[Vector, Table]:
        """The weight of the people who live in each zone, and its draws' relative deviations.

        Zones outside all areas take the weight of the whole city, as uncertain as areas differ.
        """
        parts = self.areas.zones * self.values[:, None]
        cover = self.areas.zones[self.values > 0].sum(axis=0)
        inside = cover > 0
        values = np.where(inside, parts.sum(axis=0) / np.where(inside, cover, 1.0), self.whole)
        share_of = parts / np.where(inside, parts.sum(axis=0), 1.0)
        relative = self.relative @ share_of
        if not inside.all():
            used = self.values[self.values > 0]
            apart = float(np.std(np.log(used))) if used.size > 1 else 0.5
            drawn = normals(relative.shape[0], int((~inside).sum()), 3)
            relative[:, ~inside] = max(apart, 0.1) * drawn
        return values, relative


def share_weights(
    shares: Areas, counts: Table, night: Vector | None, pairs: int, stays: float
) -> AreaWeights:
    """One over the share of each area.

    Args:
        shares: By area.
        counts: Zones x slots.
        night: Weight of each slot; `None` where the release has no night.
        pairs: Pairs of draws that are wanted.
        stays: The share of sampling errors that lasts.
    """
    at_night = counts.mean(axis=1) if night is None else counts @ night / night.sum()
    there = shares.zones.any(axis=1)
    values = np.where(there, 1.0 / shares.values, 0.0)
    relative = normals(pairs, values.size, 4) * (shares.sd / shares.values)
    people = shares.zones @ at_night
    whole = _ratio((values * people).sum(), people[there].sum(), shares.label)
    made = AreaWeights(
        shares, people, values, relative, True, np.zeros((pairs, counts.shape[0])), whole
    )
    weights, _ = made.by_zone()
    lasts = normals(pairs, counts.shape[0], 5) * lasting(counts, weights, stays)
    return AreaWeights(shares, people, values, relative, True, lasts, whole)


def census_weights(
    census: Areas,
    counts: Table,
    night: Vector,
    factors: Factors | None,
    pairs: int,
    stays: float,
) -> AreaWeights:
    """The ratio estimator: people of an area over those whom the release counts there at night.

    Raises:
        InputError: The release counts nobody at night.
    """
    number = float(night.sum())
    at_night = counts @ night / number
    people = census.zones @ at_night
    there = census.zones.any(axis=1)
    seen = np.maximum(people, 0.5)  # half a person: an area where nobody was found has a weight
    values = np.where(there, census.values / seen, 0.0)
    whole = _ratio(census.values[there].sum(), people[there].sum(), census.label)
    own = normals(pairs, census.ids.size, 6) * (census.sd / np.maximum(census.values, 1.0))
    if factors is not None:
        apart = factors.deviations(census.zones, night) / number / seen
        chance = np.sqrt(factors.chance_of(census.zones, night)) / number / seen
        own = own - apart - normals(pairs, census.ids.size, 7) * chance
    first = AreaWeights(
        census, people, values, own, True, np.zeros((pairs, counts.shape[0])), whole
    )
    weights, _ = first.by_zone()
    # The census holds an area's night counts, so what sampling did to all of its zones is undone.
    lasts = normals(pairs, counts.shape[0], 5) * lasting(counts, weights, stays)
    of_area = (lasts * at_night) @ census.zones.T / seen
    known = factors is not None
    return AreaWeights(census, people, values, own - of_area, known, lasts, whole)


def _ratio(people: float, counted: float, label: str) -> float:
    if not (people > 0 and counted > 0):
        raise InputError(
            "there is nobody in its areas, by the table or by the release.",
            file=label,
            remedy="Look at the areas, and at the hours of the night.",
        )
    return float(people / counted)


def slot_weights_of(
    found: AreaWeights,
    counts: Table,
    night: Vector | None,
    grid: TimeGrid,
    distances: Table | None,
    reach: float,
) -> Weights:
    """Weights of zones in slots, by the homes of the people who are there.

    Args:
        found: Weights of areas.
        counts: Zones x slots.
        night: Weight of each slot; without a night nobody's home is known.
        grid: The slots.
        distances: Between zones; `None` where they are not known.
        reach: How far people go, in kilometres; 0 weighs them by where they are.
    """
    values, relative = found.by_zone()
    if night is None or distances is None or reach <= 0:
        origins: Origins = at_home(values, counts.shape[1])
    else:
        homes = counts @ night / night.sum()
        origins = by_origin(values, homes, counts, grid, distances, reach)
    mean = np.maximum(origins.mean, 1e-9)
    over_time = np.maximum(origins.over_time @ values, 1e-9)
    carried = (relative * values) @ origins.over_time.T / over_time
    apart = (origins.error / mean, origins.common / mean)
    return Weights(origins.mean, carried + found.lasts, *apart)


def check_overlap(weights: Sequence[Table], people: Sequence[Table], overlap: float) -> None:
    """Refuse an overlap that is less than the market shares leave: the promise rests on it.

    All people are at least the sum of the shares less those that were counted twice in a pair
    (Bonferroni's inequality).

    Args:
        weights: People for one person counted, zones x slots, of each operator.
        people: Its estimate of all people, likewise.
        overlap: The share of the smaller one's people who are at the other, too.

    Raises:
        UsageError: So few cannot be at both.
    """
    shares = [
        float(np.average(1 / one, weights=np.maximum(counts, 1e-9)))
        for one, counts in zip(weights, people, strict=True)
    ]
    twice = overlap * sum(min(pair) for pair in combinations(shares, 2))
    if sum(shares) - twice > 1 + _MORE_THAN_ALL:
        raise UsageError(
            f"The market shares are {percent(sum(shares))} of the people together, so more than "
            f"{percent(overlap)} of the smaller one's people must be at the other, too.",
            remedy="Give shares of all people, or a larger `overlap`.",
        )
