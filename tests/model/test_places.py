"""Places have one order, check themselves and know their own fingerprint."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from shapely.geometry import Point, Polygon, box

from sfumato.errors import InputError
from sfumato.model.places import PlaceKind, Places

SQUARES = [box(2.0, 48.0, 2.1, 48.1), box(2.1, 48.0, 2.2, 48.1), box(2.2, 48.0, 2.3, 48.1)]


def zones(ids: list[str], shapes: list[shapely.Geometry]) -> Places:
    return Places.of(PlaceKind.ZONES, ids, shapes)


def towers(
    ids: list[str], points: list[tuple[float, float]], dates: list[tuple[int, int]] | None = None
) -> Places:
    if dates is None:
        return Places.of(PlaceKind.TOWERS, ids, [Point(p) for p in points])
    start, end = np.array(dates, dtype=np.int64).T
    return Places.of(
        PlaceKind.TOWERS, ids, [Point(p) for p in points], valid_from=start, valid_to=end
    )


def test_rows_are_sorted_by_id_and_keep_together() -> None:
    places = zones(["b", "c", "a"], SQUARES)
    assert places.ids.tolist() == ["a", "b", "c"]
    assert [shape.bounds[0] for shape in places.geometry] == [2.2, 2.0, 2.1]
    assert places.names.tolist() == ["a", "b", "c"]
    assert len(places) == 3


def test_the_order_of_the_file_does_not_change_the_fingerprint() -> None:
    one = zones(["a", "b", "c"], SQUARES)
    other = zones(["c", "a", "b"], [SQUARES[2], SQUARES[0], SQUARES[1]])
    assert one.fingerprint() == other.fingerprint()


def test_the_way_a_ring_is_written_does_not_change_the_fingerprint() -> None:
    ring = list(SQUARES[0].exterior.coords)[:-1]
    turned = Polygon(ring[2:] + ring[:2])
    backwards = Polygon(ring[::-1])
    millimetre = shapely.transform(SQUARES[0], lambda xy: xy + 1e-9)
    prints = {
        zones(["a"], [shape]).fingerprint() for shape in (SQUARES[0], turned, backwards, millimetre)
    }
    assert len(prints) == 1


def test_ids_geometry_kind_and_dates_do_change_the_fingerprint() -> None:
    here, there = (2.0, 48.0), (2.00001, 48.0)
    cases = [
        towers(["a"], [here]),
        towers(["b"], [here]),
        towers(["a"], [there]),
        towers(["a", "b"], [here, here]),
        towers(["a"], [here], [(0, 10)]),
        towers(["a"], [here], [(0, 11)]),
        towers(["a", "a"], [here, here], [(0, 10), (10, 20)]),
        zones(["a"], SQUARES[:1]),
        zones(["ab", "c"], SQUARES[:2]),
        zones(["a", "bc"], SQUARES[:2]),
        zones(["a"], [Polygon(SQUARES[0].exterior, [box(2.04, 48.04, 2.06, 48.06).exterior])]),
    ]
    assert len({case.fingerprint() for case in cases}) == len(cases)


def test_names_are_labels_only() -> None:
    named = Places.of(PlaceKind.ZONES, ["a"], SQUARES[:1], names=["Belleville"])
    assert named.fingerprint() == zones(["a"], SQUARES[:1]).fingerprint()
    assert named.names.tolist() == ["Belleville"]


def test_nothing_can_be_changed_afterwards() -> None:
    mine = np.array(["a"])
    places = Places.of(PlaceKind.ZONES, mine, SQUARES[:1])
    mine[0] = "z"
    assert places.ids.tolist() == ["a"]
    for column in (places.ids, places.geometry, places.valid_from):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = column[0]
    with pytest.raises(AttributeError):
        places.ids = mine  # type: ignore[misc]


def test_a_tower_that_moved_has_a_row_for_each_position() -> None:
    moved = towers(["t", "t"], [(2.1, 48.0), (2.0, 48.0)], [(50, 90), (0, 50)])
    assert moved.valid_from.tolist() == [0, 50]
    assert shapely.get_x(moved.geometry).tolist() == [2.0, 2.1]


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: zones([], []), "There are no zones"),
        (lambda: zones(["a"], SQUARES), "different lengths"),
        (lambda: zones(["a", ""], SQUARES[:2]), "have no id"),
        (lambda: zones(["a", "a"], SQUARES[:2]), "'a' stands more than once among the zones"),
        (lambda: towers(["t", "t"], [(0, 0), (1, 1)]), "'t' stands more than once .* same time"),
        (
            lambda: towers(["t", "t"], [(0, 0), (1, 1)], [(0, 10), (9, 20)]),
            "'t' stands more than once .* same time",
        ),
        (lambda: towers(["t"], [(0, 0)], [(10, 10)]), "'t' of the towers is valid until"),
        (lambda: zones(["a"], [Point(0, 0)]), "'a' of the zones has no polygon"),
        (lambda: zones(["a"], [Polygon()]), "'a' of the zones has no polygon"),
        (lambda: zones(["a"], [None]), "'a' of the zones has no polygon"),  # type: ignore[list-item]
        (
            lambda: Places.of(PlaceKind.TOWERS, ["t"], SQUARES[:1]),
            "'t' of the towers has no point",
        ),
        (lambda: towers(["t"], [(48.0, 97.0)]), "'t' of the towers lies outside the globe"),
        (lambda: towers(["t"], [(float("inf"), 0)]), "outside the globe"),
        (lambda: zones(["a"], [box(170, 0, 190, 1)]), "outside the globe"),
    ],
)
def test_what_places_refuse(build: object, match: str) -> None:
    with pytest.raises(InputError, match=match):
        build()  # type: ignore[operator]
