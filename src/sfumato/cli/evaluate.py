"""`sfumato evaluate`: how good is a release? Compares it with the truth. INTERNAL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import (
    AsJson,
    AtBorder,
    Columns,
    DropBadTowers,
    Engine,
    EventsOption,
    EventsTz,
    Format,
    Grid,
    InternalFolder,
    Layer,
    Master,
    Pipeline,
    Quiet,
    ReadTz,
    Region,
    RepairZones,
    SparkConf,
    TimeUnit,
    Towers,
    ZoneId,
    ZoneName,
    Zones,
    ZoningOf,
    called,
)
from sfumato.cli.telling import RowsRead, Working, print_json, tell

if TYPE_CHECKING:
    from sfumato.density.evaluate import Comparison
    from sfumato.synthesis.evaluate import SyntheticComparison

SHOWN = {
    "mean_relative_error": "mean relative error",
    "pearson": "Pearson correlation",
    "earth_mover_m": "earth mover's distance (m)",
    "earth_mover_lower_m": "  approximate: at least",
    "earth_mover_upper_m": "  at most",
    "earth_mover_groups": "  between maps of groups of zones, so many",
    "mean_absolute_error": "mean absolute error",
    "root_mean_square_error": "root mean square error",
    "jensen_shannon": "Jensen-Shannon (bits)",
    "top_10": "top 10 found",
    "top_50": "top 50 found",
    "range_query_error": "range query error",
    "total_error": "error of the grand total",
    "median_mean_absolute_error": "mean absolute error of the median",
    "coverage": "intervals hold",
    "coverage_from_20": "intervals hold (published from 20)",
    "coverage_below_20": "intervals hold (published below 20)",
    "formula_1_mean_relative_error": "mean relative error by formula (1)",
    "formula_1_border_error": "of that by the border alone",
    "formula_1_zones_off": "zones off by over 10 % by formula (1)",
    "formula_1_total_error": "error of the grand total by formula (1)",
    "hourly_mre": "hourly density: mean relative error",
    "hourly_jsd": "hourly density: Jensen-Shannon (bits)",
    "density_jsd": "density: Jensen-Shannon (bits)",
    "home_work_cpc": "home-work pairs: common part",
    "home_jsd": "homes: Jensen-Shannon",
    "work_jsd": "works: Jensen-Shannon",
    "activity_jsd": "records per person: Jensen-Shannon",
    "gyration_jsd": "radius of gyration: Jensen-Shannon",
    "repetition_jsd": "repeated days: Jensen-Shannon",
    "impossible_moves": "moves above 120 km/h",
    "impossible_moves_true": "  of true people",
    "query_R/3": "queries of radius R/3: relative error",
    "query_R/10": "  R/10",
    "query_R/30": "  R/30",
    "trip_jsd": "first and last cell: Jensen-Shannon",
    "length_jsd": "trip length: Jensen-Shannon",
    "diameter_jsd": "trip diameter: Jensen-Shannon",
    "pattern_f1": "frequent patterns found (F1)",
    "pattern_support": "  error of their number",
    "kendall_tau": "ranks of cells: Kendall's tau",
    "hotspot_ndcg": "hot spots: NDCG at 5",
    "exact_repeats": "trips that repeat another exactly",
    "synthetic_nearer_members": "copying: nearer to members (0.5: none)",
    "copies": "copying: exact copies of members",
    "membership_advantage": "membership: advantage",
    "membership_advantage_low": "  at least",
    "membership_advantage_high": "  at most",
    "outlier_advantage": "membership of outliers: advantage",
    "outlier_advantage_low": "  at least",
    "outlier_advantage_high": "  at most",
    "membership_bound": "  what the claim allows",
}


def evaluate(
    releases: Annotated[list[Path], typer.Argument(help="Release folders of one period.")],
    events: EventsOption,
    zones: Zones = None,
    towers: Towers = None,
    grid: Grid = None,
    region: Region = None,
    pipeline: Pipeline = None,
    zoning: ZoningOf = None,
    tz: ReadTz = None,
    out: InternalFolder = None,
    earth_mover: Annotated[
        bool | None,
        typer.Option(
            "--earth-mover/--no-earth-mover",
            help="The slowest figure; default: where POT is installed (extra `emd`).",
        ),
    ] = None,
    held_back: Annotated[
        str | None,
        typer.Option(help="Of synthetic people: events of people left out, to look for copies."),
    ] = None,
    column: Columns = None,
    format: Format = None,
    time_unit: TimeUnit = None,
    events_tz: EventsTz = None,
    zone_id: ZoneId = None,
    zone_name: ZoneName = None,
    layer: Layer = None,
    repair_zones: RepairZones = False,
    drop_bad_towers: DropBadTowers = False,
    border: AtBorder = None,
    engine: Engine = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare releases with the truth. The results are for the holder's eyes only.

    Example:
        sfumato evaluate releases/week-37 --events events.parquet
        --towers towers.csv --zones zones.geojson
    """
    options = dict(locals())
    from sfumato.density import evaluate as holder

    folder = out or releases[0].parent / f"internal-{releases[0].name}"
    with Working(quiet or as_json, "reading and counting events") as progress:
        found = called(
            holder.evaluate,
            options,
            out=folder,
            internal=RowsRead(silent=quiet),
            progress=progress,
        )
    if as_json:
        print_json({}, [one.overall for one in found.evaluations])
    elif not quiet:
        show(found)
        tell([f"do not publish {', '.join(str(folder / name) for name in found.written)}"])


def show(found: Comparison | SyntheticComparison) -> None:
    """The figures as a table on standard error, one column a release."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="internal: releases against the truth")
    table.add_column("figure")
    for one in found.evaluations:
        table.add_column(one.name, justify="right")
    for key, words in SHOWN.items():
        cells = [one.overall.get(key) for one in found.evaluations]
        if any(cell is not None for cell in cells):
            table.add_row(words, *("" if cell is None else f"{cell:.4g}" for cell in cells))
    Console(stderr=True).print(table)
    for remark in found.remarks:
        typer.echo(remark, err=True)
