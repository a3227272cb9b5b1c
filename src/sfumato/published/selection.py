"""What a question is about: which places and which slots, each with a weight.

    select(release, zones=["Z00003"], hours="8-10", weekdays="mon-fri")

Places are named by their ids, or lie in a polygon, where those that lie in it partly count with
their share of area, as if people stood anywhere in a zone with equal chance. Slots are named by
when they begin and end, by hours of the day and by days of the week, always as the clocks of the
release's time zone show them. What is not in the release is refused, and the refusal says what is.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.io.foreign import check_depth, document
from sfumato.io.zones import read_polygons
from sfumato.model.rounding import number_of
from sfumato.model.time_grid import MICROSECONDS, TimeGrid, step_text

if TYPE_CHECKING:
    from sfumato.published.release import Release

Vector = NDArray[np.float64]
Zones = str | Sequence[str]
Polygon = shapely.Geometry | Mapping[str, Any] | str | os.PathLike[str]
Moment = datetime | date | str
Hours = int | str | Iterable[int]
Weekdays = int | str | Iterable[int | str]

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WKT = re.compile(r"(SRID=\d+;)?[A-Z]+(\s+[ZM]+)?\s*(\(|EMPTY$)", re.IGNORECASE)
"""Text that begins as a shape does, and not as the name of a file (polygon.geojson)."""
_OUTLINE = "Give WGS84 degrees as a shape, GeoJSON, WKT, a file, or west,south,east,north."


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """A weight for each place and each slot of a release: what is summed."""

    places: Vector
    """1 where it counts, 0 where it does not, its share of area in between."""
    slots: Vector
    polygons: int = 0
    """How many polygons were given, which are one area here; 0 where places were named."""

    @property
    def partly(self) -> int:
        """How many places count with a share of their area."""
        return int(((self.places > 0) & (self.places < 1)).sum())


def select(
    release: Release,
    *,
    zones: Zones | None = None,
    polygon: Polygon | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    hours: Hours | None = None,
    weekdays: Weekdays | None = None,
) -> Selection:
    """Which places and slots a question is about; everything, where nothing is said.

    Args:
        release: What is asked.
        zones: Ids of places.
        polygon: An area (WGS84): a shape, GeoJSON, WKT, a file, or "west,south,east,north". Zones
            that lie in it partly count with their share of area.
        start: Where the first slot begins; a time without offset is local, a date its midnight.
        end: Where the last slot ends.
        hours: Hours of the day: 8, [8, 9], range(8, 10), or "8-10", which ends at 10 o'clock.
        weekdays: Days of the week: "mon-fri", ["sat", "sun"], or numbers from 0, Monday, on.

    Raises:
        UsageError: Something is not understood, or zones and a polygon are given together.
        InputError: The release has no such place or slot; the error says what it has.

    Example:
        >>> select(week, zones="Z00003", hours="8-10").slots.sum()     # doctest: +SKIP
        14.0
    """
    if zones is not None and polygon is not None:
        raise UsageError("Zones and a polygon were given.", remedy="Give one of the two.")
    places = np.ones(release.ids.size)
    parts: tuple[shapely.Geometry, ...] = ()
    if zones is not None:
        places = place_weights(release.ids, zones)
    elif polygon is not None:
        parts = polygons_of(polygon)
        places = area_weights(release.geometry, shapely.union_all(parts))
    return Selection(places, slot_weights(release.grid, start, end, hours, weekdays), len(parts))


def place_weights(ids: NDArray[np.str_], zones: Zones, of: str = "release") -> Vector:
    """1 for each of these places; `of` is what has them, in the words of a refusal.

    Raises:
        InputError: One of them is not there.
    """
    wanted = [zones] if isinstance(zones, str) else [str(zone) for zone in zones]
    if not wanted:
        raise UsageError("No zone is named.", remedy=f"Name some: {_some(ids)}.")
    unknown = sorted(set(wanted) - set(ids.tolist()))
    if unknown:
        near = difflib.get_close_matches(unknown[0], ids.tolist(), 3)
        hint = f"Did you mean {', '.join(near)}?" if near else f"There are {_some(ids)}."
        more = f" and {len(unknown) - 1} others" if len(unknown) > 1 else ""
        raise InputError(f"The {of} has no zone {unknown[0]!r}{more}.", remedy=hint)
    return np.isin(ids, wanted).astype(np.float64)


def _some(ids: NDArray[np.str_]) -> str:
    shown = ", ".join(ids[:3].tolist())
    return shown if ids.size <= 3 else f"{shown} and {ids.size - 3} others"


def as_polygon(given: Polygon, *, files: bool = True) -> shapely.Geometry:
    """One area of all polygons that are given."""
    return shapely.union_all(polygons_of(given, files=files))


def polygons_of(given: Polygon, *, files: bool = True) -> tuple[shapely.Geometry, ...]:
    """Areas in degrees, in whichever form they are given: a file or a collection of features may
    hold several, all others are one. No file is opened where `files` says so.

    Raises:
        UsageError: It is none, or one is empty.
    """
    try:
        if isinstance(given, shapely.Geometry):
            parts: tuple[shapely.Geometry, ...] = (given,)
        elif isinstance(given, Mapping):
            parts = _from_geojson(given)
        else:
            parts = _from_text(os.fspath(given).strip(), files)
        # Coordinates that are no numbers stop this.
        parts = tuple(one if shapely.is_valid(one) else shapely.make_valid(one) for one in parts)
    except (ValueError, TypeError, KeyError, RecursionError, shapely.errors.ShapelyError):
        raise UsageError("The polygon cannot be read.", remedy=_OUTLINE) from None
    if not any(one is not None and shapely.area(one) > 0 for one in parts):
        raise UsageError("The polygon is empty: it has no area.", remedy=_OUTLINE)
    return parts


def _from_geojson(given: Mapping[str, Any]) -> tuple[shapely.Geometry, ...]:
    if given.get("type") == "FeatureCollection":
        return tuple(part for one in given["features"] for part in _from_geojson(one))
    text = json.dumps(given["geometry"] if given.get("type") == "Feature" else given)
    check_depth(text.encode())
    return (shapely.from_geojson(text),)


def _from_text(text: str, files: bool) -> tuple[shapely.Geometry, ...]:
    if text.startswith("{"):
        return _from_geojson(document(text))
    if not text:
        raise ValueError("no polygon")
    if _WKT.match(text):
        check_depth(text.encode())
        return (shapely.from_wkt(text),)
    edges = text.split(",")
    if len(edges) == 4:
        west, south, east, north = (float(edge) for edge in edges)
        return (shapely.box(west, south, east, north),)
    if not files:
        raise ValueError("no file is opened")
    return tuple(read_polygons(text))


def area_weights(shapes: NDArray[np.object_] | None, polygon: shapely.Geometry) -> Vector:
    """Share of each place's area that lies in the polygon.

    Both areas are taken in degrees: within one zone a degree of longitude has one length, to a
    few ten-thousandths. Towers are points: inside or not.

    Raises:
        InputError: No outlines were published, or none lies in the polygon.
    """
    if shapes is None or not len(shapes) or shapely.is_missing(shapes).all():
        raise InputError(
            "This release has no outlines of its places.", remedy="Name the zones instead."
        )
    shapely.prepare(polygon)
    known = ~shapely.is_missing(shapes)
    near = known & shapely.intersects(polygon, shapes)
    found = np.zeros(shapes.size)
    areas = np.where(known, shapely.area(shapes), 0.0)
    points = near & (areas == 0)
    found[points] = 1.0
    some = np.flatnonzero(near & ~points)
    inside = some[shapely.contains_properly(polygon, shapes[some])]
    found[inside] = 1.0
    cut = np.setdiff1d(some, inside)
    found[cut] = np.minimum(
        shapely.area(shapely.intersection(polygon, shapely.make_valid(shapes[cut]))) / areas[cut],
        1.0,
    )
    found[found > 1 - 1e-6] = 1.0  # an outline that was cut along itself
    if not (found > 0).any():
        west, south, east, north = shapely.total_bounds(shapes[known])
        raise InputError(
            "The polygon lies outside of the release.",
            remedy=f"Its places lie between {west:.3f} and {east:.3f} degrees east and between "
            f"{south:.3f} and {north:.3f} degrees north.",
        )
    return found


def slot_weights(
    grid: TimeGrid,
    start: Moment | None = None,
    end: Moment | None = None,
    hours: Hours | None = None,
    weekdays: Weekdays | None = None,
    of: str = "release",
) -> Vector:
    """1 for each slot between `start` and `end` in these hours of these days.

    `of` is what has the slots, in the words of a refusal.

    Raises:
        UsageError: Hours or weekdays are not understood, or cut slots in two.
        InputError: The release has no such slot.
    """
    first = 0 if start is None else _edge(grid, start, "start", of)
    after = grid.slots if end is None else _edge(grid, end, "end", of)
    if after <= first:
        raise InputError("The end is not after the start.", remedy=_there_is(grid))
    found = np.zeros(grid.slots, dtype=bool)
    found[first:after] = True
    if hours is not None or weekdays is not None:
        kinds = _hours_of(grid)
        wanted = np.ones((7, 24), dtype=bool)
        if hours is not None:
            wanted[:, sorted(set(range(24)) - _hours(hours))] = False
        if weekdays is not None:
            wanted[sorted(set(range(7)) - _weekdays(weekdays))] = False
        inside = np.array([wanted[tuple(kind.T)].mean() for kind in kinds])
        if (found & (inside > 0) & (inside < 1)).any():
            raise UsageError(
                f"These hours or days cut slots of the {of} in two.",
                remedy=f"Ask for whole slots. {_there_is(grid)}",
            )
        found &= inside == 1
    if not found.any():
        raise InputError(f"The {of} has no such hours.", remedy=_there_is(grid))
    return found.astype(np.float64)


def _there_is(grid: TimeGrid) -> str:
    starts, end = grid.starts(), grid.ends()[-1]
    form = "%a %Y-%m-%d %H:%M"
    return (
        f"There are {number_of(grid.slots, 'slots')} of {step_text(grid.step)} from "
        f"{starts[0].strftime(form)} to {end.strftime(form)} ({grid.tz})."
    )


def _edge(grid: TimeGrid, given: Moment, word: str, of: str) -> int:
    """The slot that begins at this moment."""
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
        if not isinstance(moment, datetime):
            moment = datetime(moment.year, moment.month, moment.day)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=ZoneInfo(grid.tz))
        instant = round(moment.timestamp() * MICROSECONDS)
    except (ValueError, AttributeError, OverflowError):
        raise UsageError(
            f"The {word} is neither a date nor a time.",
            remedy="Write 2007-09-10 or 2007-09-10T08:00.",
        ) from None
    at = int(np.searchsorted(grid.edges, instant))
    if at > grid.slots or int(grid.edges[at]) != instant:
        outside = not grid.edges[0] <= instant <= grid.edges[-1]
        problem = f"lies outside of the {of}" if outside else "does not fall on a slot"
        raise InputError(f"The {word} {problem}.", remedy=_there_is(grid))
    return at


def _hours_of(grid: TimeGrid) -> list[NDArray[np.int64]]:
    """Weekday and hour of every hour of the clock that a slot touches (all, beyond a week)."""
    local, found = ZoneInfo(grid.tz), []
    for begin, finish in pairwise((grid.edges // MICROSECONDS).tolist()):
        within = range(begin, min(finish, begin + 7 * 86_400), 3600)
        times = [datetime.fromtimestamp(second, local) for second in (*within, finish - 1)]
        found.append(np.array([(time.weekday(), time.hour) for time in times], dtype=np.int64))
    return found


def _hours(given: Hours) -> set[int]:
    """Hours of the day that are meant; "22-6" goes over midnight."""
    found: set[int] = set()
    try:
        if isinstance(given, str):
            for part in given.split(","):
                first, dash, last = part.partition("-")
                begin = int(first)
                length = (int(last) - begin) % 24 or 24 if dash else 1
                if not (0 <= begin <= 23 and (not dash or 0 <= int(last) <= 24)):
                    raise ValueError(part)
                found |= {(begin + k) % 24 for k in range(length)}
        else:
            found = {int(given)} if isinstance(given, int) else {int(hour) for hour in given}
    except (ValueError, TypeError):
        found = set()
    if not found or not found <= set(range(24)):
        raise UsageError(
            "The hours are not understood.", remedy='Write "8-10", 8 or [8, 9]: from 0 to 23.'
        )
    return found


def _weekdays(given: Weekdays) -> set[int]:
    if isinstance(given, str):
        parts: list[int | str] = [*given.split(",")]
    else:
        parts = [given] if isinstance(given, int) else [*given]
    try:
        found: set[int] = set()
        for part in parts:
            first, dash, last = str(part).partition("-")
            begin = _weekday(first)
            length = (_weekday(last) - begin) % 7 + 1 if dash else 1
            found |= {(begin + k) % 7 for k in range(length)}
    except ValueError:
        found = set()
    if not found:
        raise UsageError(
            "The days of the week are not understood.",
            remedy='Write "mon-fri", ["sat", "sun"], or numbers from 0 (Monday) to 6.',
        )
    return found


def _weekday(text: str) -> int:
    word = text.strip().lower()
    if word.isdigit() and int(word) < 7:
        return int(word)
    named = [k for k, day in enumerate(DAYS) if len(word) >= 2 and day.startswith(word)]
    if len(named) != 1:
        raise ValueError(text)
    return named[0]
