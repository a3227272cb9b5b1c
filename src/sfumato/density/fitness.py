"""Will a release be of any use? Forecast from public facts alone, before anything is spent.

A budget that is spent on noise is spent all the same, so `release` asks first. Nothing private
decides: the forecast is made from the number of people, places and slots, the budget and the
scheme, so whether there is a release says nothing about anybody.

**What is forecast.** The scheme is run on made-up people (`density.rehearsal`), and the release is
called useless where

* the grand total would not be known to a quarter of its value: half of the 90 % interval of the
  posterior's total; where a scheme has no posterior, 1.645 root mean square errors of the total
  against the rehearsal's own truth;
* or the mean absolute error of the median (of the count, where there is none) would be above .9
  of that of the better of two answers that cost nothing: zeros everywhere, and the expected
  visits spread evenly;
* or more than half of the visits would be in cells whose estimation error is above half of
  their value. That error is the spread of the posterior's draws, without the chance that a count
  has around its expectation; where there are none, the root mean square error against the truth.

**The same verdict everywhere.** Made-up people, noise and draws come from fixed seeds, sums run on
one thread, and figures are rounded to two decimals before they are compared.

**What it costs.** Where the signal is far above every threshold nothing is rehearsed
(`Declaration.plenty`). Elsewhere a part of the town is, with as many people in a place and not
more numbers than `_CELLS`, once or twice. The level of a part is taken as known as well as that of
the whole, which is better in proportion to the people.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.city.plan import MAX_ZONES
from sfumato.density.bayes.settings import expected_visits
from sfumato.density.draws import mean_of, sums_of, variance_of
from sfumato.density.registry import scheme_named
from sfumato.density.rehearsal import Rehearsal
from sfumato.density.scheme import Density, Parameter, PublicFacts, Signal
from sfumato.engine.local import LocalSource
from sfumato.model.counts import Bound, Counting
from sfumato.model.events import Events
from sfumato.model.places import Places
from sfumato.model.rounding import number_of, percent
from sfumato.model.source import RecallingSource, Source
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.accounting import gaussian_mu
from sfumato.privacy.events import Unit

Table = NDArray[np.float64]

MOST: Mapping[str, float] = MappingProxyType(
    {"total_half_width": 0.25, "error_ratio": 0.9, "uncertain_visits": 0.5}
)
"""The most that each figure may be. A release above any of them is useless."""
_SAID = {
    "total_half_width": "the grand total would be known to {0} of its value (at most {1})",
    "error_ratio": "the mean error of a number would be {0} of that of zeros or of an even "
    "spread, whichever is better (at most {1})",
    "uncertain_visits": "{0} of the visits would be in cells whose error exceeds half of their "
    "value (at most {1})",
}
COVERAGE = 0.9
_WIDTH = 1.6448536269514722
"""Half of the interval that holds a normal number with that probability."""
_CELLS, _RICH_CELLS = 40_000, 70_000
"""Numbers in a rehearsed town, at most: a week of hours in 240 places; in 420 where `_RICH`."""
_FEWEST_PLACES = 40
_RICH = 3000.0
"""Signal from which `bayes` reads further layers: a part of such a town must have it, too."""
_PART_SIGNAL = 700.0
"""Signal that other parts have at least. Against whole towns the figures of such parts were off by
at most .06 in eleven cases of 5,000 to 84,000 people."""
_EVENTS = 300_000
"""Visits that are made up, about: they take half a second."""
_TWICE = 20_000
"""Cells up to which two draws of the noise are made; they differ more where there are fewer."""


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

    @classmethod
    def of(cls, scheme: str, facts: PublicFacts, released: int | None = None) -> Case | None:
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
    """By the names of `MOST`; None where the signal was enough to tell."""
    people: int = 0
    """Made-up people of the rehearsal …"""
    places: int = 0
    """… and the places they live in."""
    promised: bool = False
    """From this signal on nothing is refused (`Declaration.never_refused`)."""

    @property
    def failing(self) -> tuple[str, ...]:
        """Names of the figures that are too large."""
        figures = self.figures or {}
        return tuple(name for name, most in MOST.items() if figures.get(name, 0.0) > most)

    @property
    def useless(self) -> bool:
        """Whether a release is refused unless it is asked for all the same."""
        return bool(self.failing) and not self.promised

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is too large, in words."""
        figures = self.figures or {}
        return tuple(
            _SAID[name].format(*map(percent, (figures[name], MOST[name]))) for name in self.failing
        )

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
            f"{self.people:,} made-up people in {number_of(self.places, 'places')}:"
        ]
        words = {
            "total_half_width": "grand total known to",
            "error_ratio": "mean error, against zeros or an even spread",
            "uncertain_visits": "visits in cells with an error above half of their value",
        }
        for name, most in MOST.items():
            said.append(f"  {words[name]}: {percent(self.figures[name])} (at most {percent(most)})")
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
            "most": dict(MOST),
            "signal": round(self.signal.whole, 1),
            "signal_per_place": round(self.signal.place, 3),
            "failing": list(self.failing),
            "useless": self.useless,
        }


def fitness(case: Case) -> Fitness:
    """The forecast for a case: the same on every machine, from public facts alone."""
    declared, signal = scheme_named(case.scheme).declares, case.signal
    if declared.plenty is not None and signal.reaches(declared.plenty):
        return Fitness(signal, None)
    promised = declared.never_refused is not None and signal.reaches(declared.never_refused)
    return replace(_rehearsed(case), promised=promised)


@lru_cache(maxsize=128)
def _rehearsed(case: Case) -> Fitness:
    """A town like this one, or a part of it, made up and released."""
    signal = case.signal.whole
    least, cells = (_PART_SIGNAL, _CELLS) if signal < _RICH else (1.05 * _RICH, _RICH_CELLS)
    part = max(least / signal, _FEWEST_PLACES / case.released)
    most = min(max(cells / case.grid.slots, _FEWEST_PLACES), MAX_ZONES) / case.released
    share = min(1.0, part, most)
    zones = max(1, round(case.released * share))
    town = replace(case, places=max(1, round(case.places * share)), released=zones)
    users = max(1, round(case.users * share))
    visits = expected_visits(case.facts)
    people = max(200, round(_EVENTS / max(visits, 1.0)))
    with threadpool_limits(1):
        stage = Rehearsal(
            town.facts,
            users,
            zones,
            _remembered,
            np.subtract,
            people=people,
            cells=None,
            spread=case.spread,
        )
        draws = 2 if zones * case.grid.slots <= _TWICE else 1
        truth, runs = stage.released(scheme_named(case.scheme), draws)
    stated = "visits" in town.facts.parameters
    evenly = stage.users * stage.copies * (stage.visits if stated else visits) / truth.size
    figures = _figures(truth, runs, evenly, share)
    return Fitness(case.signal, figures, people=stage.users, places=stage.zones)


def _remembered(events: Events, places: Places, grid: TimeGrid) -> Source:
    return RecallingSource(LocalSource(events, places, grid), samples=1)


def _figures(truth: Table, runs: list[Density], evenly: float, share: float) -> dict[str, float]:
    """Means over the draws. `share` is the part of a town that was rehearsed."""
    free = min(float(truth.mean()), float(np.abs(truth - evenly).mean()))
    whole = max(float(truth.sum()), 1e-9)
    halves, errors, uncertain = [], [], []
    for run in runs:
        middle = np.asarray(run.values if run.median is None else run.median, dtype=np.float64)
        if run.posterior is not None:
            total = run.posterior.total(COVERAGE)
            halves.append((total.ends[1] - total.ends[0]) / 2 / max(total.value, 1e-9) * share)
            draws, factors = run.posterior.draws, None
            if share < 1:  # the level of a part is known as well as that of the whole
                middle = middle * (whole / max(float(middle.sum()), 1e-9))
                sums = sums_of(draws)
                factors = sums.mean() / np.maximum(sums, 1e-9)
            mean = mean_of(draws, factors)
            away = np.sqrt(variance_of(draws, mean, factors)) > mean / 2
            uncertain.append(float(mean[away].sum()) / max(float(mean.sum()), 1e-9))
        errors.append(float(np.abs(truth - middle).mean()))
    if not halves:  # what the bound takes away, if nothing puts it back, is lost in every part
        off = np.stack([np.asarray(run.values, np.float64) - truth for run in runs])
        halves = [_WIDTH * math.sqrt(float(np.square(off.sum(axis=(1, 2))).mean())) / whole]
        away = np.sqrt(np.square(off).mean(axis=0)) > truth / 2
        uncertain = [float(truth[away].sum()) / whole]
    found = {
        "total_half_width": float(np.mean(halves)),
        "error_ratio": float(np.mean(errors)) / max(free, 1e-9),
        "uncertain_visits": float(np.mean(uncertain)),
    }
    return {name: min(round(value, 2), 99.0) for name, value in found.items()}
