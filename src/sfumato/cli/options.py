"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.model.errors import UsageError

if TYPE_CHECKING:
    from sfumato.adapters.inputs import Inputs
    from sfumato.model.source import Progress
    from sfumato.model.time_grid import TimeGrid

ZoneId = Annotated[str | None, typer.Option("--zone-id", help="Column of the zones' ids.")]
ZoneName = Annotated[str | None, typer.Option("--zone-name", help="Column of the zones' names.")]
Layer = Annotated[str | None, typer.Option("--layer", help="Layer of the zones' file.")]
RepairZones = Annotated[
    bool, typer.Option("--repair-zones", help="Make crossing outlines of zones valid.")
]
DropBadTowers = Annotated[
    bool, typer.Option("--drop-bad-towers", help="Leave towers without a usable position out.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="Which column is what: user=imsi, time=ts, place=bs."),
]
TimeUnit = Annotated[
    str | None, typer.Option("--time-unit", help="Unit of epoch numbers: s, ms, us or ns.")
]
EventsTz = Annotated[
    str | None,
    typer.Option(
        "--events-tz", help="Clock of event times that carry no offset; default: that of --tz."
    ),
]
ReleaseName = Annotated[
    str | None, typer.Option("--name", help="Name of the release; default: that of the folder.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what it would cost; read and spend nothing.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--parameter", help="A setting of the scheme's own, such as tolerance=0.01."),
]

Engine = Annotated[str | None, typer.Option(help="Where to count: local (default) or spark.")]
Master = Annotated[
    str | None,
    typer.Option(help="Spark's master: local[2], yarn, spark://HOST:PORT, sc://HOST:PORT."),
]
SparkConf = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", help="A setting of Spark: spark.executor.memory=8g."),
]
Pipeline = Annotated[
    str | None,
    typer.Option(
        "--pipeline", help="EVENTS is the lakehouse of multimno, or the FlowDB of flowkit."
    ),
]
ZoningOf = Annotated[
    str | None,
    typer.Option("--zoning", help="Zones of the pipeline: nuts:3, INSPIRE_1km, admin3."),
]


def pipeline_inputs(
    name: str | None,
    zoning: str | None,
    where: str,
    settings: dict[str, Any],
    grid: Callable[[], TimeGrid],
) -> Inputs | None:
    """What a pipeline holds about a period; its towers and zones go into the settings."""
    if name is None:
        if zoning is not None:
            raise UsageError("--zoning goes with --pipeline.", remedy="Give --zones FILE instead.")
        return None
    if settings["towers"] is not None or settings["zones"] is not None:
        raise UsageError("A pipeline brings its own towers and zones.", remedy="Leave them out.")
    from sfumato.adapters.registry import open_pipeline

    found = open_pipeline(name, where, grid(), zoning)
    settings |= {"towers": found.towers, "zones": found.zones}
    return found


@contextmanager
def opened(found: Inputs | None, events: str, progress: Progress | None) -> Iterator[object]:
    """The events of a pipeline, let go of at the end; without one, what the user named."""
    if found is None:
        yield events
    else:
        with closing(found.open_events(progress)) as described:
            yield described


def pairs(given: list[str] | None, what: str, example: str) -> dict[str, str]:
    """`name=value` options as a mapping."""
    cut = [text.partition("=") for text in given or []]
    if any(not (name and sign and value) for name, sign, value in cut):
        raise UsageError(f"{what} is written as {example}.")
    return {name: value for name, _, value in cut}


def columns_of(given: list[str] | None) -> dict[str, str]:
    """Role to column name."""
    return pairs(given, "A column, role=name,", "--column user=imsi")


def spark_settings(given: list[str] | None) -> dict[str, str]:
    """Name of a setting to its value."""
    return pairs(given, "A setting of Spark", "--spark-conf spark.executor.memory=8g")


def parameters_of(given: list[str] | None) -> dict[str, bool | int | float | str]:
    """Name to value: true and false, whole numbers, numbers, words."""
    found = pairs(given, "A parameter", "--parameter tolerance=0.01")
    return {name: _plain(value) for name, value in found.items()}


def _plain(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text
