"""The contract of a scheme: what it plans from public facts, and what it hands back.

A scheme is a recipe: which measurements, which refinement. `plan` sees public facts alone
and says what the measurements will cost and how noisy the counts will be; the ledger
reserves exactly that. `run` is given a `Source` (private arrays that nobody can read) and
a `Wall` (the only thing that can measure them, charging first), takes exactly the planned
measurements, and turns them into a density by post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sfumato.density.posterior import Posterior
from sfumato.errors import UsageError
from sfumato.geography.overlay import Layout
from sfumato.model.counts import MOST_PEOPLE, Bound, Counting, WeightBound
from sfumato.model.source import Source
from sfumato.model.time_grid import TimeGrid
from sfumato.privacy.events import USER_PERIOD, Measurement, PrivacyEvent, Unit

if TYPE_CHECKING:
    from sfumato.density.bayes.measured import Kept
    from sfumato.geography.overlay import Overlay
    from sfumato.privacy.wall import Wall

Parameter = bool | int | float | str
"""A scheme's own public setting: plain values, so that they can stand in a manifest."""


MOST_SLOTS = 1 << 15
"""Slots of one release: three and a half years of hours. A scheme's time and memory grow with
them, in places with their square."""
MOST_CELLS = 1 << 28
"""Numbers of one release: 2 GiB for one array of them."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicFacts:
    """Everything a plan may know. All of it is given or chosen; none is read from the data."""

    place_ids: NDArray[np.str_]
    grid: TimeGrid
    epsilon: float
    delta: float
    expected_users: int | None = None
    unit: Unit = USER_PERIOD
    bound: Bound = field(default_factory=lambda: WeightBound(3.0))
    counting: Counting = Counting.VISITS
    overlay: Overlay | None = None
    """Shares of the counted places in the released zones; `None` releases what is counted."""
    parameters: Mapping[str, Parameter] = field(default_factory=lambda: MappingProxyType({}))
    layout: Layout | None = None
    """Where the counted places are; schemes that merge neighbours need it."""
    zone_layout: Layout | None = None
    """Where the zones of the overlay are."""
    town: int | None = None
    """People of the whole town, where a rehearsal is of a part of it: it sets a scheme's regime."""
    earlier: tuple[Kept, ...] = ()
    """Measurements of earlier releases about the same released places. Paid for then, so public."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.epsilon) and self.epsilon > 0):
            raise UsageError("Epsilon must be finite and positive.", remedy="Try `epsilon=0.3`.")
        if not 0 < self.delta < 1:
            raise UsageError(
                "Delta must lie between 0 and 1.", remedy="Well below one over the users: 1e-7."
            )
        if self.expected_users is not None:
            if not 1 <= self.expected_users <= MOST_PEOPLE:
                raise UsageError(f"Between 1 and {MOST_PEOPLE:.0e} users may be expected.")
            if self.delta > 1 / self.expected_users:
                raise UsageError(
                    f"Delta {self.delta:g} is above one over the {self.expected_users} expected "
                    "users: such a promise would allow publishing somebody's whole record.",
                    remedy=f"Take `delta={0.1 / self.expected_users:.0e}` or less.",
                )
        if isinstance(self.bound, WeightBound) and self.bound.most != 1:
            raise UsageError(
                "The bound of a release weighs nobody by more than 1.",
                remedy="Give it a limit alone; a scheme sets `most` itself where it measured.",
            )
        ids = np.array(self.place_ids, dtype=np.str_)
        if self.overlay is not None and not np.array_equal(self.overlay.place_ids, ids):
            raise UsageError("The overlay is not about the places that are counted.")
        if self.layout is not None and self.layout.areas.size != ids.size:
            raise UsageError("The layout is not about the places that are counted.")
        ids.setflags(write=False)
        object.__setattr__(self, "place_ids", ids)
        if self.grid.slots > MOST_SLOTS or self.cells > MOST_CELLS:
            raise UsageError(
                f"One release has at most {MOST_SLOTS:,} slots, and {MOST_CELLS:,} numbers.",
                remedy="Take a longer `slot`, or publish the period in parts; `fold` folds it to a "
                "typical week, and a stream has no such limit.",
            )
        for one in self.earlier:
            if not np.array_equal(one.facts.released_ids, self.released_ids):
                raise UsageError("An earlier release is about other places than this one.")
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    @property
    def places(self) -> int:
        """How many places are counted."""
        return int(self.place_ids.size)

    @property
    def released_ids(self) -> NDArray[np.str_]:
        """The keys of the released table."""
        return self.place_ids if self.overlay is None else self.overlay.zone_ids

    @property
    def cells(self) -> int:
        """How many numbers are counted: places times slots."""
        return self.places * self.grid.slots


@dataclass(frozen=True, slots=True)
class PlannedMeasurement:
    """One measurement to come: its label, what it will be charged as, its size and noise."""

    label: str
    event: PrivacyEvent
    cells: int
    sd: float
    """Standard deviation of the noise on each number, in counts."""
    sums: bool = False
    """Gaussian noise on the bounded counts themselves, which are sums of one vector for each
    person, without negative entries and of length at most `l2`; not on a transform of them, not
    a choice. A part of a person's record then costs rho twice and not four times
    (`privacy.ledger.nesting`)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The measurements a run will take, in order, and what a reader should expect of them."""

    scheme: str
    measurements: tuple[PlannedMeasurement, ...]
    sd: float
    """Expected standard deviation of one released count, from the noise alone."""
    lines: tuple[str, ...]
    """The plan in plain words."""
    bound: str = ""
    """What one person may contribute, in words, where the facts' own bound is not all of it."""

    def __post_init__(self) -> None:
        if len({planned.label for planned in self.measurements}) != len(self.measurements):
            raise UsageError(f"The plan of {self.scheme} uses a label twice.")

    @property
    def events(self) -> dict[str, PrivacyEvent]:
        """Label to event, in the order of the plan: what the ledger reserves."""
        return {planned.label: planned.event for planned in self.measurements}

    @property
    def sums(self) -> tuple[str, ...]:
        """Labels of noise on plain sums of bounded contributions, none of them negative."""
        return tuple(planned.label for planned in self.measurements if planned.sums)


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """The released table, place x slot, with the median and the interval that a scheme has for it.

    `values` add up. `lower` and `upper` hold the count with probability `coverage`; a scheme that
    cannot keep that gives none of the three. Whether it gives them, and a median, hangs on the
    scheme and on public facts, never on the data: columns come and go for no person.
    """

    place_ids: NDArray[np.str_]
    values: NDArray[np.float64] | NDArray[np.int64]
    lower: NDArray[np.float64] | None
    upper: NDArray[np.float64] | None
    coverage: float | None
    measurements: tuple[Measurement, ...]
    remarks: tuple[str, ...] = ()
    """What readers should know of these very numbers, found from noisy measurements alone."""
    median: NDArray[np.float64] | NDArray[np.int64] | None = None
    """The posterior median of each number, for reading single cells; medians do not add up."""
    posterior: Posterior | None = None
    """What the numbers were taken from, where the scheme has one: any sum has an interval there."""
    kept: Mapping[str, NDArray[Any]] | None = None
    """Arrays to keep beside the table, where the scheme can read them again: measurements, which
    are paid for, and public settings."""
    sums_unknown: str = ""
    """Why these very numbers have no posterior, where their scheme has one."""

    def __post_init__(self) -> None:
        shape = self.values.shape
        if len(shape) != 2 or shape[0] != self.place_ids.size:
            raise UsageError("A density has one row for each place.")
        if len({part is None for part in (self.lower, self.upper, self.coverage)}) != 1:
            raise UsageError("A density has lower, upper and coverage, or none of them.")
        if self.coverage is not None and not 0 < self.coverage < 1:
            raise UsageError("The coverage of intervals lies between 0 and 1.")
        for array in (self.values, self.lower, self.upper, self.median):
            if array is None:
                continue
            if array.shape != shape:
                raise UsageError("A density has one interval and one median for each number.")
            if not np.isfinite(array).all():
                raise FloatingPointError("A density holds finite numbers only.")
            array.setflags(write=False)

    @property
    def tainted(self) -> bool:
        """True where any noise came from a seeded stream, which is for tests only."""
        return any(measurement.tainted for measurement in self.measurements)


@dataclass(frozen=True, slots=True)
class Signal:
    """How loud a population is under a budget: public, and known before anything is measured."""

    people: float
    whole: float
    """People times mu, the sharpness of the whole budget …"""
    place: float
    """… and the same for a released place."""
    people_per_cell: float
    """People over the numbers that are released (places times slots) …"""
    visits_per_cell: float
    """… and the visits that are expected of them."""

    def reaches(self, other: Signal) -> bool:
        """Whether all of it is at least as large."""
        return all(
            getattr(self, name) >= getattr(other, name)
            for name in ("people", "whole", "place", "people_per_cell", "visits_per_cell")
        )


class Margin(StrEnum):
    """What a measurement is a total of."""

    PLACES = "places"
    SLOTS = "slots"
    BOTH = "places and slots"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a scheme says of itself, so that no list elsewhere has to name it."""

    parameters: Mapping[str, str]
    """Its own parameters, each with its range or meaning in words."""
    own_bounds: bool = False
    """It bounds people by rules of its own and takes no bound from outside."""
    margins: Mapping[str, Margin] = field(default_factory=lambda: MappingProxyType({}))
    """Labels of measurements that are totals of the counted places, of slots, or counts of both:
    what a release is made of where arithmetic on the rest fails (`density.common.spread`)."""
    learns_from_earlier: bool = False
    """It can expect the rhythms of earlier releases."""
    refines_zones: bool = False
    """It works on zones that towers are spread over, so it is audited with such zones."""
    audited_with: Mapping[str, Parameter] = field(default_factory=lambda: MappingProxyType({}))
    """Settings under which the audit's few made-up people reach every cap."""
    other_values: Mapping[str, Mapping[str, Parameter]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """Every parameter at another value than the audit's, with what it takes to matter."""
    no_posterior: str = ""
    """Why it cannot say how errors of its cells hang together, so that sums have no interval;
    empty where it can. Hangs on the scheme alone."""
    plenty: Signal | None = None
    """From this signal on a release is of use without asking a rehearsal (`density.fitness`)."""
    never_refused: Signal | None = None
    """From this signal on a release is not refused, whatever a rehearsal says."""


class Scheme(Protocol):
    """A recipe with a name. Stateless: the same facts always give the same plan."""

    @property
    def name(self) -> str: ...

    @property
    def declares(self) -> Declaration: ...

    def plan(self, facts: PublicFacts) -> Plan:
        """The measurements to come, from public facts alone."""

    def run(self, source: Source, wall: Wall, facts: PublicFacts) -> Density:
        """Take exactly the planned measurements through the wall and refine them."""


@runtime_checkable
class ForeseesTotal(Protocol):
    """A scheme that knows from public facts how well it will know the total."""

    def total_half_width(
        self, facts: PublicFacts, visits: float, coverage: float, fleet: bool = False
    ) -> float:
        """Expected half of the total's interval, over the total, where people make so many visits
        on average."""
