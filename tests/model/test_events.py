"""What a description of events refuses, from its schema alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.errors import UsageError
from sfumato.model.events import (
    EventColumns,
    EventFile,
    Events,
    EventTable,
    Reading,
    TimeEncoding,
    UserEncoding,
)

COLUMNS = EventColumns("user", "time", "bs")


def test_naive_times_need_a_zone() -> None:
    with pytest.raises(UsageError, match="events_tz"):
        Reading(COLUMNS, TimeEncoding.NAIVE, UserEncoding.TEXT)
    assert Reading(COLUMNS, TimeEncoding.NAIVE, UserEncoding.TEXT, "UTC").tz == "UTC"


def test_a_place_or_both_coordinates() -> None:
    with pytest.raises(UsageError, match="neither"):
        EventColumns("user", "time")
    with pytest.raises(UsageError, match="both"):
        EventColumns("user", "time", lon="lon")
    assert EventColumns("user", "time", lon="x", lat="y").place is None


def test_names_or_coordinates_follow_from_the_schema_and_the_options() -> None:
    def columns(*chosen: str, place: str | None = "bs", lon: str | None = "x") -> EventColumns:
        lat = None if lon is None else "y"
        return EventColumns("user", "time", place, lon, lat, chosen=frozenset(chosen))

    assert columns(place=None).by_coordinates(zones=True)
    assert not columns(lon=None).by_coordinates(zones=True)
    assert not columns().by_coordinates(zones=False)
    assert not columns("place").by_coordinates(zones=True)
    assert columns("lon", "lat").by_coordinates(zones=True)
    for open_question in ((), ("place", "lon", "lat")):
        with pytest.raises(UsageError, match="not said") as caught:
            columns(*open_question).by_coordinates(zones=True)
        assert "`column={'place': 'bs'}`" in str(caught.value.remedy)
    with pytest.raises(UsageError, match="no tower"):
        columns(place=None).by_coordinates(zones=False)


def test_ids_are_held_as_text_where_the_parts_differ() -> None:
    def part(user: UserEncoding) -> EventFile:
        reading = Reading(COLUMNS, TimeEncoding.INSTANT, user)
        return EventFile(Path(f"{user}.parquet"), "parquet", reading)

    for user in UserEncoding:
        assert Events((part(user), part(user))).user is user
    both = Events((part(UserEncoding.INTEGER), part(UserEncoding.BINARY)))
    assert both.user is UserEncoding.TEXT
    assert both.names == ("integer.parquet", "binary.parquet")
    assert Events(()).user is UserEncoding.TEXT
    assert Events(()).names == ("events",)


def test_a_description_shows_no_file_that_does_not_fit() -> None:
    """Which files of a folder do not fit may be a fact about a person."""
    events = Events((), unfit=(("people/anna.csv", "empty"),))
    assert "anna" not in repr(events)
    table = Events.of_table(None, COLUMNS, TimeEncoding.INSTANT, UserEncoding.TEXT, label="t")
    assert isinstance(table.parts[0], EventTable)
    assert table.names == ("t",)
