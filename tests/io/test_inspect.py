"""`inspect` looks at rows and suggests; whatever they say, it comes to an end."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import InputError
from sfumato.io.files import locate
from sfumato.io.inspect import look as inspect
from sfumato.io.inspection import Inspection
from sfumato.model.places import PlaceKind, Places

DAY = 1_704_067_200
TOWERS = Places.of(PlaceKind.TOWERS, ["a", "b"], [shapely.Point(2, 48), shapely.Point(3, 48)])
ZONES = Places.of(PlaceKind.ZONES, ["z"], [shapely.box(0, 40, 10, 50)])


def parquet(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]
)
def test_the_unit_that_makes_time_stamps_dates_is_suggested(
    tmp_path: Path, unit: str, factor: int
) -> None:
    path = parquet(tmp_path / "e.parquet", user=[1, 2], t=[DAY * factor, 5], tower=["a", "b"])
    found = inspect(path, places=TOWERS)
    assert found.suggested["time-unit"] == unit
    assert found.rows["of known places"] == 2
    assert f'time-unit = "{unit}"' in found.toml()


def test_text_that_holds_numbers_is_told_from_iso(tmp_path: Path) -> None:
    numbers, iso = tmp_path / "n.csv", tmp_path / "i.csv"
    numbers.write_text(f"user,time,tower\n1,{DAY},a\n2,{DAY + 60},b\n")
    iso.write_text("user,time,tower\n1,2024-01-01T00:00:00Z,a\n2,2024-01-01 00:01,b\n")
    assert inspect(numbers).suggested["time-unit"] == "s"
    found = inspect(iso)
    assert "time-unit" not in found.suggested
    assert any("no offset" in remark for remark in found.remarks)
    assert any("`events_tz`" in remark for remark in found.remarks)
    assert not any("`events_tz`" in remark for remark in inspect(iso, tz="UTC").remarks)


def test_a_place_beside_coordinates_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("user,time,place,lon,lat\n1,2024-01-01T00:00:00Z,elsewhere,2,48\n")
    found = inspect(path, places=ZONES)
    assert found.suggested["column"] == {"lon": "lon", "lat": "lat"}
    assert any("0 match by name, 1 by position" in remark for remark in found.remarks)
    assert 'column = { lon = "lon", lat = "lat" }' in found.toml()


def test_what_would_be_dropped_is_counted_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(
        b'user,time,tower\n1,2024-01-01T00:00:00Z,a\n"2,2024-01-01T00:00:00Z,a\n'
        b",2024-01-01T00:00:00Z,a\n3,soon,a\n4,,b\n5,1900-01-01T00:00Z,\n\xff,2024-01-01T02:00Z,a\n"
    )
    found = inspect(path, places=TOWERS)
    told = dict(found.rows)
    assert told["read"] == 7
    assert told["no user"] == 2
    assert told["not a time"] == told["no time"] == told["no place"] == 1
    assert told["a time outside the years 1980 to 2100"] == 1
    assert found.people == 4
    assert any("line break" in remark for remark in found.remarks)
    assert "7 rows of 4 people" in "\n".join(found.lines())


def test_files_that_give_no_rows_are_listed(tmp_path: Path) -> None:
    parquet(
        tmp_path / "a.parquet", user=[1], time=pa.array([DAY], pa.timestamp("s", "UTC")), bs=[7]
    )
    (tmp_path / "b.csv").write_text("x,y\n1,2\n")
    (tmp_path / "c.csv").write_text("")
    (tmp_path / "d.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "e.ndjson").write_text('{"user": 7, "time": 1704067200, "place": "a"}\n')
    found = inspect(tmp_path)
    assert found.files == len(locate(tmp_path)) == 5
    assert {Path(name).name for name, _ in found.unfit} == {"b.csv", "c.csv", "d.parquet"}
    assert found.rows["read"] == 2


def test_it_exits_with_0_whatever_the_rows_say_and_marks_everything_internal(
    tmp_path: Path,
) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(b"user,time,tower\n" + bytes(range(1, 10)) + b'"\n\0\xff\n')
    for arguments in ([], ["--json"]):
        done = CliRunner().invoke(app, ["inspect", str(path), *arguments])
        assert done.exit_code == 0, done.output
        if arguments:
            assert set(json.loads(done.output)) == {"internal"}
        else:
            assert done.output.startswith("internal:")


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        inspect(tmp_path / "nothing.csv")


def test_an_empty_folder_is_nothing_to_look_at(tmp_path: Path) -> None:
    assert isinstance(inspect(tmp_path), Inspection)


def test_members_of_ndjson_with_usual_names_are_suggested(tmp_path: Path) -> None:
    path = tmp_path / "app.ndjson"
    line = {"device_id": "7", "ts": "2024-01-01T00:00:00Z", "longitude": 2, "latitude": 48, "os": 1}
    path.write_text(f"{json.dumps(line)}\n" * 3)
    found = inspect(path, places=ZONES)
    meant = {"user": "device_id", "time": "ts", "lon": "longitude", "lat": "latitude"}
    assert found.suggested["column"] == meant
    assert found.usable
    assert found.rows["of known places"] == 3


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
def test_times_without_an_offset_are_read_and_their_clock_is_asked_for(
    tmp_path: Path, ending: str
) -> None:
    """NDJSON too: a release reads them on the clock of `--tz`, which is not stated here."""
    time = "2024-01-01T08:00:00"
    line = json.dumps({"user": "7", "time": time, "place": "a"})
    path = tmp_path / f"app.{ending}"
    path.write_text(f"{line}\n" * 3 if ending == "ndjson" else f"user,time,place\n7,{time},a\n")
    found = inspect(path)
    assert found.usable
    assert found.clock_is_open
    assert found.rows["not a time"] == 0
    assert any("without an offset" in remark for remark in found.remarks)
    told = inspect(path, tz="Europe/Paris")
    assert not told.clock_is_open
    assert found.span == (1_704_096_000_000_000,) * 2
    assert told.span == (1_704_092_400_000_000,) * 2


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
def test_a_name_that_says_utc_is_the_clock_whatever_is_stated(tmp_path: Path, ending: str) -> None:
    time = "2024-01-01T08:00:00"
    line = json.dumps({"user": "7", "time_utc": time, "place": "a"})
    path = tmp_path / f"app.{ending}"
    path.write_text(line if ending == "ndjson" else f"user,time_utc,place\n7,{time},a\n")
    found = inspect(path, columns={"time": "time_utc"}, tz="Europe/Paris")
    assert found.span == (1_704_096_000_000_000,) * 2


def test_a_format_with_a_clock_of_its_own_says_how_to_state_another(tmp_path: Path) -> None:
    path = tmp_path / "1.txt"
    path.write_text("1,2024-01-01 08:00:00,2.1,48.1\n")
    found = inspect(path, tz="Europe/Paris")
    assert any("clock of the format's own" in remark for remark in found.remarks)
    columns = {"user": "1", "time": "2", "lon": "3", "lat": "4"}
    stated = inspect(path, columns=columns, tz="Europe/Paris")
    assert stated.span == (1_704_092_400_000_000,) * 2
    assert not any("format's own" in remark for remark in stated.remarks)


def test_members_inside_of_members_are_said_not_to_be_found(tmp_path: Path) -> None:
    path = tmp_path / "app.ndjson"
    line = {"user": "7", "time": "2024-01-01T00:00:00Z", "position": {"lon": 2, "lat": 48}}
    path.write_text(f"{json.dumps(line)}\n" * 3)
    found = inspect(path, places=ZONES)
    assert any("inside of 'position'" in remark for remark in found.remarks)
    assert not found.usable


def test_many_files_that_do_not_fit_are_counted_and_not_all_named(tmp_path: Path) -> None:
    for k in range(30):
        (tmp_path / f"{k:02d}.csv").write_text("time,lon,lat\n2024-01-01T00:00:00Z,2,48\n")
    found = inspect(tmp_path)
    assert sum("gives no rows" in line for line in found.lines()) == 5
    assert any("25 more files" in line for line in found.lines())
    assert len(found.numbers()["files_without_rows"]) == 30
    told = CliRunner().invoke(app, ["inspect", str(tmp_path)]).output
    assert "NOTHING would be counted" in told
    assert "--column user=NAME" in told


def test_ids_that_are_numbers_here_and_text_there_are_noted(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", user=[7], t_s=[DAY], tower=["a"])
    (tmp_path / "b.csv").write_text("user,time,tower\n007,2024-01-01T00:00:00Z,a\n")
    assert any("7 and 007" in remark for remark in inspect(tmp_path).remarks)


def test_names_that_nobody_knows_are_answered_with_the_option_that_states_them(
    tmp_path: Path,
) -> None:
    path = tmp_path / "export.csv"
    path.write_text("Kennung;Zeitpunkt;Ort\n7;2024-01-01 00:00;a\n")
    assert any(
        "`column={'user': NAME, 'time': NAME, 'place': NAME}`" in line
        for line in inspect(path).lines()
    )
    names = {"user": "Kennung", "time": "Zeitpunkt", "place": "Ort"}
    found = inspect(path, columns=names, places=TOWERS)
    assert found.rows["of known places"] == 1
    assert any(line.startswith("# events-tz") for line in found.toml())
