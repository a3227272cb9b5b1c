"""`sfumato.plan`: what a release will cost and how good it will be, before anything is spent.

No events are read: everything follows from public facts, and from a rehearsal on made-up people
where errors are forecast (`density.rehearsal`). The cost is that of the planned measurements,
composed as a ledger composes them, so that "how many releases does a cap allow" has the answer
that the ledger will give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from html import escape
from typing import Any

import numpy as np

from sfumato.density.fitness import MRE, Case, Fitness, fitness, outlook, stage_of
from sfumato.density.registry import DEFAULT, scheme_named
from sfumato.density.request import bound_text, counting_of, parse_bound, request
from sfumato.density.scheme import Parameter, Plan, PublicFacts, Scheme
from sfumato.density.suggest import suggestions, table
from sfumato.errors import UsageError
from sfumato.geography.border import border_lines
from sfumato.geography.places import PlaceOptions
from sfumato.io.beforehand import of_fleet, require_possible
from sfumato.model.counts import Bound, Counting, SampleBound, WeightBound
from sfumato.model.rounding import number_of, rounded_up
from sfumato.model.source import Progress
from sfumato.model.time_grid import period_of
from sfumato.privacy.events import PrivacyEvent, Unit
from sfumato.privacy.ledger.totals import Spend, compose

_ASSUMED = "{}; everyday rhythms, no one-off crowds"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The cost of a release, and what was forecast of its errors. `answer` is plain data."""

    answer: Mapping[str, Any]
    use: tuple[str, ...] = ()
    """Whether it would be of use, and what would work, in words."""

    def lines(self) -> list[str]:
        """The outlook in plain words."""
        said = self.answer
        rho = "" if said["rho"] is None else f", rho {rounded_up(said['rho'], 4)}"
        lines = [
            f"Scheme {said['scheme']}, protecting the unit {said['unit']}.",
            f"Cost: epsilon {rounded_up(said['epsilon'], 4)} at delta "
            f"{rounded_up(said['delta'])}{rho} "
            f"(by {said['method']}).",
            *said["lines"],
        ]
        lines += _at_border(said.get("border", {}))
        if "cap" in said:
            cap = said["cap"]
            enough = "enough" if cap["enough_for_a_year"] else "not enough"
            lines.append(
                f"A cap of epsilon {cap['epsilon']:g} allows {cap['releases']} such releases; a "
                f"year has {cap['periods_in_a_year']:g} such periods, so that is {enough}."
            )
        if "rehearsal" in said:
            lines += _rehearsed(said["rehearsal"])
        lines += self.use
        return [*lines, "Nothing was read and nothing was spent."]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        said = self.answer
        return f"<Outlook: {said['scheme']}, epsilon {rounded_up(said['epsilon'], 4)}>"

    def _repr_html_(self) -> str:
        return "<br>".join(escape(line) for line in self.lines())


def plan(
    *,
    epsilon: float,
    delta: float,
    expected_users: int,
    scheme: str = DEFAULT,
    parameter: Mapping[str, Parameter] | None = None,
    bound: Bound | str | None = None,
    count: Counting | str = Counting.VISITS,
    unit: str = "user-period",
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
    column: Mapping[str, str] | None = None,
    events: object = None,
    format: str | None = None,
    tower_count: int | None = None,
    zone_count: int | None = None,
    start: date | str = "2024-01-08",
    end: date | str = "2024-01-15",
    slot: str = "1h",
    tz: str = "UTC",
    fold: str | None = None,
    target_error: float | None = None,
    cap_epsilon: float | None = None,
    rehearse: bool = True,
    suggest: bool = False,
    progress: Progress | None = None,
) -> Outlook:
    """Say what a release will cost and how good it will be. Spends nothing, reads no events.

    Args:
        epsilon: Privacy loss of one release.
        delta: Well below one over the number of people.
        expected_users: How many people, from public knowledge, rounded.
        scheme: How the numbers are made.
        parameter: Settings of the scheme's own, by name.
        bound: What one person may contribute: weight:3 or sample:30.
        count: What is counted: visits or people.
        unit: What is protected.
        towers: Towers, as for `release`.
        zones: Zones, as for `release`.
        grid: Cells instead of zones, as for `release`.
        region: What the grid covers.
        zone_id: Column of the zones' ids.
        zone_name: Column of the zones' names.
        layer: Layer of the zones' or the region's file.
        repair_zones: Make crossing outlines valid.
        drop_bad_towers: Leave out towers without a usable position.
        border: How far the towers' cells reach beyond the zones: 0, 500m or reach (half the way
            to the next towers); default: 0 where no tower stands outside the zones, else 3km.
        column: Which column of the towers' file is what: `{"towers.id": "cell"}`.
        events: Where the events will be. None is opened: the names of files say whether their
            records can name a tower.
        format: Format of the events, as for `release`.
        tower_count: How many towers, where there is no file yet.
        zone_count: How many zones, where there is no file yet.
        start: First day.
        end: First day after the period.
        slot: Length of a time slot.
        tz: Time zone.
        fold: Fold the period to a typical week or day, as for `release`.
        target_error: Find the epsilon of this mean relative error, by rehearsing.
        cap_epsilon: Say how many releases a year fit this cap.
        rehearse: Forecast errors on made-up people, and whether `release` would refuse it.
        suggest: Say what would make it useful, if it is not.
        progress: Told the stage.

    Returns:
        The outlook, which prints itself; `answer` holds its numbers.

    Raises:
        UsageError: What is asked for does not go together.

    Example:
        >>> outlook = sfumato.plan(
        ...     epsilon=1, delta=1e-6, expected_users=20_000, zone_count=40, rehearse=False
        ... )
        >>> print(outlook.lines()[0])
        Scheme bayes, protecting the unit user-period.
    """
    if target_error is not None and not rehearse:
        raise UsageError(
            "The epsilon of a `target_error` is found by rehearsing, and `rehearse` is off.",
            remedy="Leave one of the two out.",
        )
    recipe, tell = scheme_named(scheme), progress or (lambda *_: None)
    tell("opening places", -1.0)
    said = PlaceOptions(
        towers,
        zones,
        grid,
        region,
        zone_id,
        zone_name,
        layer,
        repair_zones,
        drop_bad_towers,
        border,
        column,
        number_towers=True,
    )
    slots = period_of(start, end, slot, tz, fold)
    no_towers = towers is None and tower_count is None
    require_possible(events, format, column, zones=no_towers)
    if said.given:
        if tower_count is not None or zone_count is not None:
            raise UsageError(
                "Places are given as files or as numbers, not both.",
                remedy="Leave `tower_count` and `zone_count` out, or the files.",
            )
        asked = request(
            places=said,
            grid=slots,
            dataset="plan",
            name="plan",
            epsilon=epsilon,
            delta=delta,
            scheme=scheme,
            bound=bound,
            count=count,
            expected_users=expected_users,
            parameter=parameter,
            tz=tz,
        )
        facts, released, loss = asked.facts, len(asked.released), asked.finish.loss
    else:
        loss = None
        counted = tower_count or zone_count
        if border is not None:
            raise UsageError("A `border` goes with files of `towers` and `zones`.")
        if counted is None or counted < 1 or (zone_count is not None and zone_count < 1):
            raise UsageError(
                "The number of places is missing.",
                remedy="Give `towers` and `zones`, `grid` and `region`, or `tower_count` and "
                "`zone_count`.",
            )
        facts = PublicFacts(
            np.array([f"place {i:06d}" for i in range(counted)]),
            slots,
            epsilon,
            delta,
            expected_users=expected_users,
            bound=parse_bound(bound) if isinstance(bound, str) else bound or WeightBound(3.0),
            counting=counting_of(count),
            parameters=dict(parameter or {}),
        )
        released = zone_count or counted
    facts = replace(facts, unit=Unit.parse(unit))
    answer = _cost_answer(scheme, facts, cost(recipe, facts))
    if loss is not None:
        answer["border"] = loss.facts()
    if cap_epsilon is not None:
        fits = releases_within(recipe.plan(facts), cap_epsilon, delta)
        a_year = YEAR_DAYS / period_days(facts)
        answer["cap"] = {
            "epsilon": cap_epsilon,
            "releases": fits,
            "periods_in_a_year": round(a_year, 1),
            "enough_for_a_year": fits >= a_year,
        }
    use: list[str] = []
    case = Case.of(scheme, facts, released, of_fleet(events, format, column))
    if case is not None and (rehearse or suggest):
        tell("forecasting on made-up people", -1.0)
        found = outlook(case) if rehearse else fitness(case)
        if rehearse:
            answer["rehearsal"] = _rehearsal(case, found, target_error)
        answer["fitness"], use = found.answer(), found.lines()
        if suggest:
            working = suggestions(case, grid, progress) if found.failing else []
            answer["suggestions"] = [made.answer() for made in working]
            use += table(working) if found.failing else ["Nothing has to be changed for that."]
    return Outlook(answer, tuple(use))


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


def _at_border(facts: Mapping[str, Any]) -> list[str]:
    """What is lost at the border, and at which towers most."""
    worst = str(facts.get("border_worst_towers", ""))
    lines = border_lines(facts)
    return [*lines[:1], *([f"  share lost at the worst: {worst}"] if worst else []), *lines[1:]]


def _rehearsal(case: Case, found: Fitness, target: float | None) -> dict[str, Any]:
    """What a rehearsal says."""
    recipe, forecast = scheme_named(case.scheme), found.forecast
    assert forecast is not None
    said: dict[str, Any] = {
        "people": found.people,
        "zones": found.places,
        "mean_relative_error": forecast.mean_relative_error,
        "mean_relative_error_range": list(found.ranges[MRE]),
        "by_count": {str(size): error for size, error in forecast.by_size.items()},
        "assumes": _ASSUMED.format(_activity(case)),
        "stated": case.stated,
    }
    if recipe.declares.own_bounds and target is None:
        return said
    stage = stage_of(case, case.activity[0])
    if not recipe.declares.own_bounds:
        best, at_best = stage.best_bound(recipe, _candidates(case.facts))
        said["best_bound"] = bound_text(best)
        said["error_at_best_bound"] = at_best.mean_relative_error
    if target is not None:
        said["target_error"] = target
        said["epsilon_for_target"] = stage.epsilon_for(recipe, target)
    return said


def _activity(case: Case) -> str:
    """How active the made-up people are: as the holder states it, or as nobody does."""
    middle, low, high = case.activity
    if case.stated:
        return f"about {middle:.4g} visits of a person in the period, as stated"
    return f"{low:.3g} to {high:.3g} visits of a person in the period, which nobody stated"


def _candidates(facts: PublicFacts) -> list[Bound]:
    if isinstance(facts.bound, SampleBound):
        tried = sorted({facts.bound.slots, 5, 10, 30, 60})
        return [SampleBound(slots) for slots in tried if slots <= facts.grid.slots]
    return [WeightBound(c) for c in sorted({facts.bound.limit, 1.0, 1.5, 2.0, 3.0, 4.5, 6.0})]


def _rehearsed(said: Mapping[str, Any]) -> list[str]:
    low, high = said["mean_relative_error_range"]
    middle = f"{said['mean_relative_error']:.3f}, " if said["stated"] else ""
    lines = [
        f"Rehearsed on {said['people']:,} made-up people in {number_of(said['zones'], 'zones')} "
        f"({said['assumes']}):",
        f"  mean relative error {middle}{low:.2g} to {high:.2g}",
    ]
    lines += [f"  counts near {size}: {error:.2f}" for size, error in said["by_count"].items()]
    if "best_bound" in said:
        lines.append(
            f"  best bound tried: {said['best_bound']} (error {said['error_at_best_bound']:.3f})"
        )
    if "target_error" in said:
        reached = said["epsilon_for_target"]
        lines.append(
            f"  an error of {said['target_error']:g} takes epsilon {rounded_up(reached)}"
            if reached is not None
            else f"  an error of {said['target_error']:g} is out of reach at every epsilon up to 20"
        )
    return lines


_MOST_RELEASES = 1 << 12
"""Beyond that many nobody counts."""
YEAR_DAYS = 365.25


@dataclass(frozen=True, slots=True)
class Cost:
    """One release: what it spends and the noise on each number it measures, in counts."""

    spend: Spend
    noise: dict[str, float]
    released_sd: float
    lines: tuple[str, ...]


def cost(scheme: Scheme, facts: PublicFacts) -> Cost:
    """What `scheme` will be charged for one release."""
    plan = scheme.plan(facts)
    spend = compose(list(plan.events.values()), facts.delta, 1)
    noise = {planned.label: planned.sd for planned in plan.measurements if planned.sd > 0}
    return Cost(spend, noise, plan.sd, plan.lines)


def releases_within(plan: Plan, cap_epsilon: float, delta: float) -> int:
    """How many releases like this one a cap of `cap_epsilon` at `delta` bears in all.

    `_MOST_RELEASES` stands for that many or more.
    """
    if not cap_epsilon > 0:
        raise UsageError("A cap is a positive epsilon.", remedy="Try `cap_epsilon` 2.")
    events = list(plan.events.values())

    def fits(times: int) -> bool:
        return _repeated(events, times, delta).epsilon <= cap_epsilon

    low, high = 0, 1
    while high <= _MOST_RELEASES and fits(high):
        low, high = high, 2 * high
    if low == _MOST_RELEASES:
        return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def period_days(facts: PublicFacts) -> float:
    """Length of the period in days."""
    first, after = facts.grid.period
    return float(after - first) / 86_400e6


def _repeated(events: Sequence[PrivacyEvent], times: int, delta: float) -> Spend:
    return compose(list(events) * times, delta, times)
