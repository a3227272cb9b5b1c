"""The border: what is said, what follows from the list where nothing is said, and what is lost."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import shapely
from tests.geography.conftest import Maps

from sfumato.errors import UsageError
from sfumato.geography.border import CUT, FIRST, Border, BorderLoss, border_for, border_lines
from sfumato.geography.overlay import layout_of_cells, overlay
from sfumato.geography.places import PlaceOptions
from sfumato.geography.voronoi import voronoi_cells
from sfumato.model.places import Places
from sfumato.model.rounding import percent
from sfumato.model.time_grid import TimeGrid, period_of

WEEK: TimeGrid = period_of("2024-03-04", "2024-03-11", "1h", "UTC")
INSIDE = [(0.5, 0.5), (3.5, 0.5), (0.5, 3.5), (3.5, 3.5), (2.0, 2.0)]
OUTSIDE, FAR = (4.5, 2.0), (60.0, 2.0)


def opened(maps: Maps, steps: list[tuple[float, float]], border: str | float | None = None):  # type: ignore[no-untyped-def]
    return PlaceOptions(maps.towers(steps), maps.zones(), border=border).open()


@pytest.mark.parametrize(
    ("said", "text"),
    [
        *[("0", "0"), (0, "0"), ("0m", "0"), ("500m", "500m"), (500, "500m"), ("2km", "2km")],
        *[("2000m", "2km"), ("1.5km", "1.5km"), ("reach", "reach"), ("3km", str(FIRST))],
    ],
)
def test_a_border_is_said_in_words(said: str | float, text: str) -> None:
    assert str(Border.parse(said)) == text
    assert Border.parse(text) == Border.parse(said)


@pytest.mark.parametrize("said", ["", "far", "-1", "-5m", "500", "1e9", "300km", -1, float("nan")])
def test_what_is_no_border_is_refused(said: str | float) -> None:
    with pytest.raises(UsageError, match="is not a border"):
        Border.parse(said)


def test_a_border_is_between_towers_and_zones(maps: Maps) -> None:
    for given in ({"towers": maps.towers(INSIDE)}, {"zones": maps.zones()}):
        with pytest.raises(UsageError, match="spread over"):
            PlaceOptions(**given, border="0").open()  # type: ignore[arg-type]


def test_cells_are_cut_where_no_tower_stands_outside(maps: Maps) -> None:
    found = opened(maps, INSIDE)
    assert found.loss.border == CUT
    assert found.border == "0"
    assert (found.shares.sums == 1).all()
    assert found.loss.share == 0
    # A tower on the outline, or out of reach, tells nothing about the other side.
    assert border_for(maps.towers([*INSIDE, (4.005, 2.0)]), maps.zones(), None) == CUT
    assert border_for(maps.towers([*INSIDE, FAR]), maps.zones(), None) == CUT


def test_towers_on_both_sides_are_spread_as_ever(maps: Maps) -> None:
    towers = maps.towers([*INSIDE, OUTSIDE])
    found = PlaceOptions(towers, maps.zones()).open()
    assert found.loss is not None
    assert found.shares is not None
    assert found.loss.border == FIRST
    assert found.border is None, "the usual rule is bound without a name"
    before = overlay(voronoi_cells(towers, maps.zones()), maps.zones())
    assert (found.shares.shares != before.shares).nnz == 0
    assert found.counted is towers or found.counted.fingerprint() == towers.fingerprint()


def test_a_tower_that_is_outside_in_another_year_does_not_count(maps: Maps) -> None:
    lasting = (int(WEEK.edges[0]), int(WEEK.edges[-1]))
    towers = maps.towers([*INSIDE, OUTSIDE], valid=[lasting] * 5 + [(0, 10)])
    found = PlaceOptions(towers, maps.zones()).open(period=WEEK)
    assert found.loss is not None
    assert (found.loss.border, found.loss.left_out) == (CUT, 1)


def test_a_distance_is_as_far_as_cells_reach(maps: Maps) -> None:
    sums = [opened(maps, INSIDE, border).shares.sums for border in ("0", "200m", "1km", "3km")]
    for near, far in itertools.pairwise(sums):
        assert (near >= far).all()
        assert near.sum() > far.sum()


def test_the_own_reach_is_half_the_way_to_the_next_towers(maps: Maps) -> None:
    zones = maps.zones()
    found = PlaceOptions(maps.towers(INSIDE), zones, border="reach").open()
    assert found.cells is not None
    assert found.shares is not None
    plane, polygons = found.cells.projection, found.cells.epochs[0].polygons
    at = plane.points(*shapely.get_coordinates(found.counted.geometry).T)
    apart = np.linalg.norm(at[:, None] - at[None], axis=2)
    reach = np.sort(apart, axis=1)[:, 1:].mean(axis=1) / 2  # all four others: fewer than six
    whole = shapely.union_all(plane.shapes(zones.geometry))
    for row, cell in enumerate(polygons):
        beyond = shapely.difference(cell, whole)
        discs = shapely.Point(at[row]).buffer(reach[row] + 2)
        assert shapely.area(shapely.difference(beyond, discs)) < 1.0
    inside = shapely.area(shapely.intersection(polygons, whole)).sum()
    assert inside == pytest.approx(shapely.area(whole), rel=1e-9), "no ground in the zones is lost"
    lost = [opened(maps, INSIDE, border).loss.share for border in ("0", "reach", "3km")]
    assert lost[0] < lost[1] < lost[2]


def test_a_lone_tower_has_no_spacing_and_keeps_its_cell(maps: Maps) -> None:
    alone = opened(maps, [(2, 2)], "reach").shares.sums
    assert alone == pytest.approx(opened(maps, [(2, 2)], "3km").shares.sums)


def test_a_tower_far_outside_is_left_out_and_counted(maps: Maps) -> None:
    found = opened(maps, [*INSIDE, OUTSIDE, FAR, (-70.0, 9.0)])
    assert found.counted.ids.tolist() == [f"t{k:04d}" for k in range(6)]
    assert (found.loss.left_out, found.loss.outside) == (2, 1)
    assert np.isfinite(found.layout.areas).all()
    without = opened(maps, [*INSIDE, OUTSIDE])
    assert found.counted.fingerprint() == without.counted.fingerprint()
    assert (found.shares.shares != without.shares.shares).nnz == 0
    kept = PlaceOptions(maps.towers([*INSIDE, FAR]), maps.zones()).open(keep_all=True)
    assert len(kept.counted) == 6


def test_a_tower_that_moves_within_the_period_has_a_place_and_an_area(maps: Maps) -> None:
    start, end = int(WEEK.edges[0]), int(WEEK.edges[-1])
    middle = (start + end) // 2
    steps = [(0.5, 0.5), (3.5, 3.5), (0.5, 3.5), (60.0, 2.0)]
    valid = [(start, end), (start, middle), (middle, end), (middle, end)]
    towers = maps.towers(steps, valid, ids=["a", "b", "b", "c"])
    found = PlaceOptions(towers, maps.zones()).open(period=WEEK)
    assert found.counted.ids.tolist() == ["a", "b", "b"]
    assert found.loss is not None
    assert found.loss.left_out == 1
    areas = found.layout.areas
    assert areas.sum() == pytest.approx(shapely.area(found.cells.clip), rel=1e-6)  # type: ignore[union-attr]
    unserved = voronoi_cells(towers, maps.zones(), period=WEEK)
    assert layout_of_cells(unserved).areas[3] == 1.0


def test_the_loss_is_told_in_numbers_and_in_words(maps: Maps) -> None:
    loss: BorderLoss = opened(maps, INSIDE, "3km").loss
    facts = loss.facts()
    assert facts["border"] == "3km"
    assert facts["towers_in_zones"] == 5
    assert facts["border_towers_losing_half"] == loss.over_half == 4
    assert 0.5 < loss.share < 1
    assert list(loss.worst)[-1] == "t0004", "the one in the middle loses least"
    assert str(facts["border_worst_towers"]).count(",") == 4 - (loss.worst["t0004"] == 0)
    (line,) = border_lines(facts)
    assert percent(loss.share, 1) in line
    assert "Nothing makes up for it" in line
    (line,) = border_lines(opened(maps, INSIDE).loss.facts())
    assert "All visits" in line
    assert "left out" in border_lines(opened(maps, [*INSIDE, FAR]).loss.facts())[1]
    assert border_lines({"expected_users": 5}) == []


def test_the_paris_of_the_paper_loses_nothing(paris: tuple[Places, Places]) -> None:
    sites, zones = paris
    at_border = PlaceOptions(sites, zones).open()
    assert at_border.loss is not None
    assert at_border.loss.border == FIRST
    assert at_border.loss.share < 0.02
    city = sites.take(np.isin(sites.ids, at_border.loss.inside_ids))
    found = PlaceOptions(city, zones).open()
    assert found.loss is not None
    assert (found.loss.border, found.loss.share) == (CUT, 0.0)
    before = PlaceOptions(city, zones, border="3km").open().loss
    assert before is not None
    assert before.over_half > 40
