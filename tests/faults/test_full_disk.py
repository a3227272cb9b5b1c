"""The disk is full, or no file may grow: a clear error, no rubbish, paid once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults import weather
from tests.faults.storm import Run, Store, Storm

pytestmark = pytest.mark.privacy
ENTRIES = ("release", "stream, pushed", "query")


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_full_disk(zygote: Run, store: Store, tmp_path: Path, entry: str) -> None:
    try:
        with weather.small_disk() as disk:
            storm = weather.FullDisk(disk, zygote, entry, tmp_path, store, 1)
            storm.siege()
    except OSError as error:
        pytest.skip(str(error))
    assert not storm.tally.wrong, "\n".join(storm.tally.wrong)


@pytest.mark.parametrize("entry", ENTRIES)
def test_files_that_may_not_grow(zygote: Run, store: Store, tmp_path: Path, entry: str) -> None:
    storm = Storm(zygote, entry, tmp_path, store, 1, weather.small_files)
    storm.siege()
    assert storm.tally.strikes
    assert not storm.tally.wrong, "\n".join(storm.tally.wrong)
