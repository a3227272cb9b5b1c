"""An address says where the tables are, and shows nothing of the connection."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.engine.open import engine_of
from sfumato.errors import UsageError
from sfumato.io.files import is_address, locate
from sfumato.io.postgres.connect import Address, Table, parse_address
from sfumato.io.towers import read_towers


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("postgresql://me:pw@host:5432/db/events.calls", [Table("calls", "events")]),
        ("postgres://host/db/calls", [Table("calls")]),
        ("postgresql:///db/events.calls", [Table("calls", "events")]),
        ("postgresql://a,b:5433/db/x.y,x.z?sslmode=require", [Table("y", "x"), Table("z", "x")]),
        ("postgresql://host/db?table=events.calls", [Table("calls", "events")]),
        ("postgresql://host/db?table=events.calls%2Cevents.sms&sslmode=require", None),
        ("postgresql://host/db/Events.My%20Calls%2E2024", [Table("My Calls.2024", "Events")]),
    ],
)
def test_forms_of_an_address(text: str, tables: list[Table] | None) -> None:
    wanted = tables or [Table("calls", "events"), Table("sms", "events")]
    found = parse_address(text)
    assert list(found.tables) == wanted
    assert "table" not in found.connection
    assert found.connection.startswith("postgresql://")


def test_what_libpq_is_given() -> None:
    found = parse_address("postgresql://me:p%40w@h1,h2:5433/db/a.b?sslmode=verify-full")
    assert found.connection.startswith("postgresql://me:p%40w@h1,h2:5433/db?")
    assert "sslmode=verify-full" in found.connection
    assert "connect_timeout=15" in found.connection
    own = parse_address("postgresql://h/db/a.b?connect_timeout=3").connection
    assert "connect_timeout=3" in own
    assert "connect_timeout=15" not in own
    plus = parse_address("postgresql://h/db/a.b?password=p+w%2B&sslkey=").connection
    assert "password=p%2Bw%2B&sslkey=" in plus  # to libpq a plus is a plus


@settings(derandomize=True, max_examples=60)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_names_are_taken_as_they_are_and_quoted(name: str) -> None:
    assert Table(name, "s").sql == '"s"."' + name.replace('"', '""') + '"'


def test_nothing_of_the_connection_is_shown() -> None:
    found = parse_address("postgresql://me:secret@host/db/a.b")
    assert repr(found) == "Address(tables=(Table(name='b', schema='a'),))"
    assert found.label == "a.b"
    assert isinstance(found, Address)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:secret@host/db",
        "postgresql://me:secret@host/db/",
        "postgresql://me:secret@host/db/a.b.c",
        "postgresql://me:secret@host/db/a.",
        "postgresql://me:secret@host/db/a.b?table=c",
        "postgresql://me:secret@host/db/a.b#c",
        "postgresql://me:secret@[host/db/a.b",
        "postgresql:/me:secret@host/db/a.b",
        "postgresql://me:pass/with/secret@host/db/a.b",
        "postgresql://me:pass/secret@host/db?table=a.b",
        "host=h user=me password=secret dbname=db",
    ],
)
def test_an_address_that_cannot_be_read_is_not_repeated(text: str) -> None:
    assert is_address(text)
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    assert caught.value.__context__ is None
    assert "secret" not in str(caught.value)
    assert "me" not in str(caught.value).split()
    assert "schema.table" in caught.value.remedy


@pytest.mark.parametrize(
    "mangled",
    [
        *("postgresql://me:secret@host/db", "postgresql:/me:secret@h/d"),
        *("postgresql+psycopg://me:secret@h/d", "jdbc:postgresql://h/d?user=me&password=secret"),
    ],
)
def test_an_address_where_a_file_is_wanted_is_not_repeated(mangled: str) -> None:
    for read in (locate, read_towers):
        with pytest.raises(UsageError) as caught:
            read(mangled)
        assert "secret" not in str(caught.value)


def test_files_are_not_addresses() -> None:
    assert not is_address("events.parquet")
    assert not is_address("/data/postgresql/x.csv")
    assert not is_address(["postgresql://h/d/t"])
    assert not is_address("events/host=a/user=b/x.parquet")


def test_spark_is_not_given_an_address() -> None:
    """Its errors would repeat it."""
    with pytest.raises(UsageError, match="on this machine") as caught:
        engine_of("postgresql://me:secret@host/db/a.b", "spark", None, None)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["postgresql://me:secret@host/db/a.b", "sc://h/;token=secret", "password=secret x"]
)
def test_the_command_does_not_repeat_an_address_that_it_cannot_place(address: str) -> None:
    needed = {"--out": "x", "--dataset": "d", "--epsilon": "1", "--delta": "1e-7", "--tz": "UTC"}
    needed |= {"--from": "2024-01-01", "--to": "2024-01-02"}
    flags = [text for pair in needed.items() for text in pair]
    told = CliRunner().invoke(app, ["release", "events.csv", address, *flags])
    assert told.exit_code == 2
    assert "unexpected extra argument" in told.output
    assert "secret" not in told.output
