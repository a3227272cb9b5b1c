"""Whoever can write the database but has no key cannot change the record unseen."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from sfumato.errors import LedgerBroken, LedgerError
from sfumato.privacy.ledger import Cap, Claim, Ledger
from sfumato.privacy.ledger.chain import ORIGIN, Head, first_break, is_prefix, seal
from sfumato.privacy.ledger.views import verify

pytestmark = pytest.mark.privacy

Claims = Callable[..., Claim]


def tamper(ledger: Ledger, *statements: str) -> None:
    """Change rows as an intruder would: take the guards away first."""
    guards = (
        ["DROP TRIGGER sfumato_no_UPDATE", "DROP TRIGGER sfumato_no_DELETE"]
        if ledger.database.file is not None
        else ["DROP TRIGGER sfumato_append_only ON sfumato_entries"]
    )
    with ledger.database.writing() as connection:
        for statement in (*guards, *statements):
            connection.execute(text(statement))


@pytest.fixture
def used(ledger: Ledger, claim: Claims) -> Ledger:
    """Three releases: rows 4 to 8 are reserve, commit, reserve, commit, reserve."""
    for week in range(3):
        reservation = ledger.reserve(claim(f"week-{week}", week=week))
        assert not hasattr(reservation, "status")
        if week < 2:
            ledger.commit(reservation.id, {})
    return ledger


ATTACKS = {
    "edited payload": (
        "UPDATE sfumato_entries SET payload = replace(payload, '\"rho\":', '\"rh0\":') "
        "WHERE seq = 3",
    ),
    "edited time": ("UPDATE sfumato_entries SET time = '1999-01-01' WHERE seq = 5",),
    "edited kind": ("UPDATE sfumato_entries SET kind = 'abandon' WHERE seq = 5",),
    "removed in the middle": ("DELETE FROM sfumato_entries WHERE seq = 6",),
    "removed and renumbered": (
        "DELETE FROM sfumato_entries WHERE seq = 5",
        "UPDATE sfumato_entries SET seq = seq - 1 WHERE seq = 6",
        "UPDATE sfumato_entries SET seq = seq - 1 WHERE seq = 7",
        "UPDATE sfumato_entries SET seq = seq - 1 WHERE seq = 8",
    ),
    "reordered": (
        "UPDATE sfumato_entries SET seq = 100 WHERE seq = 5",
        "UPDATE sfumato_entries SET seq = 5 WHERE seq = 6",
        "UPDATE sfumato_entries SET seq = 6 WHERE seq = 100",
    ),
    "cut off at the end": ("DELETE FROM sfumato_entries WHERE seq = 8",),
    "cut off at the start": ("DELETE FROM sfumato_entries WHERE seq = 1",),
    "emptied": ("DELETE FROM sfumato_entries",),
    "last row repeated": (
        "INSERT INTO sfumato_entries SELECT 9, kind, time, payload, previous, hash "
        "FROM sfumato_entries WHERE seq = 8",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_is_found_and_stops_all_work(used: Ledger, claim: Claims, attack: str) -> None:
    assert verify(used).sound
    tamper(used, *ATTACKS[attack])
    assert not verify(used).sound
    with pytest.raises(LedgerBroken, match="does not hold together"):
        used.reserve(claim("week-3", week=3, rho=2**-12))
    with pytest.raises(LedgerBroken):
        used.book()


def test_rows_cannot_be_changed_by_accident(used: Ledger) -> None:
    for statement in ("UPDATE sfumato_entries SET kind = 'x'", "DELETE FROM sfumato_entries"):
        with (
            pytest.raises(LedgerError, match="rows cannot be changed"),
            used.database.writing() as connection,
        ):
            connection.execute(text(statement))
    assert verify(used).sound


def test_a_forger_without_the_key_is_found(used: Ledger) -> None:
    """A well-formed row that raises the cap, sealed with a guessed key."""
    last = used.entries()[-1]
    payload = json.dumps({"dataset": "city", "unit": "user-period", "cap": Cap(rho=9).to_json()})
    forged = seal(b"\1" * 32, last.seq + 1, "cap", last.time, payload, last.hash)
    with used.database.writing() as connection:
        connection.execute(
            text("INSERT INTO sfumato_entries VALUES (:seq, :kind, :time, :payload, :prev, :hash)"),
            {
                "seq": forged.seq,
                "kind": forged.kind,
                "time": forged.time,
                "payload": forged.payload,
                "prev": forged.previous,
                "hash": forged.hash,
            },
        )
    (finding,) = verify(used).findings
    assert "row 9 was edited, or sealed with another key" in finding


@pytest.mark.parametrize("field", ["kind", "time", "payload", "previous", "hash"])
@pytest.mark.parametrize("value", ["x'ff'", "7", "'\u00e9'"])
def test_a_row_of_other_types_is_one_that_was_edited(used: Ledger, field: str, value: str) -> None:
    if used.database.file is None:
        pytest.skip("a column of PostgreSQL holds its type alone")
    tamper(used, f"UPDATE sfumato_entries SET {field} = {value} WHERE seq = 3")
    with pytest.raises(LedgerBroken, match="row 3"):
        Ledger(used.database.file, used.keyring.path).entries()


@pytest.mark.parametrize(
    "note",
    ["", "[]", "null", '{"length": null, "hash": ""}', '{"length": 1e400, "hash": ""}', "[" * 9999],
)
def test_a_note_of_the_head_that_is_none_is_refused(used: Ledger, note: str) -> None:
    used.keyring.path.with_suffix(".head").write_text(note)
    with pytest.raises(LedgerError, match="cannot be read"):
        used.book()


def test_a_ledger_that_was_deleted_is_not_begun_anew(used: Ledger) -> None:
    """Otherwise removing the database would give everybody a fresh budget."""
    tables = ("sfumato_entries", "sfumato_ledger")
    if used.database.file is not None:
        for path in used.database.file.parent.glob("*.sqlite*"):
            path.unlink()
    else:
        with used.database.writing() as connection:
            for table in tables:
                connection.execute(text(f"DROP TABLE {table} CASCADE"))
    with pytest.raises(LedgerBroken, match="had 8 rows"):
        used.initialise()


def test_a_view_in_the_place_of_the_rows_is_no_ledger(tmp_path: Path) -> None:
    """It may have no end, and would be read to it."""
    path = tmp_path / "endless.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE VIEW sfumato_entries AS WITH RECURSIVE n(seq) AS "
            "(SELECT 1 UNION ALL SELECT seq + 1 FROM n) SELECT seq FROM n"
        )
    with pytest.raises(LedgerError):
        Ledger(path).book()


def test_another_key_opens_nothing(used: Ledger) -> None:
    used.keyring.path.write_text("ab" * 32)
    with pytest.raises(LedgerBroken, match="another key"):
        used.book()


def test_a_chain_of_sealed_rows_is_whole_and_knows_its_prefixes() -> None:
    key, entries = b"k" * 32, []
    for seq in range(1, 5):
        previous = entries[-1].hash if entries else ORIGIN
        entries.append(seal(key, seq, "cap", "now", "{}", previous))
    assert first_break(key, entries) is None
    assert is_prefix(entries[1].head, entries)
    assert not is_prefix(entries[3].head, entries[:3])
    assert not is_prefix(Head(2, "0" * 64), entries)
    assert not is_prefix(Head(0, ORIGIN), entries)


def test_a_row_of_a_copy_that_went_another_way_does_not_belong() -> None:
    """Both rows are sealed with the right key and stand in the right place."""
    key, here, there = bytes(range(32)), [], []
    for rows, spent in ((here, "much"), (there, "little")):
        for seq in (1, 2, 3):
            said = spent if seq == 2 else "same"
            before = rows[-1].hash if rows else ORIGIN
            rows.append(seal(key, seq, "reserve", "2024-01-01", said, before))
    assert first_break(key, here) is None
    assert first_break(key, there) is None
    assert "row 3 does not follow" in str(first_break(key, [here[0], there[1], here[2]]))


def test_the_note_of_the_head_never_goes_back(used: Ledger) -> None:
    """Two processes may note in another order than they appended."""
    entries = used.entries()
    used.keyring.note(entries[2].head)
    assert used.keyring.noted() == entries[-1].head
