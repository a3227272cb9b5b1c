"""A whole release out of PostgreSQL: the bytes of one from a file, and finished if interrupted."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import sfumato
from sfumato.density.registry import scheme_named
from sfumato.density.request import request
from sfumato.density.tables import density_table
from sfumato.engine.local import LocalSource
from sfumato.errors import SfumatoError
from sfumato.geography.places import PlaceOptions
from sfumato.io.events import read_events
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.events import Tab
from sfumato.privacy.ledger import Cap, Ledger
from sfumato.privacy.wall import Wall

pytestmark = pytest.mark.postgres
GRID = TimeGrid.between(date(2024, 3, 4), date(2024, 3, 6), "1h", "Europe/Paris")
TOWERS = Places.of(
    PlaceKind.TOWERS,
    [f"t{k:02d}" for k in range(12)],
    [shapely.Point(2 + k % 4 / 50, 48 + k // 4 / 50) for k in range(12)],
)


def records(rows: int, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    start = np.datetime64("2024-03-03T12:00:00", "us").astype(np.int64)
    instants = start + rng.integers(0, 3 * 86_400_000_000, rows)
    people = rng.integers(0, max(rows // 8, 1), rows)
    return pa.table(
        {
            "user_id": pa.array(people),
            "timestamp": pa.array(instants, pa.timestamp("us", tz="UTC")),
            "cell_id": pa.array(TOWERS.ids[rng.integers(0, 12, rows)].tolist()),
        }
    )


def settings(name: str, scheme: str) -> dict[str, Any]:
    return {
        "towers": TOWERS,
        "start": "2024-03-04",
        "end": "2024-03-06",
        "tz": "Europe/Paris",
        "dataset": "d",
        "name": name,
        "scheme": scheme,
        "epsilon": 1.0,
        "delta": 1e-6,
        "expected_users": 10_000,
    }


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "books" / "ledger.sqlite", key=tmp_path / "books" / "ledger.key")
    ledger.initialise()
    ledger.add_dataset("d", Cap(epsilon=8, delta=1e-4))
    return ledger


def check_same_bytes(bureau: Any, book: Ledger, tmp_path: Path, scheme: str, rows: int) -> None:
    """Release from the server, keep the key, and draw the same from a Parquet file."""
    table = records(rows)
    bureau.load(table, "events", "calls")
    pq.write_table(table, tmp_path / "calls.parquet")
    made = sfumato.release(
        bureau.address("events.calls"),
        out=tmp_path / scheme,
        ledger=book,
        keep_key=True,
        **settings(scheme, scheme),
    )
    key = book.keyring.release_key(made.manifest.release.id)
    said = settings(scheme, scheme)
    form = {key: value for key, value in said.items() if key not in ("towers", "start", "end")}
    facts = request(places=PlaceOptions(TOWERS), grid=GRID, **form).facts
    source = LocalSource(read_events(tmp_path / "calls.parquet"), TOWERS, GRID)
    again = scheme_named(scheme).run(source, Wall(Tab(), key), facts)
    source.close()
    assert made.table().equals(density_table(again, GRID))


@pytest.mark.parametrize("scheme", ["gaussian", "bayes"])
def test_the_same_bytes_as_from_parquet(
    bureau: Any, book: Ledger, tmp_path: Path, scheme: str
) -> None:
    check_same_bytes(bureau, book, tmp_path, scheme, rows=6000)


@pytest.mark.slow
def test_the_same_bytes_of_a_million_rows(bureau: Any, book: Ledger, tmp_path: Path) -> None:
    check_same_bytes(bureau, book, tmp_path, "bayes", rows=1_000_000)


def test_an_interrupted_release_is_finished_whatever_the_order_of_rows(
    bureau: Any, book: Ledger, tmp_path: Path
) -> None:
    """Stopped after the noise was drawn; the table is rewritten; the rerun pays nothing more."""
    bureau.load(records(3000), "events", "calls")
    seen: list[str] = []

    def stop(what: str, share: float) -> None:
        del share
        seen.append(what)
        if seen.count("fingerprint of the input") == 2:
            raise KeyboardInterrupt

    address = bureau.address("events.calls")
    out = tmp_path / "day"
    with pytest.raises(KeyboardInterrupt):
        sfumato.release(address, out=out, ledger=book, progress=stop, **settings("day", "gaussian"))
    assert not out.exists()
    bureau.run(
        "CREATE TABLE events.other AS SELECT * FROM events.calls ORDER BY random()",
        "DROP TABLE events.calls",
        "ALTER TABLE events.other RENAME TO calls",
        "INSERT INTO events.calls VALUES (1, '2024-04-01 00:00+00', 't01')",  # another month
    )
    made = sfumato.release(address, out=out, ledger=book, **settings("day", "gaussian"))
    assert made.how == "resumed"
    assert len(book.book().charges) == 1
    bureau.run("INSERT INTO events.calls VALUES (1, '2024-03-05 00:00+00', 't01')")
    with pytest.raises(SfumatoError):
        sfumato.release(address, out=tmp_path / "x", ledger=book, **settings("day", "gaussian"))
