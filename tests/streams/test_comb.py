"""`comb`: what its vectors cost, when they are taken, and what is published of a made-up city."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.audits.streams import stream_rows
from sfumato.model.time_grid import Calendar
from sfumato.privacy.events import Unit
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts
from sfumato.streams.replay import boxed
from sfumato.streams.scheme import Meter, Publication
from sfumato.streams.schemes.comb.mixture import BINS, summaries
from sfumato.streams.schemes.comb.profiles import CityProfile, Times, teeth, width
from sfumato.streams.schemes.comb.scheme import Comb
from sfumato.streams.vault import packed, unpacked

Facts = Callable[..., StreamFacts]
Counts = NDArray[np.int64]
DAYS, SLOTS, SIDE = 5, 24, 12


def city(days: int = DAYS, people: float = 30.0) -> Counts:
    """Levels that fall from the middle of a grid, and a wave over the day; slot x cell."""
    x, y = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    level = people * np.exp(-np.hypot(x - 5.5, y - 5.5) / 3).ravel()
    wave = 1 + 0.4 * np.cos(2 * np.pi * (np.arange(days * SLOTS) / SLOTS - 0.7))
    return np.random.default_rng(4).poisson(wave[:, None] * level).astype(np.int64)


def known(counts: Counts, epsilon: float = 1.0) -> StreamFacts:
    calendar = Calendar.regular(len(counts), SLOTS)
    return StreamFacts(counts.shape[1], calendar, epsilon, 0.0, Unit.parse("user-day"), 1_500, SIDE)


def published(
    counts: Counts,
    scheme: Comb | None = None,
    stops: tuple[int, ...] = (),
    epsilon: float = 1.0,
    begins: int = 0,
) -> list[Publication]:
    """All slots; after some of them the publisher is put away as bytes and taken up again."""
    facts, made = replace(known(counts, epsilon), begins=begins), scheme or Comb()
    meter = Meter(made.plan(facts).accounts, facts)
    publisher, out = made.publisher(facts), []
    for slot, row in enumerate(counts):
        out.append(publisher.publish(slot, boxed(row, facts), Wall.seeded(3, meter), meter))
        if slot in stops:
            kept = {name: packed(part) for name, part in publisher.state().items()}
            publisher = made.publisher(facts)
            publisher.restore({name: unpacked(part) for name, part in kept.items()})
    return out


@cache
def plain() -> tuple[Publication, ...]:
    return tuple(published(city()))


def sums(made: list[Publication] | tuple[Publication, ...]) -> NDArray[np.float64]:
    return np.array([one.values.sum() for one in made])


@pytest.mark.privacy
@pytest.mark.parametrize(("vectors", "slots"), [(1, 12), (2, 24)])
def test_no_day_loses_more_than_was_promised(vectors: int, slots: int, facts: Facts) -> None:
    """Means over several slots, as from the second day on: a person may be in all of them."""
    assert width(vectors, slots) > 1
    given = facts("user-day", days=2, per_day=slots, cells=4, people=60, columns=2)
    loss, *others = stream_rows(Comb(vectors=vectors), given, seed=7)
    assert not [row for row in others if row.violated]
    assert 0.98 < loss.measured / loss.claim.value <= 1 + 1e-9


@pytest.mark.privacy
def test_a_look_and_the_vectors_after_it_share_the_first_day(facts: Facts) -> None:
    given = facts("user-day", days=1, delta=0.0, per_day=4, cells=4, people=1_200, columns=2)
    assert Comb().looks(given)
    loss, *others = stream_rows(Comb(), given, seed=7)
    assert not [row for row in others if row.violated]
    assert 0.98 < loss.measured / loss.claim.value <= 1 + 1e-9


def complete(days: int) -> Counts:
    """1,500 people, of whom a third goes to work on the other side of the grid by day."""
    rng = np.random.default_rng(8)
    homes = rng.choice(SIDE**2, 1_500, p=rng.dirichlet(np.ones(SIDE**2)))
    works = rng.permutation(SIDE**2)[homes]
    goes = rng.random(1_500) < 1 / 3
    by_day = np.bincount(np.where(goes, works, homes), minlength=SIDE**2)
    by_night = np.bincount(homes, minlength=SIDE**2)
    day = [by_day if 8 <= slot < 18 else by_night for slot in range(SLOTS)]
    return np.tile(np.array(day), (days, 1))


def test_where_everybody_is_counted_the_sum_is_one_number() -> None:
    """It has no chance of its own: its interval is that of the pooled noise, and holds."""
    counts = complete(5)
    assert not Comb().looks(known(counts)), "one sum with a tenth of the budget would not tell"
    made = published(counts)
    wide, held = [], []
    for one in made[3 * SLOTS :]:
        assert one.total is not None
        wide.append((one.total.upper - one.total.lower) / 2 / 1_500)
        held.append(one.total.lower <= 1_500 <= one.total.upper)
    assert max(wide) < 0.03
    assert np.mean(held) > 0.5


def test_a_complete_city_goes_on_as_it_was() -> None:
    """With what was learned of hours, and vectors of single slots."""
    counts = complete(2)
    undisturbed, again = published(counts), published(counts, stops=(0, 5, 23, 24, 30, 47))
    for a, b in zip(undisturbed, again, strict=True):
        assert np.array_equal(a.values, b.values)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 12])
def test_teeth_lie_in_the_day_and_visit_every_part_of_it(k: int) -> None:
    seen: set[int] = set()
    for day in range(48):
        found = teeth(day, k, 48)
        assert len(set(found)) == k
        assert found[0] >= 0
        assert found[-1] < 48
        assert k == 1 or min(np.diff(found)) >= width(k, 48)
        seen.update(found)
    assert len(seen) >= 36


def test_it_goes_on_in_the_middle_of_a_sum() -> None:
    counts, one = city(2), Comb(vectors=1)
    undisturbed = published(counts, one)
    again = published(counts, one, stops=(0, 12, 25, 37))
    for a, b in zip(undisturbed, again, strict=True):
        assert np.array_equal(a.values, b.values)
        assert a.total is not None
        assert b.total is not None
        assert a.total.upper == b.total.upper


def test_counts_add_up_and_intervals_hold() -> None:
    counts, made = city(), plain()
    truth = counts.sum(axis=1)
    late = slice(2 * SLOTS, None)
    assert abs(sums(made)[late].sum() / truth[late].sum() - 1) < 0.05
    totals = [one.total for one in made]
    held = [t.lower <= n <= t.upper for t, n in zip(totals, truth, strict=True) if t is not None]
    assert len(held) == len(truth)
    assert np.mean(held[late]) > 0.7
    lower, upper = np.array([one.lower for one in made]), np.array([one.upper for one in made])
    assert 0.85 < ((counts >= lower) & (counts <= upper))[late].mean() < 0.98
    medians = np.array([one.median for one in made])
    assert (lower <= medians).all()
    assert (medians <= upper).all()


def test_an_outage_is_not_learned_from() -> None:
    counts = city()
    gone = counts.copy()
    gone[3 * SLOTS + 8 : 3 * SLOTS + 16] = 0
    made, usual = sums(published(gone)), sums(plain())
    assert made[3 * SLOTS + 8 : 3 * SLOTS + 16].min() < 0.3 * usual[3 * SLOTS + 8]
    assert np.allclose(made[4 * SLOTS :], usual[4 * SLOTS :], rtol=0.12)


def test_nobody_is_published_before_the_feed_begins() -> None:
    counts = city(3)
    counts[:13] = 0
    made = published(counts)
    assert not sums(made)[:13].any()
    assert made[0].upper is not None
    assert made[0].upper.min() > 0, "a few may have been overlooked"
    truth = counts[SLOTS:].sum()
    assert abs(sums(made)[SLOTS:].sum() / truth - 1) < 0.1


def test_on_thin_maps_no_interval_is_stated() -> None:
    """By the people who are expected, whoever comes."""
    counts = city(1)
    thin = replace(known(counts), expected_users=287)
    assert Comb().plan(thin).coverage == 0
    meter = Meter(Comb().plan(thin).accounts, thin)
    made = Comb().publisher(thin).publish(0, boxed(counts[0], thin), Wall.seeded(3, meter), meter)
    assert made.lower is made.upper is made.total is None
    assert made.median is not None


def test_its_state_stops_growing() -> None:
    counts = np.tile(city(1, 3.0), (20, 1))
    facts, made = known(counts), Comb(vectors=4, memory=16)
    meter = Meter(made.plan(facts).accounts, facts)
    publisher, sizes = made.publisher(facts), []
    for slot, row in enumerate(counts[: 8 * SLOTS]):
        publisher.publish(slot, boxed(row, facts), Wall.seeded(3, meter), meter)
        if slot % SLOTS == SLOTS - 1:
            sizes.append(sum(len(packed(part)) for part in publisher.state().values()))
    assert len(set(sizes[4:])) == 1


def sums_of(level: NDArray[np.float64], noise: float, people: float) -> tuple[CityProfile, Times]:
    """The profile from three sums a day, and a later time."""
    at = np.arange(level.size) / 3
    times = Times(at, at % 1, np.zeros(at.size, dtype=bool), np.ones(at.size))
    rng = np.random.default_rng(8)
    seen = level + rng.normal(0, noise, at.size)
    later = Times(np.array([at[-1] + 0.4]), np.array([(at[-1] + 0.4) % 1]), times.free[:1], at[:1])
    return CityProfile.of(times, seen, np.full(at.size, noise**2), people), later


def test_a_city_in_which_everybody_is_always_counted_is_known_by_its_sums() -> None:
    same, later = sums_of(np.full(9, 20_000.0), 130.0, 20_000)
    assert same.complete
    low, high = same.interval(later, 1.0)
    assert low < 20_000 < high
    assert high - low < 0.03 * 20_000
    at_once, _ = sums_of(np.full(1, 20_000.0), 130.0, 20_000)
    assert at_once.complete
    others, _ = sums_of(np.full(1, 14_000.0), 130.0, 20_000)
    assert not others.complete
    waves, _ = sums_of(np.tile([14_000.0, 17_000.0, 20_000.0], 3), 130.0, 20_000)
    assert not waves.complete
    wider = [np.diff(waves.interval(later, factor))[0] for factor in (1.0, 4.0)]
    assert wider[1] > 1.5 * wider[0]


def test_who_stays_makes_counts_surer_than_chance() -> None:
    """A variance below the mean: the interval is narrower than Poisson's, and still adds up."""
    one, none = np.ones((1, 1)), np.zeros((1, 1))
    ends = {}
    for spread in (12.0, 3.0):
        mean, variance, median, lower, upper = summaries(
            *(12 * one, one, np.ones(1), np.array([12.0]), none, np.array([spread]), one),
            *(np.zeros(1), np.ones(len(BINS) + 1), True),
        )
        assert (mean[0], variance[0], median[0]) == (12.0, spread, 12.0)
        ends[spread] = float(upper[0] - lower[0])
    assert 2 * 1.645 * 3**0.5 - 2 <= ends[3.0] < ends[12.0] - 3


def test_where_noise_draws_a_full_cell_below_zero_somebody_may_be_there() -> None:
    """A level of 3 and a vector of -4 that is half believed: hardly anybody, and yet perhaps."""
    one = np.ones((1, 1))
    for spread, some in ((2.0, True), (0.01, False)):
        mean, _, median, lower, upper = summaries(
            *(-4 * one, one, np.ones(1), np.array([3.0]), 0.5 * one, np.array([spread]), one),
            *(np.zeros(1), np.ones(len(BINS) + 1), True),
        )
        assert (mean[0], median[0], lower[0]) == (0.06, 0.0, 0.0)
        assert (upper[0] > 0) == some


def test_few_people_are_seen_by_several_vectors_together() -> None:
    """Never four standard deviations in one vector: 120 people where each sum has noise of 51."""
    counts = np.zeros((DAYS * SLOTS, SIDE * SIDE), np.int64)
    counts[12:, :120] = 1
    found = sums(published(counts, Comb(vectors=3)))
    assert not found[:12].any()
    assert 60 < found[3 * SLOTS :].mean() < 200


def test_a_feed_that_begins_on_the_second_day_is_seen_from_its_first_slot_on() -> None:
    counts = city(3)
    counts[:SLOTS] = 0
    made = published(counts)
    assert not sums(made)[:SLOTS].any()
    assert made[SLOTS].fresh
    assert sums(made)[SLOTS] > 0.5 * counts[SLOTS].sum()
    kept = published(counts, stops=(SLOTS, SLOTS + 3))
    assert np.array_equal(sums(made), sums(kept))


@pytest.mark.privacy
@pytest.mark.parametrize("vectors", [1, 3])
def test_a_feed_that_is_said_to_begin_at_noon_is_measured_from_noon_on(
    vectors: int, facts: Facts
) -> None:
    """No vector reaches back before it, and the first day loses no more than other days."""
    given = facts("user-day", days=2, per_day=12, cells=4, people=60, columns=2)
    given = replace(given, begins=6)
    loss, *others = stream_rows(Comb(vectors=vectors), given, seed=7)
    assert not [row for row in others if row.violated]
    assert 0.9 < loss.measured / loss.claim.value <= 1 + 1e-9
    assert min(teeth(0, vectors, 12, 6)) == 6
    counts = city()
    counts[: SLOTS // 2] = 0
    made = published(counts, begins=SLOTS // 2)
    assert not any(one.fresh for one in made[: SLOTS // 2])
    assert made[SLOTS // 2].fresh
    assert made[SLOTS // 2].values.sum() > 0.5 * counts[SLOTS // 2].sum()


def test_what_is_taken_for_empty_between_full_cells_may_hold_somebody() -> None:
    """Half a person in the mean: nobody is no interval of it."""
    one = np.ones(1)
    shared = (np.zeros((1, 1)), np.zeros((1, 1)), one, np.array([0.0, 1.0]), np.zeros((2, 1)))
    rest = (np.array([0.0, 1.0]), np.array([[0.97, 0.03]]), np.zeros(2), np.ones(5), True)
    bare, open_ = summaries(*shared, *rest, 0.0), summaries(*shared, *rest, 0.5)
    assert bare[4][0] == 0
    assert open_[4][0] == 2
    for k in (0, 1, 2, 3):  # mean, variance, median and lower end stay
        assert bare[k][0] == open_[k][0]


def test_vectors_that_lie_close_on_a_first_evening_are_not_taken_for_an_outage() -> None:
    """Two in the last two hours: the second is of one slot, not the mean of two."""
    counts = city(2)
    counts[: SLOTS - 2] = 0
    made = published(counts, Comb(vectors=2), begins=SLOTS - 2)
    assert made[SLOTS - 1].fresh
    assert abs(sums(made)[SLOTS - 1] / counts[SLOTS - 1].sum() - 1) < 0.2
