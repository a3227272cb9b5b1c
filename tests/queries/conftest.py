"""A small town whose desk is asked: towers t0 to t5, two days of hours, a ledger of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

from sfumato.model.places import PlaceKind, Places
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.ledger.records import Cap
from sfumato.queries.desk import Desk

TOWERS, DAYS = 6, 2
START = datetime(2024, 1, 1, tzinfo=UTC)
TOWN = "townspeople"
Visit = tuple[int, int, int]
"""User, hour since the start, tower."""


def towers(n: int = TOWERS) -> Places:
    points = [shapely.Point(2.0 + k / 100, 48.0) for k in range(n)]
    return Places.of(PlaceKind.TOWERS, [f"t{k}" for k in range(n)], points)


def visits(seed: int = 1, people: int = 400, each: int = 8) -> list[Visit]:
    rng = np.random.default_rng(seed)
    return [
        (user, int(rng.integers(24 * DAYS)), int(rng.integers(TOWERS)))
        for user in range(people)
        for _ in range(each)
    ]


def table(rows: list[Visit]) -> pa.Table:
    instants = [START + timedelta(hours=hour, minutes=30) for _, hour, _ in rows]
    return pa.table(
        {
            "user": pa.array([row[0] for row in rows], pa.int64()),
            "time": pa.array(instants, pa.timestamp("us", "UTC")),
            "tower": pa.array([f"t{row[2]}" for row in rows], pa.string()),
        }
    )


def true_answer(rows: list[Visit], places: set[int], hours: set[int], clip: int) -> int:
    inside: dict[int, set[tuple[int, int]]] = {}
    for user, hour, tower in rows:
        if tower in places and hour in hours:
            inside.setdefault(user, set()).add((tower, hour))
    return sum(min(len(cells), clip) for cells in inside.values())


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger" / "ledger.sqlite")
    made.initialise()
    made.add_dataset(TOWN, Cap(epsilon=20.0, delta=1e-5))
    return made


MakeDesk = Callable[..., Desk]


@pytest.fixture
def new_desk(ledger: Ledger) -> MakeDesk:
    """Opens a desk on rows; whatever else it takes by name."""

    def make(rows: list[Visit] | None = None, **options: Any) -> Desk:
        given: dict[str, Any] = {
            "towers": towers(),
            "dataset": TOWN,
            "start": "2024-01-01",
            "end": "2024-01-03",
            "tz": "UTC",
            "delta": 1e-6,
            "ledger": ledger,
        }
        return Desk(table(visits() if rows is None else rows), **given | options)

    return make
