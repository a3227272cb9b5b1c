"""The relational definition, spelled for Spark, is the definition: SQL alone gives the bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.dialect import SPARK
from tests.engine.reference import Definition

from sfumato.engine.base import TOTAL_UNITS, WeightRule
from sfumato.engine.local import LocalSource
from sfumato.model.counts import Counting, SampleBound, WeightBound
from sfumato.model.events import UserEncoding
from sfumato.model.source import NORM_UNITS

pytestmark = pytest.mark.xdist_group("spark")
TOWERS, SLOTS = 6, 24


@pytest.fixture
def visits(spark: Any) -> Any:
    """Distinct (user, slot, place) as a view, and public event norms, gone after the test."""
    rng = np.random.default_rng(4)
    found = np.unique(
        np.column_stack([rng.integers(0, high, 900) for high in (30, SLOTS, TOWERS)]), axis=0
    )
    norms = rng.integers(0, 700, (TOWERS, SLOTS))
    place, slot = (index.ravel() for index in np.indices(norms.shape))
    views = {
        "visits": pa.table(dict(zip(("u", "slot", "place"), found.T, strict=True))),
        "event_norms": pa.table({"place": place, "slot": slot, "q": norms.ravel()}),
    }
    for name, table in views.items():
        spark.createDataFrame(table).createOrReplaceTempView(name)
    yield found, norms
    for name in views:
        spark.catalog.dropTempView(name)


@pytest.mark.slow
def test_every_question_as_sql(town: Any, spark: Any, visits: Any) -> None:
    found, norms = visits
    rows = [(int(u), float(slot) + 0.5, f"t{place}") for u, slot, place in found]
    local = LocalSource(town.events(rows), town.towers(TOWERS), town.grid())
    define = Definition(UserEncoding.INTEGER, SPARK)
    bound, people = WeightBound(1.7, 1.2), Counting.PEOPLE
    rule, fine = WeightRule.of(bound), WeightRule.of(bound, NORM_UNITS)
    asked = {
        define.sampled(3, town.key): local.sampled(SampleBound(3), town.key),
        define.weighted(rule, people, False): local.weighted(bound, people),
        define.weighted(fine, people, True): local.weighted(bound, people, norms),
        define.place_totals(WeightRule.of(bound, TOTAL_UNITS), people): local.place_totals(
            bound, people
        ),
        define.slot_totals(rule, Counting.VISITS): local.slot_totals(bound, Counting.VISITS),
        define.capped_total(9, people): local.capped_total(9, people),
        define.ladder((1, 3, 9, 17), people): local.ladder((1, 3, 9, 17), people),
        define.exact(people): local.exact(people),
    }
    for sql, private in asked.items():
        expected = town.opened(private).values
        long = spark.sql(sql).toArrow().to_pydict()
        values = np.zeros_like(expected)
        keys = [long[name] for name in ("place", "slot") if name in long] or [[0]]
        values[tuple(keys)] = [int(n) for n in long["n"]]
        assert values.tobytes() == expected.tobytes(), sql
