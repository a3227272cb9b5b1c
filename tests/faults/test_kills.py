"""A quick part of `make faults`: every command is killed, finishes as the same and pays once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults import weather
from tests.faults.commands import COMMANDS
from tests.faults.storm import Run, Store, Storm

pytestmark = pytest.mark.privacy


@pytest.mark.parametrize("entry", COMMANDS)
def test_kills(zygote: Run, store: Store, tmp_path: Path, entry: str) -> None:
    storm = Storm(zygote, entry, tmp_path, store, seed=20240304)
    storm.siege()
    assert storm.tally.strikes
    assert not storm.tally.wrong, "\n".join(storm.tally.wrong)


@pytest.mark.slow
@pytest.mark.parametrize("entry", COMMANDS)
def test_60_kills(zygote: Run, store: Store, tmp_path: Path, entry: str) -> None:
    storm = Storm(zygote, entry, tmp_path, store, seed=300)
    while storm.tally.strikes < 60:
        storm.siege()
    assert storm.tally.compared
    assert not storm.tally.wrong, "\n".join(storm.tally.wrong)


@pytest.mark.parametrize("entry", ["release", "stream --follow, its own clock"])
def test_a_clock_that_jumps(zygote: Run, store: Store, tmp_path: Path, entry: str) -> None:
    storm = Storm(zygote, entry, tmp_path, store, 5, weather.jumping)
    storm.siege()
    assert not storm.tally.wrong, "\n".join(storm.tally.wrong)


@pytest.mark.slow
def test_32_processes_race_for_one_cap(zygote: Run, store: Store, tmp_path: Path) -> None:
    raced = weather.race(zygote, tmp_path / "race", store, 10, seed=3)
    raced.add(weather.one_of_many(zygote, tmp_path / "together", store))
    assert not raced.wrong, "\n".join(raced.wrong)
