"""Metrics of synthetic trips and people, and the copying checks."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.utility.copying import (
    advantage_bound,
    copying_checks,
    life_points,
    newcombe,
    trip_points,
)
from sfumato.utility.mobility import Lives, common_part, judge_density, judge_lives
from sfumato.utility.trips import TripJudge, Trips, exact_repeats, hotspot_ndcg, kendall_tau

HOUR = 3_600_000_000


def some_trips(seed: int, n: int = 300, spread: float = 2.0) -> Trips:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, n)
    sizes[:2] = 1  # trips of one point are trips
    starts = np.concatenate([[0], np.cumsum(sizes)])
    steps = rng.normal(0, 0.4, (starts[-1], 2))
    steps[starts[:-1]] = rng.normal(0, spread, (n, 2))
    at = np.concatenate([np.cumsum(steps[a:b], axis=0) for a, b in pairwise(starts)])
    return Trips(at[:, 0].copy(), at[:, 1].copy(), starts)


def test_a_set_of_trips_is_like_itself_and_unlike_another() -> None:
    true = some_trips(1)
    same, other = (TripJudge(true).judge(some) for some in (true, some_trips(2, spread=0.5)))
    for name, value in same.items():
        assert value == pytest.approx(1.0 if name in ("pattern_f1", "hotspot_ndcg") else 0.0) or (
            name == "kendall_tau" and value > 0.5
        )
    assert other["density_jsd"] > 0.1
    assert other["query_R/3"] > 0.05
    assert other["kendall_tau"] < same["kendall_tau"]


def test_trips_of_another_number_are_scaled() -> None:
    true = some_trips(1)
    twice = true.pick(np.tile(np.arange(len(true)), 2))
    assert TripJudge(true).judge(twice)["query_R/10"] == pytest.approx(0.0)
    assert exact_repeats(twice) == pytest.approx(0.5, abs=0.01)


def test_a_point_and_a_line_are_counted_by_hand() -> None:
    """Lengths, diameters and the cells of a line across the box."""
    line = Trips(
        np.array([0.0, 3.0, 0.0, 6.0]), np.array([0.0, 4.0, 0.0, 6.0]), np.array([0, 2, 4])
    )
    from sfumato.utility.trips import _spans, cells_along

    spans = _spans(line.x, line.y, line.starts)
    assert spans[0].tolist() == pytest.approx([5, math.sqrt(72)])
    assert spans[1].tolist() == pytest.approx([5, math.sqrt(72)])
    cells, begins = cells_along(line, (0.0, 6.0, 0.0, 6.0), 6)
    assert cells[begins[1] :].tolist() == [0, 7, 14, 21, 28, 35]


def test_ranks_and_hot_spots_by_hand() -> None:
    assert kendall_tau(np.array([3, 2, 1]), np.array([30, 20, 10])) == 1
    assert kendall_tau(np.array([3, 2, 1]), np.array([1, 1, 1])) == -1  # ties count as reversed
    full = np.arange(10.0)
    assert hotspot_ndcg(full, full) == pytest.approx(1)
    assert hotspot_ndcg(full, -full) == 0


def test_no_trip_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one trip"):
        Trips(np.empty(0), np.empty(0), np.zeros(1, np.int64))


@pytest.mark.skipif("SFUMATO_JUDGES" not in os.environ, reason="SFUMATO_JUDGES is not set")
def test_figures_are_those_of_the_outside_judge(tmp_path: Path) -> None:
    sets = {"true": some_trips(1), "other": some_trips(2), "short": some_trips(3, 120, 1.0)}
    for name, trips in sets.items():
        text = []
        for k, (a, b) in enumerate(pairwise(trips.starts)):
            points = zip(trips.x[a:b], trips.y[a:b], strict=True)
            text.append(f"#{k}:\n>0:" + "".join(f"{x!r},{y!r};" for x, y in points))
        content = "\n".join(text).replace("np.float64(", "").replace(")", "")
        (tmp_path / f"{name}.dat").write_text(content + "\n")
    judge = Path(os.environ["SFUMATO_JUDGES"]) / "trajectories.py"
    files = [str(tmp_path / f"{name}.dat") for name in sets]
    ran = subprocess.run(
        [sys.executable, judge, *files], capture_output=True, text=True, check=True
    )
    ours = TripJudge(sets["true"])
    names = {
        "query R/3": "query_R/3",
        "query R/10": "query_R/10",
        "pattern F1": "pattern_f1",
        "pattern support": "pattern_support",
        "trip": "trip_jsd",
        "diameter": "diameter_jsd",
        "length": "length_jsd",
        "kendall": "kendall_tau",
        "density32 JSD": "density_jsd",
        "hotspot NDCG": "hotspot_ndcg",
    }
    for line, name in zip(ran.stdout.splitlines(), ("other", "short"), strict=True):
        theirs, found = json.loads(line), ours.judge(sets[name])
        for said, own in names.items():
            assert found[own] == pytest.approx(theirs[said], abs=2e-4), (name, own)


def lived(people: int, seed: int, days: int = 5) -> tuple[Lives, np.ndarray]:
    """Home at night, work by day, on a line of ten places 5 km apart."""
    rng = np.random.default_rng(seed)
    home, work = rng.integers(0, 10, (2, people))
    clock = np.array([3, 8, 10, 14, 21])
    hours = (np.arange(days)[:, None] * 24 + clock).ravel() + 4 * 24  # from a Monday on
    at_work = np.tile((clock > 8) & (clock < 17), days)
    place = np.where(at_work[None, :], work[:, None], home[:, None])
    user = np.repeat(np.arange(people), hours.size)
    lives = Lives.of(user, np.tile(hours * HOUR, people), place.ravel(), "UTC")
    centres = np.stack([np.arange(10) * 5.0, np.zeros(10)], axis=1)
    assert lives.homes(10).tolist() == home.tolist()
    assert lives.works(10).tolist() == work.tolist()
    return lives, centres


def test_lives_like_their_own_and_unlike_others() -> None:
    (true, centres), (other, _) = lived(400, 1), lived(400, 2)
    same = judge_lives(true, true, centres)
    assert same.pop("home_work_cpc") == 1
    assert max(same.values()) == 0
    found = judge_lives(true, other, centres)
    assert 0.5 < found["home_work_cpc"] < 0.9  # two samples of one law, a hundred pairs
    assert found["repetition_jsd"] == 0  # everybody repeats each day
    away = np.roll(centres, 1, axis=0)[::-1]
    assert judge_lives(true, other, away)["home_work_cpc"] == found["home_work_cpc"]


def test_repeated_days_are_counted_by_hand() -> None:
    """Day 0 at {0, 1}, day 2 at {1, 2}: one of three. Another person: the same twice; a third: one
    day alone."""
    user = np.array([0, 0, 0, 0, 1, 1, 2])
    place = np.array([0, 1, 1, 2, 5, 5, 7])
    time = np.array([0, 1, 48, 49, 0, 24, 3]) * HOUR
    lives = Lives.of(user, time, place, "UTC")
    assert lives.repetition(8).tolist() == pytest.approx([1 / 3, 1])
    order = np.array([6, 2, 0, 5, 1, 4, 3])
    again = Lives.of(user[order], time[order], place[order], "UTC")
    assert again.repetition(8).tolist() == lives.repetition(8).tolist()


def test_moves_and_gyration_by_hand() -> None:
    centres = np.array([[0.0, 0.0], [10.0, 0.0]])
    time = np.array([0, HOUR // 60, HOUR, HOUR * 3])  # ten kilometres in a minute, then in an hour
    lives = Lives.of(np.zeros(4, np.int64), time, np.array([0, 1, 0, 0]), "UTC")
    assert lives.too_fast(centres) == 0.5
    assert lives.gyration(centres).tolist() == pytest.approx([math.sqrt(0.75 * 0.25) * 10])
    still = Lives.of(np.zeros(2, np.int64), time[:2], np.zeros(2, np.int64), "UTC")
    assert still.too_fast(centres) == 0


def test_the_common_part_leaves_the_diagonal_out() -> None:
    true, made = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])  # of places 0 to 3: (0, 0) twice
    assert common_part(true, made, 4) == pytest.approx(2 * 0.5 / (0.5 + 0.75))
    assert common_part(np.array([0, 5]), np.array([5]), 4) == 1  # nobody moves in either


def test_night_is_the_local_night() -> None:
    """03:00 in Paris is the night before in New York."""
    time = np.array([2, 9]) * HOUR + 4 * 24 * HOUR
    who = np.zeros(2, np.int64)
    assert Lives.of(who, time, np.array([0, 1]), "Europe/Paris").homes(2)[0] == 0
    assert Lives.of(who, time, np.array([0, 1]), "Asia/Tokyo").works(2)[0] == 0


def test_density_is_scaled_to_the_true_total() -> None:
    true = np.array([[5.0, 1.0], [3.0, 0.0]])
    assert max(judge_density(true, 3 * true).values()) == pytest.approx(0)
    assert judge_density(true, true[::-1])["hourly_mre"] > 0.5


def test_copies_are_found_and_independent_people_are_not() -> None:
    rng = np.random.default_rng(3)
    inside, outside, fresh = rng.normal(size=(3, 600, 4))
    copied = copying_checks(inside, outside, inside + rng.normal(0, 0.01, inside.shape), 1, 1e-6)
    assert copied.membership.low > copied.bound  # more than the claim allows: it is false
    assert copied.outliers_found.value > 0.8
    assert copied.synthetic_nearer_members.low > 0.9
    honest = copying_checks(inside, outside, fresh, 1, 1e-6)
    assert honest.membership.low < 0 < honest.membership.high
    assert honest.synthetic_nearer_members.low < 0.5 < honest.synthetic_nearer_members.high
    assert honest.copies == 0
    assert set(honest.figures()) == set(copied.figures())


def test_bounds_and_intervals() -> None:
    assert advantage_bound(0, 0) == 0
    assert advantage_bound(1, 0) == pytest.approx((math.e - 1) / (math.e + 1))
    assert advantage_bound(math.inf, 0) == 1
    found = newcombe(56, 70, 48, 80)  # Newcombe (1998), case (a)
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=1e-4)
    with pytest.raises(UsageError, match="40 people"):
        copying_checks(np.zeros((9, 2)), np.zeros((90, 2)), np.zeros((9, 2)), 1, 0)


def test_points_of_trips_and_lives() -> None:
    line = Trips(np.array([0.0, 7.0, 2.0]), np.array([0.0, 0.0, 3.0]), np.array([0, 2, 3]))
    points = trip_points(line) * math.sqrt(8)
    assert points[0, ::2].tolist() == pytest.approx(list(range(8)))
    assert points[1].tolist() == pytest.approx([2, 3] * 8)
    lives, centres = lived(20, 1)
    assert life_points(lives, centres).shape == (20, 7)
