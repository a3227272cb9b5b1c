"""A rehearsal: the scheme itself, run on made-up people, says how good a release will be.

No formula knows what clustering, shrinkage and smoothing leave of the noise. So a synthetic
city with as many people per zone as the real one is expected to have (for speed a district of
it, laid side by side with itself) is counted and released with the same budget, bound and
parameters, and compared with its own truth. It is as much like the real city as its
assumptions, which are public and stated: tower-hours per person with mean 13.55 and standard
deviation 18.33 a week (Acs & Castelluccia 2014), or a mean that is asked for; home, work and
leisure rhythms; no one-off crowds. What the contribution bound takes away from
busy people is part of the measured error. Cities differ: forecasts for the same facts vary by
some 10 % with the made-up city, and a district is more of a patchwork than a city is.
docs/commands/plan.md has forecasts beside what was then measured.

What is laid out side by side, and what is measured of a part of a city with less noise, is in
`density.tiled`.

A forecast does not need all of a large city either. From `CELLS` numbers on a part of it is laid
out, and what is summed over all places (`TiledSource.slot_totals`, `capped_total`, `ladder`) is
measured with as much less noise as there are fewer people in it (`PartWall`): a total of the city
is known to the same share of its value in every part. A scheme takes its regime from the whole
(`PublicFacts.town`). Forecasts of parts beside those of whole cities: docs/benchmarks/speed.md.

Where even a district has more people per zone than are made up, the noise is scaled down in
proportion by raising epsilon, which keeps the ratio of signal to noise; a scheme that asks for
the number of people is told as many fewer.

This module opens nothing: the source of counts and the measure of error are handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.city import City, CityPlan, build_city, generate_events
from sfumato.city.plan import MAX_TOWERS, MAX_ZONES
from sfumato.density.bayes.settings import expected_visits
from sfumato.density.draws import mean_of, variance_of
from sfumato.density.scheme import Density, PublicFacts, Scheme
from sfumato.density.tiled import PartWall, TiledSource, tiled_layout, tiled_overlay
from sfumato.geography.overlay import layout_of_cells, layout_of_zones, overlay
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.events import read_events
from sfumato.model.counts import Bound, Counting
from sfumato.model.events import Events
from sfumato.model.places import Places
from sfumato.model.source import Source
from sfumato.model.time_grid import TimeGrid

COVERAGE = 0.9
_WIDTH = 1.6448536269514722
"""Half of the interval that holds a normal number with that probability."""
Table = NDArray[np.float64]
OpenSource = Callable[[Events, Places, TimeGrid], Source]
Relative = Callable[[Table, Table], Table]
"""Relative error of each zone and slot: (truth, released) to a table."""

PEOPLE = 100_000
"""Made-up people at most."""
FEWEST_ZONES = 40
FOLDED_DAYS = 56
"""Days of a folded period that are lived through: a year of them would take minutes and gigabytes,
and most of whom one meets at a time of the week is met in two months."""
SIZES = (3, 10, 30, 100, 300, 1000, 3000)
CELLS = 40_000
"""Numbers that are rehearsed at most, about: a week of hours in 240 places."""
_FEWEST_DRAWS, _DRAWS, _SURE = 2, ((20_000, 8), (100_000, 4), (math.inf, 1)), 0.03
"""Draws of the noise at least; at most, for towns of so many cells; and the relative standard error
of the mean error from which on no more are made. With 20,000 people at epsilon 0.1
two draws of `paris`, whose grand total is then nearly all noise, were off by 26 to 31 %."""
_HALF_STEP = 10**0.25
_KM2_PER_ZONE = 105 / 989
_NEAR, _TRIES = 0.1, 3
"""How far the logarithm of the mean visits may lie from what is asked for before people are made up
once more (how often hours at one place fall into one slot is seen only then), and how often."""
_SEED = 101
"""Of six districts tried, one whose forecasts lie closest to what cities of all sizes gave."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expected errors: the mean over zones and slots, and by the size of the true count."""

    mean_relative_error: float
    by_size: dict[int, float]
    """Mean relative error of counts near 3, 10, 30 …; sizes that hardly occur are left out."""
    total_half_width: float
    """Half of the 90 % interval of the posterior's total, over the total; where a scheme has no
    posterior, 1.645 root mean square errors of the total."""
    error_ratio: float
    """Mean absolute error of the median (of the count, where there is none) over that of the better
    of two answers that cost nothing: zeros everywhere, and the expected visits spread evenly."""
    uncertain_visits: float
    """Share of the visits in cells whose estimation error is above half of their value: the spread
    of the posterior's draws, chance excluded; where there are none, the root mean square error."""


class Rehearsal:
    """A made-up district, counted once and released as often as one likes."""

    def __init__(
        self,
        facts: PublicFacts,
        users: int,
        zones: int,
        open_source: OpenSource,
        relative: Relative,
        *,
        people: int = PEOPLE,
        cells: int | None = CELLS,
        spread: bool | None = None,
        visits: float | None = None,
    ) -> None:
        """At most `people` are made up, and about `cells` numbers released. `spread` says whether
        places are spread over zones, where the facts' overlay and the numbers of both do not;
        `visits` how many a person makes, if not as many as are stated, or else as in call
        records."""
        most = zones if cells is None else max(FEWEST_ZONES, cells // facts.grid.slots)
        most = min(most, MAX_ZONES)
        stated = facts.parameters.get("visits")
        if visits is None and stated is not None:
            visits = float(stated)
        plan = district(facts, users, zones, people, most, visits)
        self.users = plan.users
        several = 1 if visits is None else _several(visits, facts, plan.days)
        plan = replace(plan, users=plan.users * several)
        for _ in range(_TRIES):
            city, table, truth = _lived(plan, facts, self.users)
            self.visits = float(truth.sum()) / self.users
            """Of an average made-up person."""
            if visits is None or abs(math.log(self.visits / visits)) <= _NEAR:
                break
            wanted = plan.tower_hours * visits / self.visits
            plan = replace(plan, mean_tower_hours=min(max(wanted, 1.5), 80.0 * plan.days))
        self._relative = relative
        if spread is None:
            spread = facts.overlay is not None or zones != facts.places
        self.zones = len(city.zones if spread else city.towers)
        self.boost = max(1.0, (users / zones) / (self.users / self.zones))
        """How much larger the real counts are; epsilon is raised by it."""
        self.copies = max(1, round(min(zones, most) / self.zones))
        self.part = min(1.0, self.copies * self.zones / zones) if most < zones else 1.0
        """Share of the city that is laid out."""
        served = voronoi_cells(city.towers, city.zones, period=facts.grid)
        to_zones = overlay(served, city.zones) if spread else None
        parameters = dict(facts.parameters)
        if stated is not None and visits is not None:  # as wrong as it is of true people
            told = float(stated) * self.visits / visits
            parameters["visits"] = min(max(told, 0.1), 10.0 * facts.grid.slots)
        self._truth = truth if to_zones is None else to_zones.to_zones(truth)
        self._truth = np.tile(self._truth, (self.copies, 1))
        self._source = TiledSource(
            open_source(read_events(table), city.towers, facts.grid), self.copies
        )
        self._facts = PublicFacts(
            self._source.place_ids,
            facts.grid,
            facts.epsilon * self.boost,
            facts.delta,
            expected_users=max(1, round(users * self.part / self.boost)),
            town=max(1, round(users / self.boost)),
            unit=facts.unit,
            bound=facts.bound,
            counting=facts.counting,
            overlay=None if to_zones is None else tiled_overlay(to_zones, self.copies),
            parameters=parameters,
            layout=tiled_layout(layout_of_cells(served), self.copies),
            zone_layout=tiled_layout(layout_of_zones(city.zones), self.copies),
        )

    def run(
        self,
        scheme: Scheme,
        *,
        epsilon: float | None = None,
        bound: Bound | None = None,
        draws: int | None = None,
    ) -> Forecast:
        """Expected errors at the facts' epsilon and bound, or at others.

        Draws are made until the mean error is known well enough: small releases differ more from
        one to the next, and cost less.
        """
        facts = self._facts
        if epsilon is not None:
            facts = replace(facts, epsilon=epsilon * self.boost)
        if bound is not None:
            facts = replace(facts, bound=bound)
        most = draws or next(count for size, count in _DRAWS if self._truth.size <= size)
        runs: list[Density] = []
        drawn: list[Table] = []
        while len(drawn) < most and not (draws is None and _settled(drawn)):
            runs.append(self._run(scheme, facts, len(drawn)))
            values = np.asarray(runs[-1].values, dtype=np.float64)
            drawn.append(self._relative(self._truth, values))
        errors = np.asarray(np.mean(drawn, axis=0), dtype=np.float64)
        actual = self._truth * self.boost
        by_size = {}
        for size in SIZES:
            near = (actual >= size / _HALF_STEP) & (actual < size * _HALF_STEP)
            if near.sum() >= 30:
                by_size[size] = float(errors[near].mean())
        evenly = (facts.expected_users or 1) * expected_visits(facts) / self._truth.size
        return Forecast(float(errors.mean()), by_size, *_of_use(self._truth, runs, evenly))

    def best_bound(self, scheme: Scheme, candidates: Sequence[Bound]) -> tuple[Bound, Forecast]:
        """The bound of least error, all else equal."""
        tried = [(bound, self.run(scheme, bound=bound, draws=1)) for bound in candidates]
        return min(tried, key=lambda pair: pair[1].mean_relative_error)

    def epsilon_for(
        self, scheme: Scheme, target: float, low: float = 0.01, high: float = 20.0
    ) -> float | None:
        """The epsilon (to 5 %) that reaches a mean relative error; None if `high` does not."""
        if self.run(scheme, epsilon=high, draws=1).mean_relative_error > target:
            return None
        if self.run(scheme, epsilon=low, draws=1).mean_relative_error <= target:
            return low
        while high / low > 1.05:
            middle = (low * high) ** 0.5
            good = self.run(scheme, epsilon=middle, draws=1).mean_relative_error <= target
            low, high = (low, middle) if good else (middle, high)
        return high

    def _run(self, scheme: Scheme, facts: PublicFacts, draw: int) -> Density:
        wall = PartWall.seeded(_SEED + draw)
        wall.part = self.part
        with threadpool_limits(1):  # matrices this small: more threads only wait for each other
            return scheme.run(self._source, wall, facts)


def _lived(plan: CityPlan, facts: PublicFacts, people: int) -> tuple[City, pa.Table, Table]:
    """A city, the records of so many people, each of whom may be several of its own, and what is
    true of them."""
    city = build_city(plan)
    table = pa.Table.from_batches(list(generate_events(city)))
    if people < plan.users:
        user = table["user_id"].combine_chunks().dictionary_encode().indices.to_numpy() % people
        # At any of its places in any of its hours: a vehicle is not at home at night.
        luck = np.random.default_rng(_SEED).random(user.size)
        order, mixed = np.argsort(user, kind="stable"), np.lexsort((luck, user))
        columns = {"user_id": user[order], "timestamp": table["timestamp"].take(order)}
        table = pa.table(columns | {"tower": table["tower"].take(mixed)})
    return city, table, true_counts(table, city.towers, facts.grid, facts.counting)


def _of_use(truth: Table, runs: list[Density], evenly: float) -> tuple[float, float, float]:
    """The last three figures of a `Forecast`."""
    free = min(float(truth.mean()), float(np.abs(truth - evenly).mean()))
    whole = max(float(truth.sum()), 1e-9)
    errors, shares, halves, off = [], [], [], []
    for run in runs:
        middle = np.asarray(run.values if run.median is None else run.median, dtype=np.float64)
        errors.append(float(np.abs(truth - middle).mean()))
        off.append(np.asarray(run.values, dtype=np.float64) - truth)
        if run.posterior is not None:
            mean = mean_of(run.posterior.draws)
            away = np.sqrt(variance_of(run.posterior.draws, mean)) > mean / 2
            shares.append(float(mean[away].sum()) / max(float(mean.sum()), 1e-9))
            total = run.posterior.total(COVERAGE)
            halves.append((total.ends[1] - total.ends[0]) / 2 / max(total.value, 1e-9))
    every = np.stack(off)
    if not shares:  # what the bound takes away, if nothing puts it back, is lost in every part
        away = np.sqrt(np.square(every).mean(axis=0)) > truth / 2
        shares = [float(truth[away].sum()) / whole]
        halves = [_WIDTH * math.sqrt(float(np.square(every.sum(axis=(1, 2))).mean())) / whole]
    ratio = float(np.mean(errors)) / max(free, 1e-9)
    return float(np.mean(halves)), ratio, float(np.mean(shares))


def _settled(drawn: list[Table]) -> bool:
    """Whether these are enough to know their mean by."""
    means = [float(one.mean()) for one in drawn]
    if len(means) < _FEWEST_DRAWS:
        return False
    return float(np.std(means, ddof=1) / math.sqrt(len(means))) <= _SURE * float(np.mean(means))


def district(
    facts: PublicFacts,
    users: int,
    zones: int,
    people: int = PEOPLE,
    most: int | None = None,
    visits: float | None = None,
) -> CityPlan:
    """A made-up city with as many people per zone: at most `people`, and those of `most` zones,
    who make `visits`, or as many as in call records."""
    made = min(users, people, max(1, round(users * min(1.0, (most or zones) / zones))))
    share = made / users
    few = max(4, min(zones, max(round(zones * share), FEWEST_ZONES)))
    towers = min(max(4, round(_reaching(facts) * few / zones)), MAX_TOWERS)
    begin, after = facts.grid.period  # all weeks, where they are folded to one
    first = datetime.fromtimestamp(begin / 1e6, UTC)
    last = datetime.fromtimestamp((after - 1) / 1e6, UTC)
    local = ZoneInfo(facts.grid.tz)
    start, end = first.astimezone(local).date(), last.astimezone(local).date()
    days = min((end - start).days + 1, 366 if facts.grid.fold is None else FOLDED_DAYS)
    return CityPlan(
        users=made,
        towers=towers,
        zones=few,
        seed=_SEED,
        start=start,
        days=days,
        tz=facts.grid.tz,
        area_km2=max(0.5, few * _KM2_PER_ZONE),
        mean_tower_hours=None
        if visits is None
        else max(_hours(visits, facts) / _several(visits, facts, days), 1.5),
    )


def _hours(visits: float, facts: PublicFacts) -> float:
    """Tower-hours, which a city is made of, for visits: in longer slots there are fewer of these
    (`expected_visits`)."""
    slot = float(facts.grid.edges[-1] - facts.grid.edges[0]) / 3.6e9 / facts.grid.slots
    return visits * math.pow(slot, 0.4)


def _several(visits: float, facts: PublicFacts, days: int) -> int:
    """How many people of a city one is made of. They live their days at home, at work and
    elsewhere, so nobody is seen more than once in every hour; a vehicle is, all over the city."""
    return max(1, math.ceil(_hours(visits, facts) / (24.0 * days)))


def _reaching(facts: PublicFacts) -> int:
    """Places whose visits reach a zone: of a national list those in and around the region."""
    return facts.places if facts.overlay is None else int((facts.overlay.sums > 0).sum())


def true_counts(table: pa.Table, towers: Places, grid: TimeGrid, counting: Counting) -> Table:
    """Exact counts of made-up records, tower x slot: nobody real is in them."""
    users = table["user_id"].combine_chunks().dictionary_encode()
    user = users.indices.to_numpy().astype(np.int64)
    names = table["tower"].combine_chunks().dictionary_encode()
    codes = np.searchsorted(towers.ids, np.asarray(names.dictionary.to_pylist(), np.str_))
    tower = codes[names.indices.to_numpy()]
    slot = grid.slot_of(table["timestamp"].cast(pa.int64()).to_numpy()).astype(np.int64)
    inside = slot >= 0
    key = (user[inside] * grid.slots + slot[inside]) * len(towers) + tower[inside]
    key = np.sort(key)
    key = key[np.concatenate(([True], key[1:] != key[:-1]))] if key.size else key
    moment, place = np.divmod(key, len(towers))
    weight = np.ones(key.size)
    if counting is Counting.PEOPLE:
        _, which, places = np.unique(moment, return_inverse=True, return_counts=True)
        weight = 1.0 / places[which]
    cell = place * grid.slots + moment % grid.slots
    flat = np.bincount(cell, weights=weight, minlength=len(towers) * grid.slots)
    return np.asarray(flat, dtype=np.float64).reshape(len(towers), grid.slots)
