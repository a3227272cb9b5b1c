"""Rows on their way into a stream: whose they are, which slot they belong to, what is dropped."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from shapely import Point, box

from sfumato.engine.local import LocalSource
from sfumato.io.events import read_events, resolved
from sfumato.io.rows import Positions
from sfumato.io.values import BAD, FAR
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.door import open_private
from sfumato.privacy.events import Unit
from sfumato.streams.facts import StreamFacts
from sfumato.streams.slots import Buffer, SlotSource

pytestmark = pytest.mark.privacy

NOON = 1_709_553_600_000_000
MORNING = NOON - 60_000_000
LATER = NOON + 60_000_000
ALL = np.empty(0, np.bool_)
GRID = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "12h", "UTC")
KEY = bytes(32)


def buffer_of(places: Places) -> Buffer:
    facts = StreamFacts(len(places), Calendar.of(GRID), 1.0, unit=Unit.parse("user-day"))
    return Buffer(GRID, places, facts)


@pytest.fixture
def buffer() -> Buffer:
    return buffer_of(Places.of(PlaceKind.TOWERS, ["x", "7"], [Point(2, 48), Point(2.1, 48)]))


def named(user: object, place: object, time: int = MORNING) -> Positions:
    kind = pa.int64() if isinstance(place, int) else pa.binary()
    return Positions(pa.array([user], pa.binary()), np.array([time]), ALL, pa.array([place], kind))


def test_a_person_counts_once_in_a_slot_however_often_and_wherever_they_were_seen(
    buffer: Buffer,
) -> None:
    """In two places, in several batches, places as text and as numbers: one position."""
    for user, place in ((b"7", b"x"), (b"7", 7), (b"7", b"7"), (b"8", 7), (b"9", b"nowhere")):
        buffer.add(named(user, place))
    counts = open_private(buffer.close(KEY))
    assert counts.values.sum() == 2
    assert (counts.l1, counts.l2) == (1.0, 1.0)
    assert buffer.dropped.internal_counts()["rows_dropped"] == {
        "late": 0,
        "outside": 0,
        "unreadable": 0,
        "unknown tower or zone": 1,
    }


def test_rows_by_name_and_by_position_are_one_slot_of_zones() -> None:
    zones = Places.of(PlaceKind.ZONES, ["x", "y"], [box(2, 48, 3, 49), box(3, 48, 4, 49)])
    buffer = buffer_of(zones)
    users = pa.array([b"a", b"b", b"c"], pa.binary())
    degrees = np.array([3.5, 2.5, np.nan])
    buffer.add(Positions(users, np.full(3, MORNING), ALL, lon=degrees, lat=np.full(3, 48.5)))
    buffer.add(named(b"d", b"x"))
    buffer.add(named(b"a", b"y"))
    assert open_private(buffer.close(KEY)).values.tolist() == [2, 1]
    assert (
        buffer.dropped.internal_counts()["rows_dropped"]["missing or impossible coordinates"] == 1
    )


def test_what_is_late_outside_or_lacks_something_is_dropped_and_counted(buffer: Buffer) -> None:
    buffer.close(KEY)
    times = np.array([MORNING, LATER, FAR, BAD, LATER, LATER + 3600 * 10**9])
    there = np.array([True, True, True, True, False, True])
    users = pa.array([b"a", b"b", b"c", b"d", b"e", b"f"], pa.binary())
    place = pa.array([b"x"] * 6, pa.binary())
    buffer.add(Positions(users, times, there, place, unreadable=3))
    buffer.add(named(None, b"x", LATER))
    assert buffer.dropped.read == 10
    assert buffer.dropped.internal_counts()["rows_dropped"] == {
        "late": 1,
        "outside": 2,
        "unreadable": 3,
        "no user": 1,
        "no time": 1,
        "not a time": 1,
    }
    assert open_private(buffer.close(KEY)).values.sum() == 1


def test_a_batch_is_spread_over_its_slots(buffer: Buffer) -> None:
    rng = np.random.default_rng(1)
    times = rng.permutation(np.repeat([MORNING, LATER, FAR], 100))
    users = pa.array([b"%d" % k for k in range(300)], pa.binary())
    buffer.add(Positions(users, times, ALL, pa.array([b"x"] * 300, pa.binary())))
    assert [open_private(buffer.close(KEY)).values.sum() for _ in range(2)] == [100, 100]


def test_a_pipe_that_drips_leaves_few_tables(buffer: Buffer) -> None:
    for k in range(1000):
        buffer.add(named(b"%d" % k, b"x"))
    (pieces,) = buffer._open[0].values()
    assert len(pieces) <= 10
    assert open_private(buffer.close(KEY)).values.sum() == 1000


def test_a_slot_without_rows_is_zeros(buffer: Buffer) -> None:
    assert open_private(buffer.close(KEY)).values.tolist() == [0, 0]


def test_the_clock_closes_a_slot_and_no_event_does(buffer: Buffer) -> None:
    """One person's event with a wrong date must not make everybody else's come too late."""
    end = int(GRID.edges[1])
    for time in (MORNING, LATER, int(GRID.edges[-1]) - 1):
        buffer.add(named(b"7", b"x", time))
        assert not buffer.closes(0, end - 1, 0)
        assert buffer.closes(0, end, 0)
        assert not buffer.closes(0, end + 59_999_999, 60)
        assert buffer.closes(0, end + 60_000_000, 60)


def test_a_window_has_the_sensitivities_of_all_its_slots() -> None:
    """One unit moves every slot of it: as many in L1, the root of that in L2."""
    towers = Places.of(PlaceKind.TOWERS, ["x"], [Point(2, 48)])
    table = pa.table({"user": ["a"], "time": ["2024-03-04T08:00:00Z"], "tower": ["x"]})
    for unit, each in (("user-day", 1.0), ("event", 2.0)):
        facts = StreamFacts(1, Calendar.of(GRID), 1.0, unit=Unit.parse(unit))
        source = LocalSource(resolved(read_events(table), zones=False), towers, GRID, threads=1)
        slots = SlotSource(source, facts, KEY)
        whole, one = (open_private(found) for found in (slots.window(0, 2), slots.slot(0)))
        source.close()
        assert (one.l1, one.l2) == (each, pytest.approx(each**0.5))
        assert (whole.l1, whole.l2) == (2 * each, pytest.approx((2 * each) ** 0.5))
