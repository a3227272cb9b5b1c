"""What density schemes share: bounds in words, checks of settings, the map to zones, rounding.

* How much one person may contribute, in words for a manifest.
* Checks of a scheme's own settings, with errors that say what it has.
* From the places that were counted to the places that are released (post-processing): rows of a
  tower that moved are added up; with an overlay, towers are spread over zones by the public shares
  of their cells.
* Rounding of released tables (post-processing): three decimals, no negative zero.
* A density without arithmetic on noisy numbers (post-processing), the last resort of a release: the
  largest of the noisy totals that a scheme declares, times the noisy shares of places and of slots
  that it measured; all alike where it did not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from sfumato.density.scheme import Density, Margin, PublicFacts
from sfumato.errors import UsageError
from sfumato.model.counts import Bound, Counting, Counts, SampleBound
from sfumato.model.private import Private
from sfumato.model.source import Source
from sfumato.privacy.events import USER_PERIOD
from sfumato.privacy.last_resort import COVERAGE, REMARK, Heard, everything, shares
from sfumato.privacy.wall import Wall


def bound_in_words(bound: Bound, counting: Counting) -> str:
    """A bound as a sentence about each person."""
    if isinstance(bound, SampleBound):
        return (
            "Of each person at most one visit in a time slot and at most "
            f"{bound.slots} time slots were kept, chosen at random."
        )
    what = "places visited" if counting is Counting.VISITS else "presence"
    return (
        f"Each person's {what} were weighted down so that, over all time slots together, one "
        f"person counts for at most {bound.limit:g} (Euclidean norm of the counts per slot)."
    )


def user_period(scheme: str, facts: PublicFacts) -> None:
    """Refuse every unit but a user's whole record."""
    if facts.unit != USER_PERIOD:
        raise UsageError(
            f"The scheme {scheme} protects a user's whole record, not the unit {facts.unit}.",
            remedy="Ask for the unit user-period, or choose another scheme.",
        )


def no_others(scheme: str, facts: PublicFacts, known: Mapping[str, str]) -> None:
    """Refuse parameters that the scheme does not have; `known` says what each may be."""
    unknown = sorted(set(facts.parameters) - set(known))
    if unknown:
        has = "; ".join(f"{name} ({what})" for name, what in known.items())
        raise UsageError(
            f"The scheme {scheme} has no parameter {', '.join(unknown)}.", remedy=f"It has {has}."
        )


def number(facts: PublicFacts, name: str, default: float, low: float, high: float) -> float:
    """A parameter between `low` and `high`."""
    value = facts.parameters.get(name, default)
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not (right and math.isfinite(float(value)) and low <= float(value) <= high):
        raise UsageError(f"The parameter {name} is a number from {low:g} to {high:g}.")
    return float(value)


def whole(facts: PublicFacts, name: str, default: int, low: int, high: int) -> int:
    """A whole number between `low` and `high`."""
    value = facts.parameters.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise UsageError(f"The parameter {name} is a whole number from {low} to {high}.")
    return value


def word(facts: PublicFacts, name: str, default: str, choices: Collection[str]) -> str:
    """One of some words."""
    value = facts.parameters.get(name, default)
    if value not in choices:
        raise UsageError(f"The parameter {name} is one of {', '.join(sorted(choices))}.")
    return str(value)


def flag(facts: PublicFacts, name: str, default: bool) -> bool:
    """True or false."""
    value = facts.parameters.get(name, default)
    if not isinstance(value, bool):
        raise UsageError(f"The parameter {name} is true or false.")
    return value


Table = NDArray[np.float64]


def released(facts: PublicFacts, table: Table) -> tuple[NDArray[np.str_], Table]:
    """Ids and rows of the released table."""
    if facts.overlay is not None:
        return facts.overlay.zone_ids, facts.overlay.to_zones(table)
    ids, row = np.unique(facts.place_ids, return_inverse=True)
    added = np.zeros((ids.size, table.shape[1]))
    np.add.at(added, row, table)
    return ids, added


def released_variance(facts: PublicFacts, variance: Table) -> Table:
    """Variance of the released rows, where the counted rows have independent noise."""
    if facts.overlay is not None:
        return np.asarray(facts.overlay.shares.power(2).T @ variance, dtype=np.float64)
    ids, row = np.unique(facts.place_ids, return_inverse=True)
    added = np.zeros((ids.size, variance.shape[1]))
    np.add.at(added, row, variance)
    return added


def bounded_counts(source: Source, wall: Wall, facts: PublicFacts, label: str) -> Private[Counts]:
    """Place x slot within the bound of the facts: a keyed sample, or weights."""
    if isinstance(facts.bound, SampleBound):
        return source.sampled(facts.bound, wall.sampling_key(label))
    return source.weighted(facts.bound, facts.counting)


def touched_cells(facts: PublicFacts) -> int:
    """The most cells of a place x slot table (or of sums of its rows) one user moves."""
    if isinstance(facts.bound, SampleBound):
        return min(facts.bound.slots, facts.grid.slots)
    return facts.cells


DECIMALS = 3


def rounded(
    *tables: NDArray[np.float64], in_place: bool = False
) -> tuple[NDArray[np.float64], ...]:
    """Each table to `DECIMALS`; what rounds to nothing is plain zero."""
    found = tuple(np.round(table, DECIMALS, out=table if in_place else None) for table in tables)
    for table in found:
        np.add(table, 0.0, out=table)
    return found


def spread(
    facts: PublicFacts, margins: Mapping[str, Margin], heard: Mapping[str, Heard]
) -> Density:
    """Noisy totals spread by public shares, from nothing up to all.

    Intervals are stated where it is public about how many people there are; elsewhere nothing says
    what bounding them took away.
    """
    known = {label: (margins[label], one) for label, one in heard.items() if label in margins}
    of_places = [one.rows for kind, one in known.values() if kind is not Margin.SLOTS]
    of_slots = [
        one.columns if kind is Margin.BOTH else one.rows
        for kind, one in known.values()
        if kind is not Margin.PLACES
    ]
    total = max([0.0, *(one.total for _, one in known.values())])
    places = shares(of_places[0] if of_places else None, facts.places)
    slots = shares(of_slots[0] if of_slots else None, facts.grid.slots)
    ids, table = released(facts, total * np.outer(places, slots))
    (values,) = rounded(table)
    measurements = tuple(one.measured for one in heard.values())
    if facts.expected_users is None:
        return Density(ids, values, None, None, None, measurements, (REMARK,), sums_unknown=REMARK)
    most = everything(facts.expected_users, *(one.highest for _, one in known.values()))
    lower, upper = np.zeros(values.shape), np.maximum(np.full(values.shape, np.ceil(most)), values)
    return Density(
        *(ids, values, lower, upper, COVERAGE, measurements, (REMARK,)), sums_unknown=REMARK
    )
