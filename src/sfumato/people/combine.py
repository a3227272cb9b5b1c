"""`sfumato.combine`: releases of several operators of one city, put together. Free.

Every operator sees its own customers. With its market shares by area each release is an unbiased
estimate of all people (`weigh`); the mean of least variance of several is better than any of them.
Its weights come from three errors by zone: the release's own and the shares', which operators do
not have in common, and sampling, which they do: whoever is at one operator is missing at the others
unless people overlap (`factors.sampling`). Errors of the modelled homes are taken to be each
operator's own.

**Overlap** is the share of the smaller operator's people who are also at the other one, stated by
who combines; it is no result of the data.

**Privacy.** Unit and neighbours: those of the releases, over all operators at once. If people may
be at several operators (overlap above 0) the claims add: epsilon, delta and rho are sums. If nobody
is (overlap 0) a person's records are at one operator and the claim is the largest one's; that is
refused where one ledger has two of the releases under one data set or under linked ones. The
manifest lists every measurement with the release it belongs to, so that readers can compute the
claim again (`published.statement.together`). Nothing is measured or charged.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, UsageError
from sfumato.io.write import not_there_yet, write_bytes, write_places, write_places_parquet
from sfumato.io.zones import read_zones
from sfumato.model.places import Places
from sfumato.model.rounding import percent
from sfumato.model.source import Progress
from sfumato.people.areas import SHARE, Given, read_areas, release_shapes, shares_in
from sfumato.people.factors import (
    blend_of,
    brought_to,
    cell_variances,
    put_together,
    sampling,
    unseen,
    weighed,
    with_sampling,
)
from sfumato.people.folder import (
    People,
    check_apart,
    flag_words,
    publish,
    scheme_facts,
    source_facts,
    source_of,
)
from sfumato.people.origins import REACH_KM
from sfumato.people.weigh import ESTIMATES, NIGHT, check_reach, night_of, slot_weights, stays_of
from sfumato.people.weights import AreaWeights, check_overlap, share_weights
from sfumato.published.folder import TABLE
from sfumato.published.manifest import (
    ADDED,
    LARGEST,
    Cumulative,
    LedgerRow,
    MadeFrom,
    Manifest,
    PlacesFacts,
    Privacy,
    ReleaseFacts,
    Source,
    Spent,
)
from sfumato.published.posterior import Factors
from sfumato.published.release import Release
from sfumato.published.statement import Recomputed, together

Table = NDArray[np.float64]
Folder = str | os.PathLike[str] | Release


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One operator's estimate of all people, on the common zones."""

    release: Release
    weights: AreaWeights
    factors: Factors
    """Without sampling."""
    by_slot: Table
    """People for one person counted, common zones x slots."""
    hidden: Table
    """The share of chance that the release did not see, likewise."""


def combine(
    releases: Sequence[Folder],
    *,
    out: str | os.PathLike[str],
    shares: Sequence[Given],
    overlap: float,
    zones: object | None = None,
    zone_id: str | None = None,
    night: str = NIGHT,
    reach: float = REACH_KM,
    column: Mapping[str, str] | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> Release:
    """Put releases of several operators of one city together; nothing is charged.

    Args:
        releases: Of different operators, for the same time slots.
        out: Folder to make; it must not exist yet.
        shares: The market shares of each, in the same order: files or numbers, as in `weigh`.
        overlap: The share of the smaller operator's people who are at the other one, too: 0 to 1.
            At 0 the promise is the weaker one's; above it the operators' losses add up.
        zones: Common zones; default: those of the first release. Others are brought to them by
            their shares of area.
        zone_id: Column of the zones' ids.
        night: Hours in which people are at home, such as "1-5".
        reach: How far people go, in kilometres, as in `weigh`.
        column: Which column of the shares is what, where names do not tell: area, share, sd.
        name: Name of the result; default: that of the folder.
        progress: Told the stage and its share.

    Returns:
        The combined release; `how` is `combined`.

    Raises:
        InputError: A release was altered, protects nobody, has other slots, counts something else,
            states no errors, or has no zone in common with the others.
        UsageError: Fewer than two releases, not one share for each, an overlap that is none or
            is 0 where a ledger has both under one name, or `out` is taken.

    Example:
        >>> sfumato.combine(
        ...     ["red/week-37", "blue/week-37"], shares=["red.csv", 0.25], overlap=0.05,
        ...     out="city/week-37",
        ... )  # doctest: +SKIP
    """
    tell = progress or (lambda *_: None)
    folder = not_there_yet(out)
    given, parts = list(releases), list(shares)
    if len(given) < 2:
        raise UsageError("One release is not combined.", remedy="Give those of two operators.")
    if len(parts) != len(given):
        raise UsageError(
            f"{len(given)} releases have {len(parts)} market shares.",
            remedy="Give `shares` once for each release, in the same order.",
        )
    if not 0 <= overlap <= 1:
        raise UsageError(
            "The overlap of people is a share.", remedy="Take `overlap=0.05` for 5 percent."
        )
    check_reach(reach)
    found = [source_of(one, "It cannot be combined") for one in given]
    _check_alike(found)
    if overlap == 0:
        check_apart(found)
    common = None if zones is None else read_zones(zones, zone_id)
    operators: list[Operator] = []
    for release, share in zip(found, parts, strict=True):
        tell("weighing", len(operators) / len(found))
        operators.append(_operator(release, share, found[0], common, night, reach, column))
    check_overlap(
        [one.by_slot for one in operators], [one.factors.counts for one in operators], overlap
    )
    people, blend = combined(
        [one.factors for one in operators],
        [one.by_slot for one in operators],
        [one.hidden for one in operators],
        [stays_of(one.release) for one in operators],
        overlap,
    )
    ids = found[0].ids if common is None else common.ids
    made = People(ids, found[0].grid, people.counts, people)
    names = _names(found)

    def manifest(facts: dict[str, Any]) -> Manifest:
        called = folder.name if name is None else name
        return _manifest(operators, names, common, overlap, blend, people, called, facts)

    def places(place: Path) -> None:
        if common is not None:
            write_places(place / "zones.geojson", common)
            write_places_parquet(place / "zones.parquet", common)
            return
        kind = found[0].manifest.released.kind
        for file in (f"{kind}.geojson", f"{kind}.parquet"):
            if found[0].files.holds(file):
                write_bytes(place / file, found[0].files.read(file))

    tell("writing tables and page", -1.0)
    weights = {key: one.weights for key, one in zip(names, operators, strict=True)}
    return publish(folder, made, weights, places, manifest, "combined")


def combined(
    parts: Sequence[Factors],
    weights: Sequence[Table],
    hidden: Sequence[Table],
    stays: Sequence[float],
    overlap: float,
) -> tuple[Factors, Table]:
    """The mean of least variance of several estimates of people, and what each counts in it.

    Args:
        parts: Estimates on the same zones and slots, without sampling errors.
        weights: People for one person counted, zones x slots, of each.
        hidden: The share of chance that was not seen (`factors.unseen`), likewise.
        stays: The share of sampling errors that lasts (`factors.lasting_share`), of each.
        overlap: The share of the smaller one's people who are at the other, too.
    """
    first: Table = np.mean([part.counts for part in parts], axis=0)
    lasting, chance = sampling(np.maximum(first, 0.0), weights, hidden, stays, overlap)
    own = np.stack([cell_variances(part).mean(axis=1) for part in parts])
    blend = blend_of(np.maximum(own, 1e-9), (lasting + chance).mean(axis=-1))
    found = put_together(parts, blend)
    mixed = (np.einsum("iz,jz,ijzs->zs", blend, blend, part) for part in (lasting, chance))
    return with_sampling(found, *mixed), blend


def _operator(
    release: Release,
    share: Given,
    first: Release,
    common: Places | None,
    night: str,
    reach: float,
    column: Mapping[str, str] | None,
) -> Operator:
    """A release weighed by its shares and brought to the common zones."""
    factors = release.posterior
    assert factors is not None
    at_night = night_of(release, night, needed=False)
    areas = read_areas(share, release, SHARE, column)
    weights = share_weights(areas, release.values, at_night, factors.pairs, stays_of(release))
    alone = replace(weights, lasts=np.zeros_like(weights.lasts))  # sampling is joint: `combined`
    by_slot = slot_weights(release, alone, at_night, reach)
    made = weighed(factors, by_slot, key=int(release.manifest.files[TABLE][:8], 16))
    to = _shares_to(release, first, common)
    if to is None:
        return Operator(release, weights, made, by_slot.values, unseen(factors))
    moved = brought_to(made, to)
    # One person counted there stands for as many as the weights of its parts in the mean.
    customers = np.maximum(to @ factors.counts, 1e-9)
    hidden = (to @ (factors.counts * unseen(factors))) / customers
    return Operator(release, weights, moved, np.maximum(moved.counts / customers, 1.0), hidden)


def _shares_to(release: Release, first: Release, common: Places | None) -> Table | None:
    """Common zones x zones: where a zone's people go by area; `None` where it is one already."""
    if common is None and release.manifest.released == first.manifest.released:
        return None
    shapes = release_shapes(first) if common is None else common.geometry
    found = shares_in(release_shapes(release), shapes)
    if not found.any():
        raise InputError(
            "none of its zones has anything in common with the others'.",
            file=str(release.folder),
            remedy="Combine releases of one city, or give common `zones`.",
        )
    return found


def _check_alike(found: Sequence[Release]) -> None:
    """Refuse releases that do not count the same thing in the same slots for the same unit."""
    first = found[0]
    seen: set[str] = set()
    for one in found:
        facts, privacy = one.manifest.grid, one.manifest.privacy
        path = str(one.folder)
        if one.manifest.release.id in seen:
            raise UsageError(f"{path} is given twice.", remedy="Give each release once.")
        seen.add(one.manifest.release.id)
        if facts.sha256 != first.manifest.grid.sha256 or facts.fold != first.manifest.grid.fold:
            raise InputError(
                f"its time slots are others ({_slots(one)}) than those of {first.folder} "
                f"({_slots(first)}), and a person counts once in a slot, so slots cannot be cut or "
                "added up.",
                file=path,
                remedy="Release both with the same `start`, `end`, `slot`, `tz` and `fold`.",
            )
        if privacy.counting != first.manifest.privacy.counting:
            raise InputError(
                f"it counts {privacy.counting}, and {first.folder} counts "
                f"{first.manifest.privacy.counting}.",
                file=path,
                remedy="Release both with the same `count`.",
            )
        if privacy.unit != first.manifest.privacy.unit:
            raise InputError(
                f"it protects {privacy.unit}, and {first.folder} {first.manifest.privacy.unit}: "
                "the two promises have no common unit.",
                file=path,
                remedy="Release both with the same `unit`.",
            )
        if one.posterior is None:
            raise InputError(
                "it does not state how its errors are correlated, so it cannot be weighed against "
                "another.",
                file=path,
                remedy="Take a release of a scheme that does, such as bayes.",
            )


def _slots(release: Release) -> str:
    grid = release.manifest.grid
    return f"{grid.slots} of {grid.step_seconds / 3600:g} h, {grid.days()}"


def _names(found: Sequence[Release]) -> list[str]:
    """What the operators are called: the names of data sets, numbered where two are alike."""
    names = [one.manifest.release.dataset for one in found]
    if len(set(names)) < len(names):
        names = [f"{name} {k}" for k, name in enumerate(names, start=1)]
    return names


def _manifest(
    operators: Sequence[Operator],
    names: Sequence[str],
    common: Places | None,
    overlap: float,
    blend: Table,
    people: Factors,
    called: str,
    facts: dict[str, Any],
) -> Manifest:
    releases = [one.release for one in operators]
    first = releases[0].manifest
    method = ADDED if overlap > 0 else LARGEST
    privacy, sources = _claim(releases, names, method)
    text = "\n".join(sorted(source.manifest for source in sources))
    digest = hashlib.sha256(f"combine/1\n{overlap!r}\n{text}".encode()).hexdigest()
    counting = first.privacy.counting
    released = first.released
    if common is not None:
        released = PlacesFacts(kind="zones", count=len(common), sha256=common.fingerprint())
    caveats = [f"{key}: {line}" for key, one in zip(names, releases, strict=True)
               for line in one.manifest.caveats]  # fmt: skip
    for key, one in zip(names, operators, strict=True):
        caveats += [f"{key}: {line}" for line in flag_words(one.weights)]
    counts = ", ".join(
        f"{key} {percent(part.mean())}" for key, part in zip(names, blend, strict=True)
    )
    return first.model_copy(
        update={
            "kind": "density",
            "tainted": False,
            "release": ReleaseFacts(
                id=f"combined-{digest[:12]}",
                name=called,
                dataset=" + ".join(names),
                reserved_at=max(one.manifest.release.reserved_at for one in releases),
            ),
            "privacy": privacy,
            "counted": released,
            "released": released,
            "scheme": scheme_facts(
                first.scheme.model_copy(update={"name": "combine", "parameters": {}}), people
            ),
            "public_inputs": {"overlap": float(overlap)},
            "fitness": None,
            "made_from": MadeFrom(
                how="combine", estimates=ESTIMATES[counting], overlap=overlap, sources=sources
            ),
            "ledger": _rows(releases),
            "caveats": [
                f"These are estimates of {ESTIMATES[counting]}, put together from releases of "
                f"{len(releases)} operators by their market shares and an overlap of "
                f"{percent(overlap)} of the smaller one's people, as stated. Over all "
                f"zones they count {counts}.",
                *caveats,
            ],
            **facts,
        }
    )


def _claim(
    releases: Sequence[Release], names: Sequence[str], method: str
) -> tuple[Privacy, list[Source]]:
    """What all releases promise together, and each one's own part of the list."""
    measurements, sources, losses, lifetimes, worst = [], [], [], [], []
    for key, one in zip(names, releases, strict=True):
        own = one.manifest.privacy
        renamed = [
            each.model_copy(update={"label": f"{key}: {each.label}"}) for each in own.measurements
        ]
        measurements += renamed
        sources.append(source_facts(one, [each.label for each in renamed]))
        losses.append(Recomputed(own.rho, own.epsilon))
        lifetimes.append(own.cumulative.lifetime)
        worst.append(own.cumulative.worst_period)
    first = releases[0].manifest.privacy
    found, delta = together(losses, [one.manifest.privacy.delta for one in releases], method)
    cumulative = Cumulative(
        datasets=sorted({d for one in releases for d in one.manifest.privacy.cumulative.datasets}),
        releases=None,
        lifetime=_spent(lifetimes, method),
        worst_period=_spent(worst, method),
        worst_period_is=None,
        caps=[
            f"{key}: {cap}"
            for key, one in zip(names, releases, strict=True)
            for cap in one.manifest.privacy.cumulative.caps
        ],
        by_rules=sum(one.manifest.privacy.cumulative.by_rules for one in releases),
    )
    made = Privacy(
        unit=first.unit,
        neighbours=first.neighbours,
        bound=" ".join(
            f"{key}: {one.manifest.privacy.bound}" for key, one in zip(names, releases, strict=True)
        ),
        counting=first.counting,
        measurements=measurements,
        rho=found.rho,
        epsilon=found.epsilon,
        delta=delta,
        method=method,
        cumulative=cumulative,
    )
    return made, sources


def _spent(parts: Sequence[Spent], method: str) -> Spent:
    losses = [Recomputed(part.rho, part.epsilon) for part in parts]
    found, delta = together(losses, [part.delta for part in parts], method)
    return Spent(
        releases=sum(part.releases for part in parts),
        rho=found.rho,
        epsilon=found.epsilon,
        delta=delta,
        method=method,
    )


def _rows(releases: Sequence[Release]) -> LedgerRow:
    """Names all ledgers at once; the row of each stands with its source."""
    rows = [one.manifest.ledger for one in releases]
    return LedgerRow(id=" + ".join(dict.fromkeys(one.id for one in rows)), row=rows[-1].row)
