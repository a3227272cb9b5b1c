"""`bayes`: margins, one weighted matrix, and an empirical-Bayes reading of both.

Claim: (epsilon, delta)-DP for adding or removing one user's whole record in the period, as
one joint Gaussian budget over four measurements; the exact Gaussian curve where the fine
lattice allows it (see `privacy.accounting.gaussian`), zCDP otherwise.

Measurements and their sensitivity, all of them exact integers:

1. *The ladder* of activity: L2 one by its weights (`sfumato.model.ladder`).
2. *Place totals*: each user's vector of totals scaled to L2 at most C1.
3. *Slot totals*: each user's mass per slot scaled to L2 at most C2.
4. *The matrix*: b o (A x), with weights b made from the noisy margins. One visit at place T
   in slot t has norm q_Tt after the map; user u counts at most C / norm_u, norm_u over slots of
   the sum of q, so the matrix moves by at most C (see `privacy.mechanisms.linear`).

C1, C2 and C are fixed in the plan, so taking each measurement after the ones before were seen is
adaptive composition of fixed events. What follows the ladder is only from which norm on a person is
weighted down (`WeightBound.most`).

Everything after them is post-processing (`ladder`, `inference`). Cost: four passes over the packed
events, and a few eigenbases of the places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from sfumato.density.bayes.clipping import Distortion
from sfumato.density.bayes.expected import half_width
from sfumato.density.bayes.frame import frame_of
from sfumato.density.bayes.ground import Ground, matrix_weights, prepare
from sfumato.density.bayes.inference import infer
from sfumato.density.bayes.ladder import Activity, ladder_steps, read_ladder
from sfumato.density.bayes.measured import (
    Margins,
    Measured,
    centres,
    grained,
    keep,
    separable,
    whole_steps,
)
from sfumato.density.bayes.memory import (
    OTHER_CITY,
    Memory,
    Week,
    mean_margins,
    shared_level,
    this_week,
    week,
)
from sfumato.density.bayes.settings import (
    Limits,
    Settings,
    effective,
    expected_visits,
    settings_for,
)
from sfumato.density.common import no_others, rounded, user_period
from sfumato.density.posterior import Posterior
from sfumato.density.scheme import (
    Declaration,
    Density,
    Margin,
    Plan,
    PlannedMeasurement,
    PublicFacts,
    Signal,
)
from sfumato.model.counts import WEIGHT_UNITS, Counting, WeightBound
from sfumato.model.ladder import LADDER_UNITS, ladder_gains, step_sums
from sfumato.model.source import Source
from sfumato.model.tiles import give_back, is_large, tiles
from sfumato.model.time_grid import HourCalendar
from sfumato.privacy.accounting import gaussian_mu
from sfumato.privacy.calibration import Calibration, GaussianPart, calibrate_gaussians
from sfumato.privacy.events import GaussianEvent, Measurement
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.mechanisms.linear import apply_weighted_map, event_norms
from sfumato.privacy.wall import Wall

LADDER, PLACES, SLOTS, MATRIX = "activity ladder", "place totals", "slot totals", "matrix"
MAP_UNITS = 1 << 10
"""Lattice of the quantised map; the matrix lies on 2^26 units a visit."""
COVERAGE = 0.90
PARAMETERS = {"visits": "of an average user in the period, if they are not as in call records"}


LEAST_PLACE = 1.5
"""Signal of a released place (people times mu, over the places) from which on intervals are stated.
Below it the noise of a place's total is about as large as the total, and how far places differ is
not known either: on development data 90 % intervals of sums held 65 % there (516 cabs in 195
tracts, epsilon 0.3; ratios 80 % at 1) and 76 % (2,000 callers in 400 zones), those of their fuller
cells 65 to 80 % (docs/benchmarks/levels.md). First set at 1, where development data had 84 to 96 %;
raised when 516 cabs in 41 quarters at epsilon 0.3 (1.4) held 80 % on data that nothing was tuned
on."""
_NO_INTERVALS = (
    "With so few people a place under this budget the noise of a place is about as large as its "
    "total, and intervals would not hold. Fewer places or a larger budget would have them."
)
PLENTY = Signal(people=5000, whole=800, place=5, people_per_cell=0.1, visits_per_cell=5)
"""In 60 rehearsals of towns, slots and budgets drawn at random nothing from here on came near a
limit: at most 12 % of the total, 45 % of the simpler answers' error, 22 % of visits uncertain."""
NEVER_REFUSED = Signal(people=5000, whole=280, place=1.4, people_per_cell=0.07, visits_per_cell=0)
"""A week of hours in 400 places: 10,000 people at epsilon 0.3 or 5,000 at 1, and in 40 places 5,000
at 0.3, at any usual delta."""


class Bayes:
    """The default scheme. It needs `expected_users`, and takes its bounds from it."""

    declares = Declaration(
        PARAMETERS,
        own_bounds=True,
        margins={PLACES: Margin.PLACES, SLOTS: Margin.SLOTS},
        learns_from_earlier=True,
        refines_zones=True,
        other_values={"visits": {"visits": 20.0}},
        plenty=PLENTY,
        never_refused=NEVER_REFUSED,
        no_posterior=_NO_INTERVALS,
    )

    @property
    def name(self) -> str:
        return "bayes"

    def plan(self, facts: PublicFacts) -> Plan:
        user_period(self.name, facts)
        no_others(self.name, facts, PARAMETERS)
        settings = settings_for(facts)
        events = _events(facts, settings)
        users, visits = facts.expected_users or 1, expected_visits(facts)
        each = users * visits / max(facts.released_ids.size * facts.grid.slots, 1)
        planned = tuple(
            # Margins, and a map with entries >= 0 of counts >= 0: sums without negative parts.
            PlannedMeasurement(label, event, cells, math.sqrt(event.sigma2) / units, sums=True)
            for label, (event, cells, units) in events.items()
        )
        sd = math.sqrt(events[MATRIX][0].sigma2) / events[MATRIX][2]
        lines = (
            f"Measured: how active people are, totals of {facts.places:,} places and of "
            f"{facts.grid.slots:,} slots, and one matrix of all places and slots, as one Gaussian "
            "budget.",
            f"With about {users:,} people a place and slot holds about {each:.3g} "
            f"{facts.counting}; the matrix has noise of {sd:.3g} before shrinkage.",
            f"One person weighs at most {settings.matrix_limit:g} in the matrix.",
            f"It expects {visits:.3g} {facts.counting} of an average person in the period"
            + ("" if "visits" in facts.parameters else ", as in call records")
            + ", and measures how many there are.",
            *(() if states_intervals(facts) else (f"No intervals. {_NO_INTERVALS}",)),
        )
        return Plan(self.name, planned, sd, lines, _bound_in_words(settings))

    def total_half_width(
        self, facts: PublicFacts, visits: float, coverage: float, fleet: bool = False
    ) -> float:
        """Expected half of the total's interval, over the total, where people (or the vehicles of
        a fleet) make so many visits; from public facts (`bayes.expected`)."""
        settings, steps = settings_for(facts), _steps(facts)
        variance = float(_events(facts, settings)[LADDER][0].sigma2)
        _, sds = step_sums(np.zeros(len(steps), dtype=np.int64), variance, steps)
        return half_width(coverage, visits, sds, steps, *_told(facts), fleet)

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Density:
        measured, taken, start = measure(source, wall, facts)
        return reread(measured, facts, taken, start)


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Where a reading starts: other weeks, and the ground of their mean and of this week."""

    weeks: tuple[Week, ...]
    usual: Ground
    ground: Ground


def reread(
    measured: Measured,
    facts: PublicFacts,
    taken: tuple[Measurement, ...] = (),
    start: Start | None = None,
) -> Density:
    """The published table, from what was measured and public facts alone. Post-processing.

    `start` is that of its margins, where somebody has worked it out.
    """
    kept = keep(measured, facts)
    found, distortion = read(measured, facts, start)
    ids = facts.released_ids
    values, lower, upper, median = rounded(
        *found.with_quantiles(0.5 - COVERAGE / 2, 0.5 + COVERAGE / 2, 0.5), in_place=True
    )
    remarks = distortion.remarks(facts.grid.starts())
    if not states_intervals(facts):
        return Density(ids, values, None, None, None, taken, remarks, median, found, kept)
    return Density(ids, values, lower, upper, COVERAGE, taken, remarks, median, found, kept)


def states_intervals(facts: PublicFacts) -> bool:
    """Whether counts and sums have intervals: by public facts alone, never by what was seen."""
    places = np.unique(facts.released_ids).size
    people = facts.expected_users or 1
    return people * gaussian_mu(facts.epsilon, facts.delta) >= LEAST_PLACE * places


def measure(
    source: Source, wall: Wall, facts: PublicFacts
) -> tuple[Measured, tuple[Measurement, ...], Start]:
    """Take the planned measurements through the wall, in their order; and where a reading of the
    margins starts, which the weights of the matrix follow."""
    settings = settings_for(facts)
    events = _events(facts, settings)
    taken: list[Measurement] = []

    def take(label: str, box: object) -> Measurement:
        event = events[label][0]
        found = wall.gaussian(box, sigma2=event.sigma2, touched=event.touched, label=label)  # type: ignore[arg-type]
        taken.append(found)
        return found

    counting = facts.counting
    steps = _steps(facts)
    ladder = take(LADDER, source.ladder(steps, counting))
    sums, sds = step_sums(ladder.values, ladder.variance, steps)
    sums = grained(sums, sds)
    limits = _limits(sums, sds, facts, settings)
    places = take(PLACES, source.place_totals(limits.places, counting))
    slots = take(SLOTS, source.slot_totals(limits.slots, counting))
    margins = Margins(
        steps,
        sums,
        sds,
        *_of_light_users(places, limits.places),
        *_of_light_users(slots, limits.slots),
    )
    start = _start(margins, facts)
    ground = start.ground
    of_places, of_slots = separable(matrix_weights(ground))
    give_back((facts.released_ids.size, facts.grid.slots))
    norms = event_norms(ground.area, np.outer(of_places, of_slots), MAP_UNITS)
    # Of a year of hours every table counts: that of the weights is made anew after the count.
    counts = source.weighted(limits.matrix, counting, norms)
    weights = np.outer(of_places, of_slots)
    box = apply_weighted_map(counts, ground.area, weights, norms, MAP_UNITS, "weighted matrix")
    del weights, norms, counts
    held = take(MATRIX, box)
    del box
    found = Measured(margins, of_places, of_slots, *_steps_of_light_users(held, limits.matrix))
    if is_large(held.values.shape):  # its whole steps are all that is read of it
        taken[-1] = replace(held, values=np.empty(0, dtype=np.int64))
    return found, tuple(taken), start


def _of_light_users(
    measured: Measurement, bound: WeightBound
) -> tuple[NDArray[np.float64], float, float]:
    """Numbers in which a light user counts one, on the lattice that is kept, the noise's standard
    deviation, and the limit from which on a user is not light."""
    most = bound.whole / WEIGHT_UNITS
    sd = measured.sd / most
    return grained(measured.estimate() / most, sd), sd, effective(bound)


def _steps_of_light_users(
    measured: Measurement, bound: WeightBound
) -> tuple[NDArray[Any], float, float]:
    """The same in whole steps of that lattice, tile by tile."""
    most = bound.whole / WEIGHT_UNITS
    sd = measured.sd / most
    units = np.float64(measured.units_per_count)
    steps = [
        whole_steps(measured.values[rows] / units / most, sd)
        for rows in tiles(measured.values.shape)
    ]
    return np.concatenate(steps), sd, effective(bound)


def read(
    measured: Measured, facts: PublicFacts, start: Start | None = None
) -> tuple[Posterior, Distortion]:
    """The posterior of the density behind the measurements. Post-processing."""
    settings = settings_for(facts)
    start = start or _start(measured.margins, facts)
    return infer(
        start.ground,
        measured,
        rich=settings.rich,
        pooled=settings.pooled,
        memory=Memory(start.weeks, start.usual.field) if start.weeks else None,
    )


def _steps(facts: PublicFacts) -> tuple[int, ...]:
    return ladder_steps(facts.grid.slots, facts.places if facts.counting is Counting.VISITS else 1)


def _limits(
    sums: NDArray[np.float64], sds: NDArray[np.float64], facts: PublicFacts, settings: Settings
) -> Limits:
    """The planned limits, fitted to people as active as the noisy ladder says."""
    return settings.fitted(_activity(sums, sds, facts).visits)


def _activity(sums: NDArray[np.float64], sds: NDArray[np.float64], facts: PublicFacts) -> Activity:
    return read_ladder(tuple(sums.tolist()), tuple(sds.tolist()), _steps(facts), *_told(facts))


def _told(facts: PublicFacts) -> tuple[float, float, bool, int]:
    """What a reading of the ladder is told: people, their visits, whether these are stated, and
    the number of slots."""
    stated = "visits" in facts.parameters
    return facts.expected_users or 1, expected_visits(facts), stated, facts.grid.slots


def _grounds(
    margins: Margins, facts: PublicFacts, weeks: tuple[Week, ...]
) -> tuple[Ground, Ground]:
    """Of the mean of all weeks, and of this one: the same where there are no others."""
    mean = mean_margins(margins, weeks) if weeks else margins
    activity = _activity(margins.ladder, margins.ladder_sd, facts)
    usual = prepare(
        mean,
        shared_level(activity, weeks) if weeks else activity,
        _area(facts),
        centres(facts),
        facts.grid.starts(),
        facts.grid.ends(),
    )
    return usual, this_week(usual, margins, mean) if weeks else usual


def _start(margins: Margins, facts: PublicFacts) -> Start:
    weeks = _weeks(margins, facts)
    return Start(weeks, *_grounds(margins, facts, weeks))


def ground_of(margins: Margins, facts: PublicFacts) -> Ground:
    """The ground of this week that a reading of these margins starts from."""
    return _start(margins, facts).ground


def _weeks(margins: Margins, facts: PublicFacts) -> tuple[Week, ...]:
    """What earlier releases measured, each read on ground of its own; those of another city go."""
    calendar = HourCalendar.of(facts.grid.starts(), facts.grid.ends())
    found = []
    for earlier in facts.earlier:
        measured = earlier.measured
        ground = _grounds(measured.margins, earlier.facts, ())[0]
        frame, _ = frame_of(ground, measured)
        found.append(week(frame, ground, measured.margins, margins, _area(facts), calendar))
    return tuple(one for one in found if one.alike >= OTHER_CITY)


def _bound_in_words(settings: Settings) -> str:
    """What one person may contribute to each measurement."""
    return (
        "Each person was weighted down, in each measurement by itself, to a Euclidean norm: "
        f"their totals per place to at most {settings.place_limit:g}, their totals per time slot "
        f"to at most {settings.slot_limit:g}, a ladder of how active they are to at most 1; in the "
        f"table of places and time slots a person counts for at most {settings.matrix_limit:g}, "
        "where a visit to a busy place or in a busy hour counts for less than one elsewhere. The "
        "norms are of visits times a factor that follows from how active people were found to be."
    )


def _area(facts: PublicFacts) -> csr_array:
    """Released x counted shares; the identity where what is counted is released."""
    if facts.overlay is None:
        return csr_array(eye_array(facts.places, format="csr"))
    area = csr_array(facts.overlay.shares.T)
    area.sum_duplicates()
    return area


def _events(facts: PublicFacts, settings: Settings) -> Mapping[str, tuple[GaussianEvent, int, int]]:
    """Label to (event, cells, units per count), calibrated jointly."""
    slots, steps = facts.grid.slots, _steps(facts)
    released = facts.released_ids.size * slots
    limits = {
        LADDER: (float(LADDER_UNITS), len(steps), settings.ladder_share),
        PLACES: (settings.place_limit * WEIGHT_UNITS, facts.places, settings.place_share),
        SLOTS: (settings.slot_limit * WEIGHT_UNITS, slots, settings.slot_share),
        MATRIX: (
            settings.matrix_limit * WEIGHT_UNITS * MAP_UNITS,
            released,
            settings.matrix_share,
        ),
    }
    units = {
        LADDER: int(ladder_gains(steps)[0]),
        PLACES: WEIGHT_UNITS,
        SLOTS: WEIGHT_UNITS,
        MATRIX: WEIGHT_UNITS * MAP_UNITS,
    }
    found: Calibration = calibrate_gaussians(
        facts.epsilon,
        facts.delta,
        [GaussianPart(rounded_up(l2), cells, share) for l2, cells, share in limits.values()],
    )
    return {
        label: (GaussianEvent(rounded_up(l2), sigma2, cells), cells, units[label])
        for (label, (l2, cells, _)), sigma2 in zip(limits.items(), found.sigma2, strict=True)
    }
