"""Release folders that somebody made to do harm, each with digests that fit.

`ATTACKS` has what is done to a folder; `folder` makes one that is in order.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from tests.published.asked import IDS, MONDAY, daily, hours, published

Attack = Callable[[Path], None]
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202eback\u2066\u2028end\ud800"
"""Sets a terminal's title, clears it, colours it; deletes; turns a line around and ends it."""
DEEP = 60_000
BOMB = 1 << 25
"""Numbers that a small file says it holds."""
TABLE, SHAPES, ERRORS = "density.parquet", "zones.geojson", "posterior.npz"
README = "Who made it\n\nPRIVACY\n\nNobody is hidden.\n"


def folder(path: Path) -> Path:
    """Four named zones, a day, a posterior, a README: as it should be."""
    from datetime import timedelta

    grid = hours(MONDAY, MONDAY + timedelta(days=1))
    published(path, grid, daily(grid))
    features = [
        {
            "type": "Feature",
            "properties": {"zone_id": key, "name": f"Place {key}", "district": "North"},
            "geometry": json.loads(shapely.to_geojson(shapely.box(k, 48, k + 1, 49))),
        }
        for k, key in enumerate(IDS)
    ]
    (path / SHAPES).write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    (path / "README.txt").write_text(README)
    reseal(path)
    return path


def reseal(path: Path, change: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """The manifest again, whatever it says, with the digests of what is there."""
    stated = json.loads((path / "manifest.json").read_text())
    change(stated)
    stated["files"] = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in path.iterdir()
        if file.is_file() and not file.is_symlink() and file.name != "manifest.json"
        if file.stat().st_size < 1 << 30
    } | stated.get("further", {})
    stated.pop("further", None)
    (path / "manifest.json").write_text(json.dumps(stated))


def _instead(name: str, make: Callable[[Path], None]) -> Attack:
    """Something else in the place of a file that the manifest lists."""

    def attack(path: Path) -> None:
        (path / name).unlink()
        if name != "manifest.json":
            reseal(path, lambda stated: stated.update(further={name: "0" * 64}))
        make(path / name)

    return attack


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _outside(path: Path) -> None:
    copy = path.parent.parent / f"{path.name}-elsewhere"
    copy.write_text("{}")
    path.symlink_to(copy)


KINDS: dict[str, Callable[[Path], None]] = {
    "an endless link": lambda path: path.symlink_to("/dev/zero"),
    "a link elsewhere": _outside,
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a terabyte": _sparse,
}


def _bytes(name: str, content: Callable[[bytes], bytes]) -> Attack:
    def attack(path: Path) -> None:
        (path / name).write_bytes(content((path / name).read_bytes()))
        if name != "manifest.json":
            reseal(path)

    return attack


def npz(members: dict[str, bytes], flags: int = 0, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive with these members, and these bits in its headers."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), data, zipfile.ZIP_DEFLATED)
    raw = bytearray(content.getvalue())
    at = -1
    while (at := raw.find(b"PK\1\2", at + 1)) >= 0:
        raw[at + 8] |= flags
        raw[at + 10 : at + 12] = struct.pack("<H", method)
    return bytes(raw)


def _header(shape: str, kind: str = "<f8", version: int = 1) -> bytes:
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}}}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes((version, 0)) + struct.pack("<H", len(text)) + text


def _claims(size: int) -> Callable[[bytes], bytes]:
    """The central directory says that every member is so large."""

    def change(raw: bytes) -> bytes:
        changed, at = bytearray(raw), -1
        while (at := changed.find(b"PK\1\2", at + 1)) >= 0:
            changed[at + 24 : at + 28] = struct.pack("<I", size)
        return bytes(changed)

    return change


def _parquet(change: Callable[[pa.Table], pa.Table]) -> Attack:
    def attack(path: Path) -> None:
        pq.write_table(change(pq.read_table(path / TABLE)), path / TABLE)
        reseal(path)

    return attack


def _with_ids(ids: list[Any]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(0, "zone_id", pa.array(np.repeat(np.array(ids, object), 24)))

    return change


def _many_rows(path: Path) -> None:
    """Ten million rows that pack to nothing."""
    times = pa.array([0], pa.timestamp("us", tz="UTC"))
    kinds = {"zone_id": pa.array(["a"]), "time_start": times, "time_end": times}
    table = pa.table(kinds | {"count": pa.array([0.0])})
    some = table.take(pa.array(np.zeros(1 << 21, np.int32)))
    with pq.ParquetWriter(path / TABLE, table.schema, compression="zstd") as file:
        for _ in range(5):
            file.write_table(some, row_group_size=1 << 21)
    reseal(path)


def _long_text(path: Path) -> None:
    """A text of a megabyte in each of many rows."""
    table = pq.read_table(path / TABLE)
    table = table.append_column("remark", pa.array(["x" * (1 << 20)] * table.num_rows))
    pq.write_table(table, path / TABLE, compression="zstd")
    reseal(path)


def _shapes(text: str) -> Attack:
    return _bytes(SHAPES, lambda _: text.encode())


def _stated(**privacy: Any) -> Attack:
    return lambda path: reseal(path, lambda stated: stated["privacy"].update(privacy))


def _event(**event: Any) -> Attack:
    def change(stated: dict[str, Any]) -> None:
        stated["privacy"]["measurements"][0]["event"] |= event

    return lambda path: reseal(path, change)


def _grid(**facts: Any) -> Attack:
    return lambda path: reseal(path, lambda stated: stated["grid"].update(facts))


_NESTED = '{"type":"GeometryCollection","geometries":[' * DEEP + "]}" * DEEP
_GEOMETRY = '{"type":"FeatureCollection","features":[{"properties":{"zone_id":"a"},"geometry":%s}]}'

REFUSED: dict[str, Attack] = {
    **{
        f"{kind} for {name}": _instead(name, make)
        for name in ("manifest.json", TABLE, SHAPES, ERRORS, "README.txt")
        for kind, make in KINDS.items()
    },
    "a manifest in a manifest, and so on": _bytes("manifest.json", lambda _: b'{"a":' * DEEP),
    "a manifest that is a list": _bytes("manifest.json", lambda _: b"[]"),
    "a manifest of no text": _bytes("manifest.json", lambda _: b"\xff\xfe\0"),
    "no measurement": _stated(measurements=[]),
    "epsilon 0": _stated(epsilon=0.0),
    "epsilon 0 for nothing": _stated(epsilon=0.0, rho=0.0, measurements=[], method="nothing"),
    "epsilon below 0": _stated(epsilon=-1.0),
    "epsilon not a number": _stated(epsilon=float("nan")),
    "epsilon without end": _stated(epsilon=float("inf"), delta=0.0, method="unbounded"),
    "a method that is none": _stated(method="trust me"),
    "an event that is none": _event(kind="trust me"),
    "an event without end": _event(sigma2="1e999999999"),
    "an event over nothing": _event(sigma2="1/0"),
    "an event with more": _event(further=1),
    "a clock that is a file": _grid(tz="../../../../dev/zero"),
    "a clock that is a folder": _grid(tz="."),
    "slots of no length": _grid(step_seconds=0),
    "slots without end": _grid(step_seconds=1e300),
    "slots of a length that is no number": _grid(step_seconds=float("nan")),
    "as many slots as none has": _grid(slots=10**30),
    "no slots": _grid(slots=0),
    "a file elsewhere": lambda path: reseal(
        path, lambda stated: stated.update(further={"../a-elsewhere": "0" * 64})
    ),
    "ids that command": _parquet(_with_ids([f"\x1b[31m{key}" for key in IDS])),
    "ids that turn around": _parquet(_with_ids([f"{key}\u202e" for key in IDS])),
    "ids twice": _parquet(_with_ids(["a", "a", "b", "c"])),
    "no ids": _parquet(_with_ids([None] * 4)),
    "ids of bytes": _parquet(_with_ids([b"\xff\xfe", b"b", b"c", b"d"])),
    "counts of text": _parquet(
        lambda table: table.set_column(3, "count", pa.array(["x"] * table.num_rows))
    ),
    "times of text": _parquet(
        lambda table: table.set_column(1, "time_start", pa.array(["x"] * table.num_rows))
    ),
    "no column": _parquet(lambda table: table.drop_columns(["count"])),
    "a table that is none": _bytes(TABLE, lambda raw: b"PAR1" + raw[::-1]),
    "a table cut short": _bytes(TABLE, lambda raw: raw[: len(raw) // 2]),
    "outlines that nest": _shapes("[" * DEEP),
    "outlines in outlines": _shapes(_GEOMETRY % _NESTED),
    "properties that nest": _shapes(
        '{"features":[{"properties":%s}]}' % ('{"a":' * DEEP + "1" + "}" * DEEP)
    ),
    "outlines that are none": _shapes('{"features": 7}'),
    "an outline with no end": _shapes(
        _GEOMETRY % '{"type":"Polygon","coordinates":[[[1e999,0],[1,1],[2,0],[1e999,0]]]}'
    ),
    "a posterior that is none": _bytes(ERRORS, lambda _: b"PK\3\4" + bytes(400)),
    "a posterior cut short": _bytes(ERRORS, lambda raw: raw[: len(raw) // 2]),
    "a posterior with a password": _bytes(ERRORS, lambda _: npz({"level": _header("(0,)")}, 1)),
    "a posterior packed otherwise": _bytes(
        ERRORS, lambda _: npz({"level": _header("(0,)")}, method=97)
    ),
    "a posterior of objects": _bytes(
        ERRORS, lambda _: npz({"level": _header("(1,)", "|O") + b"cos\nsystem\n"})
    ),
    "a posterior of another version": _bytes(
        ERRORS, lambda _: npz({"level": _header("(1,)", version=9)})
    ),
    "a posterior without members": _bytes(ERRORS, lambda _: npz({})),
    "a posterior whose header nests": _bytes(
        ERRORS, lambda _: npz({"level": _header("(" * 5_000)})
    ),
}
"""Something refuses each of these, and nothing does otherwise than refuse or read it."""

LARGE: dict[str, Attack] = {
    "rows": _many_rows,
    "long texts": _long_text,
    "an array that says so": _bytes(ERRORS, lambda _: npz({"level": _header(f"({BOMB},)")})),
    "an array that is": _bytes(
        ERRORS, lambda _: npz({"level": _header(f"({BOMB},)", "|u1") + bytes(BOMB)})
    ),
    "an archive that says so": _bytes(ERRORS, _claims(2_000_000_000)),
    "many arrays": _bytes(
        ERRORS,
        lambda _: npz({f"a{k}": _header("(4000000,)", "|u1") + bytes(4_000_000) for k in range(9)}),
    ),
    "places": _grid(slots=BOMB),
}
"""Small files that would take much memory."""


def name_everything(path: Path) -> None:
    """Every text that is not a key holds what commands a terminal."""
    text = json.loads((path / SHAPES).read_text())
    for feature in text["features"]:
        feature["properties"] |= {"name": EVIL, "district": EVIL}
    (path / SHAPES).write_text(json.dumps(text))
    (path / "README.txt").write_bytes(README.replace("hidden", EVIL).encode("utf-8", "replace"))
    (path / "README.txt").write_bytes(
        (path / "README.txt").read_bytes() + b"\xc2\x9b31m \x1b[2J \xff"
    )

    def change(stated: dict[str, Any]) -> None:
        stated["release"] |= {"name": EVIL, "dataset": EVIL, "id": EVIL}
        stated["about"] = dict.fromkeys(("title", "publisher", "contact"), EVIL)
        stated["caveats"], stated["not_covered"] = [EVIL], [EVIL]
        stated["privacy"] |= {"bound": EVIL, "neighbours": EVIL, "unit": EVIL}
        stated["privacy"]["measurements"][0]["label"] = EVIL
        stated["privacy"]["cumulative"] |= {"datasets": [EVIL], "caps": [EVIL]}
        stated["scheme"]["name"] = EVIL
        stated["public_inputs"] = {EVIL: EVIL}
        stated["software"] = {"sfumato": EVIL}
        stated["ledger"]["id"] = EVIL

    reseal(path, change)
