"""`inspect`: look at the rows and say how they could be read. **Internal**, and never a decision.

The reader never looks at values to decide how they are read (`sfumato.io.events`). Here they are
looked at, for the holder: which unit would make the time stamps dates, how many rows match the
places, what would be dropped and why. What comes out are suggestions, the lines of
`sfumato.toml` that state a choice; once the holder has written one down it is a public input
like any other. A script that publishes or not by what is found here is outside the guarantee.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine.local import DropReason, Judge, place_finder
from sfumato.engine.text_ids import DistinctIds
from sfumato.errors import SfumatoError, UsageError
from sfumato.geography.extent import Box, extent
from sfumato.io import names as aliases
from sfumato.io.columns import EPOCHS, describe, placed
from sfumato.io.events import format_named, format_of, located, read_events, rows_of
from sfumato.io.files import Damaged, is_address, is_path, members, roles_of
from sfumato.io.formats import ReadOptions, TableFormat, open_names, with_keys
from sfumato.io.inspection import MATCHED, UNREADABLE, Inspection, field_kinds
from sfumato.io.postgres.connect import parse_address
from sfumato.io.rows import Positions, names_of
from sfumato.io.tables import LABEL, Column, arrow_columns, as_table, is_spark_frame
from sfumato.io.values import BAD, validity
from sfumato.model.events import (
    EventFile,
    Events,
    EventTable,
    Reading,
    TimeEncoding,
    UserEncoding,
)
from sfumato.model.places import PlaceKind, Places
from sfumato.model.time_grid import TimeGrid

PLAUSIBLE = (315_532_800_000_000, 4_102_444_800_000_000)
"""1980 to 2100: a time stamp outside is probably read in the wrong unit."""
_OF_PLACES = (DropReason.UNKNOWN_PLACE, DropReason.NOT_VALID_THEN, DropReason.OUTSIDE_ZONES)
_EVER = TimeGrid(np.array(PLAUSIBLE), timedelta(days=1), "UTC")
_SAMPLE = 200_000
"""Rows that a suggestion is made from."""


def look(
    source: object,
    *,
    columns: Mapping[str, str] | None = None,
    tz: str | None = None,
    time_unit: str | None = None,
    format: str | None = None,
    places: Places | None = None,
    zones: Places | None = None,
) -> Inspection:
    """Look at files or a table; `places` are the towers or zones they will be counted in.

    `zones` are those that towers will be spread over.

    Raises only where there is nothing to look at (no such file, an option that does not exist):
    whatever the rows say, it comes to an end.
    """
    options = ReadOptions(dict(columns or {}), tz, time_unit)
    chosen = dict(options.columns)
    inspection = Inspection(_label(source))
    if columns:
        inspection.suggested["column"] = dict(columns)
    if time_unit is not None:
        inspection.suggested["time-unit"] = time_unit
    if tz is not None:
        inspection.suggested["events-tz"] = tz
    if format is not None:
        inspection.suggested["format"] = format
    for listed in (places, zones):
        if listed is not None:
            inspection.extents[str(listed.kind)] = extent(listed)
    in_zones = places is not None and places.kind is PlaceKind.ZONES
    look = _Look(inspection, chosen, tz, time_unit, in_zones, places)
    for part in _parts(source, options, format, inspection):
        look.at(part)
    inspection.people = look.people.count()
    look.finish()
    if len(look.id_kinds) > 1:
        inspection.remarks.append(
            "ids are numbers in some files and text in others, and an id is its text: 7 and 007 "
            "are two people, each with a share of their own. Write ids alike in all files"
        )
    if inspection.rows[UNREADABLE]:
        inspection.remarks.append(
            "some lines are not records. A field with a line break is cut into lines, and a line "
            "is read as a record of the id that it names: write files without such fields"
        )
    return inspection


@dataclass(frozen=True, slots=True)
class _Part:
    """A file or a table whose schema is known; its reading where that is the format's own."""

    label: str
    columns: tuple[Column, ...]
    file: EventFile | None
    table: Any = None
    open_names: bool = False
    reading: Reading | None = None

    def read_as(self, reading: Reading) -> EventFile | EventTable:
        if self.file is not None:
            return replace(self.file, reading=reading)
        return EventTable(self.table.select(list(reading.columns.used)), reading, self.label)


_UNKNOWN = open_names({}, None, None)
"""Stands in a file's description until its own reading is known."""


def _label(source: object) -> str:
    if is_address(source):
        return f"postgresql://…/{parse_address(str(source)).label}"  # without a password
    return str(source) if is_path(source) else LABEL


def _fixed(part: EventFile | EventTable) -> _Part:
    """A part whose reading its format or its schema leaves no doubt about."""
    if isinstance(part, EventTable):
        columns = arrow_columns(part.table.schema)
        return _Part(part.label, tuple(columns), None, part.table, reading=part.reading)
    names = dict.fromkeys((*part.header, *dict(part.keys), *part.reading.columns.used))
    columns = [Column(name, part.format) for name in names]
    return _Part(part.label, tuple(columns), part, reading=part.reading)


def _parts(
    source: object, options: ReadOptions, format: str | None, inspection: Inspection
) -> Iterator[_Part]:
    if is_address(source) or is_spark_frame(source):
        events = read_events(
            source, columns=options.columns, tz=options.tz, time_unit=options.time_unit
        )
        try:
            yield from map(_fixed, events.parts)
        finally:
            events.close()
        return
    if not is_path(source):
        table = as_table(source)
        yield _Part(LABEL, tuple(arrow_columns(table.schema)), None, table)
        return
    said = None if format is None else format_named(format)
    for file in located(source, said):
        inspection.files += 1
        label = str(file.path)
        try:
            kind = said or format_of(file, options.columns.values())
            if not isinstance(kind, TableFormat):
                yield from map(_fixed, kind.read(file, options).parts)
                continue
            schema = kind.schema(file.path, options.columns.values())
        except SfumatoError as error:
            problem = error.problem.removeprefix(f"{label}: ")
            if "header" in problem and (kinds := field_kinds(file.path)):
                inspection.remarks.append(f"what stands in the first line of {label}: {kinds}")
            inspection.unfit.append((label, f"{problem} {error.remedy}".strip()))
            continue
        if schema is None:
            inspection.unfit.append((label, "it is empty"))
            continue
        columns = tuple(with_keys(schema.columns, file))
        described = kind.part(file, schema, _UNKNOWN)
        yield _Part(label, columns, described, open_names=schema.open_names)


@dataclass(slots=True)
class _Look:
    """Goes through the parts and writes down what it sees."""

    inspection: Inspection
    chosen: dict[str, str]
    tz: str | None
    unit: str | None
    zones: bool
    places: Places | None
    people: DistinctIds = field(default_factory=DistinctIds)
    id_kinds: set[UserEncoding] = field(default_factory=set)
    _judge: Judge | None = None
    _points: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=list)
    """Positions of the first rows."""
    _known: dict[Any, Reading | None] = field(default_factory=dict)
    """By columns, and the reading where that is the format's own."""

    def at(self, part: _Part) -> None:
        """One part: its schema if it is new, then its rows."""
        kind = part.columns, part.reading
        try:
            if kind not in self._known:
                self._known[kind] = self._reading(part)
            if (reading := self._known[kind]) is None:
                self.inspection.unfit.append((part.label, "its columns leave open how it is read"))
                return
            self.id_kinds.add(reading.user)
            for rows in self._rows(part, reading):
                self._count(rows)
        except Damaged as error:
            self.inspection.unfit.append((part.label, error.problem))

    def _rows(self, part: _Part, reading: Reading) -> Iterator[Positions]:
        return rows_of(Events((part.read_as(reading),)))

    def _reading(self, part: _Part) -> Reading | None:
        """The reading that the schema gives with what is suggested for what it leaves open."""
        if part.open_names:
            return self._placed(part, self._by_members(part))
        if part.reading is not None:
            reading = self._placed(part, part.reading)
            self._roles(part, reading)
            if part.file is not None and reading.tz not in (None, "UTC", self.tz):
                self._ask_clock("a clock of the format's own; state columns by number for another")
            return reading
        described = self._described(part)
        if described is None:
            self.inspection.columns += [(c.name, c.type, "") for c in part.columns]
            return None
        reading = self._timed(part, self._placed(part, described))
        self._roles(part, reading)
        return reading

    def _by_members(self, part: _Part) -> Reading:
        """NDJSON: the members of the first objects, and the parts that their names suggest."""
        self.inspection.remarks.append("NDJSON has no header: `column` says how members are called")
        names, nested = ([], []) if part.file is None else members(part.file.path)
        if names:
            self.inspection.remarks.append(f"members of the first objects: {aliases.listed(names)}")
        if nested:
            self.inspection.remarks.append(
                f"members inside of {aliases.listed(nested)} are not found: write the parts that "
                "are needed as members of the line itself"
            )
        meant = roles_of(names, self.chosen)
        if meant:
            self.inspection.suggested["column"] = self.chosen | meant
        if self.tz is None:
            self._ask_clock("times without an offset, where there are any")
        return open_names(self.chosen | meant, self.tz or "UTC", self.unit)

    def _described(self, part: _Part) -> Reading | None:
        """What the schema says, with any unit and clock where it leaves them open."""
        problem = ""
        for unit in (self.unit, "s"):
            for tz in (self.tz, "UTC"):
                try:
                    return describe(part.columns, self.chosen, part.label, tz=tz, unit=unit)[0]
                except UsageError:
                    raise
                except SfumatoError as error:
                    problem = problem or f"{error.problem} {error.remedy}".strip()
        self.inspection.remarks.append(problem)
        return None

    def _roles(self, part: _Part, reading: Reading) -> None:
        columns = reading.columns
        if self.inspection.columns:
            self.inspection.columns.append((part.label, "has other columns:", ""))
        clock = "" if reading.tz is None else f", without an offset on the clock of {reading.tz}"
        parts = {columns.user: "user", columns.time: f"time ({reading.time}{clock})"}
        for name, what in ((columns.place, "place"), (columns.lon, "lon"), (columns.lat, "lat")):
            if name is not None:
                scale = columns.degrees_scale if what != "place" else 1.0
                parts[name] = what if scale == 1.0 else f"{what} (degrees x {scale:,.0f})"
        self.inspection.columns += [
            (column.name, column.type, parts.get(column.name, "")) for column in part.columns
        ]

    def _placed(self, part: _Part, reading: Reading) -> Reading:
        """By names or by coordinates; where that is open, both are tried and said."""
        columns = reading.columns
        if self.places is None:
            by_place = columns.place is not None
            return replace(reading, columns=placed(_sure(columns, by_place), not by_place))
        try:
            return replace(reading, columns=placed(columns, self.zones))
        except SfumatoError as error:
            self.inspection.remarks.append(error.problem)
        if columns.place is None or columns.lon is None:  # coordinates, and towers to be named
            return replace(reading, columns=placed(_sure(columns, False), True))
        matched = {}
        for by_place in (True, False):
            way = replace(reading, columns=placed(_sure(columns, by_place), True))
            matched[by_place] = sum(self._matching(rows) for rows in self._some(part, way))
        best = matched[True] >= matched[False]
        self.inspection.remarks.append(
            f"of the first rows {matched[True]:,} match by name, {matched[False]:,} by position"
        )
        names = {"place": columns.place} if best else {"lon": columns.lon, "lat": columns.lat}
        self.inspection.suggested["column"] = self.chosen | {k: str(v) for k, v in names.items()}
        return replace(reading, columns=placed(_sure(columns, best), True))

    def _timed(self, part: _Part, reading: Reading) -> Reading:
        """The unit that makes most of the first time stamps dates, where none is stated."""
        time = next(c for c in part.columns if c.name == reading.columns.time)
        named = aliases.TimeName.of(time.name)
        if self.unit is None and named.unit is None and _is_number(time.type):
            best = self._best_unit(part, reading)
            self.inspection.suggested["time-unit"] = best
            return replace(reading, time=EPOCHS[best], time_is_text=False)
        if reading.time is TimeEncoding.NAIVE and self.tz is None and not named.utc:
            self._ask_clock("the times carry no zone")
        if reading.time is not TimeEncoding.ISO:
            return reading
        some = [rows.time for rows in self._some(part, replace(reading, tz=reading.tz or "UTC"))]
        total = sum(times.size for times in some)
        dates = sum(_plausible(times) for times in some)
        if total and 2 * dates < total:
            best = self._best_unit(part, replace(reading, time_is_text=True))
            way = replace(reading, time=EPOCHS[best], tz=None)
            if sum(_plausible(rows.time) for rows in self._some(part, way)) > dates:
                self.inspection.suggested["time-unit"] = best
                return way
            self.inspection.remarks.append(
                f"most of the texts in {time.name!r} are neither ISO 8601 nor numbers, and no "
                "option reads other forms: write them as 2007-09-10 08:05:00 before you release"
            )
        with_offset = sum(_plausible(r.time) for r in self._some(part, replace(reading, tz=None)))
        if with_offset < dates:
            self.inspection.remarks.append(
                f"{dates - with_offset:,} of the first {total:,} times have no offset"
            )
            if self.tz is None and not named.utc:
                self._ask_clock("times without an offset")
        return replace(reading, tz=reading.tz or "UTC")

    def _ask_clock(self, why: str) -> None:
        self.inspection.clock_is_open = True
        self.inspection.remarks.append(f"{why}: say whose clock they are on with `events_tz`")

    def _best_unit(self, part: _Part, reading: Reading) -> str:
        fits = {
            unit: sum(
                _plausible(rows.time)
                for rows in self._some(part, replace(reading, time=encoding, tz=None))
            )
            for unit, encoding in EPOCHS.items()
        }
        self.inspection.remarks.append(
            "time stamps of the first rows that would lie between 1980 and 2100: "
            + ", ".join(f"{number:,} as {unit}" for unit, number in fits.items())
        )
        return max(fits, key=lambda unit: fits[unit])

    def _some(self, part: _Part, reading: Reading) -> Iterator[Positions]:
        """The first rows, or what comes before the file turns out to be damaged."""
        seen = 0
        try:
            for rows in self._rows(part, reading):
                yield rows
                seen += rows.rows
                if seen >= _SAMPLE:
                    return
        except Damaged:
            return

    def _count(self, rows: Positions) -> None:
        counted = self.inspection.rows
        counted["read"] += rows.rows + rows.unreadable
        counted[UNREADABLE] += rows.unreadable
        counted["no user"] += rows.user.null_count
        there = np.ones(rows.rows, np.bool_) if not rows.time_valid.size else rows.time_valid
        counted["no time"] += int((~there).sum())
        bad = there & (rows.time == BAD)
        counted["not a time"] += int(bad.sum())
        good = there & ~bad & (rows.time >= PLAUSIBLE[0]) & (rows.time < PLAUSIBLE[1])
        counted["a time outside the years 1980 to 2100"] += int((there & ~bad & ~good).sum())
        if good.any():
            low, high = int(rows.time[good].min()), int(rows.time[good].max())
            before = self.inspection.span or (low, high)
            self.inspection.span = min(low, before[0]), max(high, before[1])
        if rows.lon is not None and rows.lat is not None:
            on = (np.abs(rows.lon) <= 180) & (np.abs(rows.lat) <= 90)
            counted[str(DropReason.BAD_COORDINATES)] += int((~on).sum())
            if sum(lon.size for lon, _ in self._points) < _SAMPLE:
                self._points.append((rows.lon[on], rows.lat[on]))
        else:
            counted["no place"] += rows.place.null_count
        # A file of a folder may have coordinates alone, which name no tower.
        towers = self.places is not None and self.places.kind is PlaceKind.TOWERS
        if self.places is not None and not (towers and rows.place is None):
            counted[MATCHED] += self._matching(rows)
            if self._judge is None:
                self._judge = Judge(self.places, _EVER, 31)
            self._judge.cells(rows)
        names = names_of(rows.user)
        there = validity(names)
        cells = np.where(there, 0, -1) if there.size else np.zeros(len(names), np.int64)
        self.people.add(names, cells.astype(np.int32))

    def _matching(self, rows: Positions) -> int:
        """Rows that name one of the places, or lie in one."""
        if self.places is None:
            return 0
        where, _ = place_finder(self.places).find(rows)
        return int((where >= 0).sum())

    def finish(self) -> None:
        """What became of rows at the places, and how large the ground is that positions cover."""
        dropped = {} if self._judge is None else self._judge.log().dropped
        for reason in _OF_PLACES:
            self.inspection.rows[str(reason)] += dropped.get(reason, 0)
        lon, lat = (
            np.concatenate([np.empty(0), *(pair[side] for pair in self._points)]) for side in (0, 1)
        )
        if lon.size:
            box = Box.of(lon, lat)
            words = f"the first {lon.size:,} positions: {box.words()}"
            self.inspection.extents["positions"] = words, dict(box.numbers())
        elif self._points:
            self.inspection.remarks.append(
                "no position could be read: degrees are written as 48.85, with a point, not a comma"
            )


def _sure(columns: Any, by_place: bool) -> Any:
    """The columns as if the holder had said what counts."""
    return replace(columns, chosen=frozenset({"place"} if by_place else {"lon", "lat"}))


def _is_number(kind: str) -> bool:
    return kind.endswith(("INT", "INTEGER")) or kind == "DOUBLE"


def _plausible(time: NDArray[np.int64]) -> int:
    return int(((time >= PLAUSIBLE[0]) & (time < PLAUSIBLE[1])).sum())
