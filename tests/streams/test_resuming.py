"""Opening a stream again: what may not go on does not, and nothing is drawn a second time."""

from __future__ import annotations

import fcntl
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.errors import ReservationRefused, SfumatoError, UsageError
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.streams.facts import StreamFacts
from sfumato.streams.live import LiveStream, StreamRequest
from sfumato.streams.registry import stream_scheme
from sfumato.streams.replay import boxed
from sfumato.streams.state import Store, parts

pytestmark = pytest.mark.privacy

USER_DAY = Unit.parse("user-day")


@pytest.fixture
def request_(tmp_path: Path) -> StreamRequest:
    grid = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "6h", "UTC")
    facts = StreamFacts(2, Calendar.of(grid), 1.0, 0.0, USER_DAY, 100)
    ids = np.array(["a", "b"])
    out = tmp_path / "out"
    return StreamRequest("city", "week", stream_scheme("direct"), facts, grid, ids, out)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = Ledger(tmp_path / "books" / "ledger.sqlite")
    book.initialise()
    book.add_dataset("city", Cap(epsilon=1.0, delta=1e-6), USER_DAY)
    return book


def publish(live: LiveStream, slots: range, people: int = 5) -> None:
    for slot in slots:
        live.publish(slot, boxed(np.array([people, 0]), live._request.facts))


def test_a_database_put_back_to_an_earlier_copy_publishes_no_slot_again(
    ledger: Ledger, request_: StreamRequest, tmp_path: Path
) -> None:
    """The same noise on other events would give away what changed between them, exactly."""
    with LiveStream(ledger, request_) as live:
        publish(live, range(1))
        shutil.copy(tmp_path / "books" / "ledger.sqlite", tmp_path / "copy")
        publish(live, range(1, 3))
    published = (request_.out / "stream.ndjson").read_bytes()
    shutil.copy(tmp_path / "copy", tmp_path / "books" / "ledger.sqlite")
    with pytest.raises(SfumatoError, match="earlier copy"), LiveStream(ledger, request_):
        pass
    assert (request_.out / "stream.ndjson").read_bytes() == published


def test_a_stream_whose_rows_are_gone_does_not_begin_again(
    ledger: Ledger, request_: StreamRequest
) -> None:
    with LiveStream(ledger, request_) as live:
        publish(live, range(2))
        Store(ledger, live._release, live.key).forget()
    with pytest.raises(SfumatoError, match="does not know"), LiveStream(ledger, request_):
        pass


def test_a_stream_that_another_process_ends_meanwhile_is_not_begun_again(
    ledger: Ledger, request_: StreamRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one ends just before this one takes the lock, with the key already in hand."""
    other = LiveStream(ledger, request_).__enter__()
    publish(other, range(4))
    locked = fcntl.flock

    def late(file: Any, how: int) -> None:
        monkeypatch.undo()
        other.close()
        other.__exit__(None, None, None)
        locked(file, how)

    ours = LiveStream(ledger, request_)
    reserve = ledger.reserve

    def reserved(claim: Any) -> object:
        found = reserve(claim)
        monkeypatch.setattr(fcntl, "flock", late)
        return found

    monkeypatch.setattr(ledger, "reserve", reserved)
    with pytest.raises(ReservationRefused, match="ended by another"):
        ours.__enter__()
    assert len((request_.out / "stream.ndjson").read_text().splitlines()) == 4


def test_two_processes_do_not_work_on_one_stream(ledger: Ledger, request_: StreamRequest) -> None:
    with (
        LiveStream(ledger, request_),
        pytest.raises(ReservationRefused, match="Another process"),
        LiveStream(ledger, request_),
    ):
        pass


def test_a_stream_goes_on_as_it_was_begun_or_not_at_all(
    ledger: Ledger, request_: StreamRequest
) -> None:
    with LiveStream(ledger, request_) as live:
        publish(live, range(1))
    other = stream_scheme("sample")
    for changed, what in (
        (replace(request_, reading=(("where places lie", "elsewhere"),)), "reading"),
        (replace(request_, delay_seconds=60), "delay_seconds"),
        (replace(request_, scheme=other), "stream"),
        (replace(request_, fingerprint="a history"), "events"),
    ):
        with pytest.raises(ReservationRefused, match=what), LiveStream(ledger, changed):
            pass
    with LiveStream(ledger, request_) as live:
        assert live.next_slot == 1


def test_another_stream_is_not_written_over(ledger: Ledger, request_: StreamRequest) -> None:
    with LiveStream(ledger, request_) as live:
        publish(live, range(4))
        live.close()
    again = replace(request_, name="second")
    with pytest.raises(UsageError, match="another stream"), LiveStream(ledger, again):
        pass
    assert len(ledger.book().charges) == 1


def test_a_part_of_the_state_put_back_from_an_earlier_slot_is_noticed(
    ledger: Ledger, request_: StreamRequest
) -> None:
    """Sealed as it is, an old meter would have forgotten what was spent since."""

    def sealed_meter(new: bytes | None = None) -> bytes:
        with ledger.database.writing() as connection:
            if new is not None:
                connection.execute(parts.update().where(parts.c.name == "meter").values(sealed=new))
            return bytes(
                connection.execute(parts.select().where(parts.c.name == "meter")).one().sealed
            )

    with LiveStream(ledger, request_) as live:
        publish(live, range(1))
        old = sealed_meter()
        publish(live, range(1, 2))
    now = sealed_meter()
    sealed_meter(old)
    with pytest.raises(SfumatoError, match="was changed"), LiveStream(ledger, request_):
        pass
    sealed_meter(now)
    with LiveStream(ledger, request_) as live:
        assert live.next_slot == 2


def test_a_state_of_another_format_is_turned_or_not_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.model import formats
    from sfumato.privacy.ledger import Ledger
    from sfumato.streams import state

    today = formats.FORMAT
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.initialise()
    store = state.Store(ledger, "r", bytes(32))
    store.save(state.Standing(1, b"t", b"l", 0), {"a": 1})
    with monkeypatch.context() as later:
        for module in (formats, state):
            later.setattr(module, "FORMAT", "2")
        with pytest.raises(SfumatoError, match="development version"):
            store.load()
        step = ("2", lambda parts: parts | {"b": 2})
        later.setitem(formats.STEPS, ("stream", today), step)
        assert store.load()[1] == {"a": 1, "b": 2}
        store.save(*store.load())
        assert store.load()[1] == {"a": 1, "b": 2}
    with pytest.raises(SfumatoError, match="has format 2, and this version") as refused:
        store.load()
    assert refused.value.exit_code == 1


def test_a_line_that_was_changed_is_not_vouched_for(tmp_path: Path) -> None:
    """Published lines are chained in the sealed state; a manifest is written for these alone."""
    from sfumato.streams.output import Outputs
    from sfumato.streams.state import chained

    (tmp_path / "stream.ndjson").write_bytes(b"one\ntwo\n")
    assert Outputs(tmp_path).chain() == chained(chained(b"", b"one\n"), b"two\n")
    (tmp_path / "stream.ndjson").write_bytes(b"One\ntwo\n")
    assert Outputs(tmp_path).chain() != chained(chained(b"", b"one\n"), b"two\n")


@pytest.mark.privacy
def test_a_history_that_changes_while_it_is_read_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sfumato
    from sfumato.errors import ReservationRefused
    from sfumato.privacy.events import Unit
    from sfumato.privacy.ledger import Cap, Ledger
    from sfumato.streams import run

    rows = "".join(f"{k},2024-03-04T0{k % 9}:00:00Z,a\n" for k in range(40))
    (tmp_path / "e.csv").write_text(f"user,time,tower\n{rows}")
    (tmp_path / "t.csv").write_text("tower_id,lon,lat\na,2.3,48.8\nb,2.4,48.9\n")
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("town", Cap(epsilon=9, delta=0.0), Unit.parse("user-day"))

    class Swapping(run.SlotSource):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]
            (tmp_path / "e.csv").write_text(f"user,time,tower\n{rows}8,2024-03-04T08:00:00Z,b\n")

    monkeypatch.setattr(run, "SlotSource", Swapping)
    with pytest.raises(ReservationRefused, match="changed while they were read"):
        sfumato.stream(
            tmp_path / "e.csv", towers=tmp_path / "t.csv", start="2024-03-04", end="2024-03-05",
            tz="UTC", slot="6h", dataset="town", epsilon=1.0, out=tmp_path / "s", ledger=ledger,
            scheme="sample",
        )  # fmt: skip
    assert not (tmp_path / "s" / "stream.ndjson").exists()
