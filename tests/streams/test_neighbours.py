"""The command on neighbouring data: one person's record decides about nobody else.

Looked at are the private counts that the first slot's noise is added to. Each of these was another
number, or an error, when a record was odd.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.engine.base import CountSource
from sfumato.errors import InputError, SfumatoError, UsageError
from sfumato.model.counts import Counts
from sfumato.model.private import Private
from sfumato.privacy.door import open_private
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.streams.live import LiveStream
from sfumato.streams.scheme import Publication

pytestmark = pytest.mark.privacy

TIME = "2024-03-04T08:00:00Z"
EIGHT = 1_709_539_200
CROWD = 1500
WHOLE = "--unit", "user-period", "--dataset", "whole"
Run = Callable[..., list[int]]


def box(west: float) -> list[list[list[float]]]:
    return [[[west, 48], [west + 1, 48], [west + 1, 49], [west, 49], [west, 48]]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shapes = [
        {
            "type": "Feature",
            "properties": {"zone_id": name},
            "geometry": {"type": "Polygon", "coordinates": box(west)},
        }
        for name, west in (("z0", 2.0), ("z1", 3.0))
    ]
    whole = {"type": "FeatureCollection", "features": shapes}
    (tmp_path / "zones.geojson").write_text(json.dumps(whole))
    (tmp_path / "towers.csv").write_text("tower_id,lon,lat\nz0,2.5,48.5\nz1,3.5,48.5\n")
    return tmp_path


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Counts of the first slot, in which everybody is seen, and what was told to the holder."""
    number, seen = iter(range(100)), []
    publish = LiveStream.publish

    def watched(
        self: LiveStream, slot: int, box: Private[Counts], *others: Any, **named: Any
    ) -> Publication:
        seen.append(open_private(box).values.tolist())
        return publish(self, slot, box, *others, **named)

    monkeypatch.setattr(LiveStream, "publish", watched)

    def counted(
        events: str, *more: str, places: str = "towers", feed: bytes | None = None
    ) -> list[int]:
        seen.clear()
        out, book = home / f"out-{next(number)}", home / "ledger.sqlite"
        if not book.exists():
            said = CliRunner().invoke(
                app,
                ["ledger", "init", "--dataset", "city", "--cap-epsilon", "99", "--cap-delta",
                 "1e-6", "--unit", "user-day", "--ledger", str(book)],
            )  # fmt: skip
            assert said.exit_code == 0, said.output
            Ledger(book).add_dataset("whole", Cap(epsilon=99, delta=1e-6))
        file = home / ("towers.csv" if places == "towers" else "zones.geojson")
        said = CliRunner().invoke(
            app,
            ["stream", events, "--out", str(out), "--dataset", "city", "--epsilon", "1",
             "--from", "2024-03-04", "--to", "2024-03-05", "--tz", "UTC", "--slot", "12h",
             f"--{places}", str(file), "--scheme", "direct", "--json", "--ledger", str(book),
             *more],
            input=feed,
        )  # fmt: skip
        if said.exception is not None:
            raise said.exception
        found = json.loads(said.stdout.splitlines()[-1])
        assert found["finished"]
        counted.told, counted.internal = said.stderr, found["internal"]  # type: ignore[attr-defined]
        return seen[0] if seen else []

    return counted


def lines(*poison: str, header: str = "user,time,place", crowd: str = "u{},{},z0") -> str:
    """A crowd with one person's records before, among and behind the others'."""
    made = [crowd.format(k, TIME) for k in range(CROWD)]
    for at in (0, CROWD // 2, CROWD):
        made[at:at] = poison
    return "\n".join([header, *made]) + "\n"


@pytest.fixture
def inbox(home: Path) -> Path:
    folder = home / "inbox"
    folder.mkdir()
    (folder / "CLOCK").write_text("2024-03-05T00:00:00Z")
    return folder


def test_a_slot_of_several_days_has_no_unit_of_one_day(home: Path, run: Run) -> None:
    """One day less moves a person's count to the place of another day: by 2 where 1 is paid."""
    moved = "p,2024-03-04T08:00:00Z,z0\n", "p,2024-03-05T08:00:00Z,z1\n"
    days = "--to", "2024-03-06"
    for count, rows in enumerate(((), moved[:1], moved[1:])):
        (home / f"{count}.csv").write_text("user,time,place\n" + "".join(rows))
        with pytest.raises(UsageError, match="longer than a day"):
            run(str(home / f"{count}.csv"), *days, "--slot", "2d")
    (home / "both.csv").write_text("user,time,place\n" + "".join(moved))
    assert run(str(home / "both.csv"), *days, "--slot", "1d") == [1, 0]
    assert run(str(home / "both.csv"), *days, "--slot", "2d", *WHOLE) in (
        [1, 0],
        [0, 1],
    )


@pytest.mark.parametrize("poison", ['"p', f'p,{TIME},"z1', f'"p,{TIME},z1\np,{TIME},z1"'])
def test_a_quote_in_a_followed_file_costs_itself_alone(
    home: Path, inbox: Path, run: Run, poison: str
) -> None:
    (inbox / "1.csv").write_text(lines(poison))
    assert run(str(inbox), "--follow")[0] == CROWD
    assert run.internal["rows_dropped"]["unreadable"] >= 3  # type: ignore[attr-defined]
    (home / "history.csv").write_text(lines(poison))
    assert run(str(home / "history.csv"))[0] == CROWD


def test_a_place_beside_coordinates_is_refused_from_the_schema(home: Path, run: Run) -> None:
    """Before, the first rows decided, and one record with lon n/a changed what all counted by."""
    header, crowd = "user,time,place,lon,lat", "u{},{},z0,3.5,48.5"
    for poison in ((), (f"p,{TIME},z0,n/a,n/a",)):
        (home / "both.csv").write_text(lines(*poison, header=header, crowd=crowd))
        both = str(home / "both.csv")
        with pytest.raises(UsageError, match="not said"):
            run(both, places="zones")
        extra = 1 if poison else 0
        assert run(both, "--column", "place=place", places="zones") == [CROWD + extra, 0]
        assert run(both, "--column", "lon=lon", "--column", "lat=lat", places="zones") == [0, CROWD]


def test_the_unit_of_an_epoch_is_said_and_not_guessed(home: Path, run: Run) -> None:
    for odd in ([], [EIGHT * 1000, -(2**62)]):
        times = [*odd, *([EIGHT] * CROWD), *odd]
        users = [f"u{k}" for k in range(len(times))]
        pq.write_table(
            pa.table({"user": users, "time": times, "place": ["z0"] * len(times)}),
            home / "numbers.parquet",
        )
        with pytest.raises(InputError, match="unit"):
            run(str(home / "numbers.parquet"))
        assert run(str(home / "numbers.parquet"), "--time-unit", "s") == [CROWD, 0]


def test_a_line_of_a_pipe_costs_itself_alone(run: Run) -> None:
    """An open object, one integer id, a bad byte and a record of two megabytes."""
    clock = b'{"clock": "2024-03-04T00:00:00Z"}\n'
    end = b'{"clock": "2024-03-05T00:00:00Z"}\n'
    crowd = [
        b'{"user": "u%d", "time": "%s", "place": "z0"}\n' % (k, TIME.encode()) for k in range(CROWD)
    ]
    odd = [
        b'{"user": "p",\n',
        b'"time": "2024-03-04T08:00:00Z", "place": "z1"} {"q": 0}\n',
        b'{"user": 7, "time": "2024-03-04T08:00:00Z", "place": "z1"}\n',
        b'{"user": "\xff", "time": "2024-03-04T08:00:00Z", "place": "z1"}\n',
        b'{"user": "%s", "time": "2024-03-04T08:00:00Z", "place": "z1"}\n' % (b"p" * (2 << 20)),
    ]
    for at in (0, CROWD // 2, CROWD):
        mixed = [*crowd[:at], *odd, *crowd[at:]]
        assert run("-", "--clock", "feed", feed=b"".join([clock, *mixed, end])) == [CROWD, 1]
    assert run.internal["rows_dropped"]["unreadable"] == 4  # type: ignore[attr-defined]
    assert "internal: 1,505 rows read" in run.told  # type: ignore[attr-defined]


def test_a_followed_folder_goes_on_past_files_it_cannot_read(inbox: Path, run: Run) -> None:
    (inbox / "1.parquet").write_bytes(b"PAR1 and nothing more")
    (inbox / "2.xlsx").write_bytes(b"PK")
    (inbox / "3.csv").write_text("")
    (inbox / "4.csv").write_text("colour,size\nred,2\n")
    (inbox / "5.csv").write_bytes(lines(f"p,{TIME},\xff", "\xff").encode("latin-1"))
    (inbox / "6.csv").write_text(lines("p" * (2 << 20), crowd="v{},{},z1"))
    assert run(str(inbox), "--follow") == [CROWD, CROWD]
    assert run.internal["files_without_rows"] == 4  # type: ignore[attr-defined]
    told = run.told.splitlines()  # type: ignore[attr-defined]
    assert [line.split(" gives")[0] for line in told if "gives no rows" in line] == [
        *("internal: 1.parquet", "internal: 2.xlsx", "internal: 3.csv", "internal: 4.csv"),
    ]


def test_an_empty_history_is_zeros(home: Path, run: Run) -> None:
    (home / "nobody.csv").write_text("user,time,place\n")
    assert run(str(home / "nobody.csv")) == [0, 0]
    (home / "folder").mkdir()
    assert run(str(home / "folder")) == [0, 0]


def test_one_person_counts_once_whatever_the_file(inbox: Path, run: Run) -> None:
    stamps = pa.array([EIGHT * 1_000_000], pa.timestamp("us", tz="UTC"))
    pq.write_table(pa.table({"user": [7], "time": stamps, "place": ["z0"]}), inbox / "1.parquet")
    (inbox / "2.csv").write_text(f"user,time,place\n7,{TIME},z0\n")
    (inbox / "3.ndjson").write_text(f'{{"user": 7.0, "time": {EIGHT}, "place": "z0"}}\n')
    assert run(str(inbox), "--follow") == [1, 0]


def test_times_without_an_offset_are_on_the_clock_that_is_said(home: Path, run: Run) -> None:
    (home / "naive.csv").write_text("user,time,place\na,2024-03-04T12:30:00,z0\n")
    assert run(str(home / "naive.csv")) == [0, 0]  # at half past twelve of --tz, in the next slot
    assert run(str(home / "naive.csv"), "--events-tz", "Europe/Paris") == [1, 0]


def test_a_stream_begun_on_the_other_engine_goes_on(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its history has the name that Spark gives it; another history still is another."""
    events = home / "history.csv"
    events.write_text(lines())
    with monkeypatch.context() as before:
        before.setattr(
            CountSource, "fingerprint", lambda self, key: min(self.fingerprints_elsewhere(key))
        )
        run(str(events), "--name", "week", "--out", str(home / "week"))
    assert run(str(events), "--name", "week", "--out", str(home / "week"), "--resume") == []
    events.write_text(lines(f"p,{TIME},z1"))
    with pytest.raises(SfumatoError, match="events"):
        run(str(events), "--name", "week", "--out", str(home / "week"), "--resume")
