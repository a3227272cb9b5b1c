"""Ledgers of the first version: opened, migrated on the first change, counted by today's rule."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, text

from sfumato.errors import BudgetRefused, LedgerError, UsageError
from sfumato.privacy.events import PureEvent, Unit
from sfumato.privacy.ledger import Cap, Claim, Ledger, Reservation, Status, database
from sfumato.privacy.ledger.views import show, verify

BOOKS = Path(__file__).parents[2] / "fixtures" / "v1" / "books"
PARIS = Unit.parse("user-day@Europe/Paris")
DAY = 86_400_000_000
START = 1_709_506_800_000_000

pytestmark = pytest.mark.privacy


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    """The ledger of commit 4627417, as a file and with its rows in a PostgreSQL database."""
    shutil.copytree(BOOKS, tmp_path / "books")
    for path in (tmp_path / "books").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    file = tmp_path / "books" / "ledger.sqlite"
    if request.param == "sqlite":
        return Ledger(file)
    ledger = Ledger(request.getfixturevalue("new_postgres")(), key=file.with_suffix(".key"))
    with ledger.database.writing() as connection, sqlite3.connect(file) as rows:
        database.create(connection)
        for table in (database.about, database.entries):
            names = list(table.c.keys())
            found = rows.execute(f"SELECT {', '.join(names)} FROM {table.name}").fetchall()
            connection.execute(insert(table), [dict(zip(names, r, strict=True)) for r in found])
    return ledger


def claim(name: str, unit: Unit, epsilon: float, day: int = 0, **more: Any) -> Claim:
    return Claim(
        dataset=more.pop("dataset", "streams"),
        name=name,
        unit=unit,
        delta=1e-6,
        period=(START + day * DAY, START + (day + 1) * DAY),
        events=(("counts", PureEvent(epsilon, "test")),),
        config={},
        fingerprint="f",
        out="/out",
    )


def schema(ledger: Ledger) -> str:
    with ledger.database.reading() as connection:
        rows = connection.execute(select(database.about)).all()
    return {row.name: row.value for row in rows}["schema"]


def test_reading_changes_nothing_and_the_first_change_appends_a_sealed_row(old: Ledger) -> None:
    before = old.entries()
    assert (old.book().schema, schema(old)) == (1, "1")
    old.set_cap("city", Cap(epsilon=5, delta=1e-5))
    after = old.entries()
    assert after[: len(before)] == before
    assert [entry.kind for entry in after[len(before) :]] == ["migrate", "cap"]
    assert (old.book().schema, schema(old)) == (2, "2")
    assert verify(old).sound
    old.set_cap("city", Cap(epsilon=6, delta=1e-5))
    assert [entry.kind for entry in old.entries()].count("migrate") == 1


def test_the_migration_row_holds_the_clocks_and_windows_that_were_left_unsaid(old: Ledger) -> None:
    old.set_cap("city", Cap(epsilon=5, delta=1e-5))
    book = old.book()
    units = {c.claim.name: str(book.unit_of(c)) for c in book.charges.values()}
    assert units["days"] == "user-day@Europe/Paris"
    assert units["windows"] == "w-event:48h/1h"
    assert units["short-windows"] == "w-event:24h/30min"
    assert units["half-window"] == "w-event:24h/4h"
    assert units["first"] == "user-period"
    assert {c.accounting for c in book.charges.values()} == {1}


def test_a_ledger_over_its_cap_opens_says_why_and_admits_nothing_new(old: Ledger) -> None:
    """Its own streams for days and windows were kept apart, and together pass the cap."""
    (streams,) = [d for d in show(old.book())["datasets"] if d["dataset"] == "streams"]
    days = next(unit for unit in streams["units"] if unit["unit"] == "user-day")
    assert days["over_cap"]
    assert days["lifetime"]["epsilon"] > 4
    with pytest.raises(BudgetRefused, match="streams") as refused:
        old.reserve(claim("new", PARIS, 0.001))
    assert "What is reserved can be finished" in str(refused.value.remedy)
    old.set_cap("streams", Cap(epsilon=40, delta=1e-6), Unit.parse("user-day"))
    old.set_cap("streams", Cap(epsilon=60, delta=1e-6), Unit.parse("w-event:48"))
    old.set_cap("streams", Cap(epsilon=60, delta=1e-6), Unit.parse("w-event:6"))
    found = old.reserve(claim("new", PARIS, 0.001))
    assert isinstance(found, Reservation)
    assert found.charge_row.accounting == 2


def test_what_was_reserved_is_finished_although_the_cap_is_passed(old: Ledger) -> None:
    (row,) = [c for c in old.book().charges.values() if c.claim.name == "half-day"]
    found = old.reserve(row.claim)
    assert isinstance(found, Reservation)
    assert found.resumed
    # By its own rule: at that row two charges named user-day, of epsilon 1 each.
    assert found.standing.lifetime.epsilon == 2
    old.commit(found.id, {})
    assert old.book().charges[found.id].status is Status.COMMITTED


def test_the_version_of_the_package_does_not_keep_a_run_from_going_on(old: Ledger) -> None:
    (row,) = [c for c in old.book().charges.values() if c.claim.name == "reserved"]
    newer = Claim.from_json(row.claim.to_json())
    newer.config["sfumato"] = "99.1"
    assert isinstance(old.reserve(newer), Reservation)
    newer.config["epsilon"] = 0.4
    with pytest.raises(LedgerError, match="changed: epsilon"):
        old.reserve(newer)


def test_a_program_that_is_older_than_the_ledger_says_so(old: Ledger) -> None:
    with old.database.writing() as connection:
        connection.execute(text("UPDATE sfumato_ledger SET value = '3' WHERE name = 'schema'"))
    with pytest.raises(LedgerError, match="schema version 3"):
        old.book()


def forget(ledger: Ledger) -> None:
    ledger.keyring.path.with_suffix(".head").unlink()


def test_a_ledger_whose_head_was_deleted_is_broken(old: Ledger) -> None:
    """Otherwise an older copy of it would be accepted, and its cap spent again."""
    forget(old)
    with pytest.raises(LedgerError, match="no note"):
        old.book()
    with pytest.raises(LedgerError, match="no note"):
        old.reserve(claim("new", PARIS, 0.001))
    assert not verify(old).sound


def test_trust_introduces_a_machine_on_the_record(old: Ledger) -> None:
    rows = len(old.entries())
    forget(old)
    assert old.trust().length in (rows, rows + 1)  # the migration may come first
    assert verify(old).sound
    assert old.entries()[-1].kind == "trust"
    with pytest.raises(UsageError, match="knows this ledger already"):
        old.trust()


def test_trust_does_not_accept_what_was_cut_off_below_the_note(old: Ledger) -> None:
    last = len(old.entries())
    drop = {
        True: "DROP TRIGGER sfumato_no_DELETE",
        False: "DROP TRIGGER sfumato_append_only ON sfumato_entries",
    }[old.database.file is not None]
    with old.database.writing() as connection:
        connection.execute(text(drop))
        connection.execute(text(f"DELETE FROM sfumato_entries WHERE seq = {last}"))
    with pytest.raises(UsageError, match="knows this ledger already"):
        old.trust()


def test_a_ledger_with_only_its_first_row_may_lack_a_head(
    location_of_new: Callable[[], Ledger],
) -> None:
    fresh = location_of_new()
    fresh.initialise()
    forget(fresh)
    fresh.add_dataset("city", Cap(rho=1.0))
    assert len(fresh.entries()) == 3


@pytest.fixture
def location_of_new(tmp_path: Path) -> Callable[[], Ledger]:
    return lambda: Ledger(tmp_path / "new" / "ledger.sqlite")
