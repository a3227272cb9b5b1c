"""Weeks read together: exact where it can be, a help where they are alike, else harmless."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pytest

from sfumato.city import CityPlan, build_city, generate_events
from sfumato.density.bayes import Bayes
from sfumato.density.bayes.frame import Frame
from sfumato.density.bayes.ladder import Activity
from sfumato.density.bayes.measured import Kept, Margins
from sfumato.density.bayes.memory import Memory, Week, matching, mean_margins, shared_level
from sfumato.density.bayes.scheme import measure, read
from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.geography.overlay import layout_of_zones
from sfumato.io.events import read_events
from sfumato.model.counts import Counting
from sfumato.model.time_grid import HourCalendar, TimeGrid
from sfumato.privacy.wall import Wall

MONDAY = date(2007, 9, 10)
RNG = np.random.default_rng(3)


def calendar(first: date, days: int, step: str = "1h") -> HourCalendar:
    grid = TimeGrid.between(first, first + timedelta(days=days), step, "Europe/Paris")
    return HourCalendar.of(grid.starts(), grid.ends())


def test_slots_are_matched_by_weekday_and_clock() -> None:
    week = calendar(MONDAY, 7)
    assert (matching(week, calendar(MONDAY + timedelta(days=14), 7)).toarray() == np.eye(168)).all()
    wednesday = matching(calendar(MONDAY + timedelta(days=9), 1), week).toarray()
    assert (wednesday[:, 48:72] == np.eye(24)).all()
    assert wednesday.sum() == 24


def test_a_missing_weekday_is_that_of_its_kind_and_a_missing_kind_is_nothing() -> None:
    monday = calendar(MONDAY, 1)
    tuesday = matching(calendar(MONDAY + timedelta(days=1), 1), monday).toarray()
    assert (tuesday == np.eye(24)).all()
    assert matching(calendar(MONDAY + timedelta(days=6), 1), monday).nnz == 0


def test_two_matching_weeks_are_averaged() -> None:
    fortnight = matching(calendar(MONDAY + timedelta(days=28), 7), calendar(MONDAY, 14))
    assert (np.asarray(fortnight.sum(axis=1)) == 1).all()
    assert set(fortnight.data.tolist()) == {0.5}


def margins(places: np.ndarray, slots: np.ndarray, sd: float) -> Margins:
    return Margins((1,), np.array([1.0]), np.array([1.0]), places, sd, 9.0, slots, sd, 9.0)


def level(total: float, error: float = 0.1) -> Activity:
    totals = np.sort(total * np.exp(error * RNG.standard_normal(2000)))
    return Activity(totals, 10.0, np.array([10.0]), np.array([1.0]))


def test_levels_that_are_alike_are_shared_and_others_are_not() -> None:
    slots = matching(*[calendar(MONDAY, 1)] * 2)
    one = margins(np.ones(3), np.ones(24), 1.0)

    def weeks(*totals: float) -> list[Week]:
        nothing = np.zeros((3, 24))
        return [Week(one, True, nothing, nothing, slots, level(k), 1.0) for k in totals]

    own = level(110)
    alike = shared_level(own, weeks(100, 101, 99))
    assert 100 < alike.total < 106
    assert alike.totals.std() < 0.7 * own.totals.std()
    assert (np.diff(alike.totals) >= 0).all()
    assert alike.visits == pytest.approx(10)
    fewer = shared_level(own, weeks(55, 56, 54))
    assert fewer.total > 95
    assert shared_level(own, [replace(weeks(100)[0], slots=slots[:12])]) is own


def test_totals_are_averaged_by_their_precision_at_the_level_of_the_current_week() -> None:
    now = margins(np.array([30.0, 10.0]), np.array([20.0, 20.0]), 1.0)
    before = margins(np.array([40.0, 40.0]), np.array([60.0, 20.0]), 4.0)  # twice as many people
    eye = matching(calendar(MONDAY, 1, "12h"), calendar(MONDAY, 1, "12h"))
    week = Week(before, True, np.zeros((2, 2)), np.ones((2, 2)), eye, level(100), 1.0)
    found = mean_margins(now, (week,))
    # At half its level the earlier week has noise of 2, a quarter of the weight of the current one.
    np.testing.assert_allclose(found.places, [0.8 * 30 + 0.2 * 20, 0.8 * 10 + 0.2 * 20])
    assert found.places_sd == pytest.approx((1 + 1 / 4) ** -0.5)
    np.testing.assert_allclose(found.slots, [0.8 * 20 + 0.2 * 30, 0.8 * 20 + 0.2 * 10])
    elsewhere = replace(week, counted_alike=False)
    assert mean_margins(now, (elsewhere,)).places_sd == 1.0


def test_mean_and_difference_say_what_the_weeks_say_and_their_noise_is_independent() -> None:
    """Added up again they are this week's own numbers; noise has unit size and no correlation."""
    shape = (40, 50)
    scale, other = RNG.uniform(0.5, 2, shape), RNG.uniform(0.5, 2, shape)
    field = np.full(shape, 0.01)
    nothing = margins(np.ones(40), np.ones(50), 1.0)
    commons, changes = [], []
    for _ in range(60):
        frame = Frame(RNG.standard_normal(shape) * 3.0, scale, 3.0)
        noisy = RNG.standard_normal(shape) / other
        # Week holds counts at a total of one; the field's total is 20.
        week = Week(
            nothing,
            True,
            noisy / 20,
            1 / np.square(other * 20),
            matching(*[calendar(MONDAY, 1)] * 2),
            level(100),
            1.0,
        )
        common, change = Memory((week,), field).split(frame, field)
        commons.append((common.matrix + common.scale * field) / common.sd)
        changes.append(change.matrix / change.sd)
        again = common.matrix / common.scale + change.matrix / change.scale + field
        np.testing.assert_allclose(again, frame.matrix / scale, atol=1e-9)
    one, two = np.array(commons), np.array(changes)
    assert one.std() == pytest.approx(1, abs=0.02)
    assert two.std() == pytest.approx(1, abs=0.02)
    assert abs((one * two).mean()) < 0.02


def test_slots_without_a_match_are_read_from_their_own_week() -> None:
    shape = (3, 4)
    frame = Frame(RNG.standard_normal(shape), np.ones(shape), 1.0)
    variance = np.ones(shape)
    variance[:, 2:] = np.inf
    nothing = margins(np.ones(3), np.ones(4), 1.0)
    slots = matching(*[calendar(MONDAY, 1, "6h")] * 2)
    week = Week(nothing, True, np.zeros(shape), variance, slots, level(100), 1.0)
    field = np.full(shape, 1 / 12)
    common, change = Memory((week,), field).split(frame, field)
    assert (change.matrix[:, 2:] == 0).all()
    np.testing.assert_allclose(
        (common.matrix / common.scale + field)[:, 2:], frame.matrix[:, 2:], atol=1e-9
    )


def test_a_crowd_of_one_week_is_not_averaged_with_the_others() -> None:
    shape = (3, 4)
    frame = Frame(np.zeros(shape), np.ones(shape), 1.0)
    frame.matrix[0, 0] = 20.0
    nothing = margins(np.ones(3), np.ones(4), 1.0)
    slots = matching(*[calendar(MONDAY, 1, "6h")] * 2)
    week = Week(nothing, True, np.zeros(shape), np.ones(shape), slots, level(100), 1.0)
    week.counts[1, 1] = 20.0
    field = np.full(shape, 1 / 12)
    common, _ = Memory((week,), field).split(frame, field)
    mean = common.matrix / common.scale + field
    assert mean[0, 0] == pytest.approx(20)
    assert mean[1, 1] == pytest.approx(0, abs=1e-9)


class Town:
    """Three weeks of 20,000 people in 30 zones, each measured once (made up, so not private)."""

    def __init__(self) -> None:
        plan = CityPlan(users=20_000, towers=40, zones=30, seed=11, days=21, area_km2=3.2)
        self.city = build_city(plan)
        table = pa.Table.from_batches(list(generate_events(self.city)))
        self.weeks = []
        for week in range(3):
            first = plan.start + timedelta(days=7 * week)
            grid = TimeGrid.between(first, first + timedelta(days=7), "1h", plan.tz)
            self.weeks.append(LocalSource(read_events(table), self.city.towers, grid))
        self.kept = [self.measured(week, week) for week in range(3)]

    def facts(self, week: int) -> PublicFacts:
        return PublicFacts(
            self.city.towers.ids,
            self.weeks[week].grid,
            0.3,
            1e-6,
            20_000,
            layout=layout_of_zones(self.city.towers),
        )

    def measured(self, week: int, seed: int) -> Kept:
        facts = self.facts(week)
        found, _, _ = measure(self.weeks[week], Wall.seeded(seed), facts)
        return Kept(f"week {week}", f"{week}", found, facts)

    def truth(self, week: int) -> np.ndarray:
        exact = self.weeks[week].exact(Counting.VISITS)._through_the_door()
        return np.asarray(exact.values, dtype=np.float64)


@pytest.fixture(scope="module")
def town() -> Town:
    return Town()


def error(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(found - truth).mean())


def test_earlier_weeks_help_the_next_at_no_cost(town: Town) -> None:
    last, truth = town.kept[2], town.truth(2)
    knowing = replace(last.facts, earlier=tuple(town.kept[:2]))
    assert Bayes().plan(knowing).events == Bayes().plan(last.facts).events
    alone, helped = (read(last.measured, facts)[0] for facts in (last.facts, knowing))
    # One draw; how much it helps on average is in benchmarks/weeks.
    assert error(helped.mean, truth) < error(alone.mean, truth)
    low, high = helped.interval(0.9)
    assert 0.8 < ((truth >= low) & (truth <= high)).mean() < 0.97


def test_weeks_of_another_city_are_left_out(town: Town) -> None:
    """Every place has become another: what is published is what the week says by itself."""
    last = town.kept[2]
    alone = read(last.measured, last.facts)[0]
    others = tuple(_elsewhere(one) for one in town.kept[:2])
    misled = read(last.measured, replace(last.facts, earlier=others))[0]
    assert (misled.draws == alone.draws).all()


def _elsewhere(kept: Kept) -> Kept:
    old = kept.measured
    at = np.roll(np.arange(old.margins.places.size), 17)
    moved = replace(old.margins, places=old.margins.places[at])
    rows = replace(old, place_weights=old.place_weights[at], steps=old.steps[at])
    return replace(kept, measured=replace(rows, margins=moved))


def test_measurements_of_other_places_are_refused(town: Town) -> None:
    elsewhere = replace(town.facts(2), place_ids=np.array([f"x{k}" for k in range(40)]))
    with pytest.raises(UsageError, match="other places"):
        replace(elsewhere, earlier=(town.kept[0],))
