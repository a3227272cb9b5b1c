"""Will a release be of any use? Forecast from public facts alone, before anything is spent.

A budget that is spent on noise is spent all the same, so `release` asks first. Nothing private
decides: the forecast is made from the number of people, places and slots, the budget and the
scheme, so whether there is a release says nothing about anybody.

**One estimator.** `plan`, the gate of `release` and what a release keeps in its manifest are this
forecast. The scheme is run on made-up people (`density.rehearsal`); how well the total will be
known is read from the ladder that such people would make, by the posterior of the release itself
(`bayes.expected`), where the scheme has one.

**What nobody stated makes a range** (`Case.activity`). How often a person is seen decides more than
anything else, and is not known. It is forecast at both ends of what it may be:

* `visits` are stated: from half of it to twice of it, which is one standard deviation of what the
  release itself believes then (`STATED_SD`);
* they are not: from as many as in call records (two a day) down to a fourth, for people who make a
  record themselves; where the format is that of a fleet, whose receivers write all day, from one to
  `FAR_REACH` places in every slot.

Either end is opened by `GOOD_TO`, what a forecast for the right activity is good to. A range wider
than `WIDEST` says nothing: it is drawn together around its middle.

**When it is useless.** A release is refused where even the better end of a range is too large: the
grand total is not known to a quarter of its value, the mean absolute error of the median (of the
count, where there is none) is above .9 of that of the better of two answers that cost nothing
(zeros everywhere, and the expected visits spread evenly), or more than half of the visits are in
cells whose estimation error is above half of their value.

**The same verdict everywhere.** Made-up people, noise and draws come from fixed seeds, sums run on
one thread, and figures are rounded to two digits before they are compared.

**What it costs.** The gate rehearses the middle, and both ends only where the middle is too large;
nothing where the signal is far above every threshold (`Declaration.plenty`). `plan` rehearses all
three: some seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.density.bayes.ladder import FAR_REACH, STATED_SD
from sfumato.density.bayes.settings import expected_visits
from sfumato.density.registry import scheme_named
from sfumato.density.rehearsal import COVERAGE, Forecast, Rehearsal
from sfumato.density.scheme import ForeseesTotal, Parameter, PublicFacts, Signal
from sfumato.engine.local import LocalSource
from sfumato.model.counts import Bound, Counting
from sfumato.model.events import Events
from sfumato.model.places import Places
from sfumato.model.rounding import number_of, percent
from sfumato.model.source import RecallingSource, Source
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.accounting import gaussian_mu
from sfumato.privacy.events import Unit
from sfumato.utility.density import relative_error

MOST: Mapping[str, float] = MappingProxyType(
    {"total_half_width": 0.25, "error_ratio": 0.9, "uncertain_visits": 0.5}
)
"""The most that each figure may be. A release whose better end is above any of them is useless."""
MRE = "mean_relative_error"
_SAID = {
    "total_half_width": "the grand total would be known to {0} of its value (at most {1})",
    "error_ratio": "the mean error of a number would be {0} of that of zeros or of an even "
    "spread, whichever is better (at most {1})",
    "uncertain_visits": "{0} of the visits would be in cells whose error exceeds half of their "
    "value (at most {1})",
}
GOOD_TO = 1.5
"""A forecast for people as active as they are is to lie within this factor of what is published;
how often it does is in docs/commands/plan.md."""
WIDEST = 6.0
"""Upper end of a range over its lower one, at most."""
_FEWER_VISITS = 4.0
"""Check-ins are a fourth of calls: 3.5 a week in place of 13.55 (docs/benchmarks/levels.md)."""
_EVENTS = 300_000
"""Visits that are made up, about: they take half a second."""
_FEWEST_PEOPLE = 200


Ends = tuple[float, float]


def opened(values: Sequence[float], most: float = math.inf) -> Ends:
    """The range of these forecasts, as far as one is good to; `most` is what can be at all."""
    low, high = min(values) / GOOD_TO, max(values) * GOOD_TO
    low, high = float(f"{low:.2g}"), min(float(f"{high:.2g}"), most, 99.0)
    if high > WIDEST * low:
        half = math.sqrt(WIDEST)
        centre = min(math.sqrt(low * high), most / half)
        low = float(f"{centre / half:.2g}")
        high = float(f"{WIDEST * low:.3g}")
    return low, high


@dataclass(frozen=True, slots=True)
class Case:
    """What a forecast depends on. Places enter by their number alone."""

    scheme: str
    users: int
    places: int
    """Counted places …"""
    released: int
    """… and those that numbers are released for."""
    spread: bool
    """Whether the ones are spread over the others."""
    grid: TimeGrid = field(compare=False)
    slots: str
    """The grid's fingerprint, by which cases compare."""
    epsilon: float
    delta: float
    unit: Unit
    bound: Bound
    counting: Counting
    parameters: tuple[tuple[str, Parameter], ...]
    fleet: bool = False
    """Whether the events are of a format whose receivers write all day."""

    @classmethod
    def of(
        cls, scheme: str, facts: PublicFacts, released: int | None = None, fleet: bool = False
    ) -> Case | None:
        """The case of these facts; None where nobody says how many people there are."""
        if facts.expected_users is None:
            return None
        places = len(set(facts.place_ids.tolist()))  # a tower that moved has several rows
        zones = released or int(np.unique(facts.released_ids).size)
        return cls(
            scheme=scheme,
            users=facts.expected_users,
            places=places,
            released=zones,
            spread=facts.overlay is not None or zones != places,
            grid=facts.grid,
            slots=facts.grid.fingerprint(),
            epsilon=facts.epsilon,
            delta=facts.delta,
            unit=facts.unit,
            bound=facts.bound,
            counting=facts.counting,
            parameters=tuple(sorted(facts.parameters.items())),
            fleet=fleet,
        )

    def with_grid(self, grid: TimeGrid) -> Case:
        """The same in other slots; visits that are stated become fewer as slots get longer."""
        fewer = (grid.slots / self.grid.slots) ** 0.4
        parameters = tuple(
            (name, min(float(value) * fewer, 10.0 * grid.slots) if name == "visits" else value)
            for name, value in self.parameters
        )
        return replace(self, grid=grid, slots=grid.fingerprint(), parameters=parameters)

    def with_released(self, released: int) -> Case:
        """The same for fewer places; what is counted stays, if it is spread over them."""
        return replace(self, released=released, places=self.places if self.spread else released)

    @property
    def facts(self) -> PublicFacts:
        """As a scheme is told them."""
        return PublicFacts(
            np.array([f"place {number:07d}" for number in range(self.places)]),
            self.grid,
            self.epsilon,
            self.delta,
            expected_users=self.users,
            unit=self.unit,
            bound=self.bound,
            counting=self.counting,
            parameters=dict(self.parameters),
        )

    @property
    def stated(self) -> bool:
        """Whether the holder says how often a person is seen."""
        return any(name == "visits" for name, _ in self.parameters)

    @property
    def activity(self) -> tuple[float, float, float]:
        """Visits of a person: the middle, and the ends between which they may be."""
        expected = expected_visits(self.facts)
        if self.stated:
            return expected, expected / math.exp(STATED_SD), expected * math.exp(STATED_SD)
        if self.fleet:
            each = min(FAR_REACH, self.places)
            low, high = float(self.grid.slots), float(each * self.grid.slots)
        else:
            low, high = expected / _FEWER_VISITS, expected
        return math.sqrt(low * high), low, high

    @property
    def signal(self) -> Signal:
        """How loud these people are under this budget."""
        whole = self.users * gaussian_mu(self.epsilon, self.delta)
        cells = self.released * self.grid.slots
        visits = self.users * expected_visits(self.facts) / cells
        return Signal(self.users, whole, whole / self.released, self.users / cells, visits)


@dataclass(frozen=True, slots=True)
class Fitness:
    """A forecast and its verdict. Figures are rounded, so that they compare alike everywhere."""

    signal: Signal
    figures: Mapping[str, float] | None
    """In the middle, by the names of `MOST`; None where the signal was enough to tell."""
    ranges: Mapping[str, Ends] = field(default_factory=lambda: MappingProxyType({}))
    """Both ends of figures, as far as they were forecast; of `MRE`, too."""
    forecast: Forecast | None = None
    """What was rehearsed in the middle."""
    people: int = 0
    """Made-up people of the rehearsal …"""
    places: int = 0
    """… and the places they live in."""
    promised: bool = False
    """From this signal on nothing is refused (`Declaration.never_refused`)."""
    stated: bool = True
    """Whether the holder says how often people are seen; if not, the middle is nobody's word."""

    @property
    def failing(self) -> tuple[str, ...]:
        """Names of the figures whose middle is too large."""
        figures = self.figures or {}
        return tuple(name for name, most in MOST.items() if figures.get(name, 0.0) > most)

    @property
    def useless(self) -> bool:
        """Whether a release is refused unless it is asked for all the same."""
        return bool(self._hopeless) and not self.promised

    @property
    def _hopeless(self) -> tuple[str, ...]:
        """Names of the figures that are too large at their better end."""
        return tuple(
            name for name in self.failing if self.ranges.get(name, (math.inf,))[0] > MOST[name]
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is too large, in words: at its better end, if anything is."""
        return tuple(
            _SAID[name].format(self._words(name), percent(MOST[name]))
            for name in self._hopeless or self.failing
        )

    def _words(self, name: str) -> str:
        """A figure: what is expected where somebody stated how often people are seen, and its range
        where that was forecast."""
        middle = _percent((self.figures or {}).get(name, 0.0))
        if name not in self.ranges:
            return middle if self.stated else f"about {middle}"
        ends = " to ".join(_percent(end) for end in self.ranges[name])
        return f"{middle} ({ends})" if self.stated else ends

    @property
    def caveats(self) -> list[str]:
        """For the reader of a release that was made although something is too large."""
        if not self.failing:
            return []
        return [
            "Before anything was measured, a forecast on made-up people said of a release like "
            f"this one that {'; '.join(self.reasons)}."
            + (" It was published all the same." if self.useless else "")
        ]

    def lines(self) -> list[str]:
        """The forecast in plain words."""
        if self.figures is None:
            return [
                "Useful beyond doubt: the signal is "
                f"{self.signal.whole:,.0f}, {self.signal.place:,.3g} a place."
            ]
        said = [
            "Will it be of use? A forecast on "
            f"{self.people:,} made-up people in {number_of(self.places, 'places')}"
            + ("" if self.stated else "; nobody stated how often people are seen")
            + ":"
        ]
        words = {
            "total_half_width": "grand total known to",
            "error_ratio": "mean error, against zeros or an even spread",
            "uncertain_visits": "visits in cells with an error above half of their value",
        }
        for name, most in MOST.items():
            said.append(f"  {words[name]}: {self._words(name)} (at most {percent(most)})")
        if self.useless:
            said.append("  So it is useless, and `release` refuses it.")
        elif self.failing:
            said.append("  So it is rough; it is not refused, and says so.")
        else:
            said.append("  So it is of use.")
        return said

    def answer(self) -> dict[str, object]:
        """Plain data."""
        return {
            "figures": None if self.figures is None else dict(self.figures),
            "ranges": {name: list(ends) for name, ends in self.ranges.items()},
            "most": dict(MOST),
            "signal": round(self.signal.whole, 1),
            "signal_per_place": round(self.signal.place, 3),
            "failing": list(self.failing),
            "useless": self.useless,
        }


def _percent(share: float) -> str:
    """With two digits: ends of a range of small shares are not to look further apart."""
    return percent(share, 1 if share < 0.1 else 0)


def _rounded(value: float) -> float:
    """To two digits, or to a hundredth where that says more."""
    return min(round(value, 2) if value >= 0.1 else float(f"{value:.2g}"), 99.0)


def fitness(case: Case, brief: bool = False) -> Fitness:
    """The forecast for a case, as far as the gate needs it: the middle, and both ends where that is
    too large, unless it is to be brief. The same on every machine, from public facts alone."""
    declared, signal = scheme_named(case.scheme).declares, case.signal
    if declared.plenty is not None and signal.reaches(declared.plenty):
        return Fitness(signal, None)
    middle = _forecast(case, case.activity[:1])
    return outlook(case) if middle.failing and not brief else middle


def outlook(case: Case) -> Fitness:
    """The whole forecast, whatever the signal: the middle and both ends."""
    return _forecast(case, case.activity)


def _forecast(case: Case, tried: Sequence[float]) -> Fitness:
    """For people who make these visits, the expected first."""
    declared, signal = scheme_named(case.scheme).declares, case.signal
    rehearsed = [_rehearsed(case, visits) for visits in tried]
    values = {
        name: [float(getattr(forecast, name)) for forecast, _, _ in rehearsed]
        for name in (*MOST, MRE)
    }
    widths = [_half_width(case, visits) for visits in tried]
    if None not in widths:
        values["total_half_width"] = [width for width in widths if width is not None]
    forecast, people, places = rehearsed[0]
    return Fitness(
        signal,
        {name: _rounded(values[name][0]) for name in MOST},
        {
            name: opened(each, 1.0 if name == "uncertain_visits" else math.inf)
            for name, each in values.items()
            if len(each) > 1
        },
        forecast,
        people,
        places,
        declared.never_refused is not None and signal.reaches(declared.never_refused),
        case.stated,
    )


@lru_cache(maxsize=256)
def _half_width(case: Case, visits: float) -> float | None:
    """Of the total, for people who make so many visits, where the scheme foresees it."""
    scheme = scheme_named(case.scheme)
    if not isinstance(scheme, ForeseesTotal):
        return None
    with threadpool_limits(1):
        return scheme.total_half_width(case.facts, visits, COVERAGE, case.fleet)


@lru_cache(maxsize=128)
def _rehearsed(case: Case, visits: float) -> tuple[Forecast, int, int]:
    """A town like this one, or a part of it, made up and released; its people and places."""
    stage = stage_of(case, visits)
    return stage.run(scheme_named(case.scheme)), stage.users, stage.zones


def stage_of(case: Case, visits: float) -> Rehearsal:
    """A town like this one, or a part of it, made up, whose people make so many visits."""
    people = max(_FEWEST_PEOPLE, round(_EVENTS / max(visits, 1.0)))
    with threadpool_limits(1):
        return Rehearsal(
            case.facts,
            case.users,
            case.released,
            _remembered,
            relative_error,
            people=people,
            spread=case.spread,
            visits=visits,
        )


def _remembered(events: Events, places: Places, grid: TimeGrid) -> Source:
    return RecallingSource(LocalSource(events, places, grid), samples=1)
