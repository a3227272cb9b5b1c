"""Reserve, draw, persist, commit: what a rerun does, whatever state it finds."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import InputError, ReservationRefused, SfumatoError, UsageError
from sfumato.privacy.events import USER_PERIOD, GaussianEvent
from sfumato.privacy.ledger import Cap, Claim, Ledger, Reservation, Status
from sfumato.privacy.transaction import Outcome, abandon, digests, publish
from sfumato.published.manifest import MANIFEST_NAME, manifest_text

pytestmark = pytest.mark.privacy

EVENT = GaussianEvent(1.0, Fraction(64), 1)


class Killed(BaseException):
    """Stands for a kill: nothing in between catches it."""


class Desk:
    """A ledger, an output folder, and a release whose only file is a hash of its key."""

    def __init__(self, home: Path, manifest_of: Callable[..., Any]) -> None:
        self.ledger = Ledger(home / "books" / "ledger.sqlite")
        self.ledger.initialise()
        self.ledger.add_dataset("city", Cap(rho=EVENT.l2**2 / 128))
        self.out = home / "out" / "week"
        self.input = "f" * 64
        self.written = 0
        self._manifest_of = manifest_of

    def persist(self, reservation: Reservation, folder: Path) -> None:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        reservation.charge("counts", EVENT)
        self.written += 1
        noise = hashlib.sha256(reservation.key).hexdigest()
        (folder / "density.csv").write_text(noise)
        text = manifest_text(self._manifest_of(reservation, digests(folder)))
        (folder / MANIFEST_NAME).write_text(text)

    def claim(self, fingerprint: str) -> Claim:
        events = (("counts", EVENT),)
        return Claim(
            dataset="city",
            name="week",
            unit=USER_PERIOD,
            delta=1e-6,
            period=(0, 1),
            events=events,
            config={"slot": "1h"},
            fingerprint=fingerprint,
            out=str(self.out),
        )

    def publish(self, persist: Any = None, **more: Any) -> Outcome:
        return publish(
            self.ledger,
            self.claim(self.input),
            self.out,
            lambda: self.input,
            persist or self.persist,
            **more,
        )

    @property
    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.ledger.entries()][3:]


@pytest.fixture
def desk(tmp_path: Path, manifest_of: Callable[..., Any]) -> Desk:
    return Desk(tmp_path, manifest_of)


def test_a_release_is_written_renamed_and_committed(desk: Desk) -> None:
    outcome = desk.publish()
    assert (outcome.how, outcome.folder) == ("new", desk.out)
    assert desk.kinds == ["reserve", "commit"]
    assert desk.ledger.book().charges[outcome.release].files == digests(desk.out)
    assert [path.name for path in desk.out.parent.iterdir()] == ["week"]
    assert stat.S_IMODE(desk.out.stat().st_mode) == 0o755


def test_running_again_changes_nothing(desk: Desk) -> None:
    desk.publish()
    assert desk.publish().how == "already"
    assert desk.kinds == ["reserve", "commit"]
    assert desk.written == 1


def test_killed_while_writing_it_finishes_with_the_same_key(desk: Desk) -> None:
    noises = []

    def persist(reservation: Reservation, folder: Path) -> None:
        desk.persist(reservation, folder)
        noises.append((folder / "density.csv").read_text())
        if len(noises) == 1:
            raise Killed

    with pytest.raises(Killed):
        desk.publish(persist)
    assert not desk.out.exists()
    assert desk.publish(persist).how == "resumed"
    assert noises[0] == noises[1] == (desk.out / "density.csv").read_text()
    assert desk.kinds == ["reserve", "commit"]


def test_killed_before_the_commit_it_only_commits(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", lambda *_, **__: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            desk.publish()
    before = digests(desk.out)
    assert desk.kinds == ["reserve"]
    assert desk.publish().how == "resumed"
    assert desk.written == 1
    assert digests(desk.out) == before
    assert desk.kinds == ["reserve", "commit"]


def test_output_that_was_taken_away_is_made_again_to_the_byte_or_not_at_all(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stood at its place may be public. Another version that weighs people otherwise would
    put another table under the same noise, and the difference of the two has none."""
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", lambda *_, **__: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            desk.publish()
    published = desk.out.rename(desk.out.parent / "moved to a server")

    def upgraded(reservation: Reservation, folder: Path) -> None:
        desk.persist(reservation, folder)
        (folder / "README.txt").write_text("and other numbers")

    with pytest.raises(ReservationRefused, match="two outputs"):
        desk.publish(upgraded)
    assert not desk.out.exists()
    assert desk.kinds == ["reserve"]
    assert desk.publish().how == "resumed"
    assert digests(desk.out) == digests(published)
    assert not list(desk.ledger.keyring.path.with_suffix(".keys").iterdir())


def test_output_that_was_changed_before_the_commit_is_not_committed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", lambda *_, **__: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            desk.publish()
    (desk.out / "density.csv").write_text("something else")
    with pytest.raises(SfumatoError, match="its files were changed"):
        desk.publish()
    assert desk.kinds == ["reserve"]


def test_output_lost_after_the_commit_cannot_be_made_again(desk: Desk) -> None:
    desk.publish()
    (desk.out / "density.csv").unlink()
    with pytest.raises(SfumatoError, match="charged again"):
        desk.publish()


def test_with_a_kept_key_it_is_made_again_elsewhere_to_the_byte_or_not_at_all(desk: Desk) -> None:
    desk.publish(keep_key=True)
    first, made = digests(desk.out), desk.out
    desk.out = made.parent / "again"
    assert desk.publish().how == "repeated"
    assert digests(desk.out) == first
    assert desk.kinds == ["reserve", "commit"]

    def another(reservation: Reservation, folder: Path) -> None:
        desk.persist(reservation, folder)
        (folder / "density.csv").write_text("another answer under the same noise")

    desk.out = made.parent / "third"
    with pytest.raises(SfumatoError, match=r"not with the same bytes: density\.csv differ"):
        desk.publish(another)
    assert sorted(path.name for path in made.parent.iterdir()) == ["again", "week"]
    desk.input = "e" * 64
    with pytest.raises(ReservationRefused, match="changed: the events"):
        desk.publish()
    desk.input, desk.out = "f" * 64, made
    (made / "density.csv").unlink()
    with pytest.raises(SfumatoError, match="Its key was kept"):
        desk.publish()


def test_changed_events_are_refused(desk: Desk) -> None:
    def persist(*_: object) -> None:
        raise Killed

    with pytest.raises(Killed):
        desk.publish(persist)
    desk.input = "e" * 64
    with pytest.raises(ReservationRefused, match="the events"):
        desk.publish()
    assert desk.written == 0


def test_events_that_change_while_they_are_read_are_not_published(desk: Desk) -> None:
    def persist(reservation: Reservation, folder: Path) -> None:
        desk.persist(reservation, folder)
        desk.input = "e" * 64

    with pytest.raises(InputError, match="changed while"):
        desk.publish(persist)
    assert list(desk.out.parent.iterdir()) == []
    assert desk.kinds == ["reserve"]


def test_a_fault_in_the_events_is_found_before_anything_is_reserved(desk: Desk) -> None:
    def check() -> None:
        raise InputError("a bad row")

    with pytest.raises(InputError):
        desk.publish(check_input=check)
    assert desk.kinds == []


def test_nothing_is_written_over_and_nothing_spent_for_it(desk: Desk) -> None:
    desk.out.mkdir(parents=True)
    (desk.out / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="not empty"):
        desk.publish()
    assert desk.kinds == []
    assert [path.name for path in desk.out.iterdir()] == ["thesis.tex"]


def test_an_output_that_cannot_be_written_keeps_the_reservation(desk: Desk) -> None:
    desk.out.parent.parent.mkdir(exist_ok=True)
    desk.out.parent.write_text("a file where the folder should be")
    with pytest.raises(SfumatoError, match="stays reserved"):
        desk.publish()
    desk.out.parent.unlink()
    assert desk.publish().how == "resumed"


def test_a_release_that_is_being_made_cannot_be_abandoned(desk: Desk) -> None:
    """The process at work would still put its output in place."""

    def persist(reservation: Reservation, folder: Path) -> None:
        with pytest.raises(ReservationRefused, match="Another process"):
            abandon(desk.ledger, reservation.id)
        desk.persist(reservation, folder)

    claim = desk.claim(desk.input)
    made = publish(desk.ledger, claim, desk.out, lambda: desk.input, persist)
    assert desk.ledger.book().charges[made.release].status is Status.COMMITTED


def test_abandoning_removes_what_was_left_and_stays_charged(desk: Desk) -> None:
    def persist(reservation: Reservation, folder: Path) -> None:
        desk.persist(reservation, folder)
        os.rename(folder, folder.with_name("elsewhere"))  # a kill leaves the folder behind
        raise Killed

    with pytest.raises(Killed):
        desk.publish(persist)
    (release,) = desk.ledger.book().charges
    desk.out.with_name("elsewhere").rename(desk.out.with_name(f".sfumato-{release}"))
    abandon(desk.ledger, release)
    assert list(desk.out.parent.iterdir()) == []
    assert desk.ledger.book().charges[release].status is Status.ABANDONED
    with pytest.raises(SfumatoError, match="does not allow"):
        desk.publish()


def test_two_processes_do_not_work_on_one_release(desk: Desk) -> None:
    def persist(reservation: Reservation, folder: Path) -> None:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                desk.publish()
            except ReservationRefused as refused:
                code = 42 if "right now" in str(refused) else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 42
        desk.persist(reservation, folder)

    assert desk.publish(persist).how == "new"
