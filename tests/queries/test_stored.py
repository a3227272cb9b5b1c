"""What is stored answers for these people, these places, these records, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from tests.queries.conftest import START, TOWN, MakeDesk, table, towers, true_answer, visits

from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.ledger.records import Cap
from sfumato.published.posterior import Factors
from sfumato.queries.desk import Desk
from sfumato.queries.question import Frame
from sfumato.queries.routing import HALF_WIDTH, Cube, Stored, known

NO_CAP = Cap(epsilon=1e7, delta=1e-5)
DAY = {"measure": "visits", "zones": ["t0", "t1"], "to": "2024-01-02"}
OTHERS = "travellers"


def near(plus_minus: float = 0.05, **more: Any) -> dict[str, Any]:
    return {**DAY, "want": {"plus_minus": plus_minus}, **more}


@pytest.mark.privacy
def test_linked_data_sets_answer_for_themselves(new_desk: MakeDesk, ledger: Ledger) -> None:
    """The same people, other records: an answer about the one is none about the other."""
    ledger.add_dataset(OTHERS, NO_CAP)
    ledger.set_cap(TOWN, NO_CAP)
    ledger.link([TOWN, OTHERS])
    here, there = visits(), visits(seed=2, people=900)
    own = new_desk(here).ask(near())
    other = new_desk(there, dataset=OTHERS).ask(near())
    assert (own.how, other.how) == ("new", "new")
    assert other.value == pytest.approx(true_answer(there, {0, 1}, set(range(24)), 24), abs=0.5)
    again = new_desk(here).ask(near())
    assert (again.how, again.value) == ("stored", own.value)
    same = new_desk(here, dataset=OTHERS, edition="as the others").ask(near())
    assert same.value == pytest.approx(own.value, abs=0.5)


@pytest.mark.privacy
def test_a_zone_with_another_outline_is_another_place(ledger: Ledger) -> None:
    ledger.set_cap(TOWN, NO_CAP)
    minutes = [START + timedelta(minutes=10 * k) for k in range(100)]
    events = pa.table(
        {
            "user": pa.array(range(100)),
            "time": pa.array(minutes, pa.timestamp("us", "UTC")),
            "lon": np.where(np.arange(100) < 30, 2.05, 2.15),
            "lat": np.full(100, 48.5),
        }
    )

    def asked(east: float) -> Any:
        zones = Places.of(PlaceKind.ZONES, ["a"], [shapely.box(2, 48, east, 49)])
        with Desk(events, zones=zones, dataset=TOWN, start="2024-01-01", end="2024-01-02",
                  tz="UTC", delta=1e-6, ledger=ledger) as desk:  # fmt: skip
            return desk.ask({"measure": "unique_people", "want": {"plus_minus": 0.05}})

    assert asked(2.1).value == pytest.approx(30, abs=0.5)
    wider = asked(2.2)
    assert wider.how == "new"
    assert wider.value == pytest.approx(100, abs=0.5)
    assert asked(2.2).how == "stored"


def test_zones_that_only_name_towers_change_nothing(new_desk: MakeDesk) -> None:
    first = new_desk().ask(near(20))
    west = Places.of(PlaceKind.ZONES, ["west"], [shapely.box(1.995, 47, 2.015, 49)])
    found = new_desk(zones=west).ask(near(20, zones=["west"]))
    assert (found.how, found.value) == ("stored", first.value)


@pytest.mark.privacy
def test_a_tower_that_moved_is_one_of_its_two_places(ledger: Ledger) -> None:
    """Asked by a polygon, only what happened while it stood there counts."""
    ledger.set_cap(TOWN, NO_CAP)
    noon = int((START + timedelta(hours=12)).timestamp() * 1e6)
    ends = np.iinfo(np.int64)
    moved = Places.of(
        PlaceKind.TOWERS,
        ["m", "m", "t"],
        [shapely.Point(2, 48), shapely.Point(3, 48), shapely.Point(4, 48)],
        valid_from=np.array([ends.min, noon, ends.min]),
        valid_to=np.array([noon, ends.max, ends.max]),
    )
    rows = [(user, hour, 0) for user in range(50) for hour in ((2, 20) if user < 20 else (20,))]
    events = table(rows).set_column(2, "tower", pa.array(["m"] * len(rows)))
    with Desk(events, towers=moved, dataset=TOWN, start="2024-01-01", end="2024-01-02", tz="UTC",
              delta=1e-6, ledger=ledger) as desk:  # fmt: skip
        answers = [
            desk.ask({"measure": "unique_people", "want": {"plus_minus": 0.05}, **where}).value
            for where in (
                {"polygon": "1.9,47,2.1,49"},
                {"polygon": "2.9,47,3.1,49"},
                {"zones": ["m"]},
                {"zones": ["t"]},
            )
        ]
    assert answers == pytest.approx([20, 50, 50, 0], abs=0.5)


@pytest.mark.privacy
def test_rows_in_memory_are_those_of_the_fingerprint(
    new_desk: MakeDesk, ledger: Ledger, tmp_path: Path
) -> None:
    """An open desk keeps rows between questions; the file may change meanwhile."""
    ledger.set_cap(TOWN, NO_CAP)
    file = tmp_path / "events.parquet"
    before, after = visits(), visits(seed=3, people=700)
    told: list[Any] = []
    pq.write_table(table(before), file)
    given = {"towers": towers(), "dataset": TOWN, "start": "2024-01-01", "end": "2024-01-03",
             "tz": "UTC", "delta": 1e-6, "ledger": ledger}  # fmt: skip
    with Desk(file, internal=told.append, **given) as desk:
        for hours in ("0-6", "6-12", "12-18"):
            desk.ask(near(0.1, hours=hours))
        assert len(told) == 1
        pq.write_table(table(after), file)
        found = desk.ask(near(0.04))
    assert found.value == pytest.approx(true_answer(after, {0, 1}, set(range(24)), 24), abs=0.5)
    assert len(told) == 2
    assert new_desk(after).ask(near(0.04)).value == pytest.approx(found.value, abs=0.5)


def test_another_frame_is_asked_anew(new_desk: MakeDesk, ledger: Ledger) -> None:
    """Other towers, another period, other slots: nothing that is stored is about them."""
    ledger.set_cap(TOWN, NO_CAP)
    truth = true_answer(visits(), {0, 1}, set(range(24)), 24)
    frames = (
        {}, {"towers": towers(4)}, {"end": "2024-01-02"}, {"slot": "15min"}, {"slot": "1d"},
        {"tz": "Europe/London"},
    )  # fmt: skip
    for options in frames:
        asked = near() if options.get("slot") != "1d" else near(measure="unique_people")
        found = new_desk(**options).ask(asked)
        assert found.how == "new"
        if options.get("slot") != "1d":  # a quarter holds the one visit of its hour
            assert found.value == pytest.approx(truth, abs=0.5)
    assert new_desk(edition="late records").ask(near()).how == "new"


def test_the_clip_that_is_told_is_the_clip_that_was_asked(new_desk: MakeDesk) -> None:
    first = new_desk().ask(near(20, clip=2))
    again = new_desk().ask(near(20, clip=2))
    assert (first.clip, again.clip, again.how) == (2, 2, "stored")
    assert new_desk().plan(near(20)).known is None


def test_the_same_clock_whatever_the_slots(ledger: Ledger) -> None:
    """Days on which clocks are moved, quarters of hours, a last slot: to the record."""
    ledger.set_cap(TOWN, NO_CAP)
    rng = np.random.default_rng(4)
    first = datetime(2024, 3, 30, 23, tzinfo=UTC)  # midnight in Paris; clocks go on at 1 UTC
    seconds = rng.integers(0, 23 * 3600, 3_000)
    user, tower = rng.integers(0, 200, 3_000), rng.integers(0, 6, 3_000)
    events = pa.table(
        {
            "user": pa.array(user),
            "time": pa.array([first + timedelta(seconds=int(s)) for s in seconds],
                             pa.timestamp("us", "UTC")),
            "tower": pa.array([f"t{k}" for k in tower]),
        }
    )  # fmt: skip
    for step, width in (("15min", 900), ("1h", 3600), ("1d", 23 * 3600)):
        with Desk(events, towers=towers(), dataset=TOWN, start="2024-03-31", end="2024-04-01",
                  tz="Europe/Paris", slot=step, delta=1e-6, ledger=ledger) as desk:  # fmt: skip
            assert desk.frame.slots == 23 * 3600 // width
            slot = seconds // width
            last = desk.frame.slots - 1
            for a, b in [sorted(rng.integers(0, last + 1, 2)) for _ in range(3)] + [[last, last]]:
                begin, end = desk.frame.grid.start(a), desk.frame.grid.end(b)
                asked = {"zones": ["t0", "t3", "t5"], "from": begin.isoformat(),
                         "to": end.isoformat(), "want": {"plus_minus": 0.05}}  # fmt: skip
                inside = np.isin(tower, (0, 3, 5)) & (slot >= a) & (slot <= b)
                cells = {(u, p, s) for u, p, s in zip(user[inside], tower[inside], slot[inside],
                                                      strict=True)}  # fmt: skip
                each = np.bincount([u for u, _, _ in cells], minlength=200)
                found = desk.ask({"measure": "visits", **asked})
                assert found.clip == b - a + 1
                clipped = np.minimum(each, found.clip).sum()
                assert found.value == pytest.approx(clipped, abs=0.5)
                people = desk.ask({"measure": "unique_people", **asked})
                assert people.value == pytest.approx((each > 0).sum(), abs=0.5)


GRID = TimeGrid(np.arange(25) * 3_600_000_000, timedelta(hours=1), "UTC")
FRAME = Frame(np.array([f"p{k:03}" for k in range(200)]), GRID)


def _stored(
    number: int, places: list[int], slots: list[int], value: float, sd: float = 1.0
) -> Stored:
    question = FRAME.question("visits", places, slots)
    return Stored(str(number), question, len(slots), value, sd**2, HALF_WIDTH * sd)


def test_an_answer_is_not_lost_among_many_others() -> None:
    """Questions that cut the ground into thousands of classes, the very one among them."""
    rng = np.random.default_rng(3)
    others = [
        _stored(k, [*rng.permutation(200)[:99], 7], [*rng.permutation(24)[:11], 3], 9.0)
        for k in range(80)
    ]
    own = _stored(99, [7, 8, 9], [3, 4], 17.0)
    found = known(own.question, 2, [*others, own])
    assert found is not None
    assert found.estimate.value == pytest.approx(17.0)
    assert found.stored == ("99",)
    whole = FRAME.question("visits", range(200), range(24))
    assert known(whole, 24, others) is None


@pytest.mark.parametrize("wide", [1e-3, 1.0, 1e6])
def test_widths_that_lie_far_apart_are_weighed_right(wide: float) -> None:
    """A whole less a part, where the one is known a billion times better than the other."""
    whole = _stored(1, [0, 1], [0, 1], 70.0, wide)
    part = _stored(2, [0], [0, 1], 30.0, 1e3)
    again = _stored(3, [0], [0, 1], 34.0, 1e3)
    found = known(FRAME.question("visits", [1], [0, 1]), 2, [whole, part, again])
    assert found is not None
    assert found.estimate.value == pytest.approx(70 - 32)
    assert found.plus_minus == pytest.approx(HALF_WIDTH * np.sqrt(wide**2 + 1e6 / 2), rel=1e-6)


def test_the_release_is_not_corrected_beyond_what_its_draws_tell() -> None:
    """With many stored answers near by the intervals hold what they held with none."""
    rng = np.random.default_rng(1)
    places, slots, pairs, held = 30, 24, 20, []
    ids = np.array([f"p{k:02}" for k in range(places)])
    frame = Frame(ids, GRID)

    def errors(many: int) -> tuple[Any, Any, Any]:
        return (
            0.02 * rng.standard_normal(many),
            0.1 * rng.standard_normal((many, places)),
            0.1 * rng.standard_normal((many, slots)),
        )

    def some(size: int) -> list[int]:
        first, last = sorted(rng.integers(0, size, 2))
        return list(range(first, last + 1))

    for _ in range(120):
        counts = rng.gamma(2, 50, (places, slots))
        level, by_place, by_slot = (one[0] for one in errors(1))
        truth = counts * (1 + level + by_place[:, None] + by_slot) + 5 * rng.standard_normal(
            counts.shape
        )
        factors = Factors(
            counts, *errors(pairs), np.zeros((places, 0), np.float32), np.zeros((slots, 0)),
            np.full(counts.shape, 25.0), np.ones(places), 0.9,
        )  # fmt: skip
        stored = []
        for number in range(40):
            question = frame.question("visits", some(places), some(slots))
            value = truth[np.ix_(question.places, question.slots)].sum() + rng.standard_normal()
            stored.append(
                Stored(str(number), question, len(question.slots), value, 1.0, HALF_WIDTH)
            )
        asked = frame.question("visits", some(places), some(slots))
        found = known(asked, len(asked.slots), stored, Cube(factors, np.arange(slots), "week"))
        assert found is not None
        exact = truth[np.ix_(asked.places, asked.slots)].sum()
        lower, upper = found.estimate.lower, found.estimate.upper
        assert lower is not None
        assert upper is not None
        held.append(lower <= exact <= upper)
    assert np.mean(held) > 0.78  # 88 % with no stored answer; 35 % before
