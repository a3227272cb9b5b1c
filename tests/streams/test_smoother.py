"""`smoother`: what parts and survey cost, when windows are measured, and what is published."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import sfumato
from sfumato.audits.streams import stream_rows
from sfumato.errors import BudgetRefused, UsageError
from sfumato.model.time_grid import Calendar
from sfumato.privacy.door import open_private
from sfumato.privacy.events import LaplaceEvent, Unit
from sfumato.privacy.ledger import Cap, Ledger, Status
from sfumato.privacy.wall import Wall
from sfumato.published.posterior import unpacked as read_posterior
from sfumato.streams.facts import StreamFacts, windows_to_show
from sfumato.streams.replay import boxed
from sfumato.streams.run import Told
from sfumato.streams.scheme import Finished, Joint, Meter, Publication, Stating
from sfumato.streams.schemes.smoother.scheme import Smoother, parts_of
from sfumato.streams.vault import packed, unpacked

Facts = Callable[..., StreamFacts]
Counts = NDArray[np.int64]
SLOTS, SIDE, PEOPLE = 24, 12, 1_500


def city(days: int, people: float = 30.0) -> Counts:
    """Levels that fall from the middle of a grid, and a wave over the day; slot x cell."""
    x, y = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    level = people * np.exp(-np.hypot(x - 5.5, y - 5.5) / 3).ravel()
    wave = 1 + 0.4 * np.cos(2 * np.pi * (np.arange(days * SLOTS) / SLOTS - 0.7))
    return np.random.default_rng(4).poisson(wave[:, None] * level).astype(np.int64)


def known(days: int, unit: str = "user-day", people: int | None = PEOPLE) -> StreamFacts:
    calendar = Calendar.regular(days * SLOTS, SLOTS)
    return StreamFacts(SIDE * SIDE, calendar, 1.0, 0.0, Unit.parse(unit), people, SIDE)


def published(
    counts: Counts, facts: StreamFacts, scheme: Smoother | None = None, stops: tuple[int, ...] = ()
) -> list[Publication]:
    """All slots; after some of them the publisher is put away as bytes and taken up again."""
    made = scheme or Smoother()
    meter = Meter(made.plan(facts).accounts, facts)
    publisher, out = made.publisher(facts), []
    for slot, row in enumerate(counts):
        wall = Wall.seeded(3, meter)
        assert isinstance(publisher, Finished)
        for first, stop in windows_to_show(facts, slot, publisher.ahead):
            publisher.prepare(boxed(counts[first:stop].T, facts), first, wall)
        out.append(publisher.publish(slot, boxed(row, facts), wall, meter))
        if slot in stops:
            kept = {name: packed(part) for name, part in publisher.state().items()}
            publisher = made.publisher(facts)
            publisher.restore({name: unpacked(part) for name, part in kept.items()})
    return out


@cache
def week() -> tuple[Publication, ...]:
    return tuple(published(city(4), known(4)))


@pytest.mark.privacy
@pytest.mark.parametrize("unit", ["user-day", "user-period"])
@pytest.mark.parametrize("scheme", [Smoother(parts=1), Smoother(parts=3), Smoother(survey=0.4)])
def test_no_unit_loses_more_than_was_promised(scheme: Smoother, unit: str, facts: Facts) -> None:
    given = facts(unit, days=3, per_day=6, cells=4, people=60, columns=2)
    assert scheme.surveys(given) == (scheme.parts is None)
    loss, *others = stream_rows(scheme, given, seed=7)
    assert not [row for row in others if row.violated]
    # Nobody here is beyond the survey's bound: see the next test.
    spent = 1 - scheme.survey if unit == "user-period" and scheme.parts is None else 1
    assert 0.98 * spent < loss.measured / loss.claim.value <= spent + 1e-9


@pytest.mark.privacy
def test_one_unit_moves_the_survey_by_no_more_than_its_slots(facts: Facts) -> None:
    """In a cell that is far beyond the bound, in all slots: the most that anybody can do."""
    given, heard = facts("user-day", days=1, per_day=6, cells=4, people=60, columns=2), []

    class Listening(Wall):
        def laplace(self, box, *, scale, label):  # type: ignore[no-untyped-def]
            if label.endswith("survey"):
                heard.append((int(open_private(box).values[0]), open_private(box).l1))
            return super().laplace(box, scale=scale, label=label)

    still = np.full((4, 6), 200)
    for more in (0, 1):
        meter = Meter(Smoother().plan(given).accounts, given)
        publisher = Smoother().publisher(given)
        assert isinstance(publisher, Finished)
        counts = still + more * (np.arange(4) == 1)[:, None]
        publisher.prepare(boxed(counts, given), 0, Listening.seeded(3, meter))
    (without, l1), (with_, _) = heard
    assert with_ - without == l1 == given.window


@pytest.mark.privacy
def test_the_budget_of_a_window_that_was_measured_ahead_is_kept(facts: Facts) -> None:
    given, scheme = facts("user-day", days=5), Smoother(parts=2)
    meter = Meter(scheme.plan(given).accounts, given)
    half = LaplaceEvent(1.0, 2 / scheme.plan(given).accounts[0].whole)
    for first in (0, 8, 16):
        meter.charge(f"part@{first}/0", half)
        meter.charge(f"part@{first}/1", half)
    assert meter.share_spent(3) == meter.share_spent(12) == 1.0  # published, and not forgotten:
    with pytest.raises(BudgetRefused):
        meter.charge("part@17/0", half)
    again = Meter(scheme.plan(given).accounts, given)
    again.restore(meter.state())
    with pytest.raises(BudgetRefused):
        again.charge("part@17/0", half)


def test_windows_are_shown_once_and_in_order(facts: Facts) -> None:
    given = facts("user-day", days=5)
    for ahead in (0, 1, 2, 4, 9):
        shown = [w for slot in range(given.slots) for w in windows_to_show(given, slot, ahead)]
        assert shown == [(8 * day, 8 * day + 8) for day in range(5)]
        assert len(windows_to_show(given, 0, ahead)) == min(ahead, 4) + 1
    assert windows_to_show(given, 3, 2) == []


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_parts_tile_a_single_window_and_visit_every_hour_of_several(k: int, facts: Facts) -> None:
    one = facts("user-period", days=3)
    assert (np.sum(parts_of(one, 0, k), axis=0) == 1).all()
    several, seen = facts("user-day", days=60), np.zeros(8, dtype=np.int64)
    for day in range(60):
        found = parts_of(several, 8 * day, k)
        assert len(found) == k
        seen += np.sum(found, axis=0)
    assert seen.min() > 0


def test_a_day_is_read_from_later_days_too() -> None:
    counts = city(4)
    other = counts.copy()
    other[SLOTS:] *= 3
    before, after = published(counts, known(4)), published(other, known(4))
    moved = np.abs(after[0].values - before[0].values)
    assert moved.max() > 1
    alone = published(counts, known(4), Smoother(reach=0))
    same = published(other, known(4), Smoother(reach=0))
    assert all((alone[k].values == same[k].values).all() for k in range(SLOTS))


def test_what_is_put_away_goes_on_with_the_same_numbers() -> None:
    stopped = published(city(4), known(4), stops=(0, 5, SLOTS - 1, SLOTS, 3 * SLOTS + 1))
    for one, other in zip(week(), stopped, strict=True):
        assert (one.values == other.values).all()
        assert one.median is not None
        assert (one.median == other.median).all()


def test_sums_and_intervals_hold() -> None:
    counts, held, inside = city(4), 0, 0.0
    for one, row in zip(week(), counts, strict=True):
        assert one.total is not None
        assert one.lower is not None
        assert one.upper is not None
        assert one.values.sum() == pytest.approx(row.sum(), rel=0.25)
        held += one.total.lower <= row.sum() <= one.total.upper
        inside += float(((row >= one.lower) & (row <= one.upper)).mean()) / len(counts)
    assert held / len(counts) > 0.7
    assert inside > 0.85


def test_errors_are_below_those_of_simple_answers() -> None:
    counts, rng = city(4), np.random.default_rng(3)
    medians = np.array([one.median for one in week()])
    mean = counts.reshape(4, SLOTS, -1).mean(axis=1) + rng.laplace(0, 1, (4, SIDE * SIDE))
    ours = np.abs(medians - counts).mean()
    assert 1.2 * ours < np.abs(np.repeat(mean, SLOTS, axis=0) - counts).mean()


@pytest.mark.privacy
def test_public_facts_decide_what_is_stated_and_measured(facts: Facts) -> None:
    scheme = Smoother()
    assert scheme.states_intervals(known(2))
    assert not scheme.states_intervals(known(2, people=100))
    assert not scheme.states_intervals(known(2, people=None))
    noisy = replace(known(1), epsilon=1.5 * SIDE * SIDE / PEOPLE)
    assert not scheme.states_intervals(noisy), "one window, and less than two people times epsilon"
    assert (scheme.plan(noisy).coverage, scheme.plan(noisy).sums) == (0.0, 0.9)
    (first, *_) = published(city(1), noisy)
    assert (first.lower, first.upper) == (None, None)
    assert first.total is not None
    assert scheme.states_intervals(replace(known(2), epsilon=noisy.epsilon))
    assert scheme.ahead(known(3)) == 2
    assert scheme.ahead(known(20)) == 6
    assert scheme.ahead(known(20, "user-period")) == 0
    for unit in ("w-event:5", "event"):
        with pytest.raises(UsageError, match="sliding window"):
            scheme.plan(facts(unit))
    thin = known(1, people=20)
    assert not scheme.surveys(thin)
    assert scheme.most(thin) == 1
    assert not scheme.surveys(replace(known(1), delta=1e-4, expected_users=400_000 // 100))
    assert published(city(1, 0.1), thin)[3].lower is None


class Killed(Exception):
    """What ends a run in the middle."""


def _killed(at: Iterator[int]) -> Callable[[Told], None]:
    stop = next(at, 10**9)

    def watch(told: Told) -> None:
        if told.slot == stop:
            raise Killed

    return watch


@cache
def joint() -> tuple[Joint, NDArray[np.float64]]:
    """How errors of six days are correlated, and what was published."""
    facts, out = known(6), []
    publisher = Smoother().publisher(facts)
    meter = Meter(Smoother().plan(facts).accounts, facts)
    wall, counts = Wall.seeded(5, meter), city(6)
    assert isinstance(publisher, Finished)
    assert isinstance(publisher, Stating)
    for slot, row in enumerate(counts):
        for first, stop in windows_to_show(facts, slot, publisher.ahead):
            publisher.prepare(boxed(counts[first:stop].T, facts), first, wall)
        out.append(publisher.publish(slot, boxed(row, facts), wall, meter).values)
    kept = {name: packed(part) for name, part in publisher.state().items()}
    again = Smoother().publisher(facts)
    again.restore({name: unpacked(part) for name, part in kept.items()})
    found, other = publisher.joint(), again.joint()  # type: ignore[attr-defined]
    for name in ("slots", "strengths", "rhythms", "chance"):
        assert np.array_equal(getattr(found, name), getattr(other, name)), "after a kill the same"
    return found, np.stack(out, axis=1)


def test_sums_of_a_week_have_intervals_that_hold() -> None:
    """Areas of the made city times runs of slots; a share, since ranges overlap."""
    found, values = joint()
    factors = read_posterior(found.arrays(0.9), values)
    truth, rng = city(6).T.astype(np.float64), np.random.default_rng(8)
    x, y = np.arange(SIDE * SIDE) % SIDE, np.arange(SIDE * SIDE) // SIDE
    middle, reach = rng.integers(0, SIDE * SIDE, 300), rng.uniform(1, 4, 300)
    away = np.hypot(x - x[middle][:, None], y - y[middle][:, None])
    places = (away <= reach[:, None]).astype(np.float64)
    hours = rng.integers(1, 49, 300)
    first, slot = rng.integers(0, 6 * SLOTS - hours), np.arange(6 * SLOTS)
    times = ((slot >= first[:, None]) & (slot < (first + hours)[:, None])).astype(np.float64)
    asked = np.einsum("qs,qs->q", places @ truth, times)
    _, low, high = factors.estimates(places, times)
    assert 0.8 < ((asked >= low) & (asked <= high)).mean() <= 1.0
    size = np.einsum("qs,qs->q", places @ values, times)
    assert np.median((high - low) / 2 / size) < 0.4, "and they say something"
    alone = np.sqrt(factors.chance_of(places, times))
    assert np.median((high - low) / 2 / 1.645 / alone) > 1.2, "errors are correlated"


def test_where_sums_have_none_public_facts_say_why() -> None:
    for days, stated in ((1, False), (4, False), (5, True), (7, True), (8, False)):
        plan = Smoother().plan(known(days))
        assert plan.joint is stated, days
    assert "5 to 7 windows" in Smoother().plan(known(8)).no_joint
    assert not Smoother().plan(replace(known(6), epsilon=0.3)).joint
    assert not Smoother().plan(known(6, people=None)).joint, "nor where cells have none"


@pytest.mark.privacy
@pytest.mark.parametrize(("days", "reach"), [(4, 1), (5, 6)])
def test_a_history_that_is_stopped_again_and_again_has_the_same_bytes(
    tmp_path: Path, days: int, reach: int
) -> None:
    """Stopped after slots of several days, while later days are measured; paid once."""
    rng = np.random.default_rng(1)
    rows = "".join(
        f"{k},2024-03-{4 + d:02d}T{h:02d}:30:00Z,{'abcd'[int(rng.integers(4))]}\n"
        for k in range(60)
        for d in range(days)
        for h in (1, 7, 13, 19)
    )
    (tmp_path / "e.csv").write_text(f"user,time,tower\n{rows}")
    towers = "".join(f"{name},2.{k},48.8\n" for k, name in enumerate("abcd"))
    (tmp_path / "t.csv").write_text(f"tower_id,lon,lat\n{towers}")
    home = tmp_path / "home"
    home.mkdir()
    ledger = Ledger(home / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("town", Cap(epsilon=9, delta=0.0), Unit.parse("user-day"))

    def run(home: Path, watch: Callable[[Told], None] | None = None) -> None:
        sfumato.stream(
            tmp_path / "e.csv", towers=tmp_path / "t.csv", start="2024-03-04",
            end=f"2024-03-{4 + days:02d}", tz="UTC", slot="6h", dataset="town", epsilon=1.0,
            out=home / "s", expected_users=60,
            ledger=Ledger(home / "ledger.sqlite"), resume=True, parameter={"reach": reach},
            name="s", watch=watch,
        )  # fmt: skip

    stops = iter((0, 3, 9))
    with suppress(Killed):
        run(home, _killed(stops))
    twin = tmp_path / "twin"
    shutil.copytree(home, twin)
    for _ in range(2):
        with suppress(Killed):
            run(home, _killed(stops))
    run(home)
    run(twin)
    files = {path.relative_to(home) for path in (home / "s").rglob("*") if path.is_file()}
    assert len(files) > 16
    for name in files:
        assert (home / name).read_bytes() == (twin / name).read_bytes(), name
    made = sfumato.read_release(home / "s")
    assert made.manifest.posterior is not None
    assert made.manifest.posterior.stated is (days == 5)
    assert (made.sum(zones="a").lower is not None) is (days == 5)
    (charge,) = Ledger(home / "ledger.sqlite").book().charges.values()
    assert charge.status is Status.COMMITTED
    assert [label for label, _ in charge.claim.events] == ["part"]


@pytest.mark.parametrize("unit", ["user-day", "user-period"])
def test_a_town_of_few_records_keeps_its_level(unit: str) -> None:
    """Of 2,000 customers of 60 towers a twelfth are seen in an hour, and hardly any at night."""
    days, towers = 7, 60
    hour = np.arange(days * SLOTS) % SLOTS
    wave = np.clip(1 - np.cos(2 * np.pi * (hour - 3) / SLOTS), 0.1, None)
    random = np.random.default_rng(8)
    level = 160 * random.dirichlet(np.full(towers, 2.0))
    counts = random.poisson(wave[:, None] * level).astype(np.int64)
    calendar = Calendar.regular(days * SLOTS, SLOTS)
    facts = StreamFacts(towers, calendar, 1.0, 0.0, Unit.parse(unit), 2_000, None)
    truth, held, sums = counts.sum(axis=1), [], 0.0
    for slot, made in enumerate(published(counts, facts)):
        assert made.total is not None
        assert made.total.lower - 1e-6 <= made.values.sum() <= made.total.upper + 1e-6
        held.append(made.total.lower <= truth[slot] <= made.total.upper)
        sums += float(made.values.sum())
    assert 0.6 < sums / truth.sum() < 1.6
    assert np.mean(held) > 0.7


def test_a_feed_that_begins_at_noon_is_nobody_before() -> None:
    counts = city(5)
    counts[: SLOTS // 2] = 0
    made = published(counts, known(5), Smoother(parts=6))
    truth = counts.sum(axis=1)
    assert sum(float(one.values.sum()) for one in made[: SLOTS // 2 - 3]) == 0
    said = [float(one.values.sum()) for one in made[SLOTS // 2 + 2 : SLOTS]]
    assert sum(said) == pytest.approx(truth[SLOTS // 2 + 2 : SLOTS].sum(), rel=0.25)
    assert all(float(one.values.sum()) > 0 for one in published(city(5), known(5))[:SLOTS])
