"""`events_tz`: the clock of the records apart from the release's, for every format and verb."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from typer.testing import CliRunner

import sfumato
from sfumato.cli.main import app
from sfumato.engine.local import DropLog
from sfumato.model.places import PlaceKind, Places
from sfumato.privacy.ledger import Cap, Ledger

TOKYO = ZoneInfo("Asia/Tokyo")
FIRST = datetime(2024, 3, 4, 23, tzinfo=UTC)  # the fifth of March in Paris, where days are counted
INSTANTS = [FIRST + timedelta(minutes=47 * k) for k in range(40)]
USERS = [k % 8 for k in range(40)]
TOWERS = Places.of(
    PlaceKind.TOWERS, ["a", "b"], [shapely.Point(2.3, 48.85), shapely.Point(2.35, 48.86)]
)
NAMES = ["ab"[k % 2] for k in range(40)]
SAID: dict[str, Any] = {"start": "2024-03-05", "end": "2024-03-06", "tz": "Europe/Paris"}
SAID |= {"slot": "1h"}


def naive(instant: datetime) -> datetime:
    """What a clock in Tokyo shows then."""
    return instant.astimezone(TOKYO).replace(tzinfo=None)


def written(kind: str, home: Path, stamp: Any) -> Any:
    """The records in a format, times as `stamp` makes them: with an offset or without."""
    times = [stamp(instant) for instant in INSTANTS]
    texts = [time.isoformat(" ") for time in times]
    zone = None if times[0].tzinfo is None else "UTC"
    if kind == "csv":
        path = home / "events.csv"
        lines = [f"{u},{t},{p}\n" for u, t, p in zip(USERS, texts, NAMES, strict=True)]
        path.write_text("user,time,tower\n" + "".join(lines))
    elif kind == "ndjson":
        path = home / "events.ndjson"
        rows = zip(USERS, texts, NAMES, strict=True)
        path.write_text("".join(json.dumps({"user": u, "time": t, "place": p}) + "\n"
                                for u, t, p in rows))  # fmt: skip
    else:
        unit = "ns" if kind == "frame" else "us"
        table = pa.table({"user": USERS, "time": pa.array(times, pa.timestamp(unit, zone)),
                          "tower": NAMES})  # fmt: skip
        if kind == "frame":
            return table.to_pandas()
        path = home / "events.parquet"
        pq.write_table(table, path)
    return str(path)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.initialise()
    ledger.add_dataset("town", Cap(epsilon=1000, delta=0.5))
    return tmp_path


@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet", "frame"])
def test_the_truth_is_that_of_the_same_instants(kind: str, home: Path) -> None:
    """Release and evaluate read a wall clock's times as the instants that they are."""
    (home / "aware").mkdir()
    aware = written(kind, home / "aware", lambda instant: instant)
    local = written(kind, home, naive)
    logs: list[DropLog] = []
    made = sfumato.release(
        local, anyway=True, towers=TOWERS, **SAID, events_tz="Asia/Tokyo", dataset="town",
        epsilon=5,
        delta=1e-3, scheme="gaussian", expected_users=8, out=home / "made",
        ledger=home / "ledger.sqlite", internal=logs.append,
    )  # fmt: skip
    truth = sfumato.evaluate(made, aware, towers=TOWERS).truth
    assert truth.sum() == logs[0].kept > 20
    assert np.array_equal(
        sfumato.evaluate(made, local, towers=TOWERS, events_tz="Asia/Tokyo").truth, truth
    )
    if kind == "csv":  # on the release's own clock they are other instants
        assert not np.array_equal(sfumato.evaluate(made, local, towers=TOWERS).truth, truth)
    seen = sfumato.inspect(local, events_tz="Asia/Tokyo")
    assert seen.span is not None
    assert seen.span[0] == int(FIRST.timestamp() * 1e6)
    if kind != "ndjson":
        assert any("Asia/Tokyo" in part for _, _, part in seen.columns)
    assert 'events-tz = "Asia/Tokyo"' in seen.toml()


def test_every_command_that_reads_records_has_the_option() -> None:
    for command in ("release", "evaluate", "stream", "inspect", "attack recovery"):
        said = CliRunner().invoke(app, [*command.split(), "-h"]).output
        assert "--events-tz" in said, command


def test_a_stream_reads_on_the_clock_of_its_records(home: Path) -> None:
    rows: dict[str, int] = {}
    for name, stamp, clock in (("aware", None, None), ("naive", naive, "Asia/Tokyo")):
        (home / name).mkdir()
        events = written("csv", home / name, stamp or (lambda instant: instant))
        kept: list[Any] = []
        sfumato.stream(
            events, towers=TOWERS, **SAID, events_tz=clock, dataset="town", epsilon=5, delta=1e-3,
            unit="user-period", expected_users=8, out=home / f"{name}-out",
            ledger=home / "ledger.sqlite", internal=kept.append,
        )  # fmt: skip
        rows[name] = kept[0].kept
    assert rows["aware"] == rows["naive"] > 20


def test_a_clock_that_nobody_states_is_the_releases(home: Path) -> None:
    frame = pd.DataFrame({"user": [1], "time": [pd.Timestamp("2024-03-05 12:00")], "tower": ["a"]})
    logs: list[DropLog] = []
    sfumato.release(
        frame, anyway=True, towers=TOWERS, **SAID, dataset="town", epsilon=5, delta=1e-3,
        scheme="gaussian",
        expected_users=8, out=home / "made", ledger=home / "ledger.sqlite", internal=logs.append,
    )  # fmt: skip
    assert logs[0].kept == 1
