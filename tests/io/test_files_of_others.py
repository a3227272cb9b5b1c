"""Files of places and lists of questions from somebody else: read or refused, and never the end."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from sfumato.attacks.queries.logged_page import read_log
from sfumato.errors import InputError, SfumatoError
from sfumato.io import foreign
from sfumato.io.zones import read_zones
from sfumato.model.places import PlaceKind, Places
from sfumato.queries.query import _content
from sfumato.streams.public_inputs import _dates_of
from sfumato_lab.syntactic.answers import _texts

DEEP = 60_000
BUDGET = 16 << 20
_VRT = '<OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource>%s</SrcDataSource></OGRVRTLayer>'
_NESTED = '{"type":"GeometryCollection","geometries":[' * DEEP + "]}" * DEEP


def _zipped(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "zones.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, content)
        return path

    return make


def _file(name: str, content: bytes | str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


def _link(folder: Path) -> Path:
    (folder / "zones.geojson").symlink_to("/dev/zero")
    return folder / "zones.geojson"


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "zones.geojson")
    return folder / "zones.geojson"


def _geoparquet(shape: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        column = {"encoding": "WKB", "geometry_types": []}
        about = {"version": "1.0.0", "primary_column": "geometry", "columns": {"geometry": column}}
        table = pa.table({"zone_id": ["a"], "geometry": [shape]})
        table = table.replace_schema_metadata({"geo": json.dumps(about)})
        pq.write_table(table, folder / "zones.parquet")
        return folder / "zones.parquet"

    return make


def _many_rows(folder: Path) -> Path:
    table = pa.table({"zone_id": pa.array([7] * (1 << 20))})
    with pq.ParquetWriter(folder / "zones.parquet", table.schema, compression="zstd") as file:
        for _ in range(4):
            file.write_table(table)
    return folder / "zones.parquet"


FILES: dict[str, Callable[[Path], Path]] = {
    "an endless link": _link,
    "a pipe": _pipe,
    "outlines in outlines": _file(
        "zones.geojson",
        '{"type":"FeatureCollection","features":[{"type":"Feature","geometry":' + _NESTED + "}]}",
    ),
    "brackets": _file("zones.geojson", "[" * DEEP),
    "shapes in shapes": _geoparquet(
        b"\x01\x07\0\0\0\x01\0\0\0" * DEEP + shapely.to_wkb(shapely.Point(1, 2))
    ),
    "rows": _many_rows,
    "a file of other files": _file("zones.vrt", _VRT % "/etc/passwd"),
    "the same under another name": _file("zones.geojson", "\n " + _VRT % "/etc/passwd"),
    "the same in an archive": _zipped("zones.vrt", (_VRT % "/etc/passwd").encode()),
    "an archive": _zipped("zones.geojson", bytes(4 * BUDGET)),
    "a packed table": _file("zones.csv.gz", b"zone_id\n" and gzip.compress(bytes(4 * BUDGET), 1)),
    "no archive": _file("zones.zip", b"PK\3\4" + bytes(99)),
}


def test_no_file_of_places_ends_the_process_or_fills_the_memory(tmp_path: Path) -> None:
    """In a child: a shape that nests takes the process with it where it is not refused."""
    paths = []
    for k, make in enumerate(FILES.values()):
        (tmp_path / str(k)).mkdir()
        paths.append(str(make(tmp_path / str(k))))
    script = (
        "import json, resource, sys\n"
        "from sfumato.errors import SfumatoError\n"
        "from sfumato.io import foreign; from sfumato.io.zones import read_zones\n"
        "from sfumato.published.selection import as_polygon\n"
        f"foreign.UNPACKED = {BUDGET}\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10\n"
        "before = peak()\n"
        "for path in json.loads(sys.argv[1]):\n"
        "    for read in (read_zones, as_polygon):\n"
        "        try: read(path); print('read', path, flush=True)\n"
        "        except SfumatoError: print('refused', peak() - before, flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(paths)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (lines, done.stderr[-300:])
    assert len(lines) == 2 * len(FILES)
    assert all(line.startswith("refused") for line in lines), lines
    assert max(int(line.split()[1]) for line in lines) < 6 * BUDGET >> 20, lines


def test_a_link_to_a_file_that_the_user_names_is_followed(tmp_path: Path) -> None:
    shape = json.loads(shapely.to_geojson(shapely.box(2, 48, 3, 49)))
    feature = {"type": "Feature", "properties": {"zone_id": "a"}, "geometry": shape}
    (tmp_path / "real.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "features": [feature]})
    )
    (tmp_path / "zones.geojson").symlink_to(tmp_path / "real.geojson")
    assert read_zones(tmp_path / "zones.geojson").ids.tolist() == ["a"]
    with pytest.raises(InputError, match="link"):
        foreign.contents(tmp_path / "zones.geojson")


@pytest.mark.parametrize("make", [_link, _pipe])
def test_lists_of_others_are_files(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    for read in (read_log, _content, _dates_of, _texts):
        with pytest.raises(SfumatoError):
            read(path)


def test_ids_can_be_shown_and_names_are_made_so() -> None:
    box = [shapely.box(2, 48, 3, 49)]
    with pytest.raises(InputError, match="cannot be shown"):
        Places.of(PlaceKind.ZONES, ["a\x1b[31m"], box)
    found = Places.of(PlaceKind.ZONES, ["a"], box, ["\u202eback\x9b"])
    assert found.names.tolist() == ["\\u202eback\\x9b"]
