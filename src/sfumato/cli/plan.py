"""`sfumato plan`: cost and expected accuracy before a single bit of budget is spent.

It reads no events: everything follows from public facts, and from a rehearsal on made-up
people where errors are forecast.
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import (
    Config,
    DropBadTowers,
    Layer,
    Parameters,
    RepairZones,
    ZoneId,
    parameters_of,
)
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from sfumato.density.plan import Cost
    from sfumato.density.scheme import PublicFacts, Scheme
    from sfumato.model.counts import Bound
    from sfumato.model.events import Events
    from sfumato.model.places import Places
    from sfumato.model.source import Source
    from sfumato.model.time_grid import TimeGrid


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
    from dataclasses import replace

    from sfumato.density.plan import cost, period_days, releases_within
    from sfumato.density.registry import scheme_named
    from sfumato.privacy.events import Unit

    recipe = scheme_named(scheme)
    facts, released = _facts(
        towers=towers,
        zones=zones,
        tower_count=tower_count,
        zone_count=zone_count,
        start=start,
        end=end,
        slot=slot,
        tz=tz,
        epsilon=epsilon,
        delta=delta,
        expected_users=expected_users,
        bound=bound,
        counting=count,
        scheme=scheme,
        parameters=parameters_of(parameter),
        zone_id=zone_id,
        layer=layer,
        repair_zones=repair_zones,
        drop_bad_towers=drop_bad_towers,
    )
    facts = replace(facts, unit=Unit.parse(unit))
    found = cost(recipe, facts)
    answer = _cost_answer(scheme, facts, found)
    if cap_epsilon is not None:
        fits = releases_within(recipe.plan(facts), cap_epsilon, delta)
        a_year = 365.25 / period_days(facts)
        answer["cap"] = {
            "epsilon": cap_epsilon,
            "releases": fits,
            "periods_in_a_year": round(a_year, 1),
            "enough_for_a_year": fits >= a_year,
        }
    if rehearse or target_error is not None:
        _forecast(answer, recipe, facts, expected_users, released, target_error)
    typer.echo(json.dumps(answer, indent=2) if as_json else _text(answer))


def _facts(
    *,
    towers: Path | None,
    zones: Path | None,
    tower_count: int | None,
    zone_count: int | None,
    **settings: Any,
) -> tuple[PublicFacts, int]:
    """The public facts, from files where there are any, and the number of released places."""
    import numpy as np

    from sfumato.density import publish as api
    from sfumato.density.scheme import PublicFacts
    from sfumato.model.counts import Counting
    from sfumato.model.time_grid import TimeGrid as Grid

    if towers is not None or zones is not None:
        if tower_count is not None or zone_count is not None:
            raise UsageError("Places are given as files or as numbers, not both.")
        asked = api.request(towers=towers, zones=zones, dataset="plan", name="plan", **settings)
        return asked.facts, len(asked.released)
    counted = tower_count or zone_count
    if counted is None or counted < 1 or (zone_count is not None and zone_count < 1):
        raise UsageError(
            "How many places there are is missing.",
            remedy="Give --towers and --zones files, or --tower-count and --zone-count.",
        )
    try:
        counting = Counting(settings["counting"])
    except ValueError:
        raise UsageError(
            f"{settings['counting']!r} cannot be counted.",
            remedy=f"Choose from {', '.join(Counting)}.",
        ) from None
    grid = Grid.between(
        _day(settings["start"]), _day(settings["end"]), settings["slot"], settings["tz"]
    )
    facts = PublicFacts(
        np.array([f"place {i:06d}" for i in range(counted)]),
        grid,
        settings["epsilon"],
        settings["delta"],
        expected_users=settings["expected_users"],
        bound=api.parse_bound(settings["bound"] or "weight:3"),
        counting=counting,
        parameters=settings["parameters"],
    )
    return facts, zone_count or counted


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a date.", remedy="Write it as 2007-09-10.") from None


def _cost_answer(scheme: str, facts: PublicFacts, found: Cost) -> dict[str, Any]:
    return {
        "scheme": scheme,
        "unit": str(facts.unit),
        "epsilon": found.spend.epsilon,
        "delta": found.spend.delta,
        "rho": found.spend.rho,
        "method": found.spend.method,
        "noise": found.noise,
        "lines": list(found.lines),
    }


def _forecast(
    answer: dict[str, Any],
    recipe: Scheme,
    facts: PublicFacts,
    users: int,
    zones: int,
    target: float | None,
) -> None:
    """Adds what a rehearsal says."""
    from sfumato.audit.pipeline import RecallingSource
    from sfumato.density.plan import Rehearsal
    from sfumato.density.registry import OWN_BOUNDS
    from sfumato.engine.local import LocalSource
    from sfumato.utility.density import relative_error

    def remembered(events: Events, places: Places, grid: TimeGrid) -> Source:
        return RecallingSource(LocalSource(events, places, grid), samples=1)

    stage = Rehearsal(facts, users, zones, remembered, relative_error)
    expected = stage.run(recipe)
    answer["rehearsal"] = {
        "people": stage.users,
        "zones": stage.zones,
        "mean_relative_error": expected.mean_relative_error,
        "by_count": {str(size): error for size, error in expected.by_size.items()},
        "assumes": "tower-hours per person with mean 13.55 and standard deviation 18.33 a week; "
        "everyday rhythms, no one-off crowds",
    }
    if recipe.name not in OWN_BOUNDS:
        best, at_best = stage.best_bound(recipe, _candidates(facts))
        answer["rehearsal"]["best_bound"] = _bound_text(best)
        answer["rehearsal"]["error_at_best_bound"] = at_best.mean_relative_error
    if target is not None:
        answer["rehearsal"]["target_error"] = target
        answer["rehearsal"]["epsilon_for_target"] = stage.epsilon_for(recipe, target)


def _candidates(facts: PublicFacts) -> list[Bound]:
    from sfumato.model.counts import SampleBound, WeightBound

    if isinstance(facts.bound, SampleBound):
        tried = sorted({facts.bound.slots, 5, 10, 30, 60})
        return [SampleBound(slots) for slots in tried if slots <= facts.grid.slots]
    return [WeightBound(c) for c in sorted({facts.bound.limit, 1.0, 1.5, 2.0, 3.0, 4.5, 6.0})]


def _bound_text(bound: Bound) -> str:
    from sfumato.density.request import bound_text

    return bound_text(bound)


def _text(answer: dict[str, Any]) -> str:
    rho = "" if answer["rho"] is None else f", rho {answer['rho']:.4g}"
    lines = [
        f"Scheme {answer['scheme']}, protecting the unit {answer['unit']}.",
        f"Cost: epsilon {answer['epsilon']:.4g} at delta {answer['delta']:g}{rho} "
        f"(by {answer['method']}).",
        *answer["lines"],
    ]
    if "cap" in answer:
        cap = answer["cap"]
        enough = "enough" if cap["enough_for_a_year"] else "not enough"
        lines.append(
            f"A cap of epsilon {cap['epsilon']:g} bears {cap['releases']} such releases; a year "
            f"has {cap['periods_in_a_year']:g} such periods, so that is {enough}."
        )
    if "rehearsal" in answer:
        lines += _rehearsed(answer["rehearsal"])
    return "\n".join([*lines, "Nothing was read and nothing was spent."])


def _rehearsed(said: dict[str, Any]) -> list[str]:
    lines = [
        f"Rehearsed on {said['people']:,} made-up people in {said['zones']} zones "
        f"({said['assumes']}):",
        f"  mean relative error {said['mean_relative_error']:.3f}",
    ]
    lines += [f"  counts near {size}: {error:.2f}" for size, error in said["by_count"].items()]
    if "best_bound" in said:
        lines.append(
            f"  best bound tried: {said['best_bound']} (error {said['error_at_best_bound']:.3f})"
        )
    if "target_error" in said:
        reached = said["epsilon_for_target"]
        lines.append(
            f"  an error of {said['target_error']:g} takes epsilon {reached:.3g}"
            if reached is not None
            else f"  an error of {said['target_error']:g} is out of reach at any epsilon up to 20"
        )
    return lines
