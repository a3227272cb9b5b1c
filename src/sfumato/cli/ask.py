"""`sfumato ask`: any sum of a release with its ±, and the questions that planners have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import DATA, OUTPUT, PLACES, QUESTION, AsJson, Quiet, called, own
from sfumato.cli.telling import Working, print_json
from sfumato.errors import UsageError


def ask(
    release: Annotated[Path, typer.Argument(help="Folder of a release or a stream.")],
    zones: Annotated[
        list[str] | None,
        own(PLACES, "--zones", "Id of a place, again and again, or A,B,C."),
    ] = None,
    polygon: Annotated[
        str | None,
        own(PLACES, "--polygon", "An area: a file, GeoJSON, WKT, or west,south,east,north."),
    ] = None,
    start: Annotated[
        str | None, own(DATA, "--from", "Where the first slot begins: 2007-09-10T08:00.")
    ] = None,
    end: Annotated[str | None, own(DATA, "--to", "Where the last slot ends.")] = None,
    hours: Annotated[
        str | None, own(DATA, "--hours", "Hours of the day: 8-10, which ends at 10 o'clock.")
    ] = None,
    weekdays: Annotated[
        str | None, own(DATA, "--weekdays", "Days of the week: mon-fri, or sat,sun.")
    ] = None,
    by: Annotated[
        str | None,
        own(QUESTION, "--by", "A profile by hour, weekday, day, slot, zone or district."),
    ] = None,
    below: Annotated[
        float | None, own(QUESTION, "--below", "With --by: how surely below this number.")
    ] = None,
    rank: Annotated[
        str | None,
        own(QUESTION, "--rank", "The busiest zone, district, hour, weekday, day or slot."),
    ] = None,
    top: Annotated[
        int | None, own(QUESTION, "--top", "With --rank: how many; default: 10.")
    ] = None,
    quietest: Annotated[
        bool, own(QUESTION, "--quietest", "With --rank: the quietest instead.")
    ] = False,
    window: Annotated[
        str | None, own(QUESTION, "--window", "With --rank of slots or hours: runs of 2h.")
    ] = None,
    demand: Annotated[
        list[str] | None, own(QUESTION, "--demand", "With --rank: what hours weigh, 7-10=2.")
    ] = None,
    against: Annotated[
        list[str] | None,
        own(
            QUESTION,
            "--against",
            "Compare with what differs: weekdays=sat-sun, release=DIR.",
        ),
    ] = None,
    share_of: Annotated[
        list[str] | None,
        own(QUESTION, "--share-of", "The share of what holds it: zones=all."),
    ] = None,
    unusual: Annotated[
        bool, own(QUESTION, "--unusual", "Against the same weekday and hour at other times.")
    ] = False,
    earlier: Annotated[
        list[Path] | None, own(QUESTION, "--earlier", "With --unusual: releases of other weeks.")
    ] = None,
    at: Annotated[str | None, own(QUESTION, "--at", "Who may be there: now, or a time.")] = None,
    sure: Annotated[
        float | None, own(QUESTION, "--sure", "With --at: as surely as this; default: 0.95.")
    ] = None,
    sql: Annotated[
        str | None,
        own(QUESTION, "--sql", "One SELECT over density, zones, slots and manifest."),
    ] = None,
    out: Annotated[
        Path | None, own(OUTPUT, "--out", "Write the table: a file .csv or .parquet.")
    ] = None,
    figures: Annotated[
        Path | None, own(OUTPUT, "--figures", "Also draw it (PNG and SVG) into this folder.")
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Ask a release how many there were, how sure that is, and whether it is unusual.

    Without a question it is the sum over the places and times that are named, with its interval.
    Nothing but the release is read, and nothing is spent.

    Example:
        sfumato ask releases/week-37 --hours 8-10 --weekdays mon-fri
    """
    options = dict(locals())
    from sfumato.io.write import write_csv, write_parquet
    from sfumato.published.ask import ask as find

    if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
        raise UsageError("`out` is a table.", remedy="Name a file that ends in .csv or .parquet.")
    named = [zone.strip() for text in zones or [] for zone in text.split(",") if zone.strip()]
    with Working(quiet or as_json, "reading the release"):
        answer = called(find, options, zones=named if zones else None)
    if out is not None:
        (write_csv if out.suffix.lower() == ".csv" else write_parquet)(out, answer.table())
    if as_json:
        print_json(answer.numbers())
    elif not quiet:
        typer.echo(str(answer))
