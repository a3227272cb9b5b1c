"""What weighting heavy users down does to a count, from public assumptions alone.

A user whose visits have norm above C counts C / norm. In a cell, that is felt as a factor: the
mean weight of those who were there. Two things move it. A visit in a quiet place or hour has a
large norm of its own, so it alone uses up much of the limit; and a visit picked at random is
likely to be a heavy user's, while a person picked at random is not.

Both follow from how much people differ in activity. It is taken to be log-normal around the
expected number of visits, with the spread seen in call records (Acs & Castelluccia 2014 report
13.55 visits in a week on average, with a standard deviation above it). Nothing here reads the
data: norms come from noisy margins, so all of it is public or post-processing. Where the
assumption is wrong, only the *differences* of the factor between cells are wrong: the level
is measured, and the totals of places and slots are measured apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

SPREAD = 1.35
"""Standard deviation over mean of the visits of a user: 18.33 over 13.55 a week (Acs & Castelluccia
2014). Dividing by the expected weight of a visit took the error at epsilon 0.3 and 1 from .0666 and
.0530 to .0655 and .0522 (docs/decisions/bayes.md, "What the limit does to a cell")."""

CONCENTRATION = 0.55
"""Norm of a user's totals per place over their number of visits: most are at home or work."""
NOTABLE = 0.05
"""Relative distortion of a place's total from which the place is named to the readers."""
NOTABLE_SLOT = 0.2
"""The same for a slot, whose total is measured apart: only how it is spread can be off."""
_SURE = 4.0
"""Standard deviations from which a distortion is taken for real."""
_NAMED = 20
"""Places and slots that are named at most; a list of all would be no remark."""
_FAR_MORE = 2.0
"""Times the expected visits from which on the expectation is called wrong."""

Table = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Weighting:
    """Mean weights, for each cell: of its visits, and of people who are there by chance."""

    of_visits: Table
    of_people: Table
    leak: float = 1.0
    """How much of what the matrix distorts the place totals distort too."""


def expected_weighting(norms: Table, visits: Table, limit: float, mean_visits: float) -> Weighting:
    """Mean weight by the norm of the visit that is counted.

    `visits` are rough visits of every cell; they say how large the norms of somebody's other
    visits are.
    """
    typical = float((visits * np.square(norms)).sum() / max(float(visits.sum()), 1e-300))
    log_variance = np.log1p(SPREAD**2)
    centre = np.log(max(mean_visits, 1e-9)) - log_variance / 2
    nodes, shares = np.polynomial.hermite_e.hermegauss(40)
    shares = shares / shares.sum()
    reach = np.concatenate(([0.0], np.geomspace(1e-3, 1e3, 240)))
    tables = []
    # Visits picked at random lie at the size-biased activity: the log-normal moved by its variance.
    for shift, present in ((log_variance, 1.0), (0.0, 0.0)):
        activity = np.maximum(np.exp(centre + shift + np.sqrt(log_variance) * nodes), 1.0)
        others = (activity - present) * typical
        norm = np.sqrt(np.square(reach)[:, None] + others[None, :])
        weight = np.minimum(1.0, limit / np.maximum(norm, 1e-300)) @ shares
        tables.append(np.interp(norms, reach, weight))
    return Weighting(tables[0], tables[1])


def margin_leak(place_limit: float, mean_visits: float, matrix_weight: float) -> float:
    """Weight lost in the place totals over weight lost in the matrix, by the same assumption."""
    log_variance = np.log1p(SPREAD**2)
    nodes, shares = np.polynomial.hermite_e.hermegauss(40)
    centre = np.log(max(mean_visits, 1e-9)) + log_variance / 2
    norm = CONCENTRATION * np.maximum(np.exp(centre + np.sqrt(log_variance) * nodes), 1.0)
    kept = float(np.minimum(1.0, place_limit / norm) @ (shares / shares.sum()))
    return float(np.clip((1.0 - kept) / max(1.0 - matrix_weight, 1e-6), 0.0, 1.0))


def too_active(slots: Vector, sd: float, users: int, mean_visits: float) -> tuple[str, ...]:
    """A remark where the noisy slot totals, bounded as they are, hold far more than expected.

    Limits follow from the visits that are expected. Where people make far more, nearly all of
    them are weighted down, and the level of everything comes out too low.
    """
    counted, noise = float(slots.sum()), sd * slots.size**0.5
    if counted - _SURE * noise <= _FAR_MORE * users * mean_visits:
        return ()
    return (
        f"Far more was counted than {users:,} people would make with {mean_visits:.3g} visits "
        "each. People were weighted down more than was planned for, and all counts may be "
        "much too low. "
        "The next release should state what is publicly known: the number of people "
        "(expected-users) and how often one is seen in the period (parameter visits).",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Distortion:
    """How far places and slots differ in the weight that bounding left them.

    Read from the ratio of the bounded matrix to margins that are bounded less. The published
    table agrees with the margins, so of a place's distortion it keeps the part `leak`.
    """

    places: Vector
    slots: Vector
    places_sure: NDArray[np.bool_]
    slots_sure: NDArray[np.bool_]
    spread: float
    """Root mean square over places, noise taken out."""
    leak: float

    @property
    def left(self) -> float:
        """Relative error that bounding is likely to leave in the total of a place."""
        return self.spread * self.leak

    def remarks(self, ids: NDArray[np.str_], starts: list[datetime]) -> tuple[str, ...]:
        """For holders and readers, in words; nothing where there is nothing notable."""
        found = []
        off = self.places_sure & (np.abs(self.places) * self.leak > NOTABLE)
        if self.left > NOTABLE / 2 or off.any():
            found.append(
                "Very active people are weighted down, and they are not spread evenly: totals of "
                f"places are off by about {self.left:.0%} for that reason."
                + _named("Most in", [str(ids[k]) for k in _by_size(self.places, off)])
            )
        late = self.slots_sure & (np.abs(self.slots) > NOTABLE_SLOT)
        if late.any():
            found.append(
                "In some hours people are more or less active callers than in others. Totals of "
                "those hours were measured apart; how they are spread over places may be off."
                + _named("Hours", [f"{starts[k]:%a %H:%M}" for k in _by_size(self.slots, late)])
            )
        return tuple(found)


def find_distortion(
    matrix: Table, expected: Table, sigma: float, places_sd: Vector, leak: float
) -> Distortion:
    """Compare rows and columns of the noisy matrix with what the margins expect of them.

    `places_sd` is the relative standard deviation of each place total.
    """
    ratios, sures, spreads = [], [], []
    for axis in (1, 0):
        power = np.maximum(np.square(expected).sum(axis=axis), 1e-300)
        ratio = (matrix * expected).sum(axis=axis) / power - 1.0
        error = sigma / np.sqrt(power)
        if axis == 1:
            error = np.hypot(error, places_sd)
        ratios.append(ratio)
        sures.append(np.abs(ratio) > _SURE * error)
        share = power / power.sum()
        spreads.append(float(np.sqrt(max(float(share @ (ratio**2 - error**2)), 0.0))))
    return Distortion(ratios[0], ratios[1], sures[0], sures[1], spreads[0], leak)


def _by_size(values: Vector, chosen: NDArray[np.bool_]) -> list[int]:
    order = np.argsort(-np.abs(values), kind="stable")
    return [int(k) for k in order if chosen[k]]


def _named(word: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f" {word}: {', '.join(names[:_NAMED])}{more}."
