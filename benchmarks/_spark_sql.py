"""What a good hand would write in Spark SQL for the same steps: the baselines of the Spark engine.

Rows are reduced to distinct (user, slot, place) after one exchange by user, which every later step
keeps. Two forms each, because which is faster is Spark's affair: *windows* (one sort by user and
slot, no join) and *joins* (group, then join back to the visits). Norms need no second window: the
sum over visits of the slot's mass times the visit's own is the sum of squares over slots.
Sampling orders by Spark's own hash, which is cheaper than the keyed order and keeps another sample.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.engine.base import WeightRule
from sfumato.model.counts import SampleBound, WeightBound
from sfumato.model.places import Places
from sfumato.model.source import NORM_UNITS
from sfumato.model.time_grid import TimeGrid

Work = Callable[[Any, Path, Places], int]


def _visits(session: Any, path: Path, towers: Places, grid: TimeGrid) -> Any:
    """Distinct (u, slot, place), rows of a user together."""
    session.read.parquet(str(path)).createOrReplaceTempView("events")
    names = pa.table({"name": towers.ids.tolist(), "place": list(range(len(towers)))})
    session.createDataFrame(names).createOrReplaceTempView("towers")
    low, high = int(grid.edges[0]), int(grid.edges[-1])
    step = int(grid.edges[1] - grid.edges[0])
    rows = session.sql(
        f"""SELECT /*+ BROADCAST(p), REPARTITION(14, u) */ e.user_id AS u,
        CAST((unix_micros(e.timestamp) - {low}) div {step} AS INT) AS slot,
        CAST(p.place AS INT) AS place FROM events AS e JOIN towers AS p ON e.tower = p.name
        WHERE e.user_id IS NOT NULL AND unix_micros(e.timestamp) >= {low}
        AND unix_micros(e.timestamp) < {high}"""
    )
    return rows.distinct()


def _total(frame: Any) -> int:
    """The long table is collected as a release would, and added up."""
    return int(frame.toArrow().column("n").to_numpy().sum())


def _windows(masses: str, rule: WeightRule) -> str:
    return f"""SELECT place, slot, SUM({rule.sql("n2")}) AS n FROM (
        SELECT slot, place, SUM(q * m) OVER (PARTITION BY u) AS n2 FROM (
        SELECT u, slot, place, q, SUM(q) OVER (PARTITION BY u, slot) AS m FROM ({masses})))
        GROUP BY place, slot"""


def _joins(masses: str, rule: WeightRule) -> str:
    return f"""WITH x AS ({masses}), w AS (SELECT u, {rule.sql("n2")} AS w FROM (
        SELECT u, SUM(m * m) AS n2 FROM (SELECT u, slot, SUM(q) AS m FROM x GROUP BY u, slot)
        GROUP BY u)) SELECT /*+ SHUFFLE_HASH(w) */ x.place, x.slot, SUM(w.w) AS n
        FROM x JOIN w ON x.u = w.u GROUP BY x.place, x.slot"""


def forms(
    grid: TimeGrid, sample: SampleBound, weight: WeightBound, norms_of: Callable[[int], Any]
) -> dict[tuple[str, str], Work]:
    """(question, form) to work."""
    rule, fine = WeightRule.of(weight), WeightRule.of(weight, NORM_UNITS)

    def one(text: str) -> Work:
        def work(session: Any, path: Path, towers: Places) -> int:
            _visits(session, path, towers, grid).createOrReplaceTempView("visits")
            return _total(session.sql(text))

        return work

    def scheme(matrix: Callable[[str, WeightRule], str]) -> Work:
        def work(session: Any, path: Path, towers: Places) -> int:
            visits = _visits(session, path, towers, grid).persist()
            visits.createOrReplaceTempView("visits")
            norms = norms_of(len(towers)).ravel()
            place = [k // grid.slots for k in range(norms.size)]
            slot = [k % grid.slots for k in range(norms.size)]
            table = pa.table({"place": place, "slot": slot, "q": norms})
            session.createDataFrame(table).createOrReplaceTempView("norms")
            totals = "SELECT u, place, COUNT(*) AS s FROM visits GROUP BY u, place"
            slots = "SELECT u, slot, COUNT(*) AS s FROM visits GROUP BY u, slot"
            masses = (
                "SELECT /*+ BROADCAST(norms) */ v.u, v.slot, v.place, norms.q FROM visits AS v "
                "JOIN norms ON v.place = norms.place AND v.slot = norms.slot"
            )
            texts = [
                f"SELECT {key}, SUM({rule.sql('n2')} * s) AS n FROM (SELECT *, "
                f"SUM(s * s) OVER (PARTITION BY u) AS n2 FROM ({each})) GROUP BY {key}"
                for key, each in (("place", totals), ("slot", slots))
            ]
            texts.append(
                "SELECT SUM(LEAST(s, 250)) AS n FROM (SELECT u, COUNT(*) AS s FROM visits "
                "GROUP BY u)"
            )
            texts.append(matrix(masses, fine))
            try:
                return sum(_total(session.sql(text)) for text in texts)
            finally:
                visits.unpersist()

        return work

    plain = "SELECT u, slot, place, 1L AS q FROM visits"
    turn = "ROW_NUMBER() OVER (PARTITION BY {} ORDER BY xxhash64({}, 7), {}) AS {}"
    by_place = turn.format("u, slot", "u, slot, place", "place", "first")
    by_slot = turn.format("u", "u, slot", "slot", "second")
    sampling = f"""SELECT place, slot, COUNT(*) AS n FROM (SELECT u, slot, place, {by_slot} FROM (
        SELECT u, slot, place, {by_place} FROM visits) WHERE first = 1)
        WHERE second <= {sample.slots} GROUP BY place, slot"""
    weights, several = "weights, C = 3", "three margins and the matrix"
    return {
        ("sampling, l = 30", "windows"): one(sampling),
        (weights, "windows"): one(_windows(plain, rule)),
        (weights, "joins"): one(_joins(plain, rule)),
        (several, "windows"): scheme(_windows),
        (several, "joins"): scheme(_joins),
    }
