"""Damaged files of every format, read in a process of their own, where a signal is a failure.

`good_files` writes each format of the registry under each ending that it has, and places in every
form in which they are read; Parquet in all its codings. `mutant` spoils one by its seed alone, of
Parquet mostly the footer. `tried` has them read by a child: one file *found* in a folder beside a
good one, as a release, a stream, traces and `inspect` read it. The good one must keep its rows.
Where the child dies, the seed that it had begun is a failure, and the next child goes on behind it.

    python -m tests.fuzz.files FOLDER FIRST LAST    # a child: FOLDER holds the good files
"""

from __future__ import annotations

import gzip
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.io.mutate import BYTES, TOWERS, ZONES, Chance
from tests.io.mutate import good_files as city

from sfumato.errors import SfumatoError
from sfumato.io.events import FORMATS, all_rows, read_events, resolved, rows_of
from sfumato.io.inspect import look
from sfumato.io.parquet import Parquet, parquet_layout
from sfumato.io.towers import read_towers
from sfumato.io.traces import read_traces
from sfumato.io.zones import read_zones
from sfumato.model.places import Places
from sfumato.streams.input import Options, Unfit, file_rows

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60
"""Seconds for a file; then an alarm ends the child, which is a signal like any other."""
PEOPLE, HOURS = 20, 12
ROWS = PEOPLE * HOURS
TOWERS_ONLY, EMPTY = "towers only", "empty"


def _table() -> Any:
    people = np.repeat(np.arange(PEOPLE), HOURS)
    hours = np.tile(np.arange(HOURS), PEOPLE)
    return pa.table(
        {
            "user": [f"u{k * 7919:020d}" for k in people],
            "time": [f"2008-02-04T{hour:02}:30:00Z" for hour in hours],
            "lon": 116.3 + (people + hours) % 9 / 100,
            "lat": 39.9 + people % 9 / 100,
        }
    )


def _lines(line: str, header: str = "") -> str:
    rows = zip(*(column.to_pylist() for column in _table().columns), strict=True)
    return header + "".join(
        line.format(u=user, d=time[:10], t=time[11:19], lon=lon, lat=lat, s=1_202_083_200 + 60 * k)
        for k, (user, time, lon, lat) in enumerate(rows)
    )


_PLT = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track\n0\n"
_POINT = '<trkpt lat="{lat}" lon="{lon}"><time>{d}T{t}Z</time></trkpt>'
PLACES: dict[str, Callable[[Path], Places]] = {
    "towers": lambda path: read_towers(path, tz="UTC"),
    "zones": read_zones,
}
TEXTS: dict[str, Callable[[], str]] = {
    "tdrive": lambda: _lines("1,{d} {t},{lon},{lat}\n"),
    "cabspotting": lambda: _lines("{lat} {lon} 0 {s}\n"),
    "geolife": lambda: _lines("{lat},{lon},0,492,39744.12,{d},{t}\r\n", _PLT),
    "gpx": lambda: (
        '<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>'
        f"{_lines(_POINT)}</trkseg></trk></gpx>"
    ),
    "ndjson": lambda: _lines('{{"user":"{u}","time":"{d}T{t}Z","lon":{lon},"lat":{lat}}}\n'),
} | {
    name: lambda mark=mark: _lines(
        mark.join(("{u}", "{d}T{t}Z", "{lon}", "{lat}")) + "\n",
        mark.join(("user", "time", "lon", "lat")) + "\n",
    )
    for name, mark in (("csv", ","), ("tsv", "\t"), ("ssv", ";"), ("psv", "|"))
}
"""What stands in a file of each format of lines, by the format's name."""


def _parquet(folder: Path) -> Iterable[Path]:
    """In all codings that writers choose, some by DuckDB, with row groups that are empty too."""
    table = _table()
    placed = table.drop_columns(["lon", "lat"]).append_column("tower", [["t1", "t2"] * (ROWS // 2)])
    typed = table.set_column(1, "time", table["time"].cast(pa.timestamp("us", "UTC")))
    whole = typed.set_column(0, "user", pa.array(range(ROWS), pa.int64()))
    nested = table.append_column("more", pa.array([[{"a": k}] for k in range(ROWS)]))
    coded = {"user": "DELTA_BYTE_ARRAY"}
    small: dict[str, Any] = {"data_page_size": 2_000, "row_group_size": 300}
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "plain": (table, {"use_dictionary": False, "store_schema": False, **small}),
        f"dictionary {TOWERS_ONLY}": (placed, {"row_group_size": 300}),
        "zstd": (table, {"compression": "zstd", "write_page_checksum": True, **small}),
        f"gzip {TOWERS_ONLY}": (placed, {"compression": "gzip", **small}),
        f"texts {TOWERS_ONLY}": (placed, {"use_dictionary": False, "store_schema": False, **small}),
        "bare": (table, {"compression": "none", "data_page_version": "2.0", **small}),
        "old": (typed, {"use_deprecated_int96_timestamps": True, **small}),
        "numbers": (whole, {"use_dictionary": False}),
        "nested": (nested, small),
        EMPTY: (table.slice(0, 0), {}),
        "delta": (table, {"use_dictionary": False, "column_encoding": coded}),
    }
    for name, (rows, options) in ways.items():
        path = folder / f"parquet {name}.parquet"
        with pq.ParquetWriter(path, rows.schema, **_writer(options)) as sink:
            sink.write_table(rows, row_group_size=options.get("row_group_size"))
            sink.write_table(rows.slice(0, 0))
        yield path
    path = folder / "parquet duckdb.parquet"
    with duckdb.connect() as db:
        db.register("rows", table)
        db.execute(f"COPY rows TO '{path}' (FORMAT parquet)")
    yield path


def _writer(options: dict[str, Any]) -> dict[str, Any]:
    return {name: option for name, option in options.items() if name != "row_group_size"}


def good_files(folder: Path) -> list[Path]:
    """A file of each kind, "format and so on.ending", and places, "towers.csv"."""
    paths = list(_parquet(folder))
    for each in FORMATS.values():
        if each.name == Parquet.name:
            continue
        for ending in each.endings:
            path = folder / f"{each.name}{ending}"
            content = TEXTS[each.name]().encode()
            path.write_bytes(
                gzip.compress(content, 6, mtime=0) if ending[-3:] == ".gz" else content
            )
            paths.append(path)
    for name, path in city(folder / "places").items():
        if name in (*TOWERS, *ZONES):
            paths.append(path)
        else:
            path.unlink()
    return paths


def _footer(content: bytes, chance: Chance) -> bytes:
    """One to three bytes of what Parquet knows about itself."""
    end = len(content) - 8
    begin = max(0, end - int.from_bytes(content[end : end + 4], "little"))
    return _struck(content, begin, end, chance)


def _struck(content: bytes, begin: int, end: int, chance: Chance) -> bytes:
    spoiled = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        at = chance.randrange(begin, end)
        spoiled[at] = chance.choice([spoiled[at] ^ 1 << chance.randrange(8), chance.randrange(256)])
    return bytes(spoiled)


def mutant(content: bytes, name: str, chance: Chance) -> bytes:
    """A spoiled copy: of Parquet mostly the footer, of a packed file also what is in it."""
    if content[:4] == b"PAR1" and chance.random() < 0.75:
        return _footer(content, chance)
    if name.endswith(".gz") and chance.random() < 0.5:
        return gzip.compress(chance.choice(BYTES)(gzip.decompress(content), chance), 1, mtime=0)
    return chance.choice(BYTES)(content, chance)


def read(path: Path, good: Path) -> int:
    """Rows of a file that was found beside a good one, by every reader; for places, how many.

    A file that was found is refused by none: only places are named, and may be.

    Raises:
        AssertionError: the good file lost rows, or two readers read otherwise.
    """
    kind = kind_of(good)
    if kind in PLACES:
        with suppress(SfumatoError):
            return len(PLACES[kind](path))
        return 0
    zones = TOWERS_ONLY not in good.name
    streamed = file_rows(path, Options(zones=zones, tz="UTC", format=kind))
    described = read_events(path.parent, tz="UTC", format=kind)
    if zones:
        read_traces(path.parent, tz="UTC", format=kind)
    parts, events = all_rows(resolved(described, zones), described.user)
    rows = {
        part.label: sum(some.rows for some in of)
        for part, of in zip(events.parts, parts, strict=True)
    }
    wanted = 0 if EMPTY in good.name else ROWS
    assert rows[str(path.parent / good.name)] == wanted, "the good file lost rows"
    for part in events.parts:
        list(rows_of(replace(events, parts=(part,)), dictionaries=True))
        FORMATS[kind].expected_rows(Path(part.label))
    with suppress(SfumatoError):
        if kind == Parquet.name:
            parquet_layout(path)
    look(path.parent, tz="UTC", format=kind)
    counted = sum(0 if isinstance(some, Unfit) else some.rows for some in streamed)
    assert counted == rows.get(str(path), 0), "a stream reads otherwise"
    return counted


def kind_of(good: Path) -> str:
    return good.name.split(".")[0].split(" ")[0]


BEGUN, ROWS_READ, NOTHING, FAULT = "begun", "rows", "nothing", "fault"


@dataclass
class Verdicts:
    """What came of the files by kind and outcome, and what is wrong with readers by seed."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: dict[int, str] = field(default_factory=dict)

    def add(self, kind: str, outcome: str, seed: int, fault: str) -> None:
        self.outcomes[kind, outcome] += 1
        if outcome == FAULT:
            self.faults[seed] = fault


PROGRAM = (sys.executable, "-m", "tests.fuzz.files")


def tried(home: Path, first: int, files: int, program: Sequence[str] = PROGRAM) -> Verdicts:
    """Mutants from `first` on, each read in a child; behind one that ends it, in another child."""
    verdicts, seed = Verdicts(), first
    while seed < first + files:
        command = [*program, str(home), str(seed), str(first + files)]
        child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        begun: tuple[int, str] | None = None
        for line in child.stdout.splitlines():
            outcome, number, kind, fault = f"{line}   ".split(" ", 3)
            seed = int(number)
            if outcome == BEGUN:
                begun = seed, kind
            else:
                begun = None
                verdicts.add(kind, outcome, seed, fault.strip())
        if begun is not None:
            verdicts.add(begun[1], FAULT, seed, f"exit {child.returncode}: {child.stderr[-300:]}")
        elif child.returncode != 0:
            raise RuntimeError(child.stderr)
        seed += 1
    return verdicts


def main(home: Path, first: int, last: int) -> None:
    """The child: says what it begins, so that whoever waits knows where it died."""
    good = sorted(path for path in home.rglob("*") if path.is_file())
    # Half of all files are Parquet: its readers are compiled, and not ours.
    kinds = [[p for p in good if (kind_of(p) == Parquet.name) == asked] for asked in (True, False)]
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(first, last):
            chance = random.Random(f"file/{seed}")
            base = chance.choice(kinds[seed % 2])
            folder = Path(scratch) / "found"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            path = folder / f"{chance.choice('az')} {base.name}"
            shutil.copy(base, folder / base.name)
            path.write_bytes(mutant(base.read_bytes(), base.name, chance))
            kind = kind_of(base)
            print(BEGUN, seed, kind, flush=True)
            signal.alarm(PATIENCE_S)
            try:
                print(ROWS_READ if read(path, base) else NOTHING, seed, kind)
            except BaseException:
                said = traceback.format_exc(limit=-3).replace("\n", " / ")
                print(FAULT, seed, kind, f"{base.name}: {said}")
            signal.alarm(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
