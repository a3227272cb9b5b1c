"""Questions beyond a sum: what they answer, how surely, and what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.published.asked import MONDAY, daily, hours, published

import sfumato
from sfumato.errors import InputError, UsageError
from sfumato.model.folded import folded_period
from sfumato.model.time_grid import TimeGrid
from sfumato.published.answers import Answer
from sfumato.published.release import Release

WEEK = hours(MONDAY, MONDAY + timedelta(days=7))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("asked")


@pytest.fixture(scope="module")
def week(home: Path) -> Release:
    return published(home / "week", WEEK, daily(WEEK))


@pytest.fixture(scope="module")
def bare(home: Path) -> Release:
    """As a scheme leaves it that cannot state a posterior."""
    return published(home / "bare", WEEK, daily(WEEK), sd=None)


def test_a_comparison_knows_what_both_share(week: Release) -> None:
    """The level's error is in both sums: it cancels in the ratio and not in the difference."""
    found = week.compare({"hours": "8-12"}, {"hours": "12-16"})
    assert found.difference.value == pytest.approx(found.first.value - found.second.value)
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(found.first.value / found.second.value)
    apart = np.hypot(*(one.plus_minus or 0 for one in (found.first, found.second)))
    assert (found.ratio.plus_minus or 9) < 0.4 * apart / found.second.value
    assert (found.difference.plus_minus or 1e9) < 0.5 * apart
    assert found.clear
    same = week.compare({"hours": "8-12"}, {"hours": "8-12"})
    assert same.difference.ends == pytest.approx((0.0, 0.0), abs=1e-6), "one question twice"
    assert not same.clear


def test_selections_of_unequal_length_are_compared_by_the_slot(week: Release) -> None:
    found = week.compare({"weekdays": "mon-fri"}, {"weekdays": "sat-sun"})
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(1.0, abs=1e-3), "every day is alike"
    assert "a slot on average" in found.question


def test_two_releases_have_errors_of_their_own(week: Release, home: Path) -> None:
    after = hours(MONDAY + timedelta(days=7), MONDAY + timedelta(days=14))
    other = published(home / "after", after, 1.1 * daily(after), seed=2)
    found = week.compare({"zones": "a"}, other=other)
    parts = np.hypot(*(one.plus_minus or 0 for one in (found.first, found.second)))
    assert (found.difference.plus_minus or 0) == pytest.approx(parts, rel=0.1)
    assert found.difference.value < 0
    people = published(home / "people", after, daily(after), privacy={"counting": "people"})
    with pytest.raises(InputError, match="counts visits, the other people"):
        week.compare({}, other=people)
    with pytest.raises(UsageError, match="nothing to compare"):
        week.compare({})


def test_a_share_is_between_nothing_and_everything(week: Release) -> None:
    found = week.share({"zones": ["a"], "hours": "8-10"})
    assert found.estimate.value == pytest.approx(1 / 1.99, rel=1e-3)
    assert 0 <= found.estimate.ends[0] < found.estimate.ends[1] <= 1
    assert week.share({}).estimate.ends == pytest.approx((1.0, 1.0))
    with pytest.raises(UsageError, match="not inside"):
        week.share({"zones": "a"}, {"zones": "b"})


def test_a_ranking_says_where_the_order_is_not_clear(week: Release) -> None:
    rows = week.rank("zone", hours="7-10", top=4).rows
    assert [row["zone_id"] for row in rows] == ["a", "b", "c", "d"]
    assert [row["before_next"] for row in rows] == [True, True, False, None]
    assert (rows[0]["rank_from"], rows[0]["rank_to"]) == (1, 1)
    assert (rows[2]["rank_from"], rows[2]["rank_to"]) == (3, 4)
    third = week.rank("zone", hours="7-10", top=3).rows[2]["chance_in_top"]
    assert 0.5 < third < 1


def test_demand_weighs_hours(week: Release) -> None:
    plain, weighed = (
        week.rank("zone", top=1, hours="0-24", demand=demand).rows[0]["average"].value
        for demand in ({"0-24": 1}, {"12": 9, "0-24": 1})
    )
    noon = week.rank("zone", top=1, hours="12").rows[0]["average"].value
    assert weighed == pytest.approx((24 * plain + 9 * noon) / 33)
    with pytest.raises(UsageError, match="how much they matter"):
        week.rank(demand={"8-10": 0})
    with pytest.raises(InputError, match="nothing in common"):
        week.rank(hours="8", demand={"9": 1})


def test_quiet_windows_share_no_hour(week: Release) -> None:
    found = week.rank("hour", quietest=True, window="2h", top=3)
    assert found.rows[0]["hour"] in ("23:00", "00:00")
    starts = sorted(int(row["hour"][:2]) for row in found.rows)
    assert min(np.diff([*starts, starts[0] + 24])) >= 2
    nights = week.rank("slot", quietest=True, window="3h", top=7, hours="22-5")
    assert all(row["slot"].hour in (22, 23, 0, 1, 2) for row in nights.rows)
    with pytest.raises(UsageError, match="multiple of 1h"):
        week.rank("slot", window="90min")
    with pytest.raises(UsageError, match="Only slots and hours"):
        week.rank("zone", window="2h")


def test_a_profile_by_everything_there_is(week: Release) -> None:
    day = week.profile("hour", zones="a")
    assert len(day.rows) == 24
    assert day.rows[12]["average"].value == pytest.approx(400 * 2.2)
    assert day.rows[12]["average"].plus_minus < week.sum(zones="a", hours=12).plus_minus
    assert [row["weekday"] for row in week.profile("weekday").rows][::6] == ["Monday", "Sunday"]
    assert len(week.profile("day").rows) == 7
    assert len(week.profile("slot", end="2024-03-05").rows) == 24
    by_zone = week.profile("zone").to_pandas()
    assert by_zone["average"].sum() * 168 == pytest.approx(week.sum().value)
    assert {"average_lower", "average_upper"} <= set(by_zone.columns)
    with pytest.raises(UsageError, match="hour, weekday, day, slot, zone, district"):
        week.profile("month")
    with pytest.raises(InputError, match="no districts"):
        week.profile("district")


def test_what_can_be_switched_off_is_surely_below(week: Release) -> None:
    found = week.profile("hour", zones="d", below=60)
    night, noon = found.rows[0], found.rows[12]
    assert (night["surely_below"], noon["surely_below"]) == (True, False)
    assert night["chance_below"] > 0.95 > 0.05 > noon["chance_below"]


def test_without_a_posterior_nothing_is_made_up(bare: Release) -> None:
    answers: list[Answer] = [
        bare.compare({"hours": "8-10"}, {"hours": "17-19"}),
        bare.share({"zones": "a"}),
        bare.rank("zone"),
        bare.profile("hour", below=10),
        sfumato.ask(bare, hours="8-10"),
    ]
    for answer in answers:
        assert "±" not in str(answer)
        assert "No intervals of sums" in str(answer)
        assert answer.plot().axes
    assert answers[2].rows[0]["before_next"] is None
    assert answers[3].rows[0]["surely_below"] is None
    assert bare.compare({"hours": 8}, {"hours": 9}).clear is None
    cell = bare.present("2024-03-05T12:30", zones="b")
    assert cell.at_most == pytest.approx(cell.estimate.value + 2), "of a cell one is published"
    area = bare.present("2024-03-05T12:30", zones=["b", "c"])
    assert area.at_most == pytest.approx(area.estimate.value + 2 * 2), "cells' upper ends"
    assert area.estimate.lower is None, "the sum itself has no interval"
    assert any("more than needed" in note for note in area.notes)


def test_who_may_be_there(week: Release, home: Path) -> None:
    then = week.present("2024-03-05T12:30", zones="a")
    assert then.estimate.value == pytest.approx(880)
    assert then.at_most is not None
    assert then.at_most >= then.estimate.ends[1], "never below what is printed with the cell"
    surer = week.present("2024-03-05T12:30", zones="a", sure=0.999)
    assert (surer.at_most or 0) > then.at_most
    later = week.present("2026-11-17T12:30", zones="a")
    assert later.estimate.value == pytest.approx(880)
    assert "as Tuesdays at 12:30 in 2024-03-04" in later.question
    assert str(week.present()).startswith("at most ")
    typical = folded_period(MONDAY, MONDAY + timedelta(days=14), "1h", "Europe/Paris", "week")
    folded = published(home / "folded", typical, daily(typical))
    assert "typical week" in str(folded.present("2026-11-17T12:30"))
    day = hours(MONDAY, MONDAY + timedelta(days=1))
    monday = published(home / "monday", day, daily(day))
    with pytest.raises(InputError, match="no Tuesday at 12:30"):
        monday.present("2026-11-17T12:30")
    with pytest.raises(UsageError, match="moment and a period"):
        week.present(start="2024-03-05")
    with pytest.raises(UsageError, match="not a time"):
        week.present("noon")


def test_clocks_that_change(home: Path) -> None:
    """The night to 31 March 2024 has no two o'clock; that to 27 October has it twice."""
    spring = hours(MONDAY + timedelta(days=21), MONDAY + timedelta(days=28))
    autumn = TimeGrid.between(
        MONDAY.replace(month=10, day=21), MONDAY.replace(month=10, day=28), "1h", "Europe/Paris"
    )
    short, long = (
        published(home / name, grid, daily(grid))
        for name, grid in (("spring", spring), ("autumn", autumn))
    )
    for release, nights in ((short, 6), (long, 8)):
        two = release.profile("hour", zones="a").rows[2]
        assert two["average"].value == pytest.approx(daily(WEEK)[0, 2], rel=1e-3)
        assert release.select(hours="2").slots.sum() == nights
    found = long.unusual(earlier=[short], weekdays="sun", zones="a")
    assert len(found.rows) == 23, "both passes of two o'clock have nothing to be held against"
    assert any("2 of the slots have nothing" in note for note in found.notes)


def test_three_zones_and_two_slots(home: Path) -> None:
    grid = TimeGrid.between(MONDAY, MONDAY + timedelta(days=1), "12h", "UTC")
    tiny = published(home / "tiny", grid, np.array([[9.0, 0.0], [3.0, 2.0], [0.0, 0.0]]), sd=1.0)
    assert tiny.rank("slot", quietest=True).rows[0]["slot"].hour == 12
    assert tiny.rank("zone").rows[0]["zone_id"] == "a"
    assert tiny.compare({"zones": "a"}, {"zones": "c"}).ratio is None
    assert len(tiny.profile("hour").rows) == 2
    with pytest.raises(UsageError, match="cut slots"):
        tiny.profile("hour", hours="8-10")
    with pytest.raises(InputError, match="zero, so it has no shares"):
        tiny.share({"zones": "c"}, {"zones": "c"})


def test_answers_show_themselves(week: Release, tmp_path: Path) -> None:
    found = sfumato.ask(week.folder, rank="zone", top=2, hours="8-10", figures=tmp_path / "figures")
    assert repr(found).startswith("<ranking: most a with ")
    assert len(repr(found)) < 120
    assert "<table>" in found._repr_html_()
    assert json.loads(json.dumps(found.numbers()))["rows"][0]["average"]["coverage"] == 0.9
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".png", ".svg"}
    assert "ε 0.3" in found.signature


def test_ask_takes_one_question_at_a_time(week: Release) -> None:
    assert sfumato.ask(week, against={"hours": "8"}, hours="9").kind == "comparison"
    share = sfumato.ask(week, zones="a", share_of={"zones": None})
    assert share.kind == "total"
    with pytest.raises(UsageError, match="Two questions"):
        sfumato.ask(week, by="hour", rank="zone")
    with pytest.raises(UsageError, match="belongs to `rank`"):
        sfumato.ask(week, top=3)
    with pytest.raises(UsageError, match="no word 'hour'"):
        sfumato.ask(week, against={"hour": "8"})
    with pytest.raises(UsageError, match="beside SQL"):
        sfumato.ask(week, sql="SELECT 1", hours="8")


def test_two_selections_stand_side_by_side(week: Release, bare: Release, home: Path) -> None:
    """Each row is the comparison of its group, and knows what both have in common."""
    found = sfumato.ask(week, by="hour", against={"weekdays": "sat-sun"}, weekdays="mon-fri")
    assert [row["hour"] for row in found.rows] == [f"{hour:02d}:00" for hour in range(24)]
    row = found.rows[8]
    alone = week.compare({"hours": 8, "weekdays": "mon-fri"}, {"hours": 8, "weekdays": "sat-sun"})
    for name, one in zip(
        ("average", "against", "difference"),
        (alone.first, alone.second, alone.difference),
        strict=True,
    ):
        assert row[name].value == pytest.approx(one.value)
        assert row[name].ends == pytest.approx(one.ends, rel=0.02)
    assert "largest difference" in str(found)
    assert "against visits in" in found.question
    assert found.plot().axes
    later = published(home / "later", WEEK, 1.5 * daily(WEEK), seed=2)
    two = sfumato.ask(week, by="zone", against={"release": later.folder}, zones=["a", "b"])
    assert [row["zone_id"] for row in two.rows] == ["a", "b"]
    assert all(row["difference"].ends[1] < 0 for row in two.rows)
    no = sfumato.ask(bare, by="hour", hours="8-10", against={"hours": "9-11"})
    assert [row["hour"] for row in no.rows] == ["09:00"]
    assert no.rows[0]["difference"].lower is None
    assert "2 groups" in no.notes[0]
    with pytest.raises(InputError, match="no hour in common"):
        sfumato.ask(week, by="hour", hours="8", against={"hours": "9"})
    with pytest.raises(UsageError, match="beside `against`"):
        sfumato.ask(week, by="hour", below=3, against={"weekdays": "sat"})


def test_people_are_told_that_sums_over_slots_are_no_heads(home: Path) -> None:
    folder = home / "heads"
    people = published(folder, WEEK, daily(WEEK), privacy={"counting": "people"})
    assert "who is there in two slots counts in both" in str(sfumato.ask(people, zones=["a"]))


def test_without_intervals_no_hour_is_called_full(bare: Release) -> None:
    """None of them is known to be below: that is not to say that they are above."""
    said = str(bare.profile("hour", below=1e6))
    assert "without intervals" in said.splitlines()[0]
    assert "0 of 24" not in said


def test_who_asks_about_made_up_people_is_told(week: Release) -> None:
    update = {"kind": "synthetic", "public_inputs": {"people": 30}}
    made = replace(week, manifest=week.manifest.model_copy(update=update))
    assert "Made-up people are counted, 30 in all" in str(sfumato.ask(made))
    assert "Made-up people" not in str(sfumato.ask(week))
