"""What is refused before anything is spent, decided from public facts alone."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from sfumato.city.plan import MAX_ZONES, CityPlan
from sfumato.density.fitness import (
    MOST,
    WIDEST,
    Case,
    Fitness,
    _rehearsed,
    fitness,
    opened,
)
from sfumato.density.scheme import PublicFacts, Signal
from sfumato.density.suggest import suggestions, table
from sfumato.io.beforehand import of_fleet
from sfumato.model.time_grid import TimeGrid


def case(users: int, zones: int, epsilon: float, scheme: str = "bayes", **more: object) -> Case:
    """A week of hours in zones that are counted themselves."""
    grid = TimeGrid.between(date(2024, 1, 8), date(2024, 1, 15), str(more.pop("slot", "1h")), "UTC")
    facts = PublicFacts(
        np.array([f"zone {k:06d}" for k in range(zones)]),
        grid,
        epsilon,
        float(str(more.pop("delta", 0.1 / users))),
        expected_users=users,
        parameters=more,  # type: ignore[arg-type]
    )
    found = Case.of(scheme, facts)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("users", "zones", "epsilon", "refused"),
    [
        (1000, 40, 0.3, True),
        (10_000, 40, 0.3, False),
    ],
)
def test_small_towns_are_refused_and_larger_ones_are_not(
    users: int, zones: int, epsilon: float, refused: bool
) -> None:
    found = fitness(case(users, zones, epsilon))
    assert found.useless == refused, found.figures


CORNERS = [
    (users, zones, epsilon, visits)
    for users in (1000, 2000, 5000, 10_000, 50_000)
    for zones in (40, 400)
    for epsilon in (0.3, 1.0)
    for visits in (None, 3.8, 127.0)
]


@pytest.mark.slow
@pytest.mark.parametrize(("users", "zones", "epsilon", "visits"), CORNERS)
def test_every_corner_of_the_design(
    users: int, zones: int, epsilon: float, visits: float | None
) -> None:
    found = fitness(case(users, zones, epsilon, **({} if visits is None else {"visits": visits})))
    may_refuse = users < 5000 or (users, zones, epsilon) == (5000, 400, 0.3)
    assert may_refuse or not found.useless, found
    if users == 1000 and epsilon < 1 and visits != 127.0:  # these are published to 10 %
        assert found.useless


@pytest.mark.parametrize("delta", [1e-5, 1e-7, 1e-9])
@pytest.mark.parametrize(("users", "zones", "epsilon"), [(10_000, 400, 0.3), (5000, 40, 0.3)])
def test_the_promised_sizes_are_never_refused_whatever_the_delta(
    users: int, zones: int, epsilon: float, delta: float
) -> None:
    from sfumato.density.bayes.scheme import NEVER_REFUSED

    assert case(users, zones, epsilon, delta=delta).signal.reaches(NEVER_REFUSED)


def test_large_cities_are_not_rehearsed() -> None:
    before = _rehearsed.cache_info().misses
    for epsilon in (0.1, 0.3, 1.0):
        found = fitness(case(2_000_000, 989, epsilon))
        assert found.figures is None
        assert not found.useless
    assert fitness(case(200_000, 989, 0.3)).figures is None
    assert _rehearsed.cache_info().misses == before


def test_the_forecast_is_the_same_every_time() -> None:
    asked = case(600, 20, 1.0, slot="6h")
    first = fitness(asked)
    _rehearsed.cache_clear()
    assert fitness(asked) == first
    assert all(value == round(value, 2) for value in (first.figures or {}).values())


def test_a_forecast_knows_places_by_their_number_alone() -> None:
    asked = case(600, 20, 1.0)
    renamed = PublicFacts(
        np.array([f"{k:03d}" for k in range(20)]),
        asked.grid,
        1.0,
        asked.delta,
        expected_users=600,
    )
    assert Case.of("bayes", renamed) == asked


def test_without_a_number_of_people_nothing_is_forecast() -> None:
    grid = case(600, 20, 1.0).grid
    assert Case.of("gaussian", PublicFacts(np.array(["a", "b"]), grid, 1.0, 1e-6)) is None


@pytest.mark.parametrize("scheme", ["laplace", "gaussian", "grouping", "paris"])
def test_every_scheme_is_forecast(scheme: str) -> None:
    hopeless = fitness(case(300, 12, 0.05, scheme, slot="6h"))
    assert hopeless.useless
    assert hopeless.figures is not None
    assert set(hopeless.figures) == set(MOST)


def signal() -> Signal:
    return Signal(1000, 100, 1, 0.1, 1)


def test_a_limit_itself_is_not_yet_too_much() -> None:
    assert not Fitness(signal(), dict(MOST)).failing
    above = {name: most + 0.01 for name, most in MOST.items()}
    found = Fitness(signal(), above)
    assert found.failing == tuple(MOST)
    assert found.useless
    assert len(found.reasons) == 3
    assert "26 %" in found.reasons[0]


def test_what_is_promised_is_published_with_words() -> None:
    rough = Fitness(signal(), {**MOST, "error_ratio": 0.97}, promised=True)
    assert rough.failing
    assert not rough.useless
    assert "97 %" in rough.caveats[0]
    assert "all the same" not in rough.caveats[0]
    useless = Fitness(signal(), rough.figures)
    assert "all the same" in useless.caveats[0]


def test_suggestions_are_python_that_the_command_line_can_say_in_flags() -> None:
    from sfumato.density.suggest import Suggestion

    one = Suggestion({"slot": "8h", "epsilon": "0.5"}, 2.0, fitness(case(2_000_000, 989, 1.0)))
    assert one.in_python == '`slot="8h"` with `epsilon=0.5`'
    assert one.in_flags == "--slot 8h --epsilon 0.5"
    fewer = Suggestion({"zone_count": "8"}, 2.0, one.fitness)
    assert fewer.in_flags == fewer.in_python == "about 8 zones"  # no flag goes with a file of zones


@pytest.mark.slow
def test_suggestions_work_and_begin_with_the_smallest_change() -> None:
    asked = case(500, 10, 0.4, slot="6h")
    assert fitness(asked).useless
    found = suggestions(asked)
    assert found
    assert all(not made.fitness.failing for made in found)
    assert [made.factor for made in found] == sorted(made.factor for made in found)
    lines = table(found)
    assert any("--epsilon" in line or "--slot" in line for line in lines)


def test_a_city_of_small_cells_takes_few_forecasts_and_ends_at_a_size_that_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cells of 100 m for ten thousand taxis: the gate forecast 25 times and found nothing."""
    asked, told = [], []

    def verdict(tried: Case, brief: bool) -> Fitness:
        assert brief
        asked.append(tried)
        useful = tried.released <= 1000
        return Fitness(tried.signal, {"error_ratio": 0.5 if useful else 0.95})

    monkeypatch.setattr("sfumato.density.suggest.fitness", verdict)
    grid = TimeGrid.between(date(2008, 2, 2), date(2008, 2, 9), "1h", "Asia/Shanghai")
    city = case(10_000, 95_458, 1.0).with_grid(grid)
    (only,) = suggestions(city, "100m", lambda what, _: told.append(what))
    assert only.settings == {"grid": "1km"}
    assert len(asked) <= 8
    assert told == ["looking for what would be of use"]


def test_stated_visits_fit_into_fewer_slots() -> None:
    """A hundred visits in a week of hours are at most ten of the week as one slot."""
    stated = replace(case(10_000, 100, 1.0), parameters=(("visits", 120.0),))
    week = TimeGrid.between(date(2024, 1, 8), date(2024, 1, 15), "1w", "UTC")
    assert stated.with_grid(week).signal.whole > 0


@pytest.mark.slow
def test_cells_of_100_m_in_a_city_are_answered_in_time(tmp_path: Path) -> None:
    """Progress within two seconds and the answer within thirty, on two quiet processors."""
    command = [sys.executable, "-m", "sfumato"]
    asked = (
        "--grid 100m --region 116.2,39.8,116.6,40.05 --epsilon 1 --delta 1e-6 --tz Asia/Shanghai"
    )
    asked += " --expected-users 10000 --from 2008-02-02 --to 2008-02-09"
    book = ["--ledger", str(tmp_path / "ledger.sqlite"), "--dataset", "taxis"]
    cap = ["--cap-epsilon", "9", "--cap-delta", "1e-5"]
    subprocess.run([*command, "ledger", "init", *book, *cap], check=True)
    release = ["release", str(tmp_path), "--out", str(tmp_path / "out"), *book]
    for verb in (["plan", "--suggest"], release):
        begun, paid = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        process = subprocess.Popen(
            [*command, *verb, *asked.split()], stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stderr is not None
        assert b"\xe2\x80\xa6" in process.stderr.readline()  # a stage and an ellipsis
        assert time.monotonic() - begun < 4 * 2
        said = b"".join(process.communicate())
        assert time.monotonic() - begun < 4 * 30
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - paid < 2 * 30
        assert b"--grid 1km" in said


def test_two_or_more_whole_weeks_can_be_folded() -> None:
    from sfumato.density.suggest import _folded, _longer_slots

    asked = case(800, 20, 0.5)
    assert not _folded(asked)
    grid = TimeGrid.between(date(2024, 1, 8), date(2024, 2, 5), "1h", "UTC")
    (step,) = _folded(asked.with_grid(grid))
    assert (step.settings, step.factor, step.case.grid.slots) == ({"fold": "week"}, 4.0, 168)
    longer = _longer_slots(step.case)
    assert {made.case.grid.fold for made in longer} == {"week"}
    assert longer[-1].settings == {"slot": "1w"}
    assert not _folded(asked.with_grid(TimeGrid(grid.edges[:-24], grid.step, "UTC")))


def test_cells_of_a_grid_become_coarser_by_name() -> None:
    from sfumato.density.suggest import _coarser_cells

    asked = case(800, 900, 0.5)
    assert [step.settings["grid"] for step in _coarser_cells(asked, "500m")][:2] == ["750m", "1km"]
    assert _coarser_cells(asked, "1km@EPSG:3035")[1].settings == {"grid": "2km@EPSG:3035"}
    assert [step.settings["grid"] for step in _coarser_cells(asked, "h3:8")] == ["h3:7", "h3:6"]
    assert _coarser_cells(asked, "geohash:6")[0].case.released == 28


def test_many_places_in_few_slots_are_rehearsed_in_a_town_that_can_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A national list of towers by day: a made-up town has 5,000 zones at most."""
    towns = []

    def built(plan: CityPlan) -> None:
        towns.append(plan.zones)
        raise LookupError

    monkeypatch.setattr("sfumato.density.rehearsal.build_city", built)
    with pytest.raises(LookupError):
        fitness(case(1_000_000, 36_632, 0.001, slot="1d"))
    assert 1000 < towns[0] <= MAX_ZONES


def test_visits_that_nobody_stated_are_a_range() -> None:
    """From as often as in call records down to a fourth; of a fleet, from one place in every slot
    to sixteen; stated ones may be wrong by two."""
    asked = case(10_000, 100, 1.0)
    middle, low, high = asked.activity
    assert high == pytest.approx(13.55)
    assert (low, middle) == pytest.approx((high / 4, high / 2))
    fleet = replace(asked, fleet=True)
    assert fleet.activity == pytest.approx((4 * 168, 168, 16 * 168))
    stated = case(10_000, 100, 1.0, visits=78.0)
    assert stated.stated
    assert not asked.stated
    assert stated.activity == pytest.approx((78, 78 / 2, 78 * 2), rel=0.01)
    assert replace(stated, fleet=True).activity == stated.activity


def test_a_range_is_opened_by_what_a_forecast_is_good_to_and_no_wider_than_says_something() -> None:
    assert opened([0.10, 0.12, 0.09]) == (0.06, 0.18)
    low, high = opened([1.0, 9.0])
    assert high / low == pytest.approx(WIDEST, rel=0.02)
    assert (low * high) ** 0.5 == pytest.approx(3.0, rel=0.1)


@pytest.mark.privacy
def test_only_what_is_useless_at_its_better_end_is_refused() -> None:
    """Check-ins in few places, the truth stated: refused before, published to 6 %."""
    figures = {**MOST, "total_half_width": 0.29}
    rough = Fitness(signal(), figures, {"total_half_width": (0.19, 0.6)})
    assert rough.failing
    assert not rough.useless
    assert "29 % (19 % to 60 %)" in rough.caveats[0]
    useless = Fitness(signal(), figures, {"total_half_width": (0.26, 0.6)}, stated=False)
    assert useless.useless
    assert "known to 26 % to 60 % of its value" in useless.reasons[0]


@pytest.mark.parametrize("visits", [None, 78.0])
def test_stating_the_truth_never_makes_it_worse(visits: float | None) -> None:
    """Check-ins of a thousand people at epsilon 1: accepted when nobody said how often they are
    seen, and refused ("29 %") with the 78 visits that the refusal's own advice asks for."""
    found = fitness(case(1000, 100, 1.0, **({} if visits is None else {"visits": visits})))
    assert found.figures is not None
    assert not found.useless
    assert visits is None or found.figures["total_half_width"] < MOST["total_half_width"]


def test_a_fleet_is_known_by_the_names_of_its_files(tmp_path: Path) -> None:
    for name in ("1.txt", "10357.txt"):
        (tmp_path / name).touch()
    assert of_fleet(tmp_path, None)
    (tmp_path / "people.csv").touch()
    assert not of_fleet(tmp_path, None)
    assert of_fleet(None, "cabspotting")
    assert not of_fleet(tmp_path, "geolife")
    assert not of_fleet(tmp_path / "nothing", None)
    assert not of_fleet("postgresql://host/base/a.b", None)
