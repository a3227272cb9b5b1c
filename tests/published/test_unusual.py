"""Unusual hours: planted ones are found, doubt and chance are not taken for news."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.published.asked import MONDAY, daily, hours, published

from sfumato.errors import InputError
from sfumato.published.release import Release

FIRST = MONDAY - timedelta(days=14)  # no clock is changed in these four weeks
WEEKS = [hours(FIRST + timedelta(days=7 * k), FIRST + timedelta(days=7 * k + 7)) for k in range(4)]
SD = 20.0


def measured(folder: Path, week: int, rng: np.random.Generator, surge: float = 1.0) -> Release:
    """A week whose people come by chance, weeks differ by 5 %, and whose numbers have an error."""
    expected = daily(WEEKS[week]) * (1 + 0.05 * rng.standard_normal(168))
    expected[:, 60] *= surge  # Wednesday noon
    true = rng.poisson(expected)
    told = np.maximum(true + SD * rng.standard_normal(true.shape), 0.0)
    return published(folder, WEEKS[week], np.round(told, 3), sd=SD, seed=week)


def test_a_surge_is_found_and_a_common_week_is_not_unusual(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    before = [measured(tmp_path / f"w{k}", k, rng) for k in range(3)]
    usual = measured(tmp_path / "usual", 3, rng)
    odd = measured(tmp_path / "odd", 3, rng, surge=1.8)
    found = odd.unusual(earlier=before)
    assert WEEKS[3].starts()[60] in [row["slot"] for row in found.unusual]
    assert len(found.unusual) <= 3
    assert "unusual" in found.headline
    assert found.rows[60]["weeks"] == 3
    assert found.rows[60]["relative"] == pytest.approx(0.8, abs=0.25)
    assert len(usual.unusual(earlier=before).unusual) <= 2
    assert found.plot().axes


def test_an_hour_within_its_own_doubt_is_not_unusual(tmp_path: Path) -> None:
    """A third more, published to ± a half: nobody can tell."""
    values = daily(WEEKS[0])
    before = published(tmp_path / "before", WEEKS[0], values, sd=150.0)
    told = daily(WEEKS[1])
    told[:, 60] *= 1.33
    now = published(tmp_path / "now", WEEKS[1], told, sd=150.0, seed=2)
    (row,) = now.unusual(
        earlier=[before], start="2024-02-28T12:00", end="2024-02-28T13:00", zones="b"
    ).rows
    assert row["difference"].value > 100
    assert not row["unusual"]


def test_false_alarms_are_rare(tmp_path: Path) -> None:
    """Ten common weeks against three others: at most a few alarms among 1,680 hours."""
    rng = np.random.default_rng(11)
    before = [measured(tmp_path / f"w{k}", k, rng) for k in range(3)]
    alarms = [
        len(measured(tmp_path / f"n{k}", 3, rng).unusual(earlier=before, zones="a").unusual)
        for k in range(10)
    ]
    assert sum(alarms) <= 6, alarms


def test_one_release_of_several_weeks_is_held_against_itself(tmp_path: Path) -> None:
    grid = hours(FIRST, FIRST + timedelta(days=28))
    values = daily(grid)
    values[:, 168 + 60] *= 2
    month = published(tmp_path / "month", grid, values)
    assert [row["slot"] for row in month.unusual().unusual] == [grid.starts()[168 + 60]]


def test_what_cannot_be_told(tmp_path: Path) -> None:
    week = published(tmp_path / "week", WEEKS[0], daily(WEEKS[0]))
    with pytest.raises(InputError, match="every weekday and hour once"):
        week.unusual()
    bare = published(tmp_path / "bare", WEEKS[1], daily(WEEKS[1]), sd=None)
    found = bare.unusual(earlier=[week])
    assert found.rows[0]["unusual"] is None
    assert "cannot be said" in found.headline
    days = WEEKS[1]
    people = published(tmp_path / "people", days, daily(days), privacy={"counting": "people"})
    with pytest.raises(InputError, match="counts something else"):
        week.unusual(earlier=[people])
    other = {"kind": "zones", "count": 4, "sha256": "b" * 64}
    elsewhere = published(tmp_path / "elsewhere", WEEKS[1], daily(WEEKS[1]), released=other)
    with pytest.raises(InputError, match="other places"):
        week.unusual(earlier=[elsewhere])
    assert week.unusual(earlier=[elsewhere], zones="a").rows
