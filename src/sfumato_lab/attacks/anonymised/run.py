"""`sfumato attack anonymised`: what breaks anonymised releases, on the holder's own people.

The records themselves come first, under pseudonyms: how many points single a person out, and the
most visited places. Then tables, exact and suppressed, with what their sums give away. Then every
folder that is given, by `anonymise` or by `release`: what its groups have in common, whom more
knowledge than it was made for leaves, what two of them leave together, and the one question put to
all of them. Recovery of trajectories from tables is `sfumato attack recovery`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from sfumato.attacks.traces.reidentify import Unicity, top_places, unicity
from sfumato.errors import InputError, UsageError
from sfumato.geography.places import OpenedPlaces, PlaceOptions
from sfumato.io.foreign import contents, document
from sfumato.model.source import Progress
from sfumato.model.time_grid import TimeGrid, period_of
from sfumato.published.manifest import MANIFEST_NAME
from sfumato.published.release import as_release, of_records
from sfumato_lab.attacks.anonymised.groups import (
    Homogeneity,
    Left,
    Shown,
    as_floats,
    derived,
    homogeneity,
    left_after,
    shown_by_leaving,
)
from sfumato_lab.attacks.anonymised.records import (
    Narrowed,
    Records,
    density_of_items,
    from_items,
    narrowed,
)
from sfumato_lab.attacks.anonymised.visited import (
    KNOWN,
    TARGETS,
    Advantage,
    Floats,
    Ints,
    Questions,
    Visited,
    advantage,
    allowed,
    density_of_paths,
    draw_questions,
    from_table,
    from_traces,
)
from sfumato_lab.syntactic.people import Held, plane_of, read_people
from sfumato_lab.syntactic.published import (
    KEY,
    Counts,
    Items,
    Paths,
    Published,
    read_anonymised,
)

EXACT = "exact counts"
EVERYBODY, POINTS = "knows all others", "knows {} points"
POINTS_OF_CURVE = (1, 2, 3, 4, 5, 6)
TOP = (1, 2, 3)
COARSER: Mapping[str, tuple[int, int]] = {
    "as recorded": (1, 1),
    "6 slots together": (1, 6),
    "4 places together": (4, 1),
    "4 places and 6 slots": (4, 6),
}
"""Resolutions of the curve: neighbouring places to one, and slots to one."""
BEYOND = 3
"""Points beyond m that are tried on a release that promises k^m."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The question put to one release by one adversary."""

    release: str
    adversary: str
    found: Advantage
    allowed: float | None = None
    """The most that a promise allows, where there is one."""


@dataclass(frozen=True, slots=True)
class Tabled:
    """A suppressed table with and without its sums, and beside the one before."""

    release: str
    k: int
    hidden: float
    """Share of counts that are left out."""
    exact: float
    """Share of those that follow from published sums."""
    narrower: float
    leaving: Shown


@dataclass(frozen=True, slots=True, eq=False)
class AnonymisedAttacked:
    """What adversaries made of releases. INTERNAL: it was measured against the truth."""

    people: int
    places: int
    slots: int
    unicity: Mapping[str, tuple[Unicity, ...]]
    top: Mapping[int, float]
    """Share of people whose N most visited places are theirs alone."""
    tables: tuple[Tabled, ...]
    groups: Mapping[str, Homogeneity]
    narrowed: Mapping[str, tuple[Narrowed, ...]]
    left: Mapping[str, Left]
    answered: tuple[Answered, ...]

    def __repr__(self) -> str:
        size = f"{self.people:,} people, {self.slots} slots, {self.places:,} places"
        return f"<AnonymisedAttacked, INTERNAL: {size}>"


def attack_anonymised(
    events: object,
    *,
    start: date | str,
    end: date | str,
    tz: str,
    slot: str = "1h",
    release: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    towers: object = None,
    zones: object = None,
    grid: str | None = None,
    region: object = None,
    zone_id: str | None = None,
    zone_name: str | None = None,
    layer: str | None = None,
    repair_zones: bool = False,
    drop_bad_towers: bool = False,
    k: int = 5,
    points: int = KNOWN,
    targets: int = TARGETS,
    column: Mapping[str, str] | None = None,
    format: str | None = None,
    time_unit: str | None = None,
    events_tz: str | None = None,
    seed: int = 1,
    progress: Progress | None = None,
) -> AnonymisedAttacked:
    """Attack suppressed tables and anonymised records, private releases beside them. INTERNAL.

    Args:
        events: The holder's records.
        start: First day, as for the releases.
        end: First day that is no longer part of it.
        tz: Time zone of days and slots.
        slot: Length of a slot.
        release: Folders of `sfumato anonymise`, and of `sfumato release` to stand beside them.
        towers: Antennas, as for the releases.
        zones: Zones, as for the releases.
        grid: Cells instead of zones.
        region: What the grid covers.
        zone_id: Column of the zones' ids.
        zone_name: Column of the zones' names.
        layer: Layer of the zones' or the region's file.
        repair_zones: Make crossing outlines valid.
        drop_bad_towers: Leave out towers without a usable position.
        k: Tables are also attacked with counts below it left out.
        points: Of a target, that the adversary knows.
        targets: People that are asked about.
        column: Which column is what: `{"user": "imsi", "time": "ts"}`.
        format: Format of the events, where names do not tell.
        time_unit: Unit of epoch numbers: s, ms, us or ns.
        events_tz: Clock of event times that carry no offset; default: `tz`.
        seed: The same seed gives the same result.
        progress: Told the stage and its share.

    Returns:
        Figures of every attack, for the holder's eyes only.

    Raises:
        UsageError: The releases are not about these places and slots, or the numbers make no game.
        InputError: A file cannot be read, or is not as it was published.

    Example:
        >>> found = attack_anonymised(                                     # doctest: +SKIP
        ...     "events.parquet", towers="towers.csv", release="anonymised/week-37",
        ...     start="2007-09-10", end="2007-09-17", tz="Europe/Paris",
        ... )
    """
    if not 2 <= k <= 10**9 or points < 1 or targets < 20:
        raise UsageError("`k` is 2 to a billion, `points` at least 1, and `targets` at least 20.")
    tell: Progress = progress or (lambda *_: None)
    slots = period_of(start, end, slot, tz)
    said = PlaceOptions(
        *(towers, zones, grid, region, zone_id, zone_name, layer, repair_zones, drop_bad_towers),
        column=column,
    )
    opened = said.open(period=slots, tz=tz)
    tell("reading events", -1.0)
    held = read_people(
        events,
        opened.counted,
        slots,
        columns=column,
        tz=events_tz or tz,
        time_unit=time_unit,
        format=format,
        progress=progress,
    )
    truth = visited(held, opened, slots)
    asked = draw_questions(truth, targets, known=points, seed=seed)
    tell("points that single people out", -1.0)
    _, centres = plane_of(opened.released)
    tables, answered = suppressed_tables(truth, asked, k, seed)
    groups: dict[str, Homogeneity] = {}
    knowledge: dict[str, tuple[Narrowed, ...]] = {}
    keys: dict[str, Ints] = {}
    folders = [release] if isinstance(release, str | os.PathLike) else release
    for one in folders:
        label = Path(one).name
        tell(label, -1.0)
        if not _anonymised(one):
            answered += _private(one, label, truth, asked, opened, slots)
            continue
        published = read_anonymised(one)
        _same_places(published, opened, slots)
        answered += _put(published, label, truth, asked, centres, opened, points)
        parameters = published.manifest["parameters"]
        if isinstance(published.table, Counts):
            least = int(parameters.get("k", k))
            off = {"nearest": 2, "random": 1}.get(str(parameters.get("rounding")))
            rounded = 0 if off is None else (int(parameters["base"]) - (off == 1)) // off
            others = bool(parameters.get("secondary"))
            found = _tabled(label, published.table, truth, least, seed, rounded, others)
            tables.append(found)
        if isinstance(published.table, Items):
            m = int(parameters.get("m", 2))
            knowledge[label] = knowing(published.table, truth, int(parameters.get("k", k)), m, seed)
        group = _groups(published, held)
        if group is not None and (group >= 0).any():
            groups[label] = homogeneity(group, truth)
            keys[label] = group
    left = {f"{a} and {b}": left_after(keys[a], keys[b], k=k) for a, b in combinations(keys, 2)}
    return AnonymisedAttacked(
        truth.people,
        truth.places,
        truth.slots,
        unicity_curves(truth, centres, targets, seed),
        {n: top_places(truth.user, truth.place, n).share_below(2) for n in TOP},
        tuple(tables),
        groups,
        knowledge,
        left,
        tuple(answered),
    )


def visited(held: Held, opened: OpenedPlaces, slots: TimeGrid) -> Visited:
    """The people's visits at the released places; a tower is in the zone with most of its cell."""
    place = held.place.astype(np.int64)
    if opened.shares is not None:
        shares = opened.shares.shares.tocsr()
        place = np.asarray(shares.argmax(axis=1)).ravel().astype(np.int64)[place]
    rows = np.unique(np.column_stack((held.person, held.slot, place)), axis=0)
    starts = np.searchsorted(rows[:, 0], np.arange(len(held) + 1)).astype(np.int64)
    places = len(opened.released)
    return Visited(starts, rows[:, 1] * places + rows[:, 2], places, slots.slots)


def unicity_curves(
    truth: Visited, centres: Floats, targets: int, seed: int
) -> dict[str, tuple[Unicity, ...]]:
    """Share of people whom so many random points of theirs single out, at each resolution."""
    found = {}
    for name, (places, slots) in COARSER.items():
        held = truth.coarser(neighbours(centres, places), slots)
        found[name] = tuple(
            unicity(held.user, held.pairs, p, trials=targets, seed=seed) for p in POINTS_OF_CURVE
        )
    return found


def neighbours(centres: Floats, many: int) -> Ints:
    """The number of the larger place of each: about `many` to one, along a tree of halves."""
    label = np.zeros(len(centres), np.int64)
    if many == 1:
        return np.arange(len(centres))
    todo, number = [np.arange(len(centres))], 0
    while todo:
        part = todo.pop()
        if part.size < 2 * many:
            label[part] = number
            number += 1
            continue
        axis = int(np.argmax(np.ptp(centres[part], axis=0)))
        order = part[np.argsort(centres[part, axis], kind="stable")]
        todo += [order[: part.size // 2], order[part.size // 2 :]]
    return label


def suppressed_tables(
    truth: Visited, asked: Questions, k: int, seed: int
) -> tuple[list[Tabled], list[Answered]]:
    """The exact table, and the one with counts below k left out and sums beside it."""
    counts = truth.counts()
    hidden = np.where(counts < k, -1, counts)
    label = f"suppressed below {k}"
    table = Counts(hidden, counts.sum(axis=1), counts.sum(axis=0), int(counts.sum()))
    answered = [
        Answered(name, EVERYBODY, advantage(from_table(values, truth, asked, least=least), asked))
        for name, values, least in (
            (EXACT, counts.astype(np.float64), None),
            (label, as_floats(hidden), k),
        )
    ]
    return [_tabled(f"{label}, with sums", table, truth, k, seed)], answered


def _tabled(
    label: str,
    table: Counts,
    truth: Visited,
    k: int,
    seed: int,
    rounded: int = 0,
    others: bool = False,
) -> Tabled:
    found = derived(
        table.people,
        k,
        of_place=table.of_place,
        of_slot=table.of_slot,
        rounded=rounded,
        others=others,
    )
    leaving = shown_by_leaving(truth, k, seed=seed)
    return Tabled(label, k, float(found.hidden.mean()), found.exact, found.narrower, leaving)


def knowing(held: Records, truth: Visited, k: int, m: int, seed: int) -> tuple[Narrowed, ...]:
    """Up to a few points more than m, and how often somebody was at m places."""
    plain = [narrowed(held, truth, k, points=p, seed=seed) for p in range(1, m + BEYOND + 1)]
    return (*plain, narrowed(held, truth, k, points=m, often=True, seed=seed))


def _put(
    published: Published,
    label: str,
    truth: Visited,
    asked: Questions,
    centres: Floats,
    opened: OpenedPlaces,
    points: int,
) -> list[Answered]:
    """The question, by whoever can read the release."""
    table, least = published.table, None
    found = []
    if isinstance(table, Counts):
        values = as_floats(table.people)
        least = int(published.manifest["parameters"].get("k", 0)) or None
    elif isinstance(table, Paths):
        plane, _ = plane_of(opened.released)
        at = np.stack((table.lon, table.lat), axis=-1)
        metres = plane.to_metres(at.reshape(-1, 2)).reshape(at.shape).astype(np.float32)
        values = density_of_paths(metres, centres)
        found.append((POINTS.format(points), from_traces(metres, centres, asked)))
    else:
        values = density_of_items(table, truth.places, truth.slots)
        found.append((POINTS.format(points), from_items(table, truth.places, asked)))
    found.append((EVERYBODY, from_table(values, truth, asked, least=least)))
    return [Answered(label, who, advantage(scores, asked)) for who, scores in found]


def _anonymised(folder: str | os.PathLike[str]) -> bool:
    try:
        about = document(contents(Path(folder) / MANIFEST_NAME))
        return bool(about.get("kind") == "anonymised")
    except (OSError, ValueError, AttributeError):
        return False


def _private(
    folder: str | os.PathLike[str],
    label: str,
    truth: Visited,
    asked: Questions,
    opened: OpenedPlaces,
    slots: TimeGrid,
) -> list[Answered]:
    """A release through the wall: the same question, beside what its promise allows."""
    found = of_records(as_release(folder))
    if not (
        np.array_equal(found.ids, opened.released.ids)
        and np.array_equal(found.grid.edges, slots.edges)
    ):
        raise _elsewhere(label)
    privacy = found.manifest.privacy
    most = allowed(privacy.epsilon, privacy.delta) if privacy.unit == "user-period" else None
    scores = from_table(np.asarray(found.values, np.float64), truth, asked)
    return [Answered(label, EVERYBODY, advantage(scores, asked), most)]


def _same_places(published: Published, opened: OpenedPlaces, slots: TimeGrid) -> None:
    about, when = published.manifest["places"], published.manifest["grid"]
    same = about["sha256"] == opened.released.fingerprint() and when["slots"] == slots.slots
    if not same:
        raise _elsewhere(published.folder.name)


def _elsewhere(label: str) -> UsageError:
    return UsageError(
        f"{label} is not about these places and slots.",
        remedy="Give the places and the period that it was made with.",
    )


def _groups(published: Published, held: Held) -> Ints | None:
    """The group of every person, from the holder's own key beside the folder; none without it."""
    path = published.internal / KEY
    if not path.is_file():
        return None
    key = pq.read_table(path)
    of = dict(zip(key["user"].to_pylist(), key["group"].to_pylist(), strict=True))
    try:
        users = held.users.to_pylist()
    except AttributeError:
        raise InputError("the people of these events have no ids.") from None
    return np.array([of.get(user, -1) for user in users], np.int64)
