"""`sfumato.evaluate`: a release or stream beside the truth behind it. INTERNAL.

For the holder's eyes only: what is computed here tells about real people. Results are marked
internal in their file names; nothing is charged, because nothing here may be published.

Where towers were spread over zones there are two truths. One is spread as the release was, so that
what its border leaves out is missing in both, and the comparison is about noise and refinement
alone. The other is formula (1) of Acs & Castelluccia (2014): the cells of the towers in the zones
are a partition of the zones, and every visit at them counts. A border loss shows there.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from html import escape
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.spatial.distance import cdist

from sfumato.density.publish import opened_inputs
from sfumato.engine.local import DropLog
from sfumato.engine.open import opened_source
from sfumato.errors import UsageError
from sfumato.geography.border import CUT, FIRST, ON_OUTLINE_M, near_zones
from sfumato.geography.overlay import layout_of_zones, overlay
from sfumato.geography.places import OpenedPlaces, PlaceOptions
from sfumato.io.write import folder_to_fill, write_bytes, write_parquet
from sfumato.model.counts import Counting
from sfumato.model.places import Places
from sfumato.model.source import Progress
from sfumato.privacy.door import open_private
from sfumato.published.folder import make_internal_folder
from sfumato.published.release import Release, as_release, of_records, one_or_many
from sfumato.reports.internal import (
    INTERNAL_NAME,
    AttackPanel,
    Contender,
    InternalEvaluation,
    read_panel,
    write_internal_page,
)
from sfumato.synthesis.evaluate import SyntheticComparison, evaluate_synthetic
from sfumato.utility.density import (
    Evaluation,
    Table,
    evaluate_table,
    judged_by_formula_1,
    relative_error,
)
from sfumato.utility.earth_mover import distance_wanted

SUMMARY = "internal-evaluation.json"
BY_ZONE = "internal-by-zone.parquet"
BY_SLOT = "internal-by-slot.parquet"
WRITTEN = (INTERNAL_NAME, SUMMARY, BY_ZONE, BY_SLOT)
_PAGE_FIGURES = {
    "mre": "mean_relative_error",
    "pearson": "pearson",
    "emd": "earth_mover_m",
    "top_k": "top_10",
    "coverage": "coverage",
}
"""What the page calls the figures of an evaluation."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The truth, the releases and how they compare. It holds true counts."""

    truth: Table
    zones: Places
    published: tuple[Release, ...]
    evaluations: tuple[Evaluation, ...]
    formula_1: Table | None = None
    """The truth by formula (1), where towers were spread over zones."""
    remarks: tuple[str, ...] = ()
    """What was left out, and how to get it."""
    written: tuple[str, ...] = WRITTEN

    def __repr__(self) -> str:
        errors = ", ".join(f"{e.overall['mean_relative_error']:.3g}" for e in self.evaluations)
        return f"<Comparison, INTERNAL: mean relative error {errors}>"

    def _repr_html_(self) -> str:
        """The figures of every release, a column each: for the holder's eyes."""
        keys = dict.fromkeys(key for one in self.evaluations for key in one.overall)
        rows = [
            "".join(f"<td>{one.overall.get(key, math.nan):.4g}</td>" for one in self.evaluations)
            for key in keys
        ]
        head = "".join(f"<th>{escape(one.name)}</th>" for one in self.evaluations)
        body = "".join(
            f"<tr><td>{key.replace('_', ' ')}</td>{row}</tr>"
            for key, row in zip(keys, rows, strict=True)
        )
        said = "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks)
        return f"<b>internal: do not publish</b><table><tr><th></th>{head}</tr>{body}</table>{said}"


def true_density(
    events: object,
    published: Release,
    places: OpenedPlaces,
    *,
    tz: str | None = None,
    columns: Mapping[str, str] | None = None,
    format: str | None = None,
    time_unit: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    spark: Mapping[str, str] | None = None,
    internal: Callable[[DropLog], None] | None = None,
    progress: Progress | None = None,
) -> tuple[Table, Table | None]:
    """What the release is about: exact counts in the same places and slots.

    For towers that are spread over zones the truth of a zone is the overlay of tower visits, and
    beside it stands the truth by formula (1); for coordinates it is the number of distinct users
    in the zone. `internal` is told how many rows were read and why some do not count: read
    otherwise than for the release, they are another truth.
    """
    manifest = published.manifest
    if manifest.released.sha256 != places.released.fingerprint():
        raise UsageError(
            "These are not the places of the release.",
            remedy="Give the `towers`, `zones` or `grid` that it was made with.",
        )
    if manifest.counted.sha256 != places.counted.fingerprint():
        raise UsageError(
            "These are not the places that the release counted.",
            remedy="Give the `towers`, `zones` or `grid` that it was made with.",
        )
    with opened_source(
        events,
        places.counted,
        published.grid,
        columns=columns,
        tz=tz or published.grid.tz,
        format=format,
        time_unit=time_unit,
        engine=engine,
        master=master,
        spark=spark,
        progress=progress,
    ) as source:
        exact = open_private(source.exact(Counting(manifest.privacy.counting)))
        if internal is not None:
            internal(source.drops)
    counts = exact.values / exact.units_per_count
    if places.shares is not None:
        return places.shares.to_zones(counts), _by_formula_1(counts, places, published)
    ids, row = np.unique(places.counted.ids, return_inverse=True)  # a tower that moved has rows
    if ids.size == counts.shape[0]:
        return counts, None
    added = np.zeros((ids.size, counts.shape[1]))
    np.add.at(added, row, counts)
    return added, None


def _by_formula_1(counts: Table, places: OpenedPlaces, published: Release) -> Table | None:
    """Visits at towers in the zones, by cells that are a partition of the zones."""
    if not near_zones(places.counted, places.released, ON_OUTLINE_M)[0].any():
        return None
    cells = CUT.cells(places.counted, places.released, published.grid)
    return overlay(cells, places.released).to_zones(counts)


def evaluate(
    releases: str | os.PathLike[str] | Release | Sequence[str | os.PathLike[str] | Release],
    events: object,
    *,
    towers: object = None,
    zones: object = None,
    grid: str | None = None,
    region: object = None,
    zone_id: str | None = None,
    zone_name: str | None = None,
    layer: str | None = None,
    repair_zones: bool = False,
    drop_bad_towers: bool = False,
    border: str | float | None = None,
    pipeline: str | None = None,
    zoning: str | None = None,
    tz: str | None = None,
    column: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    events_tz: str | None = None,
    format: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    earth_mover: bool | None = None,
    held_back: object = None,
    out: str | os.PathLike[str] | None = None,
    internal: Callable[[DropLog], None] | None = None,
    progress: Progress | None = None,
) -> Comparison | SyntheticComparison:
    """Judge releases, streams or synthetic people of one period against the truth. INTERNAL.

    Args:
        releases: Folders or releases of one period.
        events: The events that they were made from.
        towers: Towers, as for the release.
        zones: Zones, as for the release.
        grid: Cells instead of zones, as for the release.
        region: What the grid covers, as for the release.
        zone_id: Column of the zones' ids.
        zone_name: Column of the zones' names.
        layer: Layer of the zones' or the region's file.
        repair_zones: Make crossing outlines valid.
        drop_bad_towers: Leave out towers without a usable position.
        border: How far the towers' cells reach beyond the zones; default: as for the releases.
        pipeline: `events` is the lakehouse of multimno, or the FlowDB of flowkit.
        zoning: Zones of the pipeline.
        tz: Clock of times and validity dates that carry none; default: that of the release.
        column: Which column is what: `{"user": "imsi", "time": "ts"}`.
        time_unit: Unit of epoch numbers: s, ms, us or ns.
        events_tz: Clock of event times that carry no offset; default: `tz`.
        format: Format of the events, where names do not tell.
        engine: Where to count: local (default) or spark.
        master: Spark's master, for a session of its own.
        spark_conf: Settings of that session.
        earth_mover: Also the slowest figure; between maps of groups of zones, with bounds, where
            there are more than 1,500 zones. Default: where POT is installed (extra `emd`).
        held_back: For synthetic people: events of people like them who were left out of the
            synthesis by the toss of a coin each, to look for copies. Never a gate.
        out: Folder for internal results (tables and a page); none: nothing is written.
        internal: Told how many rows were read and why some do not count.
        progress: Told the stage and its share.

    Returns:
        The truth, the releases and how they compare: for the holder's eyes only. Of synthetic
        people a `SyntheticComparison`, with figures of its own.

    Raises:
        UsageError: The releases are not about these places, or not about one period.
        InputError: A file cannot be read, or is not as it was published.

    Example:
        >>> found = sfumato.evaluate(                                      # doctest: +SKIP
        ...     "releases/week-37", "events.parquet", towers="towers.csv", zones="zones.geojson"
        ... )
        >>> found.evaluations[0].overall["mean_relative_error"]            # doctest: +SKIP
    """
    moved, remark = distance_wanted(earth_mover)
    given = [as_release(one) for one in one_or_many(releases)]
    said = PlaceOptions(
        *(towers, zones, grid, region, zone_id, zone_name, layer),
        *(repair_zones, drop_bad_towers, border, column),
    )
    if any(one.kind == "synthetic" for one in given):
        return evaluate_synthetic(
            given,
            events,
            held_back=held_back,
            places=said,
            tz=tz,
            events_tz=events_tz,
            column=column,
            time_unit=time_unit,
            format=format,
            out=out,
            internal=internal,
            progress=progress,
        )
    if held_back is not None:
        raise UsageError("People are held back from synthetic data.", remedy="Leave them out.")
    published = tuple(of_records(one) for one in given)
    _comparable(published)
    first = published[0]
    inputs = opened_inputs(
        events, said, pipeline, zoning, first.grid, progress, events_tz, format, time_unit
    )
    with inputs as (found, places):
        if places.spreads and border is None:
            places = replace(places, border=_common_border(published))
        opened = places.open(
            period=first.grid, tz=tz or first.grid.tz, keep_all=first.manifest.kind == "stream"
        )
        truth, formula_1 = true_density(
            found(),
            first,
            opened,
            tz=events_tz or tz,
            columns=column,
            format=format,
            time_unit=time_unit,
            engine=engine,
            master=master,
            spark=spark_conf,
            internal=internal,
            progress=progress,
        )
    metres = _distances(opened.released, first)

    def slots(done: int, of: int) -> None:
        if progress is not None:
            progress("comparing slot by slot", done / of)

    judged = tuple(
        evaluate_table(
            one.label,
            truth,
            one.values,
            metres,
            interval=None if one.lower is None or one.upper is None else (one.lower, one.upper),
            median=one.median,
            earth_mover=moved,
            progress=slots,
        )
        for one in published
    )
    if formula_1 is not None:
        judged = tuple(
            judged_by_formula_1(one, formula_1, truth, of.values)
            for one, of in zip(judged, published, strict=True)
        )
    comparison = Comparison(truth, opened.released, published, judged, formula_1, remark)
    if out is not None:
        write_comparison(comparison, folder_to_fill(out))
    return comparison


def _comparable(published: Sequence[Release]) -> None:
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


def _common_border(published: Sequence[Release]) -> str:
    """The border that all of them were made with."""
    made = {str(one.manifest.public_inputs.get("border", FIRST)) for one in published}
    if len(made) > 1:
        raise UsageError(
            f"The releases were made with different borders ({', '.join(sorted(made))}), so their "
            "truths differ.",
            remedy="Give the `border` by which to judge them all.",
        )
    return made.pop()


def _distances(places: Places, published: Release) -> Table:
    """Metres between the middles of the released places, in their order."""
    centres = layout_of_zones(places).centres
    if len(places) != published.ids.size:  # a tower that moved: where it stood first
        _, first = np.unique(places.ids, return_index=True)
        centres = centres[first]
    metres: Table = cdist(centres, centres)
    return metres


def write_comparison(found: Comparison, folder: Path) -> list[Path]:
    """Internal tables (JSON, Parquet) and the internal page, which shows them."""
    make_internal_folder(folder)
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
                _on_page(name, judged): judged.by_slot[key]
                for name, key in (("emd", "earth_mover_m"), ("top_k", "top_10"))
                if key in judged.by_slot
            },
            overall={
                _on_page(name, judged): judged.overall[key]
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


def _on_page(name: str, judged: Evaluation) -> str:
    """The earth mover's distance between maps of groups says so."""
    coarse = name == "emd" and "earth_mover_groups" in judged.overall
    return "emd_groups" if coarse else name


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
