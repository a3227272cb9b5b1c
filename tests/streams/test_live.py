"""The command end to end: histories, pipes and folders; late events; slots published once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from tests.io.footers import IMPOSSIBLE, make_impossible
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.errors import SfumatoError, UsageError
from sfumato.geography.overlay import Overlay, exact_shares
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Ledger, Status
from sfumato.streams.facts import StreamFacts
from sfumato.streams.live import StreamRequest
from sfumato.streams.registry import stream_scheme
from sfumato.streams.run import Stream as Published
from sfumato.streams.scheme import Publication
from sfumato.streams.vault import packed, seal, unpacked, unseal

START = datetime(2024, 3, 4, tzinfo=UTC)
Stream = Callable[..., int]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    times = [START + timedelta(seconds=int(s)) for s in rng.integers(0, 86_400, 600)]
    table = pa.table(
        {
            "user_id": rng.integers(0, 40, 600),
            "timestamp": pa.array(times, pa.timestamp("us", tz="UTC")),
            "cell_id": [f"t{k}" for k in rng.integers(0, 3, 600)],
        }
    )
    pq.write_table(table, tmp_path / "events.parquet")
    (tmp_path / "towers.csv").write_text("tower_id,lon,lat\nt0,2.0,48\nt1,2.1,48\nt2,2.2,48\n")
    said = CliRunner().invoke(
        app,
        ["ledger", "init", "--dataset", "city", "--cap-epsilon", "1", "--cap-delta", "1e-6",
         "--unit", "user-day", "--ledger", str(tmp_path / "ledger.sqlite")],
    )  # fmt: skip
    assert said.exit_code == 0, said.output
    return tmp_path


@pytest.fixture
def stream(home: Path) -> Stream:
    def run(events: str, *more: str, feed: bytes | None = None) -> dict[str, object]:
        said = CliRunner().invoke(
            app,
            ["stream", events, "--out", str(home / "out"), "--dataset", "city", "--epsilon", "1",
             "--from", "2024-03-04", "--to", "2024-03-05", "--tz", "UTC", "--slot", "6h",
             "--towers", str(home / "towers.csv"), "--expected-users", "40", "--json",
             "--ledger", str(home / "ledger.sqlite"), *more],
            input=feed,
        )  # fmt: skip
        if said.exception is not None:
            raise said.exception
        found: dict[str, object] = json.loads(said.stdout.splitlines()[-1])
        return found

    return run  # type: ignore[return-value]


def lines(home: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (home / "out" / "stream.ndjson").read_text().splitlines()]


def test_a_history_is_published_slot_by_slot_and_once(home: Path, stream: Stream) -> None:
    assert stream(str(home / "events.parquet"))["finished"]
    made = lines(home)
    assert [line["slot"] for line in made] == [0, 1, 2, 3]
    assert made[1]["start"] == "2024-03-04T06:00:00+00:00"
    part = pq.read_table(home / "out" / "slots" / "slot=00002" / "part-0.parquet")
    assert part.column("zone_id").to_pylist() == ["t0", "t1", "t2"]
    said = pytest.approx(made[2]["counts"], abs=5e-4)  # a line has three digits
    assert part.column("count").to_pylist() == said
    (charge,) = Ledger(home / "ledger.sqlite").book().charges.values()
    assert charge.status is Status.COMMITTED
    before = (home / "out" / "stream.ndjson").read_bytes()
    assert stream(str(home / "events.parquet"), "--resume")["finished"]
    assert (home / "out" / "stream.ndjson").read_bytes() == before
    with pytest.raises(UsageError, match="begun before"):
        stream(str(home / "events.parquet"))


def ndjson(*items: tuple[int, str, str] | int) -> bytes:
    """Events (hour, user, place) and ticks of the clock (hour), which is stated from the start."""
    text = ""
    for item in (0, *items):
        if isinstance(item, int):
            text += json.dumps({"clock": (START + timedelta(hours=item)).isoformat()}) + "\n"
        else:
            hour, user, place = item
            when = (START + timedelta(hours=hour)).isoformat()
            text += json.dumps({"user": user, "time": when, "place": place}) + "\n"
    return text.encode()


def test_slots_close_by_the_clock_and_late_events_are_dropped(stream: Stream) -> None:
    feed = ndjson((1, "a", "t0"), 6, (7, "a", "t1"), 7, (5, "b", "t2"), 8, (30, "c", "t0"))
    found = stream("-", "--clock", "feed", "--delay", "1h", feed=feed)
    # Slot 0 ended at 6 and closed at 7, the delay gone; b's event of hour 5 came after that.
    assert found["next_slot"] == 1
    assert found["internal"]["rows_dropped"] == {"late": 1, "outside": 1, "unreadable": 0}


def test_a_pipe_that_breaks_goes_on_where_it_stopped(home: Path, stream: Stream) -> None:
    whole = ndjson((1, "a", "t0"), 6, (7, "a", "t1"), 12, (13, "a", "t1"), 18, 24)
    assert stream("-", "--clock", "feed", feed=ndjson((1, "a", "t0"), 6))["next_slot"] == 1
    first = lines(home)
    found = stream("-", "--clock", "feed", "--resume", feed=whole)
    assert found["finished"]
    assert lines(home)[:1] == first
    assert found["internal"]["rows_dropped"] == {"late": 1, "outside": 0, "unreadable": 0}


def test_a_folder_that_fills(home: Path, stream: Stream) -> None:
    (home / "inbox").mkdir()
    pq.write_table(
        pa.table({"user": ["a", "b"], "time": [START, START], "place": ["t0", "t1"]}),
        home / "inbox" / "0001.parquet",
    )
    (home / "inbox" / "CLOCK").write_text("2024-03-05T00:00:00Z")
    assert stream(str(home / "inbox"), "--follow")["finished"]
    assert len(lines(home)) == 4


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_a_damaged_file_costs_its_own_rows_and_no_slot(
    home: Path, stream: Stream, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there at every look, also when the stream goes on after it was stopped."""
    inbox = home / "inbox"
    inbox.mkdir()
    table = pa.table({"user": ["a", "b"], "time": [START, START], "place": ["t0", "t1"]})
    pq.write_table(table, inbox / "0001.parquet", store_schema=False)
    make_impossible(inbox / "0001.parquet", what)
    pq.write_table(table, inbox / "0002.parquet")
    (inbox / "CLOCK").write_text("2024-03-04T13:00:00Z")

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sfumato.streams.input.time.sleep", stop)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            stream(str(inbox), "--follow")
    assert len(lines(home)) == 2
    (inbox / "CLOCK").write_text("2024-03-05T00:00:00Z")
    ended = stream(str(inbox), "--follow", "--resume")
    assert ended["finished"]
    assert ended["internal"]["files_without_rows"] == 1
    assert len(lines(home)) == 4


@pytest.mark.privacy
@pytest.mark.parametrize("source", ["an empty folder", "a folder", "pipe"])
def test_a_period_that_is_over_is_refused_before_it_costs(
    home: Path, stream: Stream, source: str
) -> None:
    """All slots would close at the first look. That hangs on clock and options, not on rows."""
    (home / "inbox").mkdir()
    if source == "a folder":
        (home / "events.parquet").rename(home / "inbox" / "events.parquet")
    given = ("-",) if source == "pipe" else (str(home / "inbox"), "--follow")
    with pytest.raises(UsageError) as refused:
        stream(*given, feed=ndjson((1, "a", "t0")))
    assert "The period is over by the machine's clock: all its slots" in refused.value.problem
    assert "as a history" in refused.value.remedy
    assert not Ledger(home / "ledger.sqlite").book().charges
    assert not (home / "out").exists()


@pytest.mark.parametrize(
    ("at", "start", "delay", "out", "said"),
    [
        (5, "2024-03-04", "0", 0, ""),
        (6, "2024-03-04", "0", 1, "1 of 4 slots is over"),
        (6, "2024-03-04", "1h", 0, ""),
        (13, "2024-03-04", "0", 2, "2 of 4 slots are over"),
        (13, "2024-03-04T12:00", "0", 2, ""),
        (19, "2024-03-04T12:00", "0", 3, "1 of 2 slots is over"),
    ],
)
def test_slots_that_are_over_when_a_stream_begins_are_said(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
    start: str,
    delay: str,
    out: int,
    said: str,
) -> None:
    """And a stream that was begun in time goes on when its period is over."""
    (home / "inbox").mkdir()
    told: list[str] = []

    def killed(_seconds: float) -> None:
        raise KeyboardInterrupt

    def run() -> Published:
        return sfumato.stream(
            home / "inbox",
            dataset="city",
            epsilon=1,
            expected_users=40,
            scheme="rhythm",
            start=start,
            end="2024-03-05",
            tz="UTC",
            slot="6h",
            delay=delay,
            towers=home / "towers.csv",
            out=home / "out",
            ledger=home / "ledger.sqlite",
            follow=True,
            resume=True,
            begin=lambda _, notes: told.extend(notes),
        )

    with monkeypatch.context() as clock:
        clock.setattr("time.time", lambda: (START + timedelta(hours=at)).timestamp())
        clock.setattr("time.sleep", killed)
        with pytest.raises(KeyboardInterrupt):
            run()
    notes = " ".join(told)
    assert said in notes
    assert bool(notes) == bool(said)
    if said:
        begins = (START + timedelta(hours=6 * out)).replace(tzinfo=None)
        assert f"`start='{begins:%Y-%m-%dT%H:%M}'`" in notes  # the command says --from
    assert len(lines(home) if out else []) == out
    assert run().finished
    assert len(lines(home)) == 4
    assert " ".join(told) == notes, "what was begun is paid for, and nothing is said of it again"


def test_schemes_that_need_the_whole_window_are_not_for_pipes(stream: Stream) -> None:
    with pytest.raises(UsageError, match="as a whole"):
        stream("-", "--scheme", "mean", feed=b"")
    with pytest.raises(UsageError, match="user-period"):
        CliRunner().invoke(
            app,
            ["stream", "-", "--out", "x", "--dataset", "d", "--epsilon", "1", "--from",
             "2024-03-04", "--tz", "UTC", "--unit", "user-period"],
            catch_exceptions=False,
        )  # fmt: skip


def test_mean_of_a_history(home: Path, stream: Stream) -> None:
    assert stream(str(home / "events.parquet"), "--scheme", "mean")["finished"]
    made = lines(home)
    assert made[0]["counts"] == made[3]["counts"]


def test_a_changed_history_is_refused(home: Path, stream: Stream) -> None:
    stream(str(home / "events.parquet"))
    table = pq.read_table(home / "events.parquet")
    pq.write_table(table.slice(1), home / "events.parquet")
    with pytest.raises(SfumatoError, match="events"):
        stream(str(home / "events.parquet"), "--resume")


@pytest.mark.privacy
def test_sealed_state_opens_with_its_key_alone() -> None:
    key, other = bytes(range(32)), bytes(32)
    for value in ({"a": [1, 2]}, np.arange(5), np.array([[0.5]])):
        back = unpacked(unseal(seal(packed(value), key), key))
        assert np.array_equal(back, value) if isinstance(value, np.ndarray) else back == value
    sealed = seal(b"secret counts", key)
    assert b"secret" not in sealed
    for bad in (sealed[:-1] + bytes([sealed[-1] ^ 1]), b"short"):
        with pytest.raises(SfumatoError):
            unseal(bad, key)
    with pytest.raises(SfumatoError):
        unseal(sealed, other)


@pytest.mark.privacy
def test_one_pad_never_meets_two_states() -> None:
    """Under one pad, the difference of two sealed states would be that of the exact counts."""
    key, states = bytes(range(32)), [bytes(40), bytes(40), b"x" * 40]
    texts = {seal(state, key)[16:-32] for state in states}
    assert len(texts) == 3
    first, _, last = (np.frombuffer(seal(s, key)[16:-32], np.uint8) for s in states)
    assert (first ^ last).tobytes() != states[2]


def test_towers_are_spread_over_zones_after_the_noise(tmp_path: Path) -> None:
    """The same key with and without zones: zones hold the towers' noisy numbers by their shares."""
    grid = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 5), "6h", "UTC")
    facts = StreamFacts(3, Calendar.of(grid), 1.0, 0.0, Unit.parse("user-period"))
    shares = Overlay(
        np.array(["a", "b", "c"]),
        np.array(["north", "south"]),
        exact_shares(sp.csr_array(np.array([[0.5, 0.25], [0.0, 1.0], [0.75, 0.0]]))),
    )
    made = Publication(np.array([8.0, -4.0, 12.0]), True, 2.0)
    request = StreamRequest(
        "city", "s", stream_scheme("direct"), facts, grid, shares.place_ids, tmp_path / "out",
        shares=shares,
    )  # fmt: skip
    spread = request.spread(made)
    assert spread.values.tolist() == [13.0, -2.0]
    assert spread.sd == pytest.approx(2.0 * np.sqrt(1 + 0.25**2)), "of the noisiest zone"
    assert request.released_ids.tolist() == ["north", "south"]
    assert replace(request, shares=None).spread(made) is made
