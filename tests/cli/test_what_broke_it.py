"""Inputs that once ended in a traceback, a hang, a secret on the screen or a silent wrong number.

Each is read or refused: exit codes 0 to 3, an error of at most ten lines that shows neither a
record nor a password, within seconds.
"""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import read_csv

from sfumato.cli.main import run

SECRET = "hunter2hunter2"
NAME = "imsi-208150000000007"
TOWERS = "cell_id,lon,lat\n" + "".join(f"t{k},{2.3 + k / 100},48.85\n" for k in range(4))
EVENTS = "user_id,timestamp,cell_id\n" + "".join(
    f"{NAME}{k},2024-03-04T{k % 24:02d}:10:00Z,t{k % 4}\n" for k in range(200)
)
DAYS = {"--from": "2024-03-04", "--to": "2024-03-06", "--slot": "6h", "--tz": "UTC"}


class Desk:
    """A folder with events, towers and a ledger; the program is run in it."""

    def __init__(
        self, home: Path, screen: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
    ) -> None:
        self.home, self._screen, self._patch = home, screen, patch
        patch.setenv("SFUMATO_TRACEBACK", "1")  # what nobody expected is raised, not told
        (home / "events.csv").write_text(EVENTS)
        (home / "towers.csv").write_text(TOWERS)
        caps = ("--cap-epsilon", "2", "--cap-delta", "1e-5")
        for unit in ("user-period", "user-day"):
            self.run("ledger", "init", "--dataset", "city", "--unit", unit, *caps, code=0)

    @property
    def key(self) -> Path:
        return self.home / "books" / "ledger.key"

    def run(self, *arguments: str, code: int) -> str:
        """Run it, and hold what it says against the rules of every error."""
        book = self.home / "books" / "ledger.sqlite"
        given = [] if "--ledger" in arguments else ["--ledger", str(book)]
        self._patch.setattr(sys, "argv", ["sfumato", *arguments, *given])
        with pytest.raises(SystemExit) as left:
            run()
        said = "".join(self._screen.readouterr())
        assert (left.value.code or 0) == code, said
        if code:
            assert len(said.splitlines()) <= 10
            assert len(said) < 2_000
            assert SECRET not in said
            assert NAME not in said
        return said

    def release(self, code: int, events: str = "events.csv", **settings: str | None) -> str:
        given: dict[str, str | None] = {
            "--towers": str(self.home / "towers.csv"),
            "--epsilon": "0.5",
            "--delta": "1e-6",
            "--dataset": "city",
            "--expected-users": "1000",
            "--scheme": "gaussian",
            "--out": str(self.home / "out"),
            **DAYS,
            **{f"--{name.replace('_', '-')}": value for name, value in settings.items()},
        }
        flags = [
            text for flag, value in given.items() if value is not None for text in (flag, value)
        ]
        where = str(self.home / events) if events and ":" not in events else events
        return self.run("release", where, *flags, "--anyway", code=code)

    def follow(self, code: int, *more: str) -> str:
        """A stream of a folder that is told to be over: two slots of six hours."""
        folder = self.home / "incoming"
        period = {**DAYS, "--to": "2024-03-05", "--scheme": "direct", "--unit": "user-day"}
        given = {
            "--towers": str(self.home / "towers.csv"),
            "--epsilon": "0.5",
            "--delta": "1e-6",
            "--dataset": "city",
            "--expected-users": "1000",
            "--out": str(self.home / "stream"),
            **period,
        }
        flags = [text for pair in given.items() for text in pair]
        return self.run("stream", str(folder), "--follow", *flags, *more, code=code)


@pytest.fixture
def desk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Desk:
    return Desk(tmp_path, capsys, monkeypatch)


DEEP = {
    "arrays 500 deep": f"epsilon = {'[' * 500}1{']' * 500}\n",
    "tables 500 deep": f"release = {'{a = ' * 500}1{'}' * 500}\n",
    "a number of 5,000 digits": f"epsilon = {'9' * 5_000}\n",
    "a switch for a number": "epsilon = true\n",
}


@pytest.mark.parametrize("what", DEEP)
def test_a_configuration_that_no_parser_likes(desk: Desk, what: str) -> None:
    config = desk.home / "sfumato.toml"
    config.write_text(DEEP[what])
    code = 2 if "switch" in what else 1
    desk.run("release", str(desk.home / "events.csv"), "--config", str(config), code=code)


@pytest.mark.parametrize("what", ["not ASCII", "a folder", "no instant"])
def test_a_clock_that_tells_no_time(desk: Desk, what: str) -> None:
    clock = desk.home / "incoming" / "CLOCK"
    clock.parent.mkdir()
    if what == "a folder":
        clock.mkdir()
    else:
        clock.write_bytes("2024-03-04T0９:00".encode() if what == "not ASCII" else b"noon")
    desk.follow(1)


def test_a_folder_of_odd_files_ends_and_counts_what_can_be_read(desk: Desk) -> None:
    """A pipe is not waited for; a column twice, a quoted line end cost their own file or record."""
    folder = desk.home / "incoming"
    folder.mkdir()
    (folder / "CLOCK").write_text("2024-03-05T12:00:00Z")
    os.mkfifo(folder / "pipe.csv")
    (folder / "twice.csv").write_text("user_id,user_id,timestamp,cell_id\n1,2,2024-03-04,t0\n")
    (folder / "quoted.csv").write_text(
        'user_id,timestamp,cell_id\n"a\nb",2024-03-04T01:00:00Z,t0\nc,2024-03-04T01:00:00Z,t1\n'
    )
    before = set(desk.home.iterdir())
    desk.follow(0)
    assert set(desk.home.iterdir()) - before == {desk.home / "stream"}


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"epsilon": "1e308"}, 2),
        ({"epsilon": "nan"}, 2),
        ({"out": "x" * 300}, 2),
        ({"out": "\udcff"}, 2),
        ({"from": "1950-01-01", "to": "2050-01-01", "slot": "1h"}, 2),
    ],
    ids=lambda value: str(value)[:30].encode("ascii", "replace").decode(),
)
def test_options_beyond_reason(desk: Desk, settings: dict[str, str], code: int) -> None:
    if "out" in settings:
        settings = {"out": str(desk.home / settings["out"])}
    desk.release(code, **settings)
    assert "0.5" not in desk.run("ledger", "show", code=0)


def test_no_events_at_all(desk: Desk) -> None:
    desk.release(2, events="")


def test_a_password_in_an_address_is_not_repeated(desk: Desk) -> None:
    desk.release(2, zones=f"PG:host=nowhere dbname=x password={SECRET}", towers=None)
    address = f"host=nowhere user=x password={SECRET}"
    desk.run("ledger", "show", "--ledger", address, code=2)
    desk.run("ledger", "show", "--ledger", f"postgresql://x:{SECRET}@nowhere.invalid/x", code=1)


def test_the_first_record_of_a_file_without_a_header_is_not_shown(desk: Desk) -> None:
    (desk.home / "bare.csv").write_text(EVENTS.split("\n", 1)[1])
    desk.release(1, events="bare.csv")


@pytest.mark.parametrize("at", [-8, -4], ids=["checksum", "length"])
def test_a_packed_file_whose_end_is_wrong_is_damaged(desk: Desk, at: int) -> None:
    packed = bytearray(gzip.compress(EVENTS.encode()))
    packed[at] ^= 1
    (desk.home / "events.csv.gz").write_bytes(packed)
    said = desk.release(1, events="events.csv.gz")
    assert "damaged" in said


def test_a_flipped_bit_in_a_page_with_a_checksum_is_noticed(desk: Desk) -> None:
    people = pa.table(
        {
            "user_id": pa.array(range(4_000), pa.int64()),
            "timestamp": pa.array([1_709_553_600_000_000] * 4_000, pa.timestamp("us", "UTC")),
            "cell_id": pa.array([f"t{k % 4}" for k in range(4_000)]),
        }
    )
    path = desk.home / "events.parquet"
    pq.write_table(people, path, compression="none", use_dictionary=False, write_page_checksum=True)
    desk.release(0, events="events.parquet", out=str(desk.home / "good"))
    data = bytearray(path.read_bytes())
    data[8_000] ^= 4  # one bit in somebody's id: without the checksum, another person
    path.write_bytes(data)
    desk.release(1, events="events.parquet")


def test_what_we_write_carries_checksums(desk: Desk) -> None:
    desk.release(0)
    data = bytearray((desk.home / "out" / "density.parquet").read_bytes())
    column = pq.ParquetFile(desk.home / "out" / "density.parquet").metadata.row_group(0).column(0)
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    spoiled = desk.home / "spoiled.parquet"
    spoiled.write_bytes(data)
    with pytest.raises((pa.ArrowException, OSError)):
        pq.read_table(spoiled, page_checksum_verification=True)


def test_a_long_id_twice_makes_no_long_message(desk: Desk) -> None:
    long = "t" * 1_000_000
    (desk.home / "towers.csv").write_text(f"{TOWERS}{long},2.1,48.8\n{long},2.2,48.8\n")
    desk.release(1)


def test_a_key_that_others_can_read_is_said(desk: Desk) -> None:
    desk.key.chmod(0o644)
    said = desk.run("ledger", "verify", code=1)
    assert "chmod" in said


@pytest.mark.parametrize("scheme", ["bayes", "gaussian", "laplace", "paris"])
def test_more_than_the_cap_is_a_matter_of_budget(desk: Desk, scheme: str) -> None:
    said = desk.release(3, epsilon="3", scheme=scheme)
    assert "would still fit" in said


def test_an_epoch_that_is_no_number_is_a_bad_row(desk: Desk) -> None:
    times: list[Any] = [1.7095536e9 + k for k in range(50)] + [float("nan")]
    rows = {"user_id": list(range(51)), "timestamp": times, "cell_id": ["t0"] * 51}
    pq.write_table(pa.table(rows), desk.home / "epochs.parquet")
    said = desk.release(0, events="epochs.parquet", time_unit="s")
    assert "50 counted" in said


def test_a_colon_in_a_name_makes_no_address_of_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.home)
    towers = read_csv(desk.home / "towers.csv")
    pq.write_table(towers, desk.home / "city:towers.parquet")
    rows = {"user_id": list(range(50)), "timestamp": [1709553600] * 50, "cell_id": ["t0"] * 50}
    pq.write_table(pa.table(rows), desk.home / "week:37.parquet")
    given = {"towers": "city:towers.parquet", "time_unit": "s", "out": "week:37"}
    assert "50 counted" in desk.release(0, events="week:37.parquet", **given)


def test_a_new_stream_does_not_write_over_what_is_there(desk: Desk) -> None:
    (desk.home / "stream").mkdir()
    (desk.home / "stream" / "towers.parquet").write_bytes(b"mine")
    assert "not empty" in desk.follow(2)
    assert (desk.home / "stream" / "towers.parquet").read_bytes() == b"mine"


def test_names_beyond_what_files_can_have(desk: Desk) -> None:
    long = str(desk.home / ("x" * 300))
    given = ("--events", "events.csv", "--dataset", "city", "--expected-users", "9", "--yes")
    assert "longer than" in desk.run("init", *given, "--out", long, code=2)
    assert "no character" in desk.release(2, name="\udcff")


def test_a_made_city_does_not_take_the_place_of_records(desk: Desk) -> None:
    (desk.home / "events.parquet").write_bytes(b"mine")
    desk._patch.setattr(sys, "argv", ["sfumato", "city", "--users", "50", "--out", str(desk.home)])
    with pytest.raises(SystemExit) as left:
        run()
    assert left.value.code == 2
    assert (desk.home / "events.parquet").read_bytes() == b"mine"
