"""The small forms of `reconstruction` and `auditor`: everything runs, and what it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato_lab.attacks.queries.games import most_right
from sfumato_lab.studies.queries import auditors, reconstruction
from sfumato_lab.studies.queries.auditors import (
    ANYONE,
    JOHN,
    KNOWN,
    PRIVATE,
    SIMULATABLE,
    THRESHOLD,
    Leak,
    leak_rows,
    refused_rows,
)
from sfumato_lab.studies.queries.ground import made_city
from sfumato_lab.studies.queries.page import Grid, Picture, Section, html_page, markdown_page
from sfumato_lab.studies.queries.reconstruction import Row, breaking_error, reconstruction_rows


@pytest.fixture(scope="module")
def rebuilt() -> list[Row]:
    return reconstruction_rows((16, 64), draws=2, seed=7)


@pytest.fixture(scope="module")
def leaks() -> dict[tuple[str, str], Leak]:
    return {(row.asked, row.auditor): row for row in leak_rows(16, draws=2, seed=3)}


def _share(rows: list[Row], attack: str, **wanted: float) -> float:
    (found,) = [
        row
        for row in rows
        if row.attack == attack and all(getattr(row, k) == v for k, v in wanted.items())
    ]
    return found.share


def test_more_questions_and_less_noise_give_more_bits(rebuilt: list[Row]) -> None:
    for attack in (reconstruction.MINIMAX, reconstruction.LEAST_SQUARES):
        few = _share(rebuilt, attack, by="questions", people=64, questions=16)
        many = _share(rebuilt, attack, by="questions", people=64, questions=512)
        assert few < 0.8 < 0.95 < many
    for attack in (reconstruction.MINIMAX, reconstruction.LEAST_SQUARES, reconstruction.HADAMARD):
        assert _share(rebuilt, attack, by="noise", people=64, roots=0.125) > 0.97
        assert _share(rebuilt, attack, by="noise", people=64, roots=8.0) < 0.8


def test_squared_questions_break_what_is_above_the_root(rebuilt: list[Row]) -> None:
    found = {
        attack: breaking_error([r for r in rebuilt if (r.attack, r.people) == (attack, 64)][-7:])
        for attack in (reconstruction.SQUARED, reconstruction.HADAMARD)
    }
    squared, hadamard = found.values()
    assert squared is not None
    assert hadamard is not None
    assert hadamard < 8 < 2 * 8 < squared


def test_the_desk_stays_below_its_bound(rebuilt: list[Row]) -> None:
    desk = [row for row in rebuilt if row.attack == reconstruction.DESK]
    right, guesses = (sum(getattr(row, name) for row in desk) for name in ("right", "guesses"))
    assert right / guesses < most_right(1.0, 1e-6)
    text = reconstruction.reconstruction_section(rebuilt, picture=False).markdown()
    assert "73.1%" in text


def test_where_the_error_breaks_is_read_between_two_points() -> None:
    line = [Row("noise", "x", 4, 16, error, right, 100) for error, right in ((1, 100), (4, 80))]
    assert breaking_error(line) == pytest.approx(2.0)
    assert breaking_error(line[:1]) is None


def test_a_threshold_gives_everybody_away(leaks: dict[tuple[str, str], Leak]) -> None:
    for asked in ("everybody but one", "everybody but me and one"):
        row = leaks[asked, THRESHOLD]
        assert (row.refused, row.certain, row.share) == (0.0, 1.0, 1.0)
    for asked in auditors.SETS:
        assert leaks[asked, THRESHOLD].share > 0.6


def test_what_an_auditor_holds_and_what_it_lets_through(
    leaks: dict[tuple[str, str], Leak],
) -> None:
    for asked in auditors.SETS:
        assert leaks[asked, KNOWN].certain == 0.0  # which is what it is for
        assert leaks[asked, PRIVATE].refused == 0.0
    assert leaks["everybody but one", KNOWN].refused > 0.9
    assert leaks["everybody but one", SIMULATABLE].refused > 0.9
    # Refusals say the bit: of a 0 the disclosure of nobody is refused, of a 1 nothing is.
    assert leaks["everybody but one", ANYONE].share > 0.85
    assert leaks["everybody but me and one", KNOWN].share > 0.6
    assert leaks[JOHN, THRESHOLD].share == 1.0
    assert leaks[JOHN, SIMULATABLE].refused == 1.0


def test_refusals_in_a_city() -> None:
    city = made_city(600, 5, towers=12, zones=9)
    rows = refused_rows(city, 12, seed=1)
    assert {row.questions for row in rows} == {10, 12}
    at = {(row.auditor, row.questions): row.refused for row in rows}
    assert at[ANYONE, 12] >= at[THRESHOLD, 12]
    assert np.isfinite(list(at.values())).all()


def test_both_pages_say_the_same() -> None:
    section = Section(
        "A < B", ["Words.", Grid("C", ["", "d"], [["e", "1"]]), Picture("f.png", "g")]
    )
    text, page = markdown_page([section]), html_page([section])
    assert "| e | 1 |" in text
    assert "![g](f.png)" in text
    assert "A &lt; B" in page
    assert "<td>1</td>" in page
    assert 'src="f.png"' in page
    assert "INTERNAL" in page


def test_the_command(tmp_path: Path) -> None:
    few = ["--people", "16", "--town", "8", "--ranges", "4", "--attack-draws", "1"]
    parts = ["--part", "reconstruction", "--part", "auditor"]
    found = CliRunner().invoke(app, ["reproduce", "queries", "--out", str(tmp_path), *few, *parts])
    assert found.exit_code == 0, found.output
    for part in ("reconstruction", "auditor"):
        assert json.loads((tmp_path / f"queries-{part}.internal.json").read_text())
        assert (tmp_path / f"queries-{part}.internal.png").stat().st_size > 1_000
        assert f"queries-{part}.internal.png" in (tmp_path / "queries.internal.html").read_text()
    wrong = CliRunner().invoke(app, ["reproduce", "queries", "--out", "x", "--people", "17"])
    assert "power of two" in str(wrong.exception)
