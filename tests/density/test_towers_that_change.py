"""Towers with validity dates, as docs/files.md has them: moved, new and gone in the period."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

import sfumato
from sfumato.engine.local import DropLog, DropReason
from sfumato.errors import InputError
from sfumato.model.places import PlaceKind, Places
from sfumato.privacy.ledger import Cap, Ledger

ZONES = Places.of(
    PlaceKind.ZONES, ["east", "west"],
    [shapely.box(2.34, 48.8, 2.38, 48.84), shapely.box(2.30, 48.8, 2.34, 48.84)],
)  # fmt: skip
LIST = """Mast,Ost,Nord,ab,bis
a,2.310,48.82,,2024-03-12
a,2.370,48.82,2024-03-12,
b,2.369,48.81,,
c,2.312,48.83,2024-03-11,2024-03-13
d,2.310,48.82,2024-03-13,
far,7.0,43.7,,
"""
COLUMN = {"towers.id": "Mast", "towers.lon": "Ost", "towers.lat": "Nord"}
COLUMN |= {"towers.valid_from": "ab", "towers.valid_to": "bis"}


@pytest.fixture
def said(tmp_path: Path) -> dict[str, Any]:
    """A list whose first tower moves from west to east at midnight in Paris on 12 March."""
    (tmp_path / "towers.csv").write_text(LIST)
    said: dict[str, Any] = {"towers": tmp_path / "towers.csv", "zones": ZONES, "column": COLUMN}
    said |= {"start": "2024-03-11", "end": "2024-03-14", "slot": "1d", "tz": "Europe/Paris"}
    return said | {"epsilon": 3, "delta": 1e-4, "expected_users": 9, "scheme": "gaussian"}


def test_events_count_where_the_tower_stood_then(said: dict[str, Any], tmp_path: Path) -> None:
    rows = [
        *((k, f"2024-03-{day}T22:30:00Z", "a") for day in (11, 12) for k in range(5)),
        (7, "2024-03-11T23:30:00Z", "a"),  # after midnight in Paris: it has moved
        (8, "2024-03-12T12:00:00Z", "c"),
        (8, "2024-03-13T12:00:00Z", "c"),  # gone
        (8, "2024-03-12T12:00:00Z", "d"),  # not there yet
        (8, "2024-03-12T12:00:00Z", "far"),
        (None, "2024-03-12T12:00:00Z", "a"),
        (8, "2024-03-12T12:00:00Z", None),
    ]
    events = pa.table({name: [row[k] for row in rows] for k, name in
                       enumerate(("user", "time", "tower"))})  # fmt: skip
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("town", Cap(epsilon=100, delta=0.1))
    logs: list[DropLog] = []
    made = sfumato.release(
        events,
        anyway=True,
        **said,
        dataset="town",
        ledger=ledger,
        out=tmp_path / "out",
        internal=logs.append,
    )
    dropped = {reason: number for reason, number in logs[0].dropped.items() if number}
    assert dropped == {
        DropReason.NO_USER: 1,
        DropReason.NO_PLACE: 1,
        DropReason.UNKNOWN_PLACE: 1,
        DropReason.NOT_VALID_THEN: 2,
    }
    keys = ("towers", "zones", "column")
    truth = sfumato.evaluate(made, events, **{key: said[key] for key in keys}).truth
    assert truth.sum() == pytest.approx(12, rel=0.2)  # cells reach a little beyond the zones
    east, west = truth
    assert west[0] > 0.8 * 5 > 1 > east[0]  # before it moved
    assert east[1] > 0.8 * 6 > 1.1 > west[1] > 0.5  # afterwards; c stands in the west
    assert np.allclose(truth[:, 2], 0)


def test_towers_overseas_are_no_mistake_beside_zones(said: dict[str, Any], tmp_path: Path) -> None:
    """One of many that lies an ocean away is left out; without zones it is taken for a mistake."""
    near = [f"n{k},{2.30 + 0.0005 * k:.4f},48.82,,\n" for k in range(150)]
    (tmp_path / "towers.csv").write_text(LIST + "".join(near) + "island,55.5,-21.1,,\n")
    lines = " ".join(sfumato.plan(**said, rehearse=False).lines())
    assert "too far outside the zones" in lines
    with pytest.raises(InputError, match="far from all others"):
        sfumato.plan(**(said | {"zones": None}), rehearse=False)


def test_a_plan_takes_such_a_list(said: dict[str, Any]) -> None:
    assert "epsilon 3" in " ".join(sfumato.plan(**said, rehearse=False).lines())
