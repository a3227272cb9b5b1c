"""Ledgers of another format: turned row by row where steps lead here, refused where none do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, text

from sfumato.errors import LedgerError, UsageError
from sfumato.model import formats
from sfumato.model.formats import FORMAT
from sfumato.privacy.ledger import Cap, Claim, Ledger, Reservation, Status, database, remembered
from sfumato.privacy.ledger.records import Kind
from sfumato.privacy.ledger.views import verify

Make = Callable[..., Claim]
NEXT = "2"
pytestmark = pytest.mark.privacy


def mark(ledger: Ledger) -> str:
    with ledger.database.reading() as connection:
        rows = connection.execute(select(database.about)).all()
    return {row.name: row.value for row in rows}["format"]


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes the program one of format 2, which reckons the caps of format 1 by the half."""

    def halved(row: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        kind, payload = row
        if kind == Kind.CAP:
            payload = {**payload, "cap": {**payload["cap"], "rho": payload["cap"]["rho"] / 2}}
        return kind, payload

    def upgraded() -> None:
        for module in (formats, remembered):
            monkeypatch.setattr(module, "FORMAT", NEXT)
        monkeypatch.setitem(formats.STEPS, ("ledger", FORMAT), (NEXT, halved))
        remembered.forget()

    return upgraded


def test_reading_changes_nothing_and_the_first_change_appends_a_sealed_row(
    ledger: Ledger, claim: Make, upgrade: Callable[[], None]
) -> None:
    """A release that was reserved before is finished after; nothing is paid twice."""
    begun = ledger.reserve(claim())
    assert isinstance(begun, Reservation)
    rows = ledger.entries()
    upgrade()
    book = ledger.book()
    assert (book.format, mark(ledger)) == (FORMAT, FORMAT)
    assert book.caps["city"]["user-period"] == Cap(rho=2**-8)
    found = ledger.reserve(claim())
    assert isinstance(found, Reservation)
    assert (found.resumed, found.id, found.key) == (True, begun.id, begun.key)
    assert found.standing.lifetime == begun.standing.lifetime
    ledger.commit(found.id, {})
    assert ledger.entries()[: len(rows)] == rows
    assert [entry.kind for entry in ledger.entries()[len(rows) :]] == ["migrate", "commit"]
    assert (ledger.book().format, mark(ledger)) == (NEXT, NEXT)
    assert ledger.book().charges[found.id].status is Status.COMMITTED
    assert verify(ledger).sound


def test_rows_after_the_migration_are_read_as_they_stand(
    ledger: Ledger, upgrade: Callable[[], None]
) -> None:
    upgrade()
    ledger.set_cap("city", Cap(rho=1.0))
    remembered.forget()
    assert ledger.book().caps["city"]["user-period"] == Cap(rho=1.0)
    ledger.set_cap("city", Cap(rho=2.0))
    assert [entry.kind for entry in ledger.entries()].count("migrate") == 1


@pytest.mark.parametrize("other", ["2", "1", "0", "99", ""])
def test_a_ledger_of_another_format_is_refused_with_what_to_do(
    ledger: Ledger, claim: Make, other: str
) -> None:
    """By the fact that stands beside the rows, and by the sealed first row."""
    with ledger.database.writing() as connection:
        connection.execute(
            text("UPDATE sfumato_ledger SET value = :mark WHERE name = 'format'"), {"mark": other}
        )
    remembered.forget()
    words = "version of sfumato reads" if other not in ("0", "") else "development version"
    for use in (ledger.book, ledger.entries, lambda: ledger.reserve(claim())):
        with pytest.raises(LedgerError, match=words) as refused:
            use()
        assert refused.value.exit_code == 1
        assert refused.value.remedy


def test_a_ledger_that_bears_no_mark_is_refused(ledger: Ledger) -> None:
    """As those are that development versions wrote: theirs was called schema."""
    with ledger.database.writing() as connection:
        connection.execute(
            text("UPDATE sfumato_ledger SET name = 'schema', value = '2' WHERE name = 'format'")
        )
    remembered.forget()
    with pytest.raises(LedgerError, match="development version") as refused:
        ledger.book()
    assert "caps lowered by what this one has charged" in str(refused.value.remedy)


def forget(ledger: Ledger) -> None:
    ledger.keyring.path.with_suffix(".head").unlink()


def test_a_ledger_whose_head_was_deleted_is_broken(ledger: Ledger, claim: Make) -> None:
    """Otherwise an older copy of it would be accepted, and its cap spent again."""
    forget(ledger)
    with pytest.raises(LedgerError, match="no note"):
        ledger.book()
    with pytest.raises(LedgerError, match="no note"):
        ledger.reserve(claim())
    assert not verify(ledger).sound


def test_trust_introduces_a_machine_on_the_record(ledger: Ledger) -> None:
    rows = len(ledger.entries())
    forget(ledger)
    assert ledger.trust().length == rows
    assert verify(ledger).sound
    assert ledger.entries()[-1].kind == "trust"
    with pytest.raises(UsageError, match="knows this ledger already"):
        ledger.trust()


def test_trust_does_not_accept_what_was_cut_off_below_the_note(ledger: Ledger) -> None:
    last = len(ledger.entries())
    drop = {
        True: "DROP TRIGGER sfumato_no_DELETE",
        False: "DROP TRIGGER sfumato_append_only ON sfumato_entries",
    }[ledger.database.file is not None]
    with ledger.database.writing() as connection:
        connection.execute(text(drop))
        connection.execute(text(f"DELETE FROM sfumato_entries WHERE seq = {last}"))
    with pytest.raises(UsageError, match="knows this ledger already"):
        ledger.trust()


def test_a_ledger_with_only_its_first_row_may_lack_a_head(empty_ledger: Ledger) -> None:
    forget(empty_ledger)
    empty_ledger.add_dataset("city", Cap(rho=1.0))
    assert len(empty_ledger.entries()) == 3
