"""Formats of public data sets and of receivers, as they are distributed: a file a person or trip.

A file is told by its name and the folders above it, never by what it holds, and the name says whose
it is where the lines do not. Columns, units and clocks are the format's own: `--time-unit` is for
tables and changes nothing here, and another `--events-tz` is refused. Where `--column` is given,
`.txt` is a table, unless `--format` says otherwise. A line or point that is no record costs itself
alone.

=============  ==========================  ==================================================
format         file                        a record
=============  ==========================  ==================================================
`tdrive`       `<number>.txt`              `id,2008-02-02 15:36:08,lon,lat`, clock of Beijing
`cabspotting`  `new_<cab>.txt`             `lat lon occupied seconds since 1970`
`geolife`      `<user>/Trajectory/*.plt`   six lines of header; latitude, longitude, 0, altitude,
                                           day number, date, time (GMT); a file is a trip
`gpx`          `<user>.gpx`                `trkpt` with lon, lat and a `time`; a `trkseg` is a trip
=============  ==========================  ==================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.io.files import Damaged, Located, unreadable
from sfumato.io.formats import FixedLines, Format, ReadOptions, constants
from sfumato.io.lines import cut_csv
from sfumato.io.rows import Positions, RowRules
from sfumato.model.events import (
    EventColumns,
    EventFile,
    Events,
    Reading,
    TimeEncoding,
    UserEncoding,
)


def _fixes(time: TimeEncoding, tz: str | None = None) -> Reading:
    """Text columns called user, time, lon and lat."""
    columns = EventColumns(user="user", time="time", lon="lon", lat="lat")
    return Reading(columns, time, UserEncoding.TEXT, tz, time_is_text=True)


class TDrive(FixedLines):
    """T-Drive (Yuan et al. 2010): one text file a taxi; every line names the taxi itself.

    Files are called by the taxis' numbers, 1 to 10357. More than five digits are no taxi's: a day
    (`20240304.txt`) is more likely a table.
    """

    name = "tdrive"
    fleet = True
    by_name_alone = True
    endings = (".txt",)
    header = ("user", "time", "lon", "lat")
    reading = _fixes(TimeEncoding.ISO, "Asia/Shanghai")

    def can_read(self, source: object) -> bool:
        return isinstance(source, Located) and bool(_TAXI.fullmatch(source.path.name))


_TAXI = re.compile(r"[1-9][0-9]{0,4}\.txt", re.ASCII | re.IGNORECASE)


class Cabspotting(FixedLines):
    """Cabspotting (Piorkowski et al. 2009): newest fix first; the cab is in the file's name."""

    name = "cabspotting"
    fleet = True
    by_name_alone = True
    endings = (".txt",)
    delimiter = " "
    header = ("lat", "lon", "occupied", "time")
    reading = _fixes(TimeEncoding.EPOCH_S)

    def can_read(self, source: object) -> bool:
        named = isinstance(source, Located) and source.path.name.startswith("new_")
        return named and super().can_read(source)

    def user_of(self, path: Path) -> str:
        return path.stem.removeprefix("new_")


class Geolife(FixedLines):
    """Geolife (Zheng et al. 2009): `Data/<user>/Trajectory/<start>.plt`, a trip each.

    Date and time are read; the day number has too few digits.
    """

    name = "geolife"
    endings = (".plt",)
    header = ("lat", "lon", "zero", "altitude", "day number", "date", "clock")
    reading = _fixes(TimeEncoding.ISO, "UTC")
    ahead = 6

    def user_of(self, path: Path) -> str:
        parent = path.absolute().parent
        return parent.parent.name if parent.name.lower() == "trajectory" else parent.name

    def rows(self, data: bytes, file: EventFile, rules: RowRules, skipped: int = 0) -> Positions:
        cut = cut_csv(data, self.delimiter, len(self.header), _GEOLIFE_WANTED)
        lat, lon, date, clock = cut.columns
        time = pc.binary_join_element_wise(date, clock, _BLANK)
        columns = {"time": time, "lon": lon, "lat": lat}
        columns |= constants(dict(file.keys), rules, cut.rows)
        positions = rules.positions(columns, unreadable=cut.malformed + skipped)
        return replace(positions, trip=np.zeros(cut.rows, np.int64))


_GEOLIFE_WANTED = [Geolife.header.index(name) for name in ("lat", "lon", "date", "clock")]
_BLANK = pa.scalar(b" ", pa.binary())


class Gpx(Format):
    """GPX 1.0 and 1.1: every `trkseg` is a trip; the user is the file's name.

    Times are instants by the standard (`2008-11-01T08:00:00Z`); one without an offset is read as
    UTC. A track point without a time, or with one that is none, is missing and costs itself alone.
    A file that is no GPX is refused where it was named and gives no fix where a folder holds it.
    Entities are not expanded: the parser is the standard library's, which refuses external ones,
    and documents with a DTD are refused whole.
    """

    name = "gpx"
    endings = (".gpx",)
    reading = _fixes(TimeEncoding.ISO, "UTC")

    def read(self, source: Located, options: ReadOptions) -> Events:  # noqa: ARG002
        keys = (("user", source.path.stem),)
        file = EventFile(source.path, self.name, self.reading, named=source.named, keys=keys)
        return Events((file,))

    def positions(self, file: EventFile, rules: RowRules) -> Iterator[Positions]:
        segments = _segments(file.path)
        points = [point for segment in segments for point in segment]
        columns = {side: _texts(point.get(side) for point in points) for side in ("lon", "lat")}
        columns |= {"time": _texts(map(_time, points))}
        columns |= constants(dict(file.keys), rules, len(points))
        sizes = [len(segment) for segment in segments]
        trip = np.repeat(np.arange(1, 1 + len(sizes)), sizes)
        yield replace(rules.positions(columns), trip=trip)


def _segments(path: Path) -> list[list[ElementTree.Element]]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    # In UTF-16 and UTF-32 the words below would not be found, and entities would be expanded.
    if b"\0" in raw or b"<!DOCTYPE" in raw or b"<!ENTITY" in raw:
        raise Damaged("a GPX file with a document type is not read.", file=str(path))
    try:
        root = ElementTree.fromstring(raw)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        line = error.position[0] if isinstance(error, ElementTree.ParseError) else None
        raise Damaged("the file is not well-formed XML.", file=str(path), row=line) from None
    if _local(root) != "gpx":
        raise Damaged("the file is not GPX.", file=str(path))
    return [
        [point for point in segment if _local(point) == "trkpt"]
        for segment in root.iter()
        if _local(segment) == "trkseg"
    ]


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _time(point: ElementTree.Element) -> str | None:
    return next((child.text for child in point if _local(child) == "time"), None)


def _texts(texts: Iterable[str | None]) -> Any:
    return pa.array(
        [None if text is None else text.strip().encode() for text in texts], pa.binary()
    )
