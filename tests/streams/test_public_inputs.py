"""What a stream is given beside its events: roads, neighbours and days published before."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely
from typer.testing import CliRunner

import sfumato
from sfumato.audits.streams import stream_rows
from sfumato.cli.main import app
from sfumato.errors import InputError, ReservationRefused, UsageError
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.streams.facts import StreamFacts
from sfumato.streams.public_inputs import (
    adjacent_pairs,
    holidays_in,
    published_days,
    read_public_inputs,
    road_lengths,
)
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import run_scheme
from sfumato_lab.streams.hybrid_division import from_distances, predicted

SIDE = 0.01
BOXES = [
    shapely.box(2.3 + SIDE * i, 48.8 + SIDE * j, 2.3 + SIDE * (i + 1), 48.8 + SIDE * (j + 1))
    for j in range(2)
    for i in range(2)
]
ZONES = geopandas.GeoDataFrame({"zone_id": list("abcd")}, geometry=BOXES, crs="EPSG:4326")
PLACES = Places.of(PlaceKind.ZONES, list("abcd"), np.array(BOXES, dtype=object))
HOURS = TimeGrid.between(date(2024, 3, 6), date(2024, 3, 7), "2h", "UTC")
ROADS = geopandas.GeoDataFrame(
    geometry=[
        shapely.LineString([(2.300, 48.805), (2.320, 48.805)]),  # through a and b
        shapely.LineString([(2.311, 48.801), (2.319, 48.801)]),  # in b alone
    ],
    crs="EPSG:4326",
)


def test_roads_are_measured_in_metres_inside_each_zone() -> None:
    a, b, c, d = road_lengths(ROADS, PLACES)
    assert a == pytest.approx(733, abs=3)
    assert b == pytest.approx(733 + 587, abs=5)
    assert (c, d) == (0, 0)
    with pytest.raises(InputError, match="not every shape in it is a line"):
        road_lengths(ZONES, PLACES)
    towers = Places.of(PlaceKind.TOWERS, ["t"], np.array([shapely.Point(2, 48)], dtype=object))
    with pytest.raises(UsageError, match="towers have none"):
        road_lengths(ROADS, towers)


def test_neighbours_are_pairs_of_known_places_each_once() -> None:
    table = pd.DataFrame({"from": ["a", "b", "c", "d"], "to": ["b", "a", "c", "a"]})
    assert adjacent_pairs(table, PLACES.ids).tolist() == [[0, 1], [0, 3]]
    with pytest.raises(InputError, match="no place 'x'"):
        adjacent_pairs(pd.DataFrame({"from": ["a"], "to": ["x"]}), PLACES.ids)
    with pytest.raises(InputError, match="fewer than two columns"):
        adjacent_pairs(pd.DataFrame({"from": ["a"]}), PLACES.ids)


def test_a_scheme_refuses_what_it_has_no_use_for() -> None:
    for name, given in (("direct", "roads"), ("fan-temporal", "adjacency"), ("rhythm", "earlier")):
        scheme: Any = stream_scheme(name)
        with pytest.raises(UsageError, match=f"has no use for {given}"):
            read_public_inputs(scheme, PLACES, PLACES, HOURS, **{given: ["x"]})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty people in four zones on three days; from 8 to 16 h they change zones, else they stay.

    The first two days are published with noise that hardly matters.
    """
    home = tmp_path_factory.mktemp("days")
    rng = np.random.default_rng(1)
    rows = []
    for day in (4, 5, 6):
        for hour in range(0, 24, 2):
            moving = 8 <= hour <= 16
            for person in range(40):
                zone = rng.integers(4) if moving else person % 4
                x, y = shapely.get_coordinates(BOXES[zone].centroid)[0]
                rows.append((person, f"2024-03-{day:02d}T{hour:02d}:30:00Z", x, y))
    pd.DataFrame(rows, columns=["user", "time", "lon", "lat"]).to_csv(home / "e.csv", index=False)
    book = Ledger(home / "ledger.sqlite")
    book.initialise()
    book.add_dataset("town", Cap(epsilon=10_000, delta=1e-3), Unit.parse("user-day"))
    run(home, "past", "2024-03-04", "2024-03-06", scheme="direct", epsilon=500)
    return home


def run(home: Path, name: str, start: str, end: str, **more: Any) -> dict[str, Any]:
    """A stream of those days; what its manifest says."""
    said = {"epsilon": 5, "delta": 1e-6, "expected_users": 40, **more}
    sfumato.stream(
        home / "e.csv", zones=ZONES, start=start, end=end, tz="UTC", slot="2h", dataset="town",
        out=home / name, ledger=home / "ledger.sqlite", **said,
    )  # fmt: skip
    found: dict[str, Any] = json.loads((home / name / "manifest.json").read_text())
    return found


def test_published_days_are_read_as_distances_between_their_slots(home: Path) -> None:
    days = published_days([home / "past"], PLACES, HOURS)
    assert [when for when, _ in days] == [1709510400000000, 1709596800000000]
    first, last = from_distances(days[0][1])
    assert 3 <= first <= 4
    assert 8 <= last <= 9


@pytest.mark.privacy
def test_earlier_days_divide_today_and_are_not_paid_again(home: Path) -> None:
    """Algorithm 5: today's division from the days before; these are read as they were published."""
    today, days = ("today", "2024-03-06", "2024-03-07"), {"earlier": [home / "past"]}
    how: dict[str, Any] = {"scheme": "dynamic-hybrid"}
    steer = {"division": 0, "noise": "laplace"}
    said = run(home, *today, **days, **how, parameter=steer)
    labels = {row["label"] for row in said["privacy"]["measurements"]}
    assert labels == {"day", "night", "distance"}, "nothing is spent on the division"
    assert said["privacy"]["epsilon"] <= 5
    assert said["scheme"]["parameters"]["division"] == 0
    assert len(said["public_inputs"]["earlier"]) == 64
    lines = (home / "today" / "stream.ndjson").read_text().splitlines()
    fresh = [json.loads(line)["fresh"] for line in lines]
    past = [from_distances(day) for _, day in published_days([home / "past"], PLACES, HOURS)]
    first, last = predicted(past, 12)
    assert all(fresh[first : last + 1]), "every slot of the predicted day"
    assert not all(fresh)
    # It goes on, or is found finished, with the days it began with and no others.
    run(home, *today, **days, **how, parameter=steer, resume=True)
    with pytest.raises(ReservationRefused, match="reading"):
        run(home, *today, **how, resume=True)


@pytest.mark.privacy
def test_days_that_nobody_vouches_for_or_that_are_not_past_are_refused(
    home: Path, tmp_path: Path
) -> None:
    today: dict[str, Any] = {"scheme": "dynamic-hybrid", "earlier": [home / "past"]}
    with pytest.raises(InputError, match="ends after this stream begins"):
        run(home, "early", "2024-03-05", "2024-03-06", **today)
    with pytest.raises(UsageError, match="hold the same day"):
        published_days([home / "past", home / "past"], PLACES, HOURS)
    others = Places.of(PlaceKind.ZONES, list("abcx"), PLACES.geometry)
    with pytest.raises(InputError, match="other places"):
        published_days([home / "past"], others, HOURS)
    hourly = TimeGrid.between(date(2024, 3, 6), date(2024, 3, 7), "1h", "UTC")
    with pytest.raises(InputError, match="other time slots"):
        published_days([home / "past"], PLACES, hourly)
    shutil.copytree(home / "past", tmp_path / "altered")
    table = tmp_path / "altered" / "density.parquet"
    table.write_bytes(table.read_bytes() + b" ")
    with pytest.raises(InputError):
        published_days([tmp_path / "altered"], PLACES, HOURS)


@pytest.mark.privacy
@pytest.mark.parametrize("unit", ["user-day", "user-period"])
@pytest.mark.parametrize("division", [0, 0.05])
def test_no_unit_loses_more_with_days_published_before(unit: str, division: float) -> None:
    known = StreamFacts(6, Calendar.regular(12, 6), 1.0, 0.0, Unit.parse(unit), 60, 3)
    past = (np.array([1.0, 9, 8, 9, 1]), np.array([2.0, 2, 9, 9, 1]))
    scheme = stream_scheme("dynamic-hybrid", {"division": division})
    rows = stream_rows(scheme, replace(known, past_days=past), seed=2)
    assert not [row for row in rows if row.violated]
    assert rows[0].measured > 0


def test_without_a_share_for_the_division_there_must_be_days() -> None:
    known = StreamFacts(6, Calendar.regular(12, 6), 1.0, 0.0, Unit.parse("user-day"), 60, 3)
    with pytest.raises(UsageError, match="divided as earlier ones were"):
        stream_scheme("dynamic-hybrid", {"division": 0}).plan(known)


def test_only_the_last_days_are_looked_at() -> None:
    """H of them: what lies further back does not move today's division."""
    known = StreamFacts(6, Calendar.regular(6, 6), 50.0, 0.0, Unit.parse("user-day"), 60, 3)
    early, late = np.array([9.0, 9, 0, 0, 0]), np.array([0.0, 0, 0, 9, 9])
    days, counts = (early, late, late), np.full((6, 6), 10)
    for past in (1, 2, 3):
        scheme = stream_scheme("dynamic-hybrid", {"division": 0, "past": past, "threshold": 900})
        made = run_scheme(scheme, replace(known, past_days=days), counts, 0)
        first, last = predicted([from_distances(day) for day in days[-past:]], 6)
        assert set(np.flatnonzero(made.fresh)) == {0, *range(first, last + 1)}
    assert predicted([from_distances(late)] * 2, 6) != predicted(
        [from_distances(day) for day in days], 6
    )


def test_the_command_takes_parameters_and_names_its_own_flags(home: Path) -> None:
    ZONES.to_file(home / "zones.geojson")
    said = [
        *("stream", str(home / "e.csv"), "--zones", str(home / "zones.geojson"), "--tz", "UTC"),
        *("--from", "2024-03-06", "--to", "2024-03-07", "--slot", "2h", "--dataset", "town"),
        *("--epsilon", "5", "--ledger", str(home / "ledger.sqlite"), "--out", str(home / "said")),
        *("--scheme", "threshold", "--quiet"),
    ]
    missing = CliRunner().invoke(app, said)
    assert isinstance(missing.exception, UsageError)
    assert "--expected-users" in missing.exception.remedy
    assert "--parameter threshold" in missing.exception.remedy.replace("the ", "")
    given = ("--parameter", "threshold=20", "--parameter", "cutoff=3", "--parameter", "compare=0.2")
    assert CliRunner().invoke(app, [*said, *given]).exit_code == 0
    found = json.loads((home / "said" / "manifest.json").read_text())["scheme"]["parameters"]
    assert (found["threshold"], found["cutoff"], found["compare"]) == (20, 3, 0.2)


def test_a_map_of_roads_saves_the_tree_and_is_on_record(home: Path) -> None:
    side_by_side = pd.DataFrame({"one": ["a", "b"], "other": ["b", "c"]})
    said = run(
        home, "roads", "2024-03-06", "2024-03-07", scheme="fan-combined", roads=ROADS,
        adjacency=side_by_side,
    )  # fmt: skip
    assert [row["label"] for row in said["privacy"]["measurements"]] == ["leaves"]
    assert {"roads", "adjacency"} <= set(said["public_inputs"])


ICS = """BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VEVENT
DTSTART;VALUE=DATE:20240305
DTEND;VALUE=DATE:20240306
SUMMARY:Town fair
END:VEVENT
BEGIN:VEVENT
DTSTART:20240306T090000Z
END:VEVENT
END:VCALENDAR
"""
WEEK = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 11), "12h", "Europe/Paris")


def test_holidays_are_dates_or_files_of_dates(tmp_path: Path) -> None:
    day = date(2024, 3, 5)
    listed, calendar = tmp_path / "days.csv", tmp_path / "days.ics"
    listed.write_text("date,name\n# public\n2024-03-05,fair\n\n2024-12-25,far away\n", "utf-8")
    calendar.write_text(ICS, "utf-8")
    for given in (day, datetime(2024, 3, 5, 12), "2024-03-05", "2024-03-05, 2024-05-01", [str(day)],
                  [day, listed], listed, str(calendar)):  # fmt: skip
        assert holidays_in(given, WEEK) == (day,)
    assert holidays_in((), WEEK) == holidays_in(None, WEEK) == ()
    with pytest.raises(UsageError, match="neither a date nor a file"):
        holidays_in("5 March", WEEK)
    listed.write_text("2024-03-05\nsomeday\n", "utf-8")
    with pytest.raises(InputError, match="line 2 begins with no date"):
        holidays_in(listed, WEEK)
    (tmp_path / "letter.txt").write_text("Dear calendar\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "none.ics").write_text("BEGIN:VCALENDAR\nEND:VCALENDAR\n")
    for name in ("letter.txt", "empty.txt", "none.ics"):
        with pytest.raises(InputError, match="no date in it"):
            holidays_in(tmp_path / name, WEEK)


def test_a_holiday_is_a_free_day_whatever_its_weekday() -> None:
    plain, known = Calendar.of(WEEK), Calendar.of(WEEK, [date(2024, 3, 5)])
    assert plain.free.tolist() == [False] * 10 + [True] * 4
    assert known.free.tolist() == [False] * 2 + [True] * 2 + [False] * 6 + [True] * 4
    assert known.holidays == {1}


@pytest.mark.privacy
def test_holidays_are_public_and_bound_to_the_reservation(home: Path) -> None:
    """In the manifest and the claim; a stream goes on with those that it was begun with."""
    when: dict[str, Any] = {"scheme": "comb", "expected_users": 40, "delta": 0}
    said = run(home, "fair", "2024-03-05", "2024-03-07", holidays="2024-03-05", **when)
    assert said["public_inputs"]["holidays"] == "2024-03-05"
    plain = run(home, "plain", "2024-03-05", "2024-03-07", **when)
    assert "holidays" not in plain["public_inputs"]
    with pytest.raises(ReservationRefused, match="reading"):
        run(home, "fair", "2024-03-05", "2024-03-07", resume=True, **when)
    with pytest.raises(ReservationRefused, match="reading"):
        run(home, "plain", "2024-03-05", "2024-03-07", holidays="2024-03-06", resume=True, **when)


def test_holidays_stand_in_the_configuration_file_too(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a date of TOML's own, as text, or as a file of dates; the command line wins."""
    monkeypatch.chdir(home)
    Path("fair.txt").write_text("2024-03-06 fair\n", "utf-8")
    geopandas.GeoDataFrame({"id": [*"abcd"]}, geometry=BOXES, crs=4326).to_file("zones.geojson")
    text = """
    dataset = "town"
    ledger = "ledger.sqlite"
    [stream]
    events = "e.csv"
    zones = "zones.geojson"
    from = 2024-03-05
    to = 2024-03-07
    tz = "UTC"
    slot = "2h"
    epsilon = 5
    scheme = "comb"
    holidays = """
    for k, (said, more, want) in enumerate((
        ("2024-03-05", [], "2024-03-05"),
        ('[2024-03-05, "fair.txt"]', [], "2024-03-05 2024-03-06"),
        ('"2024-03-05"', ["--holidays", "2024-03-06"], "2024-03-06"),
    )):  # fmt: skip
        Path("sfumato.toml").write_text(text + said, "utf-8")
        asked = ["stream", "--config", "sfumato.toml", "--out", f"free-{k}", "--quiet", *more]
        done = CliRunner().invoke(app, asked)
        assert done.exit_code == 0, done.output
        found = json.loads((home / f"free-{k}" / "manifest.json").read_text())
        assert found["public_inputs"]["holidays"] == want


def test_a_scheme_that_knows_no_calendar_refuses_one(home: Path) -> None:
    when = ("in-vain", "2024-03-05", "2024-03-06")
    with pytest.raises(UsageError, match="sample has no use for holidays"):
        run(home, *when, scheme="sample", holidays="2024-03-05")
    assert not (home / "in-vain").exists()


@pytest.mark.privacy
@pytest.mark.parametrize("scheme", ["comb", "rhythm"])
def test_no_unit_loses_more_with_holidays(scheme: str) -> None:
    """The calendar decides nothing that is measured: a day is paid for as any other."""
    days = replace(Calendar.regular(12, 6), holidays=frozenset({1}))
    known = StreamFacts(6, days, 1.0, 0.0, Unit.parse("user-day"), 60, 3)
    rows = stream_rows(stream_scheme(scheme), known, seed=2)
    assert not [row for row in rows if row.violated]
    assert rows[0].measured > 0


def test_the_first_vector_of_a_holiday_is_believed() -> None:
    """On a known holiday of half the people sums are nearer the truth, and the next day usual."""
    counts = np.full((8 * 6, 30), 40)
    counts[7 * 6 - 6 : 7 * 6] = 20
    known = StreamFacts(30, Calendar.regular(48, 6), 1.0, 0.0, Unit.parse("user-day"), 1_200, 6)
    told = replace(known, calendar=replace(known.calendar, holidays=frozenset({6})))
    scheme = stream_scheme("comb")
    errors = [
        np.mean([
            np.abs(run_scheme(scheme, facts, counts, seed).values[36:42].sum(axis=1) / 600 - 1)
            for seed in range(3)
        ])
        for facts in (known, told)
    ]  # fmt: skip
    assert errors[1] <= errors[0] + 0.01
