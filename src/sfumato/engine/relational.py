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
from sfumato.engine.connection import open_connection, without_records
from sfumato.engine.definition import Definition
from sfumato.engine.dialect import DUCKDB
from sfumato.engine.drops import DropLog, DropReason
from sfumato.engine.instants import BAD
from sfumato.engine.intake.reading import batches, check_coordinates, place_finder
from sfumato.engine.relation import Relation, names_of, relation_of
from sfumato.engine.weights import TOTAL_UNITS, WeightRule
from sfumato.model.bound import Counting, SampleBound, WeightBound
from sfumato.model.counts import Counts
from sfumato.model.errors import InputError
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
        relation = relation_of(self._events, self._places, self._grid, connection)
        places, edges = self._places, self._grid.edges
        index = np.arange(len(places), dtype=np.int64)
        names: Any = index if relation.by_coordinates else places.ids.tolist()
        connection.register(
            "places",
            pa.table(
                {
                    "place": index,
                    "name": names,
                    "low": places.valid_from,
                    "high": places.valid_to,
                }
            ),
        )
        slots = np.arange(self._grid.slots, dtype=np.int64)
        connection.register(
            "slots", pa.table({"slot": slots, "low": edges[:-1], "high": edges[1:]})
        )
        self._rows(relation, connection)
        with without_records(names_of(self._events)):
            connection.execute(_JUDGED)
        connection.execute(
            "CREATE TEMP TABLE visits AS SELECT DISTINCT u, slot, place FROM judged "
            "WHERE reason IS NULL"
        )
        log = self._log(connection)
        connection.execute("DROP TABLE judged")
        self._open = connection, Definition(relation.user, DUCKDB), log
        return self._open

    def _rows(self, relation: Relation, connection: duckdb.DuckDBPyConnection) -> None:
        """The view `rows`: user, time, the place's name as text or the zone's row, and fault."""
        if not relation.by_coordinates:
            connection.execute(
                "CREATE TEMP VIEW rows AS SELECT u, t, CAST(place AS VARCHAR) AS name, "
                f"CAST(NULL AS VARCHAR) AS fault FROM ({relation.sql}) AS r"
            )
            return
        # Which zone a point is in is geography's business, not SQL's.
        finder = place_finder(self._places, relation)
        faults = np.array([DropReason.BAD_COORDINATES, DropReason.OUTSIDE_ZONES, None], object)
        located = []
        done = 0
        for batch in batches(connection, relation.sql, names_of(self._events)):
            check_coordinates(batch, self._events, done, connection)
            found = finder.find(batch)
            fault = faults[np.where(found >= 0, 2, -3 - found)]
            columns = {"u": batch.column("u"), "t": batch.column("t"), "name": found}
            located.append(pa.table(columns | {"fault": pa.array(fault, pa.string())}))
            done += batch.num_rows
        empty = pa.table({"u": [], "t": [], "name": [], "fault": []})
        connection.register("rows", pa.concat_tables(located) if located else empty)

    def _log(self, connection: duckdb.DuckDBPyConnection) -> DropLog:
        found = connection.execute("SELECT reason, COUNT(*) FROM judged GROUP BY reason").fetchall()
        numbers = {row[0]: int(row[1]) for row in found}
        dropped = {reason: numbers[reason] for reason in DropReason if reason in numbers}
        if DropReason.NOT_A_TIME in dropped:
            raise InputError(
                "a time is not written as the column's other times are.",
                file=names_of(self._events)[0],
                column=self._events.columns.time,
            )
        return DropLog(sum(numbers.values()), dropped, dict.fromkeys(dropped))
