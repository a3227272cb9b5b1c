"""The contract of a method of synthesis: what it declares, plans, measures and generates.

A method *declares* what it reads, its unit and its parameters with their ranges. It *plans* its
measurements from public facts alone: label, sensitivity, share of the budget; the ledger reserves
exactly that. It *measures* left of the wall: a source gives boxes (`Private[Counts]`) and the wall
opens them, charged first. It *generates* people from noisy numbers and public facts alone, chunk
after chunk, with a public seed that has nothing to do with the noise: the same numbers and the same
seed give the same people, so that everything after `measure` is post-processing and can be done
again at no cost.

Adding a method is a file of its own and a line of `registry`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sfumato.density.scheme import Parameter, Plan, PlannedMeasurement, PublicFacts
from sfumato.errors import UsageError
from sfumato.model.counts import Counts
from sfumato.model.places import Places
from sfumato.model.private import Private
from sfumato.model.traces import Box
from sfumato.privacy.accounting import gaussian_mu, guarantee
from sfumato.privacy.calibration import gaussian_sigma2
from sfumato.privacy.events import USER_PERIOD, GaussianEvent, PrivacyEvent, Unit
from sfumato.privacy.exact import rounded_up
from sfumato.privacy.wall import Wall

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Noisy = Mapping[str, NDArray[Any]]
"""What was measured, by label, in counts: paid for, so public. It is kept beside the people."""


class Reads(StrEnum):
    """What a method is given as its source."""

    EVENTS = "events"
    """A `Source`: bounded counts over public places and slots, on any engine."""
    TRACES = "traces"
    """A `TraceSource`: boxes of true fixes, which rules and `Private.map` turn into counts."""
    NOTHING = "nothing"
    """A release alone: nothing is measured and nothing is charged."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One parameter of a method: its range, its default, and what it is."""

    words: str
    default: Parameter
    low: float = -math.inf
    high: float = math.inf

    def check(self, name: str, value: Parameter) -> Parameter:
        """The value as the default's type, refused where it lies outside."""
        wanted = type(self.default)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if wanted in (int, float):
            whole = number and float(value).is_integer()
            if not number or (wanted is int and not whole):
                raise self._refusal(name)
            if not self.low <= float(value) <= self.high:
                raise self._refusal(name)
            return wanted(value)
        if not isinstance(value, wanted):
            raise self._refusal(name)
        return value

    def _refusal(self, name: str) -> UsageError:
        kind = {int: "a whole number", float: "a number", bool: "true or false"}
        what = kind.get(type(self.default), "a word")
        ends = f" from {self.low:g} to {self.high:g}" if math.isfinite(self.high) else ""
        return UsageError(f"The parameter {name} is {what}{ends}.", remedy=f"{self.words}.")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a method says of itself, so that no list elsewhere has to name it."""

    reads: Reads
    unit: Unit = USER_PERIOD
    parameters: Mapping[str, Setting] = field(default_factory=lambda: MappingProxyType({}))
    lives: bool = False
    """It measures how persons live, so that made-up ones are counted alike for the page."""
    on_release: bool = False
    """It can be matched to the table of a release (`SynthFacts.cube`)."""
    least: float = 0.0
    """Signal (expected people or trips times mu) from which on it is of use …"""
    least_place: float = 0.0
    """… and for each place (`sfumato.synthesis.fitness`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Cube:
    """A released table of places and slots that people are matched to: public numbers."""

    values: Floats
    """Place x slot, visits or people as the release counts them; not negative."""
    total: float
    """Their sum, as released."""


@dataclass(frozen=True, slots=True, eq=False)
class SynthFacts:
    """Everything a method may know. All of it is given or chosen; none is read from the data."""

    public: PublicFacts
    """Budget, slots, places and what is expected of them, as a density's plan knows them."""
    people: int
    """How many people to make up."""
    seed: int
    """Of the people: public, in the manifest, and apart from the noise's key."""
    settings: Mapping[str, Parameter] = field(default_factory=lambda: MappingProxyType({}))
    """The method's parameters, each checked, defaults filled in."""
    places: Places | None = None
    """Where made-up events are put: towers by name, zones and cells by points inside."""
    counted: Places | None = None
    """Where true events are counted, where that is elsewhere: towers that are spread over zones."""
    box: Box | None = None
    """The public region of traces."""
    cube: Cube | None = None
    """The table of a release that is there already."""

    def number(self, name: str) -> float:
        """A parameter that is a number."""
        return float(self.settings[name])


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Records of some made-up people, all of each, in order of person and time."""

    user: Ints
    """Numbers of the people from 0 on; what is published is made from them, and no id is known."""
    time: Ints
    """Epoch microseconds."""
    place: Ints | None = None
    """Row of `SynthFacts.places`."""
    lon: Floats | None = None
    lat: Floats | None = None
    """Points, where a method has some of its own."""
    trip: Ints | None = None
    """Numbers of a person's trips, where records are traces."""


LENGTHS_KM = (0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 25.0, 50.0)
"""Upper ends of the classes of a move's length, where a method has none of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class TripTables:
    """What a page shows of trips: made-up ones, or what was released about true ones."""

    hours: Floats | None = None
    """By hour of the day of their first record."""
    cells: Floats | None = None
    """By square of a grid, `x * side + y` from the south-west; the root of their number is the
    side."""
    begin: bool = False
    """These are the squares that trips begin in, not those that they pass."""
    pairs: Floats | None = None
    """First x last square of a grid of its own, counted alike."""
    lengths: Floats | None = None
    """By length …"""
    ends: tuple[float, ...] = ()
    """… whose classes end here; the last one has none."""
    unit: str = "km"


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """What a page shows of people: made-up ones, or what was released about true ones."""

    density: Floats | None = None
    """Place x slot: how many of them are seen there then."""
    lengths: Floats | None = None
    """Moves between one record and the next, by length."""
    flows: Floats | None = None
    """Moves between the regions of `synthesis.regions`, from x to; from home to work where a
    method measures lives."""
    ends_km: tuple[float, ...] = LENGTHS_KM
    """Upper ends of the classes of length; longer moves are in the last one."""
    trips: TripTables | None = None
    """Of methods for traces, what they count of whole trips instead of moves."""


class Method(Protocol):
    """A way to make people up. Stateless: the same facts always give the same plan."""

    @property
    def name(self) -> str: ...

    @property
    def declares(self) -> Declaration: ...

    def plan(self, facts: SynthFacts) -> Plan:
        """The measurements to come, in order, from public facts alone."""

    def measure(self, source: Any, wall: Wall, facts: SynthFacts) -> Noisy:
        """Take exactly the planned measurements through the wall, and nothing else.

        `source` is what the method declares to read. Nothing private may leave but by the wall.
        """

    def generate(self, noisy: Noisy, facts: SynthFacts) -> Iterator[Chunk]:
        """`facts.people` people from noisy numbers and public facts alone, in chunks.

        The only randomness is `people_stream(facts.seed, …)`.
        """

    def released(self, noisy: Noisy, facts: SynthFacts) -> Figures:
        """What the noisy numbers say of true people, to be shown beside the made-up ones."""


@runtime_checkable
class CountsTrips(Protocol):
    """A method for traces, whose tables are of trips."""

    def counted(self, made: Any, noisy: Noisy, facts: SynthFacts) -> Noisy:
        """Tables of made-up trips, counted as true ones were; `noisy` has what was chosen by it."""

    def shown(self, tables: Noisy, noisy: Noisy, facts: SynthFacts) -> TripTables:
        """What tables say of trips: those of made-up ones, or the noisy ones themselves."""


@dataclass(frozen=True, slots=True)
class Block:
    """One vector that is measured with Gaussian noise, as it is planned.

    Unit and neighbours: those of the method. `l2` bounds what one unit adds to the vector, in
    lattice units of 1/`units_per_count`; the counts that are measured under this label carry the
    same figure (`Counts.l2`), and the wall charges theirs.
    """

    label: str
    cells: int
    l2: float
    share: float
    """Of the method's rho; the shares of its blocks sum to at most 1."""
    units_per_count: int = 1
    touched: int | None = None
    """The most cells that one unit moves; default: all of them."""


def blocks_within(
    epsilon: float, delta: float, blocks: Sequence[Block], beside: Sequence[PrivacyEvent] = ()
) -> dict[str, PlannedMeasurement]:
    """Blocks as measurements whose noise keeps all of it, with events `beside`, in the budget.

    Shares divide what rho the events beside leave of the Gaussian curve; the accountant is asked,
    and the noise raised by a hair until it agrees.

    Raises:
        UsageError: The events beside leave nothing.
    """
    spent = math.fsum(
        event.l2**2 / (2 * float(event.sigma2))
        for event in beside
        if isinstance(event, GaussianEvent)
    )
    whole = gaussian_mu(epsilon, delta) ** 2 / 2 - spent
    for slack in (0.0, 1e-9, 1e-6, 1e-3, 0.02, 0.06, 0.12, 0.2, 0.3):
        rho = whole * (1 - slack)
        if rho <= 0:
            break
        found = {block.label: _planned(block, rho * block.share) for block in blocks}
        events = [*beside, *(planned.event for planned in found.values())]
        if guarantee(events, delta).epsilon <= epsilon:
            return found
    raise UsageError(
        "What is measured beside leaves no budget for the people.", remedy="Raise `epsilon`."
    )


def _planned(block: Block, rho: float) -> PlannedMeasurement:
    l2 = rounded_up(block.l2)
    sigma2 = gaussian_sigma2(l2, rho)
    event = GaussianEvent(l2, sigma2, block.touched or block.cells)
    sd = math.sqrt(float(sigma2)) / block.units_per_count
    return PlannedMeasurement(block.label, event, block.cells, sd, sums=True)


def measured_blocks(
    planned: Mapping[str, PlannedMeasurement],
    counts: Callable[[str], Private[Counts]],
    wall: Wall,
) -> dict[str, Floats]:
    """Each block's counts through the wall: noisy numbers by label, in counts."""
    found = {}
    for label, one in planned.items():
        assert isinstance(one.event, GaussianEvent)
        noisy = wall.gaussian(
            counts(label),
            sigma2=Fraction(one.event.sigma2),
            label=label,
            touched=one.event.touched,
        )
        found[label] = noisy.estimate()
    return found


def people_stream(seed: int, *path: int | str) -> np.random.Generator:
    """Random numbers for made-up people: by the public seed and where they are used."""
    words = [int.from_bytes(str(part).encode()[:8], "little") for part in path]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *words])))


def settings_of(method: Method, given: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """The method's parameters, each within its range, defaults filled in.

    Raises:
        UsageError: It has no such parameter, or a value lies outside.
    """
    known = method.declares.parameters
    unknown = sorted(set(given) - set(known))
    if unknown:
        has = "; ".join(f"{name} ({setting.words})" for name, setting in known.items())
        raise UsageError(
            f"The method {method.name} has no parameter {', '.join(unknown)}.",
            remedy=f"It has {has}." if has else "It has none.",
        )
    return {
        name: setting.check(name, given.get(name, setting.default))
        for name, setting in known.items()
    }
