"""A release folder of people: made from finished releases, with their privacy statement.

It is a folder like any other: table, outlines, posterior, page, README, manifest; the one reader
reads it. Nothing was measured and nothing was charged: the manifest lists the releases it was made
from, and its claim is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.density.common import DECIMALS
from sfumato.density.folder import seal
from sfumato.density.reanalysis import manifest_digest
from sfumato.errors import UsageError
from sfumato.io.write import write_arrays, write_csv, write_folder, write_parquet
from sfumato.model.rounding import number_of
from sfumato.model.time_grid import TimeGrid
from sfumato.people.factors import cell_quantiles
from sfumato.people.weights import AreaWeights
from sfumato.published.about import csv_name
from sfumato.published.folder import TABLE
from sfumato.published.manifest import (
    MANIFEST_NAME,
    Manifest,
    PosteriorFacts,
    SchemeFacts,
    Source,
    TotalFacts,
    read_manifest,
)
from sfumato.published.posterior import POSTERIOR, Factors, packed, unpacked
from sfumato.published.release import Release, as_release, vouched
from sfumato.published.tables import long_table, with_local_times

Table = NDArray[np.float64]

WEIGHTS = "weights.csv"
_ENDS = 1.6448536269514722
"""Of a 90 % interval, in standard deviations."""


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """A table of people, and its posterior where the release had one."""

    ids: NDArray[np.str_]
    grid: TimeGrid
    counts: Table
    factors: Factors | None
    why_not: str = ""
    """Why sums have no interval, where they have none."""


def source_of(release: Any, what: str) -> Release:
    """A release that people can be computed from.

    Raises:
        InputError: It was altered, is unsealed, or protects nobody.
        UsageError: It holds traces or made-up people, or counts people already.
    """
    found = vouched(as_release(release), what)
    if found.kind == "traces":
        raise UsageError(
            f"{found.folder} holds traces, not counts by place and time slot.",
            remedy="Give a density or a stream.",
        )
    if found.kind == "synthetic":  # as many as were asked for, which is no number of customers
        raise UsageError(
            f"{found.folder} counts made-up people, as many as were asked for.",
            remedy="Give a density or a stream.",
        )
    if found.manifest.made_from is not None:
        raise UsageError(
            f"{found.folder} counts people already: it was made by {found.manifest.made_from.how}.",
            remedy="Give the release that it was made from.",
        )
    return found


def check_apart(found: Sequence[Release]) -> None:
    """Refuse to take releases for those of different people where their ledger knows better.

    Raises:
        UsageError: One ledger has two of them under one data set, or under linked ones.
    """
    seen: dict[tuple[str, str], Release] = {}
    for one in found:
        manifest = one.manifest
        about = {manifest.release.dataset, *manifest.privacy.cumulative.datasets}
        whose = [(manifest.ledger.id, dataset) for dataset in sorted(about)]
        for key in whose:
            if key in seen:
                raise UsageError(
                    f"{seen[key].folder} and {one.folder} are about the same people: their ledger "
                    f"has both under {key[1]!r}, so the overlap is not 0.",
                    remedy="State the `overlap` as it is: 1 for two releases of one data set.",
                )
        seen |= dict.fromkeys(whose, one)


def source_facts(release: Release, measurements: Sequence[str]) -> Source:
    """What the manifest says of a release that it was made from."""
    found, privacy = release.manifest, release.manifest.privacy
    return Source(
        id=found.release.id,
        name=found.release.name,
        dataset=found.release.dataset,
        manifest=manifest_digest(release),
        scheme=found.scheme.name,
        unit=privacy.unit,
        rho=privacy.rho,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        method=privacy.method,
        ledger=found.ledger,
        measurements=list(measurements),
    )


def weight_table(found: Mapping[str, AreaWeights]) -> pa.Table:
    """A row for each operator and area: people or share, counted, weight, its interval, flags."""
    rows: dict[str, list[Any]] = {
        name: []
        for name in ("release", "area", "given", "counted", "weight", "lower", "upper", "flags")
    }
    for name, weights in found.items():
        spread = np.exp(_ENDS * weights.sd)
        areas = weights.areas
        rows["release"] += [name] * areas.ids.size
        rows["area"] += areas.ids.tolist()
        rows["given"] += areas.values.tolist()
        rows["counted"] += np.round(weights.night, DECIMALS).tolist()
        rows["weight"] += np.round(weights.values, 4).tolist()
        stated = weights.known
        rows["lower"] += (
            np.round(weights.values / spread, 4).tolist() if stated else [None] * len(spread)
        )
        rows["upper"] += (
            np.round(weights.values * spread, 4).tolist() if stated else [None] * len(spread)
        )
        rows["flags"] += ["; ".join(flags) for flags in weights.flags]
    return pa.table(rows)


def flag_words(found: AreaWeights) -> list[str]:
    """Caveats on weights: how many areas to distrust, and zones that none covers."""
    flagged: dict[str, list[str]] = {}
    for area, flags in zip(found.areas.ids.tolist(), found.flags, strict=True):
        for flag in flags:
            flagged.setdefault(flag, []).append(area)
    lines = [
        f"Weights to distrust ({flag}): {_some(areas)}; see {WEIGHTS}."
        for flag, areas in flagged.items()
    ]
    outside = int((found.areas.covered < 0.5).sum())
    if outside:
        lines.append(
            f"Mostly outside all areas of the table: {number_of(outside, 'zones')}; what is "
            "missing there has the weight of the whole city."
        )
    return lines


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def publish(
    folder: Path,
    people: People,
    weights: Mapping[str, AreaWeights],
    places: Callable[[Path], None],
    manifest: Callable[[dict[str, Any]], Manifest],
    how: str,
) -> Release:
    """All files of the folder, which is there when all of them are.

    Args:
        folder: To make.
        people: The table.
        weights: Of each release.
        places: Writes the outlines of the places into a folder.
        manifest: Made from what this adds: files, total, posterior, software.
        how: What the release that is returned says of itself.
    """
    values = np.round(people.counts, DECIMALS) + 0.0
    with write_folder(folder) as place:
        layers: dict[str, Table] = {}
        # Who publishes people is not who published the release: nothing is said of it.
        facts: dict[str, Any] = {
            "about": None,
            "software": {"sfumato": version("sfumato")},
            "total": None,
        }
        facts["posterior"] = PosteriorFacts(
            stated=people.factors is not None, why_not=people.why_not
        )
        if people.factors is not None:
            kept = _arrays(people.factors)
            write_arrays(place / POSTERIOR, kept)
            stored = unpacked(kept, values)
            side = stored.coverage / 2
            made = cell_quantiles(stored, 0.5, 0.5 - side, 0.5 + side)
            layers = {
                name: np.round(layer, DECIMALS) + 0.0
                for name, layer in zip(("median", "lower", "upper"), made, strict=True)
            }
            whole = stored.estimate(np.ones(values.shape[0]), np.ones(values.shape[1]))
            low, high = np.round(whole.ends, DECIMALS).tolist()
            facts["total"] = TotalFacts(
                value=round(whole.value, DECIMALS), lower=low, upper=high, coverage=stored.coverage
            )
        table = long_table(people.ids, people.grid, values, **layers)
        write_parquet(place / TABLE, table)
        csv = csv_name("auto", people.ids.size, people.grid.slots)
        if csv is not None:
            write_csv(place / csv, with_local_times(table, people.grid))
        write_csv(place / WEIGHTS, weight_table(weights))
        places(place)
        seal(place, lambda files: manifest(facts | {"files": dict(files)}))
    return Release(folder, read_manifest(folder / MANIFEST_NAME), how)


def scheme_facts(scheme: SchemeFacts, factors: Factors | None) -> SchemeFacts:
    """The scheme, with the interval and the median that the new table has."""
    stated = {"interval_coverage": 0.0 if factors is None else factors.coverage}
    return scheme.model_copy(update=stated | {"median": factors is not None})


def _arrays(factors: Factors) -> dict[str, NDArray[Any]]:
    places = factors.counts.shape[0]
    strengths = factors.strengths.reshape(places, factors.pairs, factors.fields)
    return packed(
        factors.level,
        factors.places,
        factors.slots,
        strengths.transpose(1, 0, 2),
        factors.rhythms,
        factors.chance,
        factors.piece,
        factors.coverage,
    )
