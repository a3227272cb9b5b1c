"""`read_zones`: polygons in WGS84 with ids, valid, not overlapping; and the districts they are in.

A self-crossing outline has no agreed inside, and two zones that overlap would count people
twice, so both are errors that name the zones. `repair` lets GEOS choose an inside
(`shapely.make_valid`); overlaps below half a percent of the smaller zone are the seams of
separately drawn maps and pass with a note.

Which district each zone belongs to is said by a table of its own or by a column of the zones' file.
"""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.io import names as aliases
from sfumato.io.places import PlaceTable, id_texts, load_places
from sfumato.io.tables import Tell, in_range, no_one, swapped, to_wgs84
from sfumato.model.places import PlaceKind, Places
from sfumato.model.rounding import percent

ZONE, PARENT = "zone_id", "parent_id"


def read_parents(source: object, zone_ids: NDArray[np.str_]) -> NDArray[np.str_]:
    """The parent of every zone, in the order of `zone_ids`, from columns zone_id and parent_id."""
    table = load_places(source)
    for name in (ZONE, PARENT):
        if name not in table.names:
            raise InputError(
                "the column is missing.",
                file=table.label,
                column=name,
                remedy="A hierarchy has the columns zone_id and parent_id.",
            )
    return _in_order(
        id_texts(table.attributes[ZONE], ZONE, table.label),
        id_texts(table.attributes[PARENT], PARENT, table.label),
        zone_ids,
        table.label,
    )


def read_parent_column(
    source: object,
    column: str,
    zone_ids: NDArray[np.str_],
    *,
    id_column: str | None = None,
    layer: str | None = None,
) -> NDArray[np.str_]:
    """The same from a column of the file that holds the zones."""
    table = load_places(source, layer)
    if column not in table.names:
        raise InputError(
            "the column is missing.",
            file=table.label,
            column=column,
            remedy=f"The zones have {', '.join(table.names)}.",
        )
    chosen = {} if id_column is None else {aliases.ZONE.key: id_column}
    key = aliases.pick(table.names, aliases.ZONE, chosen, table.label)
    if key is None:
        raise aliases.missing(table.names, aliases.ZONE, table.label)
    return _in_order(
        id_texts(table.attributes[key], key, table.label),
        id_texts(table.attributes[column], column, table.label),
        zone_ids,
        table.label,
    )


def _in_order(
    zones: list[str], parents: list[str], wanted: NDArray[np.str_], label: str
) -> NDArray[np.str_]:
    parent_of: dict[str, str] = {}
    for zone, parent in zip(zones, parents, strict=True):
        if parent_of.setdefault(zone, parent) != parent:
            raise UsageError(
                f"{label}: zone {zone!r} has two parents.",
                remedy="A zone belongs to one district, so that levels add up.",
            )
    missing = [str(zone) for zone in wanted if str(zone) not in parent_of]
    if missing:
        raise UsageError(
            f"{label}: zone {missing[0]!r} has no parent ({len(missing)} zones have none).",
            remedy="Give every zone a parent.",
        )
    return np.array([parent_of[str(zone)] for zone in wanted], dtype=np.str_)


SEAM = 5e-3
"""Largest overlap of two zones, as a share of the smaller one."""
_POLYGONS = (shapely.GeometryType.POLYGON, shapely.GeometryType.MULTIPOLYGON)
Shapes = NDArray[np.object_]


def read_zones(
    source: object,
    id_column: str | None = None,
    name_column: str | None = None,
    *,
    repair: bool = False,
    layer: str | None = None,
    tell: Tell = no_one,
) -> Places:
    """Zones from GeoJSON, GPKG, Shapefile, GeoParquet or a GeoDataFrame.

    `id_column` and `name_column` override what the column names tell. `repair` makes
    self-crossing outlines valid. `tell` hears what was assumed and changed.
    """
    table = load_places(source, layer)
    label = table.label
    if table.shapes is None:
        raise InputError(
            "there are no shapes in it.",
            file=label,
            remedy="Zones are polygons: GeoJSON, GPKG, Shapefile or GeoParquet.",
        )
    if not table.shapes.size:
        raise InputError("there are no zones.", file=label)
    ids = _ids(table, id_column)
    names = _names(table, name_column, ids)
    _check_shapes(table.shapes, label)
    shapes = to_wgs84(table.shapes, table.crs, label, tell)
    _check_degrees(shapes, ids, label)
    shapes = _valid(shapes, ids, label, repair, tell)
    _check_overlap(shapes, ids, label, tell)
    return Places.of(PlaceKind.ZONES, ids, shapes, names)


def read_region(source: object, layer: str | None = None) -> shapely.Geometry:
    """The outline of all polygons in a file or frame, in degrees."""
    return shapely.union_all(read_polygons(source, layer))


def read_polygons(source: object, layer: str | None = None) -> Shapes:
    """The polygons in a file or frame, in degrees; they need no ids."""
    table = load_places(source, layer)
    if table.shapes is None or not table.shapes.size:
        raise InputError(
            "there are no polygons in it.",
            file=table.label,
            remedy="Give a file of polygons, or west,south,east,north in degrees.",
        )
    _check_shapes(table.shapes, table.label)
    shapes = to_wgs84(table.shapes, table.crs, table.label, no_one)
    numbers = np.arange(1, shapes.size + 1).astype(np.str_)
    _check_degrees(shapes, numbers, table.label)
    return np.asarray(shapely.make_valid(shapes), dtype=object)


def _ids(table: PlaceTable, wanted: str | None) -> NDArray[np.str_]:
    chosen = {} if wanted is None else {aliases.ZONE.key: wanted}
    name = aliases.pick(table.names, aliases.ZONE, chosen, table.label)
    if name is None:
        raise aliases.missing(table.names, aliases.ZONE, table.label)
    ids = np.asarray(id_texts(table.attributes[name], name, table.label), dtype=np.str_)
    values, times = np.unique(ids, return_counts=True)
    if (times > 1).any():
        twice = values[times > 1][0]
        again = np.flatnonzero(ids == twice)[1]
        raise InputError(
            f"the zone id {str(twice)!r} stands twice.",
            file=table.label,
            column=name,
            row=int(again) + 1,
            remedy=f"Ids must differ; choose another column with {aliases.ZONE.option}, or "
            "dissolve the shapes of one zone into a multipolygon.",
        )
    return ids


def _names(table: PlaceTable, wanted: str | None, ids: NDArray[np.str_]) -> list[str] | None:
    column = None
    if wanted is not None:
        column = aliases.named(wanted, table.names, aliases.ZONE_NAME, table.label)
    else:
        plain = {aliases.plain_name(name): name for name in table.names}
        column = next((plain[name] for name in aliases.ZONE_NAMES if name in plain), None)
    if column is None:
        return None
    values = table.attributes[column].to_pylist()
    return [
        str(key) if value is None else str(value) for key, value in zip(ids, values, strict=True)
    ]


def _first(wrong: NDArray[np.bool_]) -> int:
    return int(np.argmax(wrong))


def _check_shapes(shapes: Shapes, label: str) -> None:
    missing = np.asarray(shapely.is_missing(shapes) | shapely.is_empty(shapes))
    if missing.any():
        raise InputError("the zone has no shape.", file=label, row=_first(missing) + 1)
    wrong = ~np.isin(shapely.get_type_id(shapes), _POLYGONS)
    if wrong.any():
        raise InputError(
            "the zone is not a polygon.",
            file=label,
            row=_first(wrong) + 1,
            remedy="Zones are polygons or multipolygons.",
        )
    points, owner = shapely.get_coordinates(shapes, return_index=True)
    broken = np.asarray(~np.isfinite(points).all(axis=1))
    if broken.any():
        raise InputError(
            "the outline has a coordinate that is not a number.",
            file=label,
            row=int(owner[_first(broken)]) + 1,
        )


def _check_degrees(shapes: Shapes, ids: NDArray[np.str_], label: str) -> None:
    points, owner = shapely.get_coordinates(shapes, return_index=True)
    good = in_range(points[:, 0], points[:, 1])
    if good.all():
        return
    if in_range(points[:, 1], points[:, 0]).all():
        raise swapped(label)
    at = int(owner[_first(~good)])
    raise InputError(
        f"zone {str(ids[at])!r} lies outside the range of longitude and latitude.",
        file=label,
        row=at + 1,
        remedy="Check that the stated coordinate system is the right one.",
    )


def _valid(shapes: Shapes, ids: NDArray[np.str_], label: str, repair: bool, tell: Tell) -> Shapes:
    crossing = ~shapely.is_valid(shapes)
    if crossing.any() and not repair:
        at = _first(crossing)
        why = shapely.is_valid_reason(shapes[at]).split("[", 1)[0].strip().lower()
        raise InputError(
            f"the outline of zone {str(ids[at])!r} is not valid ({why}). "
            f"That concerns {int(crossing.sum()):,} of {shapes.size:,} zones.",
            file=label,
            row=at + 1,
            remedy="Correct it, or let it be repaired with `repair_zones`.",
        )
    if crossing.any():
        shapes = shapes.copy()
        shapes[crossing] = [_areas_of(shape) for shape in shapely.make_valid(shapes[crossing])]
        tell(f"{label}: {int(crossing.sum())} outlines repaired")
    flat = np.asarray(shapely.area(shapes) <= 0)
    if flat.any():
        at = _first(flat)
        raise InputError(
            f"zone {str(ids[at])!r} has no area.", file=label, row=at + 1, remedy="Remove it."
        )
    return shapes


def _areas_of(shape: shapely.Geometry) -> shapely.Geometry:
    """The polygons among the parts that a repair may leave."""
    parts = shapely.get_parts(shapely.get_parts(shape))
    kept = parts[shapely.get_type_id(parts) == shapely.GeometryType.POLYGON]
    whole: shapely.Geometry = kept[0] if kept.size == 1 else shapely.multipolygons(kept)
    return whole


def _check_overlap(shapes: Shapes, ids: NDArray[np.str_], label: str, tell: Tell) -> None:
    left, right = shapely.STRtree(shapes).query(shapes, predicate="intersects")
    once = left < right
    left, right = left[once], right[once]
    if not left.size:
        return
    try:
        common = shapely.area(shapely.intersection(shapes[left], shapes[right]))
    except shapely.errors.GEOSException:
        raise InputError(
            "the outlines are too irregular to compare.",
            file=label,
            remedy="Round the coordinates to 7 decimals.",
        ) from None
    share = common / np.minimum(shapely.area(shapes[left]), shapely.area(shapes[right]))
    worst = int(np.argmax(share))
    if share[worst] > SEAM:
        one, other = (str(ids[k]) for k in (left[worst], right[worst]))
        raise InputError(
            f"zones {one!r} and {other!r} overlap by {percent(share[worst], 1)} of the smaller "
            "one.",
            file=label,
            remedy="Zones must not overlap: keep one level, or cut one out of the other.",
        )
    if share[worst] > 1e-6:
        tell(f"{label}: zones overlap at their seams, by {percent(share[worst], 2)} at most")
