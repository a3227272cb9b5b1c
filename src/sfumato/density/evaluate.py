"""Utility of a release: every metric against the truth, by zone, by slot and overall. INTERNAL.

For the holder's eyes only:

    evaluation = sfumato.density.evaluate.evaluate("release/week-37", "events.parquet",
                                         towers="towers.csv", zones="zones.geojson")

What is computed here tells about real people and stays with the holder; whatever writes it to a
file says so in the file's name. Nothing here is charged, because nothing here may be published.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engine.local import DropLog
from sfumato.engine.open import opened_source
from sfumato.errors import UsageError
from sfumato.geography.overlay import Overlay, layout_of_zones, overlay
from sfumato.geography.voronoi import voronoi_cells
from sfumato.io.towers import read_towers
from sfumato.io.write import write_bytes, write_parquet
from sfumato.io.zones import read_zones
from sfumato.model.counts import Counting
from sfumato.model.places import Places
from sfumato.privacy.door import open_private
from sfumato.published.release import Release, as_release
from sfumato.report.internal import (
    AttackPanel,
    Contender,
    InternalEvaluation,
    read_panel,
    write_internal_page,
)
from sfumato.utility import density
from sfumato.utility.density import earth_mover_series, relative_error

Table = NDArray[np.float64]
TOP = (10, 50, 100)
_RANGES = 200
_SEED = 20_070_910
"""Range queries are drawn once and for all, so that two evaluations ask the same ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Metrics of one released table."""

    name: str
    overall: dict[str, float]
    by_zone: dict[str, Table]
    by_slot: dict[str, Table]


def evaluate_table(
    name: str,
    truth: Table,
    released: Table,
    distances: Table,
    *,
    interval: tuple[Table, Table] | None = None,
    earth_mover: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Judge one table; `distances` are metres between zone centres."""
    relative = density.relative_error(truth, released)
    by_zone = {
        "mean_relative_error": relative.mean(axis=1),
        "pearson": density.pearson(truth, released),
        "mean_count": truth.mean(axis=1),
    }
    by_slot = {
        "mean_relative_error": relative.mean(axis=0),
        "slot_relative_error": density.slot_relative_error(truth, released),
        "slot_relative_error_as_printed": density.slot_relative_error(
            truth, released, noisy_denominator=True
        ),
        "jensen_shannon": density.jensen_shannon(truth, released),
    }
    for k in TOP:
        if k < truth.shape[0]:
            by_slot[f"top_{k}"] = density.top_k_agreement(truth, released, k)
    if earth_mover:
        by_slot["earth_mover_m"] = earth_mover_series(truth, released, distances, progress)
    overall = {
        "mean_relative_error": float(relative.mean()),
        "pearson": float(by_zone["pearson"].mean()),
        "mean_absolute_error": density.mean_absolute_error(truth, released),
        "root_mean_square_error": density.root_mean_square_error(truth, released),
        "range_query_error": float(
            density.range_query_error(truth, released, random_ranges(distances)).mean()
        ),
        "total_error": float(released.sum() / max(truth.sum(), 1e-9) - 1),
    }
    for key, series in by_slot.items():
        if key not in overall and np.isfinite(series).any():
            overall[key] = float(np.nanmean(series))
    if interval is not None:
        overall |= interval_coverage(truth, *interval)
    return Evaluation(name, overall, by_zone, by_slot)


def interval_coverage(truth: Table, lower: Table, upper: Table) -> dict[str, float]:
    """Share of true counts inside their interval: counts of 20 and more, and smaller ones."""
    inside, large = (truth >= lower) & (truth <= upper), truth >= 20
    found = {"interval_width": float((upper - lower).mean())}
    for key, where in (("coverage_from_20", large), ("coverage_below_20", ~large)):
        if where.any():
            found[key] = float(inside[where].mean())
    return found


def random_ranges(distances: Table) -> NDArray[np.bool_]:
    """Discs around random zones that hold between one zone and a third of them."""
    n = distances.shape[0]
    rng = np.random.default_rng(_SEED)
    centre = rng.integers(n, size=_RANGES)
    size = np.exp(rng.uniform(0, np.log(max(n / 3, 2)), _RANGES)).astype(np.int64)
    order = np.argsort(distances[centre], axis=1, kind="stable")
    masks = np.zeros((_RANGES, n), dtype=bool)
    for row, (zones, count) in enumerate(zip(order, np.maximum(size, 1), strict=True)):
        masks[row, zones[:count]] = True
    return masks


def spread(runs: Sequence[Evaluation]) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of each overall figure over several noise draws."""
    keys = [key for key in runs[0].overall if all(key in run.overall for run in runs)]
    table = {key: np.array([run.overall[key] for run in runs]) for key in keys}
    return {
        key: (float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else 0.0)
        for key, values in table.items()
    }


SUMMARY = "internal-evaluation.json"
BY_ZONE = "internal-by-zone.parquet"
BY_SLOT = "internal-by-slot.parquet"
_PAGE_FIGURES = {
    "mre": "mean_relative_error",
    "pearson": "pearson",
    "emd": "earth_mover_m",
    "top_k": "top_10",
    "coverage": "coverage_from_20",
}
"""What the page calls the figures of an evaluation."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The truth, the releases and how they compare. It holds true counts."""

    truth: Table
    zones: Places
    published: tuple[Release, ...]
    evaluations: tuple[Evaluation, ...]


def true_density(
    events: object,
    published: Release,
    *,
    towers: object = None,
    zones: object,
    tz: str | None = None,
    columns: dict[str, str] | None = None,
    format: str | None = None,
    time_unit: str | None = None,
    events_tz: str | None = None,
    zone_id: str | None = None,
    layer: str | None = None,
    repair_zones: bool = False,
    drop_bad_towers: bool = False,
    engine: str | None = None,
    master: str | None = None,
    spark: Mapping[str, str] | None = None,
    internal: Callable[[DropLog], None] | None = None,
) -> tuple[Table, Places]:
    """What the release is about: exact counts in the same zones and slots, and the zones.

    For towers the truth of a zone is the overlay of tower visits; for coordinates it is the
    number of distinct users in the zone. `engine`, `master` and `spark` say where to count, as
    for a release. `internal` is told how many rows were read and why some do not count: read
    otherwise than for the release, they are another truth.
    """
    areas = (
        zones
        if isinstance(zones, Places)
        else read_zones(zones, zone_id, repair=repair_zones, layer=layer)
    )
    shares: Overlay | None = None
    counted = areas
    if towers is not None:
        counted = (
            towers
            if isinstance(towers, Places)
            else read_towers(towers, zones=areas, tz=tz, drop_bad=drop_bad_towers)
        )
        shares = overlay(voronoi_cells(counted, areas, period=published.grid), areas)
    if published.manifest.released.sha256 != areas.fingerprint():
        raise UsageError(
            "These are not the zones of the release.", remedy="Give the file it was made with."
        )
    if published.manifest.counted.sha256 != counted.fingerprint():
        raise UsageError(
            "These are not the places that the release counted.",
            remedy="Give the `towers` and `zones` it was made with.",
        )
    with opened_source(
        events,
        counted,
        published.grid,
        columns=columns,
        tz=events_tz or tz or published.grid.tz,
        format=format,
        time_unit=time_unit,
        engine=engine,
        master=master,
        spark=spark,
    ) as source:
        exact = open_private(source.exact(Counting(published.manifest.privacy.counting)))
        if internal is not None:
            internal(source.drops)
    counts = exact.values / exact.units_per_count
    return (counts if shares is None else shares.to_zones(counts)), areas


def evaluate(
    releases: str | os.PathLike[str] | Release | Sequence[str | os.PathLike[str] | Release],
    events: object,
    *,
    zones: object,
    towers: object = None,
    tz: str | None = None,
    columns: dict[str, str] | None = None,
    earth_mover: bool = True,
    progress: Callable[[int, int], None] | None = None,
    **reading: Any,
) -> Comparison:
    """Judge one or several releases of the same zones and period against the truth.

    `reading` holds what else `true_density` takes: how the files were read for the release.
    """
    given = [releases] if isinstance(releases, str | os.PathLike | Release) else list(releases)
    published = tuple(as_release(one) for one in given)
    first = published[0]
    for other in published[1:]:
        if other.grid.fingerprint() != first.grid.fingerprint():
            raise UsageError("Releases that are compared must be about the same period.")
        if other.manifest.released.sha256 != first.manifest.released.sha256:
            raise UsageError("Releases that are compared must be about the same places.")
        if other.manifest.privacy.counting != first.manifest.privacy.counting:
            raise UsageError(
                "Releases that are compared must count the same thing, visits or people.",
                remedy="Evaluate them one at a time; streams count people.",
            )
    truth, areas = true_density(
        events, first, towers=towers, zones=zones, tz=tz, columns=columns, **reading
    )
    centres = layout_of_zones(areas).centres
    metres = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    judged = tuple(
        evaluate_table(
            one.label,
            truth,
            one.values,
            metres,
            interval=None if one.lower is None or one.upper is None else (one.lower, one.upper),
            earth_mover=earth_mover,
            progress=progress,
        )
        for one in published
    )
    return Comparison(truth, areas, published, judged)


def write_comparison(found: Comparison, folder: Path) -> list[Path]:
    """Internal tables (JSON, Parquet) and the internal page, which shows them."""
    folder.mkdir(parents=True, exist_ok=True)
    summary = {
        "internal": "True counts went into these figures. Do not publish them.",
        "releases": [
            {"name": one.name, **{k: float(v) for k, v in one.overall.items()}}
            for one in found.evaluations
        ],
    }
    text = json.dumps(summary, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    write_bytes(folder / SUMMARY, text.encode(), mode=0o600)
    write_parquet(folder / BY_ZONE, _long(found, by_zone=True), mode=0o600)
    write_parquet(folder / BY_SLOT, _long(found, by_zone=False), mode=0o600)
    page = write_internal_page(internal_evaluation(found, read_panel(folder)), folder)
    return [page, folder / SUMMARY, folder / BY_ZONE, folder / BY_SLOT]


def internal_evaluation(
    found: Comparison, attacks: AttackPanel | None = None
) -> InternalEvaluation:
    """The comparison as the internal page wants it, with what an attack left beside it."""
    first, beside = found.published[0], attacks or AttackPanel()
    contenders = tuple(
        Contender(
            name=f"{one.manifest.release.name} ({one.manifest.scheme.name})",
            epsilon=one.manifest.privacy.epsilon,
            values=one.values,
            lower=one.lower,
            upper=one.upper,
            error=relative_error(found.truth, one.values),
            by_hour={
                name: judged.by_slot[key]
                for name, key in (("emd", "earth_mover_m"), ("top_k", "top_10"))
                if key in judged.by_slot
            },
            overall={
                name: judged.overall[key]
                for name, key in _PAGE_FIGURES.items()
                if key in judged.overall
            },
        )
        for one, judged in zip(found.published, found.evaluations, strict=True)
    )
    return InternalEvaluation(
        title=first.manifest.release.name,
        zone_ids=tuple(found.zones.ids.tolist()),
        zone_names=tuple(found.zones.names.tolist()),
        geometry=found.zones.geometry,
        edges=first.grid.edges,
        tz=first.grid.tz,
        counting=first.manifest.privacy.counting,
        truth=found.truth,
        contenders=contenders,
        attacks=beside.results,
        tracks=beside.tracks,
    )


def _long(found: Comparison, *, by_zone: bool) -> pa.Table:
    keys: list[str] | list[datetime]
    keys = found.zones.ids.tolist() if by_zone else found.published[0].grid.starts()
    columns: dict[str, list[object]] = {"release": [], "zone_id" if by_zone else "time_start": []}
    for one in found.evaluations:
        figures = one.by_zone if by_zone else one.by_slot
        columns["release"] += [one.name] * len(keys)
        columns["zone_id" if by_zone else "time_start"] += list(keys)
        for name, values in figures.items():
            columns.setdefault(name, []).extend(values.tolist())
    return pa.table(columns)
