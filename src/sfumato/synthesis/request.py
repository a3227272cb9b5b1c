"""The request of synthetic people: everything public about them, checked before anything is read.

Three ways to ask. From events: everything is measured in one run, and the budget is split over the
released table and the people's own measurements. On a release (`on`): its table is there and paid
for, and the people's own measurements are added to it. From a release alone: post-processing, free.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import __version__
from sfumato.density.reanalysis import manifest_digest
from sfumato.density.scheme import Parameter, Plan, PublicFacts
from sfumato.errors import InputError, UsageError
from sfumato.geography.places import PlaceOptions
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid
from sfumato.model.traces import Box
from sfumato.privacy.events import Unit
from sfumato.privacy.ledger import Claim
from sfumato.published.about import About
from sfumato.published.release import Release, as_release, vouched
from sfumato.synthesis.method import (
    Cube,
    Method,
    Reads,
    SynthFacts,
    settings_of,
)
from sfumato.synthesis.regions import with_cells
from sfumato.synthesis.registry import DEFAULT, METHODS, method_named

MOST_MADE = 100_000_000
"""People of one call: more than any city has, and days of work."""
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, eq=False)
class SynthRequest:
    """People who have been asked for and checked, but not begun."""

    facts: SynthFacts
    method: Method
    dataset: str
    name: str
    counted: Places | None
    """Where true events are counted; None where traces are read."""
    about: About | None = None
    on: Release | None = None
    """The release whose table the people are matched to."""
    border: str | None = None
    """The rule at the border, where towers are spread over zones."""

    def plan(self) -> Plan:
        """What it will cost, from public facts alone."""
        return self.method.plan(self.facts)

    def claim(self, fingerprint: str, out: Path) -> Claim:
        """What the ledger is asked to set aside."""
        plan, public = self.plan(), self.facts.public
        return Claim(
            dataset=self.dataset,
            name=self.name,
            unit=public.unit,
            delta=public.delta,
            period=public.grid.period,
            events=tuple(plan.events.items()),
            config=self.config(),
            fingerprint=fingerprint,
            out=str(out),
            sums=plan.sums,
        )

    def config(self) -> dict[str, Any]:
        """Everything that shapes the output: what a rerun must have in common."""
        facts, public = self.facts, self.facts.public
        return {
            "sfumato": __version__,
            "synth": self.method.name,
            "parameters": dict(facts.settings),
            **({} if not (code := METHODS.provenance(self.method.name)) else {"code": code}),
            "epsilon": public.epsilon,
            "delta": public.delta,
            "expected_users": public.expected_users,
            "people": facts.people,
            "seed": facts.seed,
            "unit": str(public.unit),
            "counting": public.counting.value,
            "time grid": public.grid.fingerprint(),
            "clock": public.grid.tz,
            **({} if self.counted is None else {"places": self.counted.fingerprint()}),
            **({} if facts.places is None else {"zones": facts.places.fingerprint()}),
            **({} if facts.box is None else {"region": list(facts.box.bounds)}),
            **({} if self.on is None else {"on": manifest_digest(self.on)}),
            **({} if self.border is None else {"border": self.border}),
            **({} if self.about is None else {"about": self.about.given()}),
        }


def made_people(people: int | None, expected: int | None) -> int:
    """How many people to make up: those asked for, or those expected.

    Raises:
        UsageError: None, too many, or nobody says how many.
    """
    wanted = expected if people is None else people
    if wanted is None:
        raise UsageError(
            "The number of people to make is missing.",
            remedy="Give `expected_users` from public knowledge, or `people`.",
        )
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 1 <= wanted <= MOST_MADE:
        raise UsageError(
            f"Between 1 and {MOST_MADE:,} people are generated.", remedy="Give `people=200000`."
        )
    return wanted


def checked_seed(seed: int) -> int:
    """A public seed."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 63:
        raise UsageError("A seed is a whole number, not negative.", remedy="Give `seed=1`.")
    return seed


def whole_days(grid: TimeGrid) -> None:
    """Refuse a period under a day: people with a clock have days.

    Raises:
        UsageError: It is shorter.
    """
    first, last = grid.period
    if last - first < _DAY_US * 23 // 24:  # where clocks change, a day has 23 hours
        raise UsageError(
            "Synthetic people live a day at least.", remedy="Give a later `end`; a week is best."
        )
    if grid.fold is not None:
        raise UsageError(
            "A typical week has no days of its own that people could live.",
            remedy="Leave `fold` out.",
        )


def synth_request(
    *,
    places: PlaceOptions,
    grid: TimeGrid,
    dataset: str,
    epsilon: float,
    delta: float,
    name: str,
    method: str = DEFAULT,
    people: int | None = None,
    seed: int = 0,
    expected_users: int | None = None,
    parameter: Mapping[str, Parameter] | None = None,
    on: str | os.PathLike[str] | Release | None = None,
    region: object = None,
    about: About | None = None,
    tz: str | None = None,
) -> SynthRequest:
    """Check everything about synthetic people that is public; the events are not looked at."""
    found = method_named(method)
    settings = settings_of(found, parameter or {})
    wanted, sown = made_people(people, expected_users), checked_seed(seed)
    whole_days(grid)
    declared = found.declares
    if on is not None and not declared.on_release:
        raise UsageError(
            f"The method {method} is not matched to a release.", remedy="Leave `on` out."
        )
    if declared.reads is Reads.TRACES:
        if region is None or not isinstance(region, str | tuple):
            raise UsageError(
                f"The method {method} needs a public region.",
                remedy="Give `region`: west,south,east,north in degrees.",
            )
        public = PublicFacts(
            place_ids=np.empty(0, dtype=np.str_),
            grid=grid,
            epsilon=epsilon,
            delta=delta,
            expected_users=expected_users,
            unit=declared.unit,
        )
        facts = with_cells(SynthFacts(public, wanted, sown, settings, box=Box.parse(region)))
        return SynthRequest(facts, found, dataset, name, None, about)
    opened = places.open(period=grid, tz=tz)
    public = PublicFacts(
        place_ids=opened.counted.ids,
        grid=grid,
        epsilon=epsilon,
        delta=delta,
        expected_users=expected_users,
        unit=declared.unit,
        overlay=opened.shares,
        layout=opened.layout,
        zone_layout=opened.zone_layout,
    )
    base = None if on is None else table_to_match(on, opened.released, grid, declared.unit)
    cube = None if base is None else Cube(np.maximum(base.values, 0), float(base.values.sum()))
    facts = SynthFacts(
        public, wanted, sown, settings, opened.released, counted=opened.counted, cube=cube
    )
    return SynthRequest(facts, found, dataset, name, opened.counted, about, base, opened.border)


def table_to_match(
    on: str | os.PathLike[str] | Release, places: Places, grid: TimeGrid, unit: Unit
) -> Release:
    """A release whose table people are matched to, every file compared with its digest.

    Raises:
        InputError: It was altered, protects nobody or another unit, or is about other places or
            slots.
    """
    found = vouched(as_release(on), "People cannot be matched to it")
    if found.manifest.privacy.unit != str(unit):
        raise InputError(
            f"it protects {found.manifest.privacy.unit}, people are generated for {unit}: one "
            "statement about both would be wrong for one of them.",
            file=str(found.folder),
            remedy=f"Match people to a release of the unit {unit}.",
        )
    if found.manifest.released.sha256 != places.fingerprint():
        raise InputError("it is about other places.", file=str(found.folder))
    if found.manifest.grid.sha256 != grid.fingerprint():
        raise InputError("it is about other slots.", file=str(found.folder))
    if not np.array_equal(found.ids, np.unique(places.ids)) and not np.array_equal(
        found.ids, places.ids
    ):
        raise InputError("its places are in another order.", file=str(found.folder))
    return found
