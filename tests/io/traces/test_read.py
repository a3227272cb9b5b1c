"""Every format comes out as the same fixes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest

from sfumato.errors import InputError
from sfumato.io.traces import read_traces, to_frame, to_table
from sfumato_lab.studies.fleets import duplicated_tracks, read_geolife

LON, LAT = [116.31, 116.32, 116.33], [39.91, 39.92, 39.93]
TIMES = pd.to_datetime(["2008-11-01T12:00:00Z", "2008-11-01T12:00:05Z", "2008-11-01T12:00:10Z"])

GPX = """<?xml version="1.0"?>
<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><trk>
<trkseg>
<trkpt lat="39.91" lon="116.31"><time>2008-11-01T12:00:00Z</time></trkpt>
<trkpt lat="39.92" lon="116.32"><time>2008-11-01T20:00:05+08:00</time></trkpt>
<trkpt lat="39.94" lon="116.32"/>
</trkseg>
<trkseg><trkpt lat="39.93" lon="116.33"><time>2008-11-01T12:00:10</time></trkpt></trkseg>
</trk></gpx>
"""

PLT_HEAD = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track\n0\n"
PLT = (
    "39.91,116.31,0,492,39753.5,2008-11-01,12:00:00\n"
    "39.92,116.32,0,492,39753.5,2008-11-01,12:00:05\n"
    "39.93,116.33,0,492,39753.5,2008-11-01,12:00:10\n"
)


def geolife(folder: Path) -> Path:
    for user, start in (("000", "20081101120000"), ("003", "20081101120000"), ("010", "20090101")):
        home = folder / "Data" / user / "Trajectory"
        home.mkdir(parents=True)
        (home / f"{start}.plt").write_text(PLT_HEAD + PLT)
    return folder


def test_csv_and_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"uid": ["a"] * 3, "datetime": TIMES, "lat": LAT, "lng": LON})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.assign(datetime=TIMES.strftime("%Y-%m-%dT%H:%M:%SZ")).to_csv(
        tmp_path / "t.csv", index=False
    )
    for name in ("t.parquet", "t.csv"):
        traces, _ = read_traces(str(tmp_path / name))
        assert traces.lon.tolist() == LON
        assert traces.time.tolist() == [int(t.timestamp()) * 10**6 for t in TIMES]
        assert traces.names.tolist() == ["a"]


def test_gpx(tmp_path: Path) -> None:
    (tmp_path / "ada.gpx").write_text(GPX)
    for source in (tmp_path / "ada.gpx", tmp_path):
        traces, found = read_traces(source)
        assert traces.lon.tolist() == LON
        assert traces.trip.tolist() == [1, 1, 2]
        assert traces.names.tolist() == ["ada"]
        assert found.missing == 1
        assert np.diff(traces.time).tolist() == [5_000_000, 5_000_000]


@pytest.mark.parametrize(
    "text",
    [
        "<gpx><trk>",
        "<kml/>",
        "<a>" * 100_000,
        '<!DOCTYPE x [<!ENTITY a "b">]><gpx/>',
        '<?xml version="1.0" encoding="odd"?><gpx/>',
        "",
    ],
)
def test_damaged_gpx_is_refused_where_named_and_counted_where_found(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "ada.gpx").write_text(GPX)
    (tmp_path / "x.gpx").write_text(text)
    with pytest.raises(InputError, match=r"x[.]gpx"):
        read_traces(tmp_path / "x.gpx")
    traces, found = read_traces(tmp_path)
    assert traces.lon.tolist() == LON
    assert found.unfit == 1


@pytest.mark.parametrize(
    "point",
    [
        '<trkpt lat="1" lon="1"><time>noon</time></trkpt>',
        '<trkpt lat="1" lon="1"><time>2008-11-01T12:00:00.1234567890Z</time></trkpt>',
        '<trkpt lat="north" lon="1"><time>2008-11-01T12:00:00Z</time></trkpt>',
        '<trkpt lat="1_0" lon="1"><time>2008-11-01T12:00:00Z</time></trkpt>',
        '<trkpt lon="1"><time>2008-11-01T12:00:00Z</time></trkpt>',
        '<trkpt lat="inf" lon="1"><time/></trkpt>',
    ],
)
def test_a_bad_point_of_a_track_costs_itself(tmp_path: Path, point: str) -> None:
    (tmp_path / "x.gpx").write_text(GPX.replace("<trkseg>\n", f"<trkseg>\n{point}"))
    traces, found = read_traces(tmp_path / "x.gpx")
    assert traces.lon.tolist() == LON
    assert found.missing == 2


def test_formats_are_joined_by_the_canonical_text_of_ids(tmp_path: Path) -> None:
    """7 of a table and `7` of a file's name are one person; trips of both stay apart."""
    (tmp_path / "7.gpx").write_text(GPX)
    later = TIMES + pd.Timedelta("3h")
    frame = pd.DataFrame({"uid": [7] * 3, "datetime": later, "lat": LAT, "lon": LON})
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "u.gpx").write_text("<gpx")
    traces, found = read_traces(tmp_path)
    assert traces.names.tolist() == ["7"]
    assert sorted(Counter(traces.trip.tolist()).values()) == [1, 2, 3]
    assert found.unfit == 1


def test_a_track_without_points_is_empty(tmp_path: Path) -> None:
    (tmp_path / "x.gpx").write_text("<gpx/>")
    traces, _ = read_traces(tmp_path / "x.gpx")
    assert len(traces) == 0


def test_geolife_folder(tmp_path: Path) -> None:
    folder = geolife(tmp_path)
    traces, _ = read_traces(folder)
    assert traces.names.tolist() == ["000", "003", "010"]
    assert len(traces) == 9
    assert traces.starts.size == 4
    assert traces.lat[:3].tolist() == LAT
    some, _, files = read_geolife(folder, period=("2008-11-01", "2009-01-01"))
    assert files == 2
    assert len(some) == 6


NATIVE_HEAD = (
    "Geolife trajectory",
    "WGS 84",
    "Altitude is in Feet",
    "Reserved 3",
    "0,2,255,My Track,0,0,2,8421376",
    "0",
)


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_geolife_as_it_is_published(tmp_path: Path, end: str) -> None:
    """Line ends of Windows, invalid altitudes, ids with zeros, transport labels beside tracks."""
    fixes = (
        "39.984702,116.318417,0,492,39744.1201851852,2008-10-23,02:53:04",
        "39.984683,116.31845,0,-777,39744.1202546296,2008-10-23,02:53:10",
        "39.984686,116.318417,0,492.126,39744.1203125,2008-10-23,02:53:15",
    )
    for user in ("000", "081"):
        home = tmp_path / "Geolife Trajectories 1.3" / "Data" / user
        (home / "Trajectory").mkdir(parents=True)
        text = end.join((*NATIVE_HEAD, *fixes)) + end
        (home / "Trajectory" / "20081023025304.plt").write_bytes(text.encode())
        (home / "labels.txt").write_bytes(
            b"Start Time\tEnd Time\tTransportation Mode\r\n"
            b"2008/10/23 02:53:04\t2008/10/23 11:11:12\ttaxi\r\n"
        )
    for folder in (tmp_path, tmp_path / "Geolife Trajectories 1.3" / "Data"):
        traces, found = read_traces(folder)
        assert traces.names.tolist() == ["000", "081"]
        assert traces.lon[:3].tolist() == [116.318417, 116.31845, 116.318417]
        assert traces.lat[:3].tolist() == [39.984702, 39.984683, 39.984686]
        assert (np.diff(traces.time[:3]) // 1_000_000).tolist() == [6, 5]
        assert traces.time[0] == 1_224_730_384_000_000  # 2008-10-23 02:53:04 GMT
        assert found.dropped == 0


def test_geolife_duplicates_are_found(tmp_path: Path) -> None:
    groups = duplicated_tracks(geolife(tmp_path))
    assert len(groups) == 1
    assert len(groups[0]) == 3
    assert all(name.endswith(".plt") for name in groups[0])


BAD_PLT = (
    "39.987654,secret,0,1,2,2008-11-01,12:00:15\n",
    '"39.98,116.3,0,1,2,2008-11-01,12:00:15\n',
    "39.98,116.3,0,1,2,2008-11-01\n",
    "39.98,116.3,0,1,2,,12:00:15\n",
    "39.98,116.3,0,1,2,2008-11-31,12:00:15\n",
    "\0\n",
)


@pytest.mark.privacy
@pytest.mark.parametrize("line", BAD_PLT)
def test_a_bad_line_of_a_trajectory_costs_itself(tmp_path: Path, line: str) -> None:
    folder = geolife(tmp_path)
    bad = folder / "Data" / "000" / "Trajectory" / "20081101120000.plt"
    bad.write_text(PLT_HEAD + line + PLT + line)
    traces, found = read_traces(folder)
    assert len(traces) == 9
    assert traces.lat[:3].tolist() == LAT
    assert found.missing + found.unreadable == 2


def test_a_named_trajectory_is_read_alone(tmp_path: Path) -> None:
    folder = geolife(tmp_path)
    traces, _ = read_traces(folder / "Data" / "003" / "Trajectory" / "20081101120000.plt")
    assert traces.names.tolist() == ["003"]
    assert len(traces) == 3


def test_cabspotting_folder(tmp_path: Path) -> None:
    (tmp_path / "new_abboip.txt").write_text(
        "37.75134 -122.39488 0 1213084687\n37.75136 -122.39527 0 1213084659\n"
    )
    traces, found = read_traces(tmp_path)
    assert traces.names.tolist() == ["abboip"]
    assert traces.lat.tolist() == [37.75136, 37.75134]
    assert found.unsorted


def test_frames_in_and_out() -> None:
    mobility = pd.DataFrame(
        {"uid": [1, 1, 1], "datetime": TIMES.tz_localize(None), "lat": LAT, "lng": LON}
    )
    points = gpd.points_from_xy(LON, LAT, crs="EPSG:4326")
    track = gpd.GeoDataFrame({"user_id": [1] * 3, "tracked_at": TIMES}, geometry=points)
    moving = gpd.GeoDataFrame(
        {"user_id": [1] * 3}, geometry=points, index=TIMES.tz_localize(None).rename("t")
    )
    for frame in (mobility, track, moving):
        traces, _ = read_traces(frame, tz="UTC")
        assert traces.lon.tolist() == LON
        assert traces.time.tolist() == [int(t.timestamp()) * 10**6 for t in TIMES]
    out = to_frame(traces, "scikit-mobility")
    assert list(out.columns) == ["uid", "datetime", "lat", "lng", "tid"]
    assert out["datetime"].tolist() == list(TIMES.tz_localize(None))
    out = to_frame(traces, "trackintel")
    assert out.geometry.x.tolist() == LON
    assert out["tracked_at"].dt.tz is not None
    assert out.crs == "EPSG:4326"
    out = to_frame(traces, "movingpandas")
    assert out.index.name == "t"
    assert out["traj_id"].tolist() == ["1_0"] * 3
    again, _ = read_traces(to_table(traces))
    assert again.lon.tolist() == LON


def test_geolife_is_not_a_table(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_traces(tmp_path / "nothing.csv")


CAB = "37.75134 -122.39488 0 1213084687\n37.75136 -122.39527 0 1213084659\n"
TABLE = "uid,time,lat,lon\nbo,2008-11-01T12:00:00Z,39.91,116.31\n"
ODD_FILES = {
    "u.gpx": GPX.encode(),
    "v.gpx": b"<gpx",
    "u.plt": (PLT_HEAD + PLT).encode(),
    "v.plt": b"\0\xff",
    "new_u.txt": CAB.encode(),
    "new_v.txt": b'"37 -122 0 1\n\xff\n' + b"9" * 70_000,
    "new_w.txt": b"",
    "u.csv": TABLE.replace("bo", "u").encode(),
    "v.csv": b"1,2,3\n",
    "w.csv": b"uid,time,tower\nu,2008-11-01T12:00:00Z,t1\n",
    "u.parquet": b"PAR1 not at all",
    "v.parquet": b"",
    "u.ndjson": b"{",
    "labels.txt": b"Start Time\tEnd Time\n",
    os.fsdecode(b"new_\xff.txt"): CAB.encode(),
    os.fsdecode(b"\xfe.gpx"): GPX.encode(),
}


def fixes(folder: Path) -> Counter[tuple[str, int, float, float]]:
    traces, _ = read_traces(folder)
    users = [str(traces.names[user]) for user in traces.user]
    columns = (traces.time.tolist(), traces.lon.tolist(), traces.lat.tolist())
    return Counter(zip(users, *columns, strict=True))


@pytest.mark.privacy
@pytest.mark.parametrize("kind", ["gpx", "geolife", "cabs", "tables", "nothing"])
@pytest.mark.parametrize("name", ODD_FILES)
def test_a_file_of_one_person_leaves_everybody_elses_fixes(
    tmp_path: Path, kind: str, name: str
) -> None:
    """With a file for every person, whichever file one of them has, of whatever kind."""
    if kind == "gpx":
        (tmp_path / "ada.gpx").write_text(GPX)
    elif kind == "geolife":
        geolife(tmp_path)
    elif kind == "cabs":
        (tmp_path / "new_abboip.txt").write_text(CAB)
    elif kind == "tables":
        (tmp_path / "bo.csv").write_text(TABLE)
    before = fixes(tmp_path)
    assert len(before) == {"gpx": 3, "geolife": 9, "cabs": 2, "tables": 1, "nothing": 0}[kind]
    try:
        (tmp_path / name).write_bytes(ODD_FILES[name])
    except OSError:
        pytest.skip("this file system refuses the name")
    after = fixes(tmp_path)
    assert before <= after
    assert not {row[0] for row in after - before} & {row[0] for row in before}


def test_folders_with_the_names_of_files_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "ada.gpx").write_text(GPX)
    for name in ("x.gpx", "x.plt", "new_x.txt", "x.csv"):
        (tmp_path / name).mkdir()
    assert len(read_traces(tmp_path)[0]) == 3


@pytest.mark.privacy
def test_an_empty_folder_and_a_header_alone_are_empty_traces(tmp_path: Path) -> None:
    assert len(read_traces(tmp_path)[0]) == 0
    (tmp_path / "t.csv").write_text("uid,time,lat,lon\n")
    assert len(read_traces(tmp_path / "t.csv")[0]) == 0


def test_metres_lie_off_the_globe() -> None:
    frame = pd.DataFrame(
        {"uid": [1, 1], "datetime": TIMES[:2], "lat": [5_000_000.0, 5_000_010.0], "lng": [4e5, 4e5]}
    )
    traces, found = read_traces(frame)
    assert len(traces) == 0
    assert found.off_the_globe == 2
