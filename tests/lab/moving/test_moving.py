"""The studies in small form: every number is there, and the plots can be drawn."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.streams.registry import stream_scheme
from sfumato_lab.as_printed.streams import Printed, division, static_hybrid
from sfumato_lab.streams.hybrid import Hybrid
from sfumato_lab.streams.hybrid_division import candidates
from sfumato_lab.streams.threshold import Threshold
from sfumato_lab.studies.moving import plots
from sfumato_lab.studies.moving.cities import (
    City,
    c2tm_city,
    cabspotting_city,
    hangzhou_city,
    masts_city,
    tdrive_city,
    whole_days,
)
from sfumato_lab.studies.moving.study import (
    Row,
    Score,
    by_day,
    chosen_day,
    corrected,
    distances_by_hour,
    finished,
    printed,
    scheme_for,
    score,
    utility_by_epsilon,
)


@pytest.fixture(scope="module")
def town() -> City:
    """Four days of twelve slots on a grid; people move between the fourth and the ninth."""
    rng = np.random.default_rng(0)
    counts = np.repeat(rng.integers(5, 60, (1, 1, 240)), 12, axis=1).repeat(4, axis=0)
    for slot in range(4, 10):
        counts[:, slot] = np.roll(counts[:, slot - 1], 1, axis=1)
    return City("town", counts.astype(np.int64), 8000, 20, 0, 6.0, 1.0)


def test_the_day_is_found_where_people_move(town: City) -> None:
    moved = distances_by_hour(town)
    assert [hour for hour, d in zip(moved["hours"], moved["distances"], strict=True) if d] == [
        *range(10, 17)
    ]
    day = chosen_day(town, epsilon=200.0, draws=20)
    assert day["raw"][0] <= 10
    assert all(window == [9.0, 16.0] for window in day["corrected"])
    # As printed, with an invalid sensitivity and hardly any noise left, the optimum is drawn.
    assert day["raw"] in day["printed"]


def test_every_form_in_one_table(town: City) -> None:
    rows = corrected(town, 1.0, ("rhythm", "zeros", "mean", "threshold"), range(2))
    rows += printed(town, 1.0, range(2))
    rows += finished(town, 1.0, 1, range(2))
    assert {row.form for row in rows} == {"corrected", "as printed", "1 day, user-period"}
    zeros = next(row for row in rows if row.scheme == "zeros")
    assert zeros.score.busiest == pytest.approx(town.counts[..., :].mean(), rel=0.3)
    assert {row.scheme for row in rows if row.form == "as printed"} == {
        "direct", "threshold", "static-hybrid", "dynamic-hybrid",
    }  # fmt: skip


def test_more_epsilon_is_less_error_and_consistency_helps(town: City) -> None:
    points = utility_by_epsilon(town, range(2), (0.1, 1.0))
    direct = {(p["epsilon"], p["processed"]): p["mae"] for p in points if p["scheme"] == "direct"}
    assert direct[1.0, True] < direct[0.1, True] < direct[0.1, False]
    assert len(by_day(town, 1.0, ("sample",), range(1))["sample"]) == 4


def test_scores_where_it_counts() -> None:
    truth = np.zeros((2, 300), dtype=np.int64)
    truth[:, :2] = [1000, 10]
    found = score(truth, np.zeros((2, 300)))
    assert found.all_cells == pytest.approx(1010 / 300)
    assert found.busiest == pytest.approx(1010 / 200)
    # 1000 of 1000 and 10 of 10; 0.1 % of the total is 1.01.
    assert found.relative == pytest.approx(2 / 200)


def test_plots_of_made_up_numbers(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = ("direct", "threshold", "static-hybrid", "dynamic-hybrid")
    one = {"mae": 1.0, "mre": 2.0, "busiest": 3.0, "processed": True}
    study = {
        "distances": {"hours": [6.0, 7.0], "distances": [3.0, 9.0]},
        "day": {"raw": [7.0, 17.0], "printed": [[7.0, 18.0]], "corrected": [[8.0, 17.0]]},
        "threshold": [one | {"scheme": n, "share": t} for n in names for t in (0.5, 1.0)],
        "epsilon": [one | {"scheme": n, "epsilon": e} for n in names for e in (0.1, 1.0)],
    }
    row = Row("town", 1.0, "rhythm", "corrected", "none", Score(1.0, 2.0, 0.1, 0.2))
    plots.paper_figures("town", study, tmp_path / "paper.png")
    plots.comparison([row], tmp_path / "schemes.png")
    plots.learning("town", {"1": {"rhythm": [3.0, 2.0]}}, tmp_path / "days.png")
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.glob("*.png"))
    assert len(list(tmp_path.glob("*.png"))) == 3


@pytest.mark.slow
def test_the_command_writes_tables_and_plots(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    start = np.datetime64("2012-08-19", "us")
    hours = np.repeat(start + np.arange(192) * np.timedelta64(3_600_000_000, "us"), 12)
    users = np.random.default_rng(0).poisson(40, hours.size)
    names = np.tile([f"rrh_{k}" for k in range(12)], 192)
    pq.write_table(
        pa.table({"cluster": names, "hour_local": hours, "users": users}), tmp_path / "c2tm"
    )
    done = CliRunner().invoke(
        app,
        ["reproduce", "moving", "--out", str(tmp_path), "--people", "0", "--seeds", "1",
         "--c2tm", str(tmp_path / "c2tm"), "--epsilon", "1", "--no-peers", "--quiet"],
        catch_exceptions=False,
    )  # fmt: skip
    assert done.exit_code == 0
    rows = json.loads((tmp_path / "moving.internal.json").read_text())
    assert {row["scheme"] for row in rows} >= {"rhythm", "profile", "mean", "sample"}
    page = (tmp_path / "moving.internal.md").read_text()
    assert "Internal" in page
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert pictures == {
        "c2tm-paper.internal.png", "c2tm-schemes.internal.png", "c2tm-days.internal.png",
    }  # fmt: skip
    assert all(f"]({name})" in page for name in pictures)


def test_aggregates_and_call_records_become_streams(tmp_path: Path) -> None:
    first = datetime(2012, 8, 19)
    hours = [first + timedelta(hours=h) for h in (0, 0, 25, -3)]
    pq.write_table(
        pa.table({"cluster": ["rrh_1", "fog_1", "rrh_2", "rrh_1"],
                  "hour_local": pa.array(hours, pa.timestamp("us")), "users": [5, 9, 7, 3]}),
        tmp_path / "c2tm.parquet",
    )  # fmt: skip
    city = c2tm_city(tmp_path / "c2tm.parquet")
    assert city.counts.shape == (8, 24, 2)
    assert city.counts[0, 0].tolist() == [5, 0]
    assert city.counts[1, 1].tolist() == [0, 7]
    # Hangzhou is eight hours ahead; a person counts once an hour, where first seen.
    times = [first + timedelta(hours=h - 8) for h in (10.1, 10.5, 10.2, 500)]
    pq.write_table(
        pa.table({"user": ["a", "a", "b", "a"], "time_utc": pa.array(times, pa.timestamp("us")),
                  "lon": [120.2, 120.4, 120.2, 120.2], "lat": [30.2, 30.2, 30.2, 30.2]}),
        tmp_path / "hangzhou.parquet",
    )  # fmt: skip
    calls = hangzhou_city(tmp_path / "hangzhou.parquet")
    assert calls.counts.sum() == 2
    assert calls.counts[0, 10].max() == 2


def test_the_masts_of_a_synthetic_city(tmp_path: Path) -> None:
    plan = {"start": "2024-03-04", "days": 1, "tz": "UTC", "users": 3}
    (tmp_path / "city.json").write_text(json.dumps({"plan": plan}))
    times = [datetime(2024, 3, 4, 5, m) for m in (10, 5, 30)] + [datetime(2024, 3, 6)]
    pq.write_table(
        pa.table({"user_id": [1, 1, 2, 2], "tower": ["x", "y", "x", "x"],
                  "timestamp": pa.array(times, pa.timestamp("us", tz="UTC"))}),
        tmp_path / "events.parquet",
    )  # fmt: skip
    city = masts_city(tmp_path)
    assert city.counts[0, 5].tolist() == [1, 1]
    assert city.counts.sum() == 2


def test_a_day_that_ends_at_18_h_is_no_day_of_the_study() -> None:
    counts = np.ones((4, 48, 3), dtype=np.int64)
    counts[1, 20:30] = 0  # an outage at noon is part of the day
    counts[3, 36:] = 0
    assert whole_days(counts).shape == (3, 48, 3)
    assert whole_days(counts[:3]).shape == (3, 48, 3)
    with pytest.raises(ValueError, match="begin a day later"):
        whole_days(counts[3:])


def test_a_folder_of_t_drive_gives_the_days_that_are_whole(tmp_path: Path) -> None:
    """A taxi a minute from 13:30 on the 2nd to 17:39 on the 8th, as the real files are cut."""
    first, last = datetime(2008, 2, 2, 13, 30), datetime(2008, 2, 8, 17, 39)
    minutes = int((last - first).total_seconds() // 60)
    for taxi in (1, 2):
        lines = [
            f"{taxi},{first + timedelta(minutes=m):%Y-%m-%d %H:%M:%S},116.4{taxi},39.9{m % 7}\n"
            for m in range(0, minutes, 10)
        ]
        (tmp_path / f"{taxi}.txt").write_text("".join(lines))
    city = tdrive_city(tmp_path)
    assert city.counts.shape[:2] == (5, 48), "3 to 7 February"
    assert (city.counts.sum(axis=2) == 2).all()
    assert city.first_weekday == 6


@pytest.mark.slow
@pytest.mark.skipif("SFUMATO_DATA" not in os.environ, reason="SFUMATO_DATA is not set")
def test_three_weeks_of_cabs_are_whole_days() -> None:
    path = Path(os.environ["SFUMATO_DATA"]) / "cabspotting_sf" / "cabspotting_sf_2008.parquet"
    city = cabspotting_city(path)
    assert city.counts.shape[:2] == (21, 48)
    there = city.counts.sum(axis=2)
    assert (there[:, 0] > 0).all()
    assert (there[:, -1] > 0).all()
    # Two days more, and the record ends in the morning of the last.
    assert cabspotting_city(path, 23).counts.shape[0] == 22


def test_what_is_chosen_holds_for_printed_and_corrected_forms(town: City) -> None:
    steer = {"threshold": 1.0, "cutoff": 5, "alpha": 3.0, "past": 2, "division": 0.2, "day": 0.3}
    dynamic, limit = scheme_for("dynamic-hybrid", town, steer), scheme_for("threshold", town, steer)
    assert isinstance(dynamic, Hybrid)
    assert (dynamic.past, dynamic.cutoff, dynamic.quiet) == (2, 5, 1.0)
    assert dynamic.shares()["night"] == Fraction(9, 20)
    assert isinstance(limit, Threshold)
    assert limit.threshold == 4 * quarter_of(town)
    assert limit.cutoff == 5
    assert scheme_for("dsat", town, {"compare": 0.9}) == stream_scheme("dsat")
    ordinary, other = printed(town, 1.0, range(1)), printed(town, 1.0, range(1), Printed(cutoff=1))
    errors = [{row.scheme: row.score.all_cells for row in rows} for rows in (ordinary, other)]
    assert errors[0]["threshold"] != errors[1]["threshold"]
    for wrong in ({"day": 0.95}, {"cutoff": 0}, {"alpha": 1.0}, {"past": 0}):
        with pytest.raises(UsageError):
            Printed(**wrong)  # type: ignore[arg-type]


def quarter_of(city: City) -> float:
    limit = scheme_for("threshold", city)
    assert isinstance(limit, Threshold)
    assert limit.threshold is not None
    return limit.threshold


def test_the_base_of_the_logarithm_makes_no_difference(town: City) -> None:
    """Equation 7 and its claimed sensitivity hold the same factor; single slots are candidates."""
    rng = np.random.default_rng(0)
    laws = [division(town.counts[0], 1.0, rng, alpha)[1] for alpha in (2.0, 12.0)]
    assert laws[0] == pytest.approx(laws[1])
    assert laws[0].size == 12 * 13 // 2
    windows = candidates(12, single=True)
    single = np.array([i == j for i, j in windows])
    assert laws[0][single] == pytest.approx(laws[0].min()), "U is log 1 = 0 where i = j"
    assert single.sum() == 12


def test_a_day_of_a_single_slot_is_perturbed_like_any(town: City) -> None:
    """The exponential mechanism may draw i = j; the night is then all the rest."""
    rng, raw = np.random.default_rng(1), town.counts[0]
    drawn = set()
    for _ in range(300):
        out, (first, last) = static_hybrid(raw, 0.01, 10.0, 3, rng)
        drawn.add(first == last)
        assert np.isfinite(out).all()
    assert drawn == {True, False}
