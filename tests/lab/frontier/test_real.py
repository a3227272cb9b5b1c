"""A made-up population around given counts: every visit dealt once, heavy users and all."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato_lab.studies.frontier.cities import FILE, populate, read_counts

DATA = os.environ.get("SFUMATO_DATA")


def test_visits_add_up_to_the_counts() -> None:
    rng = np.random.default_rng(12)
    counts = rng.poisson(20, (9, 168))
    user, place, slot = populate(counts, rng)
    dealt = np.zeros_like(counts)
    np.add.at(dealt, (place, slot), 1)
    assert np.array_equal(dealt, counts)
    visits = np.bincount(user)
    assert 9 < visits[visits > 0].mean() < 19  # 13.55 in the law
    assert visits.max() > 60


def test_people_have_a_place_they_go_to_most() -> None:
    rng = np.random.default_rng(13)
    counts = rng.poisson(20, (20, 168))
    user, place, _ = populate(counts, rng)
    busy = np.argsort(np.bincount(user))[-200:]
    favourite = [np.bincount(place[user == u]).max() / (user == u).sum() for u in busy]
    assert np.median(favourite) > 0.5  # chance alone would give about a tenth


def test_a_folder_without_the_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="c2tm"):
        read_counts(tmp_path)


@pytest.mark.real_data
@pytest.mark.skipif(
    DATA is None or not (Path(DATA) / FILE).is_file(), reason="SFUMATO_DATA has no c2tm"
)
def test_the_real_week_is_whole() -> None:
    assert DATA is not None
    ids, counts = read_counts(Path(DATA))
    assert ids.size > 100
    assert counts.shape == (ids.size, 168)
    assert (counts.sum(axis=0) > 0).all()
