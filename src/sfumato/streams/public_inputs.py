"""What a stream may be given beside its events: roads, neighbours, earlier days, holidays.

* `roads`: a map of lines. Fan, Xiong & Sunderam 2013 tell dense from sparse cells, and group
  cells, by the road network; the length of road in each zone is what is taken from it.
* `adjacency`: which places lie side by side, two columns of ids. A tree over places that are no
  grid is grown along it.
* `earlier`: folders of days that were published before: the H historical days of Chen et al.,
  Algorithm 5. There they are read raw, each for another epsilon that "parallel" composition
  makes disappear, though the same people live through all of them. Here the days are read as they
  were published: they were paid for then, and whatever is computed from them is post-processing.
  Numbers that no manifest vouches for are refused, and so are days that the stream itself is yet
  to publish. `comb` takes the vectors that earlier streams of its own measured (`streams.kept`).

* `holidays`: dates that are free days whatever their weekday, from a public calendar and never from
  the events: a stream that found its holidays in the data would tell how many people came.

Each goes into the reservation by its digest (`named`), so that a stream is resumed with the same
inputs. None of it is looked up in the events, and a scheme that has no use for one refuses it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.geography.projection import Projection
from sfumato.io.foreign import contents
from sfumato.io.places import id_texts, load_places
from sfumato.io.tables import no_one, to_wgs84
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import Calendar, TimeGrid
from sfumato.published.manifest import GridFacts
from sfumato.published.release import Release, as_release, vouched
from sfumato.streams.facts import StreamFacts
from sfumato.streams.kept import Vectors, earlier_vectors
from sfumato.streams.scheme import StreamScheme, Values

_LINES = (
    shapely.GeometryType.LINESTRING,
    shapely.GeometryType.MULTILINESTRING,
    shapely.GeometryType.LINEARRING,
)
Day = tuple[int, Values]
"""First instant of a published day, and the distances between its successive slots."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicInputs:
    """Roads, neighbours and published days, as far as they were given."""

    roads: NDArray[np.float64] | None = None
    adjacent: NDArray[np.int64] | None = None
    past_days: tuple[Values, ...] = ()
    past: Vectors | None = None
    named: tuple[tuple[str, str], ...] = ()
    """What the reservation holds of them: name and digest."""

    def put_into(self, facts: StreamFacts) -> StreamFacts:
        """The facts with these beside them."""
        return replace(
            facts,
            roads=self.roads,
            adjacent=self.adjacent,
            past_days=self.past_days,
            past=self.past,
        )


def read_public_inputs(
    scheme: StreamScheme,
    counted: Places,
    released: Places,
    grid: TimeGrid,
    *,
    roads: object = None,
    adjacency: object = None,
    earlier: Sequence[str | os.PathLike[str] | Release] = (),
    holidays: bool = False,
) -> PublicInputs:
    """Read what was given, and name it for the reservation.

    Args:
        scheme: Who will use it; it declares what it has a use for.
        counted: The places that are measured.
        released: The places that numbers are published for.
        grid: The slots of the stream.
        roads: A file or frame of lines.
        adjacency: A table of two columns of ids.
        earlier: Folders of what was published before.
        holidays: Whether a calendar names any of its days.

    Raises:
        UsageError: The scheme has no use for it.
        InputError: It cannot be read, or is about something else.
    """
    given = {"roads": roads is not None, "adjacency": adjacency is not None, "earlier": earlier}
    given["holidays"] = holidays
    for name, there in given.items():
        if there and name not in scheme.declares.reads:
            raise UsageError(
                f"The scheme {scheme.name} has no use for {name}.",
                remedy=f"Leave `{name}` out, or choose another `scheme`.",
            )
    named: list[tuple[str, str]] = []
    lengths = edges = None
    if roads is not None:
        lengths = road_lengths(roads, counted)
        named.append(("roads", _digest(lengths)))
    if adjacency is not None:
        edges = adjacent_pairs(adjacency, counted.ids)
        named.append(("adjacency", _digest(edges)))
    past, days = None, list[Day]()
    if earlier and (most := getattr(scheme, "memory", None)):
        past, digest = earlier_vectors(earlier, counted, grid, most)
        named.append(("earlier", digest))
    elif days := published_days(earlier, released, grid):
        named.append(("earlier", _digest(*(day for _, day in days))))
    return PublicInputs(lengths, edges, tuple(day for _, day in days), past, tuple(named))


def holidays_in(given: object, grid: TimeGrid) -> tuple[date, ...]:
    """The days of the stream that a public calendar names, in order.

    Args:
        given: Dates, texts such as 2008-05-26, or files with one date at the start of each line
            (text, CSV) or events of whole days (iCalendar, `.ics`); one, or several in a list.
        grid: The slots of the stream. Days outside it are left out.

    Raises:
        UsageError: Something is no date and no file.
        InputError: A file cannot be read, has no date, or a line of it begins with none.
    """
    if given is None:
        return ()
    listed = [given] if isinstance(given, str | os.PathLike | date) else list(given)  # type: ignore[call-overload]
    found: set[date] = set()
    for one in listed:
        if isinstance(one, date):
            found.add(date(one.year, one.month, one.day))  # an instant is of its day
        elif Path(one).is_file():
            dates = _dates_of(Path(one))
            if not dates:
                raise InputError(
                    "there is no date in it.",
                    file=str(one),
                    remedy="Write a date such as 2008-05-26 at the start of each line.",
                )
            found |= dates
        else:
            try:
                found |= {date.fromisoformat(part.strip()) for part in str(one).split(",")}
            except ValueError:
                raise UsageError(
                    f"{str(one)!r} is neither a date nor a file of dates.",
                    remedy="Write `holidays` as 2008-05-26, or name a file with a date a line.",
                ) from None
    days = {start.date() for start in (grid.start(0), grid.end(-1))}
    return tuple(sorted(day for day in found if min(days) <= day <= max(days)))


_MOST_DATES = 64 << 20


def _dates_of(path: Path) -> set[date]:
    """Dates at the start of lines, or of the whole days of an iCalendar file."""
    try:
        lines = contents(path, _MOST_DATES, links=True).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InputError("it cannot be read as text.", file=str(path)) from None
    if any(line.strip().upper() == "BEGIN:VCALENDAR" for line in lines[:5]):
        wanted = re.compile(r"DTSTART[^:]*:(\d{8})\s*$")
        return {date.fromisoformat(hit[1]) for line in lines if (hit := wanted.match(line))}
    found = set()
    for number, line in enumerate(lines, 1):
        text = re.split(r"[,;\t ]", line.strip(), maxsplit=1)[0].strip('"')
        if not text or text.startswith("#") or (number == 1 and not text[0].isdigit()):
            continue  # blank, a remark, or a header
        try:
            found.add(date.fromisoformat(text))
        except ValueError:
            raise InputError(
                f"line {number} begins with no date.",
                file=str(path),
                remedy="Write a date such as 2008-05-26 at the start of each line.",
            ) from None
    return found


def road_lengths(source: object, places: Places) -> NDArray[np.float64]:
    """Metres of road in each zone, in the order of the places, to the whole metre."""
    if places.kind is not PlaceKind.ZONES:
        raise UsageError(
            "Roads are measured inside zones, and towers have none.",
            remedy="Give `zones` or a `grid`, or `adjacency` instead of `roads`.",
        )
    table = load_places(source)
    shapes = table.shapes
    if shapes is None or not shapes.size:
        raise InputError("there are no lines in it.", file=table.label)
    if not np.isin(shapely.get_type_id(shapes), _LINES).all():
        raise InputError(
            "not every shape in it is a line.", file=table.label, remedy="Give the roads alone."
        )
    plane = Projection.around(places)
    lines = plane.shapes(to_wgs84(shapes, table.crs, table.label, no_one))
    zones = plane.shapes(places.geometry)
    zone, line = shapely.STRtree(lines).query(zones, predicate="intersects")
    inside = shapely.length(shapely.intersection(zones[zone], lines[line]))
    # To the metre, so that no processor's last digit is in the reservation.
    return np.rint(np.bincount(zone, weights=inside, minlength=len(places)))


def adjacent_pairs(source: object, ids: NDArray[np.str_]) -> NDArray[np.int64]:
    """Pairs of places that lie side by side, each once: the first two columns of a table of ids."""
    table = load_places(source)
    if len(table.names) < 2:
        raise InputError(
            "it has fewer than two columns.",
            file=table.label,
            remedy="A row names two places that lie side by side.",
        )
    row = {str(place): number for number, place in enumerate(ids)}
    ends = []
    for name in table.names[:2]:
        texts = id_texts(table.attributes[name], name, table.label)
        unknown = next((text for text in texts if text not in row), None)
        if unknown is not None:
            raise InputError(
                f"there is no place {unknown!r}.",
                file=table.label,
                column=name,
                remedy="Name places as the zones' or towers' file does.",
            )
        ends.append([row[text] for text in texts])
    pairs = np.sort(np.array(ends, dtype=np.int64).T, axis=1)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


def published_days(
    folders: Sequence[str | os.PathLike[str] | Release], released: Places, grid: TimeGrid
) -> list[Day]:
    """The days of earlier folders in the order of time, each as distances between its slots.

    L1 between successive slots of what was published; a day of a single slot has none.

    Raises:
        InputError: A folder was altered, or is about other places, slots or later days.
        UsageError: Two folders hold the same day.
    """
    found: dict[int, Values] = {}
    for folder in folders:
        release = vouched(as_release(folder), "It cannot be an earlier release")
        where = str(release.folder)
        if not np.array_equal(np.sort(release.ids), np.sort(released.ids)):
            raise InputError(
                "An earlier release is about other places than this stream.",
                file=where,
                remedy="Give days that were published for the same places, or leave it out.",
            )
        if not release.manifest.grid.alike(GridFacts.of(grid)):
            raise InputError(
                "An earlier release has other time slots than this stream.",
                file=where,
                remedy="Give days with the same `slot` and `tz`, or leave it out.",
            )
        if release.grid.edges[-1] > grid.edges[0]:
            raise InputError(
                "An earlier release ends after this stream begins.",
                file=where,
                remedy="Give days before `start`.",
            )
        day_of = Calendar.of(release.grid).day
        for day in np.unique(day_of):
            (slots,) = np.nonzero(day_of == day)
            begin = int(release.grid.edges[slots[0]])
            if begin in found:
                raise UsageError("Two earlier releases hold the same day.", remedy="Give it once.")
            if slots.size > 1:
                moved = np.abs(np.diff(release.values[:, slots], axis=1)).sum(axis=0)
                # Published numbers have three decimals; sums of them are rounded alike.
                found[begin] = np.asarray(np.round(moved, 3), dtype=np.float64)
    return sorted(found.items())


def _digest(*arrays: NDArray[np.float64] | NDArray[np.int64]) -> str:
    return hashlib.sha256(b"".join(str(array.tolist()).encode() for array in arrays)).hexdigest()
