from __future__ import annotations

import json
import re
from datetime import date, timedelta

import numpy as np
import pytest

from sfumato.city import CityPlan, build_city
from sfumato.errors import UsageError
from sfumato.model.time_grid import TimeGrid
from sfumato.reports.encode import decode_numbers
from sfumato.reports.internal import (
    AttackResult,
    AttackTracks,
    Contender,
    InternalEvaluation,
    build_internal_page,
    cell_errors,
    size_groups,
)


def evaluation(title: str = "Two releases", zones: int = 30, days: int = 2) -> InternalEvaluation:
    city = build_city(CityPlan(users=100, towers=60, zones=zones, seed=5))
    start = date(2007, 9, 10)
    grid = TimeGrid.between(start, start + timedelta(days=days), "1h", "Europe/Paris")
    rng = np.random.default_rng(2)
    rhythm = 1.2 - np.cos((np.arange(grid.slots) - 2) * np.pi / 12)
    truth = rng.poisson(rng.lognormal(4, 0.5, (zones, 1)) * rhythm).astype(float)
    noisy = [truth + rng.normal(0, sd, truth.shape) for sd in (3.0, 20.0)]
    return InternalEvaluation(
        title=title,
        zone_ids=tuple(map(str, city.zones.ids)),
        zone_names=tuple(map(str, city.zones.names)),
        geometry=city.zones.geometry,
        edges=grid.edges,
        tz=grid.tz,
        counting="visits",
        truth=truth,
        contenders=(
            Contender(
                "bayes",
                0.3,
                noisy[0],
                noisy[0] - 6,
                noisy[0] + 6,
                by_hour={"emd": 25 + 4 * rhythm},
                overall={"emd": 31.0},
            ),
            Contender(
                "laplace", 1.0, noisy[1], by_hour={"emd": 70 + 9 * rhythm}, note="as printed"
            ),
        ),
        attacks=(AttackResult("membership", "laplace", "advantage", 0.2, 0.0, 0.6),),
        tracks=_tracks(zones, grid.slots),
        quality_bar=0.1,
    )


def _tracks(zones: int, slots: int) -> tuple[AttackTracks, ...]:
    """Five people between a home and a work; one table gives them away, the other hardly."""
    rng = np.random.default_rng(4)
    home, work = rng.integers(0, zones, (2, 5, 1))
    true = np.where((np.arange(slots) // 8) % 3 == 1, work, home)
    close = np.where(rng.random(true.shape) < 0.9, true, -1)
    lost = rng.integers(0, zones, true.shape)
    return tuple(
        AttackTracks(
            name,
            (found == true).mean(axis=0).tolist(),
            [0.1] * slots,
            true.tolist(),
            found.tolist(),
        )
        for name, found in (("no protection", close), ("bayes", lost))
    )


def test_the_page_says_internal_and_holds_both_tables() -> None:
    page = build_internal_page(evaluation())
    assert re.search(r"<title>INTERNAL · Two releases</title>", page)
    assert 'id="banner" role="alert">INTERNAL' in page
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    assert found
    data = json.loads(found[1])
    judged = evaluation()
    assert (decode_numbers(data["truth"])[0] == judged.truth).all()
    assert np.abs(decode_numbers(data["contenders"][0]["numbers"])[0]
                  - judged.contenders[0].values).max() <= 0.051  # fmt: skip
    assert page == build_internal_page(judged), "the same evaluation gives the same bytes"


def test_errors_are_averaged_by_slot_zone_and_size() -> None:
    truth = np.array([[10.0, 20.0], [100.0, 100.0]])
    one = Contender("x", 1.0, np.array([[5.0, 20.0], [100.0, 110.0]]))
    errors = cell_errors(one, truth)
    assert errors.tolist() == [[0.5, 0.0], [0.0, 0.1]]
    groups, means = size_groups(truth)
    assert groups.tolist() == [0, 1]
    assert means == [15.0, 100.0]


def test_tables_that_do_not_fit_are_refused() -> None:
    good = evaluation()
    for change in (
        {"contenders": ()},
        {"edges": good.edges[:-1]},
        {"zone_names": good.zone_names[:-1]},
        {"contenders": (Contender("x", 1.0, good.truth[:, :-1]),)},
        {"contenders": (Contender("x", 1.0, good.truth, by_hour={"emd": np.zeros(3)}),)},
    ):
        fields = {name: getattr(good, name) for name in InternalEvaluation.__slots__}
        with pytest.raises(UsageError):
            InternalEvaluation(**(fields | change))


def test_a_hostile_title_is_text() -> None:
    page = build_internal_page(evaluation("</title><script>alert(1)</script>"))
    assert page.count("<script") == 2
