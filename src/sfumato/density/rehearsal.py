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
from functools import reduce
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.city import CityPlan, build_city, generate_events
from sfumato.city.plan import MAX_TOWERS
from sfumato.density.scheme import Density, PublicFacts, Scheme
from sfumato.geography.overlay import Layout, Overlay, layout_of_cells, layout_of_zones, overlay
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.events import read_events
from sfumato.model.counts import Bound, Counting, Counts, SampleBound, WeightBound, norms_digest
from sfumato.model.events import Events
from sfumato.model.places import Places
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.model.time_grid import TimeGrid
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

    def exact(self, counting: Counting) -> Private[Counts]:
        return self._stacked(self.source.exact(counting))

    def fingerprint(self, key: bytes) -> str:
        return self.source.fingerprint(key)

    def _stacked(self, box: Private[Counts]) -> Private[Counts]:
        return _with_values(box, lambda values: tiled(values, self.copies))

    def _multiplied(self, box: Private[Counts]) -> Private[Counts]:
        return _with_values(box, lambda values: values * self.copies)


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
    box: Private[Counts], change: Callable[[NDArray[np.int64]], NDArray[np.int64]]
) -> Private[Counts]:
    return box.map(lambda counts: replace(counts, values=change(counts.values)))


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
_MANY_CELLS = 50_000
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
        spread: bool | None = None,
    ) -> None:
        """At most `people` are made up. `spread` says whether places are spread over zones, where
        the facts' overlay and the numbers of both do not."""
        plan = district(facts, users, zones, people)
        city = build_city(plan)
        table = pa.Table.from_batches(list(generate_events(city)))
        self._relative = relative
        if spread is None:
            spread = facts.overlay is not None or zones != facts.places
        self.users = plan.users
        self.zones = len(city.zones if spread else city.towers)
        self.boost = max(1.0, (users / zones) / (plan.users / self.zones))
        """How much larger the real counts are; epsilon is raised by it."""
        self.copies = max(1, round(zones / self.zones))
        cells = voronoi_cells(city.towers, city.zones, period=facts.grid)
        to_zones = overlay(cells, city.zones) if spread else None
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
            expected_users=max(1, round(users / self.boost)),
            unit=facts.unit,
            bound=facts.bound,
            counting=facts.counting,
            overlay=None if to_zones is None else tiled_overlay(to_zones, self.copies),
            parameters=parameters,
            layout=tiled_layout(layout_of_cells(cells), self.copies),
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

        Small releases differ more from draw to draw, and cost less: more draws are made.
        """
        facts = self._facts
        if epsilon is not None:
            facts = replace(facts, epsilon=epsilon * self.boost)
        if bound is not None:
            facts = replace(facts, bound=bound)
        times = draws or (2 if self._truth.size > _MANY_CELLS else 8)
        drawn = [self._errors(scheme, facts, draw) for draw in range(times)]
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
        return scheme.run(self._source, Wall.seeded(_SEED + draw), facts)

    def _errors(self, scheme: Scheme, facts: PublicFacts, draw: int) -> Table:
        density = self._run(scheme, facts, draw)
        return self._relative(self._truth, np.asarray(density.values, dtype=np.float64))


def district(facts: PublicFacts, users: int, zones: int, people: int = PEOPLE) -> CityPlan:
    """A made-up city with as many people per zone, and at most `people` in all."""
    made = min(users, people)
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
    _, user = np.unique(table["user_id"].to_numpy(), return_inverse=True)
    names = np.asarray(table["tower"].cast(pa.string()).to_numpy(zero_copy_only=False), np.str_)
    tower = np.searchsorted(towers.ids, names)
    slot = grid.slot_of(table["timestamp"].cast(pa.int64()).to_numpy()).astype(np.int64)
    inside = slot >= 0
    key = (user[inside] * grid.slots + slot[inside]) * len(towers) + tower[inside]
    key = np.unique(key)
    moment, place = np.divmod(key, len(towers))
    weight = np.ones(key.size)
    if counting is Counting.PEOPLE:
        _, which, places = np.unique(moment, return_inverse=True, return_counts=True)
        weight = 1.0 / places[which]
    cell = place * grid.slots + moment % grid.slots
    flat = np.bincount(cell, weights=weight, minlength=len(towers) * grid.slots)
    return np.asarray(flat, dtype=np.float64).reshape(len(towers), grid.slots)
