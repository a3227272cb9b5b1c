"""No row of a table stops the reading or changes how another is read: poison beside good rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

import psycopg
import pytest
import shapely

from sfumato.engine.local import LocalSource
from sfumato.errors import InputError
from sfumato.io.events import read_events, resolved, rows_of
from sfumato.io.values import BAD, FAR, validity
from sfumato.model.events import Events
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

pytestmark = [pytest.mark.postgres, pytest.mark.privacy]
GRID = TimeGrid.between(date(2024, 3, 30), date(2024, 4, 1), "1h", "Europe/Paris")
TOWERS = Places.of(PlaceKind.TOWERS, ["t1", "t2"], [shapely.Point(2, 48), shapely.Point(3, 48)])


def read_rows(events: Events, zones: bool = False) -> Counter[tuple[Any, ...]]:
    """(user, microsecond, place) of every row that has all three and a time in the period."""
    found: Counter[tuple[Any, ...]] = Counter()
    first, last = GRID.period
    for part in rows_of(resolved(events, zones), period=GRID.period):
        there = validity(part.user)
        where: Any = part.place.to_pylist() if part.lon is None else part.lon.tolist()
        for k, (who, when, place) in enumerate(
            zip(part.user.to_pylist(), part.time.tolist(), where, strict=True)
        ):
            told = part.time_valid[k] if part.time_valid.size else True
            assert who is None or there.size == 0 or there[k]
            if who is None or place is None or not told or not first <= when < last:
                continue
            assert when not in (BAD, FAR)
            found[(who, when, place)] += 1
    return found


TYPES: dict[str, tuple[str, str, str, str | None, list[str]]] = {
    # columns; good rows; unit; rows of one person
    "instants": (
        "uid text, t timestamptz, tower text",
        "('anna', '2024-03-30 12:00+00', 't1'), ('bo', '2024-03-31 12:00+00', 't2')",
        "",
        None,
        [
            "('u', 'infinity', 't1')",
            "('u', '-infinity', 't1')",
            "('u', '294276-12-31 23:59:59.999999+00', 't1')",
            "('u', '4713-01-01 00:00:00+00 BC', 't1')",
            "('u', NULL, 't1')",
            "(NULL, '2024-03-30 12:00+00', 't1')",
            "('u', '2024-03-30 12:00+00', NULL)",
            "(repeat('u', 1 << 21), '2024-03-30 12:00+00', 't1')",
            "('u', '2024-03-30 12:00+00', repeat('t', 1 << 21))",
            "('', '2024-03-30 12:00+00', '')",
            "(E'\\\\x01\"\\n,', '2024-03-30 12:00+00', E'\\\\000')",
        ],
    ),
    "clocks": (
        "uid varchar, t timestamp, tower char(4)",
        "('anna', '2024-03-30 12:00', 't1'), ('bo', '2024-03-31 12:00', 't2')",
        "Europe/Paris",
        None,
        [
            "('u', 'infinity', 't1')",
            "('u', '-infinity', 't1')",
            "('u', '294276-12-31 23:59:59.999999', 't1')",
            "('u', '4713-01-01 00:00:00 BC', 't1')",
        ],
    ),
    "whole numerics": (
        "uid numeric(12), t numeric(18), tower text",
        "(1, 1711800000, 't1'), (2, 1711886400, 't2')",
        "",
        "s",
        [
            "('NaN', 1711800000, 't1')",
            "(3, 'NaN', 't1')",
            "(3, 999999999999999999, 't1')",
            "(3, -999999999999999999, 't1')",
            "(999999999999, NULL, 't1')",
        ],
    ),
    "numerics of any length": (
        "uid bigint, t numeric, tower text",
        "(1, 1711800000, 't1'), (2, 1711886400.123456789012345, 't2')",
        "",
        "s",
        [
            "(3, 'NaN', 't1')",
            "(3, NULL, 't1')",
            "(3, 1e400, 't1')",
            "(3, -1e400, 't1')",
            "(3, 1e-400, 't1')",
            "(3, 99999999999999999999.5, 't1')",
        ],
    ),
    "integers": (
        "uid bigint, t bigint, tower integer",
        "(1, 1711800000, 1), (2, 1711886400, 2)",
        "",
        "s",
        [
            "(3, 9223372036854775807, 1)",
            "(3, -9223372036854775808, 1)",
            "(-9223372036854775808, 1711800000, 2147483647)",
        ],
    ),
    "doubles": (
        "uid double precision, t double precision, tower double precision",
        "(1, 1711800000.25, 1), (2, 1711886400, 2)",
        "",
        "s",
        [
            "('NaN', 1711800000, 1)",
            "('infinity', 1711800000, 1)",
            "(3, 'NaN', 1)",
            "(3, 'infinity', 1)",
            "(3, '-infinity', 1)",
            "(3, 1e308, 1)",
            "(3, -1e308, 1)",
            "(3, 5e-324, 1)",
            "(1.5, 1711800000, 'NaN')",
            "(1e300, 1711800000, 1e300)",
        ],
    ),
    "texts": (
        "uid text, t text, tower text",
        "('anna', '2024-03-30T12:00:00Z', 't1'), ('bo', '2024-03-31 12:00', 't2')",
        "Europe/Paris",
        None,
        [
            "('u', '1711800000', 't1')",
            "('u', '', 't1')",
            "('u', 'yesterday', 't1')",
            "('u', '2024-02-30T12:00:00Z', 't1')",
            "('u', repeat('9', 1 << 21), 't1')",
        ],
    ),
    "bytes": (
        "uid bytea, t timestamptz, tower text",
        "('\\x00ff', '2024-03-30 12:00+00', 't1'), ('\\x01', '2024-03-31 12:00+00', 't2')",
        "",
        None,
        ["(decode(repeat('00', 1 << 21), 'hex'), '2024-03-30 12:00+00', 't1')", "('', NULL, 't1')"],
    ),
}
ZONES = (
    "uid int, t timestamptz, lon numeric, lat numeric",
    "(1, '2024-03-30 12:00+00', 2.005, 48.0), (2, '2024-03-31 12:00+00', 2.006, 48.0)",
    [
        "(3, '2024-03-30 12:00+00', 'NaN', 48)",
        "(3, '2024-03-30 12:00+00', 1e400, 48)",
        "(3, '2024-03-30 12:00+00', -1e130000, 48)",
        "(3, '2024-03-30 12:00+00', 2, 1e-16000)",
        "(3, '2024-03-30 12:00+00', 'infinity', '-infinity')",
        "(3, '2024-03-30 12:00+00', NULL, 48)",
    ],
)


def rows_with(bureau: Any, columns: str, *inserted: str, **how: Any) -> Counter[tuple[Any, ...]]:
    zones = how.pop("zones", False)
    bureau.run("DROP TABLE IF EXISTS events.d", f"CREATE TABLE events.d ({columns})")
    bureau.run(*(f"INSERT INTO events.d VALUES {rows}" for rows in inserted if rows))
    found = read_events(bureau.address("events.d"), **how)
    try:
        return read_rows(found, zones)
    finally:
        found.close()


@pytest.mark.parametrize("kind", TYPES)
def test_a_persons_odd_values_leave_all_other_rows_as_they_are(bureau: Any, kind: str) -> None:
    """D and D + u, u in front and behind, filtered by the server and not."""
    columns, good, tz, unit, poison = TYPES[kind]
    how: dict[str, Any] = {"tz": tz or None, "time_unit": unit}
    alone = rows_with(bureau, columns, good, **how)
    assert sum(alone.values()) == 2
    each = ", ".join(poison)
    for inserted in ((each, good), (good, each)):
        for period in (None, GRID.period):
            found = rows_with(bureau, columns, *inserted, period=period, **how)
            assert alone <= found
            others = {row[0] for row in (found - alone)}
            assert not others & {row[0] for row in alone}


def test_the_server_keeps_what_the_rules_here_would_keep(bureau: Any) -> None:
    for columns, good, tz, unit, poison in TYPES.values():
        how: dict[str, Any] = {"tz": tz or None, "time_unit": unit}
        both = [
            rows_with(bureau, columns, good, ", ".join(poison), period=period, **how)
            for period in (None, GRID.period)
        ]
        assert both[0] == both[1]


def test_coordinates_beyond_every_double_cost_their_row(bureau: Any) -> None:
    columns, good, poison = ZONES
    alone = rows_with(bureau, columns, good, zones=True)
    found = rows_with(bureau, columns, ", ".join(poison), good, zones=True, period=GRID.period)
    assert sum(alone.values()) == 2
    assert alone <= found
    assert {row[0] for row in found - alone} <= {3}


@contextmanager
def database(bureau: Any, encoding: str) -> Iterator[str]:
    """Another database, of another encoding, with the clerk's table `calls`."""
    name = f"old_{encoding.lower()}"
    owner = bureau.owner.replace(bureau.name, name) + "&client_encoding=UTF8"
    bureau.run(
        f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 "
        "LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    try:
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute("SET client_encoding = 'SQL_ASCII'")
            connection.execute("CREATE TABLE calls (uid text, t timestamptz, tower varchar(9))")
            connection.execute("GRANT SELECT ON calls TO clerk_of_bureau")
            yield owner
    finally:
        bureau.run(f"DROP DATABASE {name}")


def insert(owner: str, *users: bytes) -> None:
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("SET client_encoding = 'SQL_ASCII'")
        for user in users:
            connection.execute(
                b"INSERT INTO calls VALUES ('" + user + b"', '2024-03-30 12:00+00', 't1')"
            )


@pytest.mark.parametrize(
    ("encoding", "good", "poison"),
    [
        ("LATIN1", b"andr\xe9", b"\x80\xff"),
        ("WIN1252", b"andr\xe9", b"u\x81"),
        ("SQL_ASCII", "andr\u00e9".encode(), b"u\xff\xc3"),
        ("EUC_JP", "\u6771\u4eac".encode("euc_jp"), b"u"),
    ],
)
def test_letters_of_another_encoding_are_the_same_letters_row_by_row(
    bureau: Any, encoding: str, good: bytes, poison: bytes
) -> None:
    """One value that has no letters in UTF-8 is one value; the server would have stopped."""
    with database(bureau, encoding) as owner:
        name = f"old_{encoding.lower()}"
        insert(owner, good)
        found = read_events(bureau.address("calls", name=name), period=GRID.period)
        alone = read_rows(found)
        found.close()
        text = "\u6771\u4eac" if encoding == "EUC_JP" else "andr\u00e9"
        assert [row[0] for row in alone] == [text.encode()]
        insert(owner, poison)
        found = read_events(bureau.address("calls", name=name), period=GRID.period)
        assert alone <= read_rows(found)
        assert LocalSource(found, TOWERS, GRID).drops.kept in (1, 2)
        found.close()


def test_a_damaged_text_of_a_utf8_database_costs_its_row(bureau: Any) -> None:
    """Half a letter, as an old server or a faulty extension leaves it behind."""
    with database(bureau, "SQL_ASCII") as owner:
        insert(owner, b"anna", b"u\xc3", b"bo")
        bureau.run(
            "UPDATE pg_database SET encoding = pg_char_to_encoding('UTF8') "
            "WHERE datname = 'old_sql_ascii'"
        )
        found = read_events(bureau.address("calls", name="old_sql_ascii"), period=GRID.period)
        assert sorted(row[0] for row in read_rows(found)) == [b"anna", b"bo"]
        found.close()


def test_names_of_columns_keep_their_letters_in_another_encoding(bureau: Any) -> None:
    with database(bureau, "LATIN1") as owner:
        insert(owner, b"anna")
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute('ALTER TABLE calls RENAME uid TO "numéro"')
        found = read_events(bureau.address("calls", name="old_latin1"), columns={"user": "numéro"})
        assert [row[0] for row in read_rows(found)] == [b"anna"]
        found.close()


def test_an_encoding_that_is_not_read_is_refused_from_the_schema(bureau: Any) -> None:
    with database(bureau, "EUC_TW"), pytest.raises(InputError, match="encoding EUC_TW"):
        read_events(bureau.address("calls", name="old_euc_tw"))
