"""What a bounded count is: one SQL text for every question, on a relation `visits`.

`visits` holds `(u, slot, place)`, distinct: user u was seen at the place in the slot. From it

* mass of a slot: k, the number of places in it (`visits`), or 1 (`people`); with public event
  norms q, the sum of q over the places (`visits`) or its mean rounded up (`people`);
* sampling: one place per slot, then at most l slots, by the orders of `sfumato.engine.sampling`;
* weighting: `sfumato.engine.base` of the squared norm; each place of the slot then counts w
  (`visits`) or floor(w / k) (`people`).

Windows carry a tie-break column: without one DuckDB rewrites them into a form that is three
times slower. Arithmetic stays below 2^63; sums of squares are exact decimals.

`RelationalSource`: the definition itself, run on DuckDB as it stands.

Slower than the compiled pass and independent of it from the rows on: time slots, names and
validity are joins here, bounds are windows and group-bys. The tests hold the two to the same
bytes. What was counted is checked against the bound by a query of its own, because an order
that a query asked for has been seen not to arrive.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tests.engine.dialect import DUCKDB, Dialect, order_sql, seeds_sql

from sfumato.engine import base
from sfumato.engine.base import MASS_CEILING, TOTAL_UNITS, CountSource, WeightRule
from sfumato.engine.local import DropLog, DropReason, place_finder
from sfumato.engine.sampling import STRIDE
from sfumato.io.events import rows_of
from sfumato.io.values import BAD
from sfumato.io.write import Scratch
from sfumato.model.counts import WEIGHT_UNITS, Counting, Counts, SampleBound, WeightBound
from sfumato.model.events import UserEncoding
from sfumato.model.masks import Masks, Measure
from sfumato.model.private import Private
from sfumato.model.source import NORM_UNITS


@contextmanager
def open_connection(
    *, threads: int | None = None, memory_limit: int | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory database with its own temporary folder, closed and removed at the end."""
    with Scratch() as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": threads or os.cpu_count() or 1,
            "temp_directory": folder,
            "preserve_insertion_order": "true",
            "autoinstall_known_extensions": "false",
        }
        if memory_limit is not None:
            # Below this DuckDB cannot open a Parquet file with wide row groups at all.
            config["memory_limit"] = f"{max(memory_limit, 128 << 20)}B"
        connection = duckdb.connect(":memory:", config=config)
        try:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET enable_progress_bar = false")
            yield connection
        finally:
            connection.close()


def _squares(value: str) -> str:
    capped = f"LEAST({value}, {MASS_CEILING})"
    return f"SUM(CAST({capped} * {capped} AS DECIMAL(38, 0)))"


@dataclass(frozen=True, slots=True)
class Definition:
    """The questions as SQL. Results are long: the keys and `n`, non-zero entries only."""

    user: UserEncoding
    dialect: Dialect

    def sampled_rows(self, slots: int, key: bytes) -> str:
        """The visits that count: `(u, slot, place)`, one per slot, at most `slots` a user."""
        multipliers = ("a1", "b1", "a2", "b2")
        people = seeds_sql(
            key, self.user, "(SELECT DISTINCT u FROM visits) AS p", ("u",), self.dialect
        )
        rows = (
            f"(SELECT v.u, v.slot, v.place, {', '.join('s.' + m for m in multipliers)} "
            f"FROM visits AS v JOIN ({people}) AS s ON v.u = s.u) AS r"
        )
        carried = ("u", "slot", "place", "a2", "b2")
        places = order_sql("place", f"{STRIDE} * (CAST(slot AS BIGINT) + 1)", 1, rows, carried)
        one = (
            f"SELECT u, slot, place, a2, b2 FROM (SELECT u, slot, place, a2, b2, ROW_NUMBER() "
            f"OVER (PARTITION BY u, slot ORDER BY turn, place) AS nth FROM ({places}) AS t1) "
            f"AS n1 WHERE nth = 1"
        )
        chosen = order_sql("slot", "0", 2, f"({one}) AS c", ("u", "slot", "place"))
        return (
            f"SELECT u, slot, place FROM (SELECT u, slot, place, ROW_NUMBER() OVER "
            f"(PARTITION BY u ORDER BY turn, slot) AS nth FROM ({chosen}) AS t2) AS n2 "
            f"WHERE nth <= {slots}"
        )

    def sampled(self, slots: int, key: bytes) -> str:
        """Place x slot counts of the sample."""
        return (
            f"WITH kept AS ({self.sampled_rows(slots, key)}) "
            "SELECT place, slot, COUNT(*) AS n FROM kept GROUP BY place, slot"
        )

    def _masses(self, counting: Counting, with_norms: bool) -> str:
        """`(u, slot, k, m)`: places in the slot and the mass that enters the norm."""
        people = counting is Counting.PEOPLE
        if not with_norms:
            mass = "1" if people else "COUNT(*)"
            return f"SELECT u, slot, COUNT(*) AS k, {mass} AS m FROM visits GROUP BY u, slot"
        total = "CAST(SUM(q.q) AS BIGINT)"
        mass = self.dialect.divide.format(f"({total} + COUNT(*) - 1)", "COUNT(*)")
        return (
            f"SELECT v.u, v.slot, COUNT(*) AS k, {mass if people else total} AS m "
            "FROM visits AS v JOIN event_norms AS q ON v.place = q.place AND v.slot = q.slot "
            "GROUP BY v.u, v.slot"
        )

    def weighted(self, rule: WeightRule, counting: Counting, with_norms: bool) -> str:
        """Place x slot, each visit counting its user's weight."""
        share = self.dialect.divide.format("x.w", "m.k") if counting is Counting.PEOPLE else "x.w"
        return (
            f"WITH masses AS ({self._masses(counting, with_norms)}), weights AS ("
            f"SELECT u, {rule.sql('n2')} AS w FROM (SELECT u, {_squares('m')} AS n2 "
            f"FROM masses GROUP BY u) AS s) "
            f"SELECT v.place, v.slot, SUM({share}) AS n FROM visits AS v "
            "JOIN masses AS m ON v.u = m.u AND v.slot = m.slot JOIN weights AS x ON v.u = x.u "
            "GROUP BY v.place, v.slot"
        )

    def place_totals(self, rule: WeightRule, counting: Counting) -> str:
        """Per place, the users' totals scaled to the limit. The rule's units are TOTAL_UNITS
        for `people` and 1 for `visits`."""
        people = counting is Counting.PEOPLE
        unit = TOTAL_UNITS if people else 1
        each = self.dialect.divide.format(TOTAL_UNITS, "m.k") if people else "1"
        scaled = self.dialect.divide.format("(x.w * t.s)", unit)
        return (
            "WITH masses AS (SELECT u, slot, COUNT(*) AS k FROM visits GROUP BY u, slot), "
            f"totals AS (SELECT v.u, v.place, CAST(SUM({each}) AS BIGINT) AS s FROM visits AS v "
            "JOIN masses AS m ON v.u = m.u AND v.slot = m.slot GROUP BY v.u, v.place), "
            f"weights AS (SELECT u, {rule.sql('n2')} AS w FROM (SELECT u, {_squares('s')} AS n2 "
            "FROM totals GROUP BY u) AS s) "
            f"SELECT t.place, SUM({scaled}) AS n FROM totals AS t "
            "JOIN weights AS x ON t.u = x.u GROUP BY t.place"
        )

    def slot_totals(self, rule: WeightRule, counting: Counting) -> str:
        """Per slot, the users' mass scaled to the limit."""
        return (
            f"WITH masses AS ({self._masses(counting, False)}), weights AS ("
            f"SELECT u, {rule.sql('n2')} AS w FROM (SELECT u, {_squares('m')} AS n2 "
            "FROM masses GROUP BY u) AS s) "
            "SELECT m.slot, SUM(x.w * m.m) AS n FROM masses AS m JOIN weights AS x ON m.u = x.u "
            "GROUP BY m.slot"
        )

    def capped_total(self, cap: int, counting: Counting) -> str:
        """One number: the sum over users of min(total mass, cap)."""
        each = "COUNT(DISTINCT slot)" if counting is Counting.PEOPLE else "COUNT(*)"
        return (
            f"SELECT COALESCE(SUM(LEAST(total, {cap})), 0) AS n FROM "
            f"(SELECT u, {each} AS total FROM visits GROUP BY u) AS s"
        )

    def ladder(self, steps: tuple[int, ...], counting: Counting) -> str:
        """Per step, the users' activity inside it. Gains are `model.ladder`'s, worked out here."""
        each = "COUNT(DISTINCT slot)" if counting is Counting.PEOPLE else "COUNT(*)"
        most = 1 << 48
        parts = []
        for k, (low, high) in enumerate(pairwise((0, *steps))):
            gain = isqrt(most // (len(steps) * (high - low) ** 2))
            inside = f"LEAST(GREATEST(total - {low}, 0), {high - low})"
            parts.append(
                f"SELECT {k} AS slot, COALESCE(SUM({gain} * {inside}), 0) AS n FROM activity"
            )
        return (
            f"WITH activity AS (SELECT u, CAST({each} AS BIGINT) AS total FROM visits GROUP BY u) "
            + " UNION ALL ".join(parts)
        )

    def capped_answer(self, unique: bool, cap: int) -> str:
        """One question: the sum over users of min(visits inside, cap). Joins `asked_*`."""
        each = "1" if unique else "COUNT(*)"
        inside = (
            "SELECT v.u FROM visits AS v JOIN asked_places AS p ON v.place = p.place "
            "JOIN asked_slots AS s ON v.slot = s.slot AND p.question = s.question"
        )
        return (
            f"SELECT COALESCE(SUM(LEAST(total, {cap})), 0) AS n FROM "
            f"(SELECT u, {each} AS total FROM ({inside}) AS i GROUP BY u) AS t"
        )

    def answers(self, unique: bool, rule: WeightRule) -> str:
        """Per question, the users' vectors scaled to the limit. Joins `asked_*`."""
        each = "1" if unique else "COUNT(*)"
        return (
            f"WITH inside AS (SELECT v.u, p.question, {each} AS m FROM visits AS v "
            "JOIN asked_places AS p ON v.place = p.place "
            "JOIN asked_slots AS s ON v.slot = s.slot AND p.question = s.question "
            "GROUP BY v.u, p.question), "
            f"weights AS (SELECT u, {rule.sql('n2')} AS w FROM (SELECT u, {_squares('m')} AS n2 "
            "FROM inside GROUP BY u) AS s) "
            "SELECT i.question AS slot, SUM(x.w * i.m) AS n FROM inside AS i "
            "JOIN weights AS x ON i.u = x.u GROUP BY i.question"
        )

    def exact(self, counting: Counting) -> str:
        """Place x slot without any bound."""
        if counting is Counting.VISITS:
            return "SELECT place, slot, COUNT(*) AS n FROM visits GROUP BY place, slot"
        share = self.dialect.divide.format(WEIGHT_UNITS, "m.k")
        return (
            "WITH masses AS (SELECT u, slot, COUNT(*) AS k FROM visits GROUP BY u, slot) "
            f"SELECT v.place, v.slot, SUM({share}) AS n FROM visits AS v "
            "JOIN masses AS m ON v.u = m.u AND v.slot = m.slot GROUP BY v.place, v.slot"
        )


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


class RelationalSource(CountSource):
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
        rows = definition.sampled_rows(limit, base.checked_key(key))
        connection.execute(f"CREATE OR REPLACE TEMP TABLE kept AS {rows}")
        found = connection.execute(
            "SELECT COALESCE(MAX(n), 0), COALESCE(MAX(n - slots), 0) FROM "
            "(SELECT COUNT(*) AS n, COUNT(DISTINCT slot) AS slots FROM kept GROUP BY u) AS c"
        ).fetchone()
        assert found is not None
        if found[0] > limit or found[1] > 0:
            raise base.BoundBroken("A user counted above the bound; nothing is given.")
        values = self._table("SELECT place, slot, COUNT(*) AS n FROM kept GROUP BY place, slot")
        return base.sampled_counts(values, bound, self._grid)

    def weighted(
        self,
        bound: WeightBound,
        counting: Counting,
        event_norms: NDArray[np.int64] | None = None,
    ) -> Private[Counts]:
        connection, definition, _ = self._visits()
        if event_norms is not None:
            norms = base.checked_norms(event_norms, *self._shape)
            place, slot = (index.ravel() for index in np.indices(self._shape))
            connection.register(
                "event_norms", pa.table({"place": place, "slot": slot, "q": norms.ravel()})
            )
        rule = WeightRule.of(bound, 1 if event_norms is None else NORM_UNITS)
        values = self._table(definition.weighted(rule, counting, event_norms is not None))
        return base.weighted_counts(values, bound, counting, self._grid, event_norms)

    def place_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        units = TOTAL_UNITS if counting is Counting.PEOPLE else 1
        rule = WeightRule.of(bound, units)
        sql = self._visits()[1].place_totals(rule, counting)
        values = self._vector(sql, "place", len(self._places))
        return base.place_total_counts(values, bound, counting)

    def slot_totals(self, bound: WeightBound, counting: Counting) -> Private[Counts]:
        sql = self._visits()[1].slot_totals(WeightRule.of(bound), counting)
        values = self._vector(sql, "slot", self._grid.slots)
        return base.slot_total_counts(values, bound, counting)

    def capped_total(self, cap: int, counting: Counting) -> Private[Counts]:
        connection, definition, _ = self._visits()
        sql = definition.capped_total(base.checked_cap(cap), counting)
        found = connection.execute(sql).fetchone()
        assert found is not None
        return base.capped_total_count(int(found[0]), cap, counting)

    def ladder(self, steps: tuple[int, ...], counting: Counting) -> Private[Counts]:
        sql = self._visits()[1].ladder(steps, counting)
        return base.ladder_counts(self._vector(sql, "slot", len(steps)), steps, counting)

    def answers(self, masks: Masks, measure: Measure, bound: int | WeightBound) -> Private[Counts]:
        connection, definition, _ = self._visits()
        unique = measure is Measure.UNIQUE_PEOPLE
        for name, words in (("place", masks.places), ("slot", masks.slots)):
            bits = (words[:, :, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
            member, question = np.nonzero(bits.reshape(len(words), -1))
            asked = pa.table({name: member, "question": question})
            connection.register(f"asked_{name}s", asked)
        if isinstance(bound, int):
            ((total,),) = connection.execute(definition.capped_answer(unique, bound)).fetchall()
            return base.one_answer_count(int(total), bound, measure)
        sql = definition.answers(unique, WeightRule.of(bound))
        return base.answer_counts(self._vector(sql, "slot", masks.count), bound, measure)

    def exact(self, counting: Counting) -> Private[Counts]:
        values = self._table(self._visits()[1].exact(counting))
        return base.exact_counts(values, counting)

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
