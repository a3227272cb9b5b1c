"""Plans from public facts: the bill of many releases, and rehearsals on made-up people."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import shapely

from sfumato.density.baselines import Gaussian, Laplace
from sfumato.density.bayes import Bayes
from sfumato.density.fitness import Case
from sfumato.density.plan import _activity, cost, period_days, releases_within
from sfumato.density.rehearsal import PEOPLE, Rehearsal, district, true_counts
from sfumato.density.scheme import PublicFacts
from sfumato.density.tiled import PartWall, TiledSource, tiled_layout, tiled_overlay
from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.geography.overlay import Layout, Overlay
from sfumato.model.counts import Counting, SampleBound, WeightBound, norms_digest
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.door import open_private
from sfumato.utility.density import relative_error

BOUND = WeightBound(2.0)
WEEK = TimeGrid.between(date(2007, 9, 10), date(2007, 9, 17), "1h", "Europe/Paris")


def facts(places: int = 60, epsilon: float = 0.5) -> PublicFacts:
    ids = np.array([f"place {i:03d}" for i in range(places)])
    return PublicFacts(ids, WEEK, epsilon, 1e-6, bound=SampleBound(30))


def test_pure_releases_add_up() -> None:
    """Ten releases of epsilon 0.2 make 2 by the plain sum; zCDP does better at a delta."""
    plan = Laplace().plan(facts(epsilon=0.2))
    assert releases_within(plan, 2.0, 0.0) == 10
    assert releases_within(plan, 0.19, 0.0) == 0
    assert releases_within(plan, 2.0, 1e-6) >= 10
    with pytest.raises(UsageError, match="positive"):
        releases_within(plan, 0.0, 1e-6)


def test_releases_grow_with_the_square_of_the_cap() -> None:
    """rho adds up and epsilon is about its root: ten times the cap, a hundred times as many."""
    plan = Gaussian().plan(facts(epsilon=0.1))
    few, many = releases_within(plan, 0.3, 1e-6), releases_within(plan, 3.0, 1e-6)
    assert few == pytest.approx(8, abs=2)
    assert 60 < many / few < 110


def test_the_cost_is_what_was_asked_for() -> None:
    found = cost(Laplace(), facts())
    assert found.spend.epsilon == pytest.approx(0.5)
    assert found.spend.method == "pure"
    assert found.noise["counts"] == pytest.approx(60 * 2**0.5, rel=1e-3)  # l / epsilon
    assert period_days(facts()) == 7


def test_what_a_forecast_assumes_is_what_was_stated() -> None:
    known = replace(facts(), expected_users=1000, parameters={"visits": 4.0})
    stated, unstated = (Case.of("bayes", each) for each in (known, replace(known, parameters={})))
    assert stated is not None
    assert unstated is not None
    assert _activity(stated) == "about 4 visits of a person in the period, as stated"
    assert (
        _activity(unstated) == "3.39 to 13.6 visits of a person in the period, which nobody stated"
    )


def test_a_district_has_as_many_people_per_zone() -> None:
    plan = district(facts(1303), 2_000_000, 989)
    assert plan.users == PEOPLE
    assert plan.users / plan.zones == pytest.approx(2_000_000 / 989, rel=0.02)
    assert plan.towers / plan.zones == pytest.approx(1303 / 989, rel=0.02)
    assert district(facts(60), 5_000, 45).users == 5_000
    assert plan.mean_tower_hours is None
    assert district(facts(60), 5_000, 45, visits=90).mean_tower_hours == 90
    vehicle = district(facts(60), 5_000, 45, visits=400)
    assert vehicle.mean_tower_hours == pytest.approx(400 / 3), "each is made of three people"


def test_a_national_list_is_rehearsed_with_the_towers_that_reach_the_zones() -> None:
    """60,000 towers, of which a thirtieth lie about the zones; and more than a city can have."""
    near = sp.csr_array((np.ones(2000), (np.arange(2000), np.arange(2000) % 1000)), (60_000, 1000))
    ids = np.array([f"z{k:04d}" for k in range(1000)])
    nation = facts(60_000)
    list_of = replace(nation, overlay=Overlay(nation.place_ids, ids, near))
    plan = district(list_of, 2_000_000, 1000)
    assert (plan.zones, plan.towers) == (50, 100)
    assert district(nation, 2_000_000, 40).towers == 20_000


def test_made_up_records_are_counted_exactly() -> None:
    """Twice at a in one hour counts once; at a and b in one hour is half of a person each."""
    towers = Places.of(PlaceKind.TOWERS, ["a", "b"], [shapely.Point(2, 48), shapely.Point(2, 49)])
    at = WEEK.edges[[3, 3, 3, 5]]
    table = pa.table(
        {
            "user_id": [7, 7, 7, 9],
            "timestamp": pa.array(at, pa.timestamp("us", tz="UTC")),
            "tower": ["a", "a", "b", "b"],
        }
    )
    visits = true_counts(table, towers, WEEK, Counting.VISITS)
    assert (visits[0, 3], visits[1, 3], visits[1, 5], visits.sum()) == (1, 1, 1, 3)
    people = true_counts(table, towers, WEEK, Counting.PEOPLE)
    assert (people[0, 3], people[1, 3], people[1, 5], people.sum()) == (0.5, 0.5, 1, 2)


def test_copies_of_a_district(town: Any) -> None:
    source = TiledSource(town.source, 3)
    assert len(set(source.place_ids.tolist())) == 18
    one = open_private(town.source.place_totals(WeightBound(4.0), Counting.VISITS)).values
    assert np.array_equal(
        open_private(source.place_totals(WeightBound(4.0), Counting.VISITS)).values, np.tile(one, 3)
    )
    total = open_private(town.source.capped_total(9, Counting.VISITS)).values
    assert open_private(source.capped_total(9, Counting.VISITS)).values == 3 * total
    steps = open_private(town.source.ladder((1, 2, 5), Counting.VISITS)).values
    tripled = open_private(source.ladder((1, 2, 5), Counting.VISITS)).values
    assert np.array_equal(tripled, 3 * steps)
    shares = tiled_overlay(town.overlay, 3)
    assert shares.shares.shape == (18, 12)
    assert shares.to_zones(np.ones((18, 1)))[4:8].ravel().tolist() == pytest.approx(
        town.overlay.to_zones(np.ones((6, 1))).ravel().tolist()
    )
    layout = tiled_layout(Layout(np.array([[0.0, 0.0], [10.0, 20.0]]), np.ones(2)), 3)
    assert len({tuple(row) for row in layout.centres.tolist()}) == 6


@pytest.fixture(scope="module")
def stage() -> Rehearsal:
    return Rehearsal(facts(60), 12_000, 45, LocalSource, relative_error)


def test_a_rehearsal_says_what_noise_does(stage: Rehearsal) -> None:
    """By hand: noise of mean size s on a count of c is an error of s / c, here for c near 30."""
    found = stage.run(Gaussian(), bound=WeightBound(3.0), draws=1)
    less = stage.run(Gaussian(), bound=WeightBound(3.0), epsilon=5.0, draws=1)
    assert found.mean_relative_error > 2 * less.mean_relative_error
    sizes = list(found.by_size)
    assert sizes == sorted(sizes)
    assert found.by_size[sizes[0]] > found.by_size[sizes[-1]]


def test_the_epsilon_of_a_wanted_error_reaches_it(stage: Rehearsal) -> None:
    wanted = stage.run(Gaussian(), epsilon=2.0, draws=1).mean_relative_error
    epsilon = stage.epsilon_for(Gaussian(), wanted, low=0.5, high=8.0)
    assert epsilon == pytest.approx(2.0, rel=0.06)
    assert stage.epsilon_for(Gaussian(), 1e-6, low=0.5, high=1.0) is None


def test_the_best_bound_is_the_one_of_least_error(stage: Rehearsal) -> None:
    bound, found = stage.best_bound(Gaussian(), [WeightBound(2.0), WeightBound(40.0)])
    assert bound == WeightBound(2.0)
    assert found.mean_relative_error > 0


def test_made_up_people_make_the_visits_that_are_asked_for() -> None:
    """Hours at one place fall into one slot of a day; a vehicle is at many places in every hour."""
    days = TimeGrid.between(date(2007, 9, 10), date(2007, 9, 17), "1d", "Europe/Paris")
    for visits, grid in ((3.0, WEEK), (500.0, WEEK), (9.0, days)):
        asked = replace(facts(45), grid=grid)
        stage = Rehearsal(asked, 400, 45, LocalSource, relative_error, visits=visits)
        assert stage.users == 400
        assert stage.visits == pytest.approx(visits, rel=0.15)


def test_copies_are_weighted_by_their_own_norms(town: Any) -> None:
    """A scheme's event norms differ between copies; each is counted as if it were alone."""
    rng = np.random.default_rng(3)
    norms = rng.integers(100, 600, (12, 48))
    counts = open_private(TiledSource(town.source, 2).weighted(BOUND, Counting.VISITS, norms))
    for copy, rows in enumerate((slice(0, 6), slice(6, 12))):
        one = open_private(town.source.weighted(BOUND, Counting.VISITS, norms[rows].copy()))
        assert np.array_equal(counts.values[rows], one.values), copy
    assert counts.norms == norms_digest(norms)


def test_bayes_is_rehearsed_with_the_number_of_people_it_is_told() -> None:
    """A hundred thousand are made up for five million: epsilon goes up, the number goes down."""
    few = replace(facts(9), delta=1e-8)
    stage = Rehearsal(few, 5_000_000, 9, LocalSource, relative_error)
    assert stage.boost == pytest.approx(50, rel=0.01)
    assert 0 < stage.run(Bayes(), draws=1).mean_relative_error < 0.3


def test_a_part_of_a_large_city_is_forecast_like_the_whole() -> None:
    """Its regime is that of the whole, and sums over all places are known as well."""
    whole = Rehearsal(large := replace(facts(90), bound=BOUND), 6_000, 80, LocalSource,
                      relative_error, cells=None)  # fmt: skip
    part = Rehearsal(large, 6_000, 80, LocalSource, relative_error, cells=45 * WEEK.slots)
    assert whole.part == 1
    assert part.part == pytest.approx(45 / 80, rel=0.05)
    assert (part.zones, part.users) == (45, 3375)
    for scheme, near in ((Gaussian(), 0.1), (Bayes(), 0.15)):
        said, of_part = (one.run(scheme, draws=2).mean_relative_error for one in (whole, part))
        assert of_part == pytest.approx(said, rel=near), scheme.name


def test_sums_over_all_places_have_the_noise_of_the_whole(town: Any) -> None:
    """In a quarter of a city a fourth of the deviation: the same share of the total."""
    bound, sigma2 = WeightBound(4.0), 1 << 40
    wall = PartWall.seeded(1)
    wall.part = 0.25
    source = TiledSource(town.source, 2)
    slots = wall.gaussian(source.slot_totals(bound, Counting.VISITS), sigma2=sigma2, label="s")
    places = wall.gaussian(source.place_totals(bound, Counting.VISITS), sigma2=sigma2, label="p")
    assert slots.variance == pytest.approx(sigma2 / 16, rel=1e-6)
    assert places.variance == pytest.approx(sigma2, rel=1e-6)
    total = source.capped_total(9, Counting.VISITS)
    assert wall.laplace(total, scale=400, label="t").variance == pytest.approx(2 * 100**2, rel=1e-2)
