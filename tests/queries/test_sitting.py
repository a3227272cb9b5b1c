"""Sessions kept in the ledger, and questions that a release answers for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.queries.conftest import TOWN, MakeDesk, table, towers, visits

import sfumato
from sfumato.errors import BudgetRefused, InputError, UsageError
from sfumato.privacy.ledger import Ledger, Status
from sfumato.privacy.ledger.records import Cap
from sfumato.published.release import Release
from sfumato.queries.desk import Desk
from sfumato_lab.queries.sitting import CLIP, UPDATES, Sitting

PEOPLE = 3_000
CROWD = visits(seed=5, people=PEOPLE, each=6)
QUESTIONS = [
    {"measure": "visits", "zones": [f"t{tower}"], "hours": f"{first}-{first + 6}"}
    for tower in range(3)
    for first in (0, 6, 12)
]


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release of the same people under another ledger, so that each test has a fresh one."""
    home = tmp_path_factory.mktemp("released")
    book = Ledger(home / "ledger.sqlite")
    book.initialise()
    book.add_dataset(TOWN, Cap(epsilon=20.0, delta=1e-5))
    return sfumato.release(
        table(CROWD),
        towers=towers(),
        dataset=TOWN,
        start="2024-01-01",
        end="2024-01-03",
        tz="UTC",
        epsilon=2.0,
        delta=1e-6,
        expected_users=PEOPLE,
        out=home / "week",
        ledger=book,
        anyway=True,
    )


@pytest.fixture
def desk(new_desk: MakeDesk, cube: Release) -> Desk:
    return new_desk(CROWD, release=cube)


def opened(desk: Desk, name: str = "study", **terms: Any) -> Sitting:
    given: dict[str, Any] = {"epsilon": 2.0, "clip": 4, "updates": 2, "threshold": 0}
    return desk.session(name, **given | terms)


def use_up(sitting: Sitting) -> None:
    """Ask until every update is spent. One threshold noise lasts for the session and may be large,
    so a single round of questions need not do."""
    for _ in range(50):
        for question in QUESTIONS:
            if sitting.updates_left == 0:
                return
            sitting.ask(question)
    pytest.fail("450 questions and still an update left")


def charges(ledger: Ledger) -> list[Any]:
    return list(ledger.book().charges.values())


def test_a_release_answers_sums_for_nothing(desk: Desk, cube: Release, ledger: Ledger) -> None:
    found = desk.ask({"measure": "visits", "zones": ["t0"], "hours": "6-12"})
    told = cube.sum(zones=["t0"], hours="6-12")
    assert found.how == "release"
    assert found.value == pytest.approx(told.value)
    assert found.estimate.ends == pytest.approx(told.ends)
    wide = float(told.plus_minus or 0) * 1.01
    asked = {"measure": "visits", "zones": ["t0"], "hours": "6-12", "want": {"plus_minus": wide}}
    assert desk.ask(asked).how == "release"
    assert not charges(ledger)
    assert desk.plan({"measure": "unique_people", "want": {"epsilon": 1}}).known is None


def test_a_stored_answer_corrects_the_release(desk: Desk, ledger: Ledger) -> None:
    ledger.set_cap(TOWN, Cap(epsilon=1e6, delta=1e-5))
    part = {"measure": "visits", "zones": ["t0"], "hours": "6-9"}
    whole = {"measure": "visits", "zones": ["t0"], "hours": "6-12"}
    before = desk.ask(whole)
    measured = desk.ask(part | {"want": {"plus_minus": 2}})
    assert measured.how == "new"
    assert float(measured.estimate.plus_minus or 9) <= 2
    after = desk.ask(whole)
    assert after.how == "stored"
    assert len(after.sources) == 2  # the answer and the release
    assert float(after.estimate.plus_minus or 9) < float(before.estimate.plus_minus or 0)


def test_releases_of_something_else_are_refused(new_desk: MakeDesk, cube: Release) -> None:
    with pytest.raises(UsageError, match="places are others"):
        new_desk(towers=towers(5), release=cube)
    with pytest.raises(UsageError, match="another data set"):
        new_desk(release=cube, dataset="others", dummy=True)


def test_a_session_is_the_command_s_where_nothing_is_said(desk: Desk) -> None:
    terms = desk.session("usual", epsilon=1.0).terms
    assert (terms.clip, terms.updates) == (CLIP, UPDATES)


def test_a_session_goes_on_in_any_process(desk: Desk, new_desk: MakeDesk, cube: Release) -> None:
    """Turns, hypothesis and noise are those of one session, however many desks ask it."""
    sitting = opened(desk, updates=6)
    first = [sitting.ask(question) for question in QUESTIONS[:4]]
    other = opened(new_desk(CROWD, release=cube), updates=6)
    assert [turn.answer for turn in other.turns] == [one.value for one in first]
    assert other.charge == sitting.charge
    assert other.ask(QUESTIONS[4]).how == "session"
    assert len(sitting.turns) == 5
    measured = [one for one in first if one.estimate.plus_minus is not None]
    assert len(measured) == sum(turn.updated for turn in sitting.turns[:4])


@pytest.mark.privacy
def test_all_of_a_session_is_charged_when_it_opens(desk: Desk, ledger: Ledger) -> None:
    sitting = opened(desk, epsilon=10.0)
    (row,) = charges(ledger)
    assert [label for label, _ in row.claim.events] == ["tests", "update 1", "update 2"]
    use_up(sitting)
    assert len(charges(ledger)) == 1
    with pytest.raises(BudgetRefused):
        opened(desk, "another", epsilon=50.0)


@pytest.mark.privacy
def test_after_its_updates_a_session_reads_nothing(desk: Desk) -> None:
    sitting = opened(desk, epsilon=10.0)
    use_up(sitting)
    desk.source = lambda: pytest.fail("the data was opened")  # type: ignore[method-assign,return-value]
    found = sitting.ask(QUESTIONS[0])
    assert found.estimate.plus_minus is None


@pytest.mark.privacy
def test_a_killed_turn_is_finished_with_its_own_noise(
    desk: Desk, new_desk: MakeDesk, cube: Release, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question of the killed turn is answered first, whatever is asked next."""
    real, noted = Ledger.note, []

    def killed(self: Ledger, release: str, content: Any, *, expected: int) -> Any:
        noted.append(dict(content))
        if "answer" in content:
            raise KeyboardInterrupt
        return real(self, release, content, expected=expected)

    sitting = opened(desk)
    monkeypatch.setattr(Ledger, "note", killed)
    with pytest.raises(KeyboardInterrupt):
        sitting.ask(QUESTIONS[0])
    monkeypatch.setattr(Ledger, "note", real)
    other = opened(new_desk(CROWD, release=cube))
    other.ask(QUESTIONS[5])
    first = other.turns[0]
    assert first.question == desk.parse(QUESTIONS[0])[0]
    assert first.answer == noted[1]["answer"]
    assert len(other.turns) == 2
    assert len(charges(ledger)) == 1


@pytest.mark.privacy
def test_a_session_keeps_to_its_data(desk: Desk, new_desk: MakeDesk, cube: Release) -> None:
    opened(desk).ask(QUESTIONS[0])
    fewer = [row for row in CROWD if row[0] != 7]
    with pytest.raises(sfumato.errors.ReservationRefused):
        opened(new_desk(fewer, release=cube))
    sitting = opened(desk)
    desk.fingerprint = lambda: "other"  # type: ignore[method-assign]
    with pytest.raises(InputError, match="not those that the session was opened on"):
        sitting.ask(QUESTIONS[1])


def test_a_closed_session_answers_from_its_table(desk: Desk, ledger: Ledger) -> None:
    sitting = opened(desk)
    sitting.ask(QUESTIONS[0])
    sitting.close()
    sitting.close()
    assert [one.status for one in charges(ledger)] == [Status.COMMITTED]
    assert not list(ledger.keyring.path.with_suffix(".keys").glob("*.key"))
    again = opened(desk)
    assert np.isfinite(again.ask(QUESTIONS[1]).value)
    assert len(again.turns) == 1


def test_what_no_session_answers(desk: Desk, new_desk: MakeDesk, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="begins with a release"):
        opened(new_desk(CROWD))
    with pytest.raises(UsageError, match="how exactly was settled"):
        opened(desk).ask(QUESTIONS[0] | {"want": {"epsilon": 1}})
    with pytest.raises(UsageError, match="printable name"):
        opened(desk, "a\nb")
    assert not list(tmp_path.glob("*.json"))
