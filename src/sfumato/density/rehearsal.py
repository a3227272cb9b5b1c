"""A rehearsal: the scheme itself, run on made-up people, says how good a release will be.

No formula knows what clustering, shrinkage and smoothing leave of the noise. So a synthetic
city with as many people per zone as the real one is expected to have (for speed a district of
it, laid side by side with itself) is counted and released with the same budget, bound and
parameters, and compared with its own truth. It is as much like the real city as its
assumptions, which are public and stated: tower-hours per person with mean 13.55 and standard
deviation 18.33 a week (Acs & Castelluccia 2014), or the mean that the parameter `visits` says;
home, work and leisure rhythms; no one-off crowds. What the contribution bound takes away from
busy people is part of the measured error. Cities differ: forecasts for the same facts vary by
some 10 % with the made-up city, and a district is more of a patchwork than a city is.
docs/commands/plan.md has forecasts beside what was then measured.

The copies (`TiledSource`) are there because a scheme that learns from many places at once (a
rhythm they share, a grand total) would look worse on a district than it is on a city; copies of the
district are a city of the right size for the price of one district. For made-up people only.

A forecast does not need all of a large city either. From `CELLS` numbers on a part of it is laid
out, and what is summed over all places (`TiledSource.slot_totals`, `capped_total`, `ladder`) is
measured with as much less noise as there are fewer people in it (`_PartWall`): a total of the city
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
from fractions import Fraction
from functools import reduce
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.city import CityPlan, build_city, generate_events
from sfumato.city.plan import MAX_TOWERS
from sfumato.density.scheme import Density, PublicFacts, Scheme
from sfumato.geography.overlay import Layout, Overlay, layout_of_cells, layout_of_zones, overlay
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.events import read_events
from sfumato.model.counts import Bound, Counting, Counts, SampleBound, WeightBound, norms_digest
from sfumato.model.events import Events
from sfumato.model.masks import Masks, Measure
from sfumato.model.places import Places
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.events import Measurement
from sfumato.privacy.wall import Wall

_GAP = 1.05
"""Distance of two copies in widths of the district: neighbours across the gap may merge."""


@dataclass(frozen=True, slots=True, eq=False)
class TiledSource:
    """`copies` of a source, one below the other. A copy's people are people of their own."""

    source: Source
    copies: int

    @property
    def grid(self) -> TimeGrid:
        return self.source.grid

    @property
    def place_ids(self) -> NDArray[np.str_]:
        return tiled_ids(self.source.place_ids, self.copies)

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        return self._stacked(self.source.sampled(bound, key))

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        """With event norms, which differ between copies, every copy is counted by itself."""
        if event_norms is None:
            return self._stacked(self.source.weighted(bound, counting))
        each = event_norms.reshape(self.copies, -1, event_norms.shape[1])
        boxes = [
            self.source.weighted(bound, counting, np.ascontiguousarray(norms)) for norms in each
        ]
        whole = reduce(lambda above, below: above.map_with(below, _below, below.label), boxes)
        return whole.map(lambda counts: replace(counts, norms=norms_digest(event_norms)))

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        return self._stacked(self.source.place_totals(bound, counting))

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        return self._multiplied(self.source.slot_totals(bound, counting))

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        return self._multiplied(self.source.capped_total(cap, counting))

    def ladder(self, steps: tuple[int, ...], counting: Counting) -> Private[Counts]:
        return self._multiplied(self.source.ladder(steps, counting))

    def answers(self, masks: Masks, measure: Measure, bound: int | WeightBound) -> Private[Counts]:
        """Nobody is in two copies, so their answers add up."""
        each = masks.places.reshape(self.copies, -1, masks.places.shape[1])
        parts = [replace(masks, places=places) for places in each]
        boxes = [self.source.answers(part, measure, bound) for part in parts]
        return reduce(lambda one, other: one.map_with(other, _added, other.label), boxes)

    def exact(self, counting: Counting) -> Private[Counts]:
        return self._stacked(self.source.exact(counting))

    def fingerprint(self, key: bytes) -> str:
        return self.source.fingerprint(key)

    def _stacked(self, box: Private[Counts]) -> Private[Counts]:
        return _with_values(box, lambda values: tiled(values, self.copies))

    def _multiplied(self, box: Private[Counts]) -> Private[Counts]:
        return _with_values(box, lambda values: values * self.copies, _SUM)


def _added(one: Counts, other: Counts) -> Counts:
    return replace(other, values=one.values + other.values)


def _below(above: Counts, below: Counts) -> Counts:
    return replace(below, values=np.concatenate((above.values, below.values)))


def tiled(values: NDArray[np.int64], copies: int) -> NDArray[np.int64]:
    """Rows `copies` times, one block below the other."""
    return np.concatenate([values] * copies)


def tiled_ids(ids: NDArray[np.str_], copies: int) -> NDArray[np.str_]:
    """Ids that say which copy they are of, sorted within and between copies as before."""
    return np.array([f"{copy:04d}/{key}" for copy in range(copies) for key in ids.tolist()])


def tiled_layout(layout: Layout, copies: int) -> Layout:
    """Copies on a square grid of districts."""
    across = math.ceil(math.sqrt(copies))
    step = _GAP * np.ptp(layout.centres, axis=0)
    shifts = [(copy % across, copy // across) * step for copy in range(copies)]
    return Layout(
        np.concatenate([layout.centres + shift for shift in shifts]),
        np.tile(layout.areas, copies),
    )


def tiled_overlay(one: Overlay, copies: int) -> Overlay:
    """Each copy's towers over its own zones."""
    shares = sp.csr_array(sp.block_diag([one.shares] * copies, format="csr"))
    return Overlay(tiled_ids(one.place_ids, copies), tiled_ids(one.zone_ids, copies), shares)


def _with_values(
    box: Private[Counts],
    change: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    label: str | None = None,
) -> Private[Counts]:
    return box.map(lambda counts: replace(counts, values=change(counts.values)), label)


_SUM = "sum over all places"
_LEAST_NOISE = Fraction(1, 2)
"""In lattice units; below a quarter no noise is drawn."""


class _PartWall(Wall):
    """Predictable noise for a part of a city: as much less on sums over all places as the part has
    fewer people, so that they are known as well as those of the city. For made-up people only."""

    part: float = 1.0

    def gaussian(
        self,
        box: Private[Counts],
        *,
        sigma2: Fraction | int,
        label: str,
        touched: int | None = None,
    ) -> Measurement:
        if box.label == _SUM:
            square = Fraction(self.part).limit_denominator(1 << 20) ** 2
            sigma2 = max(sigma2 * square, _LEAST_NOISE**2)
        return super().gaussian(box, sigma2=sigma2, label=label, touched=touched)

    def laplace(
        self, box: Private[Counts], *, scale: Fraction | int, label: str, about: str = ""
    ) -> Measurement:
        if box.label == _SUM:
            share = Fraction(self.part).limit_denominator(1 << 20)
            scale = max(scale * share, _LEAST_NOISE)
        return super().laplace(box, scale=scale, label=label, about=about)


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
_FEWEST_DRAWS, _DRAWS, _FEW_CELLS, _SURE = 2, (4, 8), 20_000, 0.03
"""Draws of the noise at least; at most, above so many cells and up to them; and the relative
standard error of the mean error from which on no more are made. With 20,000 people at epsilon 0.1
two draws of `paris`, whose grand total is then nearly all noise, were off by 26 to 31 %."""
_HALF_STEP = 10**0.25
_KM2_PER_ZONE = 105 / 989
_SEED = 101
"""Of six districts tried, one whose forecasts lie closest to what cities of all sizes gave."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expected errors: the mean over zones and slots, and by the size of the true count."""

    mean_relative_error: float
    by_size: dict[int, float]
    """Mean relative error of counts near 3, 10, 30 …; sizes that hardly occur are left out."""


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
    ) -> None:
        """At most `people` are made up, and about `cells` numbers released. `spread` says whether
        places are spread over zones, where the facts' overlay and the numbers of both do not."""
        most = zones if cells is None else max(FEWEST_ZONES, cells // facts.grid.slots)
        plan = district(facts, users, zones, people, most)
        city = build_city(plan)
        table = pa.Table.from_batches(list(generate_events(city)))
        self._relative = relative
        if spread is None:
            spread = facts.overlay is not None or zones != facts.places
        self.users = plan.users
        self.zones = len(city.zones if spread else city.towers)
        self.boost = max(1.0, (users / zones) / (plan.users / self.zones))
        """How much larger the real counts are; epsilon is raised by it."""
        self.copies = max(1, round(min(zones, most) / self.zones))
        self.part = min(1.0, self.copies * self.zones / zones) if most < zones else 1.0
        """Share of the city that is laid out."""
        served = voronoi_cells(city.towers, city.zones, period=facts.grid)
        to_zones = overlay(served, city.zones) if spread else None
        truth = true_counts(table, city.towers, facts.grid, facts.counting)
        self.visits = float(truth.sum()) / plan.users
        """Of an average made-up person …"""
        parameters = dict(facts.parameters)
        if "visits" in parameters:  # … which is what their holder would state
            parameters["visits"] = min(max(self.visits, 0.1), 10.0 * facts.grid.slots)
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
        most = draws or _DRAWS[self._truth.size <= _FEW_CELLS]
        drawn: list[Table] = []
        while len(drawn) < most and not (draws is None and _settled(drawn)):
            drawn.append(self._errors(scheme, facts, len(drawn)))
        errors = np.asarray(np.mean(drawn, axis=0), dtype=np.float64)
        actual = self._truth * self.boost
        by_size = {}
        for size in SIZES:
            near = (actual >= size / _HALF_STEP) & (actual < size * _HALF_STEP)
            if near.sum() >= 30:
                by_size[size] = float(errors[near].mean())
        return Forecast(float(errors.mean()), by_size)

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

    def released(self, scheme: Scheme, draws: int) -> tuple[Table, list[Density]]:
        """The made-up truth, and what the scheme makes of it in so many draws of the noise."""
        runs = [self._run(scheme, self._facts, draw) for draw in range(draws)]
        return self._truth, runs

    def _run(self, scheme: Scheme, facts: PublicFacts, draw: int) -> Density:
        wall = _PartWall.seeded(_SEED + draw)
        wall.part = self.part
        with threadpool_limits(1):  # matrices this small: more threads only wait for each other
            return scheme.run(self._source, wall, facts)

    def _errors(self, scheme: Scheme, facts: PublicFacts, draw: int) -> Table:
        density = self._run(scheme, facts, draw)
        return self._relative(self._truth, np.asarray(density.values, dtype=np.float64))


def _settled(drawn: list[Table]) -> bool:
    """Whether these are enough to know their mean by."""
    means = [float(one.mean()) for one in drawn]
    if len(means) < _FEWEST_DRAWS:
        return False
    return float(np.std(means, ddof=1) / math.sqrt(len(means))) <= _SURE * float(np.mean(means))


def district(
    facts: PublicFacts, users: int, zones: int, people: int = PEOPLE, most: int | None = None
) -> CityPlan:
    """A made-up city with as many people per zone: at most `people`, and those of `most` zones."""
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
    visits = facts.parameters.get("visits")
    slot_hours = float(facts.grid.edges[-1] - facts.grid.edges[0]) / 3.6e9 / facts.grid.slots
    return CityPlan(
        users=made,
        towers=towers,
        zones=few,
        seed=_SEED,
        start=start,
        days=days,
        tz=facts.grid.tz,
        area_km2=max(0.5, few * _KM2_PER_ZONE),
        # A city is made of tower-hours; of longer slots there are fewer (`expected_visits`).
        mean_tower_hours=None
        if visits is None
        else min(max(float(visits) * slot_hours**0.4, 1.5), 80.0 * days),
    )


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
