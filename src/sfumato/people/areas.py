"""Market shares and censuses by area, brought to the zones of a release.

A table has a row for each area: its id, how many `people` live there or which `share` of them an
operator has, and perhaps the standard deviation of that number (`sd`). Areas may be

* zones or districts of the release, by their ids (a CSV will do);
* other polygons, in a file with shapes: a zone that lies in several counts with its shares of area,
  as if people lived evenly over it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.geography.overlay import area_shares
from sfumato.geography.projection import Projection
from sfumato.io.names import ZONE, Role, missing, pick
from sfumato.io.places import PlaceTable, id_texts, load_places
from sfumato.io.tables import no_one, to_wgs84
from sfumato.published.release import Release

Table = NDArray[np.float64]
Vector = NDArray[np.float64]
Given = float | str | os.PathLike[str] | object
"""A number for everywhere, a file, or a frame."""

AREA = Role(
    "area",
    ZONE.plain | {"area", "area_id", "district", "district_id", "commune", "municipality"},
    ZONE.weak | {"name"},
)
PEOPLE = Role(
    "people",
    frozenset({"people", "population", "residents", "inhabitants", "census"}),
    frozenset({"pop", "total", "count"}),
)
SHARE = Role("share", frozenset({"share", "market_share", "penetration"}))
SD = Role("sd", frozenset({"sd", "se", "std", "stderr", "standard_error"}))
_KEYS = {role.key: role for role in (AREA, PEOPLE, SHARE, SD)}


@dataclass(frozen=True, slots=True, eq=False)
class Areas:
    """A number with its standard deviation for each area, and which zones lie in it."""

    ids: NDArray[np.str_]
    values: Vector
    sd: Vector
    zones: Table
    """Areas x zones: the share of each zone that lies in the area; columns sum to at most 1."""
    label: str

    @property
    def covered(self) -> Vector:
        """The share of each zone that lies in some area."""
        found: Vector = np.minimum(self.zones.sum(axis=0), 1.0)
        return found


def read_areas(
    given: Given, release: Release, role: Role, column: Mapping[str, str] | None = None
) -> Areas:
    """A table of shares or people by area, held against the zones of a release.

    Args:
        given: A file or frame; of shares also one number for everywhere.
        release: Whose zones they are brought to.
        role: `SHARE` or `PEOPLE`.
        column: Which column is what, where names do not tell: area, share, people, sd.

    Raises:
        InputError: A number is missing, negative or too large, an area stands twice or is not
            known, no area has a zone.
        UsageError: `column` names something else.
    """
    chosen = dict(column or {})
    unknown = sorted(set(chosen) - set(_KEYS))
    if unknown:
        raise UsageError(
            f"There is no column to choose for {unknown[0]!r}.",
            remedy=f"Choose for {', '.join(sorted(_KEYS))}.",
        )
    number = _number(given)
    if number is not None:
        if role is not SHARE:
            raise UsageError(
                "A census is a table by area, not a number.", remedy="Give a file of areas."
            )
        ids = np.array(["everywhere"], dtype=np.str_)
        values = np.array([number])
        _check(values, role, "shares", "share")
        return Areas(ids, values, np.zeros(1), np.ones((1, release.ids.size)), "one number")
    table = load_places(given, columns=chosen, roles=(AREA, role, SD))
    ids, values, sd = _columns(table, role, chosen)
    if table.shapes is None:
        zones = _by_id(ids, release, table.label)
    else:
        _check_polygons(table)
        shapes = to_wgs84(table.shapes, table.crs, table.label, no_one)
        zones = shares_in(release_shapes(release), shapes)
        if not zones.any():
            raise InputError(
                "none of its areas has anything in common with the zones of the release.",
                file=table.label,
                remedy="Give areas of the same city, in their coordinate system.",
            )
    return Areas(ids, values, sd, zones, table.label)


def release_shapes(release: Release) -> NDArray[np.object_]:
    """The outlines of a release's places.

    Raises:
        InputError: It has none, or some places have none.
    """
    shapes = release.geometry
    if shapes is None or shapely.is_missing(shapes).any():
        raise InputError(
            "it has no outline for some of its places, so they cannot be laid over others.",
            file=str(release.folder),
            remedy="Name areas by the ids of its zones, or take a release over zones.",
        )
    return shapes


def shares_in(places: NDArray[np.object_], areas: NDArray[np.object_]) -> Table:
    """Areas x places: the share of each place that lies in each area (WGS84); points by where."""
    plane = Projection.around(places)
    flat, other = (shapely.make_valid(plane.shapes(one)) for one in (places, areas))
    tree = shapely.STRtree(other)
    if (shapely.area(flat) > 0).all():
        return np.asarray(area_shares(flat, other, tree).todense()).T
    point, area = tree.query(shapely.centroid(flat), predicate="intersects")
    first = np.unique(point, return_index=True)[1]  # a point on a border belongs to one side
    found = np.zeros((other.size, flat.size))
    found[area[first], point[first]] = 1.0
    return found


def _number(given: Given) -> float | None:
    if isinstance(given, int | float | str) and not isinstance(given, bool):
        try:
            return float(given)
        except OverflowError:
            return math.inf
        except ValueError:
            return None
    return None


def _columns(
    table: PlaceTable, role: Role, chosen: Mapping[str, str]
) -> tuple[NDArray[np.str_], Vector, Vector]:
    key = pick(table.names, AREA, chosen, table.label)
    if key is None:
        raise missing(table.names, AREA, table.label)
    others = [name for name in table.names if name != key]
    name = pick(others, role, chosen, table.label)
    if name is None:
        raise missing(others, role, table.label)
    sd_name = pick(others, SD, chosen, table.label)
    ids = np.asarray(id_texts(table.attributes[key], key, table.label), dtype=np.str_)
    seen, times = np.unique(ids, return_counts=True)
    if (times > 1).any():
        raise InputError(
            f"the area {str(seen[times > 1][0])!r} stands twice.",
            file=table.label,
            column=key,
            remedy="Give each area one row.",
        )
    values = _numbers(table, name)
    _check(values, role, table.label, name)
    sd = np.zeros(ids.size) if sd_name is None else _numbers(table, sd_name)
    _check(sd, SD, table.label, str(sd_name))
    return ids, values, sd


def _numbers(table: PlaceTable, name: str) -> Vector:
    texts = table.attributes[name]
    kind = texts.type
    column = texts.cast(kind.value_type) if pa.types.is_dictionary(kind) else texts
    try:
        found = column.cast(pa.float64()).fill_null(math.nan).to_numpy()
    except pa.ArrowException:
        raise InputError(
            "some of its values are not numbers.",
            file=table.label,
            column=name,
            remedy="Write digits with a decimal point, 0.31.",
        ) from None
    return np.asarray(found, dtype=np.float64)


LEAST_SHARE = 1e-6
"""Whoever has fewer of the people knows nothing of the others."""


def _check(values: Vector, role: Role, label: str, column: str) -> None:
    """Refuse what cannot be a share, a number of people, a deviation."""
    wrong = ~np.isfinite(values) | (values < 0)
    said = "is missing or negative"
    if role is SHARE:
        wrong |= (values < LEAST_SHARE) | (values > 1)
        said = f"is not a share: it does not lie between {LEAST_SHARE:g} and 1"
    if wrong.any():
        raise InputError(
            f"the number {said}.",
            file=label,
            column=column,
            row=int(np.argmax(wrong)) + 1,
            remedy="Shares are written as 0.31 for 31 percent." if role is SHARE else "Mend it.",
        )


def _check_polygons(table: PlaceTable) -> None:
    assert table.shapes is not None
    flat = shapely.is_missing(table.shapes) | (shapely.get_dimensions(table.shapes) < 2)
    if flat.any():
        raise InputError(
            "the area is not a polygon.", file=table.label, row=int(np.argmax(flat)) + 1
        )


def _by_id(ids: NDArray[np.str_], release: Release, label: str) -> Table:
    """Areas that are zones or districts of the release, by their ids."""
    own = np.asarray(release.ids, dtype=np.str_)
    districts = np.asarray(release.districts, dtype=np.str_)
    for known in (own, districts):
        if np.isin(ids, known).all():
            found: Table = (ids[:, None] == known[None, :]).astype(np.float64)
            return found
    unknown = ids[~np.isin(ids, own)]
    some = ", ".join(own[:3].tolist())
    what = f"zones {some} and {max(own.size - 3, 0)} others"
    if any(release.districts):
        what += f", districts {', '.join(sorted(set(release.districts))[:3])} and so on"
    raise InputError(
        f"the release has no zone or district {str(unknown[0])!r} ({unknown.size} areas are not "
        "known).",
        file=label,
        remedy=f"It has {what}. Give areas with their outlines where they are others.",
    )
