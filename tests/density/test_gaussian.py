"""The gaussian baseline, on a small city counted by the engine itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import shapely

from sfumato.density.baselines import Gaussian
from sfumato.density.registry import scheme_named
from sfumato.density.scheme import PublicFacts
from sfumato.density.tables import density_table
from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.geography.overlay import Overlay, exact_shares
from sfumato.io.events import read_events
from sfumato.model.counts import Bound, Counting, SampleBound, WeightBound
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.accounting import guarantee
from sfumato.privacy.events import Tab, Unit
from sfumato.privacy.wall import Wall
from sfumato.published.tables import with_local_times

GRID = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "6h", "Europe/Paris")
TOWERS = Places.of(
    PlaceKind.TOWERS, ["a", "b", "c"], [shapely.Point(2 + i / 100, 48) for i in range(3)]
)


WEIGHT = WeightBound(3.0)


def facts(bound: Bound = WEIGHT, epsilon: float = 0.5, **more: object) -> PublicFacts:
    plain = PublicFacts(TOWERS.ids, GRID, epsilon, 1e-6, expected_users=10_000, bound=bound)
    return replace(plain, **more)  # type: ignore[arg-type]


def everyone_at_a() -> pa.Table:
    """2,000 people, each once in every slot, all of them at tower a."""
    users = np.repeat(np.arange(2000), 4)
    return pa.table(
        {
            "user_id": users,
            "timestamp": pa.array(np.tile(GRID.edges[:-1], 2000), pa.timestamp("us", tz="UTC")),
            "cell_id": ["a"] * users.size,
        }
    )


@pytest.fixture(scope="module")
def source() -> LocalSource:
    return LocalSource(read_events(everyone_at_a()), TOWERS, GRID, threads=1)


def test_the_plan_costs_what_was_asked_and_no_more() -> None:
    for bound in (WeightBound(3.0), SampleBound(2)):
        plan = Gaussian().plan(facts(bound))
        found = guarantee(plan.events.values(), 1e-6)
        assert 0.49 < found.epsilon <= 0.5


def test_the_plan_is_what_the_run_takes(source: LocalSource) -> None:
    for bound in (WeightBound(3.0), SampleBound(2)):
        tab, asked = Tab(), facts(bound)
        density = Gaussian().run(source, Wall(tab, b"k" * 32), asked)
        plan = Gaussian().plan(asked)
        assert tab.charged == plan.events
        assert density.measurements[0].sd == pytest.approx(plan.measurements[0].sd, rel=1e-9)


def test_the_numbers_are_the_counts_but_for_the_noise(source: LocalSource) -> None:
    """Weight 3 leaves four visits of norm 2 whole, so 2,000 people are counted at tower a."""
    asked = facts(epsilon=2.0)
    density = Gaussian().run(source, Wall(Tab(), b"k" * 32), asked)
    sd = Gaussian().plan(asked).sd
    assert np.abs(density.values[0] - 2000).max() < 6 * sd
    assert density.values[1:].max() < 6 * sd


def test_the_same_key_gives_the_same_bytes_and_another_key_others(source: LocalSource) -> None:
    for bound in (WeightBound(3.0), SampleBound(2)):
        one, two, other = (
            Gaussian().run(source, Wall(Tab(), key * 32), facts(bound)).values
            for key in (b"k", b"k", b"x")
        )
        assert one.tobytes() == two.tobytes()
        assert one.tobytes() != other.tobytes()


def test_the_noise_is_as_wide_as_the_plan_says(source: LocalSource) -> None:
    """Of counts that the bound leaves whole; the plan's own words are 90 times in 100."""
    truth = np.zeros((3, 4))
    truth[0] = 2000
    inside = []
    asked = facts(parameters={"clip": False})
    for seed in range(60):
        density = Gaussian().run(source, Wall(Tab(), bytes([seed]) * 32), asked)
        inside.append(np.abs(density.values - truth) <= 1.644854 * Gaussian().plan(asked).sd)
    share = np.mean(inside)
    assert abs(share - 0.9) < 4 * np.sqrt(0.9 * 0.1 / (60 * 12))


def test_negative_numbers_become_zero_unless_asked(source: LocalSource) -> None:
    wall = b"k" * 32
    clipped = Gaussian().run(source, Wall(Tab(), wall), facts())
    raw = Gaussian().run(source, Wall(Tab(), wall), facts(parameters={"clip": False}))
    assert raw.values.min() < 0
    assert np.array_equal(clipped.values, np.maximum(raw.values, 0))


def test_towers_are_spread_over_zones_after_the_noise(source: LocalSource) -> None:
    shares = exact_shares(sp.csr_array(np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])))
    overlay = Overlay(TOWERS.ids, np.array(["north", "south"]), shares)
    plain = Gaussian().run(source, Wall(Tab(), b"k" * 32), facts(parameters={"clip": False}))
    zones = Gaussian().run(
        source, Wall(Tab(), b"k" * 32), facts(parameters={"clip": False}, overlay=overlay)
    )
    assert zones.place_ids.tolist() == ["north", "south"]
    assert np.allclose(zones.values[0], plain.values[0] / 2 + plain.values[1], atol=0.002)
    spread = Gaussian().plan(facts(overlay=overlay)).sd / Gaussian().plan(facts()).sd
    assert spread == pytest.approx(np.sqrt(0.5**2 + 1), rel=1e-3)


def test_a_tower_that_moved_is_released_once() -> None:
    """Tower a stands elsewhere from noon on; its two rows are added up after the noise."""
    noon = int(GRID.edges[2])
    moved = Places.of(
        PlaceKind.TOWERS,
        ["a", "a", "b"],
        [shapely.Point(2 + i / 100, 48) for i in range(3)],
        valid_from=np.array([GRID.edges[0], noon, GRID.edges[0]]),
        valid_to=np.array([noon, GRID.edges[-1], GRID.edges[-1]]),
    )
    asked = facts(place_ids=moved.ids, epsilon=2.0)
    density = Gaussian().run(
        LocalSource(read_events(everyone_at_a()), moved, GRID, threads=1),
        Wall(Tab(), b"k" * 32),
        asked,
    )
    assert density.place_ids.tolist() == ["a", "b"]
    assert np.abs(density.values[0] - 2000).max() < 6 * Gaussian().plan(asked).sd
    spread = Gaussian().plan(asked).sd / density.measurements[0].sd
    assert spread == pytest.approx(np.sqrt((2 + 1) / 2), rel=1e-3), "a has two rows, b one"


def test_what_it_cannot_do_is_said() -> None:
    with pytest.raises(UsageError, match="user-day"):
        Gaussian().plan(facts(unit=Unit.parse("user-day")))
    with pytest.raises(UsageError, match="no parameter speed"):
        Gaussian().plan(facts(parameters={"speed": 11}))
    with pytest.raises(UsageError, match="nobody by more than 1"):
        facts(WeightBound(3.0, 2.0))
    with pytest.raises(UsageError, match="no scheme 'magic'"):
        scheme_named("magic")


def test_a_delta_above_one_over_the_users_is_refused() -> None:
    with pytest.raises(UsageError, match="whole record"):
        facts(expected_users=2_000_000)


def test_the_table_has_every_place_and_slot(source: LocalSource) -> None:
    density = Gaussian().run(source, Wall(Tab(), b"k" * 32), facts(counting=Counting.PEOPLE))
    table = density_table(density, GRID)
    assert table.column_names == ["zone_id", "time_start", "time_end", "count"]
    assert table["zone_id"].to_pylist() == ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    local = with_local_times(table, GRID)
    assert local["time_start"][:2].to_pylist() == [
        "2024-03-04T00:00:00+01:00",
        "2024-03-04T06:00:00+01:00",
    ]
