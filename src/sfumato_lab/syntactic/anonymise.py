"""`sfumato_lab.anonymise_counts`, `sfumato_lab.anonymise_traces`: protection by rules, labelled.

Design rule 9: nothing here passes the wall, is charged, or is called private. It stands in the
ledger all the same, in a row without a bound that is durable before the first table is in place
(`privacy.ledger.by_rules`): later releases say that they do not cover it. What leaves says *not
differential privacy*, against whom it helps and what breaks it; what was measured against the truth
(what was moved, left out, how alike groups are, what attacks make of it) goes to the holder's own
folder beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engine.local import DropLog
from sfumato.errors import SfumatoError, UsageError
from sfumato.geography.places import PlaceOptions
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid, period_of
from sfumato.privacy.ledger.by_rules import row_for
from sfumato_lab.syntactic import words
from sfumato_lab.syntactic.checks import diversity, sensitive_values
from sfumato_lab.syntactic.confidentiality import (
    NEIGHBOURS,
    Map,
    named_places,
    read_roads,
    read_stops,
)
from sfumato_lab.syntactic.counts import (
    Rounding,
    different_people,
    published_counts,
    round_counts,
    suppress_counts,
)
from sfumato_lab.syntactic.hierarchy import halved, read_tree
from sfumato_lab.syntactic.methods import Task
from sfumato_lab.syntactic.people import Held, drawn_by, enough_people, plane_of, read_people
from sfumato_lab.syntactic.published import (
    LEFT_OUT,
    Promise,
    checked_out,
    read_manifest,
    write_anonymised,
    write_internal,
)
from sfumato_lab.syntactic.registry import METHODS, settings_of
from sfumato_lab.syntactic.statement import LABEL

if TYPE_CHECKING:
    from sfumato.privacy.ledger import Ledger


@dataclass(frozen=True, slots=True, eq=False)
class Anonymised:
    """A folder of anonymised counts or records. NOT differential privacy."""

    folder: Path
    promise: Promise
    manifest: Mapping[str, Any]
    internal_figures: Mapping[str, Any] = field(repr=False)
    """Measured against the truth, attacks among it: for the holder alone."""

    def words(self) -> str:
        """What is said of it wherever it goes."""
        return self.promise.text()

    def __repr__(self) -> str:
        method = self.promise.method
        return f"<Anonymised {self.folder.name!r}, NOT differential privacy: {method}>"

    def _repr_html_(self) -> str:
        return f"<b>{escape(LABEL)}</b><pre>{escape(self.words())}</pre>"


def anonymise_counts(
    events: object,
    *,
    k: int,
    out: str | os.PathLike[str],
    dataset: str,
    start: date | str,
    end: date | str,
    tz: str,
    slot: str = "1h",
    totals: bool = False,
    secondary: bool = True,
    rounding: str = "none",
    base: int = 5,
    towers: object = None,
    zones: object = None,
    grid: str | None = None,
    region: object = None,
    zone_id: str | None = None,
    zone_name: str | None = None,
    layer: str | None = None,
    repair_zones: bool = False,
    drop_bad_towers: bool = False,
    sensitive: object = None,
    attack: bool = True,
    seed: int | None = None,
    column: Mapping[str, str] | None = None,
    format: str | None = None,
    time_unit: str | None = None,
    events_tz: str | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    internal: Callable[[DropLog], None] | None = None,
    progress: Progress | None = None,
) -> Anonymised:
    """Publish counts of people by place and slot without the small ones. NOT differential privacy.

    Args:
        events: Files, a folder, the address of a table, an Arrow table or a data frame.
        k: Smallest count that is published, and fewest different people behind a total.
        out: Folder to make, or one of an earlier run to write again.
        dataset: Whose people these are, as the ledger knows them. What leaves stands there in a row
            without a bound: it counts against no cap, and what is published later says that its
            epsilon does not cover it.
        start: First day, such as 2007-09-10: a public choice, never read from the data.
        end: First day that is no longer part of it.
        tz: Time zone of days and slots.
        slot: Length of a time slot: 15min, 1h, 1d.
        totals: Publish sums over places and over slots as well.
        secondary: With totals: leave out further cells, so that none that is left out follows.
        rounding: `none`, `nearest`, or `random` to one of the multiples around.
        base: Of which what is published is a multiple, where it is rounded.
        towers: Antennas that the events name.
        zones: Zones in which coordinates lie.
        grid: Cells instead of zones: 500m, 1km@EPSG:3035, h3:8, geohash:6.
        region: What the grid covers: a file of polygons, or west,south,east,north.
        zone_id: Column of the zones' ids.
        zone_name: Column of the zones' names.
        layer: Layer of the zones' or the region's file.
        repair_zones: Make crossing outlines valid.
        drop_bad_towers: Leave out towers without a usable position.
        sensitive: Places that the checks are about: ids, or a table of them.
        attack: Attack it at once and keep the figures with the holder's own.
        seed: Of random rounding: the same seed and records give the same result; none: fresh.
        column: Which column is what: `{"user": "imsi", "time": "ts"}`.
        format: Format of the events where their names do not tell.
        time_unit: Unit of epoch numbers: s, ms, us or ns.
        events_tz: Clock of event times that carry no offset; default: `tz`.
        ledger: The ledger, its file or address; default: a file in your data folder.
        internal: Told how many rows were read and why some do not count.
        progress: Told the stage and its share.

    Returns:
        The folder, what is said of it, and the holder's own figures.

    Raises:
        UsageError: What is asked for makes no sense, `out` holds something else, or the ledger
            does not know the data set.
        InputError: A file cannot be read, or nobody is in the period and places.

    Example:
        >>> sfumato_lab.anonymise_counts(                                      # doctest: +SKIP
        ...     "events.parquet", towers="towers.csv", start="2007-09-10", end="2007-09-17",
        ...     tz="Europe/Paris", k=10, totals=True, dataset="metro subscribers", out="counts-37",
        ... )
    """
    folder, write_row = checked_out(out), row_for(dataset, ledger)
    try:
        how = Rounding(rounding)
    except ValueError:
        raise UsageError(
            f"There is no rounding {str(rounding)[:40]!r}.",
            remedy=f"Choose from {', '.join(Rounding)}.",
        ) from None
    enough_people(k, k)
    round_counts(np.zeros(1, np.int64), how, base)
    asked = _Asked(
        PlaceOptions(
            *(towers, zones, grid, region, zone_id, zone_name, layer, repair_zones),
            drop_bad_towers,
            column=column,
        ),
        period_of(start, end, slot, tz),
        tz,
    )
    places = asked.places()
    matters = named_places(sensitive, places)
    reading: dict[str, Any] = {
        "columns": column,
        "tz": events_tz or tz,
        "time_unit": time_unit,
        "format": format,
    }
    held = read_people(events, places, asked.slots, progress=progress, **reading)
    if internal is not None and held.drops is not None:
        internal(held.drops)
    different = different_people(held, len(places), asked.slots.slots)
    table, hidden, suppressed = suppress_counts(different, k, totals=totals, secondary=secondary)
    table = round_counts(table, how, base, drawn_by(seed, held))
    published = published_counts(table, hidden, totals)
    promise = words.counts(k, totals, secondary, str(how), base)
    parameters: dict[str, Any] = {"k": k, "totals": totals, "secondary": secondary and totals}
    parameters |= {"rounding": str(how)} | ({"base": base} if how is not Rounding.NONE else {})
    row = write_row(promise.method, parameters, asked.slots.period, tz, folder)
    facts = {"counted": "people", "dataset": dataset, "ledger": row}
    write_anonymised(folder, promise, parameters, published, places, asked.slots, facts)
    cell = held.place.astype(np.int64) * asked.slots.slots + held.slot
    shown = ~hidden[:-1, :-1].ravel()[cell]
    values = sensitive_values(held, matters)[held.person]
    figures: dict[str, Any] = {
        "suppressed": asdict(suppressed),
        "cells": len(places) * asked.slots.slots,
        "people_counted_share": round(float(shown.mean()), 6),
        "diversity": diversity(np.where(shown, cell, -1), values),
    }
    nobody = np.full(len(held), LEFT_OUT, np.int64)
    return _finish(folder, promise, held, nobody, nobody, figures, attack, events, asked, reading)


def anonymise_traces(
    events: object,
    *,
    method: str,
    out: str | os.PathLike[str],
    dataset: str,
    start: date | str,
    end: date | str,
    tz: str,
    k: int | None = None,
    parameter: Mapping[str, Any] | None = None,
    slot: str = "1h",
    towers: object = None,
    zones: object = None,
    grid: str | None = None,
    region: object = None,
    zone_id: str | None = None,
    zone_name: str | None = None,
    layer: str | None = None,
    repair_zones: bool = False,
    drop_bad_towers: bool = False,
    hierarchy: object = None,
    roads: object = None,
    stops: object = None,
    sensitive: object = None,
    attack: bool = True,
    seed: int | None = None,
    column: Mapping[str, str] | None = None,
    format: str | None = None,
    time_unit: str | None = None,
    events_tz: str | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    internal: Callable[[DropLog], None] | None = None,
    progress: Progress | None = None,
) -> Anonymised:
    """Publish records of people, anonymised by a method of the field. NOT differential privacy.

    Args:
        events: Files, a folder, the address of a table, an Arrow table or a data frame.
        method: `generalise`, `suppress`, `never-walk-alone`, `wait-for-me`, `km`, `km-local`,
            `km-distance`, `probabilistic-km` or `p-confidentiality`.
        out: Folder to make, or one of an earlier run to write again.
        dataset: Whose people these are, as the ledger knows them. What leaves stands there in a row
            without a bound: it counts against no cap, and what is published later says that its
            epsilon does not cover it.
        start: First day, such as 2007-09-10: a public choice, never read from the data.
        end: First day that is no longer part of it.
        tz: Time zone of days and slots.
        k: Fewest records that are alike; every method but `p-confidentiality` needs it.
        parameter: The method's own settings: `{"delta": 2000, "m": 2}`.
        slot: Length of a time slot: 15min, 1h, 1d.
        towers: Antennas that the events name.
        zones: Zones in which coordinates lie.
        grid: Cells instead of zones: 500m, 1km@EPSG:3035, h3:8, geohash:6.
        region: What the grid covers: a file of polygons, or west,south,east,north.
        zone_id: Column of the zones' ids.
        zone_name: Column of the zones' names.
        layer: Layer of the zones' or the region's file.
        repair_zones: Make crossing outlines valid.
        drop_bad_towers: Leave out towers without a usable position.
        hierarchy: Table of children and parents: what each place lies in, and that in turn. None:
            the map is halved until places are alone.
        roads: For `p-confidentiality`: a table of two places a row, or `neighbours` to make them.
        stops: For `p-confidentiality`: a table of places and how likely people stop there; none:
            equally likely.
        sensitive: Sensitive places: ids, or a table of them; the checks are about them, too.
        attack: Attack it at once and keep the figures with the holder's own.
        seed: Of lots (pivots, order of records, draws): the same seed and records give the same
            result; none: fresh.
        column: Which column is what: `{"user": "imsi", "time": "ts"}`.
        format: Format of the events where their names do not tell.
        time_unit: Unit of epoch numbers: s, ms, us or ns.
        events_tz: Clock of event times that carry no offset; default: `tz`.
        ledger: The ledger, its file or address; default: a file in your data folder.
        internal: Told how many rows were read and why some do not count.
        progress: Told the stage and its share.

    Returns:
        The folder, what is said of it, and the holder's own figures.

    Raises:
        UsageError: What is asked for makes no sense, k is above the number of people, `out`
            holds something else, or the ledger does not know the data set.
        InputError: A file cannot be read, a hierarchy is no tree, or nobody is in the period and
            places.

    Example:
        >>> sfumato_lab.anonymise_traces(                                      # doctest: +SKIP
        ...     "events.parquet", towers="towers.csv", start="2007-09-10", end="2007-09-17",
        ...     tz="Europe/Paris", method="never-walk-alone", k=5, parameter={"delta": 2000},
        ...     dataset="metro subscribers", out="walks-37",
        ... )
    """
    folder, write_row = checked_out(out), row_for(dataset, ledger)
    settings = settings_of(method, parameter)
    chosen = METHODS[method]
    if chosen.needs_k:
        enough_people(1 << 62, k if k is not None else 0)
    elif k is not None:
        raise UsageError(f"The method {method} has no k.", remedy="Leave `k` out.")
    said = {"roads": roads, "stops": stops}
    if not chosen.needs_map and any(value is not None for value in said.values()):
        raise UsageError(
            f"The method {method} needs no map of roads and stops.",
            remedy="Leave `roads` and `stops` out.",
        )
    asked = _Asked(
        PlaceOptions(
            *(towers, zones, grid, region, zone_id, zone_name, layer, repair_zones),
            drop_bad_towers,
            column=column,
        ),
        period_of(start, end, slot, tz),
        tz,
    )
    places = asked.places()
    plane, centre = plane_of(places)
    names = [str(one) for one in places.ids]
    tree = halved(centre, names) if hierarchy is None else read_tree(hierarchy, places)
    matters = named_places(sensitive, places)
    city, made = None, []
    if chosen.needs_map:
        made = ["roads between neighbouring places"] if roads == NEIGHBOURS else []
        made += [] if stops is not None else ["equal stop probabilities"]
        city = Map(read_roads(roads, places, centre), read_stops(stops, places), matters)
    reading: dict[str, Any] = {
        "columns": column,
        "tz": events_tz or tz,
        "time_unit": time_unit,
        "format": format,
    }
    held = read_people(events, places, asked.slots, progress=progress, **reading)
    if internal is not None and held.drops is not None:
        internal(held.drops)
    if k is not None:
        enough_people(len(held), k)
    task = Task(
        held,
        places,
        asked.slots,
        plane,
        centre,
        tree,
        k or 0,
        settings,
        drawn_by(seed, held),
        city,
        tuple(made),
        progress or (lambda *_: None),
    )
    found = chosen.run(task)
    parameters = ({"k": k} if k is not None else {}) | settings
    parameters |= {"hierarchy": "given" if hierarchy is not None else "halved"}
    row = write_row(method, parameters, asked.slots.period, tz, folder)
    facts = {"records": int(found.who.size), **found.facts, "dataset": dataset, "ledger": row}
    write_anonymised(folder, found.promise, parameters, found.table, places, asked.slots, facts)
    record = np.full(len(held), LEFT_OUT, np.int64)
    record[found.who] = np.arange(found.who.size)
    group = np.full(len(held), LEFT_OUT, np.int64)
    group[found.who] = found.group
    figures: dict[str, Any] = {
        "people": len(held),
        "left_out": int((record < 0).sum()),
        **found.figures,
        "diversity": diversity(group, sensitive_values(held, matters)),
    }
    promise = found.promise
    del found, task  # the attack needs the room
    return _finish(folder, promise, held, record, group, figures, attack, events, asked, reading)


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Places and slots as they were said, to be said again to the attack."""

    said: PlaceOptions
    slots: TimeGrid
    tz: str

    def places(self) -> Places:
        """The places; records are about whole ones."""
        if self.said.spreads:
            raise UsageError(
                "Records are about whole places: towers that are spread over zones give shares.",
                remedy="Give `towers` alone, or `zones` or `grid` alone where events have "
                "coordinates.",
            )
        return self.said.open(period=self.slots, tz=self.tz).counted

    def again(self) -> dict[str, Any]:
        """In the words of a verb."""
        said, day = self.said, self.slots
        names = ("towers", "zones", "grid", "region", "zone_id", "zone_name", "layer")
        found = {name: getattr(said, name) for name in names}
        found |= {"repair_zones": said.repair_zones, "drop_bad_towers": said.drop_bad_towers}
        seconds = int(day.step.total_seconds())
        last = day.end(-1).date()
        return found | {
            "start": day.start(0).date(),
            "end": last,
            "tz": self.tz,
            "slot": f"{seconds}s",
            "column": said.column,
        }


def _finish(
    folder: Path,
    promise: Promise,
    held: Held,
    record: Any,
    group: Any,
    figures: dict[str, Any],
    attack: bool,
    events: object,
    asked: _Asked,
    reading: Mapping[str, Any],
) -> Anonymised:
    """Write the holder's own files, attack what was published, and write them again."""
    write_internal(folder, held.users, record, group, figures)
    if attack:
        from sfumato_lab.attacks.anonymised.run import attack_anonymised  # which knows these files

        try:
            found = attack_anonymised(
                events,
                release=folder,
                events_tz=reading["tz"],
                time_unit=reading["time_unit"],
                format=reading["format"],
                **asked.again(),
            )
            figures = figures | {"attacks": _plain(asdict(found))}
        except SfumatoError as error:  # too few people for a game: what was published stands
            figures = figures | {"attacks": {"none": str(error)}}
        write_internal(folder, held.users, record, group, figures)
    return Anonymised(folder, promise, read_manifest(folder), figures)


def _plain(value: Any) -> Any:
    """Numbers and texts of a result, as JSON has them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return round(value, 6) if np.isfinite(value) else None
    return value
