"""What a question goes by: groups of slots or places, windows of time, and their names in words.

A group is a weight for every slot (or place); its average is the weighted mean. Hours and days are
those of the release's clock: where a clock is set back, both passes of an hour are in its group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.model.time_grid import MICROSECONDS, TimeGrid, step_text
from sfumato.published.selection import (
    DAYS,
    Hours,
    Moment,
    Polygon,
    Selection,
    Weekdays,
    Zones,
)

if TYPE_CHECKING:
    from sfumato.published.release import Release

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
TIMES = ("hour", "weekday", "day", "slot")
NO_POSTERIOR = "this release keeps no posterior; its numbers stand alone."
_VISITS = "A visit is a person in a place and slot: who is seen in two slots counts in both."
_PEOPLE = "People are counted in each slot: who is there in two slots counts in both."
BY = (*TIMES, "zone", "district")
"""What profiles and rankings go by."""


class Words(TypedDict, total=False):
    """The words of `Release.sum`, which every question has."""

    zones: Zones | None
    polygon: Polygon | None
    start: Moment | None
    end: Moment | None
    hours: Hours | None
    weekdays: Weekdays | None


class Groups(NamedTuple):
    """Groups of slots or of places; each has one number, its average of a slot."""

    keys: list[Any]
    places: Matrix
    """Weights of places, one row for all groups or one for each; so are those of slots."""
    slots: Matrix
    over: Vector
    """What the sum of each group is divided by."""

    def some(self, order: NDArray[np.intp]) -> tuple[Matrix, Matrix, Vector]:
        """The weights of some of them, in this order."""
        a, b = (one if one.shape[0] == 1 else one[order] for one in (self.places, self.slots))
        return a, b, self.over[order]


def selected(release: Release, words: Mapping[str, Any]) -> Selection:
    """The places and slots of some words.

    Raises:
        UsageError: A word is none of `sum`'s, or these are traces.
    """
    unknown = sorted(set(words) - set(Words.__annotations__))
    if unknown:
        known = ", ".join(f"`{word}`" for word in Words.__annotations__)
        raise UsageError(f"A question has no word {unknown[0]!r}.", remedy=f"Take {known}.")
    return release.select(**words)


def grouping(word: str) -> str:
    """What a profile or a ranking goes by; `hours` is as good as `hour`.

    Raises:
        UsageError: There is no such grouping.
    """
    by = word.strip().lower()
    by = by if by in BY else by.removesuffix("s")
    if by not in BY:
        raise UsageError(f"There is no grouping by {word!r}.", remedy=f"Take {', '.join(BY)}.")
    return by


def grouped(release: Release, asked: Selection, by: str) -> Groups:
    """The groups of what is asked about.

    Raises:
        InputError: The release has no districts.
    """
    if by in TIMES:
        keys, slots = _groups(slot_keys(release.grid, by), asked.slots)
        return Groups(keys, asked.places[None, :], slots, slots.sum(axis=1))
    names = release.ids.tolist() if by == "zone" else list(release.districts)
    if by == "district" and not any(names):
        raise InputError("This release has no districts.", remedy="Take zone instead.")
    keys, places = _groups(names, asked.places)
    return Groups(keys, places, asked.slots[None, :], np.full(len(keys), asked.slots.sum()))


def _groups(keys: Sequence[Any], weights: Vector) -> tuple[list[Any], Matrix]:
    """The keys of what has a weight, times in their order, and a row of weights for each."""
    index: dict[Any, int] = {}
    for key, weight in zip(keys, weights.tolist(), strict=True):
        if weight:
            index.setdefault(key, len(index))
    kept = list(index) if isinstance(keys[0], str) else sorted(index)
    row = {key: k for k, key in enumerate(kept)}
    found = np.zeros((len(kept), weights.size))
    for at, (key, weight) in enumerate(zip(keys, weights.tolist(), strict=True)):
        if weight:
            found[row[key], at] = weight
    return kept, found


def slot_keys(grid: TimeGrid, by: str) -> list[Any]:
    """What each slot is called in its group, by the release's clock."""
    starts = grid.starts()
    of: dict[str, Callable[[datetime], Any]] = {
        "hour": lambda time: (time.hour, 0 if grid.step <= timedelta(hours=1) else time.minute),
        "weekday": lambda time: time.weekday(),
        "day": lambda time: time.date(),
        "slot": lambda time: time,
    }
    return [of[by](time) for time in starts]


def windows(release: Release, asked: Selection, by: str, length: timedelta) -> Groups:
    """Every run of slots that lasts `length`; by hour those of all days together.

    Raises:
        UsageError: No run of the slots that are asked about lasts so long.
    """
    edges, wanted = release.grid.edges, asked.slots > 0
    lasts = round(length.total_seconds() * MICROSECONDS)
    after = np.searchsorted(edges, edges[:-1] + lasts)
    rows: dict[Any, Vector] = {}
    for k, (start, stop) in enumerate(zip(release.grid.starts(), after.tolist(), strict=True)):
        whole = stop < edges.size and edges[stop] - edges[k] == lasts
        if whole and wanted[k:stop].all():
            key = start if by == "slot" else (start.hour, start.minute)
            rows.setdefault(key, np.zeros(release.grid.slots))[k:stop] += asked.slots[k:stop]
    if not rows:
        raise UsageError(
            "No run of these slots lasts exactly so long.",
            remedy=f"Take a `window` that is a multiple of {step_text(release.grid.step)}, or more "
            "hours.",
        )
    slots = np.stack([*rows.values()])
    return Groups([*rows], asked.places[None, :], slots, slots.sum(axis=1))


def counting(release: Release) -> str:
    """What a number is a number of: visits, or people."""
    return release.manifest.privacy.counting


def described(release: Release, asked: Selection) -> str:
    """A selection in words."""
    slots, grid = np.flatnonzero(asked.slots), release.grid
    form = "%a %H:%M" if grid.fold else "%a %Y-%m-%d %H:%M"
    first, last = grid.starts()[slots[0]].strftime(form), grid.ends()[slots[-1]].strftime(form)
    typical = f" of a typical {grid.fold}" if grid.fold else ""
    some = f"{slots.size} of {grid.slots}" if slots.size < grid.slots else f"all {slots.size}"
    many = f"{some} slot{'' if grid.slots == 1 else 's'}"
    return (
        f"{counting(release)} in {places_words(release, asked)}, {many}{typical} between {first} "
        f"and {last} ({grid.tz})"
    )


def places_words(release: Release, asked: Selection) -> str:
    where = np.flatnonzero(asked.places)
    kind = release.manifest.released.kind
    partly = f", {asked.partly} of them partly" if asked.partly else ""
    if asked.polygons > 1:
        partly += f", in {asked.polygons} polygons together"
    if where.size == asked.places.size and not asked.partly:
        return (f"all {where.size} {kind}" if where.size > 1 else str(release.ids[0])) + partly
    if where.size <= 3:
        return f"{', '.join(release.ids[where].tolist())}{partly}"
    return f"{where.size} of {asked.places.size} {kind}{partly}"


def signed(release: Release) -> tuple[list[str], str]:
    """What readers must take note of, and whose numbers these are."""
    manifest, notes = release.manifest, []
    if manifest.tainted or manifest.scheme.as_published or not manifest.differential_privacy:
        notes.append("Not private: these numbers protect nobody.")
    if manifest.kind == "synthetic":
        made = manifest.public_inputs.get("people")
        notes.append(f"Made-up people are counted, {made} in all: nobody of them exists.")
    if not release.sealed:
        notes.append("Not sealed: no digest vouches for these numbers yet.")
    if release.posterior is None:
        said = manifest.posterior.why_not if manifest.posterior is not None else ""
        if manifest.posterior is not None and manifest.posterior.stated:
            said = "They come with the last slot."
        said = said or NO_POSTERIOR
        notes.append(f"No intervals of sums: {said[0].lower()}{said[1:]}")
    if manifest.privacy.counting == "visits":
        notes.append(_VISITS)
    elif manifest.privacy.counting == "people" and manifest.grid.slots > 1:
        notes.append(_PEOPLE)
    if manifest.grid.fold is not None:
        notes.append(manifest.grid.fold.words())
    return notes, f"{release.label}, {manifest.grid.days()}, unit {manifest.privacy.unit}"


def labelled(release: Release, by: str, key: Any) -> dict[str, Any]:
    """The columns that say which group a row is about."""
    if by == "zone":
        k = int(np.flatnonzero(release.ids == key)[0])
        name = release.names[k]
        return {"zone_id": key, **({} if name == key else {"name": name})}
    return {by: key if by == "slot" else name_of(release, by, key)}


def name_of(release: Release, by: str, key: Any) -> str:
    """A group's name in a sentence."""
    if by == "hour":
        return f"{key[0]:02d}:{key[1]:02d}"
    if by == "weekday":
        return DAYS[key].capitalize()
    if by == "slot":
        form = "%a %H:%M" if release.grid.fold else "%a %Y-%m-%d %H:%M"
        return str(key.strftime(form))
    if by == "zone":
        name = labelled(release, by, key).get("name")
        return str(key) if name is None else f"{key} ({name})"
    return str(key)
