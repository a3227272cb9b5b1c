"""The coverage gate: a scheme that prints 90 % intervals keeps them, at several sizes.

Every scheme of the registry is run on made-up towns: people seen as in call records, people seen
in most hours, people hardly ever seen. A scheme may print no intervals, and then says so. Coverage
is pooled over releases by what was published (whoever selects by the true count fails an exact
posterior too). These towns are for development; the judgement on fresh ones is
docs/benchmarks/levels.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from sfumato.city import CityPlan, build_city, generate_events
from sfumato.density.registry import SCHEMES
from sfumato.density.scheme import Density, PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.geography.overlay import layout_of_cells, layout_of_zones, overlay
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.events import read_events
from sfumato.model.counts import Counting
from sfumato.model.source import RecallingSource
from sfumato.privacy.door import open_private
from sfumato.privacy.wall import Wall

SEED = 700
"""Development cities are 500 to 899; the fresh ones that judge begin at 90,000."""
TOWNS = ((2_000, 13.55), (1_500, 60.0), (6_000, 4.0))
"""People, and the tower-hours of an average one in the week."""
EPSILONS = (0.3, 1.0)
BAND, TOWN_BAND = (0.80, 0.98), (0.65, 0.995)
"""Of all releases pooled and of those of one town: few, and each has one level that all its cells
share. What is judged on many is 0.85 to 0.95."""


@dataclass(frozen=True, slots=True, eq=False)
class Town:
    source: RecallingSource
    facts: PublicFacts
    truth: NDArray[np.float64]


@cache
def town(people: int, visits: float, zones: int = 24, empty: bool = False) -> Town:
    plan = CityPlan(
        users=people,
        towers=round(1.3 * zones),
        zones=zones,
        seed=SEED,
        area_km2=0.106 * zones,
        mean_tower_hours=visits,
    )
    city = build_city(plan)
    table = pa.Table.from_batches(list(generate_events(city)))
    events = read_events(table[:0] if empty else table)
    source = RecallingSource(LocalSource(events, city.towers, plan.grid, threads=1))
    cells = voronoi_cells(city.towers, city.zones, period=plan.grid)
    shares = overlay(cells, city.zones)
    facts = PublicFacts(
        city.towers.ids,
        plan.grid,
        EPSILONS[0],
        0.1 / people,
        people,
        overlay=shares,
        layout=layout_of_cells(cells),
        zone_layout=layout_of_zones(city.zones),
    )
    truth = shares.to_zones(open_private(source.exact(Counting.VISITS)).values)
    return Town(source, facts, truth)


def releases(name: str, draws: int, zones: int) -> Iterator[list[tuple[Town, Density]]]:
    """For each town its releases, one epsilon after the other in turn."""
    for people, visits in TOWNS:
        made = town(people, visits, zones)
        found = []
        for draw in range(draws):
            facts = replace(made.facts, epsilon=EPSILONS[draw % len(EPSILONS)])
            found.append((made, SCHEMES[name].run(made.source, Wall.seeded(SEED + draw), facts)))
        yield found


def check(name: str, draws: int, zones: int = 24) -> None:
    """Coverage of all cells, of those with a published count of one or more, and of totals."""
    every, some, totals = [], [], []
    for found in releases(name, draws, zones):
        here = []
        for made, density in found:
            if density.lower is None or density.upper is None:
                words = (*density.remarks, *SCHEMES[name].plan(made.facts).lines)
                assert "interval" in " ".join(words), f"{name} does not say it prints no intervals"
                return
            inside = (density.lower <= made.truth) & (made.truth <= density.upper)
            every.append(inside.ravel())
            here.append(inside[np.asarray(density.values) >= 1.0])
            if density.posterior is not None:
                total = density.posterior.total(0.90)
                totals.append(total.lower <= made.truth.sum() <= total.upper)
        assert TOWN_BAND[0] <= _share(here) <= TOWN_BAND[1]
        some += here
    assert _share(every) >= BAND[0]
    assert BAND[0] <= _share(some) <= BAND[1]
    # Of so many totals at least those that a binomial law with 0.9 has but for one time in 1,000.
    assert not totals or sum(totals) >= binom.ppf(1e-3, len(totals), 0.9)


def _share(parts: list[NDArray[np.bool_]]) -> float:
    return float(np.concatenate(parts).mean())


@pytest.mark.parametrize("name", sorted(SCHEMES))
def test_intervals_hold_what_they_say(name: str) -> None:
    check(name, draws=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCHEMES))
def test_intervals_hold_what_they_say_on_more_releases(name: str) -> None:
    check(name, draws=16)
    check(name, draws=8, zones=150)


@pytest.mark.privacy
@pytest.mark.parametrize("name", sorted(SCHEMES))
def test_whether_there_are_intervals_hangs_on_nobody(name: str) -> None:
    full, nobody = (town(*TOWNS[0], empty=empty) for empty in (False, True))
    found = [
        SCHEMES[name].run(made.source, Wall.seeded(SEED), full.facts) for made in (full, nobody)
    ]
    for column in ("lower", "upper", "coverage", "median"):
        missing = {getattr(density, column) is None for density in found}
        assert len(missing) == 1
