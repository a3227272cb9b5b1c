"""`SanitiseRequest`: everything about a release of traces that is public, checked, not begun.

`sanitise_request` reads the words in which people ask (100m, ln4, 5min) and refuses what makes no
sense before any data is opened. Nothing here is ever read from the data.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from datetime import date
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import shapely
from numpy.typing import NDArray

from sfumato import __version__
from sfumato.errors import BudgetRefused, UsageError
from sfumato.geography.projection import Projection
from sfumato.model.time_grid import TimeGrid, day_of
from sfumato.model.traces import MICROSECONDS, Box
from sfumato.privacy.calibration import gaussian_sigma2_for
from sfumato.privacy.events import GaussianEvent, PrivacyEvent, Unit, UnitKind
from sfumato.privacy.ledger import Claim
from sfumato.privacy.mechanisms.planar import Prediction, planar_event, plane_event, plane_l2
from sfumato.privacy.noise.planar import (
    Lattice,
    Strength,
    parse_level,
    parse_metres,
    parse_seconds,
    strength,
)

UNIT = Unit(UnitKind.POINT)
LABEL = "locations"
"""The one measurement of a release of traces, as reservations name it."""
TESTS_PER_REPORT = 10
"""Tests of a prediction that are paid for with each report."""
LEVEL_RADIUS_M = 200.0
"""A daily level is meant within this radius, that of the examples of Andrés et al. 2013."""
_PER_METRE = 100
"""Units of the plane are centimetres: fine enough that the exact Gaussian curve may be claimed."""
_SLACK = 1 + 1e-6
"""For the stretch between the points of the box at which it is computed."""
_EDGE_M = 1.9 * 6_371_007.0
"""The plane shows the whole globe within two radii."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianTraces:
    """Gaussian noise for many reports: metric privacy within a stated radius.

    Planar Laplace pays n epsilon for n reports. Gaussian noise of standard deviation sigma on
    both coordinates pays mu = r0 sqrt(n) / sigma for two traces whose fixes are never farther than
    r0 apart, which is the better bargain from a few reports on: for n = 36, r0 = 200 m and
    (epsilon, delta) = (2, 1e-6) the mean noise is 3.4 km instead of 7.2 km.

    Claim. Unit: one user's trace given its instants, within r0 on the WGS84 ellipsoid. The domain
    is a *public* box: locations outside it are moved to its edge first, and distances are meant
    after that. They are then mapped to an equal-area plane around the box and rounded to
    centimetres; the plane stretches distances by at most a factor that is computed from the box
    and rounding adds at most sqrt(2) cm, so one user's 2n integers move by at most
    l2 = sqrt(n) (100 stretch r0 + sqrt(2)).
    """

    box: Box
    radius_m: float
    most_reports: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius_m) and self.radius_m > 0) or self.most_reports < 1:
            raise UsageError("Gaussian noise needs a radius and a number of reports.")

    @cached_property
    def plane(self) -> Projection:
        return Projection.around(shapely.box(*self.box.bounds))

    @cached_property
    def stretch(self) -> float:
        """The most by which the plane lengthens a distance inside the box."""
        west, south, east, north = self.box.bounds
        lon, lat = np.meshgrid(np.linspace(west, east, 17), np.linspace(south, north, 17))
        factors = pyproj.Proj(self.plane.proj).get_factors(lon.ravel(), lat.ravel())
        return float(np.max(factors.tissot_semimajor)) * _SLACK

    @cached_property
    def reach(self) -> float:
        """The most by which one location moves on the plane, in its units."""
        return self.stretch * self.radius_m * _PER_METRE + math.sqrt(2.0)

    @cached_property
    def event(self) -> GaussianEvent:
        """What is charged: sensitivity and variance in centimetres."""
        l2 = plane_l2(self.reach, self.most_reports)
        found = gaussian_sigma2_for(self.epsilon, self.delta, l2, 2 * self.most_reports)
        return plane_event(self.reach, self.most_reports, found.sigma2[0])

    def to_plane(self, lon: Floats, lat: Floats) -> NDArray[np.int64]:
        """Locations, moved to the box first, in whole units east and north of its middle."""
        inside = self.box.clamp(lon, lat)
        return np.rint(self.plane.points(*inside) * _PER_METRE).astype(np.int64)

    def to_degrees(self, units: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Longitude and latitude of points of the plane; those beyond the globe at its edge."""
        noisy = units / _PER_METRE
        norm = np.maximum(np.hypot(noisy[:, 0], noisy[:, 1]) / _EDGE_M, 1.0)
        back = self.plane.back(np.asarray(shapely.points(noisy / norm[:, None]), dtype=object))
        degrees = shapely.get_coordinates(back)
        return degrees[:, 0].copy(), degrees[:, 1].copy()

    @property
    def sigma_m(self) -> float:
        """Standard deviation of the noise on each coordinate, in metres."""
        return math.sqrt(self.event.sigma2) / _PER_METRE

    @property
    def expected_noise_m(self) -> float:
        """Mean distance between a location and its report."""
        return self.sigma_m * math.sqrt(math.pi / 2)


MOST_REPORTS = 10**9
"""One a second for thirty years."""


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


class Outside(StrEnum):
    """What happens to reports that land outside the public region.

    All three look at the noisy location alone and are free. Drawing again until a report is inside
    is not: its normaliser depends on where the true location is. Near a corner that can add
    0.86 to a loss of 1.41, and in general up to as much again as was stated.
    """

    KEEP = "keep"
    """Publish it where it is."""
    CLAMP = "clamp"
    """Move it to the nearest point of the region, where such reports pile up."""
    DROP = "drop"
    """Leave it out; its time stamp goes with it."""


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
            (
                self.kind is Kind.GAUSSIAN and self.gaussian is None,
                "`radius`, `epsilon` and `delta`",
            ),
            (self.kind is Kind.PREDICTIVE and self.prediction is None, "`threshold`"),
            (self.kind in (Kind.CLOCK, Kind.PRINTED_CLOCK) and not self.window_s, "`window`"),
            (self.strength is None and self.kind is not Kind.GAUSSIAN, "`expected_noise`"),
            (self.most_reports is None and self.kind is not Kind.CLOCK, "`most_reports`"),
            (self.outside is not Outside.KEEP and self.box is None, "`region`"),
        ]
        missing = [what for needed, what in needs if needed]
        if missing:
            raise UsageError(
                f"Reports of kind {self.kind} need {' and '.join(missing)}.",
                remedy="These are public choices and are never read from the data.",
            )
        if self.most_reports is not None and not 1 <= self.most_reports <= MOST_REPORTS:
            raise UsageError(
                f"A user has between 1 and {MOST_REPORTS:,} reports.", remedy="See `most_reports`."
            )
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
            return self.gaussian.event
        if self.prediction is not None and self.kind is Kind.PREDICTIVE:
            return self.prediction.event
        assert self.strength is not None
        return planar_event(self.strength, self.reports)

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

    def claim(self, fingerprint: str, out: Path) -> Claim:
        """What the ledger is asked to set aside."""
        return Claim(
            dataset=self.dataset,
            name=self.name,
            unit=UNIT,
            delta=self.delta,
            period=self.period,
            events=((LABEL, self.event),),
            config=self.config(),
            fingerprint=fingerprint,
            out=str(out),
            radius_m=None if self.gaussian is None else self.gaussian.radius_m,
            least_m=self.lattice.step_m,
        )

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
            "prediction": None if self.prediction is None else asdict(self.prediction),
            "gaussian": None if self.gaussian is None else asdict(self.gaussian),
            "rolling_per_metre": self.rolling_per_metre,
            "rolling_window_s": self.rolling_window_s,
        }


def sanitise_request(
    *,
    dataset: str,
    name: str,
    start: str | date,
    end: str | date,
    kind: str = "independent",
    expected_noise: str | float | None = None,
    radius: str | float | None = None,
    level: str | float | None = None,
    most_reports: int | None = None,
    window: str | None = None,
    threshold: str | float | None = None,
    test_share: float = 0.1,
    epsilon: float | None = None,
    delta: float | None = None,
    region: str | tuple[float, float, float, float] | None = None,
    outside: str = "keep",
    lattice: int = 100_000,
    daily_level: str | float | None = None,
) -> SanitiseRequest:
    """The request that these words make; see `sanitise` for what they mean.

    Raises:
        UsageError: A word is not known, or something that this kind of report needs is missing.
        BudgetRefused: A report in every window passes the rolling budget by itself.
    """
    try:
        how, policy = Kind(kind), Outside(outside)
    except ValueError as error:
        raise UsageError(
            f"Unknown value: {error}.",
            remedy=f"Kinds: {', '.join(Kind)}; outside: {', '.join(Outside)}.",
        ) from None
    first, last = day_of(start), day_of(end)
    box = None if region is None else Box.parse(region)
    gaussian, prediction, wanted = None, None, None
    if how is Kind.GAUSSIAN:
        if radius is None or epsilon is None or delta is None or most_reports is None or not box:
            raise UsageError(
                "Gaussian noise needs `radius`, `epsilon`, `delta`, `region` and `most_reports`."
            )
        gaussian = GaussianTraces(box, parse_metres(radius), most_reports, epsilon, delta)
    else:
        wanted = strength(expected_noise, radius, level)
    if how is Kind.PREDICTIVE and threshold is not None and wanted and most_reports is not None:
        test = Strength(wanted.per_metre * test_share)
        tests = TESTS_PER_REPORT * most_reports
        prediction = Prediction(wanted, test, parse_metres(threshold), most_reports, tests)
    return SanitiseRequest(
        dataset=dataset,
        name=name,
        kind=how,
        start=first,
        end=last,
        strength=wanted,
        most_reports=None if how is Kind.CLOCK else most_reports,
        window_s=None if window is None else parse_seconds(window),
        box=box,
        outside=policy,
        lattice=Lattice(lattice),
        prediction=prediction,
        gaussian=gaussian,
        rolling_per_metre=None
        if daily_level is None
        else parse_level(daily_level) / LEVEL_RADIUS_M,
    )


def windows_between(start_us: int, end_us: int, window_s: int) -> NDArray[np.int64]:
    """The public clock: beginnings of the windows in epoch microseconds."""
    if window_s < 1 or end_us <= start_us:
        raise UsageError("A public clock needs a period and windows of at least a second.")
    return np.arange(start_us, end_us, window_s * MICROSECONDS, dtype=np.int64)
