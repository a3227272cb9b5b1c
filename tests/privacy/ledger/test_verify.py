"""`verify` against published manifests: finds rows cut off even where nothing was noted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.published import hostile

from sfumato.errors import UsageError, is_printable
from sfumato.privacy.ledger import Claim, Ledger, Reservation
from sfumato.privacy.ledger.views import verify
from sfumato.privacy.transaction import digests
from sfumato.published.manifest import MANIFEST_NAME, manifest_text

pytestmark = pytest.mark.privacy

Claims = Callable[..., Claim]


@pytest.fixture
def shelf(ledger: Ledger, claim: Claims, tmp_path: Path, manifest_of: Callable[..., Any]) -> Path:
    """Two published releases: rows 4 and 5, 6 and 7."""
    for week in range(2):
        reservation = ledger.reserve(claim(f"week-{week}", week=week))
        assert isinstance(reservation, Reservation)
        folder = tmp_path / "shelf" / f"week-{week}"
        folder.mkdir(parents=True)
        (folder / "density.csv").write_text(f"{week}")
        text_ = manifest_text(manifest_of(reservation, digests(folder)))
        (folder / MANIFEST_NAME).write_text(text_)
        ledger.commit(reservation.id, digests(folder))
    return tmp_path / "shelf"


def cut(ledger: Ledger, first: int) -> None:
    """Remove the last rows, and forget what this machine had noted."""
    guard = (
        "DROP TRIGGER sfumato_no_DELETE"
        if ledger.database.file is not None
        else "DROP TRIGGER sfumato_append_only ON sfumato_entries"
    )
    with ledger.database.writing() as connection:
        connection.execute(text(guard))
        connection.execute(text(f"DELETE FROM sfumato_entries WHERE seq >= {first}"))
    ledger.keyring.path.with_suffix(".head").unlink()


def test_an_untouched_ledger_and_its_releases_are_sound(ledger: Ledger, shelf: Path) -> None:
    report = verify(ledger, shelf)
    assert (report.sound, report.rows, report.manifests) == (True, 7, 2)


def test_a_cut_off_reservation_is_found_by_its_manifest_alone(ledger: Ledger, shelf: Path) -> None:
    cut(ledger, 6)
    (note,) = verify(ledger).findings
    assert "no note of its head" in note
    _, finding = verify(ledger, shelf).findings
    assert "week-1" in finding
    assert "row 6 does not reserve" in finding


def test_a_cut_off_commit_is_found(ledger: Ledger, shelf: Path) -> None:
    cut(ledger, 7)
    _, finding = verify(ledger, shelf).findings
    assert "no row that commits it" in finding


def test_published_files_that_were_changed_are_found(ledger: Ledger, shelf: Path) -> None:
    (shelf / "week-0" / "density.csv").write_text("prettier")
    (finding,) = verify(ledger, shelf).findings
    assert finding.endswith("changed since it was published: density.csv")


def test_an_edited_manifest_is_found(ledger: Ledger, shelf: Path) -> None:
    path = shelf / "week-0" / MANIFEST_NAME
    path.write_text(path.read_text().replace('"epsilon": 0.3', '"epsilon": 0.1'))
    (finding,) = verify(ledger, shelf).findings
    assert finding.endswith(MANIFEST_NAME)
    path.write_text("{}")
    (finding,) = verify(ledger, shelf).findings
    assert "not a manifest" in finding


def test_a_manifest_of_another_ledger_is_noted(ledger: Ledger, shelf: Path) -> None:
    path = shelf / "week-0" / MANIFEST_NAME
    path.write_text(path.read_text().replace(ledger.book().ledger_id, "elsewhere"))
    report = verify(ledger, shelf)
    assert report.sound
    assert any("another ledger" in note for note in report.notes)


def test_an_unfinished_release_is_noted(ledger: Ledger, claim: Claims) -> None:
    ledger.reserve(claim("open"))
    report = verify(ledger)
    assert report.sound
    assert any("'open'" in note for note in report.notes)


def test_a_folder_must_be_there(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        verify(ledger, tmp_path / "nowhere")


@pytest.mark.parametrize("kind", hostile.KINDS)
def test_what_is_no_file_is_not_read(ledger: Ledger, shelf: Path, kind: str) -> None:
    """Neither as a manifest, where a device has no end and a pipe waits, nor for its digest."""
    odd = shelf / "odd" / MANIFEST_NAME
    odd.parent.mkdir()
    hostile.KINDS[kind](odd)
    (finding,) = verify(ledger, shelf).findings
    assert "not a manifest" in finding
    assert kind == "a terabyte" or digests(odd.parent) == {}


def test_no_folder_and_no_manifest_commands_a_terminal(ledger: Ledger, shelf: Path) -> None:
    """Of findings and of notes, of publications with noise and by rules."""
    stated = json.loads((shelf / "week-0" / MANIFEST_NAME).read_text())
    stated["ledger"]["id"] = hostile.EVIL.rstrip("\ud800")
    by_rules: dict[str, Any] = {"privacy": {"differential_privacy": False}, "dataset": "people"}
    by_rules["ledger"] = {"id": hostile.EVIL, "row": 1}
    for name, words in (("a", stated), ("b", by_rules), ("c", [])):
        folder = shelf / f"{name}\x1b[2J\u202e"
        folder.mkdir()
        (folder / MANIFEST_NAME).write_text(json.dumps(words))
    report = verify(ledger, shelf)
    assert (len(report.findings), len(report.notes)) == (1, 2)
    assert all(map(is_printable, (*report.findings, *report.notes)))
