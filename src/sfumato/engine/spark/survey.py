"""One scan that counts nothing yet: the input's fingerprint and its size. In SQL alone.

Rows on a cluster have no order and files no meaning, so the digest is of the *multiset* of rows
as they are stored: two 64-bit hashes (xxHash64 under secret seeds) of each row's values, or of a
line's bytes, the two halves of each, taken as signed numbers, added up over all rows as exact
integers (which cancel, so that no number of rows makes the sums too large), then one keyed
BLAKE2b over the sums and numbers of rows of all parts that are read alike, how they are read,
the places and the grid. Shuffled rows and other Parquet files give the same text; a changed,
added or doubled row another one, up to a chance of about 2^-128 for changes made without the
key. A text file's header is one of its lines, so that lines in more files are another input. It
guards against data that changes between two runs, as the fingerprint of files does, not against
a holder who forges his own data. Without the key nobody can test a guess about the records. It
is not the fingerprint of the local engine; a reservation of the other one is recognised by
computing its name (`here`, and `SparkSource.fingerprints_elsewhere`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.engine.spark.files import NUMBER, is_text
from sfumato.engine.spark.rows import Part, Scan
from sfumato.engine.spark.session import without_records
from sfumato.io.tables import quoted
from sfumato.model.events import EventFile, Reading
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid

_SUMS = ("h1_high", "h1_low", "h2_high", "h2_low")
Sums = tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Survey:
    """What the scan found: (rows, four sums) of all parts that are read alike. Internal."""

    sums: dict[str, Sums]
    longest: int = 0
    """Bytes of the longest row's texts: how many rows fit a batch. No answer depends on it."""

    def __repr__(self) -> str:
        return "<internal survey>"

    @property
    def rows(self) -> int:
        return sum(rows for rows, *_ in self.sums.values())


def seeds_of(key: bytes) -> tuple[int, int]:
    """Secret seeds of the row hashes: they say nothing about the key."""
    digest = hashlib.blake2b(key=hashlib.sha256(key).digest(), digest_size=16, person=b"row hash")
    first, second = np.frombuffer(digest.digest(), "<i8")
    return int(first), int(second)


def survey(scans: Sequence[Scan], key: bytes) -> Survey:
    """Scan everything once."""
    totals: dict[str, Sums] = {}
    longest = 0
    for scan in scans:
        for number, (long, *sums) in _summed(scan, seeds_of(key)).items():
            longest = max(longest, long)
            how = how_read(scan, scan.parts[number])
            before = totals.get(how, (0,) * len(sums))
            totals[how] = tuple(a + b for a, b in zip(before, sums, strict=True))
    return Survey(totals, longest)


def _summed(scan: Scan, seeds: tuple[int, int]) -> dict[int, Sums]:
    """Longest row, rows and sums of hashes, by the number of the part."""
    sums = [
        part
        for name in ("h1", "h2")
        for part in (
            f"sum(shiftright({name}, 32)) AS {name}_high",
            f"sum(({name} & 4294967295L) - 2147483648L) AS {name}_low",
        )
    ]
    with without_records(scan.one.label):
        from pyspark.sql.functions import expr

        given = [_bytes(scan), *(_hash(scan, seed) for seed in seeds)]
        hashes = [f"{e} AS {n}" for e, n in zip(given, ("long", "h1", "h2"), strict=True)]
        # Sums of all rows stay in registers; by a number, even by one, each row is looked up.
        rows = scan.frame.selectExpr(*([f"{NUMBER} AS file"] if scan.by_file else []), *hashes)
        asked = [expr(text) for text in ("max(long) AS longest", "count(1) AS n", *sums)]
        found = rows.groupBy("file").agg(*asked) if scan.by_file else rows.agg(*asked)
        table = found.toArrow().to_pydict()
    columns = [table[name] for name in ("longest", "n", *_SUMS)]
    return {
        int(file): tuple(int(value) for value in values)
        for file, *values in zip(table.get("file", [0]), *columns, strict=True)
        if values[1]
    }


def _bytes(scan: Scan) -> str:
    """Of a row's texts; all other types are narrow."""
    if scan.is_lines:
        return "octet_length(value)"
    texts = [n for n in scan.stored if is_text(scan.types[n]) or scan.types[n] == "binary"]
    return " + ".join(["0", *(f"coalesce(octet_length({quoted(n, '`')}), 0)" for n in texts)])


def _hash(scan: Scan, seed: int) -> str:
    """Of the values as they are stored; a missing value is not the same as none."""
    if scan.is_lines:
        return f"xxhash64({seed}L, value)"
    parts = [f"{name}, {name} IS NULL" for name in (quoted(n, "`") for n in scan.stored)]
    return f"xxhash64({seed}L, {', '.join(parts)})"


def _meaning(reading: Reading) -> tuple[str | None, ...]:
    columns = reading.columns
    return (
        *(columns.user, columns.time, columns.place, columns.lon, columns.lat),
        *(repr(columns.degrees_scale), str(reading.time), str(reading.user), reading.tz),
        str(reading.time_is_text),
    )


def how_read(scan: Scan, part: Part) -> str:
    """How a part is read, as text."""
    how: tuple[Any, ...] = ("table",)
    if isinstance(part, EventFile) and scan.is_lines:
        how = (str(part.format), part.delimiter, part.header, part.keys)
    elif isinstance(part, EventFile) and scan.by_file:
        how = ("table", part.keys)
    return repr((how, tuple(scan.types.get(n) for n in scan.stored), _meaning(part.reading)))


def fingerprint(surveyed: Survey, places: Places, grid: TimeGrid, key: bytes) -> str:
    """64 hex digits over the rows, how they are read, the places and the grid."""
    digest = hashlib.blake2b(key=hashlib.sha256(key).digest(), digest_size=32)
    rows = sorted((how, *sums) for how, sums in surveyed.sums.items() if sums[0])
    given = ("sfumato-spark-input/1", places.fingerprint(), grid.fingerprint(), rows)
    digest.update(repr(given).encode())
    return digest.hexdigest()
