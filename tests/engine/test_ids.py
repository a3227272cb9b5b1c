"""Two users are never merged, whatever their ids look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

from sfumato.engine.intake import MISSING_PLACE, NamedPlaces
from sfumato.engine.local import LocalSource
from sfumato.model.counts import Counting
from sfumato.model.events import UserEncoding
from sfumato.model.places import PlaceKind, Places

pytestmark = pytest.mark.privacy


@pytest.mark.parametrize(
    ("users", "arrow", "encoding"),
    [
        ([-(2**63), 2**63 - 1, 0, -1, 2**32, 2**32 + 1], pa.int64(), UserEncoding.INTEGER),
        ([2**64 - 1, 2**63, 2**63 - 1, 0], pa.uint64(), UserEncoding.TEXT),
        (["1", "01", "1 ", " 1", "1.0", "", "\u0000", "1\u0000"], pa.string(), UserEncoding.TEXT),
        (["e\u0301", "\u00e9", "E", "e"], pa.string(), UserEncoding.TEXT),
        ([b"", b"\x00", b"\x00\x00", b"0", b"\x30\x00"], pa.binary(), UserEncoding.BINARY),
    ],
)
def test_each_id_is_a_person(town: Any, users: Any, arrow: Any, encoding: Any) -> None:
    """Everyone at one tower in one hour, twice: the count is the number of ids."""
    table = town.table([(user, 0.5, "t0") for user in users] * 2, arrow)
    source = LocalSource(town.described(table, encoding), town.towers(1), town.grid())
    assert town.opened(source.exact(Counting.VISITS)).values[0, 0] == len(users)
    assert town.opened(source.capped_total(1, Counting.PEOPLE)).values[0] == len(users)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_binary()], ids=str)
def test_names_of_places_are_compared_whole(kind: Any) -> None:
    ids = sorted(["7", "07", "7 ", "t", "T", "\u00e9", "e\u0301", "-1", "9" * 25])
    points = [shapely.Point(k, 48.0) for k in range(len(ids))]
    named = NamedPlaces(Places.of(PlaceKind.TOWERS, ids, points))
    texts = pa.array([*ids, None, "8", "t\0"], pa.string())
    some = texts.cast(kind).slice(1)
    unknown = [MISSING_PLACE, -1, -1]
    assert named.find(some).tolist() == [*range(1, len(ids)), *unknown]
    numbers = pa.array([7, -1, None, 0, 9], pa.int64())
    wanted = [ids.index("7"), ids.index("-1"), MISSING_PLACE, -1, -1]
    assert named.find(numbers).tolist() == wanted
    assert named.find(some.slice(0, 0)).dtype == np.int32
