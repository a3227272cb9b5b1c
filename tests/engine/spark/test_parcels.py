"""Rows on their way to their task: every row arrives once, with all others of its user."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engine.spark import parcels
from sfumato.engine.spark.parcels import Addresses, murmur3, opened, tasks_of
from sfumato.model.events import UserEncoding

RNG = np.random.default_rng(8)
USERS = RNG.integers(-5, 40, 1_000)
CELLS = RNG.integers(0, 90, 1_000)
TALLY = np.array([-(3 << 50 | 7)], np.int64)


class Recipe:
    """As much of one as a parcel asks for."""

    def __init__(self, held: UserEncoding) -> None:
        self.held, self.dtype = held, np.dtype(np.int32)


def column(held: UserEncoding) -> Any:
    if held is UserEncoding.INTEGER:
        return pa.array(USERS)
    return pa.array([b"" if u < 0 else b"id-%d" % u * (1 + u % 3) for u in USERS], pa.binary())


@pytest.mark.parametrize("held", [UserEncoding.INTEGER, UserEncoding.TEXT])
@pytest.mark.parametrize("rows", [64, 1 << 18])
def test_every_row_arrives_once(
    held: UserEncoding, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = column(held)
    batches = [(users.slice(k, 100), CELLS[k : k + 100]) for k in range(0, 1_000, 100)]
    monkeypatch.setattr(parcels, "ROWS", rows)
    monkeypatch.setattr(
        parcels, "judged_cells", lambda given, _recipe: iter([*given, (None, TALLY)])
    )
    to = Addresses.of(5)
    got: list[tuple[Any, int]] = []
    told = []
    where: dict[Any, set[int]] = {}
    for batch in parcels.parcels(iter(batches), Recipe(held), to):  # type: ignore[arg-type]
        for row in range(batch.num_rows):
            found = opened(batch, row, held, np.int32)
            if found is None:
                told.append(batch.column("tally")[row].as_py())
                continue
            names = found[0].to_pylist()
            got += zip(names, found[1].tolist(), strict=True)
            for name in names:
                where.setdefault(name, set()).add(batch.column("address")[row].as_py())
    assert sorted(got) == sorted(zip(users.to_pylist(), CELLS.tolist(), strict=True))
    assert told == [TALLY.tobytes()]
    assert all(len(addresses) == 1 for addresses in where.values()), "one task a user"
    assert set().union(*where.values()) <= set(to.of_task.tolist())


def test_users_are_spread_evenly_over_tasks() -> None:
    for users in (pa.array(np.arange(20_000)), pa.array([b"%d" % u for u in range(20_000)])):
        sizes = np.bincount(tasks_of(users, 14), minlength=14)
        assert sizes.min() > 0.85 * 20_000 / 14
        assert sizes.max() < 1.15 * 20_000 / 14


@pytest.mark.xdist_group("spark")
def test_spark_sends_an_address_to_its_task(spark: Any) -> None:
    labels = [0, 1, 2, 41, 1 << 20]
    frame = spark.createDataFrame([(label,) for label in labels], "label INT")
    hashed = [row[0] for row in frame.selectExpr("hash(label)").collect()]
    assert hashed == [murmur3(label) for label in labels]
    to = Addresses.of(7)
    frame = spark.createDataFrame([(int(a),) for a in to.of_task], "address INT")
    sent = frame.repartition(7, "address").selectExpr("address", "spark_partition_id() AS task")
    assert {row.address: row.task for row in sent.collect()} == {
        int(address): task for task, address in enumerate(to.of_task)
    }
