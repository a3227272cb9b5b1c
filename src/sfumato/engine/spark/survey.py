"""One scan that counts nothing yet: the input's fingerprint, its faults, and its size.

**Fingerprint.** Rows on a cluster have no order and files no meaning, so the digest is of the
*multiset* of rows: two 64-bit hashes (xxHash64 under secret seeds) of each row's stored values,
the two halves of each, taken as signed numbers, added up over all rows as exact integers (which
cancel, so that no number of rows makes the sums too large), then one keyed BLAKE2b over the
sums, the number of rows, what the columns mean, the places and the grid. Shuffled rows and
other files give the same text; a changed, added or doubled row another one, up to a chance of
about 2^-128 for changes made without the key. It guards against data that changes between two
runs, as the fingerprint of files does, not against a holder who forges his own data. Without the
key nobody can test a guess about the records. It is not the fingerprint of the local engine, so
a reservation is resumed on the engine on which it was made.

**Sizes.** Rows by a few thousand buckets of the user's hash tell how many partitions are wanted
and whether one user (a default id, a test device) is too large for one task.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from sfumato.engine.drops import DropReason
from sfumato.engine.spark.errors import without_records
from sfumato.engine.spark.rows import Rows
from sfumato.model.errors import InputError

_BUCKETS = 4096
_SUMS = ("h1_high", "h1_low", "h2_high", "h2_low")


@dataclass(frozen=True, slots=True, repr=False)
class Survey:
    """What the scan found. Internal: it holds numbers of rows."""

    rows: int
    dropped: dict[DropReason, int]
    largest: int
    """Rows of the largest bucket."""
    sums: tuple[int, ...]

    def __repr__(self) -> str:
        return "<internal survey>"

    @property
    def kept(self) -> int:
        return self.rows - sum(self.dropped.values())

    @property
    def excess(self) -> int:
        """Rows of the largest bucket above the mean: about those of its largest user.

        Where there are very many rows every bucket is large, and no user need be.
        """
        return self.largest - self.kept // _BUCKETS


def seeds_of(key: bytes) -> tuple[int, int]:
    """Secret seeds of the row hashes: they say nothing about the key."""
    digest = hashlib.blake2b(key=hashlib.sha256(key).digest(), digest_size=16, person=b"row hash")
    first, second = np.frombuffer(digest.digest(), "<i8")
    return int(first), int(second)


def survey(rows: Rows, key: bytes) -> Survey:
    """Scan once. A time or a number that is none is an error, before anything is counted."""
    seeds = seeds_of(key)
    reasons = list(DropReason)
    sums = [
        part
        for name in ("h1", "h2")
        for part in (
            f"sum(shiftright({name}, 32)) AS {name}_high",
            f"sum(({name} & 4294967295L) - 2147483648L) AS {name}_low",
        )
    ]
    with without_records(rows.label):
        judged = rows.judged(seeds)
        # As wide as the exchange that follows: what lands in one bucket lands in one task.
        grouped = judged.selectExpr("*", f"pmod(hash(u), {_BUCKETS}) AS bucket").groupBy("bucket")
        from pyspark.sql.functions import expr

        counts = ["count(1) AS n", "count_if(bad) AS bad", "count_if(reason IS NULL) AS kept"]
        counts += [f"count_if(reason = {k}) AS d{k}" for k in range(len(reasons))]
        found = grouped.agg(*(expr(text) for text in (*counts, *sums))).toArrow()

    def total(name: str) -> int:
        return sum(value or 0 for value in found.column(name).to_pylist())

    if total("bad"):
        raise _bad(rows)
    dropped = {reason: total(f"d{k}") for k, reason in enumerate(reasons)}
    if dropped[DropReason.NOT_A_TIME]:
        raise InputError(
            "the time is not written as the column's other times are, or is no date.",
            file=rows.label,
            column=rows.events.columns.time,
            remedy="Write every time in one form, for example 2007-09-10T12:00:00+02:00.",
        )
    largest = max(found.column("kept").to_pylist(), default=0)
    return Survey(
        total("n"),
        {reason: number for reason, number in dropped.items() if number},
        largest,
        tuple(total(name) for name in _SUMS),
    )


def fingerprint(rows: Rows, found: Survey, key: bytes) -> str:
    """64 hex digits over the rows, what their columns mean, the places and the grid."""
    digest = hashlib.blake2b(key=hashlib.sha256(key).digest(), digest_size=32)
    events, columns = rows.events, rows.events.columns
    used = (columns.user, columns.time, columns.place, columns.lon, columns.lat)
    meaning = (
        *used,
        *(rows.types[name] for name in used if name is not None),
        *(repr(columns.degrees_scale), str(events.time), str(events.user), events.tz),
        *(rows.places.fingerprint(), rows.grid.fingerprint(), str(events.time_is_text)),
    )
    digest.update(repr(("sfumato-spark-input/2", *meaning, found.rows, *found.sums)).encode())
    return digest.hexdigest()


def _bad(rows: Rows) -> InputError:
    if not rows.by_coordinates:
        return InputError(
            "a line has not the fields of the header.",
            file=rows.label,
            remedy="Check that the files are complete and not cut short.",
        )
    return InputError(
        "a coordinate is not a number, or a line has not the fields of the header.",
        file=rows.label,
        column=f"{rows.events.columns.lon}/{rows.events.columns.lat}",
        remedy="Check the coordinate columns, or name others with --column lon=… lat=….",
    )
