"""A source none of whose files can name the places is refused by its formats and schemas alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sfumato.errors import InputError, UsageError
from sfumato.io.events import read_events, resolved
from sfumato.io.traces import read_traces

FIX = "{0},2008-02-02 15:36:08,116.5,39.9\n"


def taxis(folder: Path, numbers: range = range(1, 4)) -> Path:
    for number in numbers:
        (folder / f"{number}.txt").write_text(FIX.format(number))
    return folder


def test_coordinates_alone_name_no_tower(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="coordinates and no tower"):
        resolved(read_events(taxis(tmp_path)), zones=False)
    assert len(resolved(read_events(tmp_path), zones=True).parts) == 3


@pytest.mark.privacy
def test_no_row_has_a_part_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taxis(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file was opened")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError, match="coordinates and no tower"):
        resolved(read_events(tmp_path), zones=False)


@pytest.mark.privacy
def test_a_file_of_another_kind_is_counted(tmp_path: Path) -> None:
    """And so is one file alone, or none: it may be one person's."""
    assert resolved(read_events(tmp_path), zones=False).parts == ()
    taxis(tmp_path, range(1, 2))
    alone = resolved(read_events(tmp_path), zones=False)
    assert (alone.parts, len(alone.unfit)) == ((), 1)
    taxis(tmp_path)
    (tmp_path / "calls.csv").write_text("user,time,tower\n7,2008-02-02T15:00:00Z,t1\n")
    mixed = resolved(read_events(tmp_path), zones=False)
    assert [Path(part.label).name for part in mixed.parts] == ["calls.csv"]
    assert len(mixed.unfit) == 3


def test_columns_that_leave_it_open_in_all_files(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("user,time,tower,lon,lat\n")
    with pytest.raises(UsageError, match="which of them"):
        resolved(read_events(tmp_path, tz="UTC"), zones=True)


def test_towers_alone_are_no_traces(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("user,time,tower\n7,2008-02-02T15:00:00Z,t1\n")
    with pytest.raises(InputError, match="traces need coordinates"):
        read_traces(tmp_path)
    with pytest.raises(InputError, match="traces need coordinates"):
        read_traces(pa.table({"user": [1], "time": ["2008-02-02T15:00:00Z"], "tower": ["t1"]}))
