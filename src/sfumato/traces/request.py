"""`SanitiseRequest`: everything about a release of traces that is public, checked, not begun.

From true traces to reports, as a request asks: charge first, then draw.

This is the one place where traces pass the wall. `Charger.charge` is called before a single
digit of the stream is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato import __version__
from sfumato.errors import BudgetRefused, UsageError
from sfumato.model.time_grid import TimeGrid
from sfumato.model.traces import Traces
from sfumato.privacy.events import Charger, GaussianEvent, MetricEvent, PrivacyEvent
from sfumato.privacy.exact import decimal_up, exact
from sfumato.privacy.ledger.chain import Frozen, spelled
from sfumato.privacy.noise import BitStream
from sfumato.privacy.noise.planar import Lattice, Strength
from sfumato.traces.mechanisms import (
    GaussianTraces,
    Prediction,
    first_of_each,
    first_windows,
    gaussian,
    independent,
    on_printed_clock,
    on_public_clock,
    predictive,
    windows_between,
)
from sfumato.traces.region import Box, Outside, apply

FROZEN: Frozen = {
    Strength: ("Strength", ("per_metre",)),
    Box: ("Box", ("west", "south", "east", "north")),
    Prediction: (
        "Prediction",
        ("report", "test", "threshold_m", "most_reports", "most_tests"),
    ),
    GaussianTraces: (
        "GaussianTraces",
        ("box", "radius_m", "most_reports", "epsilon", "delta"),
    ),
}
"""How reservations spell these settings, whatever they are called today."""


class Kind(StrEnum):
    """How a trace is reported."""

    INDEPENDENT = "independent"
    """Every fix with fresh noise."""
    CLOCK = "clock"
    """One report for every window of a public clock."""
    PRINTED_CLOCK = "printed-clock"
    """One noisy location for every window that counts from a trip's first fix."""
    PREDICTIVE = "predictive"
    """A fresh report only where the last one no longer fits."""
    GAUSSIAN = "gaussian"
    """Gaussian noise for many reports within a radius."""


@dataclass(frozen=True)
class SanitiseRequest:
    """A release of traces that has been asked for. `most_reports` is per user, and public."""

    dataset: str
    name: str
    kind: Kind
    start: date
    end: date
    strength: Strength | None = None
    most_reports: int | None = None
    window_s: int | None = None
    box: Box | None = None
    outside: Outside = Outside.KEEP
    lattice: Lattice = field(default_factory=Lattice)
    prediction: Prediction | None = None
    gaussian: GaussianTraces | None = None
    rolling_per_metre: float | None = None
    rolling_window_s: int = 86_400

    def __post_init__(self) -> None:
        if self.end <= self.start:
            raise UsageError("The period ends before it begins.")
        needs: list[tuple[bool, str]] = [
            (self.kind is Kind.GAUSSIAN and self.gaussian is None, "--radius, --epsilon, --delta"),
            (self.kind is Kind.PREDICTIVE and self.prediction is None, "--threshold"),
            (self.kind in (Kind.CLOCK, Kind.PRINTED_CLOCK) and not self.window_s, "--window 5min"),
            (self.strength is None and self.kind is not Kind.GAUSSIAN, "--expected-noise 100m"),
            (self.most_reports is None and self.kind is not Kind.CLOCK, "--most-reports N"),
            (self.outside is not Outside.KEEP and self.box is None, "--region"),
        ]
        missing = [what for needed, what in needs if needed]
        if missing:
            raise UsageError(
                f"Reports of kind {self.kind} need {' and '.join(missing)}.",
                remedy="These are public choices and are never read from the data.",
            )
        if self.most_reports is not None and self.most_reports < 1:
            raise UsageError("A user has at least one report.")
        if self.rolling_per_metre is not None and self.kind in (Kind.GAUSSIAN, Kind.PREDICTIVE):
            raise UsageError("A rolling budget counts independent reports and windows only.")
        if self.kind is Kind.CLOCK and self.rolling_per_metre is not None:
            assert self.window_s is not None
            assert self.strength is not None
            hours = self.rolling_window_s // 3600 + 1
            at_once = min(-(-hours * 3600 // self.window_s), self.reports)
            if at_once * self.strength.per_metre > self.rolling_per_metre:
                raise BudgetRefused(
                    f"A report in every window costs {at_once * self.strength.per_metre:.3g} per "
                    f"metre within {hours} hours, more than the rolling budget.",
                    remedy="Choose longer windows or more noise. Nothing was charged.",
                )

    @property
    def period(self) -> tuple[int, int]:
        """The public period in epoch microseconds (UTC days)."""
        edges = TimeGrid.between(self.start, self.end, "1d", "UTC").edges
        return int(edges[0]), int(edges[-1])

    @property
    def clock(self) -> NDArray[np.int64]:
        assert self.window_s is not None
        return windows_between(*self.period, self.window_s)

    @property
    def reports(self) -> int:
        """The most reports a user can have: public."""
        if self.kind is Kind.CLOCK:
            return int(self.clock.size)
        assert self.most_reports is not None
        return self.most_reports

    @property
    def event(self) -> PrivacyEvent:
        """What is charged: the most that one user's whole trace can lose."""
        if self.gaussian is not None and self.kind is Kind.GAUSSIAN:
            found: GaussianEvent = self.gaussian.event
            return found
        if self.prediction is not None and self.kind is Kind.PREDICTIVE:
            return MetricEvent(self.prediction.per_metre, "predictive planar Laplace")
        assert self.strength is not None
        total = decimal_up(self.reports * exact(self.strength.per_metre))
        return MetricEvent(total, "planar Laplace")

    @property
    def delta(self) -> float:
        gaussian = self.gaussian if self.kind is Kind.GAUSSIAN else None
        return 0.0 if gaussian is None else gaussian.delta

    @property
    def expected_noise_m(self) -> float:
        if self.gaussian is not None and self.kind is Kind.GAUSSIAN:
            return self.gaussian.expected_noise_m
        assert self.strength is not None
        return self.strength.expected_noise_m

    def config(self) -> dict[str, Any]:
        """Everything that shapes the output: what a rerun must have in common.

        The version is on record and not compared.
        """
        return {
            "sfumato": __version__,
            "traces": self.kind.value,
            "from": self.start.isoformat(),
            "to": self.end.isoformat(),
            "per_metre": None if self.strength is None else self.strength.per_metre,
            "most_reports": self.most_reports,
            "window_s": self.window_s,
            "region": None if self.box is None else list(self.box.bounds),
            "outside": self.outside.value,
            "lattice": self.lattice.per_degree,
            "prediction": spelled(self.prediction, FROZEN) if self.prediction else None,
            "gaussian": spelled(self.gaussian, FROZEN) if self.gaussian else None,
            "rolling_per_metre": self.rolling_per_metre,
            "rolling_window_s": self.rolling_window_s,
        }


LABEL = "locations"


def eligible(traces: Traces, asked: SanitiseRequest) -> Traces:
    """Fixes of the public period, at most the stated number of reports a user."""
    inside = traces.between(*asked.period)
    if asked.kind is Kind.PRINTED_CLOCK:
        assert asked.window_s is not None
        return first_windows(inside, asked.window_s, asked.most_reports)
    if asked.kind is Kind.PREDICTIVE:  # the walk itself stops fresh reports at the bound
        return inside
    return first_of_each(inside, asked.most_reports)


def draw_reports(
    traces: Traces, asked: SanitiseRequest, charger: Charger, stream: BitStream
) -> Traces:
    """Noisy reports of eligible traces, under pseudonyms, after the outside policy."""
    charger.charge(LABEL, asked.event)
    noise, on = stream.child("noise"), asked.lattice
    match asked.kind:
        case Kind.INDEPENDENT:
            assert asked.strength is not None
            made = independent(traces, asked.strength, noise, lattice=on)
        case Kind.PRINTED_CLOCK:
            assert asked.strength is not None
            assert asked.window_s is not None
            made = on_printed_clock(traces, asked.window_s, asked.strength, noise, lattice=on)
        case Kind.CLOCK:
            assert asked.strength is not None
            assert asked.window_s is not None
            made = on_public_clock(
                traces, asked.clock, asked.window_s, asked.strength, noise, lattice=on
            )
        case Kind.PREDICTIVE:
            assert asked.prediction is not None
            made = predictive(traces, asked.prediction, noise, lattice=on).traces
        case Kind.GAUSSIAN:
            assert asked.gaussian is not None
            made = gaussian(traces, asked.gaussian, noise, lattice=on)
    return apply(asked.outside, asked.box, pseudonyms(made, stream.child("names")))


def pseudonyms(traces: Traces, stream: BitStream) -> Traces:
    """Names from a random order of the users, and rows in the order of the names.

    A name hides nothing that the trace itself tells; it only keeps ids out of the file.
    """
    users = np.unique(traces.user)
    # Distinct random keys sort the users; ties of 64-bit words are broken by position.
    keys = stream.words(users.size)
    rank = np.empty(users.size, np.int64)
    rank[np.argsort(keys, kind="stable")] = np.arange(users.size)
    width = len(str(max(users.size - 1, 1)))
    names: NDArray[np.object_] = np.array(
        [f"p{number:0{width}d}" for number in range(users.size)], dtype=object
    )
    user = rank[np.searchsorted(users, traces.user)]
    order = np.lexsort((traces.time, traces.trip, user))
    trips = traces.trip[order]
    moved = Traces(
        names,
        user[order],
        trips,
        traces.time[order],
        traces.lon[order],
        traces.lat[order],
        np.arange(order.size, dtype=np.int64),
    )
    starts = moved.starts
    outing = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    first = outing[np.searchsorted(moved.user, np.arange(users.size))]
    return Traces(
        names, moved.user, outing - first[moved.user], moved.time, moved.lon, moved.lat, moved.row
    )
