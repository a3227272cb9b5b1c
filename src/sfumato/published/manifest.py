"""`Manifest`: the privacy statement of a release, for machines; `statement` says it in words.

It holds everything a reader needs to judge the release and nothing that was read from the
data without being paid for. It is written once, with the output, and depends only on the
reservation and the public settings, so that a rerun writes the same bytes: its one time is
that of the reservation, and the cumulative spend is as of then.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
)
from pydantic_core import from_json

from sfumato.errors import InputError
from sfumato.model.folded import FoldedGrid
from sfumato.model.formats import FORMAT, current
from sfumato.model.time_grid import TimeGrid
from sfumato.published.about import About

MANIFEST_NAME = "manifest.json"
MOST_STATED = 64 << 20
"""Bytes of a statement. It grows with the number of measurements, never with the table."""
ADDED, LARGEST = "added", "largest"
"""How losses of several operators amount to one: people may be in several, or nobody is."""
Kind = Literal["density", "stream", "traces", "synthetic"]
"""What is published: a table of places and slots, one that grew slot by slot, moved locations,
records of people who do not exist."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReleaseFacts(_Part):
    """Which release this is."""

    id: str
    name: str
    dataset: str = Field(description="Whose people these are, in the holder's words.")
    reserved_at: str = Field(description="When the budget was set aside (UTC).")


class Measured(_Part):
    """Something that was paid for: a noisy table, a noisy choice, a stream's account."""

    label: str
    event: dict[str, Any] = Field(description="Mechanism, sensitivity and scale as charged.")
    cells: int
    units_per_count: int = Field(description="Lattice units that make one count.")
    variance: float | None = Field(
        description="Variance of the noise, in lattice units squared; null where a choice is paid."
    )
    sd: float | None = Field(
        description="Standard deviation of the noise, in counts; of a stream's account the least "
        "that a measurement on it can have; null where a choice is paid."
    )


class Spent(_Part):
    """What some releases amount to together."""

    releases: int
    rho: float | None
    epsilon: float
    delta: float
    method: str


class Period(_Part):
    start: str
    end: str


class WholeRecords(_Part):
    """What releases for whole records alone amount to: this is what a cap for them holds."""

    releases: int
    rho: float | None
    epsilon: float | None = Field(description="Null where no finite epsilon holds at this delta.")
    delta: float


class UnitLoss(_Part):
    """What everything released amounts to for one unit, at its worst day, window or instant."""

    unit: str
    neighbours: str
    epsilon: float | None = Field(description="Null where no finite epsilon holds at this delta.")
    delta: float
    rho: float | None
    releases: int = Field(description="How many releases count for it.")
    not_bounded_by: int = Field(
        description="Releases that protect something smaller and say nothing about this unit."
    )
    whole_records: WholeRecords | None = Field(
        default=None,
        description="For user-period, where there are releases for days or windows too. Those "
        "count in the figures above, each as often as it takes to cover its period; no cap holds "
        "them.",
    )


class Cumulative(_Part):
    """Everything charged about the same people up to and including this release."""

    datasets: list[str] = Field(description="Data sets that hold the same people.")
    releases: int | None = Field(
        default=None, description="Releases about these people so far, for whatever unit."
    )
    lifetime: Spent
    worst_period: Spent
    worst_period_is: Period | None
    caps: list[str]
    per_unit: list[UnitLoss] = Field(
        default=[],
        description="The loss per unit that results: units contain one another, and every "
        "release counts for all of them.",
    )

    by_rules: int = Field(
        default=0,
        description="Publications by rules (`sfumato anonymise`) about these people so far, which "
        "have no bound: no figure here covers what they tell. Absent where there are none.",
    )


class Privacy(_Part):
    """The guarantee, and what it is a guarantee of."""

    unit: str
    neighbours: str
    bound: str
    counting: str
    measurements: list[Measured]
    rho: float | None
    epsilon: float
    delta: float
    method: str = Field(
        description="The theorem behind epsilon: pure, zcdp, gaussian, numerical; of several "
        "releases together added (basic composition) or largest (nobody is in two of them)."
    )
    cumulative: Cumulative


class PlacesFacts(_Part):
    kind: str
    count: int
    sha256: str


class FoldFacts(_Part):
    """The period behind a typical week or day."""

    to: str = Field(description="week or day.")
    repeats: int = Field(description="How many of them the period has.")
    start: str
    end: str

    @classmethod
    def of(cls, grid: FoldedGrid) -> FoldFacts:
        first, last = grid.whole.start(0), grid.whole.end(-1)
        return cls(
            to=grid.name, repeats=grid.repeats, start=first.isoformat(), end=last.isoformat()
        )

    def words(self) -> str:
        """What was done, for readers: a sentence and what follows from it."""
        return (
            f"The period from {self.start[:10]} to {self.end[:10]} ({self.repeats} {self.to}s) is "
            f"folded to a typical {self.to}: in every place and slot a person counts once, in "
            f"however many of the {self.to}s they were there at that time of the {self.to}. The "
            f"numbers are neither sums over the {self.to}s nor their mean, and the dates of the "
            f"slots stand for all {self.repeats}."
        )


class GridFacts(_Part):
    start: str
    end: str
    step_seconds: float
    slots: int
    tz: str
    sha256: str
    fold: FoldFacts | None = Field(
        default=None,
        description="Where the period is folded; start and end are then those of the slots.",
    )

    def alike(self, other: GridFacts) -> bool:
        """Whether slots of two periods can be compared: as long, on one clock, folded alike."""
        kinds = [
            (one.step_seconds, one.tz, one.fold and (one.fold.to, one.fold.repeats))
            for one in (self, other)
        ]
        return kinds[0] == kinds[1]

    def days(self) -> str:
        """First and last day, of the whole period where it is folded."""
        if self.fold is not None:
            return f"a typical {self.fold.to} of {self.fold.start[:10]} to {self.fold.end[:10]}"
        return f"{self.start[:10]} to {self.end[:10]}"

    @classmethod
    def of(cls, grid: TimeGrid) -> GridFacts:
        return cls(
            fold=FoldFacts.of(grid) if isinstance(grid, FoldedGrid) else None,
            start=grid.start(0).isoformat(),
            end=grid.end(-1).isoformat(),
            step_seconds=grid.step.total_seconds(),
            slots=grid.slots,
            tz=grid.tz,
            sha256=grid.fingerprint(),
        )


class SchemeFacts(_Part):
    name: str
    parameters: dict[str, bool | int | float | str]
    as_published: bool = Field(
        default=False, description="True for a printed form whose guarantee does not hold."
    )
    interval_coverage: float = Field(
        description="Share of cases in which lower and upper are meant to hold the count; 0 where "
        "no interval is stated."
    )
    median: bool = Field(
        default=False,
        description="True where the table has a median beside each count.",
    )
    sum_coverage: float = Field(
        default=0.0,
        description="Share of cases in which the interval of a slot's sum is meant to hold it, "
        "where single counts have none.",
    )

    @property
    def coverage_of_sums(self) -> float:
        """That of the sums of a stream's slots; 0 where these have no interval."""
        return self.sum_coverage or self.interval_coverage


class TotalFacts(_Part):
    """The sum of all counts, and an interval that is meant to hold the true sum."""

    value: float
    lower: float
    upper: float
    coverage: float = Field(description="Share of cases in which the true sum lies in between.")

    def words(self) -> str:
        from sfumato.published.estimate import Estimate  # which loads more than a manifest needs

        return str(Estimate(self.value, self.lower, self.upper, self.coverage))


class PosteriorFacts(_Part):
    """Whether sums over places and slots have an interval."""

    stated: bool = Field(
        description="True where posterior.npz says how errors of cells are correlated, so that any "
        "sum, difference or ratio has an interval."
    )
    why_not: str = Field(description="Why the scheme cannot state it; empty where it does.")


class FitnessFacts(_Part):
    """Whether the release was expected to be of use: forecast before anything was spent."""

    figures: dict[str, float] | None = Field(
        description="Forecast on made-up people: half of the 90 % interval of the grand total over "
        "the total, mean error over that of the better of zeros and an even spread, share of "
        "visits in cells whose error exceeds half of their value; null where the signal was far "
        "above what these ask for."
    )
    ranges: dict[str, tuple[float, float]] = Field(
        default_factory=dict,
        description="Both ends of figures by how often people may be seen, as far as that was "
        "forecast; a release is refused where the lower one is too large.",
    )
    most: dict[str, float] = Field(description="What each figure may be at most.")
    signal: float = Field(description="Expected people times the sharpness of the whole budget.")
    signal_per_place: float
    failing: list[str] = Field(description="Figures that are too large.")
    anyway: bool = Field(description="True where the holder published it although it was refused.")


class LedgerRow(_Part):
    """The row that set the budget aside: in which ledger, and where in it.

    No seal of the chain stands here. Seals go over the fingerprint of the input, so they would be
    the one thing in a release that differs between neighbouring data whatever the noise.
    """

    id: str
    row: int = Field(
        description="Its number; of releases that were put together, that of the last."
    )


class Source(_Part):
    """A release that another one was made from, and what it had promised."""

    id: str
    name: str
    dataset: str
    manifest: str = Field(description="SHA-256 of its manifest.json.")
    scheme: str
    unit: str
    rho: float | None
    epsilon: float
    delta: float
    method: str
    ledger: LedgerRow
    measurements: list[str] = Field(
        description="Labels of its own among the measurements of this manifest."
    )


class MadeFrom(_Part):
    """Releases that this one was computed from: nothing was measured anew, nothing charged."""

    how: Literal["weigh", "combine", "synth"]
    estimates: str = Field(description="What a count estimates, in words.")
    overlap: float | None = Field(
        description="Of several operators: the share of the smaller one's people who are at "
        "another one, too, as stated; null where there is one."
    )
    sources: list[Source]


class Manifest(_Part):
    """The privacy statement of one release."""

    format: Literal["sfumato-manifest"] = "sfumato-manifest"
    version: str = Field(
        default=FORMAT,
        description="The number of the format (docs/formats.md).",
        json_schema_extra={"const": FORMAT},
    )
    kind: Kind = Field(description="What is published.")
    differential_privacy: bool = True
    tainted: bool = Field(description="True where noise came from a test seed: not private.")
    release: ReleaseFacts
    about: About | None = Field(
        default=None,
        description="Title, publisher, licence and contact; null where the holder said none.",
    )
    privacy: Privacy
    counted: PlacesFacts
    released: PlacesFacts
    grid: GridFacts
    scheme: SchemeFacts
    public_inputs: dict[str, bool | int | float | str | None]
    fitness: FitnessFacts | None = Field(
        default=None,
        description="Null where nothing was forecast: nobody said how many people there are, or "
        "it is not a density.",
    )
    total: TotalFacts | None = Field(
        default=None,
        description="Null where the scheme states no interval of a sum.",
    )
    posterior: PosteriorFacts | None = Field(
        default=None,
        description="Whether sums have an interval; null where no sums are published.",
    )
    made_from: MadeFrom | None = Field(
        default=None,
        description="Where it was computed from finished releases: weighed to people, or several "
        "operators put together; null for a release of its own.",
    )
    software: dict[str, str]
    ledger: LedgerRow
    files: dict[str, str] = Field(
        description="SHA-256 of every other file of the release. A stream's copies of its slots "
        "below `slots/` are not listed; its table and its lines are."
    )
    caveats: list[str]
    not_covered: list[str]

    @property
    def title(self) -> str:
        """What readers call it: its title, or its name where it has none."""
        return (self.about and self.about.title) or self.release.name


COMPUTATIONAL = (
    "whoever can tell bits that SHAKE-256 makes from a secret key of 256 random bits from coin "
    "flips: all noise is drawn from such bits, so the guarantee is computational;"
)
"""Said of every guarantee, since no key is as long as the noise that is drawn from it."""

NOT_COVERED = (
    COMPUTATIONAL,
    "facts about groups that would be just as true without any one person;",
    "what others publish about the same people, or releases that the holder's ledger does not "
    "know of;",
    "the list of places, the calendar and the settings, which are public and were chosen without "
    "looking at the data;",
    "the holder's own copies: the records, the ledger, its keys, logs;",
    "how long the work took and how much memory and disk it used.",
)


def manifest_text(manifest: Manifest) -> str:
    """The file's content: JSON with sorted keys, the same bytes for the same manifest."""
    data = manifest.model_dump(mode="json")
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def manifest_in(stated: Any) -> Manifest:
    """The manifest that a tree of JSON states.

    Raises:
        OtherFormat: It has another format, from which no steps lead to today's.
        ValueError: It states none that makes sense.
    """
    if not isinstance(stated, dict) or stated.get("format") != "sfumato-manifest":
        raise ValueError("no manifest")
    stated = current("manifest", stated.get("version"), stated)
    return Manifest.model_validate_json(json.dumps(stated))


def read_manifest(path: Path) -> Manifest:
    """The manifest at `path`; `OSError` or `ValueError` where there is none that makes sense."""
    return manifest_in(from_json(manifest_bytes(path)))


def manifest_bytes(path: Path) -> bytes:
    """What stands in a manifest that somebody else may have put there.

    Raises:
        OSError: It is absent or cannot be read.
        ValueError: It is no regular file, or larger than a manifest can be; nothing was read.
    """
    from sfumato.io.foreign import contents  # which loads more than a manifest needs

    try:
        return contents(path, MOST_STATED)
    except InputError as error:
        raise ValueError(error.problem) from None


def json_schema() -> str:
    """The schema that is published in docs/schema/manifest.schema.json."""
    schema = Manifest.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
