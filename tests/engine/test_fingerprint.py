"""The keyed fingerprint: same content, same text; anything else differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sfumato.engine.fingerprint import fingerprint
from sfumato.engine.local import LocalSource
from sfumato.model.events import EventColumns, EventFile, Events

KEY = b"a key of the holder's own"
ROWS = [(1, 0.5, "t0"), (2, 1.5, "t1"), (3, 2.5, "t0")]


def filed(town: Any, folder: Path, names: list[str], rows: Any = ROWS) -> Events:
    folder.mkdir(exist_ok=True)
    reading = town.events(rows).parts[0].reading
    for k, name in enumerate(names):
        pq.write_table(town.table(rows[k :: len(names)]), folder / name)
    return Events(tuple(EventFile(folder / name, "parquet", reading) for name in names))


def test_contents_count_and_names_do_not(town: Any, tmp_path: Path) -> None:
    def of(events: Events, key: bytes = KEY) -> str:
        return fingerprint(events, town.towers(2), town.grid(), key)

    first = filed(town, tmp_path / "a", ["x.parquet", "y.parquet"])
    renamed = filed(town, tmp_path / "b", ["p.parquet", "q.parquet"])
    assert of(first) == of(renamed)
    assert len(of(first)) == 64
    assert of(first, b"another key") != of(first)
    changed = filed(town, tmp_path / "c", ["x.parquet", "y.parquet"], [*ROWS[:2], (4, 2.5, "t0")])
    assert of(changed) != of(first)
    reading = replace(first.parts[0].reading, columns=EventColumns("time", "user", "tower"))
    swapped = replace(first, parts=tuple(replace(part, reading=reading) for part in first.parts))
    assert of(swapped) != of(first)


def test_tables_count_by_content_however_they_are_chunked(town: Any) -> None:
    import pyarrow as pa

    whole = town.table(ROWS)
    chunked = pa.concat_tables([whole.slice(0, 1), whole.slice(1, 2)])
    places, grid = town.towers(2), town.grid()
    one, two, three = (
        fingerprint(town.described(table), places, grid, KEY)
        for table in (whole, chunked, whole.slice(0, 2))
    )
    assert one == two != three


def test_places_and_grid_are_part_of_the_input(town: Any) -> None:
    events = town.events(ROWS)
    base = fingerprint(events, town.towers(2), town.grid(), KEY)
    assert fingerprint(events, town.towers(3), town.grid(), KEY) != base
    assert fingerprint(events, town.towers(2), town.grid(2), KEY) != base
    assert town.local(ROWS, 2).fingerprint(KEY) == base
    assert town.relational(ROWS, 2).fingerprint(KEY) == base


@pytest.mark.privacy
def test_one_value_more_than_a_dictionary_can_count_stops_nothing(town: Any) -> None:
    """Chunks with 8-bit indices: together they have more values than those can tell apart."""
    import pyarrow as pa

    def coded(first: int) -> Any:
        names = pa.array([f"t{first + k}" for k in range(100)])
        places = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), names)
        table = town.table([(first + k, 0.5, "t0") for k in range(100)])
        return table.set_column(table.column_names.index("tower"), "tower", places)

    def source(*firsts: int) -> LocalSource:
        events = town.described(pa.concat_tables([coded(first) for first in firsts]))
        return LocalSource(events, town.towers(2), town.grid())

    few, many = source(0), source(0, 100)
    assert few.fingerprint(KEY) != many.fingerprint(KEY)
    assert many.drops.rows == 200
    assert many.drops.kept == few.drops.kept == 2
