"""Neighbours share a border or a corner, or lie near."""

from __future__ import annotations

import numpy as np
import pytest
from shapely.geometry import box

from sfumato.geography.adjacency import neighbours
from sfumato.model.errors import UsageError
from sfumato.model.places import PlaceKind, Places


def test_a_chessboard(maps) -> None:
    found = neighbours(maps.zones(3, 3)).toarray()
    assert found.dtype == np.bool_
    assert (found == found.T).all()
    assert not found.diagonal().any()
    assert found.sum(axis=1).tolist() == [3, 5, 3, 5, 8, 5, 3, 5, 3]


def test_hairline_gaps_are_bridged_and_real_ones_when_asked() -> None:
    gap = [box(2.30, 48.80, 2.31, 48.81), box(2.310001, 48.80, 2.32, 48.81)]  # 7 cm
    river = [*gap, box(2.3205, 48.80, 2.33, 48.81)]  # 37 m more
    zones = Places.of(PlaceKind.ZONES, ["a", "b", "c"], river)
    assert neighbours(zones).toarray().sum(axis=1).tolist() == [1, 1, 0]
    assert neighbours(zones, within_m=50).toarray().sum(axis=1).tolist() == [1, 2, 1]
    assert neighbours(zones, within_m=0).nnz == 0


def test_a_distance_that_is_none(maps) -> None:
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="zero or more"):
            neighbours(maps.zones(), within_m=bad)


@pytest.mark.real_data
def test_paris_hangs_together(paris: tuple[Places, Places]) -> None:
    from scipy.sparse.csgraph import connected_components

    found = neighbours(paris[1])
    assert connected_components(found)[0] == 1
    assert 5 < found.sum() / 992 < 7
