"""Counts that add up on thin maps: their sums, their intervals, and what they say of a cell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.model.time_grid import Calendar
from sfumato.privacy.events import Unit
from sfumato.privacy.wall import Wall
from sfumato.streams.facts import StreamFacts, windows_to_show
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import boxed
from sfumato.streams.scheme import Finished, Meter, Publication
from sfumato.streams.schemes.rhythm.sums import added_up

SIDE, DAY = 20, 12


def known(days: int, people: int | None, unit: str = "user-day") -> StreamFacts:
    calendar = Calendar.regular(days * DAY, DAY)
    return StreamFacts(SIDE**2, calendar, 1.0, 0.0, Unit.parse(unit), people, SIDE)


def town(days: int, people: int, seed: int, night: float = 1.0) -> NDArray[np.int64]:
    """People in cells around a centre; by night some of them are not counted."""
    rng = np.random.default_rng(seed)
    at = np.clip(rng.normal(SIDE / 2, 4, (people, 2)).astype(np.int64), 0, SIDE - 1)
    cells = at[:, 0] * SIDE + at[:, 1]
    rows = []
    for slot in range(days * DAY):
        there = rng.random(people) < (night if slot % DAY < DAY // 3 else 1.0)
        rows.append(np.bincount(cells[there], minlength=SIDE**2))
    return np.array(rows)


def published(
    name: str, facts: StreamFacts, counts: NDArray[np.int64], seed: int = 1
) -> list[Publication]:
    scheme = stream_scheme(name)
    meter = Meter(scheme.plan(facts).accounts, facts)
    wall, publisher = Wall.seeded(seed, meter), scheme.publisher(facts)
    found = []
    for slot, row in enumerate(counts):
        if isinstance(publisher, Finished) and scheme.finished:
            for first, stop in windows_to_show(facts, slot, publisher.ahead):
                publisher.prepare(boxed(counts[first:stop].T, facts), first, wall)
        if slot == len(counts) // 2:  # resumed from its state in the middle
            state, publisher = publisher.state(), scheme.publisher(facts)
            publisher.restore(state)
        found.append(publisher.publish(slot, boxed(row, facts), wall, meter))
    return found


@pytest.mark.parametrize(("name", "night"), [("rhythm", 1.0), ("rhythm", 0.6), ("profile", 1.0)])
def test_sums_are_right_and_inside_their_intervals(name: str, night: float) -> None:
    facts, counts = known(7, 300), town(7, 300, 5, night)
    made = published(name, facts, counts)
    truth = counts.sum(axis=1)
    medians = sum(float(one.median.sum()) for one in made if one.median is not None)
    sums = np.array([float(one.values.sum()) for one in made])
    assert medians < 0.9 * truth.sum(), "which is why counts are needed"
    assert abs(sums.sum() / truth.sum() - 1) < 0.1
    inside = [
        one.total is not None and one.total.ends[0] <= total <= one.total.ends[1]
        for one, total in zip(made, truth, strict=True)
    ]
    assert np.mean(inside) >= 0.8
    assert all(one.lower is None for one in made), "of single cells too little is known"
    for one, total in zip(made, sums, strict=True):
        assert one.total is not None
        assert one.total.value == pytest.approx(total)
        assert one.values.min() >= 0


def test_without_expected_people_counts_add_up_and_no_interval_is_stated() -> None:
    facts = known(4, None)
    assert stream_scheme("rhythm").plan(facts).sums == 0.0
    made = published("rhythm", facts, town(4, 300, 5))
    assert all(one.total is None for one in made)
    assert 150 < np.mean([float(one.values.sum()) for one in made[DAY:]]) < 450


@pytest.mark.privacy
def test_a_count_says_no_more_of_its_cell_than_its_median_does() -> None:
    """One cell's noisy mean, however large, moves its count as it moves those around it."""
    facts = known(1, 300)
    mean, median = np.full(SIDE**2, 0.75), np.zeros(SIDE**2)
    here = SIDE * SIDE // 2 + SIDE // 2
    seen = mean.copy()
    seen[here] += 3.0
    plain, moved = (added_up(median, 300.0, one, 0.01, facts) for one in (mean, seen))
    more = moved - plain
    assert moved.sum() == pytest.approx(300.0)
    assert more[here] < 0.1 * 3.0
    assert more[here + 1] > 0.6 * more[here] > 0
    with_median = added_up(np.where(np.arange(SIDE**2) == here, 3.0, 0.0), 300.0, seen, 0.01, facts)
    assert with_median[here] > 3.0
    assert with_median[here] - 3.0 < moved[here], "what the median holds is not spread again"


def test_medians_beyond_the_total_are_brought_to_it_and_no_grid_is_spread_evenly() -> None:
    facts = known(1, 300)
    median = np.ones(SIDE**2)
    assert added_up(median, 100.0, median, 1.0, facts).sum() == pytest.approx(100.0)
    assert added_up(median, -5.0, median, 1.0, facts).sum() == 0.0
    towers = replace(facts, grid_columns=None)
    assert np.ptp(added_up(median * 0, 100.0, median, 1.0, towers)) == 0.0
