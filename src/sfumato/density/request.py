"""The request of a release: everything public about it, checked before it begins.

Earlier releases enter by the measurements that they keep (`reanalysis`), uncharged, so these must
be what was published: the reader holds every file against its digest, and noise from a test seed is
refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.density.folder import Finish, earlier_inputs
from sfumato.density.reanalysis import earlier_of
from sfumato.density.registry import DEFAULT, SCHEMES, scheme_named
from sfumato.density.scheme import Parameter, Plan, PublicFacts
from sfumato.errors import UsageError
from sfumato.geography.places import PlaceOptions
from sfumato.io.zones import read_parent_column, read_parents
from sfumato.model.counts import Bound, Counting, SampleBound, WeightBound
from sfumato.model.places import Places
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.ledger import Claim
from sfumato.privacy.ledger.claims import CODE
from sfumato.published.about import about, csv_form
from sfumato.published.release import one_or_many


@dataclass(frozen=True, slots=True)
class Request:
    """A release that has been asked for and checked, but not begun."""

    facts: PublicFacts
    scheme: str
    counted: Places
    released: Places
    dataset: str
    name: str
    finish: Finish

    def plan(self) -> Plan:
        """What it will cost and how exact it will be, from public facts alone."""
        return scheme_named(self.scheme).plan(self.facts)

    def claim(self, fingerprint: str, out: Path) -> Claim:
        """What the ledger is asked to set aside."""
        plan = self.plan()
        return Claim(
            dataset=self.dataset,
            name=self.name,
            unit=self.facts.unit,
            delta=self.facts.delta,
            period=self.facts.grid.period,
            events=tuple(plan.events.items()),
            config=self.config(),
            fingerprint=fingerprint,
            out=str(out),
            sums=plan.sums,
        )

    def config(self) -> dict[str, Any]:
        """Everything that shapes the output: what a rerun must have in common.

        The version is on record and not compared (`privacy.ledger.records.RECORDED`).
        """
        facts = self.facts
        return {
            "sfumato": __version__,
            "scheme": self.scheme,
            "parameters": dict(facts.parameters),
            **({CODE: code} if (code := SCHEMES.provenance(self.scheme)) else {}),
            "epsilon": facts.epsilon,
            "delta": facts.delta,
            "expected_users": facts.expected_users,
            "unit": str(facts.unit),
            "bound": bound_text(facts.bound),
            "counting": facts.counting.value,
            "places": self.counted.fingerprint(),
            "zones": self.released.fingerprint(),
            "time grid": facts.grid.fingerprint(),
            "clock": facts.grid.tz,
            **({} if facts.grid.fold is None else {"fold": facts.grid.fold}),
            **self.finish.inputs(),
            **({} if self.finish.about is None else {"about": self.finish.about.given()}),
            **earlier_inputs(facts.earlier),
        }


def parse_bound(text: str) -> Bound:
    """`weight:3` or `sample:30`."""
    kind, _, number = text.partition(":")
    try:
        if kind == "weight":
            return WeightBound(float(number))
        if kind == "sample":
            return SampleBound(int(number))
    except ValueError:
        pass
    raise UsageError(f"{text!r} is not a bound.", remedy="Write weight:3 or sample:30.")


def bound_text(bound: Bound) -> str:
    """What `parse_bound` reads."""
    if isinstance(bound, SampleBound):
        return f"sample:{bound.slots}"
    return f"weight:{bound.limit!r}"


def request(
    *,
    places: PlaceOptions,
    grid: TimeGrid,
    dataset: str,
    epsilon: float,
    delta: float,
    name: str,
    scheme: str = DEFAULT,
    bound: Bound | str | None = None,
    count: Counting | str = Counting.VISITS,
    expected_users: int | None = None,
    parameter: Mapping[str, Parameter] | None = None,
    hierarchy: object = None,
    hierarchy_column: str | None = None,
    integers: bool = False,
    csv: str = "auto",
    title: str | None = None,
    publisher: str | None = None,
    licence: str | None = None,
    contact: str | None = None,
    earlier: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    tz: str | None = None,
) -> Request:
    """Check everything about a release that is public; the events are not looked at.

    The words are those of `sfumato.release`. `grid` are the time slots; `tz` is the clock of
    towers' validity dates that carry none.
    """
    form, told = csv_form(csv), about(title, publisher, licence, contact)
    declared = scheme_named(scheme).declares
    if bound is not None and declared.own_bounds:
        raise UsageError(
            f"The scheme {scheme} chooses its own bounds from the expected number of people.",
            remedy="Leave `bound` out, or choose another `scheme`.",
        )
    if earlier and not declared.learns_from_earlier:
        raise UsageError(
            f"The scheme {scheme} does not learn from earlier releases.",
            remedy="Leave `earlier` out, or take the `scheme` bayes.",
        )
    counted = counting_of(count)
    opened = places.open(period=grid, tz=tz)
    facts = PublicFacts(
        place_ids=opened.counted.ids,
        grid=grid,
        epsilon=epsilon,
        delta=delta,
        expected_users=expected_users,
        bound=parse_bound(bound) if isinstance(bound, str) else bound or WeightBound(3.0),
        counting=counted,
        overlay=opened.shares,
        parameters=dict(parameter or {}),
        layout=opened.layout,
        zone_layout=opened.zone_layout,
        earlier=earlier_of(one_or_many(earlier), opened.released.fingerprint(), grid, counted),
    )
    finish = _finish(facts, places, hierarchy, hierarchy_column, integers)
    finish = replace(finish, loss=opened.loss, csv=form, about=told)
    return Request(facts, scheme, opened.counted, opened.released, dataset, name, finish)


def counting_of(text: Counting | str) -> Counting:
    """What is counted, by its name."""
    try:
        return Counting(text)
    except ValueError:
        raise UsageError(
            f"{text!r} cannot be counted.", remedy=f"Choose from {', '.join(Counting)}."
        ) from None


def _finish(
    facts: PublicFacts,
    places: PlaceOptions,
    hierarchy: object,
    column: str | None,
    integers: bool,
) -> Finish:
    """The form of the output, checked before anything is spent."""
    if integers and facts.parameters.get("clip") is False:
        raise UsageError(
            "Negative numbers cannot be rounded to counts.", remedy="Leave clip at true."
        )
    if hierarchy is None and column is None:
        return Finish(integers=integers)
    if hierarchy is not None and column is not None:
        raise UsageError("Give `hierarchy` or `hierarchy_column`, not both.")
    if places.zones is None and places.grid is None:
        raise UsageError("Only zones have districts.", remedy="Give `zones`.")
    if hierarchy is not None:
        return Finish(read_parents(hierarchy, facts.released_ids), integers)
    if places.zones is None or isinstance(places.zones, Places):
        raise UsageError(
            "Cells of a grid, and zones that were read already, have no columns.",
            remedy="Give `hierarchy`, a table of zone_id and parent_id.",
        )
    assert column is not None
    reading = {"id_column": places.zone_id, "layer": places.layer}
    parents = read_parent_column(places.zones, column, facts.released_ids, **reading)
    return Finish(parents, integers)
