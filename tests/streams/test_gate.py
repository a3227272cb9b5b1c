"""The gate of the live feeds: the crowd's rows come out alike, whichever poison person is there.

The zoo is that of the readers (`tests/io/poison.py`): lines of a pipe, files of a folder.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.io import poison
from tests.io.poison import PLACEMENTS, csv_zoo, gathered, json_zoo, wanted, written

from sfumato.io.rows import Positions
from sfumato.model.events import UserEncoding
from sfumato.streams.input import Options, folder_feed, ndjson_feed

pytestmark = pytest.mark.privacy
CSV, JSON = csv_zoo(), json_zoo()
BY_NAME = Options(zones=False, columns={"place": "tower"}, tz="UTC")


def seen(items: list[object]) -> object:
    rows = [item for item in items if isinstance(item, Positions)]
    return gathered(rows, UserEncoding.TEXT)


@pytest.mark.parametrize("name", JSON)
def test_a_pipe(name: str) -> None:
    assert len(JSON) >= 40
    for place in PLACEMENTS.values():
        lines = b"".join(line + b"\n" for line in place(poison.crowd_json(), JSON[name]))
        assert seen(list(ndjson_feed(io.BytesIO(lines), BY_NAME))) == wanted()


@pytest.mark.parametrize("name", CSV)
def test_a_folder_that_fills(name: str, tmp_path: Path) -> None:
    assert len(CSV) >= 40
    for number, (place, order) in enumerate(PLACEMENTS.items()):
        lines, header = order(poison.crowd_csv(), CSV[name]), b"user,time,tower,lon,lat"
        folder = written(tmp_path / place, lines, files=1 + number, header=header, ending=".csv")
        once = iter([True, False])
        assert seen(list(folder_feed(folder, BY_NAME, more=lambda: next(once)))) == wanted()  # noqa: B023
