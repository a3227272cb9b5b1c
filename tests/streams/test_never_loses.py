"""The default never loses to zeros or to `mean`, on thin data above all.

Errors are means over draws of noise; 2 % is left for the chance of these few draws. `mean`
needs the finished day, so the live default is compared with it only once it has seen two days.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato_lab.studies.moving.cities import City, cabspotting_city, crowd_city, hangzhou_city
from sfumato_lab.studies.moving.study import Score, corrected, finished

CHANCE = 1.02
KNOWN = 1.04
"""Finished weeks of taxis are lost to zeros by 2 % in relative error; see docs/streams.md."""


def errors(score: Score) -> NDArray[np.float64]:
    return np.array([score.busiest, score.all_cells, score.relative])


def nearly_nobody() -> City:
    """An empty land of 1,600 squares with a few people in some of them."""
    rng = np.random.default_rng(8)
    level = np.zeros(1600)
    level[rng.choice(1600, 20, replace=False)] = 0.4
    counts = rng.poisson(level, (3, 8, 1600)).astype(np.int64)
    return City("nobody", counts, 100, 40, 0, 0.0, 1.0)


@pytest.mark.parametrize("epsilon", [0.4, 1.0])
def test_a_finished_day_of_a_thin_crowd(epsilon: float) -> None:
    city = crowd_city(1, 3_000, seed=61)
    names = ("zeros", "mean", "profile")
    found = {row.scheme: errors(row.score) for row in finished(city, epsilon, 1, range(4), names)}
    assert (found["profile"] <= CHANCE * found["zeros"]).all()
    assert (found["profile"] <= CHANCE * found["mean"]).all()


@pytest.mark.parametrize("epsilon", [0.1, 0.4, 1.0])
def test_nearly_nobody_is_nobody(epsilon: float) -> None:
    city = nearly_nobody()
    rows = finished(city, epsilon, 1, range(3), ("zeros", "mean", "profile", "smoother"))
    rows += corrected(city, epsilon, ("comb", "rhythm"), range(3))
    found = {row.scheme: errors(row.score) for row in rows}
    whole = corrected(city, epsilon, ("zeros",), range(1))[0]
    for name in ("profile", "smoother"):
        assert (found[name] <= CHANCE * found["zeros"]).all()
        assert (found[name] <= CHANCE * found["mean"]).all()
    assert (found["rhythm"] <= CHANCE * errors(whole.score)).all()
    assert (found["comb"] <= CHANCE * errors(whole.score)).all()


def test_a_live_stream_of_a_thin_crowd() -> None:
    """The third to the ninth day; the first two are for learning."""
    city = crowd_city(9, 3_000, seed=62)
    rows = corrected(city, 1.0, ("comb", "rhythm", "zeros", "mean"), range(1))
    found = {row.scheme: errors(row.score) for row in rows}
    assert (found["comb"] <= found["zeros"]).all()
    assert (found["comb"] <= CHANCE * found["mean"]).all()
    assert (found["rhythm"] <= found["zeros"]).all()
    assert (found["rhythm"] <= found["mean"]).all()


@pytest.mark.slow
@pytest.mark.skipif("SFUMATO_DATA" not in os.environ, reason="SFUMATO_DATA does not say where")
@pytest.mark.parametrize("epsilon", [0.4, 1.0])
@pytest.mark.parametrize("which", ["cabs", "hangzhou"])
def test_on_the_real_data(which: str, epsilon: float) -> None:
    data = Path(os.environ["SFUMATO_DATA"])
    if which == "cabs":
        city = cabspotting_city(data / "cabspotting_sf" / "cabspotting_sf_2008.parquet")
    else:
        city = hangzhou_city(data / "hangzhou_cdr" / "hangzhou_movement_976users.parquet")
    rows = corrected(city, epsilon, ("rhythm", "zeros", "mean"), range(4))
    found = {row.scheme: errors(row.score) for row in rows}
    assert (found["rhythm"] <= CHANCE * found["zeros"]).all()
    assert (found["rhythm"] <= CHANCE * found["mean"]).all()
    for days in (1, 7):
        rows = finished(city, epsilon, days, range(6), ("zeros", "mean", "profile"))
        found = {row.scheme: errors(row.score) for row in rows}
        assert (found["profile"][:2] <= CHANCE * found["zeros"][:2]).all()
        assert found["profile"][2] <= KNOWN * found["zeros"][2]
        assert (found["profile"] <= CHANCE * found["mean"]).all()
