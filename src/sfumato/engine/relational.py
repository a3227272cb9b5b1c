"""`RelationalSource`: the definition itself, run on DuckDB as it stands.

Slower than the compiled pass and independent of it from the rows on: time slots, names and
validity are joins here, bounds are windows and group-bys. The tests hold the two to the same
bytes. What was counted is checked against the bound by a query of its own, because an order
that a query asked for has been seen not to arrive.
"""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine import answers
from sfumato.engine.asked import Asked
from sfumato.engine.connection import open_connection
from sfumato.engine.definition import Definition
from sfumato.engine.dialect import DUCKDB
from sfumato.engine.drops import DropLog, DropReason
from sfumato.engine.intake.reading import place_finder
from sfumato.engine.weights import TOTAL_UNITS, WeightRule
from sfumato.io.events import rows_of
from sfumato.io.values import BAD
from sfumato.model.bound import Counting, SampleBound, WeightBound
from sfumato.model.counts import Counts
from sfumato.model.events import UserEncoding
from sfumato.model.private import Private
from sfumato.model.source import NORM_UNITS

_JUDGED = f"""
CREATE TEMP TABLE judged AS
SELECT r.u, p.place, s.slot, CASE
  WHEN r.u IS NULL THEN '{DropReason.NO_USER}'
  WHEN r.t IS NULL THEN '{DropReason.NO_TIME}'
  WHEN r.t = {BAD} THEN '{DropReason.NOT_A_TIME}'
  WHEN s.slot IS NULL THEN '{DropReason.OUTSIDE_PERIOD}'
  WHEN r.fault IS NOT NULL THEN r.fault
  WHEN r.name IS NULL THEN '{DropReason.NO_PLACE}'
  WHEN r.name NOT IN (SELECT name FROM places) THEN '{DropReason.UNKNOWN_PLACE}'
  WHEN p.place IS NULL THEN '{DropReason.NOT_VALID_THEN}' END AS reason
FROM rows AS r
LEFT JOIN slots AS s ON r.t >= s.low AND r.t < s.high
LEFT JOIN places AS p ON r.name = p.name AND r.t >= p.low AND r.t < p.high
"""


class RelationalSource(Asked):
    """Bounded counts by SQL alone. Reads its events at the first question."""

    _stack: ExitStack | None = None
    _open: tuple[duckdb.DuckDBPyConnection, Definition, DropLog] | None = None

    @property
    def drops(self) -> DropLog:
        """What was dropped and why, for the holder's internal log only."""
        return self._visits()[2]

    def close(self) -> None:
        """Close the database and remove its files; the next question reads again."""
        if self._stack is not None:
            self._stack.close()
        self._open = None

    def sampled(self, bound: SampleBound, key: bytes) -> Private[Counts]:
        connection, definition, _ = self._visits()
        limit = min(bound.slots, self._grid.slots)
        rows = definition.sampled_rows(limit, answers.checked_key(key))
        connection.execute(f"CREATE OR REPLACE TEMP TABLE kept AS {rows}")
        found = connection.execute(
            "SELECT COALESCE(MAX(n), 0), COALESCE(MAX(n - slots), 0) FROM "
            "(SELECT COUNT(*) AS n, COUNT(DISTINCT slot) AS slots FROM kept GROUP BY u) AS c"
        ).fetchone()
        assert found is not None
        if found[0] > limit or found[1] > 0:
            raise answers.BoundBroken("A user counted above the bound; nothing is given.")
        values = self._table("SELECT place, slot, COUNT(*) AS n FROM kept GROUP BY place, slot")
        return answers.sampled_counts(values, bound, self._grid)

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        connection, definition, _ = self._visits()
        if event_norms is not None:
            norms = answers.checked_norms(event_norms, *self._shape)
            place, slot = (index.ravel() for index in np.indices(self._shape))
            connection.register(
                "event_norms", pa.table({"place": place, "slot": slot, "q": norms.ravel()})
            )
        rule = WeightRule.of(bound.limit, 1 if event_norms is None else NORM_UNITS)
        values = self._table(definition.weighted(rule, counting, event_norms is not None))
        return answers.weighted_counts(values, bound, counting, self._grid, event_norms)

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        units = TOTAL_UNITS if counting is Counting.PEOPLE else 1
        rule = WeightRule.of(bound.limit, units)
        sql = self._visits()[1].place_totals(rule, counting)
        values = self._vector(sql, "place", len(self._places))
        return answers.place_total_counts(values, bound, counting)

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        sql = self._visits()[1].slot_totals(WeightRule.of(bound.limit), counting)
        values = self._vector(sql, "slot", self._grid.slots)
        return answers.slot_total_counts(values, bound, counting)

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        connection, definition, _ = self._visits()
        sql = definition.capped_total(answers.checked_cap(cap), counting)
        found = connection.execute(sql).fetchone()
        assert found is not None
        return answers.capped_total_count(int(found[0]), cap, counting)

    def exact(self, counting: Counting) -> Private[Counts]:
        values = self._table(self._visits()[1].exact(counting))
        return answers.exact_counts(values, counting)

    def _table(self, sql: str) -> NDArray[np.int64]:
        """A long result as place x slot, zeros where nobody was."""
        values = np.zeros(self._shape, np.int64)
        found = self._numbers(sql, ("place", "slot", "n"))
        values[found["place"], found["slot"]] = found["n"]
        return values

    def _vector(self, sql: str, key: str, size: int) -> NDArray[np.int64]:
        values = np.zeros(size, np.int64)
        found = self._numbers(sql, (key, "n"))
        values[found[key]] = found["n"]
        return values

    def _numbers(self, sql: str, columns: tuple[str, ...]) -> dict[str, NDArray[np.int64]]:
        """Columns as 64-bit integers: the sums are wider types that numpy would round."""
        casts = ", ".join(f"CAST({name} AS BIGINT) AS {name}" for name in columns)
        found = self._visits()[0].execute(f"SELECT {casts} FROM ({sql}) AS x").fetchnumpy()
        return {name: np.asarray(found[name], np.int64) for name in columns}

    def _visits(self) -> tuple[duckdb.DuckDBPyConnection, Definition, DropLog]:
        """The relation `visits`, made once: distinct (u, slot, place) of the rows that count."""
        if self._open is not None:
            return self._open
        self._stack = ExitStack()
        weakref.finalize(self, self._stack.close)
        connection = self._stack.enter_context(
            open_connection(threads=self._threads, memory_limit=self._memory_limit)
        )
        places, edges = self._places, self._grid.edges
        index = np.arange(len(places), dtype=np.int64)
        by_row = pa.table(
            {
                "place": index,
                "name": places.ids.tolist(),
                "low": places.valid_from,
                "high": places.valid_to,
            }
        )
        connection.register("places", by_row)
        slots = np.arange(self._grid.slots, dtype=np.int64)
        connection.register(
            "slots", pa.table({"slot": slots, "low": edges[:-1], "high": edges[1:]})
        )
        rows, unreadable = self._rows()
        connection.register("rows", rows)
        connection.execute(_JUDGED)
        connection.execute(
            "CREATE TEMP TABLE visits AS SELECT DISTINCT u, slot, place FROM judged "
            "WHERE reason IS NULL"
        )
        log = self._log(connection, unreadable)
        connection.execute("DROP TABLE judged")
        self._open = connection, Definition(self._events.user, DUCKDB), log
        return self._open

    def _rows(self) -> tuple[pa.Table, int]:
        """User, time, the place's name as text, and fault; and how many records were no rows."""
        # Which zone a point is in is geography's business, not SQL's.
        finder = place_finder(self._places)
        faults = np.array([DropReason.BAD_COORDINATES, DropReason.OUTSIDE_ZONES, None], object)
        kinds = {UserEncoding.INTEGER: pa.int64(), UserEncoding.TEXT: pa.large_string()}
        kind = kinds.get(self._events.user, pa.large_binary())
        schema = pa.schema({"u": kind, "t": pa.int64(), "name": pa.string(), "fault": pa.string()})
        read, unreadable = [schema.empty_table()], 0
        for rows in rows_of(self._events, period=self._grid.period):
            unreadable += rows.unreadable
            gone = ~rows.time_valid if rows.time_valid.size else None
            name: Any
            fault = pa.nulls(rows.rows, pa.string())
            if rows.lon is not None:
                found, _ = finder.find(rows)
                fault = pa.array(faults[np.where(found >= 0, 2, -3 - found)], pa.string())
                name = pa.array(self._places.ids[np.maximum(found, 0)].tolist(), pa.string())
            else:
                name = rows.place.cast(pa.string())
            columns = [rows.user.cast(kind), pa.array(rows.time, mask=gone), name, fault]
            read.append(pa.Table.from_arrays(columns, schema=schema))
        return pa.concat_tables(read), unreadable

    def _log(self, connection: duckdb.DuckDBPyConnection, unreadable: int) -> DropLog:
        found = connection.execute("SELECT reason, COUNT(*) FROM judged GROUP BY reason").fetchall()
        numbers = {row[0]: int(row[1]) for row in found}
        if unreadable:
            numbers[DropReason.UNREADABLE] = unreadable
        dropped = {reason: numbers[reason] for reason in DropReason if reason in numbers}
        return DropLog(
            sum(numbers.values()), dropped, dict.fromkeys(dropped), len(self._events.unfit)
        )
