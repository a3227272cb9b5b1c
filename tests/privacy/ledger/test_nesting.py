"""The account rule on neighbouring data, for every pair of units, by exact computation.

The world is one person and a few ticks of time, at each of which the person is absent or at one
of two places. All data sets are listed; for each unit those that are one step apart are joined,
and d(D, D') is the number of steps between them. The mechanism of output 1 with probability
exp(-epsilon d(D, D0)) / 8 is epsilon-DP for the unit and loses exactly epsilon d(D, D0) between D
and D0: it reaches what the rule may not understate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.privacy.ledger.plain import columns

from sfumato.privacy.accounting import event_epsilon, event_rho
from sfumato.privacy.events import (
    BoundedRangeEvent,
    ConcentratedEvent,
    GaussianEvent,
    LaplaceEvent,
    MetricEvent,
    PureEvent,
    Unit,
    UnitKind,
)
from sfumato.privacy.ledger.accounts import Account, Item, View, accounts_of
from sfumato.privacy.ledger.nesting import ALWAYS, UNBOUNDED, scaled, steps, within_radius

pytestmark = pytest.mark.privacy

TICK = 6 * 3600 * 1_000_000
TICKS = 6
PERIOD = (0, TICKS * TICK)
"""A day and a half from midnight UTC."""
STATES = np.array(list(itertools.product(range(3), repeat=TICKS)), dtype=np.int64)
"""0 is absent, 1 and 2 are places."""
Bools = NDArray[np.bool_]


def cut(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The part of each stretch of ticks that lies in the period."""
    inside = {(max(a, 0), min(b, TICKS)) for a, b in stretches}
    return sorted((a, b) for a, b in inside if a < b)


def sliding(span: int, slot: int = 1) -> list[tuple[int, int]]:
    return cut([(e, e + span) for e in range(-span - slot, TICKS + 1) if e % slot == 0])


CELLS: dict[str, list[tuple[int, int]]] = {
    "user-period": [(0, TICKS)],
    "user-day@UTC": cut([(0, 4), (4, 8)]),
    "user-day@Etc/GMT-6": cut([(-1, 3), (3, 7)]),
    "user-day@Etc/GMT+6": cut([(-3, 1), (1, 5), (5, 9)]),
    "w-event:12h/6h": sliding(2),
    "w-event:18h/6h": sliding(3),
    "w-event:24h/12h": sliding(4, 2),
    "event": [(t, t + 1) for t in range(TICKS)],
}
"""What one unit may touch, in ticks. A tick holds one record."""


@lru_cache
def distances(unit: str) -> NDArray[np.int64]:
    """Steps of the unit between any two data sets."""
    near = np.zeros((len(STATES), len(STATES)), dtype=bool)
    for a, b in CELLS[unit]:
        outside = np.delete(STATES, np.s_[a:b], axis=1)
        key = outside @ 3 ** np.arange(outside.shape[1])
        empty = (STATES[:, a:b] == 0).all(axis=1)
        near |= (key[:, None] == key[None, :]) & (empty[:, None] | empty[None, :])
    far = np.where(np.eye(len(STATES), dtype=bool), 0, -1)
    reached = np.eye(len(STATES), dtype=np.float32)
    for step in range(1, 2 * TICKS + 1):
        reached = ((reached @ near.astype(np.float32)) > 0).astype(np.float32)
        far = np.where((far < 0) & (reached > 0), step, far)
    assert (far >= 0).all()
    return far


def without(stretch: tuple[int, int]) -> NDArray[np.int64]:
    """The number of each data set after all in the stretch is gone."""
    left = STATES.copy()
    left[:, stretch[0] : stretch[1]] = 0
    return np.asarray(left @ 3 ** np.arange(TICKS)[::-1])


def moved(tick: int) -> NDArray[np.int64]:
    """The number of each data set after the record of a tick went to the other place."""
    left = STATES.copy()
    left[:, tick] = np.where(left[:, tick] > 0, 3 - left[:, tick], 0)
    return np.asarray(left @ 3 ** np.arange(TICKS)[::-1])


def rule(charge: str, account: str, stretch: tuple[int, int]) -> int:
    begin, end = (np.array([edge * TICK]) for edge in stretch)
    return int(steps(Unit.parse(charge), PERIOD, Unit.parse(account).kind, begin, end)[0])


REMOVED = [unit for unit in CELLS if unit != "event"]


@pytest.mark.parametrize("charge", REMOVED)
@pytest.mark.parametrize("account", REMOVED)
def test_a_day_a_window_or_a_record_loses_what_the_rule_says(charge: str, account: str) -> None:
    """Never more on any data, and just as much on some."""
    far, everyone = distances(charge), np.arange(len(STATES))
    epsilon = 0.5
    for stretch in CELLS[account]:
        n = rule(charge, account, stretch)
        apart = far[everyone, without(stretch)]
        worst = int(apart.argmax())
        assert apart.max() == n, stretch
        # An epsilon-DP mechanism for the charge's unit that loses n epsilon here.
        chance = np.exp(-epsilon * far[worst]) / 8
        one, none = np.log(chance), np.log1p(-chance)
        near = np.argwhere(far == 1)
        for law in (one, none):
            assert np.abs(law[near[:, 0]] - law[near[:, 1]]).max() <= epsilon * (1 + 1e-12)
        loss = abs(one[worst] - one[without(stretch)[worst]])
        assert loss == pytest.approx(n * epsilon)


@pytest.mark.parametrize("charge", CELLS)
def test_one_record_and_one_move_lose_what_the_rule_says(charge: str) -> None:
    far, everyone = distances(charge), np.arange(len(STATES))
    for tick in range(TICKS):
        stretch = (tick, tick + 1)
        # At an end of the period a unit may hold this one tick alone, and here one record.
        assert far[everyone, without(stretch)].max() <= rule(charge, "event", stretch)
        assert far[everyone, moved(tick)].max() == rule(charge, "point:1m", stretch)
    most = max(far[everyone, without((tick, tick + 1))].max() for tick in range(TICKS))
    assert most == rule(charge, "event", (2, 3))


def test_no_number_of_records_is_enough_for_a_day() -> None:
    far, everyone = distances("event"), np.arange(len(STATES))
    assert far[everyone, without((0, 4))].max() == 4, "one for each record, however many there are"
    for account in ("user-period", "user-day@UTC", "w-event:12h/6h"):
        assert rule("event", account, (0, 4)) == UNBOUNDED
    for account in ("user-period", "user-day@UTC", "w-event:12h/6h", "event"):
        assert rule("point", account, (0, 4)) == UNBOUNDED


@pytest.mark.parametrize(
    ("charge", "account", "stretch", "n"),
    [
        ("user-period", "user-day", (0, 4), 2),
        ("user-period", "user-day", (-2, 9), 1),
        ("user-period", "user-day", (6, 10), 0),
        ("user-day@UTC", "user-day", (0, 4), 1),
        ("user-day@Etc/GMT-6", "user-day", (0, 4), 3),
        ("user-day@Etc/GMT+6", "user-day", (1, 5), 1),
        ("w-event:24h/6h", "w-event", (0, 4), 1),
        ("w-event:18h/6h", "w-event", (1, 5), 2),
        ("w-event:30h/6h", "w-event", (1, 5), 2),
        ("w-event:12h/6h", "w-event", (1, 5), 2),
        ("user-day@UTC", "user-period", (-9, 99), 2),
        ("w-event:12h/6h", "user-period", (-9, 99), 3),
        ("user-day@UTC", "w-event", (2, 6), 3),
    ],
)
def test_the_table_of_the_rule(charge: str, account: str, stretch: Any, n: int) -> None:
    name = {"user-day": "user-day@UTC", "w-event": "w-event:24h/6h"}.get(account, account)
    assert rule(charge, name, stretch) == n


def test_a_day_of_another_clock_costs_up_to_four() -> None:
    """And five where a short day lies within a long one."""
    week = (0, 7 * 4 * TICK)
    begin, end = np.array([4 * TICK]), np.array([8 * TICK])
    paris = Unit.parse("user-day@Europe/Paris")
    assert steps(paris, week, UnitKind.USER_DAY, begin, end)[0] == 4
    unknown = steps(Unit.parse("user-day"), week, UnitKind.USER_DAY, begin, end)[0]
    assert unknown >= 5


@pytest.mark.parametrize(("span", "slot"), [(2, 1), (3, 1), (2, 2), (4, 2), (6, 3), (7, 1)])
def test_no_path_of_windows_is_shorter_than_the_rule(span: int, slot: int) -> None:
    """Nine ticks, each with or without a record: every stretch, aligned or not, by search."""
    ticks = 9
    sets = np.array(list(itertools.product(range(2), repeat=ticks)))
    size = 2 ** np.arange(ticks)[::-1]
    near = np.zeros((len(sets), len(sets)), dtype=bool)
    for e in range(-span - span % slot - slot, ticks):
        a, b = max(e, 0), min(e + span, ticks)
        if e % slot or a >= b:
            continue
        key = np.where((np.arange(ticks) >= a) & (np.arange(ticks) < b), 0, sets) @ size
        empty = (sets[:, a:b] == 0).all(axis=1)
        near |= (key[:, None] == key[None]) & (empty[:, None] | empty[None])
    unit = Unit(UnitKind.W_EVENT, None, span * 6 * 3600, slot * 6 * 3600)
    everywhere = len(sets) - 1  # the data set with all records is the farthest
    far, found = {everywhere: 0}, np.zeros(len(sets), dtype=bool)
    found[everywhere] = True
    for step in range(1, ticks + 1):
        fresh = near[found].any(axis=0) & ~found
        found |= fresh
        far |= dict.fromkeys(np.flatnonzero(fresh).tolist(), step)
    for a, b in itertools.combinations(range(ticks + 1), 2):
        begin, end = np.array([a * TICK]), np.array([b * TICK])
        period = (0, ticks * TICK)
        left = np.where((np.arange(ticks) >= a) & (np.arange(ticks) < b), 0, 1) @ size
        n = int(steps(unit, period, UnitKind.USER_DAY, begin, end)[0])
        assert n == far[int(left)], (a, b)
        loose = steps(unit, period, UnitKind.USER_DAY, begin, end, anywhere=True)
        assert n <= loose[0]


def test_sample_1_loses_almost_two_epsilon_where_one_day_goes() -> None:
    """23 slots on one day, 1 on another, one of the 24 is kept: Laplace noise of epsilon 1.

    Discrete Laplace noise of scale 1/epsilon on 24 cells. The ratio of an output's
    probabilities hangs on which cells are above zero: j cells of the first day, and the last one.
    """
    epsilon, slots = 1.0, 24
    worst = 0.0
    for above in range(slots):  # cells of the first day at one or more
        for last_above in (False, True):

            def up(yes: bool) -> float:
                return math.exp(epsilon if yes else -epsilon)

            first = above * up(True) + (slots - 1 - above) * up(False)
            whole = (first + up(last_above)) / slots
            without_the_day = up(last_above)
            worst = max(worst, abs(math.log(whole / without_the_day)))
    assert worst == pytest.approx(1.9633, abs=1e-4)
    (column,) = _columns("user-day@UTC", [Item(Unit(), (0, 8 * TICK), (PureEvent(1.0, "x"),))])
    assert column.counts == (2,)
    assert 1 < worst <= 2


def test_rho_counts_twice_on_clipped_sums_that_say_so_and_four_times_otherwise() -> None:
    """The worst that one replaced vector does, by search over vectors of length at most one."""
    grid = np.linspace(0, 1, 21)
    vectors = np.array([v for v in itertools.product(grid, grid) if v[0] ** 2 + v[1] ** 2 <= 1])
    moved_by = ((vectors[:, None] - vectors[None]) ** 2).sum(axis=2)
    assert moved_by.max() == pytest.approx(2)  # reached by one place and another
    signed = np.concatenate([vectors, -vectors])
    assert ((signed[:, None] - signed[None]) ** 2).sum(axis=2).max() == pytest.approx(4)
    event = GaussianEvent(1.0, Fraction(50), 1)
    once = float(event_rho(event))
    assert float(event_rho(scaled(event, 2))) == pytest.approx(4 * once)
    assert float(event_rho(scaled(event, 2, sums=True))) == pytest.approx(2 * once)
    assert float(event_rho(scaled(event, 2, sums=True))) >= 2 * once
    assert float(event_rho(scaled(event, 3, sums=True))) == pytest.approx(9 * once)
    item = Item(Unit.parse("user-day@UTC"), (0, TICK), (event,), sums=(True,))
    (counted,) = item.counted(Unit(), 2)
    assert float(event_rho(counted)) == pytest.approx(4 * once), "two days are two vectors"


@pytest.mark.parametrize(
    "event",
    [
        LaplaceEvent(2.0, Fraction(7)),
        BoundedRangeEvent(0.3),
        PureEvent(0.1, "x"),
        GaussianEvent(3.0, Fraction(17), 2),
        ConcentratedEvent(0.01, "x"),
    ],
)
def test_epsilon_counts_n_times_and_rho_n_squared(event: Any) -> None:
    for n in (1, 2, 3, 5):
        many = scaled(event, n)
        alone, pure = event_epsilon(event), event_epsilon(many)
        assert (pure is None) == (alone is None)
        if alone is not None and pure is not None:
            assert 0 <= pure - n * alone < Fraction(1, 10**12)
        assert 0 <= event_rho(many) - n * n * event_rho(event) < Fraction(1, 10**12)
        if isinstance(event, GaussianEvent) and isinstance(many, GaussianEvent):
            assert many.touched == n * event.touched, "the lattice is paid for in every cell moved"


def test_location_charges_are_converted_to_the_radius_of_the_account() -> None:
    laplace = within_radius(MetricEvent(0.004, "planar"), 200.0, None, 1.1)
    assert laplace == PureEvent(0.8, "planar within 200 m")
    assert within_radius(MetricEvent(0.004, "planar"), 0.1, None, 1.1) == PureEvent(
        0.0044, "planar within 0.1 m"
    )
    reports, radius = 9, 50.0
    charged = GaussianEvent(math.sqrt(reports) * (100 * radius + math.sqrt(2)), Fraction(10**9), 18)
    found = within_radius(charged, 200.0, radius, 1.1)
    assert isinstance(found, GaussianEvent)
    wanted = math.sqrt(reports) * (100 * 200.0 + math.sqrt(2))
    assert wanted <= found.l2 == pytest.approx(wanted, rel=1e-9)


def _columns(unit: str, items: list[Item]) -> list[Any]:
    (account,) = accounts_of(Unit.parse(unit), items)
    return columns(account, items)


def item(unit: str, first: int, last: int) -> Item:
    return Item(Unit.parse(unit), (first * 4 * TICK, last * 4 * TICK), (PureEvent(1.0, "x"),))


@pytest.mark.parametrize(
    ("account", "items", "worst"),
    [
        # Charges that miss the day count nothing: the account is the worst day.
        ("user-day", [item("user-day@UTC", 0, 7), item("user-day@UTC", 7, 14)], 1),
        ("user-day", [item("user-day@UTC", 0, 7), item("user-day@UTC", 6, 14)], 2),
        ("user-day", [item("user-period", 0, 7), item("user-day@UTC", 0, 7)], 3),
        ("user-day", [item("user-period", 2, 3), item("user-day@UTC", 0, 7)], 2),
        # Windows of 48 and of 49 hours add up; so do those of 5 minutes and of one hour.
        ("w-event:48h", [item("w-event:48h/1h", 0, 7), item("w-event:49h/1h", 0, 7)], 3),
        ("w-event:49h", [item("w-event:48h/1h", 0, 7), item("w-event:49h/1h", 0, 7)], 3),
        ("w-event:48h", [item("w-event:48h/1h", 0, 7)], 1),
        ("w-event:24h", [item("user-day@UTC", 0, 7)], 4),
        ("user-period", [item("user-period", 0, 7), item("user-period", 7, 14)], 2),
        ("user-period", [item("user-period", 0, 7), item("user-day@UTC", 0, 7)], 1),
        ("event", [item("user-period", 0, 7), item("event", 0, 7)], 3),
        ("event", [item("user-period", 0, 7), item("event", 7, 9)], 2),
    ],
)
def test_the_account_is_the_worst_day_or_window(
    account: str, items: list[Item], worst: int
) -> None:
    found = _columns(account, items)
    assert max(sum(column.counts) for column in found) == worst


def test_slots_of_five_minutes_and_of_an_hour_are_different_windows() -> None:
    short, long = item("w-event:4h/5min", 0, 7), item("w-event:48h/1h", 0, 7)
    first, second = accounts_of(Unit.parse("w-event:48h"), [short, long])
    assert {str(first.unit), str(second.unit)} == {"w-event:48h/5min", "w-event:48h/1h"}
    (column,) = columns(second, [short, long])
    assert column.counts == (12, 1)  # twelve windows of four hours, one of two days


def test_the_whole_record_is_shown_with_its_days_and_not_capped() -> None:
    week = [item("user-day@UTC", 0, 7)]
    account = Account(Unit())
    assert sum(columns(account, week)[0].counts) == 0
    assert sum(columns(Account(Unit(), view=View.WHOLE), week)[0].counts) == 7


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    *("user-period", "user-day@UTC", "user-day@Asia/Tokyo", "event"),
                    *("w-event:24h/12h", "w-event:30h/6h", "w-event:48h/24h", "user-day"),
                ]
            ),
            st.integers(0, 9),
            st.integers(1, 5),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(["user-day@UTC", "user-day@Asia/Tokyo", "w-event:36h/6h", "event"]),
)
def test_no_step_outdoes_the_columns(given_: list[tuple[str, int, int]], account: str) -> None:
    """Every day or window, tried one by one, is matched by a column that was kept."""
    items = [item(unit, first, first + days) for unit, first, days in given_]
    # Windows on the account's own slots, whatever slots the charges have.
    of = Account(Unit.parse(account))
    kept = [column.counts for column in columns(of, items)]
    for begin, end in _every(account):
        edges = np.array([begin]), np.array([end])
        counts = [int(steps(i.unit, i.period, Unit.parse(account).kind, *edges)[0]) for i in items]
        counts = [max(n, 0) for n in counts]
        assert any(all(a >= b for a, b in zip(k, counts, strict=True)) for k in kept)


def test_windows_that_begin_anywhere_among_longer_slots_are_not_missed() -> None:
    """26 hours meet three days only if they begin in the last hour but one of a day."""
    charge = item("w-event:24h/24h", 0, 7)
    hour = TICK // 6
    begin = np.arange(0, 6 * 24) * hour
    tried = steps(charge.unit, charge.period, UnitKind.W_EVENT, begin, begin + 26 * hour)
    assert (tried == 5).sum() < len(tried) / 20
    (column, *_) = columns(Account(Unit.parse("w-event:26h/1h")), [charge])
    assert column.counts[0] >= tried.max() == 5


def _every(account: str) -> list[tuple[int, int]]:
    day = 4 * TICK
    every: dict[str, Callable[[], list[tuple[int, int]]]] = {
        "user-day@UTC": lambda: [(k * day, (k + 1) * day) for k in range(-1, 16)],
        "user-day@Asia/Tokyo": lambda: [
            (k * day - 3 * TICK // 2, (k + 1) * day - 3 * TICK // 2) for k in range(-1, 16)
        ],
        "w-event:36h/6h": lambda: [(k * TICK, (k + 6) * TICK) for k in range(-8, 64)],
        "event": lambda: [(k * TICK, k * TICK + 1) for k in range(64)],
    }
    return every[account]()


def test_all_of_time_is_longer_than_any_period() -> None:
    assert ALWAYS[0] < -(10**17) < 10**17 < ALWAYS[1]


def test_a_trip_is_one_step_of_its_own_and_two_of_what_holds_it() -> None:
    trip = Unit(UnitKind.TRAJECTORY)
    week = (0, 7 * 86_400_000_000)
    always = (np.array([ALWAYS[0]]), np.array([ALWAYS[1]]))

    def count(charge: str, account: UnitKind) -> int:
        return int(steps(Unit.parse(charge), week, account, *always)[0])

    assert count("trajectory", UnitKind.TRAJECTORY) == 1
    assert count("trajectory", UnitKind.POINT) == 2
    assert count("trajectory", UnitKind.EVENT) == 3  # one trip goes, two come
    for larger in (UnitKind.USER_PERIOD, UnitKind.USER_DAY, UnitKind.W_EVENT):
        assert count("trajectory", larger) == UNBOUNDED
    assert count("user-period", UnitKind.TRAJECTORY) == 2
    assert count("user-day@UTC", UnitKind.TRAJECTORY) == 2 * 7
    assert count("w-event:24h/1h", UnitKind.TRAJECTORY) == 2 * 7
    assert count("event", UnitKind.TRAJECTORY) == UNBOUNDED
    assert str(trip) == "trajectory"
    assert "trip" in trip.neighbours
