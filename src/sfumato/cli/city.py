"""`sfumato city`: a synthetic city, or the urban crowd of Chen et al., as files."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import AsJson, Quiet, Results, Seed
from sfumato.cli.telling import Working
from sfumato.errors import UsageError


class Kind(StrEnum):
    CITY = "city"
    CROWD = "crowd"


def city(
    out: Results,
    kind: Annotated[Kind, typer.Option(help="A city's records, or a crowd on a grid.")] = Kind.CITY,
    users: Annotated[
        int | None, typer.Option(help="People; default: 200000, or 130000 for a crowd.")
    ] = None,
    towers: Annotated[int, typer.Option(help="Towers of a generated city.")] = 1_303,
    zones: Annotated[int, typer.Option(help="Zones of a generated city.")] = 989,
    seed: Seed = 1,
    start: Annotated[
        datetime | None,
        typer.Option("--from", formats=["%Y-%m-%d"], help="First local day; default: 2007-09-10."),
    ] = None,
    days: Annotated[int | None, typer.Option(help="Days; default: 7, or 8 for a crowd.")] = None,
    tz: Annotated[str | None, typer.Option(help="Time zone; default: Europe/Paris.")] = None,
    lon: Annotated[float | None, typer.Option(help="Longitude of the centre.")] = None,
    lat: Annotated[float | None, typer.Option(help="Latitude of the centre.")] = None,
    geometry: Annotated[
        str, typer.Option(help="A generated map, or the real one of paris.")
    ] = "generated",
    data: Annotated[
        Path | None,
        typer.Option(envvar="SFUMATO_DATA", help="Folder with the real map, for --geometry paris."),
    ] = None,
    gps: Annotated[bool, typer.Option("--gps", help="Fixes (lon, lat) instead of towers.")] = False,
    id_kind: Annotated[
        str, typer.Option(help="How users are named: integer, text or binary.")
    ] = "integer",
    repeats: Annotated[float, typer.Option(help="Mean further records in a tower-hour.")] = 0.0,
    match: Annotated[int | None, typer.Option(help="People at a match, a one-off crowd.")] = None,
    match_date: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="Its day; default: the fifth, or the last."),
    ] = None,
    match_hour: Annotated[int, typer.Option(help="Its first hour; it lasts three.")] = 20,
    strike: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="A day on which most commuters stay at home."),
    ] = None,
    place_activity: Annotated[
        float, typer.Option(help="How far activity depends on where one lives, 0 to 0.95.")
    ] = 0.0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a synthetic city and its people's records, to try everything on.

    Example:
        sfumato city --users 20000 --towers 130 --zones 100 --out toy
    """
    from sfumato.city import CityPlan, Fixes, Geometry, IdKind, Match, write_city
    from sfumato.city.crowd import CrowdPlan
    from sfumato.city.write import EVENTS, STATEMENT, TOWERS, ZONES, write_crowd

    if geometry not in tuple(Geometry) or id_kind not in tuple(IdKind):
        raise UsageError(
            "There is no such map or kind of id.",
            remedy=f"--geometry {' or '.join(Geometry)}; --id-kind {', '.join(IdKind)}.",
        )
    given: dict[str, Any] = {"days": days, "tz": tz, "lon": lon, "lat": lat, "seed": seed}
    given["start"] = None if start is None else start.date()
    used = [name for name in (EVENTS, TOWERS, ZONES) if (out / name).exists()]
    if used and not (out / STATEMENT).exists():
        raise UsageError(
            f"The folder {out} holds another {used[0]}.", remedy="Name a folder of its own: --out."
        )
    if kind is Kind.CROWD:
        if gps or match is not None or strike is not None or geometry != Geometry.GENERATED:
            raise UsageError(
                "A crowd lives on a grid: it has no towers, match, strike or real map.",
                remedy="Leave these options out, or take --kind city.",
            )
        crowd = CrowdPlan(**_kept(given | {"people": users}))
        say = _with_progress(
            quiet or as_json,
            crowd.days,
            "making the crowd's days",
            lambda step: write_crowd(crowd, out, step),
        )
    else:
        base = CityPlan()
        first = base.start if start is None else start.date()
        length = base.days if days is None else days
        event = None
        if match is not None:
            day = min(4, length - 1) if match_date is None else _day(match_date, first, length)
            event = Match(people=match, day=day, hour=match_hour, hours=min(3, 24 - match_hour))
        plan = CityPlan(
            **_kept(given | {"users": users}),
            towers=towers,
            zones=zones,
            geometry=Geometry(geometry),
            data=data,
            fixes=Fixes.GPS if gps else Fixes.TOWERS,
            id_kind=IdKind(id_kind),
            repeats=repeats,
            match=event,
            strike_day=None if strike is None else _day(strike, first, length),
            place_activity=place_activity,
        )
        say = _with_progress(
            quiet or as_json,
            plan.users,
            "inventing people",
            lambda step: write_city(plan, out, step),
        )
    if as_json:
        typer.echo(json.dumps(say, indent=2, sort_keys=True))
    elif not quiet:
        scale = say["scale"]
        typer.echo(f"{scale['events']:,} records of {scale['users']:,} people in {out}")


def _kept(options: dict[str, Any]) -> dict[str, Any]:
    """Only what was said; the plans know their defaults."""
    return {name: value for name, value in options.items() if value is not None}


def _day(moment: datetime, first: date, days: int) -> int:
    number = (moment.date() - first).days
    if not 0 <= number < days:
        raise UsageError(
            "The day of the match or the strike is not in the period.",
            remedy=f"Take one of the {days} days from {first.isoformat()} on.",
        )
    return number


def _with_progress(
    silent: bool, total: int, what: str, work: Callable[[Callable[[int], None]], dict[str, Any]]
) -> dict[str, Any]:
    with Working(silent, what) as progress:
        done = 0

        def step(amount: int) -> None:
            nonlocal done
            done += amount
            progress(what, done / total)

        return work(step)
