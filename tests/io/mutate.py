"""A small fuzzer: good files of events, towers and zones, and ways to spoil them.

Everything follows from a seed. `good_files(folder)` writes one small city in every format;
`mutate(path, seed, folder)` writes a spoiled copy and says what was done to it. Bytes are cut,
flipped and stuffed in any file; tables lose columns, change types and get impossible values;
shapes cross themselves, swap their axes and leave the Earth.
"""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geopandas
import pandas as pd
import shapely

EVENTS = ("events.csv", "events.parquet", "fixes.csv", "fixes.parquet")
TOWERS = ("towers.csv", "towers.parquet", "towers.geojson")
ZONES = ("zones.geojson", "zones.gpkg", "zones.parquet")
SIDE, WEST, SOUTH = 0.02, 2.30, 48.84
PERIOD = (pd.Timestamp("2024-03-25", tz="UTC"), pd.Timestamp("2024-04-01", tz="UTC"))
"""All events of the good files fall into this week."""

Frame = pd.DataFrame
Chance = random.Random


def good_files(folder: Path, users: int = 30, seed: int = 7) -> dict[str, Path]:
    """The same little city, by name, in every format that is read."""
    folder.mkdir(exist_ok=True)
    chance = Chance(seed)
    towers = Frame(
        {
            "tower_id": [f"T{k:02}" for k in range(9)],
            "lon": [WEST + SIDE * (k % 3 + 0.5) for k in range(9)],
            "lat": [SOUTH + SIDE * (k // 3 + 0.5) for k in range(9)],
        }
    )
    corners = [(WEST + SIDE * (k % 3), SOUTH + SIDE * (k // 3)) for k in range(9)]
    shapes = [shapely.box(x, y, x + SIDE, y + SIDE) for x, y in corners]
    zones = geopandas.GeoDataFrame(
        {"zone_id": [f"Z{k:02}" for k in range(9)], "name": list("abcdefghi")},
        geometry=shapes,
        crs="EPSG:4326",
    )
    rows = []
    for user in range(users):
        for _ in range(chance.randint(1, 12)):
            second = chance.randrange(7 * 86_400)
            rows.append(
                (f"u{user:03}", PERIOD[0] + pd.Timedelta(seconds=second), chance.randrange(9))
            )
    who, when, where = (list(part) for part in zip(*rows, strict=True))
    events = Frame({"user_id": who, "timestamp": when, "tower_id": [f"T{k:02}" for k in where]})
    fixes = Frame(
        {
            "uid": [int(text[1:]) for text in who],
            "datetime": when,
            "lat": [towers["lat"][k] for k in where],
            "lng": [towers["lon"][k] for k in where],
        }
    )
    for name, frame in (("events", events), ("fixes", fixes), ("towers", towers)):
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame.to_parquet(folder / f"{name}.parquet", index=False)
    points = geopandas.points_from_xy(towers["lon"], towers["lat"], crs="EPSG:4326")
    geopandas.GeoDataFrame(towers[["tower_id"]], geometry=points).to_file(
        folder / "towers.geojson", driver="GeoJSON"
    )
    zones.to_file(folder / "zones.geojson", driver="GeoJSON")
    zones.to_file(folder / "zones.gpkg")
    zones.to_parquet(folder / "zones.parquet")
    return {name: folder / name for name in (*EVENTS, *TOWERS, *ZONES)}


# --- any file: bytes -------------------------------------------------------------------------


def truncate(content: bytes, chance: Chance) -> bytes:
    return content[: chance.randrange(len(content))]


def flip_bytes(content: bytes, chance: Chance) -> bytes:
    spoiled = bytearray(content)
    for _ in range(chance.choice([1, 3, 30])):
        spoiled[chance.randrange(len(spoiled))] ^= 1 << chance.randrange(8)
    return bytes(spoiled)


def flip_the_end(content: bytes, chance: Chance) -> bytes:
    """The end is where Parquet keeps what it knows about itself."""
    at = max(0, len(content) - chance.choice([16, 200, 600]))
    return content[:at] + flip_bytes(content[at:], chance)


def stuff(content: bytes, chance: Chance) -> bytes:
    at = chance.randrange(len(content))
    junk = chance.choice([b"\0" * 9, b"\xff\xfe", b'"', b"\n\n", b",,,,", chance.randbytes(40)])
    return content[:at] + junk + content[at:]


def cut_out(content: bytes, chance: Chance) -> bytes:
    at = chance.randrange(len(content))
    return content[:at] + content[at + chance.randint(1, 50) :]


def only_junk(content: bytes, chance: Chance) -> bytes:
    return chance.randbytes(min(len(content), 500))


def nothing(content: bytes, chance: Chance) -> bytes:  # noqa: ARG001 - one signature for all
    return b""


BYTES = (truncate, flip_bytes, flip_the_end, stuff, cut_out, only_junk, nothing)

# --- tables ----------------------------------------------------------------------------------


def drop_column(frame: Frame, chance: Chance) -> Frame:
    return frame.drop(columns=[chance.choice(list(frame.columns))])


def rename_column(frame: Frame, chance: Chance) -> Frame:
    old = chance.choice(list(frame.columns))
    return frame.rename(columns={old: chance.choice(["", "x", "user", "TIME", "lon", "bs", "été"])})


def double_column(frame: Frame, chance: Chance) -> Frame:
    name = chance.choice(list(frame.columns))
    return frame.assign(**{f"{name.upper()}": frame[name]})


def change_type(frame: Frame, chance: Chance) -> Frame:
    name = chance.choice(list(frame.columns))
    kinds: list[Callable[[Any], Any]] = [str, lambda v: len(str(v)), lambda v: len(str(v)) / 3,
                                         lambda _: True, lambda v: str(v).encode()]  # fmt: skip
    return frame.assign(**{name: [chance.choice(kinds[:1] + kinds)(v) for v in frame[name][:1]]
                           * len(frame)})  # fmt: skip


def impossible_numbers(frame: Frame, chance: Chance) -> Frame:
    numeric = [name for name in frame.columns if pd.api.types.is_float_dtype(frame[name])]
    name = chance.choice(numeric or list(frame.columns))
    value = chance.choice([math.nan, math.inf, -math.inf, 1e308, 91.0, 181.0, -1e-300])
    return _some(frame, name, value, chance)


def missing_values(frame: Frame, chance: Chance) -> Frame:
    return _some(frame, chance.choice(list(frame.columns)), None, chance)


def far_future(frame: Frame, chance: Chance) -> Frame:
    times = [name for name in ("timestamp", "datetime") if name in frame.columns]
    name = times[0] if times else chance.choice(list(frame.columns))
    text = chance.choice(
        ["9999-12-31 23:59:59+00:00", "2262-04-12 00:00:00Z", "0001-01-01 00:00:00Z",
         "2024-02-30 00:00:00Z", "2024-03-31 02:30:00", "294247-01-10 04:00:54Z", "infinity"]
    )  # fmt: skip
    return _some(frame.assign(**{name: frame[name].astype(str)}), name, text, chance)


def epoch_numbers(frame: Frame, chance: Chance) -> Frame:
    times = [name for name in ("timestamp", "datetime") if name in frame.columns]
    if not times:
        return frame.head(0)
    scale = chance.choice([1, 10**3, 10**6, 10**9])
    numbers = [int(moment.timestamp()) * scale for moment in pd.to_datetime(frame[times[0]])]
    numbers[chance.randrange(len(numbers))] = chance.choice([0, -1, 2**62, 10**12, 10**9])
    return frame.assign(**{times[0]: numbers})


def naive_times(frame: Frame, chance: Chance) -> Frame:
    for name in ("timestamp", "datetime"):
        if name in frame.columns:
            naive = pd.to_datetime(frame[name]).dt.tz_localize(None)
            return frame.assign(**{name: naive if chance.random() < 0.5 else naive.astype(str)})
    return frame.iloc[::-1]


def swap_axes(frame: Frame, chance: Chance) -> Frame:
    pairs = {"lon": "lat", "lat": "lon", "lng": "lat"}
    if "lng" in frame.columns:
        pairs = {"lng": "lat", "lat": "lng"}
    turned = frame.rename(columns=pairs)
    return turned if chance.random() < 0.5 else turned.iloc[::-1]


def no_rows(frame: Frame, chance: Chance) -> Frame:
    return frame.head(chance.choice([0, 0, 1]))


def repeat_rows(frame: Frame, chance: Chance) -> Frame:
    return pd.concat([frame, frame.sample(3, random_state=chance.randrange(99))])


def _some(frame: Frame, name: str, value: Any, chance: Chance) -> Frame:
    values = list(frame[name])
    for _ in range(chance.choice([1, 2, len(values)])):
        values[chance.randrange(len(values))] = value
    return frame.assign(**{name: values})


TABLES = (
    drop_column, rename_column, double_column, change_type, impossible_numbers, missing_values,
    far_future, epoch_numbers, naive_times, swap_axes, no_rows, repeat_rows,
)  # fmt: skip

# --- shapes ----------------------------------------------------------------------------------


def cross_itself(features: list[Any], chance: Chance) -> None:
    ring = _ring(features, chance)
    ring[1], ring[2] = ring[2], ring[1]


def swap_all_axes(features: list[Any], chance: Chance) -> None:
    shift = chance.choice([0.0, 100.0])
    for feature in features:
        for point in _points(feature["geometry"]["coordinates"]):
            point[0], point[1] = point[1] + shift, point[0] + shift


def bad_number(features: list[Any], chance: Chance) -> None:
    _ring(features, chance)[1][0] = chance.choice([math.nan, math.inf, 1e300, "2.3", None, 361])


def no_shape(features: list[Any], chance: Chance) -> None:
    feature = chance.choice(features)
    feature["geometry"] = chance.choice(
        [None, {}, {"type": "Polygon", "coordinates": []}, {"type": "Circle", "coordinates": [1]},
         {"type": "Polygon", "coordinates": [[[2.3, 48.8], [2.4, 48.8]]]}]
    )  # fmt: skip


def other_shape(features: list[Any], chance: Chance) -> None:
    chance.choice(features)["geometry"] = {"type": "LineString", "coordinates": [[2, 48], [3, 49]]}


def no_id(features: list[Any], chance: Chance) -> None:
    properties = chance.choice(features)["properties"]
    properties[next(iter(properties))] = chance.choice([None, "", 7, 7.5, [1], {"a": 1}])


def same_id(features: list[Any], chance: Chance) -> None:
    a, b = chance.sample(features, 2)
    a["properties"] = dict(b["properties"])


def overlap(features: list[Any], chance: Chance) -> None:
    a, b = chance.sample(features, 2)
    a["geometry"] = json.loads(json.dumps(b["geometry"]))


def _ring(features: list[Any], chance: Chance) -> list[Any]:
    at = chance.choice(features)["geometry"]["coordinates"]
    while isinstance(at[0], list) and isinstance(at[0][0], list):
        at = at[0]
    return at if isinstance(at[0], list) else [list(at), at, list(at)]


def _points(at: list[Any]) -> list[list[float]]:
    if not isinstance(at[0], list):
        return [at]
    return [point for part in at for point in _points(part)]


SHAPES = (cross_itself, swap_all_axes, bad_number, no_shape, other_shape, no_id, same_id, overlap)


def mutate(path: Path, seed: int, folder: Path) -> tuple[Path, str]:
    """A spoiled copy of a good file in `folder`, and the name of what was done."""
    chance = Chance(f"{path.name}/{seed}")
    out = folder / f"{path.stem}-{seed}{path.suffix}"
    is_table = path.suffix in (".csv", ".parquet") and not path.name.startswith("zones")
    deep: tuple[Any, ...] = TABLES if is_table else SHAPES if path.suffix == ".geojson" else ()
    change = chance.choice(BYTES * 2 + deep * 3)
    if change in TABLES:
        _mutate_table(path, out, change, chance)
    elif change in SHAPES:
        parsed = json.loads(path.read_text())
        change(parsed["features"], chance)
        out.write_text(json.dumps(parsed))
    else:
        out.write_bytes(change(path.read_bytes(), chance))
    return out, f"{change.__name__} on {path.name} (seed {seed})"


def _mutate_table(path: Path, out: Path, change: Any, chance: Chance) -> None:
    frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    spoiled = change(frame, chance)
    if path.suffix == ".csv":
        spoiled.to_csv(out, index=False)
        return
    try:
        spoiled.to_parquet(out, index=False)
    except Exception:  # pandas cannot store every nonsense; as text it can
        if len(set(spoiled.columns)) < len(spoiled.columns):
            shutil.copy(path, out)
        else:
            spoiled.astype(str).to_parquet(out, index=False)
