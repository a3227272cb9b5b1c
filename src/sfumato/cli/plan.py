"""`sfumato plan`: cost and expected accuracy before a single bit of budget is spent.

It reads no events: everything follows from public facts, and from a rehearsal on made-up
people where errors are forecast.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sfumato.cli.options import (
    DATA,
    PLACES,
    AsJson,
    AtBorder,
    BoundText,
    CapEpsilon,
    Columns,
    Counted,
    Delta,
    DropBadTowers,
    End,
    Epsilon,
    ExpectedUsers,
    Fold,
    Format,
    Grid,
    Layer,
    Parameters,
    Region,
    RepairZones,
    SchemeName,
    Slot,
    Start,
    Towers,
    Tz,
    UnitName,
    ZoneId,
    ZoneName,
    Zones,
    called,
    shared,
)
from sfumato.cli.telling import Working


def plan(
    epsilon: Epsilon,
    delta: Delta,
    expected_users: ExpectedUsers,
    scheme: SchemeName = "bayes",
    bound: BoundText = None,
    count: Counted = "visits",
    unit: UnitName = "user-period",
    towers: Towers = None,
    zones: Zones = None,
    grid: Grid = None,
    region: Region = None,
    events: Annotated[
        str | None,
        shared(DATA, "--events", "Where the events will be: only the files' names are looked at."),
    ] = None,
    format: Format = None,
    tower_count: Annotated[
        int | None,
        typer.Option(help="How many towers, where there is no file yet.", rich_help_panel=PLACES),
    ] = None,
    zone_count: Annotated[
        int | None,
        typer.Option(help="How many zones, where there is no file yet.", rich_help_panel=PLACES),
    ] = None,
    start: Start = "2024-01-08",
    end: End = "2024-01-15",
    slot: Slot = "1h",
    fold: Fold = None,
    tz: Tz = "UTC",
    target_error: Annotated[
        float | None, typer.Option(help="Find the epsilon of this mean relative error.")
    ] = None,
    cap_epsilon: CapEpsilon = None,
    rehearse: Annotated[
        bool, typer.Option("--rehearse/--no-rehearse", help="Forecast errors on made-up people.")
    ] = True,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Say what would make a useless release useful.")
    ] = False,
    zone_id: ZoneId = None,
    zone_name: ZoneName = None,
    layer: Layer = None,
    repair_zones: RepairZones = False,
    drop_bad_towers: DropBadTowers = False,
    border: AtBorder = None,
    column: Columns = None,
    parameter: Parameters = None,
    as_json: AsJson = False,
) -> None:
    """Say what a release will cost and how good it will be. Spends nothing, reads no events.

    With --cap-epsilon it also says how many such releases a year fit under the cap.

    Example:
        sfumato plan --zone-count 989 --tower-count 1303 --expected-users 2000000
        --epsilon 0.3 --delta 1e-7 --cap-epsilon 2
    """
    options = dict(locals())
    with Working(as_json, "planning") as progress:
        from sfumato.density.plan import plan as look_ahead

        found = called(look_ahead, options, progress=progress)
    typer.echo(json.dumps(found.answer, indent=2) if as_json else str(found))
