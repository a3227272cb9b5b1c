from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.city import CityPlan, Fixes, IdKind, Match, build_city, generate_events

SMALL = CityPlan(users=4_000, towers=80, zones=50, seed=4)
Live = Callable[[CityPlan], Any]


def hours(week: Any, *, weekday: bool) -> np.ndarray:
    """Records per local hour on working days, or on the weekend."""
    starts = week.city.plan.grid.starts()
    hour = np.array([s.hour for s in starts])[week.slot]
    kind = np.array([s.weekday() < 5 for s in starts])[week.slot]
    return np.bincount(hour[kind == weekday], minlength=24)


def test_every_user_appears_and_activity_is_as_in_the_paris_study(week: Any) -> None:
    triples = np.unique(np.column_stack([week.user, week.tower, week.slot]), axis=0)
    assert len(triples) == len(week.user), "every record is a new tower-hour"
    _, each = np.unique(triples[:, 0], return_counts=True)
    assert each.size == 50_000
    assert each.mean() == pytest.approx(13.55, abs=0.05)
    assert each.std() == pytest.approx(18.33, abs=0.5)
    assert 400 <= each.max() <= 732


def test_the_night_is_quietest_at_four(week: Any) -> None:
    for weekday in (True, False):
        assert 3 <= np.argmin(hours(week, weekday=weekday)) <= 5
    total = hours(week, weekday=True) + hours(week, weekday=False)
    assert np.argmin(total) == 4
    assert total.max() > 12 * total.min()


def test_rhythms_differ_by_land_use(week: Any) -> None:
    starts = week.city.plan.grid.starts()
    hour = np.array([s.hour for s in starts])[week.slot]
    workday = np.array([s.weekday() < 5 for s in starts])[week.slot]
    label = week.label

    def share(use: str, when: np.ndarray) -> float:
        return float((label[when] == use).mean())

    office_hours = workday & (hour >= 10) & (hour < 16)
    night = (hour >= 22) | (hour < 6)
    rush = workday & np.isin(hour, (7, 8, 17, 18))
    weekend = ~workday & (hour >= 12)
    assert share("offices", office_hours) > 1.4 * share("offices", night)
    assert share("homes", night) > 1.2 * share("homes", office_hours)
    assert share("transport", rush) > 1.3 * share("transport", night)
    assert share("nightlife", weekend) > 1.15 * share("nightlife", night & workday)


def test_an_hour_may_touch_several_towers(week: Any) -> None:
    user_hours = np.unique(np.column_stack([week.user, week.slot]), axis=0)
    assert 1.05 < len(week.user) / len(user_hours) < 1.6


def test_people_have_a_home_they_return_to(week: Any) -> None:
    night = np.isin(week.slot % 24, (22, 23, 0, 1, 2, 3, 4, 5))
    users, towers = week.user[night], week.tower[night]
    often = np.flatnonzero(np.bincount(np.unique(users, return_inverse=True)[1]) >= 8)
    codes = np.unique(users, return_inverse=True)[1]
    top = [np.bincount(towers[codes == u]).max() / (codes == u).sum() for u in often[:200]]
    assert np.mean(top) > 0.35


def test_rows_are_in_order_of_time_within_a_chunk_and_users_are_scattered(week: Any) -> None:
    batches = week.table.to_batches()
    assert len(batches) == 3
    for batch in batches:
        assert (np.diff(np.asarray(batch["timestamp"].cast(pa.int64()))) >= 0).all()
    assert (np.diff(week.user) == 0).mean() < 0.01
    assert week.slot.min() >= 0


def test_same_seed_same_records_and_chunks_change_only_the_order(live: Live) -> None:
    one, two = live(SMALL).table, live(SMALL).table
    assert one.equals(two)
    assert not live(replace(SMALL, seed=5)).table.equals(one)
    pieces = live(replace(SMALL, chunk_users=700))

    def places(week: Any) -> np.ndarray:
        rows = np.column_stack([week.user, week.slot, week.tower])
        return rows[np.lexsort(rows.T)]

    np.testing.assert_array_equal(places(pieces), places(live(SMALL)))


def test_a_match_fills_one_place_for_three_hours(live: Live) -> None:
    plan = replace(SMALL, users=20_000, match=Match(people=2_000, day=4, hour=20))
    plain, match = live(replace(plan, match=None)), live(plan)
    ground = match.city.ground
    near = np.argsort(((ground.tower_points - ground.character.stadium) ** 2).sum(axis=1))[:8]

    def around(week: Any) -> np.ndarray:
        return np.bincount(week.slot[np.isin(week.tower, near)], minlength=168)

    game = np.arange(4 * 24 + 20, 4 * 24 + 23)
    others = np.setdiff1d(np.arange(168), game)
    assert around(match)[game].min() > around(plain)[game].max() + 800
    assert around(match)[others].sum() == pytest.approx(around(plain)[others].sum(), rel=0.1)
    fans = np.unique(match.user[np.isin(match.slot, game) & np.isin(match.tower, near)])
    assert 1_500 < fans.size < 2_800
    of_fans = np.isin(match.user, fans).sum() / fans.size
    assert of_fans < 2 * 13.55, "ordinary people"


def test_a_strike_empties_the_commute_of_its_day_alone(live: Live) -> None:
    plan = replace(SMALL, users=20_000)
    plain, strike = live(plan), live(replace(plan, strike_day=3))

    ground = plain.city.ground
    apart = ground.tower_points[:, None, :] - ground.character.hubs[None, :, :]
    stations = np.unique((apart**2).sum(axis=2).argmin(axis=0))

    def rush(week: Any, day: int) -> float:
        """Share of the rush hours' records that are at stations."""
        when = np.isin(week.slot - 24 * day, (7, 8, 17, 18))
        return float(np.isin(week.tower[when], stations).mean())

    def offices(week: Any, day: int) -> float:
        when = (week.slot >= 24 * day + 10) & (week.slot < 24 * day + 16)
        return float((week.label[when] == "offices").mean())

    assert rush(strike, 3) < 0.88 * rush(plain, 3)
    assert offices(strike, 3) < 0.8 * offices(plain, 3)
    assert rush(strike, 2) == pytest.approx(rush(plain, 2), abs=0.02)
    assert offices(strike, 2) == pytest.approx(offices(plain, 2), abs=0.02)


def test_activity_may_depend_on_where_people_live(live: Live) -> None:
    def unevenness(strength: float) -> float:
        week = live(replace(SMALL, users=20_000, place_activity=strength))
        codes, each = np.unique(week.user, return_inverse=True, return_counts=True)[1:]
        assert each.mean() == pytest.approx(13.55, rel=0.06)
        night = np.isin(week.slot % 24, (0, 1, 2, 3, 4, 5, 6, 23))
        people = np.unique(np.column_stack([week.tower[night], codes[night]]), axis=0)
        seen = np.bincount(people[:, 0], minlength=80)
        mean = np.bincount(people[:, 0], each[people[:, 1]], minlength=80)[seen > 40]
        level = mean / seen[seen > 40]
        return float(level.std() / level.mean())

    assert unevenness(0.8) > 1.5 * unevenness(0.0)


def test_gps_fixes_lie_where_the_city_is(live: Live) -> None:
    table = live(replace(SMALL, fixes=Fixes.GPS)).table
    assert table.column_names == ["user_id", "timestamp", "lon", "lat"]
    lon, lat = np.asarray(table["lon"]), np.asarray(table["lat"])
    assert np.abs(lon - 2.35).max() < 0.2
    assert np.abs(lat - 48.86).max() < 0.12
    assert np.unique(lon).size > 0.5 * lon.size


def test_repeats_add_records_but_no_tower_hours(live: Live) -> None:
    once, often = live(SMALL), live(replace(SMALL, repeats=2.0))

    def pairs(week: Any) -> np.ndarray:
        return np.unique(np.column_stack([week.user, week.slot, week.tower]), axis=0)

    np.testing.assert_array_equal(pairs(once), pairs(often))
    assert len(often.user) == pytest.approx(3 * len(once.user), rel=0.03)


@pytest.mark.parametrize(
    ("kind", "arrow"), [(IdKind.TEXT, pa.string()), (IdKind.BINARY, pa.binary())]
)
def test_ids_of_other_kinds_name_the_same_people(kind: IdKind, arrow: Any, live: Live) -> None:
    table, plain = live(replace(SMALL, id_kind=kind)).table, live(SMALL).table
    assert table.schema.field("user_id").type == arrow
    codes = table["user_id"].combine_chunks().dictionary_encode().indices
    others = plain["user_id"].combine_chunks().dictionary_encode().indices
    assert codes.equals(others)


def test_every_record_of_a_week_with_a_clock_change_is_inside_it(live: Live) -> None:
    week = live(replace(SMALL, start=date(2007, 10, 22)))
    assert week.city.plan.grid.slots == 169
    assert week.slot.min() >= 0
    assert np.bincount(week.slot, minlength=169).min() > 0


def test_very_few_towers_and_very_busy_people_still_end() -> None:
    city = build_city(CityPlan(users=300, towers=4, zones=4, mean_tower_hours=120.0))
    rows = sum(batch.num_rows for batch in generate_events(city))
    assert rows > 300 * 60


def test_progress_is_told_of_every_user() -> None:
    told: list[int] = []
    for _ in generate_events(build_city(replace(SMALL, chunk_users=1_500)), told.append):
        pass
    assert told == [1_500, 1_500, 1_000]


def test_memory_is_that_of_one_chunk_however_many_there_are() -> None:
    def peak(users: int) -> int:
        city = build_city(replace(SMALL, users=users, chunk_users=4_000))
        for _ in generate_events(city):  # compiled and warm before anything is measured
            break
        tracemalloc.start()
        try:
            for _ in generate_events(city):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(40_000) < 1.3 * peak(4_000)
