"""What would make a useless release useful: longer slots, fewer zones, more epsilon, a fold.

A baseline may also need a wider bound, or to be left for the default scheme.

Each kind of change is tried from the smallest step on until the forecast (`density.fitness`) calls
the release useful; what is found is listed by how large the change is, as a factor. Public facts
only, nothing is read or spent.

More people or more visits to a number can only help, so the largest step of a kind is forecast
first, which ends it where that does not help, and then the smallest that works is found by halving
the list of its steps. So a million cells take some ten forecasts, each of a part of the town.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from sfumato.density.fitness import MOST, Case, Fitness, fitness
from sfumato.density.registry import DEFAULT, scheme_named
from sfumato.density.request import bound_text
from sfumato.model.counts import Bound, SampleBound, WeightBound
from sfumato.model.folded import FOLDS, folded_period
from sfumato.model.rounding import percent
from sfumato.model.source import Progress
from sfumato.model.time_grid import parse_step, period_of
from sfumato.privacy.events import USER_PERIOD

_SLOTS = ("30min", "1h", "2h", "3h", "4h", "6h", "8h", "12h", "1d", "1w")
_FEWER = (1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
"""How many times fewer zones are tried …"""
_MORE = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
"""… and how many times more epsilon, up to …"""
_MOST_EPSILON = 5.0
_FEWEST_ZONES = 4
_CELL = re.compile(r"(\d+(?:\.\d+)?)(m|km)(@.*)?")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_INDEXED = re.compile(r"(h3|geohash):(\d+)")
_LARGER = (1.5, 2, 3, 4, 6, 10, 15, 20, 30, 50, 100)
"""How many times larger squares are tried: 100 m in a city may have to be 5 km."""
_FEWER_CELLS = {"h3": 7.0, "geohash": 32.0}
_HEADS = {
    "total_half_width": "total known to",
    "error_ratio": "mean error",
    "uncertain_visits": "uncertain visits",
}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Settings under which a release is of use."""

    settings: Mapping[str, str]
    """Option (as in Python) to its value."""
    factor: float
    """How much of a change it is: 2 for slots twice as long, half the zones, twice the epsilon."""
    fitness: Fitness

    @property
    def in_python(self) -> str:
        """As parameters in backticks, which the command line shows as flags."""
        return " with ".join(
            f"about {value} zones" if name == "zone_count" else f"`{name}={_literal(value)}`"
            for name, value in self.settings.items()
        )

    @property
    def in_flags(self) -> str:
        """As one would type it; fewer zones are drawn, not typed."""
        return " ".join(
            f"about {value} zones"
            if name == "zone_count"
            else f"--{name.replace('_', '-')} {value}"
            for name, value in self.settings.items()
        )

    def answer(self) -> dict[str, object]:
        """Plain data."""
        figures = self.fitness.figures
        return {
            "settings": dict(self.settings),
            "figures": None if figures is None else dict(figures),
        }


@dataclass(frozen=True, slots=True)
class _Step:
    settings: Mapping[str, str]
    factor: float
    case: Case


def suggestions(
    case: Case, cells: str | None = None, progress: Progress | None = None
) -> list[Suggestion]:
    """What would work, the smallest change first.

    Args:
        case: What is planned.
        cells: The grid that its places are cells of (`500m`, `h3:8`), if they are.
        progress: Told the stage.

    Returns:
        At most one change of each kind; where no single one works, pairs of longer slots and
        fewer zones; empty where nothing helps.
    """
    if progress is not None:
        progress("looking for what would be of use", -1.0)
    slots, zones = _longer_slots(case), _fewer_zones(case, cells)
    kinds = [slots, zones, _more_epsilon(case), _folded(case)]
    kinds += [_wider_bounds(case), _default_scheme(case)]
    found = [made for steps in kinds if (made := _smallest(steps)) is not None]
    if not found:
        pairs = [_both(slot, zone) for slot in slots[-3:] for zone in zones[-3:]]
        pairs.sort(key=lambda step: step.factor)
        first = _smallest(pairs)
        found = [] if first is None else [first]
    return sorted(found, key=lambda made: made.factor)


def table(found: Sequence[Suggestion]) -> list[str]:
    """The suggestions as lines of a table."""
    if not found:
        return [
            "Nothing that was tried makes it useful: there are too few people for this. Publish a "
            "larger area, a longer period, or nothing."
        ]
    width = max(12, *(len(made.in_flags) for made in found))
    heads = "  ".join(f"{head:>16}" for head in _HEADS.values())
    lines = ["What would work, the smallest change first:", f"  {'change':<{width}}  {heads}"]
    for made in found:
        figures = made.fitness.figures
        shown = (
            "  ".join(f"{percent(figures[name]):>16}" for name in MOST)
            if figures is not None
            else "far from every limit"
        )
        lines.append(f"  {made.in_flags:<{width}}  {shown}")
    return lines


def _literal(value: str) -> str:
    """A value as Python has it: numbers as they are, texts such as 8h in quotes."""
    return value if _NUMBER.fullmatch(value) else f'"{value}"'


def _smallest(steps: Sequence[_Step]) -> Suggestion | None:
    """The first step that works, later ones being at least as good."""
    low, high, middle = 0, len(steps) - 1, len(steps) - 1
    best = None
    while low <= high:
        found = fitness(steps[middle].case, brief=True)
        if found.failing:
            low = middle + 1
        else:
            best = Suggestion(steps[middle].settings, steps[middle].factor, found)
            high = middle - 1
        middle = (low + high) // 2
    return best


def _days(case: Case) -> tuple[datetime, datetime]:
    """The local midnights at which the period begins and ends."""
    local = ZoneInfo(case.grid.tz)
    first, after = (datetime.fromtimestamp(at / 1e6, UTC) for at in case.grid.period)
    return first.astimezone(local), after.astimezone(local)


def _longer_slots(case: Case) -> list[_Step]:
    first, after = _days(case)
    found = []
    for text in _SLOTS:
        length = parse_step(text)
        longest = timedelta(days=FOLDS[case.grid.fold]) if case.grid.fold else after - first
        if case.grid.step < length <= longest:
            grid = period_of(first.date(), after.date(), text, case.grid.tz, case.grid.fold)
            factor = length / case.grid.step
            found.append(_Step({"slot": text}, factor, case.with_grid(grid)))
    return found


def _folded(case: Case) -> list[_Step]:
    """Two or more whole weeks as one, if the slots fill it; the weeks count as the change."""
    first, after = _days(case)
    weeks, left = divmod((after.date() - first.date()).days, 7)
    if case.grid.fold is not None or left or weeks < 2 or timedelta(days=1) % case.grid.step:
        return []
    grid = folded_period(first.date(), after.date(), case.grid.step, case.grid.tz, "week")
    return [_Step({"fold": "week"}, float(weeks), case.with_grid(grid))]


def _fewer_zones(case: Case, cells: str | None) -> list[_Step]:
    if cells is not None:
        return _coarser_cells(case, cells)
    counts = [math.floor(case.released / factor) for factor in _FEWER]
    return [
        _Step({"zone_count": str(count)}, case.released / count, case.with_released(count))
        for count in counts
        if _FEWEST_ZONES <= count < case.released
    ]


def _coarser_cells(case: Case, cells: str) -> list[_Step]:
    steps = []
    for text, factor in coarser_grids(cells):
        count = round(case.released / factor)
        if count >= _FEWEST_ZONES:
            steps.append(_Step({"grid": text}, factor, case.with_released(count)))
    return steps


def coarser_grids(cells: str) -> list[tuple[str, float]]:
    """Coarser grids than this one, and how many times fewer cells each has."""
    if square := _CELL.fullmatch(cells):
        metres = float(square[1]) * (1000 if square[2] == "km" else 1)
        found = []
        for times in _LARGER:
            side = round(metres * times)  # as squares are: of whole metres
            text = f"{side / 1000:.10g}km" if side >= 1000 else f"{side}m"
            found.append((text + (square[3] or ""), (side / metres) ** 2))
        return found
    if index := _INDEXED.fullmatch(cells):
        fewer = _FEWER_CELLS[index[1]]
        levels = range(1, int(index[2]))
        return [(f"{index[1]}:{int(index[2]) - up}", fewer**up) for up in levels]
    return []


def _more_epsilon(case: Case) -> list[_Step]:
    found = []
    for factor in _MORE:
        epsilon = float(f"{case.epsilon * factor:.2g}")
        if case.epsilon < epsilon <= _MOST_EPSILON:
            step = _Step({"epsilon": f"{epsilon:g}"}, factor, replace(case, epsilon=epsilon))
            found.append(step)
    return found


def _wider_bounds(case: Case) -> list[_Step]:
    """A scheme that does not put back what its bound takes away may need a wider one."""
    if scheme_named(case.scheme).declares.own_bounds:
        return []
    bounds: list[tuple[int, Bound]] = [
        (times, SampleBound(case.bound.slots * times))
        if isinstance(case.bound, SampleBound)
        else (times, WeightBound(case.bound.limit * times))
        for times in (2, 4, 8)
    ]
    return [
        _Step({"bound": bound_text(bound)}, float(times), replace(case, bound=bound))
        for times, bound in bounds
    ]


def _default_scheme(case: Case) -> list[_Step]:
    """The default costs as much, so it is the smallest change."""
    if case.scheme == DEFAULT or case.unit != USER_PERIOD:
        return []
    return [_Step({"scheme": DEFAULT}, 1.0, replace(case, scheme=DEFAULT, parameters=()))]


def _both(slot: _Step, zone: _Step) -> _Step:
    case = zone.case.with_grid(slot.case.grid)
    return _Step({**slot.settings, **zone.settings}, slot.factor * zone.factor, case)
