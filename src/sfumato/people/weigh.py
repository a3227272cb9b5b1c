"""`sfumato.weigh`: from the people in an operator's records to all people. Free.

Counts of a release are of the operator's customers. Market shares by area, or a census held against
the release's own nights, say how many people one customer stands for; the weights (`weights`), the
homes of those who are in a zone (`origins`) and the errors of all of it (`factors`) give a table of
people with intervals.

**What is estimated.** By a census: all people present. By shares: the people who would be seen,
were everybody a customer; of a release that counts visits the visits of all people, since someone
seen in two zones in a slot still counts twice. A census is about people and cannot be held against
visits, so that is refused.

**Privacy.** Released numbers and public tables are read, nothing else: post-processing. Claim, unit
and neighbours are those of the release; nothing is charged and no ledger is opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.io.write import not_there_yet, write_bytes
from sfumato.model.source import Progress
from sfumato.people.areas import PEOPLE, SHARE, Given, read_areas
from sfumato.people.factors import Weights, lasting_share, sampling, unseen, weighed, with_sampling
from sfumato.people.folder import (
    People,
    flag_words,
    publish,
    scheme_facts,
    source_facts,
    source_of,
)
from sfumato.people.origins import REACH_KM, zone_distances
from sfumato.people.weights import (
    AreaWeights,
    census_weights,
    share_weights,
    slot_weights_of,
)
from sfumato.published.manifest import MadeFrom, Manifest
from sfumato.published.release import Release

Table = NDArray[np.float64]
Vector = NDArray[np.float64]

NIGHT = "1-5"
"""Hours in which most people are at home, in made-up crowds and in surveys of time use."""
_PAIRS = 32
ESTIMATES = {
    "people": "all people who would be seen, were everybody a customer",
    "visits": "visits of all people",
}
"""What counts over market shares are."""
PRESENT = "all people present"
"""What a census makes of people: it makes up for phones that are not seen at night, too."""


def weigh(
    release: str | os.PathLike[str] | Release,
    *,
    out: str | os.PathLike[str],
    shares: Given | None = None,
    census: Given | None = None,
    night: str = NIGHT,
    reach: float = REACH_KM,
    column: Mapping[str, str] | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> Release:
    """Make a release of people from a release of an operator's customers; nothing is charged.

    Args:
        release: A density or a stream that is finished.
        out: Folder to make; it must not exist yet.
        shares: The operator's share of the people by where they live: a file or frame with a row
            for each area (area, share, perhaps sd), or one number. Areas are zones or districts
            of the release, or polygons of their own.
        census: Instead: how many people live where (area, people, perhaps sd), to be held against
            the release's nights.
        night: Hours in which people are at home, such as "1-5".
        reach: How far people go, in kilometres: a zone's weight is a mean over the homes of those
            who are there. 0 weighs people by where they are.
        column: Which column is what, where names do not tell: area, share, people, sd.
        name: Name of the result; default: that of the folder.
        progress: Told the stage and its share.

    Returns:
        The release of people; `how` is `weighed`.

    Raises:
        InputError: The release was altered or protects nobody; an area is not known; a number
            cannot be what it should; the release has no such night, or counts visits and a census
            is given.
        UsageError: Both or neither of shares and census are given, or `out` is taken.

    Example:
        >>> sfumato.weigh("releases/week-37", shares=0.31, out="people")  # doctest: +SKIP
    """
    tell = progress or (lambda *_: None)
    folder = not_there_yet(out)
    if (shares is None) == (census is None):
        raise UsageError(
            "Weights come from market shares or from a census.",
            remedy="Give `shares` or `census`, one of the two.",
        )
    check_reach(reach)
    found = source_of(release, "It cannot be weighed")
    counting = found.manifest.privacy.counting
    if census is not None and counting == "visits":
        raise InputError(
            "it counts visits, and a census counts people: someone seen in two zones at night "
            "would count twice.",
            file=str(found.folder),
            remedy="Make the release with `count=people`, or give `shares`, which make visits of "
            "all people of it.",
        )
    tell("weighing", -1.0)
    factors, at_night = found.posterior, night_of(found, night, needed=census is not None)
    stays = stays_of(found)
    pairs = _PAIRS if factors is None else factors.pairs
    if census is not None:
        assert at_night is not None
        areas = read_areas(census, found, PEOPLE, column)
        weights = census_weights(areas, found.values, at_night, factors, pairs, stays)
    else:
        areas = read_areas(shares, found, SHARE, column)
        weights = share_weights(areas, found.values, at_night, pairs, stays)
    estimates = ESTIMATES[counting] if census is None else PRESENT
    made = people_of(found, weights, at_night, reach, stays)
    old = found.manifest
    inputs = dict(old.public_inputs) | {
        "weighed_by": "shares" if census is None else "census",
        "night": night,
        "reach_km": float(reach),
    }

    def manifest(facts: dict[str, Any]) -> Manifest:
        called = {"name": folder.name if name is None else name}
        labels = [measured.label for measured in old.privacy.measurements]
        return old.model_copy(
            update=facts
            | {
                "kind": "density",
                "release": old.release.model_copy(update=called),
                "scheme": scheme_facts(old.scheme, made.factors),
                "public_inputs": inputs,
                "made_from": MadeFrom(
                    how="weigh",
                    estimates=estimates,
                    overlap=None,
                    sources=[source_facts(found, labels)],
                ),
                "caveats": [
                    *old.caveats,
                    *_notes(
                        old, estimates, at_night, census is not None, reach, factors is not None
                    ),
                    *flag_words(weights),
                    *_above(made.counts, weights, census is not None),
                ],
            }
        )

    def places(place: Path) -> None:
        kind = old.released.kind
        for file in (f"{kind}.geojson", f"{kind}.parquet"):
            if found.files.holds(file):
                write_bytes(place / file, found.files.read(file))

    tell("writing tables and page", -1.0)
    return publish(folder, made, {old.release.name: weights}, places, manifest, "weighed")


def check_reach(reach: float) -> None:
    """Refuse what is no distance."""
    if not (np.isfinite(reach) and reach >= 0):
        raise UsageError(
            "How far people go is a distance in kilometres.", remedy="Take `reach=2`, or 0."
        )


def night_of(release: Release, night: str, *, needed: bool) -> Vector | None:
    """1 for each slot of the night; `None` where there is none and none is needed.

    Raises:
        InputError: The release has no such slot.
        UsageError: The hours are not understood.
    """
    try:
        return release.select(hours=night).slots
    except (InputError, UsageError):
        if needed or night != NIGHT:
            raise
        return None  # slots too long to tell, or none of them at night


def slot_weights(
    release: Release, weights: AreaWeights, night: Vector | None, reach: float
) -> Weights:
    """Weights of zones in slots."""
    shapes = release.geometry
    known = shapes is not None and not shapely.is_missing(shapes).any()
    distances = zone_distances(shapes) if known and reach > 0 and shapes is not None else None
    return slot_weights_of(weights, release.values, night, release.grid, distances, reach)


def stays_of(release: Release) -> float:
    """The share of sampling errors that lasts, by how many people its makers expected."""
    return lasting_share(release.values, release.manifest.public_inputs.get("expected_users"))


def people_of(
    release: Release, weights: AreaWeights, night: Vector | None, reach: float, stays: float
) -> People:
    """The table of people, sampling and all."""
    by_slot = slot_weights(release, weights, night, reach)
    if release.posterior is None:
        counts = release.values * by_slot.values
        why = "the release that it was made from does not say how its errors are correlated"
        return People(release.ids, release.grid, counts, None, why)
    found = weighed(release.posterior, by_slot)
    _, chance = sampling(found.counts, [by_slot.values], [unseen(release.posterior)], [stays], 0.0)
    found = with_sampling(found, None, chance[0, 0])  # what lasts is in the weights
    return People(release.ids, release.grid, found.counts, found)


def _notes(
    old: Manifest, estimates: str, night: Vector | None, census: bool, reach: float, stated: bool
) -> list[str]:
    by = "a census held against its nights" if census else "market shares"
    lines = [
        f"These are estimates of {estimates}, made from the release "
        f"{old.release.name} ({old.release.id}) by {by}: nothing was measured and nothing charged."
    ]
    if old.privacy.counting == "visits":
        lines.append(
            "The release counts visits: someone in two zones in a slot counts twice, here as there."
        )
    if night is None or reach <= 0:
        lines.append(
            "People are weighed by the zone they are in, not by where they live, so zones with "
            "many visitors may be off by more than their interval."
        )
    else:
        lines.append(
            "Weights belong to where people live; who of those in a zone lives where is modelled "
            "from the nights of the release and distances."
        )
    if not stated:
        lines.append(
            "The release does not say how its errors are correlated, so no interval can be stated."
        )
    return lines


def _above(people: Table, weights: AreaWeights, census: bool) -> list[str]:
    """A census is of residents: what is far above it by day was not seen at night."""
    if not census:
        return []
    there = weights.areas.zones.any(axis=1)
    most = float(people.sum(axis=0).max() / weights.areas.values[there].sum())
    if most < 1.25:
        return []
    return [
        f"The busiest slot has {most:.1f} times the people of the census: visitors, or people "
        "whose phones are not seen at night. For records that phones leave only when used, take "
        "market shares instead of a census."
    ]
