"""`fold`: many weeks as one. What is counted, what is charged, and what readers are told."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
import shapely

import sfumato
from sfumato.density.rehearsal import Rehearsal, district
from sfumato.density.scheme import PublicFacts
from sfumato.engine.local import LocalSource
from sfumato.errors import UsageError
from sfumato.io.events import read_events
from sfumato.model.counts import Counting, Counts, SampleBound, WeightBound
from sfumato.model.folded import FoldedGrid
from sfumato.model.places import PlaceKind, Places
from sfumato.model.private import Private
from sfumato.model.time_grid import TimeGrid, period_of
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.utility.density import relative_error

TZ = ZoneInfo("Europe/Paris")
START, WEEKS = date(2024, 3, 18), 3
GRID = period_of(START, START + timedelta(weeks=WEEKS), "6h", "Europe/Paris", "week")
POINTS = [shapely.Point(2.3 + k / 50, 48.8) for k in range(4)]
TOWERS = Places.of(PlaceKind.TOWERS, ["t0", "t1", "t2", "t3"], POINTS)


def visits(seed: int = 1, rows: int = 1500, people: int = 50) -> pa.Table:
    """Events all over the three weeks, one of which has a change of the clock, and beyond."""
    rng = np.random.default_rng(seed)
    first, after = GRID.period
    return pa.table(
        {
            "user": rng.integers(0, people, rows),
            "time": pa.array(rng.integers(first - 10**10, after + 10**10, rows)).cast(
                pa.timestamp("us", "UTC")
            ),
            "tower": [f"t{k}" for k in rng.integers(0, 4, rows)],
        }
    )


def opened(private: Private[Counts]) -> Any:
    return private._through_the_door().values


@pytest.mark.privacy
def test_folded_counts_are_those_of_events_moved_to_one_week() -> None:
    """The definition. Unit: a person's whole record; a (place, slot) counts once in any week.

    So bounds and sensitivities are those of a week without folding: the engine meets the same
    sets of places and slots as if everything had happened in the typical week.
    """
    table = visits()
    assert isinstance(GRID, FoldedGrid)
    slot = GRID.slot_of(table["time"].cast(pa.int64()).to_numpy())
    kept = table.filter(pa.array(slot >= 0))
    moved = GRID.edges[:-1][slot[slot >= 0]] + 1
    moved = kept.set_column(1, "time", pa.array(moved).cast(pa.timestamp("us", "UTC")))
    week = TimeGrid(GRID.edges, GRID.step, GRID.tz)
    folded = LocalSource(read_events(table), TOWERS, GRID)
    plain = LocalSource(read_events(moved), TOWERS, week)
    for counting in Counting:
        for ask in (
            lambda source, c=counting: source.exact(c),
            lambda source, c=counting: source.weighted(WeightBound(1.5), c),
            lambda source, c=counting: source.place_totals(WeightBound(1.5), c),
        ):
            assert opened(ask(folded)).tobytes() == opened(ask(plain)).tobytes()
    key = bytes(32)
    assert np.array_equal(
        opened(folded.sampled(SampleBound(3), key)), opened(plain.sampled(SampleBound(3), key))
    )
    assert opened(folded.exact(Counting.VISITS)).sum() < kept.num_rows  # seen again: counted once
    assert folded.drops.rows - folded.drops.kept == table.num_rows - kept.num_rows


@pytest.mark.privacy
def test_one_person_in_every_week_stays_within_the_bound_of_one() -> None:
    """Add or remove someone seen in every slot of every week: at most the stated L2."""
    first, after = GRID.period
    times = np.arange(first, after, 3_600_000_000)
    crowd = visits(2)
    one = pa.table(
        {
            "user": np.full(4 * times.size, 999),
            "time": pa.array(np.repeat(times, 4)).cast(pa.timestamp("us", "UTC")),
            "tower": ["t0", "t1", "t2", "t3"] * times.size,
        }
    )
    limit = WeightBound(2.0)
    for counting in Counting:
        tables = (crowd, pa.concat_tables([crowd, one]))
        without, with_one = (
            LocalSource(read_events(table), TOWERS, GRID).weighted(limit, counting)
            for table in tables
        )
        change = (opened(with_one) - opened(without)).astype(float)
        assert 0 < np.linalg.norm(change) <= without._through_the_door().l2


@pytest.mark.privacy
def test_a_release_says_that_it_is_folded_and_is_charged_for_all_weeks(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("town", Cap(epsilon=100, delta=0.1))
    said: dict[str, Any] = {"towers": TOWERS, "dataset": "town", "epsilon": 20, "delta": 1e-4}
    said |= {"start": START, "tz": "Europe/Paris", "slot": "6h", "scheme": "gaussian"}
    said |= {"expected_users": 50, "ledger": ledger}
    made = sfumato.release(
        visits(),
        anyway=True,
        end=START + timedelta(weeks=WEEKS),
        fold="week",
        out=tmp_path / "typical",
        **said,
    )
    fold = made.manifest.grid.fold
    assert fold is not None
    assert (fold.to, fold.repeats, fold.start[:10]) == ("week", 3, "2024-03-18")
    worst = made.manifest.privacy.cumulative.worst_period_is
    assert worst is None or worst.end[:10] >= "2024-04-07"
    (row,) = ledger.book().charges.values()
    assert row.claim.period == GRID.period
    assert row.claim.config["fold"] == "week"
    again = sfumato.read_release(tmp_path / "typical")
    assert isinstance(again.grid, FoldedGrid)
    assert again.grid.fingerprint() == GRID.fingerprint()
    assert again.values.shape == (4, 28)
    readme = (tmp_path / "typical" / "README.txt").read_text()
    for text in (readme, again.statement(), " ".join(again.manifest.caveats), repr(again)):
        assert "typical week" in " ".join(text.split())
    assert "once, in however many of the weeks" in " ".join(readme.split())
    with pytest.raises(UsageError, match="no dates of its own"):
        sfumato.export(again, tmp_path / "export", to="flowkit")
    truth = sfumato.evaluate(again, visits(), towers=TOWERS).truth
    exact = LocalSource(read_events(visits()), TOWERS, GRID).exact(Counting.VISITS)
    assert np.array_equal(truth, opened(exact))
    plain = sfumato.release(
        visits(), anyway=True, end=START + timedelta(weeks=1), out=tmp_path / "plain", **said
    )
    assert ["fold" in row.claim.config for row in ledger.book().charges.values()] == [True, False]
    assert plain.manifest.grid.fold is None


def test_a_plan_counts_the_whole_period() -> None:
    outlook = sfumato.plan(
        epsilon=1, delta=1e-6, expected_users=20_000, zone_count=40, rehearse=False,
        start="2024-01-01", end="2024-01-29", fold="week", cap_epsilon=2,
    )  # fmt: skip
    assert outlook.answer["cap"]["periods_in_a_year"] == 13.0


def test_a_rehearsal_lives_through_all_weeks() -> None:
    """More people are seen at a time of the week in three weeks than in one."""

    def source(events: Any, places: Places, grid: TimeGrid) -> LocalSource:
        return LocalSource(events, places, grid)

    facts = PublicFacts(np.array([f"p{k}" for k in range(8)]), GRID, 1.0, 1e-4, expected_users=400)
    plan = district(facts, 400, 8)
    assert (plan.start, plan.days) == (START, 7 * WEEKS)
    year = period_of(START, START + timedelta(weeks=52), "6h", "Europe/Paris", "week")
    assert district(replace(facts, grid=year), 400, 8).days == 56
    stage = Rehearsal(facts, 400, 8, source, relative_error)
    week = replace(facts, grid=period_of(START, START + timedelta(weeks=1), "6h", "Europe/Paris"))
    alone = Rehearsal(week, 400, 8, source, relative_error)
    assert stage._truth.shape == alone._truth.shape == (8, 28)
    assert 1.5 < stage._truth.sum() / alone._truth.sum() < 3
