"""`Events` on Spark as judged rows: who, in which slot, where, or why a row does not count.

The columns it gives:

* `u`: the user's exact id (BIGINT, STRING or BINARY), as `sfumato.engine.relation` has it.
* `reason`: number of the `DropReason` in their order, NULL for a row that counts.
* `slot`, and `place` (the row of `Places`), or `lon` and `lat` where zones are found by position.
* `bad`: true where a text is no number or a line has not the fields of its header.
* `h1`, `h2`: two 64-bit hashes of the row as it is stored; only where they are asked for.

Only the DataFrame API is used, with expressions as text, so that a classic session and Spark
Connect do the same. Names of places are joined by a broadcast table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.engine.drops import DropReason
from sfumato.engine.instants import BAD, instant_sql
from sfumato.engine.spark.describing import CORRUPT
from sfumato.engine.spark.errors import without_records
from sfumato.engine.spark.times import reading_sql, slot_sql
from sfumato.engine.spark.words import quoted
from sfumato.model.errors import UsageError
from sfumato.model.events import Events, TableSource, UserEncoding
from sfumato.model.places import ALWAYS_FROM, ALWAYS_TO, PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBER = r"\A\s*[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|(?i:nan|inf|infinity))\s*\z"
_REASON = {reason: number for number, reason in enumerate(DropReason)}


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """How a frame is read; `judged` makes the lazy frame of judged rows."""

    events: Events
    frame: Any
    label: str
    places: Places
    grid: TimeGrid
    types: dict[str, str]
    """Column to Spark type."""
    user: UserEncoding
    by_coordinates: bool

    @classmethod
    def of(cls, events: Events, places: Places, grid: TimeGrid) -> Rows:
        columns, source = events.columns, events.source
        if not isinstance(source, TableSource):
            raise UsageError("The Spark engine counts a Spark DataFrame.")
        by_coordinates = places.kind is PlaceKind.ZONES and columns.lon is not None
        if not by_coordinates and columns.place is None:
            raise UsageError(
                "The events carry coordinates and no tower, but the places are towers.",
                remedy="Give zones to count coordinates in, or name the tower column with "
                "--column place=….",
            )
        with without_records(source.label):
            types = {str(f.name): f.dataType.simpleString() for f in source.table.schema.fields}
        kind = types[columns.user]
        held = events.user
        if held is UserEncoding.INTEGER and kind == "decimal(20,0)":
            held = UserEncoding.TEXT  # unsigned 64-bit ids are their decimal text
        return cls(events, source.table, source.label, places, grid, types, held, by_coordinates)

    def judged(self, seeds: tuple[int, int] | None = None) -> Any:
        """The frame of the module's text; `seeds` ask for the row hashes."""
        events, columns = self.events, self.events.columns
        user = quoted(columns.user)
        kind = {UserEncoding.INTEGER: "BIGINT", UserEncoding.TEXT: "STRING"}.get(self.user)
        picked = [
            f"CAST({user} AS {kind}) AS u" if kind else f"{user} AS u",
            f"{reading_sql(events, self.types[columns.time])} AS r",
            f"{self._wrong()} AS bad",
        ]
        names = ["lon", "lat"] if self.by_coordinates else ["name"]
        if self.by_coordinates:
            picked += [
                f"COALESCE({self._number(str(column))} / {columns.degrees_scale!r}D, "
                f"double('NaN')) AS {name}"
                for name, column in (("lon", columns.lon), ("lat", columns.lat))
            ]
        else:
            picked.append(f"CAST({quoted(str(columns.place))} AS STRING) AS name")
        hashes = []
        if seeds is not None:
            hashes = ["h1", "h2"]
            picked += [
                f"{self._hash(seed)} AS {name}" for seed, name in zip(seeds, hashes, strict=True)
            ]
        rows = self.frame.selectExpr(*picked)
        rows = rows.selectExpr(
            "u", f"{instant_sql(events, self.grid, 'r')} AS t", "bad", *names, *hashes
        )
        if not self.by_coordinates:
            rows = self._placed(rows)
        where = ["lon", "lat"] if self.by_coordinates else ["place"]
        return rows.selectExpr(
            "u",
            f"{self._reason()} AS reason",
            f"{slot_sql(self.grid, 't')} AS slot",
            *where,
            "bad",
            *hashes,
        )

    def _placed(self, rows: Any) -> Any:
        """`known` where the name is a place's, `place` where it is one at that time."""
        from pyspark.sql.functions import broadcast

        places, session = self.places, rows.sparkSession
        names, first = np.unique(places.ids, return_index=True)
        moves = names.size < len(places) or not bool(
            ((places.valid_from == ALWAYS_FROM) & (places.valid_to == ALWAYS_TO)).all()
        )
        known = pa.table(
            {"known": [str(name) for name in names], "its_row": first.astype(np.int32)}
        )
        rows = rows.join(
            broadcast(session.createDataFrame(known)), on=_equal("name", "known"), how="left"
        )
        if not moves:
            return rows.withColumnRenamed("its_row", "place")
        valid = pa.table(
            {
                "place": np.arange(len(places), dtype=np.int32),
                "its_name": places.ids.tolist(),
                "low": places.valid_from,
                "high": places.valid_to,
            }
        )
        return rows.join(
            broadcast(session.createDataFrame(valid)),
            on=_equal("name", "its_name", "t >= low", "t < high"),
            how="left",
        )

    def _reason(self) -> str:
        edges = self.grid.edges
        tests = {
            DropReason.NO_USER: "u IS NULL",
            DropReason.NO_TIME: "t IS NULL",
            DropReason.NOT_A_TIME: f"t = {BAD}",
            DropReason.OUTSIDE_PERIOD: f"t < {int(edges[0])} OR t >= {int(edges[-1])}",
        }
        if self.by_coordinates:
            on_globe = "abs(lon) <= 180.0D AND abs(lat) <= 90.0D"
            tests[DropReason.BAD_COORDINATES] = f"NOT ({on_globe})"
        else:
            tests |= {
                DropReason.NO_PLACE: "name IS NULL",
                DropReason.UNKNOWN_PLACE: "known IS NULL",
                DropReason.NOT_VALID_THEN: "place IS NULL",
            }
        steps = " ".join(f"WHEN {test} THEN {_REASON[reason]}" for reason, test in tests.items())
        return f"CASE {steps} END"

    def _number(self, column: str) -> str:
        """A coordinate as a double, NULL where a text is no plain number."""
        name = quoted(column)
        if self.types[column].startswith(("string", "varchar", "char")):
            name = f"CAST({name} AS STRING)"  # without a collation
            value = f"COALESCE(TRY_CAST({name} AS DOUBLE), double('NaN'))"
            return f"CASE WHEN {name} RLIKE r'{_NUMBER}' THEN {value} END"
        return f"TRY_CAST({name} AS DOUBLE)"

    def _wrong(self) -> str:
        tests = [f"{quoted(CORRUPT)} IS NOT NULL"] if CORRUPT in self.types else []
        for column in (self.events.columns.lon, self.events.columns.lat):
            if self.by_coordinates and column is not None:
                name = quoted(column)
                tests.append(f"({name} IS NOT NULL AND {self._number(column)} IS NULL)")
        return " OR ".join(tests) if tests else "false"

    def _hash(self, seed: int) -> str:
        """Of the values as they are stored; a missing value is not the same as none."""
        columns = self.events.columns
        used = (columns.user, columns.time, columns.place, columns.lon, columns.lat)
        parts = [f"{quoted(name)}, {quoted(name)} IS NULL" for name in used if name is not None]
        return f"xxhash64({seed}L, {', '.join(parts)})"


def _equal(left: str, right: str, *more: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(" AND ".join((f"{left} = {right}", *more)))
