"""The draft's fixture (tools/fixture.py): read whole, and finished after its kills."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tools.fixture import FIXTURE, KILLED, command

import sfumato
from sfumato.cli.main import app
from sfumato.errors import SfumatoError
from sfumato.model.formats import FORMAT
from sfumato.privacy.ledger import Ledger, Status
from sfumato.privacy.ledger.views import verify
from sfumato.streams.live import LiveStream


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A copy that may be written to, with the modes that keys have."""
    shutil.copytree(FIXTURE, tmp_path / "home")
    for path in (tmp_path / "home" / "books").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return tmp_path / "home"


class Interrupted(BaseException):
    """Ends a run in the midst, as a signal does."""


def ledger(home: Path) -> Ledger:
    return Ledger(home / "books" / "ledger.sqlite")


def run(home: Path, name: str, *more: str) -> None:
    resume = ("--resume",) if name == "half" else ()
    app([*command(home, home / "out", name), *resume, *more], standalone_mode=False)


def files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_it_is_read_whole(home: Path, tmp_path: Path) -> None:
    whole = home / "out" / "whole"
    release = sfumato.read_release(whole)
    assert release.manifest.version == FORMAT
    assert release.values.shape == (4, 4)
    assert release.posterior is not None
    assert sfumato.ask(release, hours="6-18").numbers
    assert verify(ledger(home), home / "out").sound
    sfumato.export(release, tmp_path / "exported", to="flowkit")
    app(["report", str(whole), "--out", str(tmp_path / "page.html")], standalone_mode=False)
    assert (tmp_path / "page.html").stat().st_size > 0
    half = sfumato.read_release(home / "out" / "half")
    assert (half.how, half.grid.slots) == ("unsealed", 2)
    statuses = {c.claim.name: c.status for c in ledger(home).book().charges.values()}
    assert statuses == {
        "whole": Status.COMMITTED,
        "reserved": Status.RESERVED,
        "half": Status.RESERVED,
    }


@pytest.mark.privacy
@pytest.mark.parametrize("name", KILLED)
def test_what_was_killed_is_finished_byte_for_byte(
    home: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is interrupted once more, just before its last step; and it is paid once."""
    again = shutil.copytree(home, tmp_path / "again", copy_function=shutil.copy2)
    paid = len(ledger(home).book().charges)
    run(home, name)
    stands = files(home / "out" / name)
    expected = FIXTURE / "expected" / f"{name}-{KILLED[name]}"
    assert stands[KILLED[name]] == expected.read_bytes()

    publish = LiveStream.publish

    def interrupted(*_: Any, **__: Any) -> None:
        raise Interrupted

    def until(stream: LiveStream, slot: int, *raw: Any) -> Any:
        return interrupted() if slot == 3 else publish(stream, slot, *raw)

    with monkeypatch.context() as once:
        once.setattr(Ledger, "commit", interrupted)
        once.setattr(LiveStream, "publish", until)
        with pytest.raises(Interrupted):
            run(again, name)
    run(again, name)
    assert files(again / "out" / name) == stands
    for place in (home, again):
        (charge,) = [c for c in ledger(place).book().charges.values() if c.claim.name == name]
        assert charge.status is Status.COMMITTED
        assert len(ledger(place).book().charges) == paid
        assert not list((place / "books" / "ledger.keys").glob(f"{charge.id}*"))
        assert verify(ledger(place)).sound


@pytest.mark.privacy
@pytest.mark.parametrize("name", KILLED)
def test_with_other_settings_or_events_it_is_not_finished(home: Path, name: str) -> None:
    before = files(home / "out")
    with pytest.raises(SfumatoError, match=r"changed: .*epsilon"):
        run(home, name, "--epsilon", "2")
    visits = home / "inputs" / "visits.csv"
    visits.write_text(visits.read_text().replace("u7,", "u8,", 1))
    with pytest.raises(SfumatoError, match="changed: the events"):
        run(home, name)
    assert files(home / "out") == before
