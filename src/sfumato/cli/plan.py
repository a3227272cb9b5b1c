"""`sfumato plan`: cost and expected accuracy before a single bit of budget is spent.

It reads no events: everything follows from public facts, and from a rehearsal on made-up
people where errors are forecast.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import (
    Config,
    DropBadTowers,
    Grid,
    Layer,
    Parameters,
    Region,
    RepairZones,
    ZoneId,
    parameters_of,
)


def plan(
    epsilon: Annotated[float, typer.Option(help="Privacy loss of one release.")],
    delta: Annotated[float, typer.Option(help="Well below one over the number of people.")],
    expected_users: Annotated[
        int, typer.Option(help="How many people, from public knowledge, rounded.")
    ],
    scheme: Annotated[str, typer.Option(help="How the numbers are made.")] = "bayes",
    bound: Annotated[str | None, typer.Option(help="weight:3 or sample:30.")] = None,
    count: Annotated[str, typer.Option(help="visits or people.")] = "visits",
    unit: Annotated[str, typer.Option(help="What is protected.")] = "user-period",
    towers: Annotated[Path | None, typer.Option(help="Antennas, as for release.")] = None,
    zones: Annotated[Path | None, typer.Option(help="Zones, as for release.")] = None,
    grid: Grid = None,
    region: Region = None,
    tower_count: Annotated[
        int | None, typer.Option(help="How many towers, where there is no file yet.")
    ] = None,
    zone_count: Annotated[
        int | None, typer.Option(help="How many zones, where there is no file yet.")
    ] = None,
    start: Annotated[str, typer.Option("--from", help="First day.")] = "2024-01-08",
    end: Annotated[str, typer.Option("--to", help="First day after the period.")] = "2024-01-15",
    slot: Annotated[str, typer.Option(help="Length of a time slot.")] = "1h",
    tz: Annotated[str, typer.Option(help="Time zone.")] = "UTC",
    target_error: Annotated[
        float | None, typer.Option(help="Find the epsilon of this mean relative error.")
    ] = None,
    cap_epsilon: Annotated[
        float | None, typer.Option(help="Say how many releases a year fit this cap.")
    ] = None,
    rehearse: Annotated[
        bool, typer.Option("--rehearse/--no-rehearse", help="Forecast errors on made-up people.")
    ] = True,
    zone_id: ZoneId = None,
    layer: Layer = None,
    repair_zones: RepairZones = False,
    drop_bad_towers: DropBadTowers = False,
    parameter: Parameters = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
    config: Config = None,  # noqa: ARG001 - read by its callback
) -> None:
    """Say what a release will cost and how good it will be. Spends nothing, reads no events."""
    from sfumato.density.plan import plan as look_ahead

    found = look_ahead(
        epsilon=epsilon,
        delta=delta,
        expected_users=expected_users,
        scheme=scheme,
        parameter=parameters_of(parameter),
        bound=bound,
        count=count,
        unit=unit,
        towers=towers,
        zones=zones,
        grid=grid,
        region=region,
        zone_id=zone_id,
        layer=layer,
        repair_zones=repair_zones,
        drop_bad_towers=drop_bad_towers,
        tower_count=tower_count,
        zone_count=zone_count,
        start=start,
        end=end,
        slot=slot,
        tz=tz,
        target_error=target_error,
        cap_epsilon=cap_epsilon,
        rehearse=rehearse,
    )
    typer.echo(json.dumps(found.answer, indent=2) if as_json else str(found))
